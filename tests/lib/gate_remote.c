/* gate_remote.c - a store elsewhere, played. */
#include "gate_remote.h"

#include <stdio.h>

enum { STORE_BYTES = 256 * 1024 };

void remote_open(struct gate_remote *remote, int64_t rate, int64_t cost, int64_t each)
{
    char specs[2][80];

    snprintf(specs[0], sizeof specs[0], "fixed_window:limit=%lld,window=1000000000",
             (long long)rate);
    snprintf(specs[1], sizeof specs[1], "fixed_window:limit=%lld,window=1000000000",
             (long long)cost);
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, specs[0]),
                                      limit_on(TG_AXIS_COST, specs[1])};
    *remote = (struct gate_remote){.rate = rate, .cost = cost};
    remote->store = must_store(STORE_BYTES, 1);
    remote->set = must_define(remote->store, limits, 2);
    remote->scope = scope_of(remote->set, "tenant");
    remote->debit = debit_of(&remote->scope, each);
}

void remote_close(struct gate_remote *remote)
{
    tg_store_free(remote->store);
}

struct remote_answer remote_execute(struct gate_remote *remote, tg_ms now, bool fails)
{
    struct remote_answer answer = {.err = fails ? TG_ERR_STORE : TG_OK, .at = now};
    struct tg_decision decision;

    if (fails)
        return answer;
    assert_int_equal(tg_store_take(remote->store, &remote->debit, now, &decision, &answer.axes),
                     TG_OK);
    answer.debited = decision.allowed;
    return answer;
}

enum tg_err remote_deliver(struct gate_remote *remote, struct tg_gate *gate, tg_lease lease,
                           const struct remote_answer *arrived, tg_ms now, struct tg_answer *answer)
{
    const struct tg_answer before = *answer;
    enum tg_err err =
        tg_gate_store_answered(gate, lease, arrived->err, &arrived->axes, now, answer);

    if (err != TG_OK)
        assert_memory_equal(answer, &before, sizeof before);
    if (err == TG_ERR_STALE && arrived->debited)
        assert_int_equal(tg_store_refund(remote->store, &remote->debit, now, arrived->at), TG_OK);
    if (err == TG_OK)
        check_answer(answer);
    return err;
}

void remote_expect_paid(struct gate_remote *remote, const char *what, int64_t calls)
{
    struct tg_debit peek = remote->debit;
    struct tg_decision decision;
    struct tg_axes axes;

    peek.cost = 0;
    assert_int_equal(tg_store_peek(remote->store, &peek, 1000, &decision, &axes), TG_OK);
    const struct tg_decision *rate = &axes.decision[TG_AXIS_RATE];
    int64_t rate_used = remote->rate - rate->remaining - rate->allowed;
    int64_t cost_used = remote->cost - axes.decision[TG_AXIS_COST].remaining;
    if (rate_used != calls || cost_used != calls * remote->debit.cost)
        fail_msg("%s: %lld calls and %lld units are paid for; wanted %lld and %lld", what,
                 (long long)rate_used, (long long)cost_used, (long long)calls,
                 (long long)(calls * remote->debit.cost));
}
