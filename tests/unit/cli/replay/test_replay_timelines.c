/* test_replay_timelines.c - the same trace on memory and on Redis: the same bytes, the same states.
 *
 * A thousand random timelines: all limiter sets, both ways of charging, with and without bid
 * prices, tenants with parents, models and users, shadow, costs above every ceiling, settlements,
 * and a clock that jumps. Each is replayed by `tollgate replay -c`, once without and once with
 * --store, and what is printed is compared byte by byte. Then what was left in Redis is asked what
 * it would say to calls of everybody at other times, and says what the store in memory says.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/replay/replay_side.h"
#include "net_limits.h"
#include "net_replay.h"
#include "net_timeline.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIMELINES 200
#else
#define TIMELINES 1000
#endif
#define LINES 40
#define PEEKS 12

static uint64_t seed;
static struct net_limits redis;
static struct net_replay folder;

/* ---- running ---- */

static void expect_done(int status)
{
    size_t n;

    if (status != 0)
        fail_msg("status %d: %s", status, net_replay_read("errors", &n));
}

/* On Redis under a prefix, which stays; null: in memory. */
static void replay(const char *out, const char *prefix)
{
    char url[192];

    snprintf(url, sizeof url, "redis+unix://%.120s", redis.server.host + strlen("unix:"));
    if (prefix == NULL)
        expect_done(net_replay_run(out, "-c", "gate.yaml", "trace.jsonl", NULL));
    else
        expect_done(net_replay_run(out, "-c", "gate.yaml", "--store", url, "--store-prefix",
                                   prefix, "trace.jsonl", NULL));
}

/* ---- what is left behind ---- */

static void ignore(void *context, const struct replay_call *call, const struct tg_answer *answer,
                   tg_ms at)
{
    (void)context;
    (void)call;
    (void)answer;
    (void)at;
}

/* The side as `replay` has it at its end. */
static void run_side(struct replay_side *side, const char *trace)
{
    struct json_reader *reader = json_reader_new();
    struct trace_event event;
    struct tg_gate_stats stats;
    struct tg_problem problem;
    struct lines lines;
    struct line line;
    uint64_t number = 0;
    int fd = open(trace, O_RDONLY);

    int kept = net_replay_exchange(STDERR_FILENO, "errors");
    assert_true(replay_side_init(side, &cmd_replay, "gate.yaml", 0, NULL, ignore, NULL));
    net_replay_change_back(STDERR_FILENO, kept);
    assert_true(fd >= 0);
    lines_init(&lines, fd);
    while (lines_next(&lines, &line) == LINES_LINE) {
        assert_int_equal(trace_read_event(reader, &line, &event, &problem), TRACE_CALL);
        assert_true(replay_side_event(side, &event, ++number, NULL, &stats));
    }
    assert_true(replay_side_finish(side));
    lines_fini(&lines);
    close(fd);
    json_reader_free(reader);
}

static void expect_same_axes(const char *where, const struct tg_axes *got,
                             const struct tg_axes *wanted)
{
    if (got->present != wanted->present || got->would_deny != wanted->would_deny)
        fail_msg("%s: axes %x and would_deny %x; in memory %x and %x", where, got->present,
                 got->would_deny, wanted->present, wanted->would_deny);
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (wanted->present & 1u << axis)
            expect_decision(where, got->decision[axis], wanted->decision[axis]);
}

static void translate(const struct limit_listing *listing, const struct tg_debit *from,
                      struct remote_scope room[TG_SCOPES_MAX], struct remote_debit *to)
{
    *to = (struct remote_debit){.scopes = room,
                                .n_scopes = from->n_scopes,
                                .cost = from->cost,
                                .charging = from->charging,
                                .root = {from->root, from->root_bytes}};
    if (from->root == NULL)
        to->root = (struct slice){from->scopes[0].key, from->scopes[0].key_bytes};
    for (size_t i = 0; i < from->n_scopes; i++) {
        const struct limit_listed *listed = &listing->sets[from->scopes[i].limits];
        room[i] = (struct remote_scope){listed->name,
                                        {from->scopes[i].key, from->scopes[i].key_bytes},
                                        listed->limits,
                                        listed->n};
    }
}

static void peek_both(struct timeline *timeline, struct replay_side *side,
                      const struct limit_listing *listing, const char *where)
{
    static const char *const models[] = {"m1", "m2", "x-large"};
    static const char *const users[] = {"ann", "bob", "a:b%}{"};
    struct draw *draw = &timeline->draw;
    char tenant[8];
    struct tg_scope room[TG_SCOPES_MAX];
    struct remote_scope remote_room[TG_SCOPES_MAX];
    struct remote_debit debit;
    struct tg_call call;
    struct tg_problem problem;
    struct tg_decision decision;
    struct tg_axes wanted, got;
    struct scopes_who who = {.tenant = tenant, .priority = TG_PRIORITY_NORMAL};

    snprintf(tenant, sizeof tenant, "t%d", (int)draw_between(draw, 0, timeline->tenants - 1));
    who.tenant_bytes = strlen(tenant);
    who.model = models[draw_between(draw, 0, 2)];
    who.model_bytes = strlen(who.model);
    who.user = draw_chance(draw, 70) ? users[draw_between(draw, 0, 2)] : NULL;
    who.user_bytes = who.user != NULL ? strlen(who.user) : 0;
    tg_call_init(&call);
    assert_int_equal(scopes_fill(side->scopes, &who, room, &call, &problem), TG_OK);
    call.debit.cost = draw_chance(draw, 50) ? 0 : draw_magnitude(draw, 300);
    if (call.debit.n_scopes == 0)
        return;
    tg_ms at = timeline->now + draw_between(draw, -30000, 60000);
    at = at < 0 ? 0 : at > TG_NUMBER_MAX ? TG_NUMBER_MAX
                                         : at;
    assert_int_equal(tg_store_peek(side->store, &call.debit, at, &decision, &wanted), TG_OK);
    translate(listing, &call.debit, remote_room, &debit);
    net_limits_peek(&redis, &debit, at, &got);
    expect_same_axes(where, &got, &wanted);
}

