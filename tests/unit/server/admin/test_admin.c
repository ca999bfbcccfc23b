/* test_admin.c - who may ask, what a body must be, and what becomes of changes: in force at once,
 * kept, told in the log's words, and taken back when they do not hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_admin_kit.h"
#include "server/admin/admin_change.h"
#include "server/tenancy/virtual_key.h"

#define HASH "5e0c7ed5e3b5ef5a3c4c2f4f7f6b3a2a1d0e9c8b7a6f5e4d3c2b1a0f9e8d7c6b"

static const char YAML[] = "gate: {peers: {}}\n"
                           "budgets: [{usd: 700, per: day}]\n"
                           "providers:\n"
                           "  demo: {base_url: \"http://127.0.0.1:9\", api: openai,\n"
                           "         keys: [{name: k1, secret: x},\n"
                           "                {name: \"odd/one\", secret: y}]}\n"
                           "models:\n"
                           "  small: {provider: demo, price: {input: 1, output: 2}}\n"
                           "tenants:\n"
                           "  - name: team\n"
                           "    keys: [{name: prod, sha256: \"" HASH "\"}]\n"
                           "    budgets: [{usd: 50, per: day}, {usd: 9, per: month, tz: UTC},\n"
                           "              {usd: 8, per: month, tz: Asia/Tokyo}]\n";

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

static void expect_at(int line, int status, const char *method, const char *target,
                      const char *body)
{
    int got = admin_kit_ask(&kit, method, target, body);

    if (got != status)
        fail_msg("line %d: %s %s: %d instead of %d: %s", line, method, target, got, status,
                 kit.exchange.body);
}

#define expect(status, method, target, body) expect_at(__LINE__, status, method, target, body)

#define expect_said(text)                                                            \
    do {                                                                             \
        if (!admin_kit_said(&kit, text))                                             \
            fail_msg("line %d: no \"%s\" in %s", __LINE__, text, kit.exchange.body); \
    } while (0)

static const struct config_tenant *tenant(const char *name)
{
    return config_tenant(&kit.generation->config, name, strlen(name));
}

/* ---- who ---- */

static void without_the_token_every_path_answers_the_same(void **state)
{
    static const char *const paths[] = {"/api/v1/snapshot", "/api/v1/nothing", "/api",
                                        "/api/", "/metrics", "/api/v1/tenants/team"};
    static const char *const tokens[] = {NULL,
                                         "",
                                         "wrong",
                                         ADMIN_TOKEN "x",
                                         "a-token-of-more-than-16-byte",
                                         "A-TOKEN-OF-MORE-THAN-16-BYTES"};
    char *first = NULL;
    (void)state;

    for (size_t p = 0; p < COUNT_OF(paths); p++)
        for (size_t t = 0; t < COUNT_OF(tokens); t++) {
            assert_int_equal(admin_kit_ask_as(&kit, tokens[t], NULL, "GET", paths[p], NULL), 401);
            assert_string_equal(kit.exchange.challenge, "Bearer realm=\"tollgate\"");
            if (first == NULL)
                first = strdup(kit.exchange.body);
            assert_string_equal(kit.exchange.body, first);
        }
    free(first);
    assert_int_equal(admin_kit_ask_as(&kit, "x", "application/json", "PUT", "/api/v1/tenants/new",
                                      "{}"),
                     401);
    assert_null(tenant("new"));
}

static void without_a_configured_token_nobody_may_ask(void **state)
{
    struct config_secret *token = &kit.generation->config.admin_token;
    struct config_secret kept = *token;
    (void)state;

    token->bytes = NULL;
    assert_int_equal(admin_kit_ask_as(&kit, NULL, NULL, "GET", "/api/v1/snapshot", NULL), 403);
    expect_said("admin_auth.token");
    assert_int_equal(admin_kit_ask_as(&kit, "", NULL, "GET", "/api/v1/snapshot", NULL), 403);
    assert_int_equal(admin_kit_ask_as(&kit, NULL, NULL, "GET", "/healthz", NULL), 200);
    *token = kept;
}

static void what_holds_nothing_needs_no_token(void **state)
{
    static const char *const paths[] = {"/", "/healthz", "/readyz"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        assert_int_equal(admin_kit_ask_as(&kit, NULL, NULL, "GET", paths[i], NULL), 200);
    assert_int_equal(admin_kit_ask_as(&kit, NULL, NULL, "GET", "/nothing", NULL), 404);
}

static void another_method_is_405_and_told_which(void **state)
{
    (void)state;
    expect(405, "PATCH", "/api/v1/tenants/team", NULL);
    assert_string_equal(kit.exchange.allow, "GET, HEAD, PUT, DELETE");
    expect(405, "GET", "/api/v1/reload", NULL);
    assert_string_equal(kit.exchange.allow, "POST");
}

/* ---- bodies ---- */

static void a_body_that_is_wrong_is_told_where(void **state)
{
    static const struct {
        const char *target, *body, *says;
    } rows[] = {
        {"keys", "{\"nam\":\"x\"}", "\"nam\\\" is not known; there are name, not_after"},
        {"keys", "{}", "name is missing"},
        {"keys", "[]", "the body is an array; it must be an object"},
        {"keys", "", "not JSON"},
        {"keys", "{\"name\":\"x\"", "not JSON"},
        {"keys", "{\"name\":\"x\",\n  \"name\":\"y\"}", "\"line\":2"},
        {"keys", "{\"name\":3}", "name is a number; it must be a string"},
        {"keys", "{\"name\":\"\"}", "name must be 1 to 128"},
        {"keys", "{\"name\":\"a\\u0000b\"}", "none 0"},
        {"keys", "{\"name\":\"x\",\"not_after\":\"tomorrow\"}", "2027-12-31T00:00:00Z"},
        {"topups", "{\"usd\":0,\"per\":\"day\"}", "usd is 0"},
        {"topups", "{\"usd\":-1,\"per\":\"day\"}", "usd is -1"},
        {"topups", "{\"usd\":0.0000001,\"per\":\"day\"}", "at most six"},
        {"topups", "{\"usd\":1000000001,\"per\":\"day\"}", "at most 1000000000"},
        {"topups", "{\"usd\":1e400,\"per\":\"day\"}", "usd is 1e400; it must be above 0"},
        {"topups", "{\"usd\":\"5\",\"per\":\"day\"}", "must be a number"},
        {"topups", "{\"usd\":5,\"per\":\"year\"}", "day, week, month or total"},
        {"topups", "{\"usd\":5,\"per\":\"day\",\"tz\":\"../x\"}", "tz is"},
    };
    char target[64];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(target, sizeof target, "/api/v1/tenants/team/%s", rows[i].target);
        expect(400, "POST", target, rows[i].body);
        expect_said("\"errors\":[{\"file\":\"body\"");
        expect_said(rows[i].says);
    }
    assert_int_equal(kit.reloads, 0);
}

