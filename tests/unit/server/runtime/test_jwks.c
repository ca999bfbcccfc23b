/* test_jwks.c - the keys of callers' tokens: which are taken, what they outlast, and that want of
 * memory at any point costs no more than an attempt.
 */
#include "failing_malloc.h"
#include "fetch_fake.h"
#include "rfc7515.h"

#include "io/posix/clock.h"
#include "io/sign/jwt.h"
#include "server/runtime/jwks.h"

#define ISSUER "https://id.example"

static struct clock clock_of_test;
static struct net_loop *loop;
static struct text_out good_token, unknown_token;

static const tg_ms WALL = 1800000000000;

static const struct jwt_terms TERMS = {.issuer = ISSUER,
                                       .tenant_claim = "team",
                                       .algorithms = 1u << JWT_RS256,
                                       .leeway = 60000};

static struct config_callers_jwt config_of(const char *path)
{
    return (struct config_callers_jwt){
        .present = true,
        .issuer = ISSUER,
        .jwks = {.host = "127.0.0.1", .port = 9, .path = path},
        .tenant = "team",
        .refresh = 1000000,
        .stale = 2000000,
    };
}

static void tick(struct jwks *keys, const struct config_callers_jwt *config)
{
    const struct jwks_surroundings of = {.loop = loop, .config = config};

    jwks_tick(keys, &of);
}

static enum jwks_answer ask(struct jwks *keys, const struct text_out *token, tg_ms now,
                            enum jwt_verdict *verdict)
{
    struct json_reader *reader = json_reader_new();
    struct jwt_claims claims;
    enum jwks_answer answer = JWKS_AWAY;

    if (reader != NULL)
        answer = jwks_check(keys, &TERMS, reader, text_out_written(token), now, WALL, verdict,
                            &claims);
    json_reader_free(reader);
    return answer;
}

static bool knows_callers(struct jwks *keys)
{
    enum jwt_verdict verdict;

    return ask(keys, &good_token, net_loop_now(loop), &verdict) == JWKS_CHECKED &&
           verdict == JWT_GOOD;
}

static struct jwks *with_keys(const struct config_callers_jwt *config)
{
    struct jwks *keys = jwks_new();

    assert_non_null(keys);
    tick(keys, config);
    upstream_answers(200, RFC7515_JWKS);
    return keys;
}

static void end(struct jwks *keys)
{
    jwks_stop(keys);
    jwks_free(keys);
    assert_null(upstream.fetch);
}

static void keys_are_fetched_at_once_and_verify(void **state)
{
    struct config_callers_jwt config = config_of("/keys");
    struct jwks *keys = jwks_new();
    struct jwks_state seen;

    (void)state;
    assert_false(knows_callers(keys));
    tick(keys, &config);
    assert_string_equal(upstream.line, "GET /keys");
    assert_false(knows_callers(keys));
    tick(keys, &config); /* one at a time */
    upstream_answers(200, RFC7515_JWKS);
    assert_true(knows_callers(keys));
    jwks_state(keys, &seen);
    assert_int_equal(seen.fetched, 1);
    assert_int_equal(seen.n, 1);
    tick(keys, &config);
    assert_null(upstream.fetch); /* not before `refresh` */
    end(keys);
}

static void what_is_no_jwks_is_not_taken(void **state)
{
    static char long_document[300000];
    const struct {
        int status;
        const char *body;
    } rows[] = {{500, RFC7515_JWKS},
                {200, ""},
                {200, "{}"},
                {200, "{\"keys\":[]}"},
                {200, long_document}};
    struct config_callers_jwt config = config_of("");
    struct jwks_state seen;

    (void)state;
    /* It is good as far as it goes. */
    memset(long_document, ' ', sizeof long_document - 1);
    memcpy(long_document, RFC7515_JWKS, sizeof RFC7515_JWKS - 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct jwks *keys = jwks_new();
        tick(keys, &config);
        assert_string_equal(upstream.line, "GET /");
        upstream_answers(rows[i].status, rows[i].body);
        assert_false(knows_callers(keys));
        jwks_state(keys, &seen);
        assert_int_equal(seen.failed, 1);
        tick(keys, &config);
        assert_null(upstream.fetch); /* it is asked again after a pause */
        end(keys);
    }
}