/* The names that a reading of the same configuration gives its sets, as the replay had them. */
static void expect_same_states(struct timeline *timeline, const char *where)
{
    struct replay_side side;
    struct limit_book *book;
    struct scopes *scopes;
    struct tg_problem problem;

    run_side(&side, "trace.jsonl");
    /* A second store: it defines the same sets in the same order. */
    struct tg_store_config config;
    struct tg_store *store;
    tg_store_config_init(&config);
    assert_int_equal(tg_store_new(&config, &store, &problem), TG_OK);
    book = limit_book_new(store);
    assert_non_null(book);
    assert_int_equal(scopes_new(&side.config, book, &scopes, &problem), TG_OK);
    struct limit_listing *listing = limit_book_list(book);
    assert_non_null(listing);
    for (int i = 0; i < PEEKS; i++)
        peek_both(timeline, &side, listing, where);
    free(listing);
    scopes_free(scopes);
    limit_book_free(book);
    tg_store_free(store);
    replay_side_fini(&side);
}

/* ---- timelines ---- */

static void fail_with(const char *where, const char *got, const char *wanted)
{
    size_t i = 0, line = 1;

    for (; got[i] != '\0' && got[i] == wanted[i]; i++)
        line += got[i] == '\n';
    while (i > 0 && got[i - 1] != '\n')
        i--;
    fail_msg("%s: line %zu of the output is\n%.400s\nin memory\n%.400s", where, line, got + i,
             wanted + i);
}

static void expect_same(struct timeline *timeline, const char *where, const char *prefix)
{
    size_t n_wanted, n_got;

    net_replay_write("gate.yaml", timeline->config.at, timeline->config.n);
    net_replay_write("trace.jsonl", timeline->trace.at, timeline->trace.n);
    replay("memory.out", NULL);
    replay("redis.out", prefix);
    char *wanted = net_replay_read("memory.out", &n_wanted);
    char *got = net_replay_read("redis.out", &n_got);
    if (n_wanted != n_got || memcmp(wanted, got, n_got) != 0)
        fail_with(where, got, wanted);
    free(wanted);
    free(got);
    snprintf(redis.prefix, sizeof redis.prefix, "%s", prefix);
    expect_same_states(timeline, where);
}

static void random_timelines_are_the_same_on_memory_and_on_redis(void **state)
{
    size_t lines = 0;

    (void)state;
    for (uint64_t i = 0; i < TIMELINES; i++) {
        struct timeline timeline;
        char where[80], prefix[32];
        timeline_init(&timeline, seed, i);
        timeline_draw(&timeline, LINES);
        snprintf(where, sizeof where, "timeline %d of seed %llu", (int)i,
                 (unsigned long long)seed);
        snprintf(prefix, sizeof prefix, "line%d", (int)i);
        expect_same(&timeline, where, prefix);
        timeline_fini(&timeline);
        lines += LINES;
        if (i % 50 == 49)
            net_redis_do(&redis.server, "FLUSHALL");
    }
    print_message("# %d timelines of %zu lines\n", TIMELINES, lines / TIMELINES);
}

/* Where rate refuses, cost is not charged: GCRA 2 a minute and a bucket of 100, ten calls of 10
 * within 10 ms, of which two get in. Half a minute later a call of 80 fits: 80 were left, and the
 * bucket is full again. A script that debits both axes whatever they say has spent all of it. */
static void a_call_that_rate_refuses_leaves_its_cost_unspent(void **state)
{
    static const char *const charging[] = {"atomic", "per-axis"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct timeline timeline;
        char prefix[32];
        size_t n;
        timeline_init(&timeline, seed, 5000 + (uint64_t)i);
        timeline.tenants = 1;
        timeline.now = 2030000;
        timeline_say(&timeline.config,
                     "gate:\n  charging: %s\n"
                     "  rate: {strategy: gcra, limit: 2, period: 60s}\n"
                     "  cost: {strategy: token_bucket, capacity: 100, refill: 1}\n"
                     "tenants:\n  - name: t0\n",
                     charging[i]);
        for (int k = 0; k < 10; k++)
            timeline_say(&timeline.trace, "{\"t\":%d,\"key\":\"t0\",\"cost\":10}\n", 2000000 + k);
        timeline_say(&timeline.trace, "{\"t\":2030000,\"key\":\"t0\",\"cost\":80}\n");
        snprintf(prefix, sizeof prefix, "case91-%d", i);
        expect_same(&timeline, charging[i], prefix);

        char *got = net_replay_read("redis.out", &n);
        const char *last = strstr(got, "\"t\":2030000");
        assert_non_null(last);
        while (last > got && last[-1] != '\n')
            last--;
        assert_memory_equal(last, "{\"allowed\":true,", 16);
        assert_non_null(strstr(last, "\"cost\":{\"allowed\":true,\"limit\":100,\"remaining\":20,"));
        free(got);
        timeline_fini(&timeline);
    }
}

/* ---- */

static int open_all(void **state)
{
    (void)state;
    seed = draw_seed("test_replay_timelines");
    net_limits_open(&redis);
    net_replay_open(&folder);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_replay_close(&folder);
    net_limits_close(&redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_timelines_are_the_same_on_memory_and_on_redis),
        cmocka_unit_test(a_call_that_rate_refuses_leaves_its_cost_unspent),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
