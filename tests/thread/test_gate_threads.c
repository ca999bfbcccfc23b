/* test_gate_threads.c - one gate, many threads: what is counted stays right.
 *
 * The clock is a number that the threads move on. A waiting call that is woken is posted to its
 * owner's mailbox, and resumed there; that is all a wake may do. Between phases the threads meet,
 * and then the gate's numbers must agree with each other and with what the threads know.
 *
 * TG_SOAK=1 does ten times as much.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "draw.h"
#include "gate_kit.h"

enum { THREADS = 4, CALLS = 48, PHASES = 50, MAILBOX = 4096 };

static uint64_t seed;
static int64_t operations = 1000000; /* made by all threads together */

/* ---- random operations ---- */

enum call_state { CALL_FREE, CALL_CHECKED, CALL_WAITING, CALL_ADMITTED, CALL_ASKING };

/* A call as its owner knows it. Only the owner touches it; wakes carry its address. */
struct own_call {
    enum call_state state;
    int owner;
    tg_lease lease;
    struct tg_call call;
};

struct worker {
    struct arena *arena;
    int index;
    struct draw draw;
    struct own_call calls[CALLS];
    pthread_mutex_t lock; /* covers the mailbox */
    struct own_call *box[MAILBOX];
    size_t n_mail;
    int64_t done, admitted, refused, renewed;
};

struct arena {
    struct tg_policy policy; /* first: its functions find the arena by it */
    atomic_llong heard_admitted, heard_released;
    struct tg_gate *gate;
    struct tg_store *store;
    struct tg_scope scopes[2];
    struct tg_gate_config config;
    atomic_llong clock;
    atomic_llong phase_bound; /* in flight is never above this in this phase */
    atomic_bool failed;
    atomic_int failed_line;
    pthread_barrier_t barrier;
    struct worker workers[THREADS];
};

static void soft_check(struct arena *arena, bool truth, int line)
{
    /* cmocka must not jump out of a thread that is not its own. */
    if (!truth && !atomic_exchange(&arena->failed, true))
        atomic_store(&arena->failed_line, line);
}
#define SOFT(arena, truth) soft_check(arena, truth, __LINE__)

static void post(void *context, void *waiter)
{
    struct arena *arena = context;
    struct own_call *call = waiter;
    struct worker *owner = &arena->workers[call->owner];

    pthread_mutex_lock(&owner->lock);
    SOFT(arena, owner->n_mail < MAILBOX);
    if (owner->n_mail < MAILBOX)
        owner->box[owner->n_mail++] = call;
    pthread_mutex_unlock(&owner->lock);
}

static bool mostly_worth_it(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                            tg_ms now)
{
    (void)policy;
    (void)in_flight;
    (void)now;
    return call->value > 0.05;
}

static void hear_admitted(struct tg_policy *policy, const struct tg_call *call, tg_ms now)
{
    struct arena *arena = (struct arena *)policy;
    (void)call;
    (void)now;

    atomic_fetch_add(&arena->heard_admitted, 1);
}

/* Each call's end is told after its admission: so at no moment have more ended than begun. */
static void hear_released(struct tg_policy *policy, const struct tg_spent *spent, tg_ms now)
{
    struct arena *arena = (struct arena *)policy;
    long long ended = atomic_fetch_add(&arena->heard_released, 1) + 1;
    (void)now;

    SOFT(arena, ended <= atomic_load(&arena->heard_admitted));
    SOFT(arena, spent->held_s >= 0 && spent->cost <= 30 && spent->actual <= 40);
}

static tg_ms clock_now(struct arena *arena)
{
    return atomic_load(&arena->clock);
}

static tg_ms clock_moves(struct worker *w)
{
    return atomic_fetch_add(&w->arena->clock, draw_between(&w->draw, 0, 3));
}

