/* test_snapshot.c - what is shown is what is: counters, rates, bounded lists.
 *
 * And the limits of a call in the order they are asked, with the one that binds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_admin_kit.h"
#include "server/explain/explain.h"
#include "server/fleet/fleet_question.h"

static const char YAML[] =
    "gate: {concurrency: {law: fixed, initial: 3}, peers: {limit: 7}, memory: {},\n"
    "       rate: {strategy: fixed_window, limit: 2, window: 60s}}\n"
    "providers:\n"
    "  demo: {base_url: \"http://127.0.0.1:9\", api: openai,\n"
    "         keys: [{name: k1, secret: x, rpm: 10, tpm: 1000}]}\n"
    "models:\n"
    "  small: {provider: demo, price: {input: 1, output: 2}}\n"
    "  large: {provider: demo, price: {input: 1, output: 2}}\n"
    "aliases: {fast: small}\n"
    "budgets: [{usd: 1000, per: month}]\n"
    "tenants:\n"
    "  - name: house\n"
    "    budgets: [{usd: 100, per: total}]\n"
    "    limits: [{rpm: 5, rpd: 9}]\n"
    "  - name: team\n"
    "    parent: house\n"
    "    models: [\"*\", \"!large\"]\n"
    "    concurrency: 2\n"
    "    priority: low\n"
    "    cost: {strategy: token_bucket, capacity: 500, refill: 1, mode: shadow}\n"
    "    users: {from: \"header:x-user\", each: {rpm: 3, budgets: [{usd: 1, per: day}]}}\n"
    "    budgets: [{usd: 50, per: day}]\n";

static struct admin_kit kit;

static int open_kit(void **state)
{
    (void)state;
    admin_kit_open(&kit, YAML);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    admin_kit_close(&kit);
    return 0;
}

static void take_snapshot(const char *target)
{
    if (admin_kit_ask(&kit, "GET", target, NULL) != 200)
        fail_msg("%s", kit.exchange.body);
}

#define said(text)                                                               \
    do {                                                                         \
        if (!admin_kit_said(&kit, text))                                         \
            fail_msg("line %d: no %s in %s", __LINE__, text, kit.exchange.body); \
    } while (0)

/* ---- the snapshot ---- */

/* Whoever adds a member says what it is for all gateways together: fleet_snapshot.c. */
static void every_member_has_a_meaning_for_a_fleet(void **state)
{
    struct watch_entry entry;
    char *own;
    (void)state;

    watch_entry_init(&entry);
    snprintf(entry.tenant, sizeof entry.tenant, "house");
    watch_put(kit.watch, &entry);
    take_snapshot("/api/v1/snapshot");
    own = strdup(kit.exchange.body);
    assert_non_null(own);
    take_snapshot("/api/v1/snapshot?scope=fleet");
    said("\"scope\":\"fleet\",\"complete\":true,\"store_away\":false,\"gateways\":[{");
    for (const char *at = own; (at = strchr(at, '"')) != NULL;) {
        const char *end = strchr(at + 1, '"');
        char name[80];
        assert_non_null(end);
        snprintf(name, sizeof name, "%.*s:", (int)(end + 1 - at), at);
        if (end[1] == ':' && !admin_kit_said(&kit, name))
            fail_msg("a snapshot of the fleet has no %s", name);
        at = end + 1;
    }
    free(own);
    said("\"held_micro_usd\":0,\"left_micro_usd\":50000000");
}

static void counters_are_of_now_and_rates_of_the_last_second(void **state)
{
    struct gateway_counts *counts = &kit.gateway->counts;
    tg_ms now = clock_now_ms(&kit.clock);
    (void)state;

    atomic_store(&counts->calls, 100);
    snapshot_sample(&kit.admin->memory, kit.generation, now);
    atomic_store(&counts->calls, 150);
    atomic_store(&counts->refused[REPLY_RATE], 8);
    atomic_store(&counts->refused[REPLY_NO_KEY], 1);
    atomic_store(&counts->refused[REPLY_KEYS_COOLING], 3);
    snapshot_sample(&kit.admin->memory, kit.generation, now + 2000);
    atomic_store(&counts->calls, 151);
    take_snapshot("/api/v1/snapshot");
    said("\"counters\":{\"calls\":151,\"admitted\":0,\"refused\":12,"
         "\"refused_by_reason\":{\"rate\":8,\"no_key\":4}");
    said("\"rates\":{\"calls\":25,\"admitted\":0,\"refused\":6,"
         "\"refused_by_reason\":{\"rate\":4,\"no_key\":2}}");
}

