/* http_listen.c - listeners: a socket for each worker on the same port, and who may come in.
 *
 * Every worker has its own socket with SO_REUSEPORT, and the kernel deals connections out: no
 * thread accepts for another, and no wake-up crosses cores. The option is set here because libuv
 * 1.44 has none for it. The price: when one worker stops listening, what the kernel had dealt to it
 * and it had not accepted is reset; so workers drain together.
 *
 * When there are too many connections, those that nobody uses give way: see http_give_way.c.
 *
 * When descriptors run out, accepting stops for a moment: the socket stays readable, and the loop
 * would spin.
 */
#define _DEFAULT_SOURCE /* SO_REUSEPORT */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/http/http2_server_internal.h"
#include "io/net/address.h"
#include "lib/core/problem.h"

#define ACCEPTS_A_TURN 64 /* others of the loop want their turn */
#define ACCEPT_AGAIN_MS 100

/* One listening socket. */
struct listen_poll {
    uv_poll_t uv;
    struct http_listener *listener;
    int fd;
    struct listen_poll *next;
};

static void http_limits_init(struct http_limits *limits)
{
    *limits = (struct http_limits){
        .header_bytes = 64 << 10,
        .fields = 100,
        .target_bytes = 16 << 10,
        .header_ms = 10000,
        .body_ms = 30000,
        .body_rate = 1000,
        .write_ms = 60000,
        .idle_ms = 75000,
        .linger_ms = 2000,
        .linger_bytes = 1 << 20,
        .close_ms = 30000,
        .close_bytes = 64 << 20,
        .output_high = HTTP_OUTPUT_HIGH,
        .output_low = HTTP_OUTPUT_LOW,
        .streams = 128,
        .resets = 500,
        .resets_per_s = 100,
        .rapid_ms = 100,
        .odd_frames = 2000,
    };
}

void http_listen_options_init(struct http_listen_options *options)
{
    *options = (struct http_listen_options){.backlog = 1024};
    http_limits_init(&options->limits);
}

static enum tg_err check_limits(const struct http_limits *limits, struct tg_problem *problem)
{
    if (limits->header_bytes < 256 || limits->header_bytes > 1 << 20)
        return problem_say(problem, TG_ERR_INVALID, "header_bytes %zu: from 256 to 1048576",
                           limits->header_bytes);
    if (limits->fields < 1 || limits->fields > 1000)
        return problem_say(problem, TG_ERR_INVALID, "fields %zu: from 1 to 1000", limits->fields);
    if (limits->output_low > limits->output_high)
        return problem_say(problem, TG_ERR_INVALID, "output_low %zu is above output_high %zu",
                           limits->output_low, limits->output_high);
    if (limits->streams < 1 || limits->streams > 100000)
        return problem_say(problem, TG_ERR_INVALID, "streams %zu: from 1 to 100000",
                           limits->streams);
    return TG_OK;
}

/* ---- Accepting ------------------------------------------------------------------------------- */

static void accept_polled(uv_poll_t *uv, int status, int events);

/* Whether there are no more than there may be. Relaxed, here and below: counts that guard no other
 * memory. */
static bool census_holds(const struct http_census *census)
{
    long long open = atomic_load_explicit(&census->open, memory_order_relaxed);
    long long max = atomic_load_explicit(&census->max, memory_order_relaxed);

    return max <= 0 || open <= max;
}

/* The bytes of an address that are counted together; 0: it has none. */
static size_t census_address(const union address *peer, const void **bytes)
{
    if (peer->any.sa_family == AF_INET) {
        *bytes = &peer->in.sin_addr;
        return 4;
    }
    if (peer->any.sa_family != AF_INET6)
        return 0;
    bool mapped = IN6_IS_ADDR_V4MAPPED(&peer->in6.sin6_addr);
    *bytes = peer->in6.sin6_addr.s6_addr + (mapped ? 12 : 0);
    return mapped ? 4 : 8;
}

uint32_t http_client_id(struct slice name)
{
    uint32_t id = (uint32_t)XXH3_64bits(name.at, name.n);

    return id != 0 ? id : 1;
}

/* Counts one more of this address. False: it has as many as it may, and is not counted. */
static bool census_enter_address(const struct http_listener *listener, const union address *peer,
                                 int *slot)
{
    struct http_census *census = listener->census;
    const struct http_server_ops *ops = listener->ops;
    const void *bytes;
    size_t n = census_address(peer, &bytes);

    *slot = -1;
    if (n == 0 || (ops->is_proxy != NULL && ops->is_proxy(listener->context, &peer->any)))
        return true;
    int at = (int)(XXH3_64bits_withSeed(bytes, n, census->seed) % HTTP_ADDRESS_SLOTS);
    long long max = atomic_load_explicit(&census->per_address, memory_order_relaxed);
    int open = atomic_fetch_add_explicit(&census->by_address[at], 1, memory_order_relaxed);
    if (max > 0 && open >= max) {
        atomic_fetch_sub_explicit(&census->by_address[at], 1, memory_order_relaxed);
        return false;
    }
    *slot = at;
    return true;
}