static const char *const peers[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static void make_call(struct worker *w, struct own_call *own)
{
    static const enum tg_priority classes[] = {TG_PRIORITY_HIGH, TG_PRIORITY_NORMAL,
                                               TG_PRIORITY_NORMAL, TG_PRIORITY_LOW};
    struct draw *draw = &w->draw;

    own->call = call_from(classes[draw_between(draw, 0, 3)], peers[draw_between(draw, 0, 7)]);
    own->call.waiter = own;
    own->call.value = draw_unit(draw);
    own->call.weight = 1 + (double)draw_between(draw, 0, 3);
    own->call.work = draw_between(draw, 0, 20);
    own->call.lease_ttl = draw_chance(draw, 10) ? draw_between(draw, 1, 20) : 0;
    if (draw_chance(draw, 10))
        own->call.deadline = clock_now(w->arena) + draw_between(draw, 0, 20);
    if (draw_chance(draw, 50))
        own->call.debit = (struct tg_debit){.scopes = w->arena->scopes,
                                            .n_scopes = 2,
                                            .cost = draw_between(draw, 0, 30),
                                            .charging = draw_chance(draw, 50) ? TG_CHARGE_ATOMIC
                                                                              : TG_CHARGE_PER_AXIS};
}

static void note_answer(struct worker *w, struct own_call *own, enum tg_err err,
                        const struct tg_answer *answer)
{
    SOFT(w->arena, err == TG_OK || err == TG_ERR_STALE);
    if (err != TG_OK) {
        own->state = CALL_FREE;
    } else if (answer->step == TG_WAITING) {
        own->state = CALL_WAITING;
        own->lease = answer->lease;
    } else if (answer->step == TG_NEEDS_STORE) {
        own->state = CALL_ASKING;
        own->lease = answer->lease;
    } else if (answer->decision.allowed) {
        SOFT(w->arena, answer->lease != 0);
        w->admitted++;
        own->state = CALL_ADMITTED;
        own->lease = answer->lease;
    } else {
        SOFT(w->arena, answer->lease == 0 && answer->reason != TG_REASON_NONE);
        w->refused++;
        own->state = CALL_FREE;
    }
}

static void do_admit(struct worker *w, struct own_call *own)
{
    struct tg_answer answer = {.lease = 0};
    tg_lease checked = 0;
    enum tg_err err = TG_OK;

    if (own->state == CALL_CHECKED) {
        checked = own->lease;
    } else {
        make_call(w, own);
        if (draw_chance(&w->draw, 20)) {
            err = tg_gate_precheck(w->arena->gate, &own->call, clock_now(w->arena), &answer);
            SOFT(w->arena, err == TG_OK);
            if (err == TG_OK && answer.decision.allowed) {
                own->state = CALL_CHECKED;
                own->lease = answer.lease;
            }
            return;
        }
    }
    /* Before the call: it may be woken before admit has returned here. The mail is read later. */
    own->state = CALL_WAITING;
    own->lease = 0;
    err = tg_gate_admit(w->arena->gate, &own->call, checked, clock_now(w->arena), &answer);
    note_answer(w, own, err, &answer);
}

static void do_resume(struct worker *w, struct own_call *own)
{
    struct tg_answer answer = {.lease = 0};
    enum tg_err err =
        tg_gate_resume(w->arena->gate, own->lease, &own->call, clock_now(w->arena), &answer);

    note_answer(w, own, err, &answer);
}

static void do_store(struct worker *w, struct own_call *own)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE};
    struct tg_answer answer = {.lease = 0};
    bool yes = draw_chance(&w->draw, 80);

    axes.decision[TG_AXIS_RATE] = yes ? ALLOWED(10, 5, 0) : DENIED(10, 0, 0, 50);
    enum tg_err err = tg_gate_store_answered(w->arena->gate, own->lease,
                                             draw_chance(&w->draw, 10) ? TG_ERR_STORE : TG_OK,
                                             &axes, clock_now(w->arena), &answer);
    own->state = CALL_FREE;
    if (err == TG_OK)
        note_answer(w, own, err, &answer);
}