static void keys_show_what_is_in_their_way(void **state)
{
    struct tg_pool *pool = tg_keyring_pool(kit.gateway->ring, "demo", "small");
    struct tg_key_call call;
    struct tg_key_answer answer;
    struct tg_key_report report;
    tg_ms now = clock_now_ms(&kit.clock);
    char text[128];
    (void)state;

    take_snapshot("/api/v1/snapshot");
    said("\"name\":\"k1\",\"group\":null,\"status\":\"ready\"");
    tg_key_call_init(&call);
    call.tokens = 40;
    tg_pool_acquire(pool, &call, now, &answer);
    assert_int_not_equal(answer.lease, 0);
    take_snapshot("/api/v1/snapshot");
    said("\"rpm\":{\"limit\":10,\"used\":1},\"tpm\":{\"limit\":1000,\"used\":40},\"in_flight\":1,"
         "\"tokens_in_flight\":40");
    tg_key_report_init(&report);
    report.outcome = TG_KEY_LIMITED;
    report.cool_until = now + 40000;
    tg_keyring_release(kit.gateway->ring, answer.lease, now, &report);
    take_snapshot("/api/v1/snapshot");
    snprintf(text, sizeof text, "\"status\":\"cooling\",\"state\":\"healthy\","
                                "\"cooldown_until\":%lld",
             (long long)now + 40000);
    said(text);
    said("\"keys\":1,\"keys_ready\":0");
    admin_kit_ask(&kit, "POST", "/api/v1/keys/k1/reset", NULL);
    take_snapshot("/api/v1/snapshot");
    said("\"keys\":1,\"keys_ready\":1");
    assert_false(admin_kit_said(&kit, "cooling"));
}

/* One row, though the key is below its tenant. */
static void a_budget_of_a_key_is_among_the_others(void **state)
{
    struct spending_call call = {
        .tenant = "team", .hint = SPENDING_TOP, .key = "ci", .money = 1500000};
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    (void)state;

    assert_int_equal(admin_kit_ask(&kit, "POST", "/api/v1/tenants/team/keys",
                                   "{\"name\":\"ci\",\"budgets\":[{\"usd\":2,\"per\":\"week\"}]}"),
                     201);
    assert_int_equal(spending_reserve(kit.gateway->spending, &call, net_loop_now(kit.loop),
                                      &ticket, &answer),
                     TG_OK);
    take_snapshot("/api/v1/snapshot");
    const char *own = strstr(kit.exchange.body,
                             "{\"tenant\":\"team\",\"key\":\"ci\",\"per\":\"week\",");
    assert_non_null(own);
    assert_null(strstr(strstr(own, "\"per\""), "\"key\":\"ci\""));
    assert_true(own < strstr(kit.exchange.body, "{\"tenant\":\"team\",\"key\":null"));
    said("\"limit_micro_usd\":2000000,\"used_micro_usd\":0,\"reserved_micro_usd\":1500000");
    take_snapshot("/api/v1/snapshot?scope=fleet");
    said("{\"tenant\":\"team\",\"key\":\"ci\",\"per\":\"week\",");
    spending_settle(kit.gateway->spending, &ticket, &(struct spending_use){.spent = 0},
                    clock_now_ms(&kit.clock));
    assert_int_equal(admin_kit_ask(&kit, "DELETE", "/api/v1/tenants/team/keys/ci", NULL), 200);
}

static void budgets_that_are_used_most_come_first(void **state)
{
    struct spending_call call = {.tenant = "team", .hint = SPENDING_TOP, .money = 25000000};
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    (void)state;

    assert_int_equal(spending_reserve(kit.gateway->spending, &call, net_loop_now(kit.loop),
                                      &ticket, &answer),
                     TG_OK);
    take_snapshot("/api/v1/snapshot");
    said("\"budgets\":[{\"tenant\":null,\"key\":null,\"per\":\"month\"");
    const char *team =
        strstr(kit.exchange.body, "{\"tenant\":\"team\",\"key\":null,\"per\":\"day\"");
    const char *house =
        strstr(kit.exchange.body, "{\"tenant\":\"house\",\"key\":null,\"per\":\"total\"");
    assert_non_null(team);
    assert_true(team < house);
    said("\"reserved_micro_usd\":25000000,\"used_ratio\":0.5");
    said("\"used_ratio\":0.25,\"begins_at\":null,\"reset_at\":null}");
    said("\"budgets_truncated\":false");
    spending_settle(kit.gateway->spending, &ticket, &(struct spending_use){.spent = 0},
                    clock_now_ms(&kit.clock));
}

