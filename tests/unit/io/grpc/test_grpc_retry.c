/* test_grpc_retry.c - hints in the trailers that stock clients read. */
#include "check.h"

#include <google/rpc/retry.pb-c.h>
#include <openssl/evp.h>
#include <string.h>

#include "io/grpc/grpc_retry.h"

static struct slice value_of(const struct grpc_retry *retry, const char *name)
{
    for (size_t i = 0; i < retry->n; i++)
        if (slice_equal(retry->fields[i].name, slice_of(name)))
            return retry->fields[i].value;
    return (struct slice){NULL, 0};
}

static void check_details(struct slice details, int code, const char *message, int64_t ms)
{
    uint8_t bytes[1000];

    assert_true(details.n > 0 && details.n < sizeof bytes);
    int n = EVP_DecodeBlock(bytes, (const unsigned char *)details.at, (int)details.n);
    assert_true(n > 0);
    while (details.at[--details.n] == '=') /* it counts padding as bytes */
        n--;
    Google__Rpc__Status *status = google__rpc__status__unpack(NULL, (size_t)n, bytes);
    assert_non_null(status);
    assert_int_equal(status->code, code);
    assert_string_equal(status->message, message);
    assert_int_equal(status->n_details, 1);
    assert_string_equal(status->details[0]->type_url, "type.googleapis.com/google.rpc.RetryInfo");
    Google__Rpc__RetryInfo *info = google__rpc__retry_info__unpack(
        NULL, status->details[0]->value.len, status->details[0]->value.data);
    assert_non_null(info);
    assert_int_equal(info->retry_delay->seconds * 1000 + info->retry_delay->nanos / 1000000, ms);
    google__rpc__retry_info__free_unpacked(info, NULL);
    google__rpc__status__free_unpacked(status, NULL);
}

static void a_wait_is_told_in_three_ways(void **state)
{
    static const tg_ms rows[] = {1, 999, 1000, 1001, 59999, 66000, TG_NUMBER_MAX};
    struct grpc_retry retry;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char digits[HTTP_NUMBER_MAX];
        struct slice ms = {digits, http_put_number(digits, rows[i])};
        grpc_retry_write(GRPC_RESOURCE_EXHAUSTED, "no room", rows[i], &retry);
        assert_int_equal(retry.n, 3);
        assert_true(slice_equal(value_of(&retry, "grpc-retry-after-ms"), ms));
        assert_true(slice_equal(value_of(&retry, "grpc-retry-pushback-ms"), ms));
        check_details(value_of(&retry, "grpc-status-details-bin"), GRPC_RESOURCE_EXHAUSTED,
                      "no room", rows[i]);
    }
}

static void who_need_not_come_back_is_told_so(void **state)
{
    struct grpc_retry retry;

    (void)state;
    grpc_retry_write(GRPC_INVALID_ARGUMENT, "never", 0, &retry);
    assert_int_equal(retry.n, 1);
    assert_true(slice_equal(value_of(&retry, "grpc-retry-pushback-ms"), SLICE("-1")));
}

static void a_text_that_is_too_long_is_left_out_of_the_details(void **state)
{
    char text[GRPC_RETRY_TEXT_MAX + 2];
    struct grpc_retry retry;

    (void)state;
    memset(text, 'x', sizeof text);
    text[GRPC_RETRY_TEXT_MAX + 1] = '\0';
    grpc_retry_write(GRPC_RESOURCE_EXHAUSTED, text, 5, &retry);
    check_details(value_of(&retry, "grpc-status-details-bin"), GRPC_RESOURCE_EXHAUSTED, "", 5);
    text[GRPC_RETRY_TEXT_MAX] = '\0';
    grpc_retry_write(GRPC_RESOURCE_EXHAUSTED, text, TG_NUMBER_MAX, &retry);
    check_details(value_of(&retry, "grpc-status-details-bin"), GRPC_RESOURCE_EXHAUSTED, text,
                  TG_NUMBER_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_told_in_three_ways),
        cmocka_unit_test(who_need_not_come_back_is_told_so),
        cmocka_unit_test(a_text_that_is_too_long_is_left_out_of_the_details),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
