/* test_remote_claim.c - every event in every state of a claim: nothing is lost, nothing sent twice.
 *
 * Redis and the blocks are played here: the functions of remote_limits.h and remote_blocks.h that a
 * claim calls are defined in this file, and add up what Redis would have counted. They keep the
 * promises of those headers: a cancelled yes is refunded, one that was left is settled. So does the
 * loop's clock. The gateway's own store, and what was heard recently, are the real ones.
 *
 * The test plays all sequences of events that begin with a take, in all configurations, and then
 * asks one question: has every unit been counted where it belongs, exactly once?
 */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/admission/admission_run.h"
#include "server/remote/remote_internal.h"
#include "server/remote/remote_recent.h"

enum { ESTIMATE = 5,
       ACTUAL = 3,
       WIDE = 1000,
       NARROW = ESTIMATE - 1 };

static const tg_ms NOW = 1000000;

/* ---- Redis and the blocks ---- */

struct remote_limits_ask {
    enum { FREE,
           WANTED,
           UNWANTED,
           KEPT,
           LEFT } state;
    bool replied; /* inside the callback of a reply: there is no other to come */
    remote_limits_decided *decided;
    remote_limits_kept *kept;
    void *context;
    int64_t actual;
    bool owes;
};

struct remote_blocks_ask {
    remote_blocks_decided *decided;
    void *context;
    bool waits;
};

enum at_once { BLOCKS_WAIT,
               BLOCKS_YES,
               BLOCKS_NO,
               BLOCKS_FAIL,
               AT_ONCE_COUNT };

static struct world {
    struct remote_limits_ask ask;
    struct remote_blocks_ask block;
    enum at_once at_once; /* what blocks answer */
    bool no_memory;       /* Redis cannot be asked */
    int64_t units;        /* counted in Redis, or charged to blocks */
    bool late_yes;        /* a request whose call went on without it was a yes */
    int messages;         /* refunds, settlements and debts that were sent */
} world;

static struct tg_axes axes_of(bool yes)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_COST};

    axes.decision[TG_AXIS_COST] = yes ? ALLOWED(WIDE, WIDE - ESTIMATE, NOW + 1000)
                                      : DENIED(WIDE, 0, NOW + 1000, 1000);
    return axes;
}

tg_ms net_loop_now(struct net_loop *loop)
{
    (void)loop;
    return NOW;
}

struct remote_limits_ask *remote_limits_take(struct remote_limits *limits,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_limits_decided *decided, void *context)
{
    (void)limits;
    assert_int_equal(debit->cost, ESTIMATE);
    assert_int_equal(now, NOW);
    if (world.no_memory)
        return NULL;
    assert_int_equal(world.ask.state, FREE);
    world.ask = (struct remote_limits_ask){.state = WANTED, .decided = decided, .context = context};
    return &world.ask;
}

void remote_limits_cancel(struct remote_limits_ask *ask)
{
    assert_true(ask->state == WANTED || ask->state == KEPT);
    ask->state = UNWANTED;
}

bool remote_limits_keep(struct remote_limits_ask *ask, remote_limits_kept *kept)
{
    if (ask->replied)
        return false;
    assert_int_equal(ask->state, UNWANTED);
    ask->state = KEPT;
    ask->kept = kept;
    return true;
}

void remote_limits_leave(struct remote_limits_ask *ask, int64_t actual, bool owes)
{
    assert_int_equal(ask->state, KEPT);
    ask->state = LEFT;
    ask->actual = actual >= 0 ? actual : ESTIMATE;
    ask->owes = owes;
}

static void count_message(int64_t units)
{
    world.messages++;
    world.units += units;
}

void remote_limits_refund(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge)
{
    (void)limits, (void)now;
    assert_int_equal(charge->at, NOW - 1);
    count_message(-debit->cost);
}

void remote_limits_settle(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge, int64_t actual)
{
    (void)limits, (void)now;
    assert_int_equal(charge->at, NOW - 1);
    assert_int_not_equal(actual, debit->cost);
    count_message(actual - debit->cost);
}

