/* test_protect_grpc.c - what a protected route says and hears in the words of gRPC.
 *
 * The exchange is a table of functions that writes down what was sent: there is no socket, and no
 * clock but the table's.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/protect/protect_grpc.h"

#define NOW INT64_C(1700000000000)

/* ---- an exchange that is written down ---- */

static struct {
    int status;
    int64_t length;
    char fields[2000]; /* "name: value\n" of each */
    char behind[400];  /* the trailers */
    size_t body;
    int replies, finishes;
} sent;

static void kept_reply(struct http_inbound *in, const struct http_head *head)
{
    size_t n = 0;

    (void)in;
    sent.replies++;
    sent.status = head->status;
    sent.length = head->length;
    for (size_t i = 0; i < head->n_fields; i++)
        n += (size_t)snprintf(sent.fields + n, sizeof sent.fields - n, "%.*s: %.*s\n",
                              (int)head->fields[i].name.n, head->fields[i].name.at,
                              (int)head->fields[i].value.n, head->fields[i].value.at);
    assert_true(n < sizeof sent.fields);
}

static size_t kept_write(struct http_inbound *in, struct slice bytes)
{
    (void)in;
    sent.body += bytes.n;
    return 0;
}

static void kept_finish(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    size_t at = 0;

    (void)in;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(sent.behind + at, sizeof sent.behind - at, "%.*s: %.*s\n",
                               (int)trailers[i].name.n, trailers[i].name.at,
                               (int)trailers[i].value.n, trailers[i].value.at);
    assert_true(at < sizeof sent.behind);
    sent.finishes++;
}

static const struct http_inbound_transport kept = {
    .reply = kept_reply, .write = kept_write, .finish = kept_finish};

static void refuse(const struct refusal *why, bool late)
{
    struct http_inbound in = {.transport = &kept};
    struct reply_limits limits = {.n_fields = 1,
                                  .fields = {{SLICE("x-ratelimit-limit-requests"), SLICE("6")}}};

    memset(&sent, 0, sizeof sent);
    protect_grpc_refuse(&in, why, &limits, late, NOW, 0, SLICE("req_1"));
}

/* What a field says; null: there is none. Good until the next. */
static const char *field(const char *name)
{
    static char value[400];
    size_t n = strlen(name);

    for (const char *line = sent.fields; *line != 0; line = strchr(line, '\n') + 1)
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            size_t bytes = strcspn(line + n + 2, "\n");
            assert_true(bytes < sizeof value);
            memcpy(value, line + n + 2, bytes);
            value[bytes] = 0;
            return value;
        }
    return NULL;
}

static void expect(const char *name, const char *want)
{
    const char *got = field(name);

    if (got == NULL || strcmp(got, want) != 0)
        fail_msg("%s is '%s', not '%s', in:\n%s", name, got ? got : "absent", want, sent.fields);
}

/* ---- what is an RPC ---- */

static bool is_rpc(const char *type, int version)
{
    struct http_field fields[] = {{SLICE("content-type"), slice_of(type)}};
    struct http_head head = {.fields = fields, .n_fields = type[0] != 0, .version = version};

    return protect_is_grpc(&head);
}

static void an_rpc_is_known_by_its_content_type_and_http2(void **state)
{
    (void)state;
    assert_true(is_rpc("application/grpc", 20));
    assert_true(is_rpc("application/grpc+proto", 20));
    assert_true(is_rpc("application/grpc+json", 20)); /* what is in it is its two ends' business */
    assert_true(is_rpc("Application/GRPC; charset=utf-8", 20));
    assert_true(is_rpc("application/grpc ;x", 20));
    assert_false(is_rpc("application/grpc", 11)); /* HTTP/1 has no trailers to end one with */
    assert_false(is_rpc("application/grpc-web", 20));
    assert_false(is_rpc("application/grpcx", 20));
    assert_false(is_rpc("application/grp", 20));
    assert_false(is_rpc("application/json", 20));
    assert_false(is_rpc("", 20));
}

/* ---- its deadline ---- */

static tg_ms deadline(const char *timeout)
{
    struct http_field fields[] = {{SLICE("grpc-timeout"), slice_of(timeout)}};
    struct http_head head = {.fields = fields, .n_fields = timeout[0] != 0};

    return protect_grpc_deadline(&head, NOW);
}