static void only_json_and_not_too_much_of_it(void **state)
{
    char *large = malloc(ADMIN_BODY_MAX + 2);
    (void)state;

    assert_int_equal(admin_kit_ask_as(&kit, ADMIN_TOKEN, "text/plain", "PUT",
                                      "/api/v1/tenants/new", "{}"),
                     415);
    assert_int_equal(admin_kit_ask_as(&kit, ADMIN_TOKEN, NULL, "PUT", "/api/v1/tenants/new", "{}"),
                     415);
    memset(large, ' ', ADMIN_BODY_MAX + 1);
    large[ADMIN_BODY_MAX + 1] = '\0';
    expect(413, "PUT", "/api/v1/tenants/new", large);
    free(large);
    assert_int_equal(admin_kit_ask_as(&kit, ADMIN_TOKEN, "application/JSON ; charset=utf-8", "PUT",
                                      "/api/v1/tenants/new", "{}"),
                     201);
}

/* ---- tenants ---- */

static void a_tenant_is_made_replaced_and_removed(void **state)
{
    (void)state;
    expect(201, "PUT", "/api/v1/tenants/new%2Fone", "{\"parent\":\"team\",\"weight\":2}");
    expect_said("\"generation\":2");
    assert_non_null(tenant("new/one"));
    assert_true(tenant("new/one")->extra);
    assert_true(tenant("new/one")->weight == 2);
    expect(200, "PUT", "/api/v1/tenants/new%2Fone", "{\"name\":\"new/one\",\"weight\":3}");
    assert_true(tenant("new/one")->weight == 3);
    expect(200, "GET", "/api/v1/tenants/new%2Fone", NULL);
    expect_said("\"source\":\"api\"");
    expect_said("\"definition\":{\"name\":\"new/one\",\"weight\":3}");
    expect(200, "DELETE", "/api/v1/tenants/new%2Fone", NULL);
    assert_null(tenant("new/one"));
    expect(404, "GET", "/api/v1/tenants/new%2Fone", NULL);
    expect(404, "DELETE", "/api/v1/tenants/new%2Fone", NULL);
}

static void a_tenant_that_is_wrong_changes_nothing(void **state)
{
    (void)state;
    expect(400, "PUT", "/api/v1/tenants/new", "{\"parent\":\"nobody\"}");
    expect_said("\"file\":\"api: tenant new\"");
    expect(400, "PUT", "/api/v1/tenants/new", "{\n \"wieght\": 2}");
    expect_said("\"line\":2");
    expect(400, "PUT", "/api/v1/tenants/new", "{\"name\":\"other\"}");
    expect(400, "PUT", "/api/v1/tenants/new", "{\"weight\":1,\"weight\":2}");
    expect(400, "PUT", "/api/v1/tenants/new", "weight: 2");
    assert_int_equal(kit.reloads, 0);
    assert_null(tenant("new"));
    expect(404, "DELETE", "/api/v1/tenants/new", NULL);
}

static void the_file_wins(void **state)
{
    (void)state;
    expect(409, "PUT", "/api/v1/tenants/team", "{}");
    expect_said("the file wins");
    expect(409, "DELETE", "/api/v1/tenants/team", NULL);
    expect(409, "DELETE", "/api/v1/tenants/team/keys/prod", NULL);
    expect(409, "POST", "/api/v1/tenants/team/keys", "{\"name\":\"prod\"}");
    /* Also if the file has taken it over only now, and nobody has reloaded. */
    char *more = malloc(sizeof YAML + 64);
    snprintf(more, sizeof YAML + 64, "%s  - name: late\n", YAML);
    admin_kit_write(&kit, more);
    free(more);
    expect(409, "PUT", "/api/v1/tenants/late", "{}");
    expect_said("late");
    assert_int_equal(kit.reloads, 0);
}

static void a_parent_stays_as_long_as_it_has_children(void **state)
{
    (void)state;
    expect(201, "PUT", "/api/v1/tenants/mother", "{}");
    expect(201, "PUT", "/api/v1/tenants/child", "{\"parent\":\"mother\"}");
    expect(400, "DELETE", "/api/v1/tenants/mother", NULL);
    expect_said("api: tenant child");
    assert_non_null(tenant("mother"));
    expect(200, "DELETE", "/api/v1/tenants/child", NULL);
    expect(200, "DELETE", "/api/v1/tenants/mother", NULL);
}

static void what_does_not_hold_is_taken_back(void **state)
{
    (void)state;
    expect(201, "PUT", "/api/v1/tenants/new", "{\"weight\":2}");
    kit.breaks = true;
    expect(400, "PUT", "/api/v1/tenants/new", "{\"weight\":3}");
    expect_said("it was to fail");
    expect(200, "POST", "/api/v1/reload", NULL);
    assert_true(tenant("new")->weight == 2);
    expect(200, "GET", "/api/v1/tenants/new", NULL);
    expect_said("\"definition\":{\"weight\":2}");
    kit.breaks = true;
    expect(400, "DELETE", "/api/v1/tenants/new", NULL);
    expect(200, "POST", "/api/v1/reload", NULL);
    assert_non_null(tenant("new"));
}

static void tenants_come_in_pages_by_name(void **state)
{
    (void)state;
    expect(201, "PUT", "/api/v1/tenants/a", "{}");
    expect(201, "PUT", "/api/v1/tenants/z", "{}");
    expect(200, "GET", "/api/v1/tenants?limit=2", NULL);
    expect_said("{\"tenants\":[{\"name\":\"a\"");
    expect_said("\"next\":\"team\"");
    expect(200, "GET", "/api/v1/tenants?limit=2&after=team", NULL);
    expect_said("{\"tenants\":[{\"name\":\"z\"");
    expect_said("\"next\":null");
    expect(200, "GET", "/api/v1/tenants?limit=3", NULL);
    expect_said("\"next\":null");
    expect(400, "GET", "/api/v1/tenants?limit=0", NULL);
    expect(400, "GET", "/api/v1/tenants?limit=1001", NULL);
    expect(400, "GET", "/api/v1/tenants?page=2", NULL);
}

