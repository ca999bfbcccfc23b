/* test_tls.c - TLS on both sides: who is trusted, who is not, and that bytes are the same. */
#include "net_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/net/tls_internal.h"

static char folder[256];

static char *in_folder(const char *name)
{
    static char paths[8][300];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Two authorities, and certificates for every case; the tool is quick with this kind of key. */
static const char script[] =
    "set -e; cd '%s'; exec 2>/dev/null\n"
    "key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
    "for ca in ca other; do openssl req -x509 $key -keyout $ca.key -out $ca.pem -days 2 "
    "-subj /CN=$ca; done\n"
    "make() { openssl req $key -keyout $1.key -out $1.csr -subj /CN=$1\n"
    " printf 'subjectAltName=%%s' \"$2\" >$1.ext\n"
    " openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $1.pem "
    "-extfile $1.ext $3 $4; }\n"
    "make good DNS:good.example,IP:127.0.0.1 -days 2\n"
    "make wrong DNS:wrong.example -days 2\n"
    "make old DNS:good.example -days -1\n"
    "make client DNS:client.example -days 2\n"
    "openssl req -x509 $key -keyout stranger.key -out stranger.pem -days 2 -subj /CN=stranger\n";

static int make_certificates(void **state)
{
    char command[sizeof script + sizeof folder];

    (void)state;
    const char *in = getenv("TMPDIR");
    int n = snprintf(folder, sizeof folder, "%.200s/tls-", in != NULL ? in : "/tmp");
    memset(folder + n, 'X', 6); /* to be replaced */
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(command, sizeof command, script, folder);
    return system(command);
}

static int remove_certificates(void **state)
{
    char command[sizeof folder + 16];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* ---- A server and a client ------------------------------------------------------------------- */

struct setting {
    struct kit kit;
    struct tls_context *server, *client;
    struct http_origin *origin;
    struct kit_out out;
};

static struct tls_context *server_context(const char *name, const char *client_ca)
{
    char cert[32], key[32];
    struct tls_context *context;
    struct tg_problem problem;

    snprintf(cert, sizeof cert, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    if (tls_server_new(in_folder(cert), in_folder(key),
                       client_ca != NULL ? in_folder(client_ca) : NULL, &context,
                       &problem) != TG_OK)
        fail_msg("%s", problem.text);
    return context;
}

static struct tls_context *client_context(const char *ca, const char *name)
{
    char cert[32], key[32];
    struct tls_context *context;
    struct tg_problem problem;

    snprintf(cert, sizeof cert, "%s.pem", name != NULL ? name : "");
    snprintf(key, sizeof key, "%s.key", name != NULL ? name : "");
    if (tls_client_new(in_folder(ca), name != NULL ? in_folder(cert) : NULL,
                       name != NULL ? in_folder(key) : NULL, &context, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    return context;
}

static void setting_init(struct setting *setting, const char *certificate, const char *client_ca,
                         const char *ca, const char *client, const char *name)
{
    kit_init(&setting->kit);
    setting->out = (struct kit_out){0};
    setting->server = server_context(certificate, client_ca);
    setting->client = client_context(ca, client);
    setting->kit.options.tls = setting->server;
    kit_listen(&setting->kit);
    kit_client(&setting->kit);
    setting->kit.on_end = kit_echo;
    setting->origin = kit_origin(setting->kit.port, setting->client, name);
}

static void setting_fini(struct setting *setting)
{
    kit_out_fini(&setting->out);
    http_origin_unref(setting->origin);
    tls_context_unref(setting->server);
    tls_context_unref(setting->client);
    kit_fini(&setting->kit);
}

static void post(struct setting *setting, const char *body)
{
    kit_out_fini(&setting->out);
    kit_send(&setting->kit, &setting->out, setting->origin, "POST", "/", (int64_t)strlen(body));
    http_outbound_write(setting->out.out, slice_of(body));
    http_outbound_finish(setting->out.out);
    kit_until(&setting->kit, kit_over(&setting->out));
}

static void bytes_pass_and_connections_are_kept(void **state)
{
    struct setting setting;

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    for (int i = 0; i < 3; i++) {
        post(&setting, "hello");
        assert_true(setting.out.ended);
        assert_string_equal(setting.out.body, "hello");
        assert_int_equal(setting.out.reused, i > 0);
    }
    assert_true(setting.out.sent);
    setting_fini(&setting);
}

static void an_address_is_verified_as_such(void **state)
{
    struct setting setting;

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "127.0.0.1");
    post(&setting, "hello");
    assert_true(setting.out.ended);
    setting_fini(&setting);
    setting_init(&setting, "wrong", NULL, "ca.pem", NULL, "127.0.0.1");
    post(&setting, "hello");
    assert_int_equal(setting.out.why, HTTP_UNTRUSTED);
    setting_fini(&setting);
}

static void who_cannot_be_trusted_gets_nothing(void **state)
{
    static const struct {
        const char *certificate, *ca, *name, *text;
    } rows[] = {
        {"wrong", "ca.pem", "good.example", "hostname mismatch"},
        {"good", "other.pem", "good.example", "unable to get local issuer"},
        {"old", "ca.pem", "good.example", "expired"},
        {"stranger", "ca.pem", "good.example", "self-signed"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct setting setting;

        setting_init(&setting, rows[i].certificate, NULL, rows[i].ca, NULL, rows[i].name);
        post(&setting, "secret");
        assert_int_equal(setting.out.why, HTTP_UNTRUSTED);
        assert_false(setting.out.sent);
        if (strstr(setting.out.text, rows[i].text) == NULL)
            fail_msg("row %zu: %s", i, setting.out.text);
        kit_until(&setting.kit, http_listener_open(setting.kit.listener) == 0);
        assert_int_equal(setting.kit.n_ins, 0);
        setting_fini(&setting);
    }
}

static void clients_need_a_certificate_where_one_is_wanted(void **state)
{
    static const struct {
        const char *client;
        bool good;
    } rows[] = {{"client", true}, {NULL, false}, {"stranger", false}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct setting setting;

        setting_init(&setting, "good", "ca.pem", "ca.pem", rows[i].client, "good.example");
        post(&setting, "hello");
        assert_int_equal(setting.out.ended, rows[i].good);
        assert_int_equal(setting.kit.n_ins, rows[i].good ? 1 : 0);
        setting_fini(&setting);
    }
}

static void plain_bytes_on_a_tls_port_end_it(void **state)
{
    struct setting setting;

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    struct kit_raw *raw = kit_connect(&setting.kit);
    kit_put(&setting.kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&setting.kit, raw->eof || raw->reset);
    assert_int_equal(setting.kit.n_ins, 0);
    setting_fini(&setting);
}

static void tls_towards_a_plain_port_is_untrusted(void **state)
{
    struct setting setting;
    int port, listening = kit_raw_listen(&port);

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    http_origin_unref(setting.origin);
    setting.origin = kit_origin(port, setting.client, "good.example");
    kit_send(&setting.kit, &setting.out, setting.origin, "GET", "/", 0);
    struct kit_raw *raw = kit_raw_accept(&setting.kit, listening);
    kit_until(&setting.kit, raw->n > 0);
    kit_put(&setting.kit, raw, "HTTP/1.1 400 Bad Request\r\n\r\n");
    kit_expect_failure(&setting.out, HTTP_UNTRUSTED);
    close(listening);
    setting_fini(&setting);
}

/* ---- Large bodies, pauses -------------------------------------------------------------------- */

static void pause_once(struct kit_out *out, struct slice bytes)
{
    (void)bytes;
    if (out->kit->arg == NULL)
        http_outbound_pause(out->out);
    out->kit->arg = out;
}

static void large_bodies_pass_whole_and_paused(void **state)
{
    size_t n = 3 << 20;
    char *big = malloc(n + 1);
    struct setting setting;

    (void)state;
    assert_non_null(big);
    for (size_t i = 0; i < n; i++)
        big[i] = (char)('a' + i * 7 % 23 + i / 65536 % 3);
    big[n] = '\0';
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    setting.kit.on_reply = pause_once;
    kit_send(&setting.kit, &setting.out, setting.origin, "POST", "/", (int64_t)n);
    http_outbound_write(setting.out.out, slice_of(big));
    http_outbound_finish(setting.out.out);
    kit_until(&setting.kit, setting.kit.arg != NULL);
    kit_calm(&setting.kit);
    assert_true(setting.out.body_n <= 16384);
    http_outbound_resume(setting.out.out);
    kit_expect_reply(&setting.out);
    assert_int_equal(setting.out.body_n, n);
    assert_memory_equal(setting.out.body, big, n);
    free(big);
    setting_fini(&setting);
}

static void a_client_that_leaves_is_noticed(void **state)
{
    struct setting setting;

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    setting.kit.on_end = NULL;
    kit_send(&setting.kit, &setting.out, setting.origin, "GET", "/", 0);
    kit_until(&setting.kit, setting.kit.n_ins == 1 && setting.kit.ins[0].ended);
    assert_true(setting.kit.ins[0].in->secure);
    http_outbound_cancel(setting.out.out);
    kit_until(&setting.kit, setting.kit.ins[0].gone);
    assert_int_equal(setting.kit.ins[0].why, HTTP_HANGUP);
    setting_fini(&setting);
}

/* The farewell has arrived, but the loop has had no turn to read it. */
static void a_kept_connection_that_said_farewell_is_replaced(void **state)
{
    struct setting setting;

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    post(&setting, "one");
    assert_int_equal(http_client_idle(setting.kit.client), 1);
    kit_calm(&setting.kit);
    http_listener_drain(setting.kit.listener); /* closes what is idle, inside this call */
    kit_out_fini(&setting.out);
    kit_send(&setting.kit, &setting.out, setting.origin, "GET", "/", 0);
    kit_expect_failure(&setting.out, HTTP_UNREACHABLE); /* a new one was tried, not the old */
    assert_false(setting.out.sent || setting.out.reused);
    setting_fini(&setting);
}

/* ---- Reload ---------------------------------------------------------------------------------- */

/* With tickets, which every worker can read that has the same context. */
static void a_second_connection_resumes_the_session(void **state)
{
    struct http_listener *second;
    struct tg_problem problem;
    struct setting setting;

    (void)state;
    setting_init(&setting, "good", NULL, "ca.pem", NULL, "good.example");
    http_client_free(setting.kit.client);
    setting.kit.client_options.idle_max = 0;
    kit_client(&setting.kit);
    for (int i = 0; i < 3; i++) {
        post(&setting, "hello");
        assert_true(setting.out.ended && !setting.out.reused);
        assert_int_equal(SSL_CTX_sess_hits(setting.client->ssl), i);
    }
    assert_int_equal(http_listen(setting.kit.loop, "127.0.0.1:0", &setting.kit.options, &second,
                                 &problem),
                     TG_OK);
    http_listener_free(setting.kit.listener);
    setting.kit.listener = second;
    http_origin_unref(setting.origin);
    setting.origin =
        kit_origin(http_listener_port(second), setting.client, "good.example");
    post(&setting, "hello");
    assert_int_equal(SSL_CTX_sess_hits(setting.client->ssl), 2); /* another origin's is its own */
    post(&setting, "hello");
    assert_int_equal(SSL_CTX_sess_hits(setting.client->ssl), 3);
    setting_fini(&setting);
}

static void a_new_certificate_serves_new_connections(void **state)
{
    struct setting setting;

    (void)state;
    setting_init(&setting, "wrong", NULL, "ca.pem", NULL, "good.example");
    post(&setting, "hello");
    assert_int_equal(setting.out.why, HTTP_UNTRUSTED);
    struct tls_context *better = server_context("good", NULL);
    http_listener_set_tls(setting.kit.listener, better);
    tls_context_unref(better);
    post(&setting, "hello");
    assert_true(setting.out.ended);
    setting_fini(&setting);
}

/* ---- HTTP/2 ---------------------------------------------------------------------------------- */

static int seen_version;

static void note_version(struct kit_in *in)
{
    seen_version = in->in->head.version;
}

/* Like setting_init(), with a choice of the version on both sides. */
static void setting_http2(struct setting *setting, bool server, enum http2_use use)
{
    setting_init(setting, "good", NULL, "ca.pem", NULL, "good.example");
    http_listener_free(setting->kit.listener);
    setting->kit.options.http2 = server;
    setting->kit.on_begin = note_version;
    kit_listen(&setting->kit);
    http_origin_unref(setting->origin);
    setting->origin =
        kit_origin_http2(setting->kit.port, setting->client, "good.example", use);
}

static void both_sides_agree_on_a_version(void **state)
{
    static const struct {
        bool server;
        enum http2_use use;
        int version; /* 0: they do not agree */
    } cases[] = {
        {true, HTTP2_ALPN, 20},
        {true, HTTP2_PRIOR, 20},
        {true, HTTP2_NEVER, 11},
        {false, HTTP2_ALPN, 11},
        {false, HTTP2_PRIOR, 0},
        {false, HTTP2_NEVER, 11},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct setting setting;

        setting_http2(&setting, cases[i].server, cases[i].use);
        for (int k = 0; k < 2; k++) {
            post(&setting, "hello");
            if (cases[i].version == 0) {
                assert_true(setting.out.failed && !setting.out.sent);
                continue;
            }
            assert_true(setting.out.ended);
            assert_string_equal(setting.out.body, "hello");
            assert_int_equal(seen_version, cases[i].version);
            assert_int_equal(setting.out.reused, k == 1);
        }
        setting_fini(&setting);
    }
}

/* Who waited for HTTP/2 gets HTTP/1.1, whatever was written meanwhile. */
static void everybody_falls_back_where_it_is_not_spoken(void **state)
{
    struct setting setting;
    struct kit_out outs[10];
    struct http_field trailer = {SLICE("x-end"), SLICE("1")};

    (void)state;
    setting_http2(&setting, false, HTTP2_ALPN);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_send(&setting.kit, &outs[i], setting.origin, "POST", "/", i % 3 == 0 ? -1 : 5);
        http_outbound_write(outs[i].out, SLICE("hel"));
        if (i % 2 == 0) {
            http_outbound_write(outs[i].out, SLICE("lo"));
            http_outbound_finish_with(outs[i].out, &trailer, 1);
        }
    }
    kit_until(&setting.kit, setting.kit.n_ins == COUNT_OF(outs));
    for (size_t i = 1; i < COUNT_OF(outs); i += 2) {
        http_outbound_write(outs[i].out, SLICE("lo"));
        http_outbound_finish(outs[i].out);
    }
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_expect_reply(&outs[i]);
        assert_string_equal(outs[i].body, "hello");
        kit_out_fini(&outs[i]);
    }
    assert_int_equal(seen_version, 11);
    setting_fini(&setting);
}

static void many_large_bodies_share_a_connection(void **state)
{
    struct setting setting;
    struct kit_out outs[5];
    size_t n = 700000;
    char *bytes = malloc(n);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7919 >> 5);
    setting_http2(&setting, true, HTTP2_ALPN);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_send(&setting.kit, &outs[i], setting.origin, "POST", "/", (int64_t)n);
        http_outbound_write(outs[i].out, (struct slice){bytes, n});
        http_outbound_finish(outs[i].out);
    }
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_until(&setting.kit, kit_over(&outs[i]));
        assert_int_equal(outs[i].body_n, n);
        assert_memory_equal(outs[i].body, bytes, n);
        kit_out_fini(&outs[i]);
    }
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_until(&setting.kit, setting.kit.ins[i].gone);
        assert_int_equal(setting.kit.ins[i].why, HTTP_DONE);
    }
    assert_int_equal(http_listener_open(setting.kit.listener), 1);
    free(bytes);
    setting_fini(&setting);
}

