/* net_admit_kit.h - a gateway with callers and two workers, for tests of the Admit service.
 *
 * Everything happens in one thread, and time is the test's: kit_pass() moves the clock that the
 * workers' loops read, and lets happen what is due.
 */
#ifndef NET_ADMIT_KIT_H
#define NET_ADMIT_KIT_H

#include "server/admit/admit.h"

struct admit_kit {
    struct clock clock;
    struct gateway *gateway;
    struct worker workers[2];
};

/* The reply of one question. */
struct kit_answer {
    bool told; /* done() has come */
    struct admit_reply reply;
    struct admit_pending *pending;
};

/* `more` is put behind `version`, callers and a ledger in memory. The callers are `all`, which may
 * state everything, `none`, which may state nothing, and `other`, which may state a tenant; their
 * tokens are their names. Four calls may run at once, and others may wait for an hour, unless
 * `more` has a `gate`. */
void kit_open(struct admit_kit *kit, const char *more);
void kit_close(struct admit_kit *kit);

/* A gate in which four may run and all may wait, for `more`. */
#define KIT_GATE                                                                                   \
    "gate:\n"                                                                                      \
    "  concurrency: {law: fixed, initial: 4, min: 1, max: 4}\n"                                    \
    "  queue: {wait: {high: 1h, normal: 1h, low: 1h}}\n"                                           \
    "  low_priority_shed_ratio: 1\n"

/* One turn of each loop. */
void kit_turn(struct admit_kit *kit);

/* So many ms later; the gates and the bound leases are ticked as by the control thread. */
void kit_pass(struct admit_kit *kit, tg_ms ms);

/* By its token; false: it is none. */
bool kit_caller(struct admit_kit *kit, const char *token, struct admit_caller *caller);

/* Asks the worker of that number. */
void kit_ask(struct admit_kit *kit, size_t worker, const char *token, const struct admit_ask *ask,
             struct kit_answer *answer);

/* The same, for admit_peek(). */
void kit_peek(struct admit_kit *kit, size_t worker, const char *token, const struct admit_ask *ask,
              struct kit_answer *answer);

/* kit_ask() with nothing stated: whether it was let in. */
bool kit_admit(struct admit_kit *kit, const char *token, struct kit_answer *answer);

/* Whether it was there. */
bool kit_release(struct admit_kit *kit, size_t worker, const char *token,
                 const struct kit_answer *answer);

struct tg_gate_stats kit_stats(const struct admit_kit *kit);
int64_t kit_queued(const struct admit_kit *kit);

#endif
