/* net_kit.c - what tests of the network stand on. See net_kit.h. */
#include "net_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/net/loop_internal.h"

#define ROUNDS_MAX 200000
#define WAIT_MS 100 /* at most, for an event that is known to come from neither side */
#define IDLE_MS_MAX 20000

static void append(char **to, size_t *n, const char *bytes, size_t more)
{
    char *grown = realloc(*to, *n + more + 1);

    assert_non_null(grown);
    if (more > 0)
        memcpy(grown + *n, bytes, more);
    *to = grown;
    *n += more;
    grown[*n] = '\0';
}

static void note_fields(char *text, size_t size, const struct http_field *fields, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%.*s: %.*s\n", (int)fields[i].name.n,
                               fields[i].name.at, (int)fields[i].value.n, fields[i].value.at);
}

/* ---- The server ------------------------------------------------------------------------------ */

static void server_begin(void *context, struct http_inbound *inbound)
{
    struct kit *kit = context;

    assert_true(kit->n_ins < KIT_MAX);
    struct kit_in *in = &kit->ins[kit->n_ins++];
    *in = (struct kit_in){.kit = kit, .in = inbound};
    in->connection = http_inbound_connection(inbound);
    snprintf(in->line, sizeof in->line, "%.*s %.*s", (int)inbound->head.method.n,
             inbound->head.method.at, (int)inbound->head.target.n, inbound->head.target.at);
    inbound->owner = in;
    if (kit->on_begin != NULL)
        kit->on_begin(in);
}

static void server_data(struct http_inbound *inbound, struct slice bytes)
{
    struct kit_in *in = inbound->owner;

    assert_false(in->gone || in->ended);
    append(&in->body, &in->body_n, bytes.at, bytes.n);
    if (in->kit->on_data != NULL)
        in->kit->on_data(in, bytes);
}

static void server_end(struct http_inbound *inbound)
{
    struct kit_in *in = inbound->owner;

    assert_false(in->gone || in->ended);
    in->ended = true;
    note_fields(in->trailers, sizeof in->trailers, inbound->trailers, inbound->n_trailers);
    if (in->kit->on_end != NULL)
        in->kit->on_end(in);
}

static void server_room(struct http_inbound *inbound)
{
    struct kit_in *in = inbound->owner;

    assert_false(in->gone);
    in->rooms++;
    if (in->kit->on_room != NULL)
        in->kit->on_room(in);
}

static void server_gone(struct http_inbound *inbound, enum http_why why)
{
    struct kit_in *in = inbound->owner;

    assert_false(in->gone);
    in->gone = true;
    in->why = why;
    in->reset_code = inbound->reset_code;
    in->in = NULL;
}

static void server_closed(void *context, uint64_t connection)
{
    struct kit *kit = context;

    kit->n_closed++;
    kit->last_closed = connection;
}

static bool server_is_kept(void *context, uint64_t connection)
{
    struct kit *kit = context;

    assert_true(connection > 0);
    return kit->keep > 0 && kit->keep-- > 0;
}

static void server_refuse(void *context, int status, const char *text, struct http_refusal *refusal)
{
    (void)context;
    refusal->type = SLICE("application/json");
    refusal->n = (size_t)snprintf(refusal->body, sizeof refusal->body,
                                  "{\"refused\":%d,\"text\":\"%s\"}", status, text);
}

static bool server_is_proxy(void *context, const struct sockaddr *peer)
{
    const struct kit *kit = context;

    return kit->trusts_all && peer->sa_family == AF_INET;
}

static const struct http_server_ops server_ops = {
    .begin = server_begin,
    .data = server_data,
    .end = server_end,
    .room = server_room,
    .gone = server_gone,
    .refuse = server_refuse,
    .closed = server_closed,
    .is_kept = server_is_kept,
    .is_proxy = server_is_proxy,
};

