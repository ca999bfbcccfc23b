/* test_admit_read.c - messages of callers, in JSON and in a query: read, or refused with a reason;
 * and the answers. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/admit/admit_read.h"
#include "server/admit/admit_write.h"

static struct admit_message message;

static bool read_as(enum admit_kind kind, const char *text, struct refusal *why)
{
    struct json_reader *reader = json_reader_new();

    assert_non_null(reader);
    bool fine = admit_read(reader, slice_of(text), strlen(text), kind, &message, why);
    json_reader_free(reader); /* texts of the message are gone with it */
    return fine;
}

static void all_fields_of_an_ask_are_read(void **state)
{
    static const char text[] =
        "{\"tenant\":\"t\",\"model\":\"m\",\"user\":\"u\",\"peer\":\"p\",\"priority\":\"low\","
        "\"cost\":12,\"value\":1.5,\"hold_s\":2,\"ttl_ms\":500,\"timeout_ms\":70,"
        "\"end_with_connection\":true,\"limits_only\":true}";
    struct json_reader *reader = json_reader_new();
    struct refusal why;

    (void)state;
    assert_true(admit_read(reader, SLICE(text), sizeof text - 1, ADMIT_ASK, &message, &why));
    assert_true(slice_equal(message.ask.tenant, SLICE("t")));
    assert_true(slice_equal(message.ask.model, SLICE("m")));
    assert_true(slice_equal(message.ask.user, SLICE("u")));
    assert_true(slice_equal(message.ask.peer, SLICE("p")));
    assert_int_equal(message.ask.priority, TG_PRIORITY_LOW);
    assert_int_equal(message.ask.cost, 12);
    assert_true(message.ask.has_value && message.ask.value == 1.5);
    assert_true(message.ask.hold_s == 2);
    assert_int_equal(message.ask.ttl_ms, 500);
    assert_int_equal(message.timeout_ms, 70);
    assert_true(message.end_with_connection && message.ask.limits_only);
    json_reader_free(reader);
}

static void what_is_left_out_or_null_has_its_default(void **state)
{
    static const char *const texts[] = {"{}", "{\"cost\":null,\"tenant\":null,\"value\":null}"};
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_true(read_as(ADMIT_ASK, texts[i], &why));
        assert_int_equal(message.ask.cost, 1);
        assert_int_equal(message.ask.tenant.n, 0);
        assert_false(message.ask.has_value || message.end_with_connection);
        assert_int_equal(message.ask.priority, TG_PRIORITY_COUNT);
    }
    assert_true(read_as(ADMIT_RELEASE, "{\"lease_id\":\"x\"}", &why));
    assert_int_equal(message.release.outcome, TG_OUTCOME_OK);
    assert_int_equal(message.release.actual, -1);
    assert_true(message.release.sample_ms < 0);
}

struct bad {
    enum admit_kind kind;
    const char *text, *param, *says;
};