/* TLS that is never answered: nobody waits longer than connecting may take. */
static void a_handshake_without_an_end_is_late_for_all(void **state)
{
    struct http_timeouts timeouts = {.connect = 30};
    struct setting setting;
    struct kit_out outs[3];
    int port, listening = kit_raw_listen(&port);

    (void)state;
    setting_http2(&setting, true, HTTP2_ALPN);
    struct http_origin *silent =
        kit_origin_http2(port, setting.client, "good.example", HTTP2_ALPN);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send_within(&setting.kit, &outs[i], silent, "GET", "/", 0, &timeouts);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_expect_failure(&outs[i], HTTP_LATE_CONNECT);
        assert_false(outs[i].sent);
    }
    http_origin_unref(silent);
    close(listening);
    setting_fini(&setting);
}

static void files_that_are_wrong_are_named(void **state)
{
    static const struct {
        const char *cert, *key, *ca, *text;
    } rows[] = {
        {"none.pem", "good.key", NULL, "none.pem"},
        {"good.key", "good.key", NULL, "good.key"},
        {"good.pem", "none.key", NULL, "none.key"},
        {"good.pem", "wrong.key", NULL, "wrong.key"},
        {"good.pem", "good.key", "good.key", "good.key"},
        {"good.pem", "good.key", "none.pem", "none.pem"},
    };
    struct tls_context *context;
    struct tg_problem problem;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(tls_server_new(in_folder(rows[i].cert), in_folder(rows[i].key),
                                        rows[i].ca != NULL ? in_folder(rows[i].ca) : NULL,
                                        &context, &problem),
                         TG_ERR_STORE);
        if (strstr(problem.text, rows[i].text) == NULL)
            fail_msg("row %zu: %s", i, problem.text);
    }
    assert_int_equal(tls_client_new(in_folder("none.pem"), NULL, NULL, &context, &problem),
                     TG_ERR_STORE);
    assert_non_null(strstr(problem.text, "none.pem"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_pass_and_connections_are_kept),
        cmocka_unit_test(an_address_is_verified_as_such),
        cmocka_unit_test(who_cannot_be_trusted_gets_nothing),
        cmocka_unit_test(clients_need_a_certificate_where_one_is_wanted),
        cmocka_unit_test(plain_bytes_on_a_tls_port_end_it),
        cmocka_unit_test(tls_towards_a_plain_port_is_untrusted),
        cmocka_unit_test(large_bodies_pass_whole_and_paused),
        cmocka_unit_test(a_client_that_leaves_is_noticed),
        cmocka_unit_test(a_kept_connection_that_said_farewell_is_replaced),
        cmocka_unit_test(a_second_connection_resumes_the_session),
        cmocka_unit_test(a_new_certificate_serves_new_connections),
        cmocka_unit_test(files_that_are_wrong_are_named),
        cmocka_unit_test(both_sides_agree_on_a_version),
        cmocka_unit_test(everybody_falls_back_where_it_is_not_spoken),
        cmocka_unit_test(many_large_bodies_share_a_connection),
        cmocka_unit_test(a_handshake_without_an_end_is_late_for_all),
    };

    return cmocka_run_group_tests_name("tls", tests, make_certificates, remove_certificates);
}