/* ---- virtual keys ---- */

static void a_key_is_said_once_and_works(void **state)
{
    uint8_t hash[VIRTUAL_KEY_HASH];
    const struct config_key *key;
    char secret[VIRTUAL_KEY_BYTES + 1];
    (void)state;

    expect(201, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"ci\",\"not_after\":\"2099-01-01T00:00:00Z\"}");
    const char *at = strstr(kit.exchange.body, "\"key\":\"");
    assert_non_null(at);
    memcpy(secret, at + 7, VIRTUAL_KEY_BYTES);
    secret[VIRTUAL_KEY_BYTES] = '\0';
    assert_true(virtual_key_hash(slice_of(secret), hash));
    assert_int_not_equal(
        generation_tenant_of_key(kit.generation, hash, clock_now_ms(&kit.clock), &key),
        CONFIG_NONE);
    assert_string_equal(key->name, "ci");
    expect(200, "GET", "/api/v1/tenants/team", NULL);
    expect_said("\"name\":\"ci\",\"source\":\"api\"");
    assert_false(admin_kit_said(&kit, secret));
    expect(409, "POST", "/api/v1/tenants/team/keys", "{\"name\":\"ci\"}");
    expect(200, "DELETE", "/api/v1/tenants/team/keys/ci", NULL);
    assert_int_equal(
        generation_tenant_of_key(kit.generation, hash, clock_now_ms(&kit.clock), &key),
        CONFIG_NONE);
    expect(404, "DELETE", "/api/v1/tenants/team/keys/ci", NULL);
    expect(404, "POST", "/api/v1/tenants/nobody/keys", "{\"name\":\"ci\"}");
}

static struct virtual_key_of {
    char secret[VIRTUAL_KEY_BYTES + 1];
} said_key(void)
{
    struct virtual_key_of of;
    const char *at = strstr(kit.exchange.body, "\"key\":\"");

    assert_non_null(at);
    memcpy(of.secret, at + 7, VIRTUAL_KEY_BYTES);
    of.secret[VIRTUAL_KEY_BYTES] = '\0';
    return of;
}

/* What a call with that secret has; null: it is refused. */
static const struct config_key *key_of(struct virtual_key_of of)
{
    const struct config_key *key = NULL;
    uint8_t hash[VIRTUAL_KEY_HASH];

    assert_true(virtual_key_hash(slice_of(of.secret), hash));
    return generation_tenant_of_key(kit.generation, hash, clock_now_ms(&kit.clock), &key) !=
                   CONFIG_NONE
               ? key
               : NULL;
}

static void a_key_has_what_the_request_gives_it(void **state)
{
    static const char target[] = "/api/v1/tenants/team/keys";
    (void)state;

    expect(201, "POST", target,
           "{\"limits\":[{\"rpm\":7},{\"models\":[\"small\"],\"tpm\":500}],\"name\":\"own\","
           "\"not_after\":\"2099-01-01T00:00:00Z\",\"budgets\":[{\"usd\":2.5,\"per\":\"day\"}],"
           "\"models\":[\"small\"],\"endpoints\":[\"!/*\"],\"tags\":{\"team\":\"b\"}}");
    const struct virtual_key_of of = said_key();
    const struct config_key *key = key_of(of);
    assert_non_null(key);
    assert_int_equal(key->own.n_limits, 2);
    assert_int_equal(key->own.limits[0].limiters[0].limiter.limit, 7);
    assert_int_equal(key->own.budgets[0].micro_usd, 2500000);
    assert_string_equal(key->own.endpoints.names[0], "!/*");
    assert_string_equal(key->own.tags.list[0].value, "b");
    assert_true(key->not_after != CONFIG_NEVER);

    expect(200, "GET", "/api/v1/tenants/team", NULL);
    expect_said("\"limits\":[\"limits[0] rate: ");
    expect_said("\"tenant\":\"team\",\"key\":\"own\",\"per\":\"day\",\"mode\":\"enforce\"");
    expect_said("\"limit_micro_usd\":2500000");
    expect_said("\"models\":[\"small\"],\"endpoints\":[\"!/*\"],\"tags\":{\"team\":\"b\"}");
    expect_said("\"definition\":{\"limits\":[{\"rpm\":7}");
    assert_false(admin_kit_said(&kit, of.secret));

    /* Another text replaces all of it, and the secret stays. */
    expect(200, "PUT", "/api/v1/tenants/team/keys/own", "{\"limits\":[{\"rpm\":9}]}");
    expect_said("\"name\":\"own\",\"sha256\":\"");
    expect_said("\"not_after\":null");
    assert_false(admin_kit_said(&kit, "\"key\":"));
    key = key_of(of);
    assert_int_equal(key->own.n_limits, 1);
    assert_int_equal(key->own.limits[0].limiters[0].limiter.limit, 9);
    assert_int_equal(key->own.n_budgets, 0);
    assert_true(key->not_after == CONFIG_NEVER);
    expect(200, "PUT", "/api/v1/tenants/team/keys/own",
           "{\"name\":\"own\",\"not_after\":\"2000-01-01T00:00:00Z\"}");
    assert_null(key_of(of));
    expect(200, "PUT", "/api/v1/tenants/team/keys/own", "{}");
    key = key_of(of);
    assert_int_equal(key->own.n_limits, 0);
    expect(200, "DELETE", "/api/v1/tenants/team/keys/own", NULL);
    assert_null(key_of(of));
}