void remote_limits_add_debt(struct remote_limits *limits, const struct remote_debit *debit,
                            tg_ms now, tg_ms since)
{
    (void)limits;
    assert_int_equal(since, now);
    count_message(debit->cost);
}

struct remote_blocks_ask *remote_blocks_take(struct remote_blocks *blocks,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_blocks_decided *decided, void *context,
                                             struct tg_axes *axes,
                                             struct remote_blocks_charge *charge, enum tg_err *err)
{
    (void)blocks, (void)now;
    assert_int_equal(debit->cost, ESTIMATE);
    *err = TG_OK;
    switch (world.at_once) {
    case BLOCKS_WAIT:
        world.block = (struct remote_blocks_ask){decided, context, true};
        return &world.block;
    case BLOCKS_YES:
        *charge = (struct remote_blocks_charge){.charge.at = NOW - 1};
        world.units += ESTIMATE;
        break;
    case BLOCKS_NO:
        break;
    default:
        *err = TG_ERR_STORE;
        return NULL;
    }
    *axes = axes_of(world.at_once == BLOCKS_YES);
    return NULL;
}

void remote_blocks_cancel(struct remote_blocks_ask *ask)
{
    assert_true(ask->waits);
    ask->waits = false;
}

void remote_blocks_refund(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                          const struct remote_blocks_charge *charge)
{
    (void)blocks;
    remote_limits_refund(NULL, debit, now, &charge->charge);
}

void remote_blocks_settle(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                          const struct remote_blocks_charge *charge, int64_t actual)
{
    (void)blocks;
    remote_limits_settle(NULL, debit, now, &charge->charge, actual);
}

void remote_blocks_add_debt(struct remote_blocks *blocks, const struct remote_debit *debit,
                            tg_ms now, tg_ms since)
{
    (void)blocks;
    remote_limits_add_debt(NULL, debit, now, since);
}

/* ---- a call ---- */

static struct call {
    struct remote_claim claim;
    struct tg_debit debit;
    struct tg_scope scope;
    struct tg_limit limit;
    struct config_store config;
    struct remote_terms terms;
    struct limit_listing *listing;
    struct remote remote;
    struct remote_port port;

    bool is_admitted;
    enum remote_mode mode; /* who decided */
    unsigned counted;      /* where, when it was decided */
    int decisions;
    enum { RUNS,
           SETTLED,
           REFUNDED } ending;
    int64_t used;
} call;

struct setting {
    enum config_away away;
    bool two_tier;
    enum at_once at_once;
    bool no_memory;
    int share;         /* the limit in the own store */
    bool heard_before; /* Redis said a moment ago that one more call fits */
};

static void call_decided(struct remote_claim *claim, enum tg_err err, const struct tg_axes *axes)
{
    assert_ptr_equal(claim, &call.claim);
    assert_int_equal(call.ending, RUNS); /* whoever has ended the claim hears no more */
    call.decisions++;
    call.is_admitted = err == TG_OK && tg_axes_binding(axes) == TG_AXIS_NONE;
    call.mode = claim->mode;
    call.counted = claim->counted;
    assert_true(call.is_admitted || claim->state == CLAIM_IDLE);
}