/* Whoever reads it back must not wait longer than was left, and can read it: eight digits. */
static void what_is_left_of_it_is_passed_on(void **state)
{
    static const struct {
        tg_ms left;
        const char *want;
    } rows[] = {
        {1, "1m"},
        {99999999, "99999999m"},
        {100000000, "100000S"},
        {100000999, "100000S"},
        {99999999999, "99999999S"},
        {100000000000, "1666666M"},
        {6000000000000, "1666666H"},
        {TG_NUMBER_MAX, "99999999H"},
        {0, "1m"}, /* there is none that has passed */
        {-5, "1m"},
    };
    char text[PROTECT_GRPC_TIMEOUT_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct slice got = protect_grpc_timeout(rows[i].left, text);
        tg_ms back;

        if (!slice_equal(got, slice_of(rows[i].want)))
            fail_msg("%lld: %.*s, not %s", (long long)rows[i].left, (int)got.n, got.at,
                     rows[i].want);
        assert_true(grpc_read_timeout(got, &back));
        assert_true(back <= rows[i].left || rows[i].left < 1);
    }
}

static void its_deadline_is_what_its_client_says(void **state)
{
    static const struct {
        const char *timeout;
        tg_ms want;
    } rows[] = {
        {"", 0},
        {"100m", NOW + 100},
        {"5S", NOW + 5000},
        {"2M", NOW + 120000},
        {"1H", NOW + 3600000},
        {"0m", NOW},     /* has come, and is one all the same */
        {"1n", NOW + 1}, /* not over before it has begun */
        {"1001u", NOW + 2},
        {"99999999H", NOW + INT64_C(99999999) * 3600000},
        {"999999999m", 0}, /* nine digits are none, and so is what follows */
        {"5", 0},
        {"m", 0},
        {"-1S", 0},
        {"5 S", 0},
        {"5x", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (deadline(rows[i].timeout) != rows[i].want)
            fail_msg("'%s': %lld is not %lld", rows[i].timeout,
                     (long long)deadline(rows[i].timeout), (long long)rows[i].want);
}

/* ---- saying no ---- */

static void each_reason_has_its_code(void **state)
{
    static const struct {
        enum reply_reason reason;
        const char *code;
    } rows[] = {
        {REPLY_MEMORY_PRESSURE, "8"},
        {REPLY_PEER_LIMIT, "8"},
        {REPLY_CONCURRENCY, "8"},
        {REPLY_POLICY, "8"},
        {REPLY_RATE, "8"},
        {REPLY_COST, "8"},
        {REPLY_REQUEST_EXCEEDS_LIMIT, "3"}, /* can never be admitted */
        {REPLY_SHUTTING_DOWN, "14"},
        {REPLY_STORE_UNAVAILABLE, "14"},
        {REPLY_UPSTREAM_ERROR, "14"},
        {REPLY_UPSTREAM_TIMEOUT, "14"},
        {REPLY_INTERNAL, "13"},
    };
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        refusal_init(&why, rows[i].reason, "because");
        refuse(&why, false);
        expect("grpc-status", rows[i].code);
        expect("x-tollgate-reason", reply_reason_name(rows[i].reason));
    }
}

static void a_refusal_is_a_head_and_nothing_else(void **state)
{
    struct refusal why;

    (void)state;
    refusal_init(&why, REPLY_CONCURRENCY, "server overloaded");
    refuse(&why, false);
    assert_int_equal(sent.status, 200);
    assert_int_equal(sent.length, 0);
    assert_int_equal(sent.body, 0);
    assert_int_equal(sent.replies, 1);
    assert_int_equal(sent.finishes, 1);
    expect("content-type", "application/grpc");
    expect("grpc-message", "server overloaded");
    expect("x-request-id", "req_1");
    assert_null(field("retry-after"));
    assert_null(field("retry-after-ms"));
    assert_null(field("x-should-retry"));
}

static void a_wait_that_helps_is_told_and_never_shorter_than_the_truth(void **state)
{
    struct refusal why;

    (void)state;
    refusal_init(&why, REPLY_RATE, NULL);
    why.binding = TG_AXIS_RATE;
    why.retry_after_ms = 1000;
    refuse(&why, false);
    expect("x-tollgate-binding-axis", "rate");
    assert_non_null(field("grpc-retry-after-ms"));
    assert_in_range(atoi(field("grpc-retry-after-ms")), 1000, 1100);
    assert_null(field("retry-after"));
}

static void a_wait_that_does_not_is_not(void **state)
{
    static const tg_ms waits[] = {0, REPLY_WAIT_MAX + 1, TG_UNSATISFIABLE};
    struct refusal why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        refusal_init(&why, REPLY_RATE, NULL);
        why.retry_after_ms = waits[i];
        refuse(&why, false);
        expect("grpc-status", "8");
        assert_null(field("grpc-retry-after-ms"));
    }
}