static void settings_that_are_wrong_name_the_field_and_its_place(void **state)
{
    static const struct {
        const char *members, *says;
    } rows[] = {
        {"\"limits\":3", "limits is not a list"},
        {"\"limits\":[{}]", "limits[0]"},
        {"\"limits\":[{\"rpm\":0}]", "limits[0].rpm"},
        {"\"limits\":[{\"rpm\":\"x\"}]", "limits[0].rpm"},
        {"\"limits\":[{\"rqm\":1}]", "limits[0] has no key \\\"rqm\\\""},
        {"\"limits\":[{\"models\":[\"no\"],\"rpm\":1}]", "the model \\\"no\\\" does not exist"},
        {"\"budgets\":{}", "budgets"},
        {"\"budgets\":[{\"usd\":5}]", "budgets[0]: per is missing"},
        {"\"budgets\":[{\"usd\":-5,\"per\":\"day\"}]", "budgets[0].usd"},
        {"\"budgets\":[{\"usd\":5,\"per\":\"day\",\"tz\":\"../x\"}]", "budgets[0].tz"},
        {"\"models\":\"small\"", "models"},
        {"\"models\":[]", "models is empty"},
        {"\"models\":[\"no\"]", "the model \\\"no\\\" does not exist"},
        {"\"endpoints\":[\"/v1/none\"]", "the endpoint \\\"/v1/none\\\" does not exist"},
        {"\"endpoints\":[]", "endpoints is empty"},
        {"\"tags\":[\"a\"]", "tags"},
        {"\"tags\":{\"a=\":\"1\"}", "tags"},
        {"\"tags\":{\"a\":\"1\",\"a\":\"2\"}", "twice"},
        {"\"not_after\":7", "not_after is a number"},
        {"\"not_after\":\"soon\"", "not_after is \\\"soon\\\""},
        {"\"sha256\":\"" HASH "\"",
         "\\\"sha256\\\" is not known; there are name, not_after, limits"},
        {"\"limits\":[]", NULL},
    };
    char body[400];
    (void)state;

    expect(201, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"there\",\"limits\":[{\"rpm\":7}]}");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(body, sizeof body, "{\"name\":\"new\",\n   %s}", rows[i].members);
        expect(rows[i].says == NULL ? 201 : 400, "POST", "/api/v1/tenants/team/keys", body);
        snprintf(body, sizeof body, "{\n   %s}", rows[i].members);
        if (rows[i].says == NULL) {
            expect(200, "DELETE", "/api/v1/tenants/team/keys/new", NULL);
            continue;
        }
        expect_said(rows[i].says);
        expect_said("\"line\":2");
        assert_null(config_find_key(tenant("team"), "new"));
        expect(400, "PUT", "/api/v1/tenants/team/keys/there", body);
        expect_said(rows[i].says);
        assert_int_equal(
            config_find_key(tenant("team"), "there")->own.limits[0].limiters[0].limiter.limit, 7);
    }
    expect(400, "PUT", "/api/v1/tenants/team/keys/there", "{\"name\":\"other\"}");
    expect_said("name is \\\"other\\\"; it must be \\\"there\\\", or absent");
    expect(404, "PUT", "/api/v1/tenants/team/keys/none", "{}");
    expect(404, "PUT", "/api/v1/tenants/nobody/keys/there", "{}");
    expect(409, "PUT", "/api/v1/tenants/team/keys/prod", "{}");
    expect_said("in_file");
    expect(405, "PATCH", "/api/v1/tenants/team/keys/there", NULL);
    assert_string_equal(kit.exchange.allow, "PUT, DELETE");
    expect(200, "DELETE", "/api/v1/tenants/team/keys/there", NULL);
}

/* Python's json writes all that is not ASCII so. */
static void an_escaped_character_is_itself(void **state)
{
    (void)state;
    expect(201, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"x\",\"tags\":{\"a\":\"<\\ud83d\\ude00\\u00e4\\uDBFF\\udfff>\","
           "\"b\":\"\\\\ud83d\\\\ude00\"}}");
    const struct config_pairs *tags = &config_find_key(tenant("team"), "x")->own.tags;
    assert_string_equal(tags->list[0].value, "<\xf0\x9f\x98\x80\xc3\xa4\xf4\x8f\xbf\xbf>");
    assert_string_equal(tags->list[1].value, "\\ud83d\\ude00");
    expect(200, "DELETE", "/api/v1/tenants/team/keys/x", NULL);
    expect(400, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"x\",\"tags\":{\"a\":\"\\ud83d\"}}");
    expect(201, "PUT", "/api/v1/tenants/new",
           "{\"keys\":[{\"name\":\"\\ud83d\\ude00\",\"sha256\":\""
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]}");
    assert_string_equal(tenant("new")->keys[0].name, "\xf0\x9f\x98\x80");
    expect(200, "DELETE", "/api/v1/tenants/new", NULL);
}

static void settings_have_a_most(void **state)
{
    static const char begin[] = "{\"name\":\"x\",\"tags\":{}";
    const size_t n = LEDGER_ADMIN_SETTINGS_MAX;
    char *body = malloc(n + 2);
    (void)state;

    memset(body, ' ', n + 1);
    body[n + 1] = '\0';
    memcpy(body, begin, sizeof begin - 1);
    body[n] = '}';
    expect(400, "POST", "/api/v1/tenants/team/keys", body);
    expect_said("16385 bytes; at most 16384");
    memcpy(body + n - 1, "}", 2);
    expect(201, "POST", "/api/v1/tenants/team/keys", body);
    expect(200, "DELETE", "/api/v1/tenants/team/keys/x", NULL);
    free(body);
}

/* A call that began with a key before it was deleted. */
static enum tg_err reserve_with(const char *key, tg_micro money, bool *admitted)
{
    struct spending_call call = {
        .tenant = "team", .hint = SPENDING_TOP, .key = key, .money = money};
    struct spending_ticket ticket = {.reservation = 0};
    struct tg_money_answer answer;
    tg_ms now = clock_now_ms(&kit.clock);

    enum tg_err err = spending_reserve(kit.gateway->spending, &call, now, &ticket, &answer);
    *admitted = err == TG_OK && ticket.reservation != 0;
    if (*admitted)
        spending_settle(kit.gateway->spending, &ticket, &(struct spending_use){.spent = money},
                        now);
    return err;
}

static void calls_of_a_key_that_was_deleted_spend_what_it_had(void **state)
{
    bool admitted;
    (void)state;

    expect(201, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"ci\",\"budgets\":[{\"usd\":1,\"per\":\"day\"}]}");
    expect(200, "DELETE", "/api/v1/tenants/team/keys/ci", NULL);
    assert_int_equal(reserve_with("ci", 600000, &admitted), TG_OK);
    assert_true(admitted);
    assert_int_equal(reserve_with("ci", 600000, &admitted), TG_OK);
    assert_false(admitted);
    /* Made again it has spent that; two changes after it was deleted it spends nothing. */
    expect(201, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"ci\",\"budgets\":[{\"usd\":1,\"per\":\"day\"}]}");
    expect(200, "GET", "/api/v1/tenants/team", NULL);
    expect_said("\"limit_micro_usd\":1000000,\"used_micro_usd\":600000");
    expect(200, "DELETE", "/api/v1/tenants/team/keys/ci", NULL);
    expect(200, "POST", "/api/v1/reload", NULL);
    assert_int_equal(reserve_with("ci", 1, &admitted), TG_ERR_UNKNOWN);
    expect(201, "POST", "/api/v1/tenants/team/keys",
           "{\"name\":\"ci\",\"budgets\":[{\"usd\":1,\"per\":\"day\"}]}");
    assert_int_equal(reserve_with("ci", 400001, &admitted), TG_OK);
    assert_false(admitted);
    assert_int_equal(reserve_with("ci", 400000, &admitted), TG_OK);
    assert_true(admitted);
    expect(200, "DELETE", "/api/v1/tenants/team/keys/ci", NULL);
}