void http_census_leave(struct http_census *census, int address_slot)
{
    if (census == NULL)
        return;
    atomic_fetch_sub_explicit(&census->open, 1, memory_order_relaxed);
    if (address_slot >= 0)
        atomic_fetch_sub_explicit(&census->by_address[address_slot], 1, memory_order_relaxed);
}

/* Whether there is a place for one more, after others have made room. */
static bool make_room(struct http_listener *listener)
{
    struct http_census *census = listener->census;
    enum http_way way = HTTP_WAY_MADE;

    while (way == HTTP_WAY_MADE && census != NULL && !census_holds(census)) {
        way = http_give_way(listener);
        atomic_fetch_add_explicit(&census->gave_way, way == HTTP_WAY_MADE, memory_order_relaxed);
    }
    while (way != HTTP_WAY_NONE && listener->max_conns > 0 &&
           listener->n_conns >= listener->max_conns)
        way = http_give_way(listener) == HTTP_WAY_MADE ? HTTP_WAY_MADE : HTTP_WAY_NONE;
    return way != HTTP_WAY_NONE;
}

/* It is counted, whether it may come in or not. Those that are refused end before anything else: so
 * a listener has one of them at most beyond the bound. One that its address may not have makes
 * nobody else give way. */
static void take_in(struct http_listener *listener, int fd, const union address *peer, socklen_t n)
{
    struct http_census *census = listener->census;
    const char *why = NULL;
    struct http1_conn *conn;
    int slot = -1;

    if (census != NULL)
        atomic_fetch_add_explicit(&census->open, 1, memory_order_relaxed);
    if (census != NULL && !census_enter_address(listener, peer, &slot)) {
        why = "there are too many connections from this address";
        while (!census_holds(census) && http_end_refused(listener))
            ;
    } else if (!make_room(listener)) {
        why = "there are too many connections";
    }
    if (why != NULL && census != NULL)
        atomic_fetch_add_explicit(&census->turned_away, 1, memory_order_relaxed);
    if (!http1_conn_new(listener, fd, &peer->any, n, &conn)) {
        http_census_leave(census, slot);
        return;
    }
    http_conn_set_address(conn, slot);
    if (why != NULL)
        http1_conn_refuse(conn, why);
}

static void rest_a_while(struct http_listener *listener)
{
    assert(!net_timer_is_set(&listener->again));
    for (struct listen_poll *poll = listener->polls; poll != NULL; poll = poll->next)
        uv_poll_stop(&poll->uv);
    net_timer_set(listener->loop, &listener->again, ACCEPT_AGAIN_MS);
}

static void accept_again(void *arg)
{
    struct http_listener *listener = arg;

    for (struct listen_poll *poll = listener->polls; poll != NULL && !listener->held;
         poll = poll->next)
        uv_poll_start(&poll->uv, UV_READABLE, accept_polled);
}

void http_listener_hold(struct http_listener *listener, bool held)
{
    listener->held = held;
    net_timer_stop(listener->loop, &listener->again);
    for (struct listen_poll *poll = listener->polls; poll != NULL; poll = poll->next)
        uv_poll_stop(&poll->uv);
    accept_again(listener);
}

static int accept_one(int listening, union address *peer, socklen_t *n)
{
    int fd = accept(listening, &peer->any, n);

    if (fd >= 0 && (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)) {
        close(fd);
        errno = ECONNABORTED;
        return -1;
    }
    return fd;
}

