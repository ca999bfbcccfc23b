/* test_gate.c - random lives of a gate, held against a plain list of its calls.
 *
 * After every step the gate's numbers are those of the list; no slot stands free while somebody who
 * may have it waits; nobody is refused who could have been admitted; at admission no more run than
 * the limit says. What a peek says of memory, peers and slots is what comes, and every refusal is
 * counted under its reason, those that shadow alone would have made too. Each life is led twice, by
 * two gates with the same seed: their answers are the same.
 */
#include <string.h>

#include "draw.h"
#include "gate_kit.h"
#include "lib/admission/gate.h"
#include "walk.h"

enum { CALLS = 40, STEPS = 600, LIVES = 250, PEERS = 4 };

static uint64_t seed;

enum call_state {
    NOT_THERE,
    CHECKED,
    WAITING,
    WOKEN, /* granted, or its wait is over: it will be told when it is resumed */
    ADMITTED
};

struct listed {
    enum call_state state;
    struct tg_call call;
    int peer; /* -1: none */
    bool counts_peer;
    uint32_t would_deny; /* what has been said of it */
    tg_lease lease;
    tg_ms ends_at; /* what the gate has said */
};

/* One of the two gates, with all that belongs to it. */
struct side {
    struct gate_log log;
    struct tg_store *store;
    struct tg_gate *gate;
};

struct life {
    struct draw draw;
    struct tg_gate_config config;
    struct side sides[2];
    struct tg_scope scope;
    struct listed calls[CALLS];
    tg_ms now;
    int64_t
        most;   /* calls that may be in flight: the limit, or what was there when it was lowered */
    int memory; /* classes that are refused for it, from below: 0 to 3 */
    uint64_t refused[TG_REASON_COUNT], would_deny[TG_REASON_COUNT], admitted;
    long cases;
};

static const char *const peer_names[PEERS] = {"a", "b", "c", "d"};

static bool is_worth_it(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                        tg_ms now)
{
    (void)policy;
    (void)in_flight;
    (void)now;
    return call->value > 0.1;
}

static struct tg_policy tenth = {.worth = is_worth_it};

static void draw_settings(struct life *life)
{
    struct tg_gate_config *c = &life->config;
    struct draw *draw = &life->draw;

    c->concurrency.law.initial = draw_between(draw, 1, 9);
    c->concurrency.queue_size = draw_between(draw, 0, 12);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        c->concurrency.wait[p] = draw_chance(draw, 30)   ? 0
                                 : draw_chance(draw, 30) ? TG_WAIT_AUTO
                                                         : draw_between(draw, 1, 60);
        c->concurrency.share[p] = draw_unit(draw);
    }
    c->concurrency.low_ratio = 0.125 * (double)draw_between(draw, 1, 8); /* exact */
    c->peers.on = draw_chance(draw, 80);
    c->peers.limit = draw_between(draw, 1, 12);
    c->peers.mode = draw_chance(draw, 20) ? TG_SHADOW : TG_ENFORCE;
    c->memory.mode = draw_chance(draw, 20) ? TG_SHADOW : TG_ENFORCE;
}

static void life_open(struct life *life, uint64_t number)
{
    memset(life, 0, sizeof *life);
    life->draw = draw_stream(seed, number);
    life->now = 1000;
    life->config = gate_config_slots(NULL, 1);
    life->config.memory.on = true;
    life->config.lease_ttl = 150;
    life->config.policy = &tenth;
    life->config.seed = number;
    draw_settings(life);
    life->most = life->config.concurrency.law.initial;
    for (int i = 0; i < 2; i++) {
        const struct tg_limit limits[] = {
            limit_on(TG_AXIS_RATE, "gcra:limit=100,period=100,burst=8"),
            limit_on(TG_AXIS_COST, "token_bucket:capacity=30,refill=500")};
        struct side *side = &life->sides[i];
        struct tg_gate_config config = life->config;
        side->store = must_store((size_t)64 * 1024, 1);
        life->scope = scope_of(must_define(side->store, limits, 2), "key");
        config.store = side->store;
        config.wake = gate_config(NULL).wake;
        config.context = &side->log;
        side->gate = must_gate(&config);
    }
}

static void life_close(struct life *life)
{
    for (int i = 0; i < 2; i++) {
        tg_gate_free(life->sides[i].gate);
        tg_store_free(life->sides[i].store);
    }
}