static void denials_are_there_the_newest_first(void **state)
{
    struct watch_entry entry;
    (void)state;

    for (int i = 0; i < 3; i++) {
        watch_entry_init(&entry);
        entry.at = i;
        entry.retry_after_ms = i == 2 ? -1 : 20;
        watch_text(entry.reason, sizeof entry.reason, SLICE("cost"));
        watch_text(entry.axis, sizeof entry.axis, i == 2 ? SLICE("") : SLICE("cost"));
        if (i == 0) {
            watch_text(entry.limit_of, sizeof entry.limit_of, SLICE("tenant dept"));
            watch_text(entry.limit_rule, sizeof entry.limit_rule, SLICE("6 calls a minute"));
            entry.limit = 6;
            entry.remaining = 0;
        }
        watch_put(kit.watch, &entry);
    }
    take_snapshot("/api/v1/snapshot");
    said("\"denials\":[{\"at\":2,\"id\":\"req_");
    said("\"tenant\":null,\"model\":null,\"user\":null,\"max_tokens\":null,\"prompt_bytes\":null,"
         "\"reason\":\"cost\",\"axis\":null,"
         "\"retry_after_ms\":null,\"limit_of\":null,\"limit_rule\":null,\"limit\":null,"
         "\"remaining\":null,\"text\":\"\"},{\"at\":1,");
    said("\"limit_of\":\"tenant dept\",\"limit_rule\":\"6 calls a minute\",\"limit\":6,"
         "\"remaining\":0,\"text\":\"\"}]");
    said("\"axis\":\"cost\",\"retry_after_ms\":20");
}

static void with_many_tenants_it_stays_bounded(void **state)
{
    enum { MANY = 3000 };
    char *yaml = malloc(MANY * 80), target[64];
    size_t n = 0;
    (void)state;

    n += (size_t)sprintf(yaml, "tenants:\n");
    for (int i = 0; i < MANY; i++)
        n += (size_t)sprintf(yaml + n, "  - {name: t%d, budgets: [{usd: %d, per: day}]}\n", i, i);
    admin_kit_write(&kit, yaml);
    free(yaml);
    assert_int_equal(admin_kit_ask(&kit, "POST", "/api/v1/reload", NULL), 200);
    take_snapshot("/api/v1/snapshot");
    said("\"budgets_truncated\":true");
    said("\"tenants_total\":3000");
    assert_true(kit.exchange.body_n < 100000);
    take_snapshot("/api/v1/snapshot?scope=fleet");
    said("\"budgets_truncated\":true");
    assert_true(kit.exchange.body_n < 100000);
    snprintf(target, sizeof target, "/api/v1/tenants?limit=1000&after=t%d", MANY);
    take_snapshot(target);
    said("\"next\":");
}

/* What is told to others has an end: lists are shorter then, and say so. */
static void with_many_keys_an_answer_has_its_bound(void **state)
{
    enum { MANY = 260 };
    char *yaml = malloc(MANY * 400), name[121];
    size_t n = 0, rows = 0;
    (void)state;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    n += (size_t)sprintf(yaml,
                         "providers:\n  demo: {base_url: \"http://127.0.0.1:9\", api: openai, "
                         "keys: [{name: %s1, secret: x}, {name: %s2, secret: y}]}\nmodels:\n",
                         name, name);
    for (int i = 0; i < MANY; i++)
        n += (size_t)sprintf(yaml + n, "  %s%d: {provider: demo, price: {input: 1, output: 2}}\n",
                             name, i);
    admin_kit_write(&kit, yaml);
    free(yaml);
    if (admin_kit_ask(&kit, "POST", "/api/v1/reload", NULL) != 200)
        fail_msg("%.300s", kit.exchange.body);
    take_snapshot("/api/v1/snapshot");
    assert_true(kit.exchange.body_n > FLEET_ANSWER_MAX);
    take_snapshot("/api/v1/snapshot?scope=fleet");
    assert_true(kit.exchange.body_n < FLEET_ANSWER_MAX + 65536);
    said("\"routes_truncated\":true");
    said("\"keys_truncated\":true");
    for (const char *at = kit.exchange.body; (at = strstr(at, "\"breaker\"")) != NULL; at++)
        rows++;
    assert_int_equal(rows, SNAPSHOT_KEYS_MAX / 2);
}

static void the_last_reload_is_told(void **state)
{
    (void)state;
    take_snapshot("/api/v1/snapshot");
    said("\"last_reload\":null");
    kit.gateway->last_reload = (struct last_reload){.at = 7, .why = "SIGHUP", .errors = 2};
    take_snapshot("/api/v1/snapshot");
    said("\"last_reload\":{\"at\":7,\"ok\":false,\"why\":\"SIGHUP\",\"errors\":2}");
}