static void keys_outlast_an_issuer_that_is_away(void **state)
{
    struct config_callers_jwt config = config_of("/keys");
    struct jwks *keys = with_keys(&config);
    enum jwt_verdict verdict;

    (void)state;
    /* A token that names another key makes it be asked once more. */
    assert_int_equal(ask(keys, &unknown_token, net_loop_now(loop) + JWKS_PAUSE, &verdict),
                     JWKS_AWAY);
    tick(keys, &config);
    upstream_fails(HTTP_UNREACHABLE, "");
    assert_true(knows_callers(keys));
    assert_int_equal(ask(keys, &unknown_token, net_loop_now(loop), &verdict), JWKS_CHECKED);
    assert_int_equal(verdict, JWT_UNKNOWN_KEY);
    end(keys);
}

static void another_place_means_other_keys(void **state)
{
    struct config_callers_jwt config = config_of("/keys"), other = config_of("/others");
    struct jwks *keys = with_keys(&config);

    (void)state;
    tick(keys, &other);
    assert_string_equal(upstream.line, "GET /others");
    assert_false(knows_callers(keys));
    other.present = false;
    tick(keys, &other); /* what is under way ends */
    assert_null(upstream.fetch);
    end(keys);
}

/* How often it was told of an error on the way to keys and a token that they verify. */
static long live_once(long nth)
{
    struct config_callers_jwt config = config_of("/keys");
    enum jwt_verdict verdict;
    bool good;

    fail_at(nth);
    struct jwks *keys = jwks_new();
    if (keys == NULL)
        return 1;
    tick(keys, &config);
    if (upstream.fetch != NULL)
        upstream_answers(200, RFC7515_JWKS);
    good = ask(keys, &good_token, net_loop_now(loop), &verdict) == JWKS_CHECKED;
    good = good && verdict == JWT_GOOD;
    until_failure = -1;
    end(keys);
    return !good;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    need_allocator();
    assert_int_equal(live_once(-1), 0); /* what OpenSSL keeps is there from now on */
    for (int persistently = 0; persistently < 2; persistently++)
        expect_survival(live_once, persistently, 10, 10);
}

static void no_memory_for_the_request_is_an_attempt(void **state)
{
    struct config_callers_jwt config = config_of("/keys");
    struct jwks *keys = jwks_new();
    struct jwks_state seen;

    (void)state;
    upstream.has_no_memory = true;
    tick(keys, &config);
    upstream.has_no_memory = false;
    jwks_state(keys, &seen);
    assert_int_equal(seen.failed, 1);
    end(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_fetched_at_once_and_verify),
        cmocka_unit_test(what_is_no_jwks_is_not_taken),
        cmocka_unit_test(keys_outlast_an_issuer_that_is_away),
        cmocka_unit_test(another_place_means_other_keys),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(no_memory_for_the_request_is_an_attempt),
    };
    const struct slice claims =
        SLICE("{\"iss\":\"" ISSUER "\",\"exp\":1800000300,\"team\":\"team-a\"}");

    clock_init(&clock_of_test);
    if (net_loop_new(&clock_of_test, &loop) ||
        !jwt_sign(slice_of(RFC7515_KEY), SLICE("{\"alg\":\"RS256\",\"kid\":\"rfc\"}"), claims,
                  &good_token) ||
        !jwt_sign(slice_of(RFC7515_KEY), SLICE("{\"alg\":\"RS256\",\"kid\":\"other\"}"), claims,
                  &unknown_token))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    text_out_fini(&good_token);
    text_out_fini(&unknown_token);
    net_loop_free(loop);
    return failed;
}