static void life_reconfigure(struct life *life)
{
    int64_t in_flight = stats_of_gate(life->sides[0].gate).in_flight;

    draw_settings(life);
    for (int i = 0; i < 2; i++) {
        struct tg_gate_config config = life->config;
        config.store = life->sides[i].store;
        config.wake = gate_config(NULL).wake;
        config.context = &life->sides[i].log;
        must_reconfigure(life->sides[i].gate, &config, life->now);
    }
    int64_t limit = life->config.concurrency.law.initial;
    life->most = in_flight > limit ? in_flight : limit;
}

/* ---- the list ---- */

static int64_t in_state(const struct life *life, enum call_state state)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS; i++)
        n += life->calls[i].state == state;
    return n;
}

static int64_t of_peer(const struct life *life, int peer)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS; i++)
        n += life->calls[i].state != NOT_THERE && life->calls[i].counts_peer &&
             life->calls[i].peer == peer;
    return n;
}

static int64_t waiting_in(const struct life *life, enum tg_priority priority)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS; i++)
        n += life->calls[i].state == WAITING && life->calls[i].call.priority == priority;
    return n;
}

static int64_t low_holds(const struct life *life, bool woken_too)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS; i++) {
        const struct listed *listed = &life->calls[i];
        if (listed->call.priority == TG_PRIORITY_LOW)
            n += listed->state == ADMITTED || (woken_too && listed->state == WOKEN);
    }
    return n;
}

static int64_t low_may_hold(const struct life *life)
{
    double most = life->config.concurrency.low_ratio * (double)life->config.concurrency.law.initial;

    return most < 1 ? 1 : (int64_t)most;
}

#define CASE(life, truth)                                                                          \
    do {                                                                                           \
        (life)->cases++;                                                                           \
        if (!(truth))                                                                              \
            fail_msg("at %lld: not %s", (long long)(life)->now, #truth);                           \
    } while (0)

static void note_wakes(struct life *life)
{
    struct gate_log *a = &life->sides[0].log, *b = &life->sides[1].log;

    CASE(life, a->n_woken == b->n_woken);
    for (size_t i = 0; i < a->n_woken; i++) {
        CASE(life, a->woken[i] == b->woken[i]);
        struct listed *listed = &life->calls[a->woken[i]];
        CASE(life, listed->state == WAITING);
        listed->state = WOKEN;
    }
    a->n_woken = b->n_woken = 0;
}

static void check_numbers(struct life *life)
{
    struct tg_gate_stats stats = stats_of_gate(life->sides[0].gate);
    struct tg_gate_stats other = stats_of_gate(life->sides[1].gate);
    int64_t limit = life->config.concurrency.law.initial, peer_calls = 0, peers = 0, all = 0;
    int64_t admitted = in_state(life, ADMITTED), woken = in_state(life, WOKEN);

    CASE(life, memcmp(&stats, &other, sizeof stats) == 0);
    gate_assert_books(life->sides[0].gate);
    for (int i = 0; i < PEERS; i++) {
        peer_calls += of_peer(life, i);
        peers += of_peer(life, i) > 0;
    }
    for (int i = 0; i < CALLS; i++)
        all += life->calls[i].state != NOT_THERE;
    CASE(life, stats.peer_calls == peer_calls);
    CASE(life, stats.peers == peers);
    CASE(life, stats.leases == all);
    CASE(life, stats.admitted == life->admitted);
    for (int reason = 0; reason < TG_REASON_COUNT; reason++) {
        CASE(life, stats.refused[reason] == life->refused[reason]);
        CASE(life, stats.would_deny[reason] == life->would_deny[reason]);
    }
    CASE(life, stats.in_flight >= admitted && stats.in_flight <= admitted + woken);
    CASE(life, stats.in_flight <= life->most);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        CASE(life, stats.queued[p] == waiting_in(life, (enum tg_priority)p));
    if (stats.in_flight < limit) { /* nobody waits for what is there */
        CASE(life, stats.queued[TG_PRIORITY_HIGH] == 0);
        CASE(life, stats.queued[TG_PRIORITY_NORMAL] == 0);
        CASE(life,
             stats.queued[TG_PRIORITY_LOW] == 0 || low_holds(life, true) >= low_may_hold(life));
    }
    if (stats.in_flight <= limit)
        life->most = limit;
}

/* ---- the steps ---- */

/* What was said of a call that came, or came back. What shadow has said is said again. */
static void count_answer(struct life *life, struct listed *listed, const struct tg_answer *answer)
{
    for (int reason = 0; reason < TG_REASON_COUNT; reason++)
        life->would_deny[reason] += (answer->would_deny & ~listed->would_deny) >> reason & 1;
    if (answer->step == TG_DECIDED)
        CASE(life, (listed->would_deny & ~answer->would_deny) == 0);
    listed->would_deny |= answer->would_deny;
    if (answer->step == TG_DECIDED && answer->reason != TG_REASON_NONE)
        life->refused[answer->reason]++;
}

static bool same_answer(const struct tg_answer *a, const struct tg_answer *b)
{
    bool same = a->step == b->step && a->lease == b->lease && a->deadline == b->deadline &&
                a->reason == b->reason && a->axes.present == b->axes.present;

    if (!same || a->step != TG_DECIDED)
        return same;
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++) {
        if (a->axes.present & 1u << axis &&
            !decision_equal(a->axes.decision[axis], b->axes.decision[axis]))
            return false;
    }
    return decision_equal(a->decision, b->decision);
}

