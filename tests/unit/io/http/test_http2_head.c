/* test_http2_head.c - fields made ready for HTTP/2: as what they go out, what is remembered. */
#include "check.h"

#include "io/http/http2_head.h"
#include "io/net/loop.h"

static struct clock wall;
static struct net_loop *loop;

static const nghttp2_nv *put_one(struct http2_nvs *nvs, struct slice name, struct slice value)
{
    const struct http_field field = {name, value};
    const struct http_head head = {.fields = &field, .n_fields = 1};

    http2_nvs_init(nvs);
    assert_true(http2_nvs_put_fields(loop, nvs, &head, false));
    assert_int_equal(nvs->n, 1);
    assert_int_equal(nvs->list[0].namelen, name.n);
    return &nvs->list[0];
}

/* Else each of them would stand in the compressor's table, and be compared with the next. */
static void numbers_that_change_with_every_reply_are_not_remembered(void **state)
{
    static const struct {
        struct slice value;
        bool remembered;
    } rows[] = {
        {{"49987", 5}, false},
        {{"1794764349777", 13}, false},
        {{"0", 1}, true}, /* grpc-status */
        {{"429", 3}, true},
        {{"", 0}, true},
        {{"49987m", 6}, true},
        {{"application/grpc", 16}, true},
        {{"rate limit of 1000 exceeded", 27}, true},
    };
    struct http2_nvs nvs;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const nghttp2_nv *nv = put_one(&nvs, SLICE("grpc-retry-after-ms"), rows[i].value);
        assert_int_equal(nv->flags,
                         rows[i].remembered ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX);
        assert_int_equal(nv->valuelen, rows[i].value.n);
        assert_memory_equal(nv->value, rows[i].value.at, rows[i].value.n);
        http2_nvs_fini(loop, &nvs);
    }
}

static void a_value_stays_one_value(void **state)
{
    struct http2_nvs nvs;

    (void)state;
    const nghttp2_nv *nv = put_one(&nvs, SLICE("x-note"), SLICE(" two\r\nlines \t"));
    assert_int_equal(nv->valuelen, 10);
    assert_memory_equal(nv->value, "two  lines", 10);
    http2_nvs_fini(loop, &nvs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_change_with_every_reply_are_not_remembered),
        cmocka_unit_test(a_value_stays_one_value),
    };

    clock_init(&wall);
    if (net_loop_new(&wall, &loop))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    net_loop_free(loop);
    return failed;
}
