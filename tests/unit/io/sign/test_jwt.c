/* test_jwt.c - tokens are signed as RFC 7515 signs its own example (appendix A.2). */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "io/sign/jwt.h"

/* The key of RFC 7515 A.2.1, as PKCS #8. */
static const char KEY[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO\n"
    "jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL\n"
    "aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn\n"
    "juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5\n"
    "ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf\n"
    "toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg\n"
    "VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW\n"
    "PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G\n"
    "O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj\n"
    "kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6\n"
    "XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB\n"
    "4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K\n"
    "pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr\n"
    "0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE\n"
    "lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6\n"
    "kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP\n"
    "rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw\n"
    "kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp\n"
    "5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2\n"
    "9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/\n"
    "evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG\n"
    "yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj\n"
    "OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2\n"
    "tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3\n"
    "ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56\n"
    "03k2+ZQwVK0JKSHuLFkuQ3U=\n"
    "-----END PRIVATE KEY-----\n";

/* Its public half. */
static const char PUBLIC_KEY[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n"
    "NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n"
    "P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n"
    "9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n"
    "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n"
    "FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n"
    "oQIDAQAB\n"
    "-----END PUBLIC KEY-----\n";

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
    assert_true(jwt_sign(slice_of(KEY), slice_of(HEADER), slice_of(CLAIMS), &out));
    text_out_char(&out, '\0');
    assert_false(out.failed);
    assert_string_equal(out.bytes + 7, TOKEN);
    text_out_fini(&out);
}

static void a_token_is_verified_by_either_half_of_the_key(void **state)
{
    const char *const keys[] = {KEY, PUBLIC_KEY};

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
        assert_false(jwt_verify(slice_of(KEY), slice_of(others[i]), &claims));
        text_out_fini(&claims);
    }
    for (size_t at = 0; at < sizeof TOKEN - 2; at++) {
        struct text_out claims = {0};
        memcpy(changed, TOKEN, sizeof TOKEN);
        changed[at] = changed[at] == 'A' ? 'B' : 'A';
        assert_false(jwt_verify(slice_of(PUBLIC_KEY), slice_of(changed), &claims));
        text_out_fini(&claims);
    }
}

static void what_is_no_rsa_key_signs_nothing(void **state)
{
    static const char *const others[] = {
        "", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", PUBLIC_KEY};

    (void)state;
    assert_true(jwt_is_key(slice_of(KEY)));
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