static void open_call(const struct setting *setting)
{
    struct tg_store_config config;
    char spec[80];

    memset(&world, 0, sizeof world);
    memset(&call, 0, sizeof call);
    world.at_once = setting->at_once;
    world.no_memory = setting->no_memory;
    snprintf(spec, sizeof spec, "fixed_window:limit=%d,window=3600000", setting->share);
    call.limit = (struct tg_limit){.limiter = limiter_of(spec), .axis = TG_AXIS_COST};
    tg_store_config_init(&config);
    assert_int_equal(tg_store_new(&config, &call.remote.setup.store, NULL), TG_OK);
    assert_int_equal(
        tg_store_define(call.remote.setup.store, &call.limit, 1, &call.scope.limits, NULL), TG_OK);
    call.scope.key = "tenant";
    call.scope.key_bytes = 6;
    call.debit = (struct tg_debit){.scopes = &call.scope, .n_scopes = 1, .cost = ESTIMATE};
    call.config.limits = setting->away;
    call.config.two_tier = setting->two_tier;
    size_t n = call.scope.limits + 1;
    call.listing = calloc(1, sizeof *call.listing + n * sizeof call.listing->sets[0]);
    assert_non_null(call.listing);
    call.listing->n = n;
    call.listing->sets[n - 1] = (struct limit_listed){SLICE("tenant"), &call.limit, 1};
    call.terms = (struct remote_terms){
        .generation = 1, .store = &call.config, .listing = call.listing};
    call.port.remote = &call.remote;
    call.port.recent = recent_new(1, 1);
    assert_non_null(call.port.recent);
    assert_true(recent_is_for(call.port.recent, 1));
    if (setting->heard_before) {
        struct tg_axes heard = axes_of(true);
        heard.decision[TG_AXIS_COST].remaining = ESTIMATE;
        recent_heard(call.port.recent, &call.debit, &heard, NOW);
    }
}

static void close_call(void)
{
    recent_free(call.port.recent);
    free(call.listing);
    tg_store_free(call.remote.setup.store);
}

/* ---- events ---- */

#define EVENTS(X)      \
    X(TIME_OUT)        \
    X(REPLY_YES)       \
    X(REPLY_NO)        \
    X(REPLY_LOST)      \
    X(SETTLE_ESTIMATE) \
    X(SETTLE_ACTUAL)   \
    X(REFUND)

enum event {
#define EVENT_ENUM(name) name,
    EVENTS(EVENT_ENUM)
#undef EVENT_ENUM
        EVENT_COUNT
};

static const char *const event_names[] = {
#define EVENT_NAME(name) #name,
    EVENTS(EVENT_NAME)
#undef EVENT_NAME
};

/* Redis has answered: what remote_limits.h promises, in each state of a request. */
static void reply(bool yes, bool lost)
{
    struct remote_limits_ask *ask = &world.ask;
    struct remote_charge charge = {.at = NOW - 1};
    struct tg_axes axes = axes_of(yes);

    world.units += yes ? ESTIMATE : 0;
    switch (ask->state) {
    case FREE:
        world.units -= yes ? ESTIMATE : 0; /* it was never asked */
        return;
    case WANTED:
        ask->replied = true;
        if (lost)
            ask->decided(ask->context, TG_ERR_STORE, NULL, NULL);
        else
            ask->decided(ask->context, TG_OK, &axes, &charge);
        break;
    case UNWANTED:
        world.units -= yes ? ESTIMATE : 0;
        break;
    case KEPT:
        world.late_yes |= yes;
        ask->kept(ask->context, yes ? &charge : NULL);
        break;
    case LEFT:
        world.late_yes |= yes;
        world.units += yes ? ask->actual - ESTIMATE : ask->owes ? ask->actual
                                                                : 0;
        break;
    }
    *ask = (struct remote_limits_ask){.state = FREE};
}

static void block_reply(bool yes, bool lost)
{
    struct remote_blocks_ask *ask = &world.block;
    struct remote_blocks_charge charge = {.charge.at = NOW - 1};
    struct tg_axes axes = axes_of(yes);

    if (!ask->waits)
        return;
    ask->waits = false;
    world.units += yes ? ESTIMATE : 0;
    ask->decided(ask->context, lost ? TG_ERR_STORE : TG_OK, lost ? NULL : &axes,
                 lost ? NULL : &charge);
}

static void end_call(bool refund, int64_t actual)
{
    int64_t units = world.units;
    int messages = world.messages;

    if (refund)
        remote_claim_refund(&call.claim);
    else
        remote_claim_settle(&call.claim, actual);
    assert_int_equal(call.claim.state, CLAIM_IDLE);
    assert_true(world.messages - messages <= 1);
    if (call.ending != RUNS) { /* the second time it does nothing */
        assert_int_equal(world.messages, messages);
        assert_int_equal(world.units, units);
        return;
    }
    call.ending = refund ? REFUNDED : SETTLED;
    call.used = actual >= 0 ? actual : ESTIMATE;
}

