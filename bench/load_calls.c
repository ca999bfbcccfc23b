/* load_calls.c - calls a gateway as fast as it answers, or at a fixed rate, and times it.
 *
 *     load_calls PORT KEY KIND MODEL SECONDS CONNECTIONS RATE
 *
 * KIND is chat, stream or hold. With RATE 0 each connection calls again when it has its reply.
 * Otherwise calls come at that rate by chance (Poisson), and a call's time begins when it was due,
 * not when a connection was free for it: a server that stalls does not stop the clock. A twentieth
 * of the time at the beginning is not counted.
 *
 * It prints one line of name=value: calls that were answered 200, those that were refused (429,
 * 503), those that failed, times of replies, of first bytes of bodies and of refusals in
 * microseconds, and which part of a core it used itself.
 *
 * `hold` opens CONNECTIONS streams, waits for the first byte of each, says how many are open, and
 * keeps them until stdin ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load_kit.h"

enum { HEAD_MAX = 4096, PIECE = 65536, READY = 256, CONNECTIONS_MAX = 20000 };
#define DUE_MAX (1 << 16)

/* Where in a reply we are. */
enum place { IDLE, HEAD, LENGTH, CHUNK_SIZE, CHUNK_REST, CHUNK_DATA, CHUNK_END };

struct conn {
    int fd;
    enum place place;
    int status;
    bool closes; /* the server does, after this reply */
    bool last;   /* the chunk of size 0 */
    size_t left; /* bytes of the body or of the chunk yet to come */
    int64_t due, first;
    size_t head_n;
    char head[HEAD_MAX];
};

struct load {
    int poll;
    uint16_t port;
    char request[2048];
    size_t request_n;
    struct conn *conns;
    size_t n_conns;
    size_t *idle, n_idle;
    int64_t due[DUE_MAX]; /* calls that no connection was free for */
    size_t first_due, last_due;
    bool closed, hold; /* RATE 0 */
    int64_t counted_from, until;
    size_t calls, refused, failed, opened;
    struct load_times replies, firsts, refusals;
};

/* ---- connections ---- */

static void dial(struct load *load, struct conn *conn)
{
    conn->fd = load_connect(load->port);
    if (conn->fd < 0)
        load_die("cannot connect: %s", strerror(errno));
    load_poll_add(load->poll, conn->fd, EPOLLIN, conn);
}

static void redial(struct load *load, struct conn *conn)
{
    close(conn->fd);
    dial(load, conn);
}

static void call(struct load *load, struct conn *conn, int64_t due)
{
    conn->place = HEAD;
    conn->head_n = 0;
    conn->due = due;
    conn->first = 0;
    ssize_t sent = send(conn->fd, load->request, load->request_n, MSG_NOSIGNAL);
    if (sent == (ssize_t)load->request_n)
        return;
    /* Not connected yet, or closed by the server while it was idle: once more, with patience. */
    redial(load, conn);
    struct pollfd writable = {.fd = conn->fd, .events = POLLOUT};
    poll(&writable, 1, 1000);
    if (send(conn->fd, load->request, load->request_n, MSG_NOSIGNAL) != (ssize_t)load->request_n)
        load_die("cannot send: %s", strerror(errno));
}

/* The connection is free: the next call that is due, or it rests. */
static void load_calls_next(struct load *load, struct conn *conn)
{
    conn->place = IDLE;
    if (load->closed)
        call(load, conn, load_now());
    else if (load->first_due < load->last_due)
        call(load, conn, load->due[load->first_due++ % DUE_MAX]);
    else
        load->idle[load->n_idle++] = (size_t)(conn - load->conns);
}

static void load_calls_count(struct load *load, const struct conn *conn, int64_t now)
{
    if (conn->due < load->counted_from)
        return;
    if (conn->status == 200) {
        load->calls++;
        load_times_add(&load->replies, now - conn->due);
        load_times_add(&load->firsts, conn->first - conn->due);
    } else if (conn->status == 429 || conn->status == 503) {
        load->refused++;
        load_times_add(&load->refusals, now - conn->due);
    } else {
        load->failed++;
    }
}

static void load_calls_finish(struct load *load, struct conn *conn, int64_t now)
{
    load_calls_count(load, conn, now);
    if (conn->closes)
        redial(load, conn);
    load_calls_next(load, conn);
}

