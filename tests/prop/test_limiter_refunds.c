/* test_limiter_refunds.c - refunds and settlements never over-credit, and debt is felt.
 *
 * Two limiters live the same life, but for one thing: `charged` is charged estimates and gets
 * back, later, what was not used; `oracle` knows the future and is charged only what is used, when
 * it is charged. Whatever the times of the settlements, and whatever comes in between, `charged`
 * may never show more than `oracle` does. The estimate is never below the actual here; the other
 * way round is debt, with a test of its own.
 */
#include "check.h"
#include "walk.h"

#define ALL WALK_ALL_STRATEGIES
#define STEPS 100
#define PENDING_MAX 8

static uint64_t seed;

struct pending {
    struct tg_charge charge;
    int64_t actual;
};

struct pair {
    struct subject *charged;
    struct subject oracle;
    struct pending pending[PENDING_MAX];
    size_t n;
};

/* Where arithmetic rounds, what is given back may come a millisecond early. */
static void compare(struct walk *walk, const struct pair *pair, const char *after)
{
    tg_ms grace = walk->subject.exact ? 0 : 1;
    struct tg_decision got = subject_balance(pair->charged, walk->now);
    struct tg_decision most = subject_balance(&pair->oracle, walk->now + grace);

    walk_check(walk, got.remaining <= most.remaining, "after %s: %s, but never charged more: %s",
               after, decision_text(got).text, decision_text(most).text);
}

/* A call whose cost is known. What `charged` admits, `oracle` must admit. */
static void take_known(struct walk *walk, struct pair *pair)
{
    int64_t cost = subject_cost(pair->charged, &walk->draw);

    if (!subject_take(pair->charged, walk->now, cost).allowed)
        return;
    tg_ms grace = walk->subject.exact ? 0 : 1;
    walk_check(walk,
               subject_peek(&pair->oracle, walk->now, cost).allowed ||
                   subject_peek(&pair->oracle, walk->now + grace, cost).allowed,
               "%lld more are admitted than if the refunds had never been charged",
               (long long)cost);
    pair->oracle.limiter.ops->take(&pair->oracle.limiter, pair->oracle.state, walk->now, cost);
}

/* A call whose cost is an estimate. */
static void take_estimate(struct walk *walk, struct pair *pair)
{
    int64_t cost = subject_cost(pair->charged, &walk->draw);

    if (pair->n == PENDING_MAX || !subject_take(pair->charged, walk->now, cost).allowed)
        return;
    struct pending *pending = &pair->pending[pair->n++];
    pending->charge = (struct tg_charge){walk->now, cost};
    pending->actual = draw_chance(&walk->draw, 40) ? 0 : draw_between(&walk->draw, 0, cost);
    pair->oracle.limiter.ops->take(&pair->oracle.limiter, pair->oracle.state, walk->now,
                                   pending->actual);
}

/* One of the estimates is settled, or what was not used refunded: that is the same. */
static void settle_one(struct walk *walk, struct pair *pair)
{
    if (pair->n == 0)
        return;
    size_t i = (size_t)draw_between(&walk->draw, 0, (int64_t)pair->n - 1);
    struct pending pending = pair->pending[i];

    pair->pending[i] = pair->pending[--pair->n];
    if (draw_chance(&walk->draw, 50))
        subject_settle(pair->charged, walk->now, pending.charge, pending.actual);
    else
        subject_refund(pair->charged, walk->now, pending.charge,
                       pending.charge.cost - pending.actual);
}

static void check_no_over_credit(struct walk *walk)
{
    struct pair pair = {.charged = &walk->subject, .oracle = subject_copy(&walk->subject)};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        if (draw_chance(&walk->draw, 40)) {
            take_known(walk, &pair);
            compare(walk, &pair, "a call");
        } else if (draw_chance(&walk->draw, 50)) {
            take_estimate(walk, &pair);
            compare(walk, &pair, "an estimate");
        } else {
            settle_one(walk, &pair);
            compare(walk, &pair, "a settlement");
        }
    }
    subject_free(&pair.oracle);
}

static void refund_and_settle_never_over_credit(void **state)
{
    (void)state;
    walk_all("refund and settle never over-credit", seed, ALL, 1500, check_no_over_credit);
}

/* ---- windows give back to the unit ---- */

/* A window's count has no memory of order: settled within its window, an estimate is as if it had
 * been right. The state itself must be that of the oracle, where nothing else has happened. */
static void check_settled_at_once(struct walk *walk)
{
    struct subject oracle = subject_copy(&walk->subject);

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        struct tg_charge charge = {walk->now, subject_cost(&walk->subject, &walk->draw)};
        int64_t actual = draw_between(&walk->draw, 0, charge.cost);
        if (!subject_take(&walk->subject, walk->now, charge.cost).allowed)
            continue;
        subject_settle(&walk->subject, walk->now, charge, actual);
        oracle.limiter.ops->take(&oracle.limiter, oracle.state, walk->now, actual);
        struct tg_decision got = subject_balance(&walk->subject, walk->now);
        struct tg_decision want = subject_balance(&oracle, walk->now);
        walk_check(walk, decision_equal(got, want), "%s, charged right at first %s",
                   decision_text(got).text, decision_text(want).text);
    }
    subject_free(&oracle);
}