static void do_release(struct worker *w, struct own_call *own)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = (enum tg_outcome)draw_between(&w->draw, 0, 2);
    release.work = draw_between(&w->draw, -1, 20);
    if (draw_chance(&w->draw, 30))
        release.actual = draw_between(&w->draw, 0, 40);
    if (draw_chance(&w->draw, 30))
        release.sample_ms = (double)draw_between(&w->draw, 0, 10);
    (void)tg_gate_release(w->arena->gate, own->lease, clock_now(w->arena), &release);
    SOFT(w->arena, !tg_gate_release(w->arena->gate, own->lease, clock_now(w->arena), &release));
    own->state = CALL_FREE;
}

static void read_mail(struct worker *w)
{
    struct own_call *mail[64];
    size_t n = 0;

    pthread_mutex_lock(&w->lock);
    while (n < COUNT_OF(mail) && w->n_mail > 0)
        mail[n++] = w->box[--w->n_mail];
    pthread_mutex_unlock(&w->lock);
    /* The call may have been cancelled since, and even another be in its place: then it is
     * early. */
    for (size_t i = 0; i < n; i++) {
        if (mail[i]->state == CALL_WAITING)
            do_resume(w, mail[i]);
    }
}

static void reconfigure(struct worker *w, int64_t limit)
{
    struct arena *arena = w->arena;
    struct tg_gate_config config = arena->config;

    config.concurrency.law.initial = limit;
    config.concurrency.wait[TG_PRIORITY_LOW] = draw_between(&w->draw, 0, 10);
    config.concurrency.low_ratio = 0.25 * (double)draw_between(&w->draw, 1, 4);
    config.concurrency.queue_size = draw_between(&w->draw, 1, 64);
    config.peers.limit = draw_between(&w->draw, 4, 16);
    config.memory.mode = draw_chance(&w->draw, 50) ? TG_ENFORCE : TG_SHADOW;
    SOFT(arena, tg_gate_reconfigure(arena->gate, &config, clock_now(arena), NULL) == TG_OK);
}

static void check_bound(struct arena *arena)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(arena->gate, &stats);
    SOFT(arena, stats.in_flight <= atomic_load(&arena->phase_bound));
    SOFT(arena, stats.in_flight >= 0 && stats.peer_calls >= 0 && stats.leases >= 0);
    SOFT(arena, stats.peer_calls >= stats.in_flight); /* every call here has a peer */
    SOFT(arena, stats.leases >= stats.peer_calls);
}

/* The limits of a phase: in even ones it stands still, in odd ones it moves between the two. */
static void limits_of_phase(int phase, int64_t *low, int64_t *high)
{
    *low = 4 + phase * 7 % 13;
    *high = phase % 2 == 0 ? *low : *low + 9;
}

static void one_operation(struct worker *w, int phase)
{
    struct own_call *own = &w->calls[draw_between(&w->draw, 0, CALLS - 1)];
    int64_t low, high, dice = draw_between(&w->draw, 0, 999);

    limits_of_phase(phase, &low, &high);
    if (dice < 100)
        tg_gate_tick(w->arena->gate, clock_moves(w));
    else if (dice < 103)
        reconfigure(w, draw_between(&w->draw, low, high));
    else if (dice < 106)
        tg_gate_set_memory(w->arena->gate, 0.8 + 0.2 * draw_unit(&w->draw));
    else if (dice < 150)
        check_bound(w->arena);
    else if (dice < 300)
        read_mail(w);
    else if (own->state == CALL_FREE || own->state == CALL_CHECKED)
        do_admit(w, own);
    else if (own->state == CALL_ADMITTED && dice < 400)
        w->renewed += tg_gate_renew(w->arena->gate, own->lease, clock_now(w->arena), 0);
    else if (own->state == CALL_WAITING && dice < 600)
        do_resume(w, own);
    else if (own->state == CALL_ASKING && dice < 900)
        do_store(w, own);
    else
        do_release(w, own);
    w->done++;
}

static void read_all_mail(struct worker *w)
{
    bool any = true;

    while (any) {
        read_mail(w);
        pthread_mutex_lock(&w->lock);
        any = w->n_mail > 0;
        pthread_mutex_unlock(&w->lock);
    }
}