static void load_calls_fail(struct load *load, struct conn *conn)
{
    bool waited = conn->place != IDLE;

    redial(load, conn);
    if (!waited)
        return; /* an idle connection that the server closed */
    if (conn->due >= load->counted_from)
        load->failed++;
    load_calls_next(load, conn);
}

/* ---- replies ---- */

static bool read_head(struct conn *conn)
{
    const char *length = strcasestr(conn->head, "\r\ncontent-length:");

    conn->status = atoi(conn->head + strlen("HTTP/1.1 "));
    conn->closes = strcasestr(conn->head, "\r\nconnection: close") != NULL;
    conn->last = false;
    conn->left = 0;
    if (strcasestr(conn->head, "\r\ntransfer-encoding: chunked")) {
        conn->place = CHUNK_SIZE;
        return true;
    }
    conn->place = LENGTH;
    if (length)
        conn->left = strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    return length != NULL;
}

/* Takes the head's part of the bytes; how many they were. The head may come in pieces. */
static size_t take_head(struct conn *conn, const char *data, size_t n)
{
    size_t before = conn->head_n, more = HEAD_MAX - 1 - before;

    more = n < more ? n : more;
    memcpy(conn->head + before, data, more);
    conn->head[before + more] = '\0';
    const char *end = strstr(conn->head, "\r\n\r\n");
    if (end == NULL) {
        conn->head_n += more;
        if (conn->head_n == HEAD_MAX - 1)
            load_die("a head of more than %d bytes", HEAD_MAX);
        return more;
    }
    size_t head = (size_t)(end - conn->head) + 4;
    conn->head[head - 2] = '\0';
    if (!read_head(conn))
        load_die("a reply without a length: %s", conn->head);
    return head - before;
}

static unsigned digit(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a') + 10;
}

static size_t take_chunks(struct conn *conn, const char *data, size_t n)
{
    size_t used = 1;

    if (conn->place == CHUNK_SIZE && (*data == '\r' || *data == ';')) {
        conn->place = CHUNK_REST;
    } else if (conn->place == CHUNK_SIZE) {
        conn->left = conn->left * 16 + digit(*data);
    } else if (conn->place == CHUNK_REST && *data == '\n') {
        conn->last = conn->left == 0;
        conn->place = conn->last ? CHUNK_END : CHUNK_DATA;
    } else if (conn->place == CHUNK_DATA) {
        used = n < conn->left ? n : conn->left;
        conn->left -= used;
        conn->place = conn->left == 0 ? CHUNK_END : CHUNK_DATA;
    } else if (conn->place == CHUNK_END && *data == '\n') {
        conn->place = conn->last ? IDLE : CHUNK_SIZE;
    }
    return used;
}

/* Takes some of the bytes. The reply is whole when its place is IDLE. */
static size_t take_some(struct load *load, struct conn *conn, const char *data, size_t n,
                        int64_t now)
{
    if (conn->place == HEAD) {
        size_t head = take_head(conn, data, n);
        if (conn->place == LENGTH && conn->left == 0)
            conn->place = IDLE;
        return head;
    }
    if (conn->first == 0 && (conn->place == CHUNK_DATA || conn->place == LENGTH)) {
        conn->first = now;
        load->opened += conn->status == 200;
    }
    if (conn->place != LENGTH)
        return take_chunks(conn, data, n);
    size_t used = n < conn->left ? n : conn->left;
    conn->left -= used;
    if (conn->left == 0)
        conn->place = IDLE;
    return used;
}

static void load_calls_take(struct load *load, struct conn *conn)
{
    static char data[PIECE];
    ssize_t got = recv(conn->fd, data, sizeof data, 0);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0 || conn->place == IDLE) {
        load_calls_fail(load, conn);
        return;
    }
    int64_t now = load_now();
    size_t at = 0;
    while (at < (size_t)got && conn->place != IDLE)
        at += take_some(load, conn, data + at, (size_t)got - at, now);
    if (conn->place == IDLE)
        load_calls_finish(load, conn, now);
}

/* ---- the run ---- */