static void what_is_wrong_is_named(void **state)
{
    static const struct bad rows[] = {
        {ADMIT_ASK, "", "", "not JSON"},
        {ADMIT_ASK, "{", "", "not JSON"},
        {ADMIT_ASK, "[]", "", "must be an object, not an array"},
        {ADMIT_ASK, "{} x", "", "not JSON"},
        {ADMIT_ASK, "{\"costs\":1}", "costs", "there is no field 'costs'; there are tenant, "},
        {ADMIT_ASK, "{\"lease_id\":\"x\"}", "lease_id", "there is no field"},
        {ADMIT_ASK, "{\"\\u0000\\\"\":1}", "?"
                                           "?",
         "there is no field"},
        {ADMIT_ASK, "{\"cost\":1,\"cost\":2}", "", "not JSON"},
        {ADMIT_ASK, "{\"cost\":-1}", "cost", "`cost` must be an integer from 0"},
        {ADMIT_ASK, "{\"cost\":1.5}", "cost", "an integer"},
        {ADMIT_ASK, "{\"cost\":9007199254740992}", "cost", "9007199254740991"},
        {ADMIT_ASK, "{\"cost\":\"1\"}", "cost", "an integer"},
        {ADMIT_ASK, "{\"value\":-0.5}", "value", "a number from 0 on"},
        {ADMIT_ASK, "{\"value\":1e999}", "value", "a number"},
        {ADMIT_ASK, "{\"tenant\":7}", "tenant", "must be a string"},
        {ADMIT_ASK, "{\"priority\":\"High\"}", "priority", "\"high\", \"normal\" or \"low\""},
        {ADMIT_ASK, "{\"priority\":0}", "priority", "\"high\""},
        {ADMIT_ASK, "{\"limits_only\":1}", "limits_only", "true or false"},
        {ADMIT_RELEASE, "{}", "lease_id", "`lease_id` must be there"},
        {ADMIT_RELEASE, "{\"lease_id\":\"x\",\"outcome\":\"refused\"}", "outcome", "\"ok\""},
        {ADMIT_RELEASE, "{\"lease_id\":\"x\",\"actual\":-2}", "actual", "an integer"},
        {ADMIT_RELEASE, "{\"lease_id\":\"x\",\"sample_ms\":-2}", "sample_ms", "a number"},
        {ADMIT_HEARTBEAT, "{\"lease_ids\":\"x\"}", "lease_ids", "an array of strings"},
        {ADMIT_HEARTBEAT, "{\"lease_ids\":[\"x\",1]}", "lease_ids", "an array of strings"},
        {ADMIT_HEARTBEAT, "{\"lease_ids\":[\"x\"", "", "not JSON"},
    };
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (read_as(rows[i].kind, rows[i].text, &why))
            fail_msg("it was taken: %s", rows[i].text);
        assert_int_equal(why.reason, REPLY_INVALID_REQUEST);
        assert_string_equal(why.param, rows[i].param);
        if (strstr(why.text, rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].text, why.text);
    }
}

static void a_heartbeat_has_a_most(void **state)
{
    static char text[ADMIT_HEARTBEAT_MAX * 4 + 100];
    struct refusal why;

    (void)state;
    for (int more = 0; more < 2; more++) {
        size_t n = (size_t)snprintf(text, sizeof text, "{\"lease_ids\":[\"a\"");
        for (int i = 1; i < ADMIT_HEARTBEAT_MAX + more; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, ",\"a\"");
        snprintf(text + n, sizeof text - n, "]}");
        assert_int_equal(read_as(ADMIT_HEARTBEAT, text, &why), more == 0);
    }
    assert_non_null(strstr(why.text, "at most 1024"));
}

/* ---- queries ---- */

static bool read_query(const char *target, const struct http_field *fields, size_t n,
                       struct refusal *why)
{
    const struct http_head head = {.target = slice_of(target), .fields = fields, .n_fields = n};

    return admit_read_query(&head, &message, why);
}

static void a_query_is_read_without_its_escapes(void **state)
{
    const struct http_field user = {SLICE("x-tollgate-user"), SLICE("a&cost=0")};
    struct refusal why;

    (void)state;
    assert_true(read_query("/x?tenant=a%20b%2B+c&cost=3&&priority=high&value=2.5&peer=", &user, 1,
                           &why));
    assert_true(slice_equal(message.ask.tenant, SLICE("a b+ c")));
    assert_true(slice_equal(message.ask.user, SLICE("a&cost=0")));
    assert_int_equal(message.ask.cost, 3);
    assert_int_equal(message.ask.priority, TG_PRIORITY_HIGH);
    assert_true(message.ask.has_value && message.ask.value == 2.5);
    assert_int_equal(message.ask.peer.n, 0);
    assert_true(message.ask.limits_only);
    assert_true(read_query("/x", NULL, 0, &why));
    assert_int_equal(message.ask.cost, 1);
    assert_true(read_query("/x?", NULL, 0, &why));
}