/* ---- top-ups ---- */

static int64_t amount_of(const char *name, size_t budget)
{
    return tenant(name)->budgets[budget].micro_usd;
}

static void a_topup_raises_one_budget_until_it_is_taken_back(void **state)
{
    (void)state;
    expect(201, "POST", "/api/v1/tenants/team/topups", "{\"usd\":2.5,\"per\":\"day\"}");
    expect_said("\"id\":1,\"per\":\"day\",\"tz\":\"UTC\",\"micro_usd\":2500000");
    assert_int_equal(amount_of("team", 0), 52500000);
    assert_int_equal(amount_of("team", 1), 9000000);
    expect(200, "GET", "/api/v1/tenants/team/topups", NULL);
    expect_said("\"id\":1");
    expect(404, "DELETE", "/api/v1/tenants/team/topups/2", NULL);
    expect(404, "DELETE", "/api/v1/tenants/team/topups/x", NULL);
    expect(200, "DELETE", "/api/v1/tenants/team/topups/1", NULL);
    assert_int_equal(amount_of("team", 0), 50000000);
    expect(200, "GET", "/api/v1/tenants/team/topups", NULL);
    expect_said("{\"topups\":[]}");
    expect(404, "GET", "/api/v1/tenants/nobody/topups", NULL);
}

/* ---- credits ---- */

static void spend_uncertain(const char *user, tg_micro micro, tg_micro uncertain)
{
    struct spending_call call = {.tenant = "team", .hint = SPENDING_TOP, .money = 1};
    struct spending_use use = {
        .spent = micro, .uncertain = uncertain, .user = {user, strlen(user)}};
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    tg_ms now = net_loop_now(kit.loop);

    assert_int_equal(spending_reserve(kit.gateway->spending, &call, now, &ticket, &answer), TG_OK);
    assert_int_not_equal(ticket.reservation, 0);
    assert_true(spending_settle(kit.gateway->spending, &ticket, &use, now));
}

static tg_micro left_to_team(void)
{
    struct spending_call call = {.tenant = "team", .hint = SPENDING_TOP};
    tg_micro left;
    double part;

    assert_int_equal(
        spending_left(kit.gateway->spending, &call, net_loop_now(kit.loop), &left, &part), TG_OK);
    return left;
}

static void a_credit_gives_back_what_is_uncertain_and_no_more(void **state)
{
    (void)state;
    spend_uncertain("ann", 1000000, 2000000);
    assert_int_equal(left_to_team(), 5000000);
    expect(409, "POST", "/api/v1/credits",
           "{\"tenant\":\"team\",\"usd\":2.000001,\"reason\":\"r\"}");
    expect_said("2.000000 USD are uncertain");
    expect(409, "POST", "/api/v1/credits",
           "{\"tenant\":\"nobody\",\"usd\":1,\"reason\":\"r\"}");
    expect_said("0.000000 USD are uncertain");
    expect(409, "POST", "/api/v1/credits",
           "{\"tenant\":\"team\",\"user\":\"bob\",\"usd\":1,\"reason\":\"r\"}");
    expect(409, "POST", "/api/v1/credits",
           "{\"tenant\":\"team\",\"usd\":1,\"reason\":\"r\",\"day\":\"2020-01-31\"}");
    assert_int_equal(left_to_team(), 5000000);

    expect(201, "POST", "/api/v1/credits",
           "{\"tenant\":\"team\",\"user\":\"ann\",\"usd\":1.5,\"reason\":\"invoice\","
           "\"per\":\"day\"}");
    expect_said("\"id\":1,");
    expect_said("\"user\":\"ann\",");
    expect_said("\"micro_usd\":1500000,\"reason\":\"invoice\",\"actor\":\"");
    expect_said("\"uncertain_micro_usd\":500000}");
    assert_int_equal(left_to_team(), 6500000);
    expect(201, "POST", "/api/v1/credits",
           "{\"tenant\":\"team\",\"micro_usd\":500000,\"reason\":\"the rest\"}");
    assert_int_equal(left_to_team(), 7000000);
    expect(409, "POST", "/api/v1/credits",
           "{\"tenant\":\"team\",\"micro_usd\":1,\"reason\":\"r\"}");

    expect(200, "GET", "/api/v1/credits", NULL);
    expect_said("{\"credits\":[{\"id\":2,");
    expect_said("\"reason\":\"the rest\"");
    expect_said("\"reason\":\"invoice\"");
    expect(200, "GET", "/api/v1/credits?tenant=nobody", NULL);
    expect_said("{\"credits\":[]}");
    expect(400, "GET", "/api/v1/credits?user=ann", NULL);
    /* A change of the configuration leaves it as it is. */
    expect(200, "POST", "/api/v1/reload", NULL);
    assert_int_equal(left_to_team(), 7000000);
}

static void a_credit_that_is_wrong_says_where(void **state)
{
    static const char *const wrong[][2] = {
        {"{\"tenant\":\"team\",\"usd\":1}", "reason is missing"},
        {"{\"tenant\":\"team\",\"usd\":1,\"reason\":\"  \"}", "must say something"},
        {"{\"usd\":1,\"reason\":\"r\"}", "tenant is missing"},
        {"{\"tenant\":\"\",\"usd\":1,\"reason\":\"r\"}", "tenant has 0 bytes"},
        {"{\"tenant\":\"team\",\"reason\":\"r\"}", "usd or micro_usd is missing"},
        {"{\"tenant\":\"team\",\"usd\":1,\"micro_usd\":1,\"reason\":\"r\"}", "give one of them"},
        {"{\"tenant\":\"team\",\"usd\":0,\"reason\":\"r\"}", "usd is 0"},
        {"{\"tenant\":\"team\",\"usd\":-1,\"reason\":\"r\"}", "usd is -1"},
        {"{\"tenant\":\"team\",\"usd\":1e3,\"reason\":\"r\"}", "without an exponent"},
        {"{\"tenant\":\"team\",\"micro_usd\":1.5,\"reason\":\"r\"}", "micro_usd is 1.5"},
        {"{\"tenant\":\"team\",\"usd\":1,\"reason\":\"r\",\"per\":\"year\"}", "per is"},
        {"{\"tenant\":\"team\",\"usd\":1,\"reason\":\"r\",\"day\":\"today\"}", "day is"},
        {"{\"tenant\":\"team\",\"usd\":1,\"reason\":\"r\",\"day\":\"2026-01-31\",\"per\":\"day\"}",
         "give one of them"},
        {"{\"tenant\":\"team\",\"usd\":1,\"reason\":\"r\",\"why\":1}", "is not known"}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        expect(400, "POST", "/api/v1/credits", wrong[i][0]);
        expect_said(wrong[i][1]);
    }
}

