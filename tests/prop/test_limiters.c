/* test_limiters.c - what every limiter promises, on random parameters, times and costs.
 *
 * What a strategy promises of its own, how much it admits, is in test_limiter_bounds.c; what
 * refunds and settlements may do is in test_limiter_refunds.c.
 */
#include "check.h"
#include "walk.h"

#define ALL WALK_ALL_STRATEGIES
#define STEPS 60
#define MORE 4 /* times the walks that 100,000 cases need: they are cheap */

static uint64_t seed;

/* What the limiter's users do: take, and now and then give back or settle a charge, this one or an
 * earlier one, so that states with credits and debts are met too. */
static void live(struct walk *walk)
{
    struct subject *subject = &walk->subject;
    struct draw *draw = &walk->draw;
    struct tg_charge charge = {walk->now, subject_cost(subject, draw)};

    if (!subject_take(subject, walk->now, charge.cost).allowed)
        return;
    if (draw_chance(draw, 30)) {
        struct tg_charge earlier = walk->earlier;
        walk->earlier = charge;
        charge = earlier;
    }
    switch (draw_between(draw, 0, 19)) {
    case 0:
        subject_refund(subject, walk->now, charge, draw_between(draw, 0, charge.cost));
        break;
    case 1:
        subject_settle(subject, walk->now, charge, draw_between(draw, 0, charge.cost));
        break;
    case 2:
        subject_settle(subject, walk->now, charge, charge.cost + draw_magnitude(draw, 50));
        break;
    default:
        break;
    }
}

/* ---- a look and a refusal change nothing ---- */

static void check_untouched(struct walk *walk)
{
    struct subject before = subject_copy(&walk->subject);

    for (int i = 0; i < STEPS; i++) {
        int64_t cost = subject_cost(&walk->subject, &walk->draw);
        walk_astray(walk);
        subject_assign(&before, &walk->subject);
        struct tg_decision decision = subject_peek(&walk->subject, walk->now, cost);
        walk_check(walk, subject_same_state(&walk->subject, &before),
                   "a peek with cost %lld changed the state", (long long)cost);
        decision = subject_take(&walk->subject, walk->now, cost);
        walk_check(walk, decision.allowed || subject_same_state(&walk->subject, &before),
                   "a refusal of cost %lld changed the state", (long long)cost);
    }
    subject_free(&before);
}

static void a_deny_and_a_peek_change_no_state(void **state)
{
    (void)state;
    walk_all("a deny and a peek change no state", seed, ALL, MORE * 200, check_untouched);
}

/* ---- waiting exactly retry_after admits ---- */

static void check_hint(struct walk *walk, struct tg_decision denied, int64_t cost)
{
    tg_ms wait = denied.retry_after_ms;

    walk_check(walk, wait > 0, "a refusal of %lld has no hint", (long long)cost);
    if (wait == TG_UNSATISFIABLE) {
        walk_check(walk, cost > denied.limit, "%lld is within the ceiling, and can be satisfied",
                   (long long)cost);
        return;
    }
    walk_check(walk, subject_peek(&walk->subject, walk->now + wait, cost).allowed,
               "%lld is refused still after %lld ms", (long long)cost, (long long)wait);
    /* Where doubles round, the hint may come a millisecond late, never more. */
    tg_ms shorter = wait - (walk->subject.exact ? 1 : 2);
    walk_check(walk,
               shorter <= 0 || !subject_peek(&walk->subject, walk->now + shorter, cost).allowed,
               "%lld need not wait %lld ms", (long long)cost, (long long)wait);
}

static void check_hints(struct walk *walk)
{
    for (int i = 0; i < STEPS; i++) {
        int64_t cost = subject_cost(&walk->subject, &walk->draw);
        if (draw_chance(&walk->draw, 80))
            walk_forward(walk);
        else
            walk_astray(walk);
        live(walk);
        struct tg_decision decision = subject_peek(&walk->subject, walk->now, cost);
        if (!decision.allowed)
            check_hint(walk, decision, cost);
        else
            walk_check(walk, decision.retry_after_ms == 0, "an allow of %lld asks to wait",
                       (long long)cost);
    }
}

static void waiting_exactly_retry_after_admits(void **state)
{
    (void)state;
    walk_all("waiting exactly retry_after admits", seed, ALL, MORE * 200, check_hints);
}

