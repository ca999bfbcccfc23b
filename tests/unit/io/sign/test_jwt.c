/* test_jwt.c - tokens are signed as RFC 7515 signs its own example (appendix A.2). */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "io/sign/jwt.h"
#include "rfc7515.h"

/* What A.2.1 signs, and the token that comes of it. */
static const char HEADER[] = "{\"alg\":\"RS256\"}";
static const char CLAIMS[] = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n"
                             " \"http://example.com/is_root\":true}";
static const char TOKEN[] =
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGx"
    "lLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5R"
    "Zmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrn"
    "byTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHW"
    "EsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig"
    "cN_IoypGlUPQGe77Rw";

static void the_example_of_the_rfc_is_signed_as_there(void **state)
{
    struct text_out out = {0};

    (void)state;
    text_out_text(&out, "before ");
    assert_true(jwt_sign(slice_of(RFC7515_KEY), slice_of(HEADER), slice_of(CLAIMS), &out));
    text_out_char(&out, '\0');
    assert_false(out.failed);
    assert_string_equal(out.bytes + 7, TOKEN);
    text_out_fini(&out);
}

static void a_token_is_verified_by_either_half_of_the_key(void **state)
{
    const char *const keys[] = {RFC7515_KEY, RFC7515_PUBLIC_KEY};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct text_out claims = {0};
        assert_true(jwt_verify(slice_of(keys[i]), slice_of(TOKEN), &claims));
        assert_true(slice_equal(text_out_written(&claims), slice_of(CLAIMS)));
        text_out_fini(&claims);
    }
}

static void any_other_token_is_refused(void **state)
{
    static const char *const others[] = {"", "a", "a.b", "a.b.c", ".."};
    char changed[sizeof TOKEN];

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct text_out claims = {0};
        assert_false(jwt_verify(slice_of(RFC7515_KEY), slice_of(others[i]), &claims));
        text_out_fini(&claims);
    }
    for (size_t at = 0; at < sizeof TOKEN - 2; at++) {
        struct text_out claims = {0};
        memcpy(changed, TOKEN, sizeof TOKEN);
        changed[at] = changed[at] == 'A' ? 'B' : 'A';
        assert_false(jwt_verify(slice_of(RFC7515_PUBLIC_KEY), slice_of(changed), &claims));
        text_out_fini(&claims);
    }
}

static void what_is_no_rsa_key_signs_nothing(void **state)
{
    static const char *const others[] = {
        "", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        RFC7515_PUBLIC_KEY};

    (void)state;
    assert_true(jwt_is_key(slice_of(RFC7515_KEY)));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct text_out out = {0};
        assert_false(jwt_is_key(slice_of(others[i])));
        assert_false(jwt_sign(slice_of(others[i]), slice_of(HEADER), slice_of(CLAIMS), &out));
        text_out_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_rfc_is_signed_as_there),
        cmocka_unit_test(a_token_is_verified_by_either_half_of_the_key),
        cmocka_unit_test(any_other_token_is_refused),
        cmocka_unit_test(what_is_no_rsa_key_signs_nothing),
    };
    return cmocka_run_group_tests_name("jwt", tests, NULL, NULL);
}