static void an_estimate_settled_at_once_is_as_if_it_had_been_right(void **state)
{
    unsigned windows = (1u << TG_FIXED_WINDOW) | (1u << TG_SLIDING_WINDOW) |
                       (1u << TG_SLIDING_LOG) | (1u << TG_TOKEN_BUDGET);
    (void)state;
    walk_all("an estimate settled at once is as if it had been right", seed, windows, 2400,
             check_settled_at_once);
}

/* ---- debt ---- */

/* Charges `extra` more than was estimated, at once, and looks at what is left. */
static void check_debt(struct walk *walk)
{
    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        struct tg_charge charge = {walk->now, subject_cost(&walk->subject, &walk->draw)};
        int64_t extra = draw_magnitude(&walk->draw, 100000);
        if (charge.cost == 0 || !subject_take(&walk->subject, walk->now, charge.cost).allowed)
            continue;
        struct tg_decision before = subject_balance(&walk->subject, walk->now);
        subject_settle(&walk->subject, walk->now, charge, charge.cost + extra);
        struct tg_decision after = subject_balance(&walk->subject, walk->now);
        struct tg_decision one = subject_peek(&walk->subject, walk->now, 1);

        walk_check(walk, decision_in_range(after), "%s", decision_text(after).text);
        walk_check(walk, after.remaining <= before.remaining, "debt gives: %s, before %s",
                   decision_text(after).text, decision_text(before).text);
        if (extra > before.remaining)
            walk_check(walk, after.remaining == 0 && !one.allowed, "debt of %lld over %lld: %s",
                       (long long)extra, (long long)before.remaining, decision_text(one).text);
        if (!one.allowed)
            walk_check(walk,
                       subject_peek(&walk->subject, walk->now + one.retry_after_ms, 1).allowed,
                       "in debt still after %lld ms", (long long)one.retry_after_ms);
    }
}

static void debt_shows_as_remaining_zero_and_is_paid_by_waiting(void **state)
{
    (void)state;
    walk_all("debt shows as remaining 0 and is paid by waiting", seed, ALL, 1600, check_debt);
}

/* Here the oracle settles at once what the other settles later: a debt that comes late is never a
 * smaller one. Both are charged the estimate, when both allow it. */
static void take_and_owe(struct walk *walk, struct subject *oracle, struct pending *pending)
{
    struct tg_charge charge = {walk->now, subject_cost(&walk->subject, &walk->draw)};

    if (!subject_peek(&walk->subject, walk->now, charge.cost).allowed ||
        !subject_peek(oracle, walk->now, charge.cost).allowed)
        return;
    subject_take(&walk->subject, walk->now, charge.cost);
    subject_take(oracle, walk->now, charge.cost);
    /* A log that is full keeps the debt of a call without a record longer than it need: its oracle
     * would know too much. */
    bool recorded = charge.cost > 0 || walk->subject.limiter.config.strategy != TG_SLIDING_LOG;
    if (pending->actual > 0 || !recorded)
        return;
    *pending = (struct pending){charge, charge.cost + draw_magnitude(&walk->draw, 100)};
    subject_settle(oracle, walk->now, charge, pending->actual);
}

static void check_debt_not_forgiven(struct walk *walk)
{
    struct subject oracle = subject_copy(&walk->subject);
    struct pending pending = {.actual = 0};

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        if (pending.actual > 0 && draw_chance(&walk->draw, 30)) {
            subject_settle(&walk->subject, walk->now, pending.charge, pending.actual);
            pending.actual = 0;
        } else {
            take_and_owe(walk, &oracle, &pending);
        }
        if (pending.actual > 0)
            continue; /* not yet settled: of course there is more */
        struct tg_decision got = subject_balance(&walk->subject, walk->now);
        struct tg_decision most =
            subject_balance(&oracle, walk->now + (walk->subject.exact ? 0 : 1));
        walk_check(walk, got.remaining <= most.remaining, "%s, settled at once %s",
                   decision_text(got).text, decision_text(most).text);
    }
    subject_free(&oracle);
}

static void debt_is_never_less_than_what_was_used(void **state)
{
    (void)state;
    walk_all("debt is never less than what was used", seed, ALL, 2000, check_debt_not_forgiven);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refund_and_settle_never_over_credit),
        cmocka_unit_test(an_estimate_settled_at_once_is_as_if_it_had_been_right),
        cmocka_unit_test(debt_shows_as_remaining_zero_and_is_paid_by_waiting),
        cmocka_unit_test(debt_is_never_less_than_what_was_used),
    };
    seed = draw_seed("test_limiter_refunds");
    return cmocka_run_group_tests_name("limiter_refunds", tests, NULL, NULL);
}