static void connect_all(struct load *load)
{
    load->conns = calloc(load->n_conns, sizeof *load->conns);
    load->idle = calloc(load->n_conns, sizeof *load->idle);
    if (load->conns == NULL || load->idle == NULL)
        load_die("no memory");
    for (size_t i = 0; i < load->n_conns; i++) {
        dial(load, &load->conns[i]);
        struct pollfd writable = {.fd = load->conns[i].fd, .events = POLLOUT};
        if (poll(&writable, 1, 5000) != 1)
            load_die("no connection within 5 s");
        load->idle[load->n_idle++] = i;
    }
}

static void arrive(struct load *load, int64_t due)
{
    if (load->n_idle > 0)
        call(load, &load->conns[load->idle[--load->n_idle]], due);
    else if (load->last_due - load->first_due < DUE_MAX)
        load->due[load->last_due++ % DUE_MAX] = due;
    else
        load_die("more than %d calls wait for a connection", DUE_MAX);
}

static void load_calls_poll(struct load *load, int64_t until)
{
    struct epoll_event events[READY];
    int n = load_poll_wait(load->poll, events, READY, until);

    for (int i = 0; i < n; i++)
        load_calls_take(load, events[i].data.ptr);
}

static void load_calls_run(struct load *load, double rate)
{
    struct load_random random = {.state = 1};
    int64_t next = load_now();

    if (load->closed)
        while (load->n_idle > 0)
            arrive(load, next);
    while (load_now() < load->until) {
        if (load->closed) {
            load_calls_poll(load, load->until);
            continue;
        }
        for (int64_t now = load_now(); next <= now;
             next += load_random_gap(&random, (double)LOAD_SECOND / rate))
            arrive(load, next);
        load_calls_poll(load, next < load->until ? next : load->until);
    }
    /* What is open when the time is over counts too, if it comes to an end: the slow ones are the
     * interesting ones. */
    load->closed = false;
    for (int64_t end = load_now() + LOAD_SECOND; load->n_idle < load->n_conns && load_now() < end;)
        load_calls_poll(load, end);
    load->failed += load->n_conns - load->n_idle;
}

static void load_calls_hold(struct load *load)
{
    char byte;

    while (load->n_idle > 0)
        arrive(load, load_now());
    while (load->opened + load->refused + load->failed < load->n_conns && load_now() < load->until)
        load_calls_poll(load, load->until);
    printf("open=%zu refused=%zu failed=%zu\n", load->opened, load->refused, load->failed);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

static void print(struct load *load, int64_t took, int64_t used)
{
    printf("calls=%zu refused=%zu failed=%zu ", load->calls, load->refused, load->failed);
    printf("p50=%.0f p99=%.0f ", load_times_at(&load->replies, 0.5),
           load_times_at(&load->replies, 0.99));
    printf("max=%.0f ", load_times_at(&load->replies, 1));
    printf("first_p50=%.0f first_p99=%.0f ", load_times_at(&load->firsts, 0.5),
           load_times_at(&load->firsts, 0.99));
    printf("refusal_p50=%.0f refusal_p99=%.0f ", load_times_at(&load->refusals, 0.5),
           load_times_at(&load->refusals, 0.99));
    printf("busy=%.2f\n", (double)used / (double)took);
}

int main(int argc, char **argv)
{
    static struct load load;

    if (argc != 8)
        load_die("load_calls takes PORT KEY chat|stream|hold MODEL SECONDS CONNECTIONS RATE");
    bool chat = strcmp(argv[3], "chat") == 0;
    load.hold = strcmp(argv[3], "hold") == 0;
    load.port = (uint16_t)load_number("PORT", argv[1], 1, 65535);
    int64_t seconds = load_number("SECONDS", argv[5], 1, 86400);
    load.n_conns = (size_t)load_number("CONNECTIONS", argv[6], 1, CONNECTIONS_MAX);
    int64_t rate = load_number("RATE", argv[7], 0, 1000000);
    load.request_n = load_request(load.request, sizeof load.request, argv[4], argv[2], !chat);
    load_raise_descriptors();
    load.poll = load_poll_new();
    load.closed = rate == 0 && !load.hold;
    connect_all(&load);
    int64_t began = load_now(), used = load_used();
    load.counted_from = load.hold ? 0 : began + seconds * LOAD_SECOND / 20;
    load.until = began + seconds * LOAD_SECOND;
    if (load.hold) {
        load_calls_hold(&load);
        return load.opened == load.n_conns ? 0 : 1;
    }
    load_calls_run(&load, (double)rate);
    print(&load, load_now() - began, load_used() - used);
    return 0;
}
