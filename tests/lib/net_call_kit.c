/* net_call_kit.c - calls of the proxy without a network: the gateway, and what is held in it. See
 * net_call_kit.h; the rest is in net_call_fakes.c.
 */
#include "net_call_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/core/num.h"
#include "server/obs/log_internal.h"
#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/runtime/observe.h"
#include "server/runtime/recorder.h"
#include "server/tenancy/virtual_key.h"

#define DAY_MS INT64_C(86400000)
enum { RATE_LIMIT = 1000, COST_LIMIT = 1000000, LOG_BYTES = 1 << 16 };

/* ---- the gateway ---- */

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static size_t write_config(const struct call_kit_config *config, char *yaml, size_t size)
{
    uint8_t hash[VIRTUAL_KEY_HASH];
    char hex[VIRTUAL_KEY_HEX + 1];

    assert_true(virtual_key_hash(SLICE(CALL_KIT_KEY), hash));
    virtual_key_hex(hash, hex);
    assert_int_equal(setenv("CALL_KIT_SECRET", "provider-secret", 1), 0);
    return (size_t)snprintf(
        yaml, size,
        "listen: {gateway: \"127.0.0.1:0\"}\n"
        "ledger: {path: \":memory:\"}\n"
        "log: {level: info}\n"
        "%s%s"
        "gate:\n"
        "  peers: {limit: 100}\n"
        "  rate: {strategy: fixed_window, limit: %d, window: 24h}\n"
        "  cost: {strategy: fixed_window, limit: %d, window: 24h}\n"
        "%s%s"
        "providers:\n"
        "  p:\n"
        "    base_url: \"http://127.0.0.1:1\"\n"
        "    api: openai\n"
        "    keys:\n"
        "      - {name: k1, secret: \"${CALL_KIT_SECRET}\"%s%s}\n"
        "      - {name: k2, secret: \"${CALL_KIT_SECRET}\"%s%s}\n"
        "%s%s"
        "%s"
        "models:\n"
        "  first: {provider: p, price: {input: 1, output: 2}%s%s%s}\n"
        "  second: {provider: p, price: {input: 1, output: 2}, max_output_tokens: 4096%s%s}\n"
        "%s"
        "tenants:\n"
        "  - {name: one, keys: [{name: main, sha256: %s%s%s}], "
        "%s%s}\n"
        "%s",
        config->remote ? "store: redis://127.0.0.1:1/0\n" : "",
        strstr(or_empty(config->top), "unknown_objects") ? "" : "unknown_objects: allow\n",
        RATE_LIMIT, COST_LIMIT, or_empty(config->gate), config->gate ? "\n" : "",
        config->key ? ", " : "", or_empty(config->key), config->key ? ", " : "",
        or_empty(config->key), or_empty(config->provider), config->provider ? "\n" : "",
        or_empty(config->providers),
        strstr(or_empty(config->first), "max_output_tokens") ? "" : ", max_output_tokens: 4096",
        config->first ? ", " : "", or_empty(config->first), config->second ? ", " : "",
        or_empty(config->second), or_empty(config->models), hex, config->virtual_key ? ", " : "",
        or_empty(config->virtual_key),
        strstr(or_empty(config->tenant), "endpoints") ? "" : "endpoints: [\"/*\"], ",
        config->tenant ? config->tenant : "budgets: [{usd: 100, per: total}]",
        or_empty(config->top));
}

static void read_config(const struct call_kit_config *config, struct config *read)
{
    const struct call_kit_config usual = {0};
    struct config_problems problems;
    char yaml[4000];

    size_t n = write_config(config ? config : &usual, yaml, sizeof yaml);
    assert_true(n < sizeof yaml);
    if (config_parse(NULL, yaml, n, read, &problems) != CONFIG_READ)
        fail_msg("%s\n%s", problems.list[0].text, yaml);
    config_problems_free(&problems);
}

void call_kit_reload(const struct call_kit_config *config)
{
    struct generation *before = call_kit.worker.generation, *made;
    struct tg_problem problem;
    struct config read;

    read_config(config, &read);
    if (!generation_new(call_kit.gateway, &read, before, &made, &problem) ||
        !generation_apply(made, before, call_kit.now, &problem))
        fail_msg("%s", problem.text);
    LIST_INSERT_HEAD(&call_kit.gateway->generations, made, link);
    call_kit.worker.generation = made;
    generation_leave(before, call_kit.worker.number);
}