static void play(enum event event)
{
    switch (event) {
    case TIME_OUT:
        if (world.ask.state == WANTED) {
            world.ask.state = UNWANTED;
            world.ask.decided(world.ask.context, TG_ERR_STORE, NULL, NULL);
        }
        break;
    case REPLY_YES:
    case REPLY_NO:
    case REPLY_LOST:
        reply(event == REPLY_YES, event == REPLY_LOST);
        block_reply(event == REPLY_YES, event == REPLY_LOST);
        break;
    case SETTLE_ESTIMATE:
        end_call(false, -1);
        break;
    case SETTLE_ACTUAL:
        end_call(false, ACTUAL);
        break;
    default:
        end_call(true, 0);
    }
}

/* ---- the books ---- */

static int64_t counted_here(int share)
{
    struct tg_debit nothing = call.debit;
    struct tg_decision all;

    nothing.cost = 0;
    assert_int_equal(tg_store_peek(call.remote.setup.store, &nothing, NOW, &all, NULL), TG_OK);
    return share - all.remaining;
}

static void check_books(const struct setting *setting)
{
    bool stays = call.is_admitted && call.ending == SETTLED;
    bool redis_knows = call.mode != REMOTE_OPEN || world.late_yes;
    bool fits = setting->share >= ESTIMATE;

    assert_true(call.decisions <= 1);
    assert_int_equal(world.units, stays && redis_knows ? call.used : 0);
    assert_int_equal(counted_here(setting->share),
                     stays && setting->away == CONFIG_AWAY_LOCAL && fits ? call.used : 0);
    if (call.counted & CLAIM_IN_RECENT) { /* one call fitted: again if it was refunded */
        struct tg_axes axes;
        assert_true(recent_decide(call.port.recent, &call.debit, 1, NOW, &axes));
        assert_int_equal(tg_axes_binding(&axes) == TG_AXIS_NONE, call.ending == REFUNDED);
    }
}

static bool reached[CLAIM_DEBT + 1][EVENT_COUNT];

static void walk(const struct setting *setting, const enum event *events, size_t n,
                 enum event last_reply)
{
    enum tg_err err;
    struct tg_axes axes;

    open_call(setting);
    if (remote_take(&call.port, &call.claim, &call.terms, &call.debit, call_decided, &err, &axes))
        call_decided(&call.claim, err, &axes);
    for (size_t i = 0; i < n; i++) {
        reached[call.claim.state][events[i]] = true;
        play(events[i]);
    }
    if (call.ending == RUNS)
        end_call(false, ACTUAL);
    play(last_reply);
    check_books(setting);
    close_call();
}

static size_t read_setting(unsigned number, struct setting *setting)
{
    static const enum config_away away[] = {CONFIG_AWAY_LOCAL, CONFIG_AWAY_OPEN,
                                            CONFIG_AWAY_CLOSED};

    setting->away = away[number % 3], number /= 3;
    setting->two_tier = number % 2, number /= 2;
    setting->at_once = (enum at_once)(number % AT_ONCE_COUNT), number /= AT_ONCE_COUNT;
    setting->no_memory = number % 2, number /= 2;
    setting->share = number % 2 ? WIDE : NARROW, number /= 2;
    setting->heard_before = number % 2;
    return 3 * 2 * AT_ONCE_COUNT * 2 * 2 * 2;
}