/* All threads stand still, and nobody's wait is over without his having been told and come: then
 * every call that has a peer runs or waits, but for those that are checked, which hold a peer
 * alone. */
static void check_standstill(struct arena *arena)
{
    struct tg_gate_stats stats = stats_of_gate(arena->gate);
    int64_t waiting = stats.queued[0] + stats.queued[1] + stats.queued[2];
    int64_t checked = stats.leases - stats.in_flight - waiting;

    SOFT(arena, stats.peer_calls >= stats.in_flight + waiting);
    if (!arena->config.remote_store) /* nobody holds a lease alone */
        SOFT(arena, stats.peer_calls == stats.leases);
    SOFT(arena, stats.peer_calls <= stats.in_flight + waiting + checked);
    int64_t known_checked = 0, known = 0;
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < CALLS; i++) {
            known_checked += arena->workers[t].calls[i].state == CALL_CHECKED;
            known += arena->workers[t].calls[i].state != CALL_FREE;
        }
    }
    SOFT(arena, checked <= known_checked + (arena->config.remote_store ? THREADS * CALLS : 0));
    SOFT(arena, stats.leases <= known + (arena->config.remote_store ? THREADS * CALLS : 0));
}

static void meet_and_check(struct worker *w, int phase)
{
    struct arena *arena = w->arena;
    int64_t low, high;

    pthread_barrier_wait(&arena->barrier); /* nobody ticks any more */
    read_all_mail(w);
    pthread_barrier_wait(&arena->barrier);
    read_all_mail(w); /* what the others' reading has granted */
    pthread_barrier_wait(&arena->barrier);
    if (w->index == 0) {
        check_standstill(arena);
        limits_of_phase(phase + 1, &low, &high);
        reconfigure(w, low);
        int64_t in_flight = stats_of_gate(arena->gate).in_flight;
        atomic_store(&arena->phase_bound, in_flight > high ? in_flight : high);
    }
    pthread_barrier_wait(&arena->barrier);
}

static void drain(struct worker *w)
{
    for (int i = 0; i < CALLS; i++) {
        if (w->calls[i].state != CALL_FREE)
            do_release(w, &w->calls[i]);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;

    for (int phase = 0; phase < PHASES; phase++) {
        for (int64_t i = 0; i < operations / (THREADS * PHASES); i++)
            one_operation(w, phase);
        meet_and_check(w, phase);
    }
    drain(w);
    return NULL;
}

static void arena_open(struct arena *arena, bool remote, bool hears)
{
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "gcra:limit=1000,period=1000,burst=40"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=500,refill=20000")};

    atomic_store(&arena->clock, 1000);
    atomic_store(&arena->phase_bound, 13);
    arena->store = must_store((size_t)1 << 20, 4);
    tg_limits set = must_define(arena->store, limits, 2);
    arena->scopes[0] = scope_of(set, "tenant");
    arena->scopes[1] = scope_of(set, "parent");
    arena->config = gate_config_slots(NULL, 4);
    arena->config.memory.on = arena->config.peers.on = true;
    arena->config.wake = post;
    arena->policy.worth = mostly_worth_it;
    if (hears) {
        arena->policy.admitted = hear_admitted;
        arena->policy.released = hear_released;
    }
    arena->config.policy = &arena->policy;
    arena->config.context = arena;
    arena->config.store = remote ? NULL : arena->store;
    arena->config.remote_store = remote;
    arena->config.lease_ttl = 300;
    arena->gate = must_gate(&arena->config);
    pthread_barrier_init(&arena->barrier, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) {
        struct worker *w = &arena->workers[t];
        w->arena = arena;
        w->index = t;
        w->draw = draw_stream(seed, (uint64_t)t + (remote ? 100 : 0));
        pthread_mutex_init(&w->lock, NULL);
        for (int i = 0; i < CALLS; i++)
            w->calls[i].owner = t;
    }
}

static void random_operations(bool remote, bool hears)
{
    struct arena *arena = calloc(1, sizeof *arena);
    pthread_t threads[THREADS];
    int64_t done = 0, admitted = 0, refused = 0, renewed = 0;

    assert_non_null(arena);
    arena_open(arena, remote, hears);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, work, &arena->workers[t]), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    if (atomic_load(&arena->failed))
        fail_msg("the check of line %d failed", atomic_load(&arena->failed_line));
    for (int t = 0; t < THREADS; t++) {
        done += arena->workers[t].done;
        admitted += arena->workers[t].admitted;
        refused += arena->workers[t].refused;
        renewed += arena->workers[t].renewed;
    }
    if (remote) /* what nobody will answer any more ends by itself */
        tg_gate_tick(arena->gate, clock_now(arena) + 1000);
    struct tg_gate_stats stats = stats_of_gate(arena->gate);
    print_message("%lld operations: %lld admitted, %lld refused, %lld renewed, %llu expired\n",
                  (long long)done, (long long)admitted, (long long)refused, (long long)renewed,
                  (unsigned long long)stats.expired);
    assert_true(admitted > done / 100 && refused > done / 100 && stats.expired > 0);
    expect_idle(arena->gate);
    if (hears) /* also of those that were given up while they were decided */
        assert_true(atomic_load(&arena->heard_admitted) >= (long long)stats.admitted);
    assert_int_equal(atomic_load(&arena->heard_released), atomic_load(&arena->heard_admitted));
    tg_gate_free(arena->gate);
    tg_store_free(arena->store);
    for (int t = 0; t < THREADS; t++)
        pthread_mutex_destroy(&arena->workers[t].lock);
    pthread_barrier_destroy(&arena->barrier);
    free(arena);
}

