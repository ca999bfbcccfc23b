/* test_token_fetch.c - tokens of service accounts: what is asked, which answers are taken, and that
 * want of memory at any point costs no more than an attempt.
 */
#include "failing_malloc.h"
#include "fetch_fake.h"
#include "rfc7515.h"

#include "io/sign/jwt.h"
#include "server/runtime/token_fetch.h"
#include "server/upstream/access_token.h"

#define TOKEN_URI "http://127.0.0.1:9/token"

static struct gateway gateway;
static struct generation generation;
static struct control control = {.gateway = &gateway, .generation = &generation};
static struct key_place place;
static struct access_token *token;

static const struct config_account ACCOUNT = {
    .email = "gate@example.iam",
    .key_id = "key-1",
    .private_key = {.bytes = (char *)RFC7515_KEY, .size = sizeof RFC7515_KEY - 1},
    .token_uri = TOKEN_URI,
    .token_url = {.host = "127.0.0.1", .port = 9, .path = "/token"},
};
static const struct config_provider PROVIDER = {.name = "vertex"};
static const struct config_provider_key KEY = {.name = "a", .account = (void *)&ACCOUNT};

/* True: the token is there, and nothing of it has been asked yet. */
static bool begin(void)
{
    struct tg_problem problem;

    token = access_token_new(&PROVIDER, &KEY, &problem);
    place.token = token;
    generation.places = &place;
    generation.n_places = 1;
    LIST_INIT(&gateway.generations);
    LIST_INSERT_HEAD(&gateway.generations, &generation, link);
    return token != NULL;
}

static void end(void)
{
    token_fetch_stop(&control);
    assert_null(upstream.fetch);
    access_token_unref(token);
    place.token = token = NULL;
}

static bool has_token(const char *text)
{
    char taken[ACCESS_TOKEN_MAX];
    size_t n;

    return access_token_take(token, control_now(&control), taken, &n) == ACCESS_READY &&
           n == strlen(text) && memcmp(taken, text, n) == 0;
}

static void an_assertion_is_exchanged_for_a_token(void **state)
{
    static const char form[] = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
                               "&assertion=";
    struct text_out claims = {0};

    (void)state;
    assert_true(begin());
    token_fetch_tick(&control);
    assert_string_equal(upstream.line, "POST /token");
    assert_memory_equal(upstream.body, form, sizeof form - 1);
    assert_true(jwt_verify(slice_of(RFC7515_PUBLIC_KEY),
                           slice_of(upstream.body + sizeof form - 1), &claims));
    text_out_char(&claims, '\0');
    assert_non_null(strstr(claims.bytes, "\"iss\":\"gate@example.iam\""));
    assert_non_null(strstr(claims.bytes, "\"aud\":\"" TOKEN_URI "\""));
    text_out_fini(&claims);
    token_fetch_tick(&control); /* one at a time */
    upstream_answers(200, "{\"access_token\":\"abc\",\"expires_in\":3600}");
    assert_true(has_token("abc"));
    token_fetch_tick(&control);
    assert_null(upstream.fetch);
    end();
}

static void what_is_no_token_is_not_sent(void **state)
{
    static char long_answer[20000];
    const struct {
        int status;
        const char *body;
    } rows[] = {
        {400, "{\"error\":\"invalid_grant\",\"error_description\":\"account not found\"}"},
        {400, "{\"access_token\":\"abc\",\"expires_in\":3600}"},
        {200, "{\"access_token\":\"abc\"}"},
        {200, "{\"access_token\":\"abc\",\"expires_in\":1}"},
        {200, "{\"access_token\":\"\",\"expires_in\":3600}"},
        {200, "{\"access_token\":\"a\\r\\nx: y\",\"expires_in\":3600}"},
        {200, "{\"access_token\":\"abc\",\"expires_in\":3600"},
        {200, ""},
        {200, long_answer},
    };

    (void)state;
    memset(long_answer, ' ', sizeof long_answer - 1);
    memcpy(long_answer, "{\"access_token\":\"abc\",\"expires_in\":3600,", 40);
    long_answer[sizeof long_answer - 2] = '}';
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(begin());
        token_fetch_tick(&control);
        upstream_answers(rows[i].status, rows[i].body);
        assert_int_equal(access_token_take(token, control_now(&control), NULL, NULL), ACCESS_NONE);
        token_fetch_tick(&control);
        assert_null(upstream.fetch); /* it is asked again after a pause */
        end();
    }
}

static void an_endpoint_that_is_away_is_asked_again_later(void **state)
{
    (void)state;
    assert_true(begin());
    token_fetch_tick(&control);
    upstream_fails(HTTP_UNREACHABLE, "");
    assert_int_equal(access_token_take(token, control_now(&control), NULL, NULL), ACCESS_NONE);
    assert_false(access_token_is_due(token, control_now(&control)));
    assert_true(access_token_is_due(token, control_now(&control) + 1000));
    end();
}

static void what_is_under_way_ends_with_the_gateway(void **state)
{
    (void)state;
    assert_true(begin());
    token_fetch_tick(&control);
    assert_non_null(upstream.fetch);
    end();
}

static long live_once(long nth)
{
    bool good = false;

    fail_at(nth);
    if (begin()) {
        token_fetch_tick(&control);
        if (upstream.fetch != NULL)
            upstream_answers(200, "{\"access_token\":\"abc\",\"expires_in\":3600}");
        good = has_token("abc");
        /* Whatever failed, it is tried again. */
        assert_true(good || access_token_is_due(token, control_now(&control) + 1000));
    }
    until_failure = -1;
    end();
    return !good;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    need_allocator();
    assert_int_equal(live_once(-1), 0); /* what OpenSSL keeps is there from now on */
    for (int persistently = 0; persistently < 2; persistently++)
        expect_survival(live_once, persistently, 20, 20);
}

static void no_memory_for_the_request_is_an_attempt(void **state)
{
    (void)state;
    assert_true(begin());
    upstream.has_no_memory = true;
    token_fetch_tick(&control);
    upstream.has_no_memory = false;
    assert_false(access_token_is_due(token, control_now(&control)));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_assertion_is_exchanged_for_a_token),
        cmocka_unit_test(what_is_no_token_is_not_sent),
        cmocka_unit_test(an_endpoint_that_is_away_is_asked_again_later),
        cmocka_unit_test(what_is_under_way_ends_with_the_gateway),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(no_memory_for_the_request_is_an_attempt),
    };

    clock_init(&gateway.clock);
    if (net_loop_new(&gateway.clock, &control.loop))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    net_loop_free(control.loop);
    return failed;
}