static void every_unit_is_counted_once_whatever_comes_when(void **unused)
{
    enum { LENGTH = 3 };
    struct setting setting;
    size_t settings = read_setting(0, &setting);

    (void)unused;
    for (unsigned s = 0; s < settings; s++) {
        read_setting(s, &setting);
        for (unsigned path = 0; path < EVENT_COUNT * EVENT_COUNT * EVENT_COUNT; path++) {
            enum event events[LENGTH] = {(enum event)(path % EVENT_COUNT),
                                         (enum event)(path / EVENT_COUNT % EVENT_COUNT),
                                         (enum event)(path / EVENT_COUNT / EVENT_COUNT)};
            for (enum event last = REPLY_YES; last <= REPLY_LOST; last++)
                walk(&setting, events, LENGTH, last);
        }
    }
    for (int state = 0; state <= CLAIM_DEBT; state++)
        for (int event = 0; event < EVENT_COUNT; event++)
            if (!reached[state][event])
                fail_msg("state %d has not met %s", state, event_names[event]);
}

static void each_event_leads_where_the_drawing_says(void **unused)
{
    static const struct {
        struct setting setting;
        size_t n;
        enum event events[2];
        enum remote_claim_state state;
    } rows[] = {
#define STRICT(away) {away, false, BLOCKS_WAIT, false, WIDE, false}
#define TIERS(away, at_once)                    \
    {                                           \
        away, true, at_once, false, WIDE, false \
    }
        {STRICT(CONFIG_AWAY_LOCAL), 0, {0}, CLAIM_ASKING},
        {STRICT(CONFIG_AWAY_LOCAL), 1, {REPLY_YES}, CLAIM_CHARGED},
        {STRICT(CONFIG_AWAY_LOCAL), 1, {REPLY_NO}, CLAIM_IDLE},
        {STRICT(CONFIG_AWAY_LOCAL), 1, {REPLY_LOST}, CLAIM_DEBT},
        {STRICT(CONFIG_AWAY_LOCAL), 1, {TIME_OUT}, CLAIM_LATE},
        {STRICT(CONFIG_AWAY_LOCAL), 2, {TIME_OUT, REPLY_YES}, CLAIM_CHARGED},
        {STRICT(CONFIG_AWAY_LOCAL), 2, {TIME_OUT, REPLY_NO}, CLAIM_DEBT},
        {STRICT(CONFIG_AWAY_LOCAL), 2, {TIME_OUT, REPLY_LOST}, CLAIM_DEBT},
        {STRICT(CONFIG_AWAY_OPEN), 1, {REPLY_LOST}, CLAIM_IDLE},
        {STRICT(CONFIG_AWAY_OPEN), 1, {TIME_OUT}, CLAIM_LATE},
        {STRICT(CONFIG_AWAY_OPEN), 2, {TIME_OUT, REPLY_YES}, CLAIM_CHARGED},
        {STRICT(CONFIG_AWAY_OPEN), 2, {TIME_OUT, REPLY_NO}, CLAIM_IDLE},
        {STRICT(CONFIG_AWAY_CLOSED), 1, {TIME_OUT}, CLAIM_IDLE},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_WAIT), 0, {0}, CLAIM_ASKING},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_WAIT), 1, {REPLY_YES}, CLAIM_CHARGED},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_WAIT), 1, {REPLY_NO}, CLAIM_IDLE},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_WAIT), 1, {REPLY_LOST}, CLAIM_DEBT},
        {TIERS(CONFIG_AWAY_OPEN, BLOCKS_WAIT), 1, {REPLY_LOST}, CLAIM_IDLE},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_YES), 0, {0}, CLAIM_CHARGED},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_NO), 0, {0}, CLAIM_IDLE},
        {TIERS(CONFIG_AWAY_LOCAL, BLOCKS_FAIL), 0, {0}, CLAIM_DEBT},
        {TIERS(CONFIG_AWAY_CLOSED, BLOCKS_FAIL), 0, {0}, CLAIM_IDLE},
    };

    (void)unused;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum tg_err err;
        struct tg_axes axes;
        open_call(&rows[i].setting);
        if (remote_take(&call.port, &call.claim, &call.terms, &call.debit, call_decided, &err,
                        &axes))
            call_decided(&call.claim, err, &axes);
        for (size_t k = 0; k < rows[i].n; k++)
            play(rows[i].events[k]);
        if (call.claim.state != rows[i].state)
            fail_msg("row %zu: state %d, not %d", i, call.claim.state, rows[i].state);
        assert_int_equal(remote_is_asking(&call.claim), rows[i].state == CLAIM_ASKING);
        remote_claim_refund(&call.claim);
        play(REPLY_LOST);
        close_call();
    }
}