static void accept_polled(uv_poll_t *uv, int status, int events)
{
    const struct listen_poll *poll = uv->data;
    struct http_listener *listener = poll->listener;

    assert(poll->fd >= 0 && !listener->draining && !listener->held);
    (void)status, (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        union address peer = {0};
        socklen_t n = sizeof peer;
        int fd = accept_one(poll->fd, &peer, &n);

        if (fd >= 0) {
            take_in(listener, fd, &peer, n);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            rest_a_while(listener);
            break;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            break;
        }
    }
    net_loop_settle(listener->loop);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static enum tg_err find_address(const char *text, union address *address, socklen_t *n,
                                struct tg_problem *problem)
{
    char host[ADDRESS_HOST_BYTES];
    int port = 0;

    if (strncmp(text, "unix:", 5) == 0) {
        if (address_parse(text, 0, address, n))
            return TG_OK;
    } else if (address_split(text, host, &port)) {
        if (address_parse(strcmp(host, "*") == 0 ? "::" : host, port, address, n))
            return TG_OK;
    }
    return problem_say(problem, TG_ERR_INVALID,
                       "'%s' is not an address to listen on; it must be like 127.0.0.1:8080, "
                       "[::1]:8080, *:8080 or unix:PATH",
                       text);
}

/* A local socket that nobody listens on any more is in the way. */
static void remove_stale(const union address *address, socklen_t n)
{
    struct stat st;

    if (stat(address->un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &address->any, n) != 0 && errno == ECONNREFUSED)
        unlink(address->un.sun_path);
    close(fd);
}

/* How a socket is to listen. */
struct listen_way {
    int backlog;
    bool any;   /* every address, IPv4 and IPv6 */
    bool share; /* the port, with others that do so too */
};

static int open_socket(const union address *address, socklen_t n, struct listen_way way)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1, only_v6 = way.any ? 0 : 1;

    if (fd < 0)
        return -1;
    if (address->any.sa_family == AF_UNIX) {
        remove_stale(address, n);
    } else {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (way.share && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
            goto close_fd;
    }
    if (address->any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
    if (bind(fd, &address->any, n) == 0 && listen(fd, way.backlog) == 0)
        return fd;

close_fd:;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* A local socket is the first worker's. Another is opened as above; if it is to be alone, only
 * where a socket that shares with nobody could listen. A port that the system chooses is nobody's
 * anyway. */
static int open_listener(const char *text, const union address *address, socklen_t n,
                         const struct http_listen_options *options)
{
    struct listen_way way = {.backlog = options->backlog, .any = *text == '*', .share = false};

    if (options->first != NULL && address->any.sa_family == AF_UNIX)
        return fcntl(options->first->polls->fd, F_DUPFD_CLOEXEC, 0);
    if (options->alone && address->any.sa_family != AF_UNIX) {
        int fd = open_socket(address, n, way);
        if (fd < 0)
            return -1;
        close(fd);
    }
    way.share = true;
    return open_socket(address, n, way);
}

static int port_of(int fd)
{
    union address address = {0};
    socklen_t n = sizeof address;

    if (getsockname(fd, &address.any, &n) != 0)
        return 0;
    if (address.any.sa_family == AF_INET)
        return ntohs(address.in.sin_port);
    return address.any.sa_family == AF_INET6 ? ntohs(address.in6.sin6_port) : 0;
}

/* Takes the descriptor, which is closed if there is no memory. */
static bool start_polling(struct http_listener *listener, int fd)
{
    struct listen_poll *poll = calloc(1, sizeof *poll);

    if (poll == NULL || uv_poll_init(&listener->loop->uv, &poll->uv, fd) != 0) {
        free(poll);
        close(fd);
        return false;
    }
    poll->uv.data = poll;
    poll->listener = listener;
    poll->fd = fd;
    poll->next = listener->polls;
    listener->polls = poll;
    if (!listener->held)
        uv_poll_start(&poll->uv, UV_READABLE, accept_polled);
    return true;
}

/* Sockets that are there already: those of a process that is being taken over, or the system's. */
static enum tg_err poll_given(struct http_listener *listener,
                              const struct http_listen_options *options, struct tg_problem *problem)
{
    bool good = true;

    listener->port = port_of(options->sockets[0]);
    for (size_t i = 0; i < options->n_sockets; i++) {
        int fd = options->sockets[i];
        if (!good)
            close(fd);
        else if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            good = (close(fd), false);
        else
            good = start_polling(listener, fd);
    }
    return good ? TG_OK : problem_say(problem, TG_ERR_MEMORY, "no memory");
}

static enum tg_err poll_opened(struct http_listener *listener, const char *address,
                               union address *where, socklen_t n,
                               const struct http_listen_options *options,
                               struct tg_problem *problem)
{
    int fd = open_listener(address, where, n, options);

    if (fd < 0 && errno == EAFNOSUPPORT && *address == '*') {
        /* A system without IPv6: every address is every IPv4 address. */
        (void)address_parse("0.0.0.0", ntohs(where->in6.sin6_port), where, &n);
        fd = open_listener(address, where, n, options);
    }
    if (fd < 0)
        return problem_say(problem, TG_ERR_STORE, "cannot listen on %s: %s", address,
                           strerror(errno));
    listener->port = port_of(fd);
    return start_polling(listener, fd) ? TG_OK : problem_say(problem, TG_ERR_MEMORY, "no memory");
}

enum tg_err http_listen(struct net_loop *loop, const char *address,
                        const struct http_listen_options *options, struct http_listener **made,
                        struct tg_problem *problem)
{
    union address where;
    socklen_t n;
    enum tg_err err = check_limits(&options->limits, problem);

    if (err == TG_OK)
        err = find_address(address, &where, &n, problem);
    if (err != TG_OK)
        return err;
    struct http_listener *listener = http_listener_new(loop, options);
    if (listener == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    err = options->n_sockets > 0 ? poll_given(listener, options, problem)
                                 : poll_opened(listener, address, &where, n, options, problem);
    if (err == TG_OK && where.any.sa_family == AF_UNIX && options->first == NULL &&
        !options->borrowed)
        listener->unlink_path = strdup(where.un.sun_path);
    if (err != TG_OK) {
        http_listener_free(listener);
        return err;
    }
    *made = listener;
    return TG_OK;
}

struct http_listener *http_listener_new(struct net_loop *loop,
                                        const struct http_listen_options *options)
{
    struct http_listener *listener = calloc(1, sizeof *listener);

    if (listener == NULL)
        return NULL;
    /* Connections are numbered from anywhere: so no two listeners of the process, on whatever
     * threads, need to agree on who has which numbers. */
    listener->loop = loop;
    listener->ops = options->ops;
    listener->context = options->context;
    listener->limits = options->limits;
    listener->census = options->census;
    listener->max_conns = options->connections;
    listener->tls = tls_context_ref(options->tls);
    listener->http2 = options->http2;
    listener->held = options->held;
    for (int i = 0; i < HTTP_IDLE_LISTS; i++)
        TAILQ_INIT(&listener->idle[i]);
    if (uv_random(NULL, NULL, &listener->next_connection, sizeof listener->next_connection, 0,
                  NULL) != 0)
        listener->next_connection = (uint64_t)(uintptr_t)listener << 16;
    listener->next_connection = (listener->next_connection >> 1) + 1; /* never 0 */
    net_timer_init(&listener->again, accept_again, listener);
    return listener;
}

/* ---- Asking, draining, closing --------------------------------------------------------------- */

int http_listener_port(const struct http_listener *listener)
{
    return listener->port;
}

size_t http_listener_open(const struct http_listener *listener)
{
    return listener->n_conns;
}

size_t http_listener_busy(const struct http_listener *listener)
{
    return listener->n_busy;
}

void http_listener_set_tls(struct http_listener *listener, struct tls_context *tls)
{
    struct tls_context *old = listener->tls;

    listener->tls = tls_context_ref(tls);
    tls_context_unref(old);
}

static void poll_closed(uv_handle_t *uv)
{
    free(uv->data);
}

static void stop_accepting(struct http_listener *listener)
{
    struct listen_poll *poll;

    net_timer_stop(listener->loop, &listener->again);
    while ((poll = listener->polls) != NULL) {
        listener->polls = poll->next;
        uv_close((uv_handle_t *)&poll->uv, poll_closed);
        close(poll->fd);
    }
    if (listener->unlink_path != NULL)
        unlink(listener->unlink_path);
    free(listener->unlink_path);
    listener->unlink_path = NULL;
}

size_t http_listener_sockets(const struct http_listener *listener, int *sockets, size_t room)
{
    size_t n = 0;

    for (const struct listen_poll *poll = listener->polls; poll != NULL && n < room;
         poll = poll->next)
        sockets[n++] = poll->fd;
    return n;
}

void http_listener_retire(struct http_listener *listener)
{
    struct http1_conn *conn, *next;

    free(listener->unlink_path); /* the socket is another process's now, and so is its name */
    listener->unlink_path = NULL;
    listener->draining = true;
    stop_accepting(listener);
    for (conn = LIST_FIRST(&listener->conns); conn != NULL; conn = next) {
        next = LIST_NEXT(conn, in_listener);
        if (conn->http2 != NULL)
            http2_server_drain(conn->http2);
    }
}

void http_listener_drain(struct http_listener *listener)
{
    struct http1_conn *conn = LIST_FIRST(&listener->conns), *next;

    listener->draining = true;
    stop_accepting(listener);
    for (; conn != NULL; conn = next) {
        next = LIST_NEXT(conn, in_listener);
        if (conn->http2 != NULL)
            http2_server_drain(conn->http2);
        else if (conn->phase == HTTP1_IDLE || conn->phase == HTTP1_SHAKING)
            http1_conn_end(conn, HTTP_ABORTED);
    }
}

void http_listener_free(struct http_listener *listener)
{
    if (listener == NULL)
        return;
    stop_accepting(listener);
    while (!LIST_EMPTY(&listener->conns))
        http1_conn_end(LIST_FIRST(&listener->conns), HTTP_ABORTED);
    assert(listener->n_conns == 0 && listener->n_busy == 0);
    http2_spares_free(listener);
    tls_context_unref(listener->tls);
    free(listener);
}