static int64_t amount_of_all(size_t budget)
{
    return kit.generation->config.budgets[budget].micro_usd;
}

static void a_topup_of_everyone_is_nobodys(void **state)
{
    (void)state;
    expect(201, "POST", "/api/v1/tenants/team/topups", "{\"usd\":1,\"per\":\"day\"}");
    expect(201, "POST", "/api/v1/topups", "{\"usd\":2.5,\"per\":\"day\"}");
    expect_said("\"id\":2,\"per\":\"day\",\"tz\":\"UTC\",\"micro_usd\":2500000");
    assert_int_equal(amount_of_all(0), 702500000);
    assert_int_equal(amount_of("team", 0), 51000000);
    expect(200, "GET", "/api/v1/topups", NULL);
    expect_said("\"id\":2");
    assert_false(admin_kit_said(&kit, "\"id\":1"));
    expect(200, "GET", "/api/v1/tenants/team/topups", NULL);
    assert_false(admin_kit_said(&kit, "\"id\":2"));
    /* Each by its own path. */
    expect(404, "DELETE", "/api/v1/tenants/team/topups/2", NULL);
    expect(404, "DELETE", "/api/v1/topups/1", NULL);
    expect_said("everyone together has no top-up 1");
    expect(404, "DELETE", "/api/v1/topups/x", NULL);
    expect(409, "POST", "/api/v1/topups", "{\"usd\":1,\"per\":\"month\"}");
    expect_said("everyone together has no budget for a month");
    kit.breaks = true; /* what does not hold is taken back */
    expect(400, "DELETE", "/api/v1/topups/2", NULL);
    kit.breaks = true;
    expect(400, "POST", "/api/v1/topups", "{\"usd\":1,\"per\":\"day\"}");
    expect(200, "POST", "/api/v1/reload", NULL);
    assert_int_equal(amount_of_all(0), 702500000);
    assert_int_equal(amount_of("team", 0), 51000000);
    expect(200, "DELETE", "/api/v1/topups/2", NULL);
    assert_int_equal(amount_of_all(0), 700000000);
    assert_int_equal(amount_of("team", 0), 51000000);
    expect(200, "GET", "/api/v1/topups", NULL);
    expect_said("{\"topups\":[]}");
}

static void a_topup_needs_a_budget_and_says_which(void **state)
{
    (void)state;
    expect(409, "POST", "/api/v1/tenants/team/topups", "{\"usd\":1,\"per\":\"week\"}");
    expect(409, "POST", "/api/v1/tenants/team/topups", "{\"usd\":1,\"per\":\"month\"}");
    expect_said("say which with tz");
    expect(201, "POST", "/api/v1/tenants/team/topups",
           "{\"usd\":1,\"per\":\"month\",\"tz\":\"Asia/Tokyo\"}");
    assert_int_equal(amount_of("team", 1), 9000000);
    assert_int_equal(amount_of("team", 2), 9000000);
    expect(404, "POST", "/api/v1/tenants/nobody/topups", "{\"usd\":1,\"per\":\"day\"}");
}

static void topups_of_one_budget_have_a_bound_together(void **state)
{
    (void)state;
    expect(201, "POST", "/api/v1/tenants/team/topups", "{\"usd\":999999999,\"per\":\"day\"}");
    expect(409, "POST", "/api/v1/tenants/team/topups", "{\"usd\":2,\"per\":\"day\"}");
    expect(201, "POST", "/api/v1/tenants/team/topups", "{\"usd\":1,\"per\":\"day\"}");
}

/* Two days later. */
static void a_topup_lapses_with_its_window(void **state)
{
    (void)state;
    expect(201, "POST", "/api/v1/tenants/team/topups", "{\"usd\":2.5,\"per\":\"day\"}");
    expect(201, "POST", "/api/v1/tenants/team/topups",
           "{\"usd\":1,\"per\":\"month\",\"tz\":\"UTC\"}");
    assert_int_equal(amount_of("team", 0), 52500000);
    kit.clock.epoch_ns += INT64_C(2) * 86400 * 1000000000;
    for (int i = 0; i < 200 && amount_of("team", 0) != 50000000; i++)
        net_loop_turn(kit.loop, true);
    assert_int_equal(amount_of("team", 0), 50000000);
    expect(200, "GET", "/api/v1/tenants/team/topups", NULL);
    assert_false(admin_kit_said(&kit, "\"id\":1"));
}

static void a_topup_that_ended_while_nobody_looked_is_none(void **state)
{
    struct tg_problem problem;
    struct ledger_admin_topup old = {.tenant = "team",
                                     .per = TG_PER_DAY,
                                     .tz = "UTC",
                                     .micro = 7000000,
                                     .made_at = 1,
                                     .ends_at = clock_now_ms(&kit.clock) - 1};
    int64_t id;
    (void)state;

    assert_true(ledger_admin_add_topup(kit.gateway->ledger, &old, &id, &problem));
    expect(200, "POST", "/api/v1/reload", NULL);
    assert_int_equal(amount_of("team", 0), 50000000);
    expect(404, "DELETE", "/api/v1/tenants/team/topups/1", NULL);

    /* One that will end has the timer set, and is gone after it. */
    old.ends_at = clock_now_ms(&kit.clock) + 60000;
    assert_true(ledger_admin_add_topup(kit.gateway->ledger, &old, &id, &problem));
    expect(201, "PUT", "/api/v1/tenants/other", "{}");
    kit.clock.epoch_ns += INT64_C(61) * 1000000000;
    for (int i = 0; i < 200 && kit.admin->changes->known.all.n_topups > 0; i++)
        net_loop_turn(kit.loop, true);
    assert_int_equal(kit.admin->changes->known.all.n_topups, 0);
    assert_int_equal(amount_of("team", 0), 50000000);
}

/* ---- keys of providers ---- */