/* ---- what cannot come ---- */

#ifndef NDEBUG
static void expect_abort(void (*function)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) != NULL)
            function();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static struct remote_limits_ask before; /* the request, which has been answered */

static void reply_again(void)
{
    struct tg_axes axes = axes_of(true);
    struct remote_charge charge = {.at = NOW - 1};

    before.decided(before.context, TG_OK, &axes, &charge);
}

static void reply_late_again(void)
{
    before.kept(before.context, NULL);
}

static void take_again(void)
{
    enum tg_err err;
    struct tg_axes axes;

    world.ask.state = FREE;
    (void)remote_take(&call.port, &call.claim, &call.terms, &call.debit, call_decided, &err, &axes);
}

static void what_cannot_come_is_noticed(void **unused)
{
    static const struct setting strict = {CONFIG_AWAY_LOCAL, false, BLOCKS_WAIT,
                                          false, WIDE, false};
    static const struct {
        size_t n;
        enum event events[2];
        enum remote_claim_state state;
    } rows[] = {{1, {REPLY_YES}, CLAIM_CHARGED},
                {1, {REPLY_NO}, CLAIM_IDLE},
                {1, {REPLY_LOST}, CLAIM_DEBT},
                {1, {TIME_OUT}, CLAIM_LATE},
                {2, {TIME_OUT, REPLY_YES}, CLAIM_CHARGED},
                {2, {TIME_OUT, REPLY_NO}, CLAIM_DEBT},
                {1, {REFUND}, CLAIM_IDLE}};

    (void)unused;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum tg_err err;
        struct tg_axes axes;
        open_call(&strict);
        assert_false(remote_take(&call.port, &call.claim, &call.terms, &call.debit, call_decided,
                                 &err, &axes));
        before = world.ask;
        for (size_t k = 0; k < rows[i].n; k++) {
            play(rows[i].events[k]);
            if (world.ask.state == KEPT)
                before = world.ask;
        }
        assert_int_equal(call.claim.state, rows[i].state);
        expect_abort(reply_again);
        if (before.kept != NULL && rows[i].state != CLAIM_LATE)
            expect_abort(reply_late_again);
        if (rows[i].state != CLAIM_IDLE)
            expect_abort(take_again);
        remote_claim_refund(&call.claim);
        play(REPLY_LOST);
        close_call();
    }
}
#endif

/* ---- the claim of an admission run ---- */

static struct admission_run run;
static enum admission_state run_state;

static void run_settle(struct admission_run *ended, tg_ms now, int64_t actual)
{
    (void)ended, (void)now;
    remote_claim_settle(&call.claim, actual);
}

static void run_refund(struct admission_run *ended, tg_ms now)
{
    (void)ended, (void)now;
    remote_claim_refund(&call.claim);
}

static void run_decided(struct remote_claim *claim, enum tg_err err, const struct tg_axes *axes)
{
    struct tg_answer answer;

    assert_ptr_equal(claim, &call.claim);
    call.decisions++;
    run_state = admission_run_store_answered(&run, NOW, err, axes, &answer);
}

static bool run_ask(struct admission_run *asker, tg_ms now, enum tg_err *err, struct tg_axes *axes)
{
    (void)asker, (void)now;
    return remote_take(&call.port, &call.claim, &call.terms, &call.debit, run_decided, err, axes);
}

static const struct admission_ops run_ops = {
    .ask = run_ask, .settle = run_settle, .refund = run_refund};

static int64_t open_leases(struct tg_gate *gate)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(gate, &stats);
    return stats.leases;
}