static void note_answer(struct life *life, struct listed *listed, const struct tg_answer *answer)
{
    if (answer->step == TG_WAITING) {
        CASE(life, decision_equal(answer->decision, (struct tg_decision){0})); /* not made yet */
        listed->state = WAITING;
    } else if (answer->decision.allowed) {
        CASE(life, answer->lease != 0);
        life->admitted++;
        listed->state = ADMITTED;
    } else {
        listed->state = NOT_THERE;
        return;
    }
    listed->lease = answer->lease;
    listed->ends_at = answer->deadline;
}

static void draw_call(struct life *life, struct listed *listed, int index)
{
    struct draw *draw = &life->draw;

    listed->peer = draw_chance(draw, 10) ? -1 : (int)draw_between(draw, 0, PEERS - 1);
    listed->would_deny = 0;
    listed->call = call_from((enum tg_priority)draw_between(draw, 0, 2),
                             listed->peer < 0 ? NULL : peer_names[listed->peer]);
    listed->call.waiter = (void *)(intptr_t)index;
    if (draw_chance(draw, 20)) {
        listed->call.peer_limit = draw_between(draw, 1, 6);
        listed->call.peer_mode = draw_chance(draw, 30) ? TG_SHADOW : TG_ENFORCE;
    }
    listed->counts_peer = listed->peer >= 0 && (life->config.peers.on || listed->call.peer_limit);
    listed->call.value = draw_unit(draw);
    listed->call.weight = 0.25 * (double)draw_between(draw, 1, 16);
    if (draw_chance(draw, 50))
        listed->call.work = draw_magnitude(draw, TG_NUMBER_MAX);
    if (draw_chance(draw, 20))
        listed->call.deadline = life->now + draw_between(draw, 0, 30);
    if (draw_chance(draw, 20))
        listed->call.lease_ttl = draw_between(draw, 1, 100);
    if (draw_chance(draw, 50)) {
        listed->call.debit = debit_of(&life->scope, draw_between(draw, 0, 10));
        listed->call.debit.charging = draw_chance(draw, 50) ? TG_CHARGE_ATOMIC : TG_CHARGE_PER_AXIS;
    }
}

/* What must hold of an answer to a call that comes in, by what the list knew before. */
struct expectation {
    enum tg_reason early; /* memory or its peer refuses it; TG_REASON_NONE: neither */
    uint32_t would_deny;  /* what shadow says of the two */
    bool slot_for_sure, no_slot_for_sure;
};

/* Memory, then the peer: the first that enforces refuses, and those before it are told of. */
static void expect_early(const struct life *life, const struct listed *listed,
                         struct expectation *expected)
{
    const struct tg_gate_config *config = &life->config;
    const struct tg_call *call = &listed->call;
    int64_t limit = call->peer_limit ? call->peer_limit : config->peers.limit;
    const struct {
        bool refuses;
        enum tg_mode mode;
        enum tg_reason reason;
    } each[] = {
        {life->memory > (int)(TG_PRIORITY_LOW - call->priority), config->memory.mode,
         TG_REASON_MEMORY_PRESSURE},
        {listed->counts_peer && of_peer(life, listed->peer) >= limit,
         call->peer_limit ? call->peer_mode : config->peers.mode, TG_REASON_PEER_LIMIT},
    };