void call_kit_open(const struct call_kit_config *config)
{
    static const struct service *const list[] = {&proxy_service};
    static const struct service_table services = {.list = list, .n = COUNT_OF(list)};
    struct tg_problem problem;
    struct config read;
    struct clock clock;

    memset(&call_kit, 0, sizeof call_kit);
    clock_init(&clock);
    read_config(config, &read);
    if (!gateway_new(&services, &read, &clock, 1, &call_kit.gateway, &problem))
        fail_msg("%s", problem.text);
    ledger_stop_keeping(call_kit.gateway->ledger); /* no thread but this one */
    /* The beginning of a day: no window ends during a test. */
    call_kit.now = (clock_now_ms(&clock) / DAY_MS + 1) * DAY_MS + 1000;
    call_kit.worker.gateway = call_kit.gateway;
    call_kit.worker.generation = gateway_newest(call_kit.gateway);
    random_init(&call_kit.worker.random, 1, 1);
    call_kit.worker.reader = json_reader_new();
    assert_non_null(call_kit.worker.reader);
    assert_int_equal(net_loop_new(&call_kit.gateway->clock, &call_kit.worker.loop), TG_OK);
    assert_true(proxy_service.start(&call_kit.worker, &problem));
}

/* A log without the thread that writes it: nothing is waited for. */
static struct log kit_log;
static struct log_lane kit_lane;

void call_kit_observe(bool recorded)
{
    struct gateway *gateway = call_kit.gateway;

    atomic_store(&kit_log.level, LOG_INFO);
    atomic_store(&kit_log.json, true);
    kit_lane = (struct log_lane){.log = &kit_log};
    assert_true(log_ring_init(&kit_lane.lines, LOG_BYTES));
    assert_true(!recorded || log_ring_init(&kit_lane.arrivals, LOG_BYTES));
    call_kit.worker.log = &kit_lane;
    gateway->watch = watch_new(WATCH_SLOTS);
    assert_non_null(gateway->watch);
    if (gateway_newest(gateway)->config.otlp.host != NULL) {
        gateway->trace = trace_new(TRACE_LANE_BYTES);
        assert_non_null(gateway->trace);
        call_kit.worker.spans = trace_lane_new(gateway->trace);
        assert_non_null(call_kit.worker.spans);
    }
}

const char *call_kit_line(void)
{
    static char text[LOG_LINE_MAX + 1];
    const struct log_line *line = &kit_lane.line;

    memcpy(text, line->room, line->out.size);
    text[line->out.size] = '\0';
    return text;
}

void call_kit_record(void)
{
    struct tg_problem problem;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    call_kit_observe(true);
    assert_true(fd >= 0);
    if (!recorder_begin(call_kit.gateway, fd, &problem))
        fail_msg("%s", problem.text);
    close(fd);
}

const char *call_kit_recorded(void)
{
    static char text[8192];
    struct slice line = text_out_written(&kit_lane.wide);

    assert_true(line.n < sizeof text);
    if (line.n > 0)
        memcpy(text, line.at, line.n);
    text[line.n] = '\0';
    return text;
}

void call_kit_close(void)
{
    proxy_service.stop(&call_kit.worker);
    if (call_kit.worker.log != NULL) {
        log_ring_fini(&kit_lane.lines);
        log_ring_fini(&kit_lane.arrivals);
        text_out_fini(&kit_lane.wide);
        gateway_observe_end(call_kit.gateway);
    }
    json_reader_free(call_kit.worker.reader);
    net_loop_free(call_kit.worker.loop);
    gateway_free(call_kit.gateway);
    call_kit.gateway = NULL;
}

/* ---- what is held ---- */

static int64_t used_of(const struct call *call, enum tg_axis axis, int64_t limit)
{
    struct tg_limit_metrics limits[TG_LIMITS_MAX];

    for (size_t scope = 0; scope < call->gate_call.debit.n_scopes; scope++) {
        size_t n = tg_store_peek_scope(call_kit.gateway->store, &call->gate_call.debit, scope,
                                       call_kit.now, limits);
        for (size_t i = 0; i < n; i++)
            if (limits[i].axis == axis)
                return limit - limits[i].decision.remaining;
    }
    return 0;
}

int64_t call_kit_rate_used(const struct call *call)
{
    return used_of(call, TG_AXIS_RATE, RATE_LIMIT);
}

int64_t call_kit_cost_used(const struct call *call)
{
    return used_of(call, TG_AXIS_COST, COST_LIMIT);
}

void call_kit_expect_entries(uint64_t n)
{
    struct journal *journal = &call_kit.gateway->ledger->journal;
    struct journal_record record;

    assert_int_equal(journal_read(journal, n + 1, &record), JOURNAL_NOTHING);
}

struct ledger_entry call_kit_entry(uint64_t number)
{
    static struct journal_record record;

    assert_int_equal(journal_read(&call_kit.gateway->ledger->journal, number, &record),
                     JOURNAL_WHOLE);
    return record.entry;
}

void call_kit_expect_metric(const char *line)
{
    static char page[1 << 17];
    char whole[300];
    struct exposition text;

    exposition_init(&text);
    metrics_write(call_kit.gateway->metrics, &text);
    assert_true(!text.out.failed && text.out.size < sizeof page);
    memcpy(page, text.out.bytes, text.out.size);
    page[text.out.size] = '\0';
    exposition_fini(&text);
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (strstr(page, whole) == NULL)
        fail_msg("%s\nis not in\n%s", line, page);
}