static void a_provider_key_is_reset_by_name(void **state)
{
    (void)state;
    expect(200, "POST", "/api/v1/keys/k1/reset", NULL);
    expect_said("{\"reset\":[{\"provider\":\"demo\",\"name\":\"k1\"}]}");
    expect(200, "POST", "/api/v1/keys/demo/k1/reset", NULL);
    expect(200, "POST", "/api/v1/keys/demo%2Fk1/reset", NULL);
    expect(200, "POST", "/api/v1/keys/demo/odd%2Fone/reset", NULL);
    expect(404, "POST", "/api/v1/keys/k9/reset", NULL);
    expect(404, "POST", "/api/v1/keys/nobody/k1/reset", NULL);
}

/* ---- reload ---- */

static void a_reload_says_what_holds_or_what_is_wrong(void **state)
{
    (void)state;
    expect(200, "POST", "/api/v1/reload", NULL);
    expect_said("\"generation\":2");
    expect_said(kit.generation->config.hash);
    admin_kit_write(&kit, "tenants: [{nam: x}]\n");
    expect(400, "POST", "/api/v1/reload", NULL);
    expect_said("\"errors\":[{\"file\":");
    expect_said("\"line\":4");
    assert_int_equal(kit.generation->number, 2);
}

static void who_leaves_before_the_end_is_forgotten(void **state)
{
    struct admin_exchange exchange;
    (void)state;

    admin_exchange_begin(&kit, &exchange, "POST", "/api/v1/reload", ADMIN_TOKEN);
    assert_int_equal(exchange.status, 0);
    admin_exchange_gone(&exchange);
    admin_kit_turn(&kit);
    assert_int_equal(kit.reloads, 1);

    /* A change is made all the same. */
    struct admin_exchange put = {0};
    expect(201, "PUT", "/api/v1/tenants/new", "{}");
    admin_exchange_begin(&kit, &put, "DELETE", "/api/v1/tenants/new", ADMIN_TOKEN);
    admin_exchange_gone(&put);
    admin_kit_turn(&kit);
    assert_null(tenant("new"));
}

static void changes_wait_for_each_other_and_not_too_many(void **state)
{
    enum { MANY = ADMIN_CHANGES_MAX + 3 };
    struct admin_exchange exchanges[MANY];
    char target[64];
    size_t busy = 0;
    (void)state;

    for (int i = 0; i < MANY; i++) {
        snprintf(target, sizeof target, "/api/v1/tenants/t%d", i);
        admin_exchange_begin(&kit, &exchanges[i], "DELETE", target, ADMIN_TOKEN);
        busy += exchanges[i].status == 503;
    }
    /* One runs, some wait, the rest was told to come back. */
    assert_int_equal(busy, MANY - ADMIN_CHANGES_MAX - 1);
    for (int i = 0; i < 10 * MANY; i++)
        net_loop_turn(kit.loop, false);
    for (int i = 0; i < MANY; i++) {
        assert_true(exchanges[i].status == 404 || exchanges[i].status == 503);
        admin_exchange_gone(&exchanges[i]);
    }
}

static void while_another_process_takes_over_nothing_is_changed(void **state)
{
    static const struct {
        const char *method, *target, *body;
    } rows[] = {
        {"PUT", "/api/v1/tenants/new", "{}"},
        {"DELETE", "/api/v1/tenants/team", NULL},
        {"POST", "/api/v1/tenants/team/keys", "{\"name\":\"x\"}"},
        {"POST", "/api/v1/tenants/team/topups", "{\"usd\":5,\"per\":\"day\"}"},
        {"POST", "/api/v1/credits", "{\"tenant\":\"team\",\"usd\":1,\"reason\":\"x\"}"},
        {"POST", "/api/v1/keys/demo/k1/disable", NULL},
        {"POST", "/api/v1/keys/demo/k1/reset", NULL},
        {"POST", "/api/v1/reload", NULL},
    };
    (void)state;

    atomic_store(&kit.gateway->handing_over, true);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect(503, rows[i].method, rows[i].target, rows[i].body);
        expect_said("another process takes over from this one; ask again in a second");
    }
    assert_int_equal(kit.reloads, 0);
    expect(200, "GET", "/api/v1/tenants/team", NULL);
    atomic_store(&kit.gateway->handing_over, false);
    assert_null(tenant("new"));
    expect(201, "PUT", "/api/v1/tenants/new", "{}");
    assert_false(kit.gateway->changing);
}

/* One that waits when a process comes to take over has written nothing, and does not. */
static void a_change_that_waits_is_refused_when_a_takeover_begins(void **state)
{
    struct admin_exchange first, second;
    (void)state;

    admin_exchange_begin(&kit, &first, "DELETE", "/api/v1/tenants/a", ADMIN_TOKEN);
    admin_exchange_begin(&kit, &second, "DELETE", "/api/v1/tenants/b", ADMIN_TOKEN);
    assert_true(kit.gateway->changing); /* nobody may take over now */
    atomic_store(&kit.gateway->handing_over, true);
    for (int i = 0; i < 10; i++)
        net_loop_turn(kit.loop, false);
    assert_int_equal(first.status, 404);
    assert_int_equal(second.status, 503);
    assert_false(kit.gateway->changing);
    atomic_store(&kit.gateway->handing_over, false);
    admin_exchange_gone(&first);
    admin_exchange_gone(&second);
}

/* ---- watching ---- */

