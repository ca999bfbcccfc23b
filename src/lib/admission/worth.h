/* worth.h - stage 4: the policy is asked, and hears what became of the calls it let pass.
 *
 * A policy is called without the gate's lock, which it may well take longer than. So what it is to
 * hear is noted under the lock and told after it.
 *
 *     worth()  ->  admitted()  ->  released()
 *
 * in this order, each at most once for a call, the last two only of calls that were admitted. The
 * order holds even if another thread ends the lease at the very moment it is made: a policy that
 * wants to hear of the end hears of the admission before anybody can end it; and if that was in
 * vain because the call had been given up meanwhile, it hears that nothing was used.
 *
 * Policies are told apart by an epoch, not by their address, which may be that of an old one that
 * has been freed: leases of an old policy are not reported to the new one, nor to the old one,
 * which can therefore be freed without waiting for leases of ten minutes. The choice rejected, a
 * pointer to the policy in each ticket, would have made every old policy outlive its leases.
 */
#ifndef TG_ADMISSION_WORTH_H
#define TG_ADMISSION_WORTH_H

#include "lib/admission/stages.h"

/* What a policy is to hear about a lease that has ended. */
struct worth_report {
    struct tg_policy *policy; /* null: there is nothing to tell */
    struct tg_spent spent;
    tg_ms now;
};

/* Leases that end by themselves, told in batches: between two of them others get the lock. */
enum { WORTH_BATCH = 32 };

struct worth_reports {
    size_t n;
    struct worth_report reports[WORTH_BATCH];
};

/* ---- under the gate's lock ---- */

/* The gate has a policy, which will judge the call. */
void worth_choose(struct passage *passage);

/* The call has its ticket, which keeps what the policy will have to be told. */
void worth_note(struct passage *passage, struct ticket *ticket);

/* A remote store has answered: what the policy knew of the call. `call` is filled as far as a
 * policy may look at it, and is good as long as the passage. */
void worth_recall(struct passage *passage, struct tg_call *call, const struct ticket *ticket);

/* The lease of a ticket that was judged ends now, before anything is given back. `actual` is
 * negative if it is not known. */
void worth_ended(const struct tg_gate *gate, const struct ticket *ticket, tg_ms now, int64_t actual,
                 struct worth_report *report);

/* ---- without it ---- */

/* Asks. True: refused. In shadow it counts, and lets pass. */
bool worth_refuses(const struct passage *passage);

/* The call is admitted. */
void worth_admitted(const struct passage *passage);

/* It is refused for want of a slot, or after the policy let it pass: the answer says why. */
void worth_refused(const struct passage *passage);

/* It was, for nothing: somebody has ended it meanwhile. */
void worth_was_in_vain(const struct passage *passage);

void worth_tell(const struct worth_report *report);

#endif