static void a_million_random_operations_keep_every_count(void **state)
{
    (void)state;
    random_operations(false, false);
}

static void and_with_a_store_elsewhere(void **state)
{
    int64_t all = operations;
    (void)state;

    operations = all / 4;
    random_operations(true, false);
    operations = all;
}

static void a_policy_hears_of_every_call_that_was_admitted_and_then_of_its_end(void **state)
{
    int64_t all = operations;
    (void)state;

    operations = all / 4;
    random_operations(false, true);
    random_operations(true, true);
    operations = all;
}

/* ---- a limit that stands still ---- */

struct doorway {
    struct tg_gate *gate;
    int64_t rounds;
    atomic_llong inside;
    atomic_llong most;
    atomic_llong admitted;
    atomic_bool failed;
};

static void *pass_through(void *argument)
{
    struct doorway *door = argument;
    struct tg_call call = call_of(TG_PRIORITY_LOW);
    struct tg_answer answer;

    for (int64_t i = 0; i < door->rounds; i++) {
        if (tg_gate_admit(door->gate, &call, 0, i, &answer) != TG_OK) {
            atomic_store(&door->failed, true);
            break;
        }
        if (!answer.decision.allowed)
            continue;
        long long inside = atomic_fetch_add(&door->inside, 1) + 1;
        long long most = atomic_load(&door->most);
        while (inside > most && !atomic_compare_exchange_weak(&door->most, &most, inside))
            sched_yield();
        atomic_fetch_add(&door->admitted, 1);
        atomic_fetch_sub(&door->inside, 1);
        if (!finish(door->gate, answer.lease, i))
            atomic_store(&door->failed, true);
    }
    return NULL;
}

static void never_more_inside_than_the_limit(void **state)
{
    static const int64_t limits[] = {1, 2, 3, 7};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = gate_config_slots(&log, limits[i]);
        struct doorway door = {.rounds = operations / 50};
        pthread_t threads[8];
        config.concurrency.low_ratio = 1;
        door.gate = must_gate(&config);
        for (int t = 0; t < 8; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, pass_through, &door), 0);
        for (int t = 0; t < 8; t++)
            pthread_join(threads[t], NULL);
        assert_false(atomic_load(&door.failed));
        assert_true(atomic_load(&door.most) <= limits[i]);
        struct tg_gate_stats stats = stats_of_gate(door.gate);
        assert_int_equal(stats.admitted, atomic_load(&door.admitted));
        assert_int_equal(stats.admitted + stats.refused[TG_REASON_CONCURRENCY],
                         8 * (uint64_t)door.rounds);
        expect_idle(door.gate);
        tg_gate_free(door.gate);
    }
}