static void put_denial(const char *name)
{
    struct watch_entry entry;

    watch_entry_init(&entry);
    entry.at = 5;
    entry.id = 9;
    watch_text(entry.tenant, sizeof entry.tenant, slice_of(name));
    watch_text(entry.reason, sizeof entry.reason, SLICE("rate"));
    watch_text(entry.text, sizeof entry.text, SLICE("why\nnot \"so\""));
    watch_put(kit.watch, &entry);
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; text != NULL && (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

static void a_watcher_sees_what_comes_after_it(void **state)
{
    struct admin_exchange all, one;
    (void)state;

    put_denial("before");
    admin_exchange_begin(&kit, &all, "GET", "/api/v1/watch", ADMIN_TOKEN);
    admin_exchange_begin(&kit, &one, "GET", "/api/v1/watch?tenant=b%20c", ADMIN_TOKEN);
    assert_string_equal(all.type, "text/event-stream");
    put_denial("a");
    put_denial("b c");
    admin_watchers_turn(&kit.admin->watchers);
    assert_null(strstr(all.body, "before"));
    assert_int_equal(count_of(all.body, "event: denial\nid: "), 2);
    assert_non_null(strstr(all.body, "\"text\":\"why\\nnot \\\"so\\\"\"}\n\n"));
    assert_int_equal(count_of(one.body, "event: denial"), 1);
    assert_non_null(strstr(one.body, "b c"));
    assert_false(all.finished || one.finished);
    admin_exchange_gone(&all);
    admin_exchange_gone(&one);
}

static void who_reads_slowly_is_told_what_it_missed_and_holds_no_memory(void **state)
{
    struct admin_exchange slow;
    (void)state;

    admin_exchange_begin(&kit, &slow, "GET", "/api/v1/watch", ADMIN_TOKEN);
    size_t before = slow.body_n;
    slow.queued = ADMIN_WATCH_OUT_MAX;
    for (int i = 0; i < 300; i++)
        put_denial("a");
    for (int i = 0; i < 50; i++)
        admin_watchers_turn(&kit.admin->watchers);
    assert_int_equal(slow.body_n, before);
    slow.queued = 0;
    admin_watchers_turn(&kit.admin->watchers);
    assert_int_equal(count_of(slow.body, "event: dropped"), 1);
    size_t told = count_of(slow.body, "event: denial");
    unsigned long long dropped = strtoull(strstr(slow.body, "\"dropped\":") + 10, NULL, 10);
    assert_int_equal(told + dropped, 300);
    admin_exchange_gone(&slow);
}

static void a_watcher_that_sees_nothing_is_kept_alive(void **state)
{
    struct admin_exchange watching;
    (void)state;

    admin_exchange_begin(&kit, &watching, "GET", "/api/v1/watch", ADMIN_TOKEN);
    admin_watchers_turn(&kit.admin->watchers);
    assert_int_equal(count_of(watching.body, ": alive\n\n"), 0);
    tg_ms began_at = admin_now(kit.admin);
    kit.clock.epoch_ns += INT64_C(15) * 1000000000;
    while (admin_now(kit.admin) < began_at + ADMIN_WATCH_ALIVE)
        net_loop_turn(kit.loop, false);
    admin_watchers_turn(&kit.admin->watchers);
    admin_watchers_turn(&kit.admin->watchers);
    assert_int_equal(count_of(watching.body, ": alive\n\n"), 1);
    admin_exchange_gone(&watching);
}

/* The state after a reload. */
static void a_watcher_whose_token_is_replaced_sees_no_more(void **state)
{
    struct admin_exchange watching;
    (void)state;

    admin_exchange_begin(&kit, &watching, "GET", "/api/v1/watch", ADMIN_TOKEN);
    kit.generation->number++; /* something else has changed */
    put_denial("a");
    admin_watchers_turn(&kit.admin->watchers);
    assert_int_equal(count_of(watching.body, "event: denial"), 1);
    assert_false(watching.finished);
    const struct config_secret was = kit.generation->config.admin_token;
    kit.generation->config.admin_token = (struct config_secret){.bytes = "another", .size = 7};
    kit.generation->number++;
    for (int i = 0; i < 2; i++) {
        put_denial("a");
        admin_watchers_turn(&kit.admin->watchers);
        assert_int_equal(count_of(watching.body, "event: denial"), 1);
        assert_true(watching.finished);
    }
    kit.generation->config.admin_token = was;
    admin_exchange_gone(&watching);
}

static void there_are_so_many_watchers_and_no_more(void **state)
{
    struct admin_exchange watchers[ADMIN_WATCHERS_MAX], more;
    (void)state;

    for (int i = 0; i < ADMIN_WATCHERS_MAX; i++)
        admin_exchange_begin(&kit, &watchers[i], "GET", "/api/v1/watch", ADMIN_TOKEN);
    expect(503, "GET", "/api/v1/watch", NULL);
    admin_exchange_gone(&watchers[3]);
    admin_exchange_begin(&kit, &more, "GET", "/api/v1/watch", ADMIN_TOKEN);
    assert_int_equal(more.status, 200);
    admin_exchange_gone(&more);
    for (int i = 0; i < ADMIN_WATCHERS_MAX; i++)
        if (i != 3)
            admin_exchange_gone(&watchers[i]);
    expect(400, "GET", "/api/v1/watch?x=1", NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_the_token_every_path_answers_the_same),
        TEST(without_a_configured_token_nobody_may_ask),
        TEST(what_holds_nothing_needs_no_token),
        TEST(another_method_is_405_and_told_which),
        TEST(a_body_that_is_wrong_is_told_where),
        TEST(only_json_and_not_too_much_of_it),
        TEST(a_tenant_is_made_replaced_and_removed),
        TEST(a_tenant_that_is_wrong_changes_nothing),
        TEST(the_file_wins),
        TEST(a_parent_stays_as_long_as_it_has_children),
        TEST(what_does_not_hold_is_taken_back),
        TEST(tenants_come_in_pages_by_name),
        TEST(a_key_is_said_once_and_works),
        TEST(a_key_has_what_the_request_gives_it),
        TEST(settings_that_are_wrong_name_the_field_and_its_place),
        TEST(calls_of_a_key_that_was_deleted_spend_what_it_had),
        TEST(an_escaped_character_is_itself),
        TEST(settings_have_a_most),
        TEST(a_topup_raises_one_budget_until_it_is_taken_back),
        TEST(a_topup_of_everyone_is_nobodys),
        TEST(a_topup_needs_a_budget_and_says_which),
        TEST(topups_of_one_budget_have_a_bound_together),
        TEST(a_credit_gives_back_what_is_uncertain_and_no_more),
        TEST(a_credit_that_is_wrong_says_where),
        TEST(a_topup_lapses_with_its_window),
        TEST(a_topup_that_ended_while_nobody_looked_is_none),
        TEST(a_provider_key_is_reset_by_name),
        TEST(a_reload_says_what_holds_or_what_is_wrong),
        TEST(who_leaves_before_the_end_is_forgotten),
        TEST(changes_wait_for_each_other_and_not_too_many),
        TEST(while_another_process_takes_over_nothing_is_changed),
        TEST(a_change_that_waits_is_refused_when_a_takeover_begins),
        TEST(a_watcher_sees_what_comes_after_it),
        TEST(who_reads_slowly_is_told_what_it_missed_and_holds_no_memory),
        TEST(a_watcher_that_sees_nothing_is_kept_alive),
        TEST(a_watcher_whose_token_is_replaced_sees_no_more),
        TEST(there_are_so_many_watchers_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