static void what_is_wrong_in_a_query_is_named(void **state)
{
    static const struct bad rows[] = {
        {0, "/x?costs=1", "costs", "there is no parameter 'costs'"},
        {0, "/x?ttl_ms=1", "ttl_ms", "there is no parameter"},
        {0, "/x?=1", "", "there is no parameter"},
        {0, "/x?cost=1&cost=1", "cost", "`cost` must be there once"},
        {0, "/x?cost=", "cost", "an integer"},
        {0, "/x?cost=1x", "cost", "an integer"},
        {0, "/x?cost=99999999999999999999", "cost", "an integer"},
        {0, "/x?value=nan", "value", "a number"},
        {0, "/x?value=-1", "value", "a number"},
        {0, "/x?value=1%00", "value", "a number"},
        {0, "/x?priority=up", "priority", "\"high\""},
        {0, "/x?tenant=%2", "tenant", "escaped"},
        {0, "/x?tenant=%zz", "tenant", "escaped"},
        {0, "/x?tenant=a&user=b", "tenant", "not in both"},
    };
    const struct http_field tenant = {SLICE("x-tollgate-tenant"), SLICE("b")};
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (read_query(rows[i].text, &tenant, 1, &why))
            fail_msg("it was taken: %s", rows[i].text);
        assert_string_equal(why.param, rows[i].param);
        if (strstr(why.text, rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].text, why.text);
    }
}

/* ---- answers ---- */

static void expect_json(struct json_writer *out, const char *want)
{
    assert_false(out->text.failed);
    assert_int_equal(out->text.size, strlen(want));
    assert_memory_equal(out->text.bytes, want, out->text.size);
    json_writer_clear(out);
}

static void answers_say_what_applies(void **state)
{
    const struct slice leases[] = {SLICE("a"), SLICE("b\"")};
    const bool live[] = {false, true};
    struct admit_reply reply = {.status = ADMIT_DECIDED,
                                .allowed = true,
                                .decision = {true, 4, 3, 1000, 0},
                                .binding_axis = TG_AXIS_NONE,
                                .lease_bytes = 3,
                                .lease = "abc",
                                .lease_expires_at = 5,
                                .would_deny = 1u << TG_REASON_COST};
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    reply.axes.present = 1u << TG_AXIS_RATE;
    reply.axes.decision[TG_AXIS_RATE] = reply.decision;
    admit_write_reply(&out, &reply);
    expect_json(&out, "{\"allowed\":true,\"limit\":4,\"remaining\":3,\"reset_at_ms\":1000,"
                      "\"retry_after_ms\":0,\"policy_denied\":false,\"axes\":{\"rate\":{"
                      "\"allowed\":true,\"limit\":4,\"remaining\":3,\"reset_at_ms\":1000,"
                      "\"retry_after_ms\":0}},"
                      "\"lease_id\":\"abc\",\"lease_expires_at_ms\":5,\"would_deny\":[\"cost\"]}");
    reply = (struct admit_reply){.status = ADMIT_DECIDED,
                                 .decision = {false, 4, 0, 1000, 7},
                                 .reason = TG_REASON_CONCURRENCY,
                                 .message = "server overloaded",
                                 .binding_axis = TG_AXIS_CONCURRENCY,
                                 .limit = {.of = "caller \"a\"",
                                           .rule = "4 calls at once",
                                           .size = 4,
                                           .left = 0,
                                           .reset_at = 1000,
                                           .retry_after_ms = 7}};
    admit_write_reply(&out, &reply);
    expect_json(&out, "{\"allowed\":false,\"limit\":4,\"remaining\":0,\"reset_at_ms\":1000,"
                      "\"retry_after_ms\":7,\"reason\":\"concurrency\",\"message\":\"server "
                      "overloaded\",\"binding_axis\":\"concurrency\",\"binding_limit\":{\"of\":"
                      "\"caller \\\"a\\\"\",\"rule\":\"4 calls at once\",\"limit\":4,"
                      "\"remaining\":0,\"reset_at_ms\":1000,\"retry_after_ms\":7},"
                      "\"policy_denied\":false,"
                      "\"axes\":{}}");
    admit_write_release(&out, true);
    expect_json(&out, "{\"found\":true}");
    admit_write_heartbeat(&out, leases, live, 2, 99);
    expect_json(&out,
                "{\"live_ids\":[\"b\\\"\"],\"reclaimed_ids\":[\"a\"],\"next_deadline_ms\":99}");
    json_writer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields_of_an_ask_are_read),
        cmocka_unit_test(what_is_left_out_or_null_has_its_default),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_heartbeat_has_a_most),
        cmocka_unit_test(a_query_is_read_without_its_escapes),
        cmocka_unit_test(what_is_wrong_in_a_query_is_named),
        cmocka_unit_test(answers_say_what_applies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