/* ---- the answer of a take is what it leaves ---- */

static void check_consistent(struct walk *walk)
{
    for (int i = 0; i < STEPS; i++) {
        int64_t cost = subject_cost(&walk->subject, &walk->draw);
        walk_astray(walk);
        struct tg_decision peeked = subject_peek(&walk->subject, walk->now, cost);
        struct tg_decision taken = subject_take(&walk->subject, walk->now, cost);
        struct tg_decision after = subject_balance(&walk->subject, walk->now);
        walk_check(walk, decision_equal(peeked, taken), "peek and take differ");
        walk_check(walk, decision_in_range(taken), "%s", decision_text(taken).text);
        walk_check(walk, after.allowed && after.retry_after_ms == 0, "cost 0 is not free: %s",
                   decision_text(after).text);
        walk_check(walk,
                   after.limit == taken.limit && after.remaining == taken.remaining &&
                       after.reset_at == taken.reset_at,
                   "cost %lld: said %s, left %s", (long long)cost, decision_text(taken).text,
                   decision_text(after).text);
    }
}

static void a_take_leaves_exactly_what_peek_said(void **state)
{
    (void)state;
    walk_all("a take leaves exactly what peek said", seed, ALL, MORE * 100, check_consistent);
}

/* ---- remaining is what can be taken ---- */

/* Rounding may hold the last unit back for a millisecond. */
static bool can_take(const struct walk *walk, int64_t cost)
{
    tg_ms grace = walk->subject.exact ? 0 : 1;

    return subject_peek(&walk->subject, walk->now, cost).allowed ||
           subject_peek(&walk->subject, walk->now + grace, cost).allowed;
}

static void check_remaining(struct walk *walk)
{
    bool meter = walk->subject.limiter.config.strategy == TG_TOKEN_BUDGET;

    for (int i = 0; i < STEPS; i++) {
        walk_forward(walk);
        live(walk);
        struct tg_decision there = subject_balance(&walk->subject, walk->now);
        walk_check(walk, can_take(walk, there.remaining), "%lld are not there",
                   (long long)there.remaining);
        if (meter || !walk->subject.exact)
            continue; /* a meter admits what crosses; a rounded sum may round a unit up */
        walk_check(walk, !subject_peek(&walk->subject, walk->now, there.remaining + 1).allowed,
                   "%lld are not all that is there", (long long)there.remaining);
    }
}

static void remaining_is_what_can_be_taken(void **state)
{
    (void)state;
    walk_all("remaining is what can be taken", seed, ALL, MORE * 300, check_remaining);
}

/* ---- a fresh key has its whole ceiling ---- */

static void check_whole_ceiling(struct walk *walk)
{
    for (int i = 0; i < STEPS / 3; i++) {
        walk_forward(walk);
        struct tg_decision there = subject_balance(&walk->subject, walk->now);
        walk_check(walk, there.remaining == there.limit, "%s", decision_text(there).text);
        struct tg_decision all = subject_peek(&walk->subject, walk->now, there.limit);
        walk_check(walk, all.allowed, "%s", decision_text(all).text);
        walk_check(walk, all.remaining == 0 || !walk->subject.exact, "%s", decision_text(all).text);
    }
}

static void a_fresh_key_has_its_whole_ceiling(void **state)
{
    (void)state;
    walk_all("a fresh key has its whole ceiling", seed, ALL, MORE * 500, check_whole_ceiling);
}

/* ---- a state may be forgotten when it is fresh ---- */

static void check_as_fresh(struct walk *walk, const struct subject *fresh, tg_ms now)
{
    int64_t costs[] = {0, 1, subject_cost(fresh, &walk->draw), subject_balance(fresh, 0).limit,
                       TG_NUMBER_MAX};

    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        struct tg_decision want = subject_peek(fresh, now, costs[i]);
        struct tg_decision got = subject_peek(&walk->subject, now, costs[i]);
        walk_check(walk, decision_equal(got, want),
                   "at %lld, fresh at %lld, cost %lld: %s, a fresh one %s", (long long)now,
                   (long long)subject_fresh_at(&walk->subject), (long long)costs[i],
                   decision_text(got).text, decision_text(want).text);
    }
}