void kit_reply(struct kit_in *in, int status, const char *body)
{
    struct http_field type = {SLICE("content-type"), SLICE("text/plain")};
    struct http_head head = {.status = status, .fields = &type, .n_fields = 1};

    http_inbound_send(in->in, &head, slice_of(body));
}

void kit_echo(struct kit_in *in)
{
    struct http_head head = {.status = 200};

    http_inbound_send(in->in, &head, (struct slice){in->body, in->body_n});
}

void kit_echo_chunked(struct kit_in *in)
{
    struct http_head head = {.status = 200, .length = -1};

    http_inbound_reply(in->in, &head);
    http_inbound_write(in->in, (struct slice){in->body, in->body_n});
    http_inbound_finish(in->in);
}

/* ---- The client ------------------------------------------------------------------------------ */

static void client_head(struct http_outbound *outbound, const struct http_head *head)
{
    struct kit_out *out = outbound->owner;
    struct slice type = http_find(head, SLICE("content-type"));

    assert_int_equal(out->status, 0);
    out->head = head;
    out->status = head->status;
    out->length = head->length;
    snprintf(out->type, sizeof out->type, "%.*s", (int)type.n, type.n > 0 ? type.at : "");
    if (out->kit->on_head != NULL)
        out->kit->on_head(out);
}

static void client_data(struct http_outbound *outbound, struct slice bytes)
{
    struct kit_out *out = outbound->owner;

    assert_true(out->status != 0 && !out->ended && !out->failed);
    append(&out->body, &out->body_n, bytes.at, bytes.n);
    if (out->kit->on_reply != NULL)
        out->kit->on_reply(out, bytes);
}

/* The head is there until the last callback has returned, whatever became of the connection. */
static void check_head(const struct kit_out *out)
{
    if (out->head == NULL)
        return;
    struct slice type = http_find(out->head, SLICE("content-type"));

    assert_int_equal(out->head->status, out->status);
    assert_int_equal(out->head->length, out->length);
    assert_int_equal(type.n, strlen(out->type));
    if (type.n > 0)
        assert_memory_equal(type.at, out->type, type.n);
}

static void note_last(struct kit_out *out)
{
    assert_false(out->ended || out->failed);
    check_head(out);
    out->sent = http_outbound_sent(out->out);
    out->reused = http_outbound_reused(out->out);
    out->out = NULL;
}

static void client_end(struct http_outbound *outbound)
{
    struct kit_out *out = outbound->owner;

    note_fields(out->trailers, sizeof out->trailers, outbound->trailers, outbound->n_trailers);
    note_last(out);
    out->ended = true;
}

static void client_failed(struct http_outbound *outbound, enum http_why why, const char *text)
{
    struct kit_out *out = outbound->owner;

    out->was_reset = outbound->was_reset;
    out->reset_code = outbound->reset_code;
    note_last(out);
    out->failed = true;
    out->why = why;
    snprintf(out->text, sizeof out->text, "%s", text);
}

static void client_room(struct http_outbound *outbound)
{
    struct kit_out *out = outbound->owner;

    out->rooms++;
    if (out->kit->on_out_room != NULL)
        out->kit->on_out_room(out);
}

static const struct http_client_ops client_ops = {
    .head = client_head,
    .data = client_data,
    .end = client_end,
    .room = client_room,
    .failed = client_failed,
};

struct http_origin *kit_origin(int port, struct tls_context *tls, const char *name)
{
    return kit_origin_http2(port, tls, name, HTTP2_NEVER);
}

struct http_origin *kit_origin_http2(int port, struct tls_context *tls, const char *name,
                                     enum http2_use use)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct tg_problem problem;

    http_origin_options_init(&options);
    options.host = "127.0.0.1";
    options.port = port;
    options.tls = tls;
    options.server_name = name;
    options.http2 = use;
    assert_int_equal(http_origin_new(&options, &origin, &problem), TG_OK);
    return origin;
}

