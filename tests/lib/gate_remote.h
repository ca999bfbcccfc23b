/* gate_remote.h - a store that is elsewhere, played by one that is here.
 *
 * A call that needs the store is sent; what the store then does and when its answer arrives is for
 * the test to say: it may say yes, no, or fail, answer late, twice or never. The owner does what
 * the header asks of him: a yes that comes back TG_ERR_STALE is refunded.
 */
#ifndef GATE_REMOTE_H
#define GATE_REMOTE_H

#include "gate_kit.h"

struct gate_remote {
    struct tg_store *store;
    tg_limits set;
    struct tg_scope scope;
    struct tg_debit debit; /* what every call asks for */
    int64_t rate, cost;    /* the limits */
};

/* What one execution in the store came to. */
struct remote_answer {
    enum tg_err err;
    struct tg_axes axes;
    bool debited;
    tg_ms at;
};

/* `rate` calls and `cost` units in a window that does not end; a call costs `each`. */
void remote_open(struct gate_remote *remote, int64_t rate, int64_t cost, int64_t each);
void remote_close(struct gate_remote *remote);

/* The store executes the debit; with `fails` it says that it could not, and has not. */
struct remote_answer remote_execute(struct gate_remote *remote, tg_ms now, bool fails);

/* The answer arrives. Refunds what is the owner's to refund. */
enum tg_err remote_deliver(struct gate_remote *remote, struct tg_gate *gate, tg_lease lease,
                           const struct remote_answer *arrived, tg_ms now,
                           struct tg_answer *answer);

/* Fails the test unless exactly so many calls have been paid for. */
void remote_expect_paid(struct gate_remote *remote, const char *what, int64_t calls);

#endif /* GATE_REMOTE_H */