/* ---- what applies to a call ---- */

/* The places of these words in the last answer ascend. */
static void in_order(const char *const *words, size_t n)
{
    const char *at = kit.exchange.body;

    for (size_t i = 0; i < n; i++) {
        const char *next = strstr(at, words[i]);
        if (next == NULL)
            fail_msg("no %s after the one before it, in %s", words[i], kit.exchange.body);
        at = next + strlen(words[i]);
    }
}

static void every_limit_is_told_in_the_order_it_is_asked(void **state)
{
    static const char *const words[] = {
        "\"admitted\":true,\"waits\":false,\"refused_by\":null",
        "{\"stage\":\"memory_pressure\",\"scope\":\"gate\"",
        "{\"stage\":\"peer_limit\",\"scope\":\"tenant\",\"name\":\"team\"",
        "{\"stage\":\"model_not_allowed\",\"scope\":\"tenant\",\"name\":\"team\"",
        "{\"stage\":\"concurrency\",\"scope\":\"model\",\"name\":\"small\"",
        "{\"stage\":\"concurrency\",\"scope\":\"gate\"",
        "\"what\":\"law fixed, 3 calls at once\"",
        "{\"stage\":\"rate\",\"scope\":\"tenant\",\"name\":\"team\",\"what\":\"fixed_window, 2 in "
        "1m\"",
        "gate.rate (default)",
        "{\"stage\":\"rate\",\"scope\":\"user\",\"name\":\"bob\"",
        "{\"stage\":\"rate\",\"scope\":\"parent\",\"name\":\"house\",\"what\":\"limits[0]: gcra, 5 "
        "in 1m",
        "{\"stage\":\"rate\",\"scope\":\"parent\",\"name\":\"house\",\"what\":\"limits[0]: gcra, 9 "
        "in 1d",
        "{\"stage\":\"cost\",\"scope\":\"tenant\",\"name\":\"team\"",
        "\"mode\":\"shadow\",\"unit\":\"tokens\",\"limit\":500,\"remaining\":500",
        "{\"stage\":\"budget\",\"scope\":\"everyone\",\"name\":null",
        "{\"stage\":\"budget\",\"scope\":\"parent\",\"name\":\"house\"",
        "{\"stage\":\"budget\",\"scope\":\"tenant\",\"name\":\"team\"",
        "{\"stage\":\"budget\",\"scope\":\"user\",\"name\":\"bob\"",
        "{\"stage\":\"no_key\",\"scope\":\"pool\",\"name\":\"small\"",
    };
    (void)state;

    take_snapshot("/api/v1/explain?tenant=team&model=fast&user=bob&tokens=1&micro_usd=1");
    in_order(words, COUNT_OF(words));
    said("t.yaml:18\"");
}

static void the_first_that_refuses_is_named_and_shadow_does_not_count(void **state)
{
    struct tg_scope room[TG_SCOPES_MAX];
    struct tg_call call;
    struct tg_decision decision;
    struct scopes_who who = {
        .tenant = "team", .tenant_bytes = 4, .model = "small", .model_bytes = 5};
    (void)state;

    /* The cost is more than there ever is, but in shadow. */
    take_snapshot("/api/v1/explain?tenant=team&model=small&tokens=600&micro_usd=1");
    said("\"admitted\":true");
    said("\"mode\":\"shadow\",\"unit\":\"tokens\",\"limit\":500,\"remaining\":500,\"reset_at\":");
    said("\"retry_after_ms\":null,\"refuses\":true");
    take_snapshot("/api/v1/explain?tenant=team&model=large");
    said("\"admitted\":false,\"waits\":false,\"refused_by\":2");
    tg_call_init(&call);
    assert_int_equal(scopes_fill(kit.generation->scopes, &who, room, &call, NULL), TG_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tg_store_take(kit.gateway->store, &call.debit, net_loop_now(kit.loop),
                                       &decision, NULL),
                         TG_OK);
    take_snapshot("/api/v1/explain?tenant=team&model=small&tokens=1&micro_usd=1");
    said("\"admitted\":false,\"waits\":false,\"refused_by\":5");
    said("\"limit\":2,\"remaining\":0");
    /* A look changes nothing: what is left stays. */
    take_snapshot("/api/v1/explain?tenant=team&model=small&tokens=1&micro_usd=1");
    said("\"what\":\"limits[0]: gcra, 9 in 1d, burst 9\",\"source\":");
    said("\"limit\":9,\"remaining\":7");
}