/* Every budget on the way holds the same. */
static void find_settled(void *context, const struct spending_account *account)
{
    tg_micro *settled = context;

    for (size_t i = 0; i < account->n_budgets; i++) {
        assert_int_equal(account->budgets[i].outstanding, 0);
        *settled = num_max(*settled, account->budgets[i].settled);
    }
}

tg_micro call_kit_money_settled(void)
{
    const struct spending_call one = {.tenant = "one"};
    tg_micro settled = 0;

    assert_int_equal(
        spending_peek(call_kit.gateway->spending, &one, call_kit.now, find_settled, &settled),
        TG_OK);
    return settled;
}

static void expect_gate_idle(struct tg_gate *gate)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.peer_calls, 0);
    assert_int_equal(stats.leases, 0);
    assert_int_equal(stats.expired, 0);
    for (int i = 0; i < TG_PRIORITY_COUNT; i++)
        assert_int_equal(stats.queued[i], 0);
}

static void expect_pool_idle(struct tg_pool *pool)
{
    struct tg_key_metrics keys[8];
    size_t n = tg_pool_get_keys(pool, call_kit.now, 0, keys, COUNT_OF(keys));

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(keys[i].in_flight, 0);
        assert_int_equal(keys[i].tpm_inflight, 0);
    }
}

void call_kit_expect_idle(struct call *const *calls, size_t n)
{
    const struct gateway *gateway = call_kit.gateway;
    struct tg_bank_stats bank;

    assert_true(LIST_EMPTY(&call_kit.worker.proxy->calls));
    assert_int_equal(call_kit.n_timers, 0);
    assert_null(call_kit.job);
    assert_null(call_kit.limits_asked);
    assert_null(call_kit.money_asked);
    assert_null(call_kit.key_asked);
    assert_null(call_kit.objects_asked.ops);
    assert_int_equal(call_kit.limits_held, 0);
    assert_int_equal(call_kit.money_held, 0);
    assert_int_equal(call_kit.keys_held, 0);
    for (size_t i = 0; i < call_kit.n_outs; i++)
        assert_true(call_kit.outs[i].over && call_kit.outs[i].cancelled <= 1);
    expect_gate_idle(gateway->gate);
    for (size_t i = 0; i < gateway_newest(gateway)->config.n_models; i++) {
        expect_gate_idle(gateway_newest(gateway)->routes[i].slots->gate);
        expect_pool_idle(gateway_newest(gateway)->routes[i].pool);
    }
    tg_bank_get_stats(spending_bank(gateway->spending), &bank);
    assert_int_equal(bank.reservations, 0);
    assert_int_equal(atomic_load(&gateway->counts.buffered), 0);
    assert_int_equal(atomic_load(&gateway->counts.open), 0);
    assert_int_equal(gateway_newest(gateway)->refs[0].n, 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(calls[i]->state, CALL_FREED);
        call_kit.past_rate += calls[i]->attempts > 0 && !gateway->remote;
        call_kit.past_cost += gateway->remote ? 0 : calls[i]->used;
        call_kit.past_spent += calls[i]->spent > 0 ? calls[i]->spent : 0;
        call_kit.past_spent += calls[i]->uncertain;
    }
    if (n > 0 && calls[0]->gate_call.debit.n_scopes > 0) {
        assert_int_equal(call_kit_rate_used(calls[0]), call_kit.past_rate);
        assert_int_equal(call_kit_cost_used(calls[0]), call_kit.past_cost);
    }
    assert_int_equal(call_kit_money_settled(), call_kit.past_spent);
    call_kit.n_outs = 0;
}

void call_kit_expect_released(const struct call_client *client)
{
    call_kit_expect_idle(&client->call, 1);
}

/* ---- access tokens ---- */

static struct key_place *place_at(size_t i)
{
    struct generation *generation = gateway_newest(call_kit.gateway);

    return i < generation->n_places && strcmp(generation->places[i].provider->name, "p") == 0
               ? &generation->places[i]
               : NULL;
}

void call_kit_want_token(void)
{
    static const struct config_account account = {
        .email = "a@b",
        .private_key = {.bytes = "key", .size = 3},
        .token_uri = "http://127.0.0.1:1/token",
        .token_url = {.host = "127.0.0.1", .port = 1, .path = "/token"},
    };

    for (size_t i = 0; place_at(i) != NULL; i++) {
        struct config_provider_key key = *place_at(i)->key;
        struct tg_problem problem;
        key.account = &account;
        access_token_unref(place_at(i)->token);
        place_at(i)->token = access_token_new(place_at(i)->provider, &key, &problem);
        assert_non_null(place_at(i)->token);
    }
}

void call_kit_give_token(bool good)
{
    for (size_t i = 0; place_at(i) != NULL; i++) {
        if (place_at(i)->token == NULL)
            continue;
        if (good)
            access_token_set(place_at(i)->token, SLICE("token"), call_kit.now, 3600 * 1000);
        else
            access_token_failed(place_at(i)->token, call_kit.now);
    }
    call_kit_turn();
}