void kit_send_within(struct kit *kit, struct kit_out *out, struct http_origin *origin,
                     const char *method, const char *target, int64_t length,
                     const struct http_timeouts *timeouts)
{
    struct http_field field = {SLICE("x-test"), SLICE("1")};
    struct http_head head = {.method = slice_of(method),
                             .target = slice_of(target),
                             .fields = &field,
                             .n_fields = 1,
                             .length = length};

    *out = (struct kit_out){.kit = kit};
    out->out = http_send(kit->client, origin, &head, timeouts, &client_ops, out);
    assert_non_null(out->out);
}

void kit_send(struct kit *kit, struct kit_out *out, struct http_origin *origin, const char *method,
              const char *target, int64_t length)
{
    struct http_timeouts timeouts = {.connect = 20000};

    kit_send_within(kit, out, origin, method, target, length, &timeouts);
}

bool kit_over(const struct kit_out *out)
{
    return out->ended || out->failed;
}

void kit_out_fini(struct kit_out *out)
{
    free(out->body);
    out->body = NULL;
}

/* ---- The kit --------------------------------------------------------------------------------- */

void kit_init(struct kit *kit)
{
    *kit = (struct kit){.listening = -1};
    clock_init(&kit->clock);
    assert_int_equal(net_loop_new(&kit->clock, &kit->loop), TG_OK);
    http_listen_options_init(&kit->options);
    kit->options.ops = &server_ops;
    kit->options.context = kit;
    kit->options.census = &kit->census;
    http_client_options_init(&kit->client_options);
    kit->ins = calloc(KIT_MAX, sizeof *kit->ins);
    assert_non_null(kit->ins);
}

void kit_listen(struct kit *kit)
{
    struct tg_problem problem;

    assert_int_equal(http_listen(kit->loop, "127.0.0.1:0", &kit->options, &kit->listener, &problem),
                     TG_OK);
    kit->port = http_listener_port(kit->listener);
}

void kit_client(struct kit *kit)
{
    assert_int_equal(http_client_new(kit->loop, &kit->client_options, &kit->client), TG_OK);
}

void kit_fini(struct kit *kit)
{
    for (size_t i = 0; i < kit->n_raws; i++) {
        kit_hang_up(kit->raws[i]);
        free(kit->raws[i]->got);
        free(kit->raws[i]);
    }
    http_client_free(kit->client);
    http_listener_free(kit->listener);
    net_loop_free(kit->loop);
    for (size_t i = 0; i < kit->n_ins; i++) {
        assert_true(kit->ins[i].gone);
        free(kit->ins[i].body);
    }
    assert_int_equal(atomic_load(&kit->census.open), 0);
    free(kit->ins);
}

/* ---- Plain sockets --------------------------------------------------------------------------- */

static struct kit_raw *add_raw(struct kit *kit, int fd)
{
    struct kit_raw *raw = calloc(1, sizeof *raw);
    int on = 1;