static void check_fresh_at(struct walk *walk)
{
    struct subject fresh = subject_new(&walk->subject.limiter);

    walk_check(walk, subject_fresh_at(&fresh) == 0, "fresh at %lld before any charge",
               (long long)subject_fresh_at(&fresh));
    for (int i = 0; i < STEPS / 3; i++) {
        walk_astray(walk);
        live(walk);
        tg_ms at = subject_fresh_at(&walk->subject);
        if (at < walk->latest)
            at = walk->latest; /* what a clock that is set back would answer is another matter */
        check_as_fresh(walk, &fresh, at);
        check_as_fresh(walk, &fresh, at + draw_magnitude(&walk->draw, walk->subject.scale));
    }
    subject_free(&fresh);
}

static void at_fresh_at_a_state_answers_as_a_fresh_one(void **state)
{
    (void)state;
    walk_all("at fresh_at a state answers as a fresh one", seed, ALL, MORE * 150, check_fresh_at);
}

/* From fresh_at on, the old state and a fresh one live the same life. */
static void check_not_missed(struct walk *walk)
{
    struct subject twin = subject_new(&walk->subject.limiter);

    for (int i = 0; i < STEPS / 6; i++) {
        walk_forward(walk);
        live(walk);
    }
    tg_ms fresh_at = subject_fresh_at(&walk->subject);
    if (fresh_at > walk->now)
        walk->now = fresh_at;
    for (int i = 0; i < STEPS; i++) {
        int64_t cost = subject_cost(&twin, &walk->draw);
        struct tg_decision kept = subject_take(&walk->subject, walk->now, cost);
        struct tg_decision forgotten = subject_take(&twin, walk->now, cost);
        walk_check(walk, decision_equal(kept, forgotten), "kept %s, forgotten %s",
                   decision_text(kept).text, decision_text(forgotten).text);
        walk_forward(walk);
    }
    subject_free(&twin);
}

static void a_state_forgotten_when_fresh_is_not_missed(void **state)
{
    (void)state;
    walk_all("a state forgotten when fresh is not missed", seed, ALL, MORE * 300, check_not_missed);
}

/* ---- reset_at of those that replenish wholly ---- */

static void check_reset_at(struct walk *walk)
{
    for (int i = 0; i < STEPS; i++) {
        walk_astray(walk);
        live(walk);
        struct tg_decision now = subject_balance(&walk->subject, walk->now);
        struct tg_decision then = subject_balance(&walk->subject, now.reset_at + 1);
        walk_check(walk, then.remaining == then.limit, "reset at %lld, and then %s",
                   (long long)now.reset_at, decision_text(then).text);
    }
}

/* The sliding ones report when the first units come back, and when this bucket will have faded:
 * the latter is a full replenishment too, the former is not. */
static void after_reset_at_the_limit_is_replenished(void **state)
{
    (void)state;
    walk_all("after reset_at the limit is replenished", seed, ALL & ~(1u << TG_SLIDING_LOG),
             MORE * 400, check_reset_at);
}

/* ---- the same trace gives the same bytes ---- */

static void check_deterministic(struct walk *walk)
{
    struct walk twin = *walk;

    twin.subject = subject_new(&walk->subject.limiter);
    twin.subject.scale = walk->subject.scale;
    for (int i = 0; i < STEPS; i++) {
        walk_astray(walk);
        live(walk);
        walk_astray(&twin);
        live(&twin);
        walk_check(walk, subject_same_state(&walk->subject, &twin.subject), "the states differ");
    }
    subject_free(&twin.subject);
}

static void the_same_trace_gives_the_same_bytes(void **state)
{
    (void)state;
    walk_all("the same trace gives the same bytes", seed, ALL, MORE * 300, check_deterministic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deny_and_a_peek_change_no_state),
        cmocka_unit_test(waiting_exactly_retry_after_admits),
        cmocka_unit_test(a_take_leaves_exactly_what_peek_said),
        cmocka_unit_test(remaining_is_what_can_be_taken),
        cmocka_unit_test(a_fresh_key_has_its_whole_ceiling),
        cmocka_unit_test(at_fresh_at_a_state_answers_as_a_fresh_one),
        cmocka_unit_test(a_state_forgotten_when_fresh_is_not_missed),
        cmocka_unit_test(after_reset_at_the_limit_is_replenished),
        cmocka_unit_test(the_same_trace_gives_the_same_bytes),
    };
    seed = draw_seed("test_limiters");
    return cmocka_run_group_tests_name("limiters", tests, NULL, NULL);
}
