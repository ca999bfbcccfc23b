/* test_http_origin.c - where requests go: what is no origin, and the way through a proxy. */
#include "net_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A proxy of plain bytes, and a client. */
struct proxy {
    struct kit kit;
    int listening, port;
    struct kit_out out;
};

static void proxy_init(struct proxy *proxy)
{
    kit_init(&proxy->kit);
    kit_client(&proxy->kit);
    proxy->listening = kit_raw_listen(&proxy->port);
}

static void proxy_fini(struct proxy *proxy)
{
    kit_out_fini(&proxy->out);
    close(proxy->listening);
    kit_fini(&proxy->kit);
}

static struct http_origin *behind_proxy(int port, const char *user)
{
    struct http_origin_options options;
    struct http_origin *origin;
    char proxy[64];

    snprintf(proxy, sizeof proxy, "http://%s127.0.0.1:%d", user, port);
    http_origin_options_init(&options);
    options.host = "api.example";
    options.port = 8443;
    options.proxy = proxy;
    assert_int_equal(http_origin_new(&options, &origin, NULL), TG_OK);
    return origin;
}

static void a_proxy_is_asked_for_a_tunnel(void **state)
{
    struct proxy proxy;

    (void)state;
    proxy_init(&proxy);
    struct http_origin *origin = behind_proxy(proxy.port, "user:pass@");
    kit_send(&proxy.kit, &proxy.out, origin, "GET", "/secret", 0);
    struct kit_raw *raw = kit_raw_accept(&proxy.kit, proxy.listening);
    kit_until(&proxy.kit, kit_got(raw, "\r\n\r\n"));
    assert_string_equal(raw->got, "CONNECT api.example:8443 HTTP/1.1\r\nhost: api.example:8443\r\n"
                                  "proxy-authorization: Basic dXNlcjpwYXNz\r\n\r\n");
    kit_forget(raw);
    kit_put(&proxy.kit, raw, "HTTP/1.1 200 Connection established\r\n\r\n");
    kit_until(&proxy.kit, kit_got(raw, "\r\n\r\n"));
    assert_true(kit_got(raw, "GET /secret HTTP/1.1\r\nhost: api.example:8443\r\n"));
    assert_false(kit_got(raw, "proxy-"));
    kit_put(&proxy.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    kit_until(&proxy.kit, proxy.out.ended);
    assert_int_equal(http_client_idle(proxy.kit.client), 1);
    http_origin_unref(origin);
    proxy_fini(&proxy);
}

static void a_proxy_that_refuses_is_told_as_such(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno",
        "rubbish\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        NULL,
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct proxy proxy;

        proxy_init(&proxy);
        struct http_origin *origin = behind_proxy(proxy.port, "");
        kit_send(&proxy.kit, &proxy.out, origin, "GET", "/", 0);
        struct kit_raw *raw = kit_raw_accept(&proxy.kit, proxy.listening);
        kit_until(&proxy.kit, kit_got(raw, "\r\n\r\n"));
        if (replies[i] != NULL)
            kit_put(&proxy.kit, raw, replies[i]);
        else
            kit_hang_up(raw);
        kit_expect_failure(&proxy.out, HTTP_NO_TUNNEL);
        assert_false(proxy.out.sent);
        http_origin_unref(origin);
        proxy_fini(&proxy);
    }
}

static void origins_are_checked(void **state)
{
    static const struct {
        const char *host;
        int port;
        const char *proxy;
    } bad[] = {
        {"", 80, NULL},
        {NULL, 80, NULL},
        {"a b", 80, NULL},
        {"a/b", 80, NULL},
        {"a", 0, NULL},
        {"a", 65536, NULL},
        {"user@host", 80, NULL},
        {"a", 80, "socks5://x:1"},
        {"a", 80, "http://x"},
        {"a", 80, "http://x:1/y"},
        {"a", 80, "https://x:1"},
    };
    struct http_origin_options options;
    struct tg_problem problem;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct http_origin *origin = NULL;

        http_origin_options_init(&options);
        options.host = bad[i].host;
        options.port = bad[i].port;
        options.proxy = bad[i].proxy;
        if (http_origin_new(&options, &origin, &problem) != TG_ERR_INVALID)
            fail_msg("row %zu was accepted", i);
        assert_null(origin);
    }
    http_origin_options_init(&options);
    options.host = "a";
    options.port = 80;
    options.proxy = "http://me:hunter2@nowhere";
    struct http_origin *origin = NULL;
    assert_int_equal(http_origin_new(&options, &origin, &problem), TG_ERR_INVALID);
    assert_null(strstr(problem.text, "hunter2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proxy_is_asked_for_a_tunnel),
        cmocka_unit_test(a_proxy_that_refuses_is_told_as_such),
        cmocka_unit_test(origins_are_checked),
    };

    return cmocka_run_group_tests_name("http_origin", tests, NULL, NULL);
}