    for (size_t i = 0; i < COUNT_OF(each) && expected->early == TG_REASON_NONE; i++)
        if (each[i].refuses && each[i].mode == TG_ENFORCE)
            expected->early = each[i].reason;
        else if (each[i].refuses)
            expected->would_deny |= 1u << each[i].reason;
}

static struct expectation expectation_of(const struct life *life, const struct listed *listed)
{
    int64_t limit = life->config.concurrency.law.initial, ahead = 0;
    int64_t in_flight = stats_of_gate(life->sides[0].gate).in_flight;
    bool is_low = listed->call.priority == TG_PRIORITY_LOW;

    for (int p = 0; p <= (int)listed->call.priority; p++)
        ahead += waiting_in(life, (enum tg_priority)p);
    struct expectation expected = {
        .slot_for_sure = in_flight < limit && ahead == 0 &&
                         (!is_low || low_holds(life, true) < low_may_hold(life)),
        .no_slot_for_sure =
            in_flight >= limit || (is_low && low_holds(life, false) >= low_may_hold(life)),
    };
    if (listed->state == NOT_THERE)
        expect_early(life, listed, &expected);
    return expected;
}

/* A peek has said what memory, peers and slots say. */
static void check_peeked(struct life *life, const struct tg_answer *peeked,
                         const struct tg_answer *answer)
{
    bool is_refused = peeked->step == TG_DECIDED && peeked->reason != TG_REASON_NONE;

    CASE(life, peeked->lease == 0);
    CASE(life, (peeked->would_deny & ~answer->would_deny) == 0);
    CASE(life, (peeked->step == TG_WAITING) == (answer->step == TG_WAITING));
    CASE(life, peeked->step != TG_WAITING || peeked->deadline == answer->deadline);
    CASE(life, is_refused == (answer->reason == TG_REASON_MEMORY_PRESSURE ||
                              answer->reason == TG_REASON_PEER_LIMIT ||
                              answer->reason == TG_REASON_CONCURRENCY));
    if (!is_refused)
        return;
    CASE(life, peeked->reason == answer->reason);
    CASE(life, decision_equal(peeked->decision, answer->decision));
    CASE(life, peeked->client_wait_ms == answer->client_wait_ms);
}

static void step_arrive(struct life *life, struct listed *listed, int index)
{
    struct tg_answer answers[2], peeked;
    bool was_checked = listed->state == CHECKED;
    bool prechecks = !was_checked && draw_chance(&life->draw, 20);
    tg_lease checked = was_checked ? listed->lease : 0;

    if (!was_checked)
        draw_call(life, listed, index);
    struct expectation expected = expectation_of(life, listed);
    assert_int_equal(tg_gate_peek(life->sides[0].gate, &listed->call, life->now, &peeked), TG_OK);
    for (int i = 0; i < 2; i++)
        answers[i] =
            prechecks ? must_precheck(life->sides[i].gate, &listed->call, life->now)
                      : must_admit_checked(life->sides[i].gate, &listed->call, checked, life->now);
    CASE(life, same_answer(&answers[0], &answers[1]));
    const struct tg_answer *answer = &answers[0];
    count_answer(life, listed, answer);
    bool is_early =
        answer->reason == TG_REASON_MEMORY_PRESSURE || answer->reason == TG_REASON_PEER_LIMIT;
    CASE(life, expected.early == (is_early ? answer->reason : TG_REASON_NONE));
    CASE(life, (expected.would_deny & ~answer->would_deny) == 0);
    if (prechecks) {
        CASE(life, answer->would_deny == expected.would_deny);
        listed->state = answer->decision.allowed ? CHECKED : NOT_THERE;
        listed->lease = answer->lease;
        listed->ends_at = answer->deadline;
        return;
    }
    if (!was_checked)
        check_peeked(life, &peeked, answer);
    bool got_past_slot =
        answer->step == TG_DECIDED && !is_early && answer->reason != TG_REASON_CONCURRENCY;
    if (!is_early && expected.slot_for_sure)
        CASE(life, got_past_slot);
    if (expected.no_slot_for_sure)
        CASE(life, !got_past_slot);
    note_answer(life, listed, answer);
}

static void step_resume(struct life *life, struct listed *listed)
{
    struct tg_answer answers[2];

    for (int i = 0; i < 2; i++)
        answers[i] = must_resume(life->sides[i].gate, listed->lease, &listed->call, life->now);
    CASE(life, same_answer(&answers[0], &answers[1]));
    count_answer(life, listed, &answers[0]);
    if (listed->state == WOKEN)
        CASE(life, answers[0].step == TG_DECIDED);
    note_answer(life, listed, &answers[0]);
}