static void a_gate_is_told_once_and_a_stale_lease_keeps_nothing(void **unused)
{
    enum { ENDS_REFUSED = EVENT_COUNT,
           ENDS };
    static const struct {
        bool is_stale; /* the lease has expired before the event */
        int event;
        enum admission_state want;
        int decisions;
        enum remote_claim_state state;
        int64_t units;
    } rows[] = {
        {false, REPLY_YES, ADMISSION_ADMITTED, 1, CLAIM_CHARGED, ESTIMATE},
        {true, REPLY_YES, ADMISSION_FAILED, 1, CLAIM_IDLE, 0},
        {false, TIME_OUT, ADMISSION_ADMITTED, 1, CLAIM_LATE, 0},
        {true, TIME_OUT, ADMISSION_FAILED, 1, CLAIM_IDLE, 0},
        {false, ENDS_REFUSED, ADMISSION_IDLE, 0, CLAIM_IDLE, 0},
        {false, ENDS, ADMISSION_IDLE, 0, CLAIM_IDLE, 0},
    };
    static const struct setting strict = {CONFIG_AWAY_LOCAL, false, BLOCKS_WAIT,
                                          false, WIDE, false};

    (void)unused;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_gate_config config;
        struct tg_release release;
        struct tg_answer answer;
        struct tg_call asked;
        struct tg_gate *gate;

        open_call(&strict);
        tg_gate_config_init(&config);
        config.remote_store = true;
        config.lease_ttl = 1000;
        assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
        tg_call_init(&asked);
        asked.debit = call.debit;
        tg_release_init(&release);
        release.actual = ACTUAL;
        admission_run_init(&run, gate, &asked, &run_ops);
        run_state = admission_run_admit(&run, NOW, &answer);
        assert_int_equal(run_state, ADMISSION_ASKING);
        assert_int_equal(open_leases(gate), 1);
        if (rows[i].is_stale)
            tg_gate_tick(gate, NOW + 600000); /* a call that is asked about has so long */
        if (rows[i].event == ENDS_REFUSED)
            release.outcome = TG_OUTCOME_REFUSED;
        if (rows[i].event >= ENDS_REFUSED)
            admission_run_end(&run, NOW, &release);
        else
            play((enum event)rows[i].event);
        assert_int_equal(run.state, rows[i].want);
        assert_int_equal(call.decisions, rows[i].decisions);
        assert_true(rows[i].want != ADMISSION_FAILED || run.err == TG_ERR_STALE);
        assert_int_equal(call.claim.state, rows[i].state);
        assert_int_equal(world.units, rows[i].units);
        release.outcome = TG_OUTCOME_REFUSED;
        admission_run_end(&run, NOW, &release);
        play(REPLY_YES);
        assert_int_equal(world.units, 0);
        assert_int_equal(call.decisions, rows[i].decisions);
        assert_int_equal(counted_here(WIDE), 0);
        assert_int_equal(open_leases(gate), 0);
        tg_gate_free(gate);
        close_call();
    }
}

static void a_call_without_limits_asks_nobody(void **unused)
{
    static const struct setting strict = {CONFIG_AWAY_CLOSED, false, BLOCKS_WAIT,
                                          false, WIDE, false};
    struct tg_axes axes = axes_of(false);
    enum tg_err err = TG_ERR_STORE;

    (void)unused;
    open_call(&strict);
    call.debit.n_scopes = 0;
    assert_true(remote_take(&call.port, &call.claim, &call.terms, &call.debit, call_decided, &err,
                            &axes));
    assert_int_equal(err, TG_OK);
    assert_int_equal(axes.present, 0);
    assert_int_equal(world.ask.state, FREE);
    assert_int_equal(call.claim.state, CLAIM_IDLE);
    remote_claim_settle(&call.claim, ACTUAL);
    close_call();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_leads_where_the_drawing_says),
        cmocka_unit_test(every_unit_is_counted_once_whatever_comes_when),
#ifndef NDEBUG
        cmocka_unit_test(what_cannot_come_is_noticed),
#endif
        cmocka_unit_test(a_gate_is_told_once_and_a_stale_lease_keeps_nothing),
        cmocka_unit_test(a_call_without_limits_asks_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