    assert_non_null(raw);
    assert_true(kit->n_raws < COUNT_OF(kit->raws));
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    raw->fd = fd;
    kit->raws[kit->n_raws++] = raw;
    return raw;
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

struct kit_raw *kit_connect(struct kit *kit)
{
    return kit_connect_from(kit, 1);
}

struct kit_raw *kit_connect_from(struct kit *kit, int number)
{
    struct sockaddr_in address = loopback(kit->port), own = loopback(0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    own.sin_addr.s_addr = htonl(0x7f000000u + (uint32_t)number);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return add_raw(kit, fd);
}

int kit_raw_listen(int *port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

struct kit_raw *kit_raw_accept(struct kit *kit, int listening)
{
    int fd = -1;

    kit->listening = listening;
    kit_until(kit, (fd = accept(listening, NULL, NULL)) >= 0);
    kit->listening = -1;
    return add_raw(kit, fd);
}

static bool pump_raw(struct kit_raw *raw)
{
    char bytes[16384];
    bool any = false;

    while (raw->fd >= 0 && !raw->eof && !raw->reset && !raw->stuck) {
        ssize_t n = recv(raw->fd, bytes, sizeof bytes, 0);

        if (n < 0 && errno == EAGAIN)
            break;
        any = true;
        if (n > 0)
            append(&raw->got, &raw->n, bytes, (size_t)n);
        else if (n == 0)
            raw->eof = true;
        else
            raw->reset = true;
    }
    return any;
}

void kit_put_bytes(struct kit *kit, struct kit_raw *raw, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(raw->fd, bytes, n, MSG_NOSIGNAL);

        if (sent < 0 && errno == EAGAIN) {
            kit_step(kit, 0, "the other side reads", __FILE__, __LINE__);
            continue;
        }
        if (sent < 0) /* the other side has closed, which is for the test to judge */
            return;
        bytes += sent;
        n -= (size_t)sent;
    }
}

void kit_put(struct kit *kit, struct kit_raw *raw, const char *text)
{
    kit_put_bytes(kit, raw, text, strlen(text));
}

void kit_hang_up(struct kit_raw *raw)
{
    if (raw->fd >= 0)
        close(raw->fd);
    raw->fd = -1;
}

void kit_reset(struct kit_raw *raw)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(raw->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    kit_hang_up(raw);
}

bool kit_got(const struct kit_raw *raw, const char *text)
{
    return raw->got != NULL && strstr(raw->got, text) != NULL;
}

size_t kit_count(const struct kit_raw *raw, const char *text)
{
    size_t n = 0;

    for (const char *at = raw->got; at != NULL && (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

void kit_forget(struct kit_raw *raw)
{
    raw->n = 0;
    if (raw->got != NULL)
        raw->got[0] = '\0';
}

/* ---- Driving --------------------------------------------------------------------------------- */

static bool pump_all(struct kit *kit)
{
    bool any = false;

    for (size_t i = 0; i < kit->n_raws; i++)
        any |= pump_raw(kit->raws[i]);
    return any;
}

/* Until the loop or a socket has something, or a timer of the loop is due. */
static void wait_for_event(struct kit *kit)
{
    struct pollfd fds[2 + COUNT_OF(kit->raws)];
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = uv_backend_fd(&kit->loop->uv), .events = POLLIN};
    for (size_t i = 0; i < kit->n_raws; i++)
        if (kit->raws[i]->fd >= 0 && !kit->raws[i]->eof && !kit->raws[i]->reset &&
            !kit->raws[i]->stuck)
            fds[n++] = (struct pollfd){.fd = kit->raws[i]->fd, .events = POLLIN};
    if (kit->listening >= 0)
        fds[n++] = (struct pollfd){.fd = kit->listening, .events = POLLIN};
    int timeout = uv_backend_timeout(&kit->loop->uv);
    if (timeout < 0 || timeout > WAIT_MS)
        timeout = WAIT_MS;
    kit->idle = poll(fds, n, timeout) > 0 ? 0 : kit->idle + timeout;
}

void kit_step(struct kit *kit, int round, const char *what, const char *file, int line)
{
    net_loop_turn(kit->loop, false);
    if (pump_all(kit))
        return;
    net_loop_turn(kit->loop, false); /* only a turn tells the system what is polled for */
    /* Timers a test waits for may be seconds away; what takes longer does not come. */
    if (round == 0)
        kit->idle = 0;
    else
        wait_for_event(kit);
    if (round > ROUNDS_MAX || kit->idle > IDLE_MS_MAX)
        print_error("never came: %s\n", what), _fail(file, line);
}

void kit_calm(struct kit *kit)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        struct pollfd fd = {.fd = uv_backend_fd(&kit->loop->uv), .events = POLLIN};

        net_loop_turn(kit->loop, false);
        if (pump_all(kit) || poll(&fd, 1, 0) > 0)
            quiet = 0;
    }
}

bool net_knows_localhost(void)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;

    if (getaddrinfo("localhost", NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}