static void step_release(struct life *life, struct listed *listed)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = (enum tg_outcome)draw_between(&life->draw, 0, 2);
    release.actual = draw_between(&life->draw, -1, 12);
    release.work = draw_chance(&life->draw, 30) ? -1 : draw_magnitude(&life->draw, TG_NUMBER_MAX);
    listed->state = NOT_THERE; /* before: its slot may be granted to another at once */
    for (int i = 0; i < 2; i++)
        CASE(life, tg_gate_release(life->sides[i].gate, listed->lease, life->now, &release));
    CASE(life, !tg_gate_release(life->sides[0].gate, listed->lease, life->now, &release));
    CASE(life, !tg_gate_release(life->sides[1].gate, listed->lease, life->now, &release));
}

static void step_renew(struct life *life, struct listed *listed)
{
    tg_ms ttl = draw_between(&life->draw, 1, 80);

    for (int i = 0; i < 2; i++)
        CASE(life, tg_gate_renew(life->sides[i].gate, listed->lease, life->now, ttl));
    listed->ends_at = life->now + ttl;
}

/* A class stays refused until there is 0.02 less than what it was refused for. */
static void step_memory(struct life *life)
{
    static const double thresholds[] = {0.85, 0.95, 0.98};
    double used = draw_chance(&life->draw, 50) ? draw_unit(&life->draw) * 0.8
                                               : 0.8 + 0.2 * draw_unit(&life->draw);
    int next = 0;

    for (int i = 0; i < 3; i++)
        if (used > thresholds[i] || (life->memory > i && used > thresholds[i] - 0.02))
            next = i + 1;
    life->memory = next;
    for (int i = 0; i < 2; i++)
        tg_gate_set_memory(life->sides[i].gate, used);
}

/* Every moment at which something wants to happen is ticked. */
static void step_time(struct life *life)
{
    tg_ms until = life->now + draw_between(&life->draw, 0, 25), at;

    do {
        at = tg_gate_next_deadline(life->sides[0].gate);
        CASE(life, at == tg_gate_next_deadline(life->sides[1].gate));
        at = at < until ? at : until;
        life->now = at > life->now ? at : life->now;
        for (int i = 0; i < CALLS; i++) {
            struct listed *listed = &life->calls[i];
            if ((listed->state == ADMITTED || listed->state == CHECKED) &&
                listed->ends_at <= life->now)
                listed->state = NOT_THERE;
        }
        for (int i = 0; i < 2; i++)
            tg_gate_tick(life->sides[i].gate, life->now);
        note_wakes(life);
        check_numbers(life);
        for (int i = 0; i < CALLS; i++)
            CASE(life, life->calls[i].state != WAITING || life->calls[i].ends_at > life->now);
    } while (at < until);
}

static void one_step(struct life *life)
{
    int index = (int)draw_between(&life->draw, 0, CALLS - 1);
    struct listed *listed = &life->calls[index];
    int64_t dice = draw_between(&life->draw, 0, 99);

    if (dice < 12)
        step_time(life);
    else if (dice < 14)
        life_reconfigure(life);
    else if (dice < 17)
        step_memory(life);
    else if (listed->state == NOT_THERE || listed->state == CHECKED)
        step_arrive(life, listed, index);
    else if (listed->state == ADMITTED && dice < 30)
        step_renew(life, listed);
    else if ((listed->state == WAITING && dice < 50) || (listed->state == WOKEN && dice < 85))
        step_resume(life, listed);
    else
        step_release(life, listed);
    note_wakes(life);
    check_numbers(life);
}

static void the_gate_keeps_the_books_of_a_plain_list(void **state)
{
    static struct life life;
    long cases = 0;
    (void)state;

    for (uint64_t number = 0; number < LIVES; number++) {
        life_open(&life, number);
        for (int i = 0; i < STEPS; i++)
            one_step(&life);
        for (int i = 0; i < CALLS; i++) {
            if (life.calls[i].state != NOT_THERE)
                step_release(&life, &life.calls[i]);
            note_wakes(&life);
        }
        expect_idle(life.sides[0].gate);
        expect_idle(life.sides[1].gate);
        cases += life.cases;
        life_close(&life);
    }
    cases_report("the gate keeps the books of a plain list", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_keeps_the_books_of_a_plain_list),
    };

    seed = draw_seed("test_gate");
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