/* ---- several at one lease ---- */

enum { RACED = 2000 };

struct race {
    struct tg_gate *gate;
    tg_lease leases[RACED];
    atomic_int won[RACED];
};

static void *release_all(void *argument)
{
    struct race *race = argument;

    for (int i = 0; i < RACED; i++) {
        if (finish(race->gate, race->leases[i], 10))
            atomic_fetch_add(&race->won[i], 1);
    }
    return NULL;
}

static void a_lease_released_by_several_ends_once(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, RACED);
    struct race *race = calloc(1, sizeof *race);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, "peer");
    pthread_t threads[THREADS];
    (void)state;

    assert_non_null(race);
    config.concurrency.law.max = RACED;
    call.peer_limit = RACED;
    race->gate = must_gate(&config);
    for (int round = 0; round < 5; round++) {
        assert_int_equal(fill_gate(race->gate, &call, 0, race->leases, RACED), RACED);
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, release_all, race), 0);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        for (int i = 0; i < RACED; i++)
            assert_int_equal(atomic_exchange(&race->won[i], 0), 1);
        expect_idle(race->gate);
    }
    tg_gate_free(race->gate);
    free(race);
}

/* A granted call: one thread comes for it while another gives it up. */
struct duel {
    struct tg_gate *gate;
    struct tg_call call;
    atomic_ullong lease; /* 0: not yet */
    atomic_int round;
    atomic_int done;
};

enum { DUELS = 3000 };

static void *abandon_calls(void *argument)
{
    struct duel *duel = argument;

    for (int i = 1; i <= DUELS; i++) {
        while (atomic_load(&duel->round) < i)
            sched_yield();
        (void)finish_as(duel->gate, atomic_load(&duel->lease), i, TG_OUTCOME_CANCELLED);
        atomic_store(&duel->done, i);
    }
    return NULL;
}

static void a_call_given_up_while_it_is_resumed_is_given_back(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct duel duel = {.call = call_from(TG_PRIORITY_HIGH, "peer")};
    pthread_t other;
    (void)state;

    duel.call.peer_limit = 5;
    duel.gate = must_gate(&config);
    assert_int_equal(pthread_create(&other, NULL, abandon_calls, &duel), 0);
    for (int i = 1; i <= DUELS; i++) {
        struct tg_answer answer;
        log.n_woken = 0;
        tg_lease running = must_allow(duel.gate, &duel.call, i);
        tg_lease waiting = must_queue(duel.gate, &duel.call, i);
        assert_true(finish_as(duel.gate, running, i, TG_OUTCOME_CANCELLED));
        atomic_store(&duel.lease, waiting);
        atomic_store(&duel.round, i);
        enum tg_err err = tg_gate_resume(duel.gate, waiting, &duel.call, i, &answer);
        assert_true(err == TG_ERR_STALE || (err == TG_OK && answer.decision.allowed));
        while (atomic_load(&duel.done) < i)
            sched_yield();
        expect_idle(duel.gate);
    }
    pthread_join(other, NULL);
    tg_gate_free(duel.gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_random_operations_keep_every_count),
        cmocka_unit_test(and_with_a_store_elsewhere),
        cmocka_unit_test(a_policy_hears_of_every_call_that_was_admitted_and_then_of_its_end),
        cmocka_unit_test(never_more_inside_than_the_limit),
        cmocka_unit_test(a_lease_released_by_several_ends_once),
        cmocka_unit_test(a_call_given_up_while_it_is_resumed_is_given_back),
    };

    seed = draw_seed("test_gate_threads");
    if (getenv("TG_SOAK") != NULL)
        operations *= 10;
    return cmocka_run_group_tests_name("gate_threads", tests, NULL, NULL);
}