static void whoever_comes_too_late_is_told_that(void **state)
{
    struct refusal why;

    (void)state;
    refusal_init(&why, REPLY_CONCURRENCY, "server overloaded");
    refuse(&why, true);
    expect("grpc-status", "4");
    expect("x-tollgate-reason", "concurrency"); /* and what it waited for */
}

static void a_message_is_escaped_and_stays_utf8(void **state)
{
    struct refusal why;

    (void)state;
    refusal_init(&why, REPLY_PEER_LIMIT, "100 %% of caf\xc3\xa9, \xc3 cut\n");
    refuse(&why, false);
    expect("grpc-message", "100 %25 of caf%C3%A9, ? cut%0A");
}

/* Behind a reply that has begun there is room for a status, and for nothing else. */
static void a_reply_that_broke_ends_with_a_status(void **state)
{
    struct http_inbound in = {.transport = &kept};

    (void)state;
    memset(&sent, 0, sizeof sent);
    protect_grpc_end(&in, GRPC_UNAVAILABLE, SLICE("50 % of it"));
    assert_int_equal(sent.replies, 0);
    assert_int_equal(sent.finishes, 1);
    assert_string_equal(sent.behind, "grpc-status: 14\ngrpc-message: 50 %25 of it\n");
}

/* ---- hearing ---- */

static void the_law_is_told_by_the_status(void **state)
{
    enum { OK = TG_OUTCOME_OK,
           DROPPED = TG_OUTCOME_DROPPED,
           CANCELLED = TG_OUTCOME_CANCELLED };
    static const struct {
        const char *status;
        int want;
    } rows[] = {
        {"0", OK},
        {"1", CANCELLED},
        {"2", CANCELLED},
        {"3", OK},
        {"4", DROPPED},
        {"5", OK},
        {"6", OK},
        {"7", OK},
        {"8", DROPPED},
        {"9", OK},
        {"10", OK},
        {"11", OK},
        {"12", OK},
        {"13", CANCELLED},
        {"14", DROPPED},
        {"15", CANCELLED},
        {"16", OK},
        {"17", OK},
        {"", CANCELLED}, /* a client takes it for UNKNOWN */
        {"x", CANCELLED},
        {"x1", CANCELLED},
        {"-4", CANCELLED},
        {"1400", CANCELLED}, /* is not 14 */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int has_deadline = 0; has_deadline < 2; has_deadline++) {
            /* A deadline that the client chose says nothing about the upstream. */
            int want = has_deadline && strcmp(rows[i].status, "4") == 0 ? CANCELLED : rows[i].want;
            int told = (int)protect_grpc_outcome(slice_of(rows[i].status), has_deadline);
            if (told != want)
                fail_msg("'%s': %d is not %d", rows[i].status, told, want);
        }
}

static void the_law_is_told_by_the_code_of_a_reset(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 14; code++) {
        bool busy = code == HTTP2_REFUSED_STREAM || code == HTTP2_ENHANCE_YOUR_CALM;
        assert_int_equal(protect_grpc_reset_outcome(code),
                         busy ? TG_OUTCOME_DROPPED : TG_OUTCOME_CANCELLED);
    }
    assert_int_equal(protect_grpc_reset_outcome(UINT32_MAX), TG_OUTCOME_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_rpc_is_known_by_its_content_type_and_http2),
        cmocka_unit_test(its_deadline_is_what_its_client_says),
        cmocka_unit_test(what_is_left_of_it_is_passed_on),
        cmocka_unit_test(a_reply_that_broke_ends_with_a_status),
        cmocka_unit_test(each_reason_has_its_code),
        cmocka_unit_test(a_refusal_is_a_head_and_nothing_else),
        cmocka_unit_test(a_wait_that_helps_is_told_and_never_shorter_than_the_truth),
        cmocka_unit_test(a_wait_that_does_not_is_not),
        cmocka_unit_test(whoever_comes_too_late_is_told_that),
        cmocka_unit_test(a_message_is_escaped_and_stays_utf8),
        cmocka_unit_test(the_law_is_told_by_the_status),
        cmocka_unit_test(the_law_is_told_by_the_code_of_a_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