static void money_and_keys_bind_too(void **state)
{
    (void)state;
    take_snapshot("/api/v1/explain?tenant=team&model=small&user=bob&tokens=1&micro_usd=1000001");
    said("\"admitted\":false");
    said("\"name\":\"bob\",\"what\":\"1 USD per day, UTC\"");
    take_snapshot("/api/v1/explain?tenant=team&model=small&tokens=1001&micro_usd=1");
    said("\"unit\":\"keys\",\"limit\":1,\"remaining\":0");
    said("\"admitted\":false");
}

static void what_is_asked_for_must_be_there(void **state)
{
    static const struct {
        const char *query;
        int status;
    } rows[] = {
        {"", 400},
        {"?tenant=team", 400},
        {"?model=small", 400},
        {"?tenant=nobody&model=small", 404},
        {"?tenant=team&model=none", 404},
        {"?tenant=team&model=small&tokens=-1", 400},
        {"?tenant=team&model=small&tokens=", 400},
        {"?tenant=team&model=small&micro_usd=1e3", 400},
        {"?tenant=team&model=small&priority=urgent", 400},
        {"?tenant=team&model=small&tenant=team", 400},
        {"?tenant=team&model=small&cost=1", 400},
        {"?tenant=team&model=small&priority=high", 200},
    };
    char target[128];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(target, sizeof target, "/api/v1/explain%s", rows[i].query);
        int status = admin_kit_ask(&kit, "GET", target, NULL);
        if (status != rows[i].status)
            fail_msg("%s: %d: %s", target, status, kit.exchange.body);
    }
    said("\"priority\":\"low\""); /* the highest that it may ask for */
}

static void a_model_that_is_not_listed_is_one_that_may_be_asked_for(void **state)
{
    (void)state;
    admin_kit_write(&kit, "providers:\n"
                          "  demo: {base_url: \"http://127.0.0.1:9\", api: openai,\n"
                          "         keys: [{name: k1, secret: x}]}\n"
                          "unknown_model: allow\n"
                          "tenants:\n"
                          "  - name: team\n"
                          "    models: [\"new-*\"]\n"
                          "    limits: [{models: [\"new-1\"], rpm: 4}]\n");
    if (admin_kit_ask(&kit, "POST", "/api/v1/reload", NULL) != 200)
        fail_msg("%s", kit.exchange.body);
    take_snapshot("/api/v1/explain?tenant=team&model=new-1");
    said("\"model\":\"new-1\"");
    said("\"admitted\":true");
    said("limits[0]: gcra, 4 in 1m");
    take_snapshot("/api/v1/explain?tenant=team&model=old");
    said("\"admitted\":false");
    assert_false(admin_kit_said(&kit, "limits[0]"));
}

static void limiters_are_told_in_words(void **state)
{
    static const struct {
        const char *spec, *words;
    } rows[] = {
        {"gcra:limit=10,period=1000,burst=5", "gcra, 10 in 1s, burst 5"},
        {"gcra:limit=10,period=90000", "gcra, 10 in 90s, burst 10"},
        {"token_bucket:capacity=10,refill=0.5", "token_bucket, capacity 10, refill 0.5 a second"},
        {"fixed_window:limit=5,window=86400000", "fixed_window, 5 in 1d"},
        {"sliding_log:limit=5,window=1500", "sliding_log, 5 in 1500ms"},
        {"token_budget:budget=100,window=60000", "token_budget, 100 in 1m"},
    };
    char text[EXPLAIN_WHAT_MAX];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_limiter limiter = limiter_of(rows[i].spec);
        explain_limiter(&limiter.config, text);
        assert_string_equal(text, rows[i].words);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_member_has_a_meaning_for_a_fleet),
        TEST(counters_are_of_now_and_rates_of_the_last_second),
        TEST(keys_show_what_is_in_their_way),
        TEST(a_budget_of_a_key_is_among_the_others),
        TEST(budgets_that_are_used_most_come_first),
        TEST(denials_are_there_the_newest_first),
        TEST(with_many_tenants_it_stays_bounded),
        TEST(with_many_keys_an_answer_has_its_bound),
        TEST(the_last_reload_is_told),
        TEST(every_limit_is_told_in_the_order_it_is_asked),
        TEST(the_first_that_refuses_is_named_and_shadow_does_not_count),
        TEST(money_and_keys_bind_too),
        TEST(what_is_asked_for_must_be_there),
        TEST(a_model_that_is_not_listed_is_one_that_may_be_asked_for),
        TEST(limiters_are_told_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
