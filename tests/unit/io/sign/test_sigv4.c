/* test_sigv4.c - signatures are those that AWS publishes, and those of its own SDKs. */
#include "check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/sign/sigv4.h"
#include "sigv4_suite.h"

#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define NOW "20150830T123600Z"

static struct sigv4_scope scope_of(const char *service)
{
    struct sigv4_scope scope = {.access_key = SLICE("AKIDEXAMPLE"),
                                .secret = SLICE(SECRET),
                                .region = SLICE("us-east-1"),
                                .service = slice_of(service)};

    memcpy(scope.time, NOW, SIGV4_TIME_BYTES);
    return scope;
}

static struct slice written(const struct text_out *out)
{
    assert_false(out->failed);
    return text_out_written(out);
}

static void assert_text(struct slice text, const char *expected)
{
    if (!slice_equal(text, slice_of(expected)))
        fail_msg("got\n%.*s\nand not\n%s", (int)text.n, text.at, expected);
}

/* ---- the suite ---- */

static void check_case(const struct suite_case *one)
{
    bool token_after = strcmp(one->name, "post-sts-header-after") == 0;
    struct sigv4_scope scope = scope_of("service");
    struct sigv4_header headers[8];
    struct sigv4_request request = {.method = slice_of(one->method),
                                    .target = slice_of(one->target),
                                    .headers = headers};
    struct slice body = slice_of(one->body);
    char names[8][64], digits[64];
    struct text_out out = {0};

    for (size_t i = 0; i < 8 && one->headers[i].name != NULL; i++) {
        snprintf(names[i], sizeof names[i], "%s", one->headers[i].name);
        for (char *c = names[i]; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        if (token_after && strcmp(names[i], "x-amz-security-token") == 0)
            continue;
        headers[request.n_headers++] =
            (struct sigv4_header){slice_of(names[i]), slice_of(one->headers[i].value)};
    }
    assert_true(sigv4_hash(&body, 1, digits));
    request.body_sha256 = (struct slice){digits, sizeof digits};
    sigv4_canonical(&request, &out);
    assert_text(written(&out), one->canonical);
    text_out_clear(&out);
    assert_true(sigv4_authorization(&request, &scope, &out));
    assert_text(written(&out), one->authorization);
    text_out_fini(&out);
}

static void every_case_of_the_suite_is_signed_like_there(void **state)
{
    size_t n = sizeof suite / sizeof suite[0];

    (void)state;
    assert_int_equal(n, 34);
    for (size_t i = 0; i < n; i++) {
        print_message("%s\n", suite[i].name);
        check_case(&suite[i]);
    }
}

/* ---- calls of models ---- */

#define BODY                                                           \
    "{\"anthropic_version\":\"bedrock-2023-05-31\",\"max_tokens\":16," \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

/* Computed with botocore 1.44.0 and, equal, @smithy/signature-v4 5.7.5. */
static const struct {
    const char *host, *target, *service, *token, *signature;
} calls[] = {
    {"bedrock-runtime.us-east-1.amazonaws.com",
     "/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke", "bedrock", NULL,
     "74e9ad9c5296206d04cc1c19ff9053d257f83c09d239fd9f4c2690400ae5c980"},
    {"bedrock-runtime.us-east-1.amazonaws.com",
     "/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke", "bedrock", "TOKENEXAMPLE",
     "bbc4fc179842e068162a28e5895b47e1bb37b646d72fb650ab1ac925a4fc1006"},
    {"bedrock-mantle.us-east-1.api.aws", "/anthropic/v1/messages", "bedrock-mantle", NULL,
     "e7b5193d53fe71cd7624fd95916f70ad142d1230e70110409d83bcef82f02d9f"},
};

static void a_call_of_a_model_is_signed_as_the_sdks_do(void **state)
{
    const struct slice pieces[] = {{BODY, 20}, {&BODY[20], sizeof BODY - 21}};
    char digits[64], signature[SIGV4_SIGNATURE_BYTES];

    (void)state;
    assert_true(sigv4_hash(pieces, 2, digits));
    assert_text((struct slice){digits, 64},
                "616eb59224eb795b641b4c541ad9ee8b939a1e8798f73b54fce66bb79ddbb992");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct sigv4_scope scope = scope_of(calls[i].service);
        struct sigv4_header headers[] = {
            {SLICE("x-amz-date"), SLICE(NOW)},
            {SLICE("host"), slice_of(calls[i].host)},
            {SLICE("content-type"), SLICE("application/json")},
            {SLICE("x-amz-security-token"), slice_of(calls[i].token ? calls[i].token : "")},
        };
        struct sigv4_request request = {.method = SLICE("POST"),
                                        .target = slice_of(calls[i].target),
                                        .headers = headers,
                                        .n_headers = calls[i].token != NULL ? 4 : 3,
                                        .body_sha256 = {digits, 64}};
        assert_true(sigv4_sign(&request, &scope, signature));
        assert_text((struct slice){signature, 64}, calls[i].signature);
    }
}

/* ---- reading ---- */

static void a_header_is_read_as_it_was_written(void **state)
{
    struct sigv4_claim claim;

    (void)state;
    assert_true(sigv4_read(slice_of(suite[0].authorization), &claim));
    assert_text(claim.access_key, "AKIDEXAMPLE");
    assert_text(claim.date, "20150830");
    assert_text(claim.region, "us-east-1");
    assert_text(claim.service, "service");
    assert_text(claim.signed_headers, "host;my-header1;x-amz-date");
    assert_int_equal(claim.signature.n, 64);
    assert_false(sigv4_read(SLICE("Bearer sk-1"), &claim));
    assert_false(sigv4_read(SLICE("AWS4-HMAC-SHA256 Credential=A/B/C/D/E, SignedHeaders=a, "
                                  "Signature=0"),
                            &claim));
    assert_false(sigv4_read(SLICE(""), &claim));
}

static void a_time_is_written_and_read(void **state)
{
    static const struct {
        const char *text;
        int64_t wall_ms;
    } times[] = {
        {"19700101T000000Z", 0},
        {"20150830T123600Z", INT64_C(1440938160000)},
        {"20240229T235959Z", INT64_C(1709251199000)},
        {"21000301T000000Z", INT64_C(4107542400000)},
    };
    char text[SIGV4_TIME_BYTES];
    int64_t wall_ms;

    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        sigv4_time(times[i].wall_ms + 999, text);
        assert_text((struct slice){text, sizeof text}, times[i].text);
        assert_true(sigv4_time_read(slice_of(times[i].text), &wall_ms));
        assert_int_equal(wall_ms, times[i].wall_ms);
    }
    assert_false(sigv4_time_read(SLICE("20150830T123600"), &wall_ms));
    assert_false(sigv4_time_read(SLICE("2015-830T123600Z"), &wall_ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_the_suite_is_signed_like_there),
        cmocka_unit_test(a_call_of_a_model_is_signed_as_the_sdks_do),
        cmocka_unit_test(a_header_is_read_as_it_was_written),
        cmocka_unit_test(a_time_is_written_and_read),
    };
    return cmocka_run_group_tests_name("sigv4", tests, NULL, NULL);
}
