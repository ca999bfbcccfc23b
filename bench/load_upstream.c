/* load_upstream.c - an upstream that costs next to nothing, for measuring what stands before it.
 *
 *     load_upstream [PORT]       says "listening on 127.0.0.1:PORT" and runs until it is killed
 *
 * `tollgate mock` reads, checks, counts and scripts; beside a gateway it would be the bottleneck.
 * This one finds the end of a request and sends bytes that it made before. The model decides:
 *
 *     bench          a reply at once; with "stream":true, 64 events and one of usage, each of
 *                    which is a write of its own, as a provider's are
 *     bench-slow     a reply after 20 ms
 *     bench-held     a first event, then nothing
 *     bench-flood    4 MiB of events, as fast as they are taken
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load_kit.h"

enum {
    EVENTS = 64,
    BUFFER = 16384,
    READY = 256,
    FLOOD_BYTES = 4 << 20,
    FLOOD_PIECE = 16384,
    SLOW_RING = 1 << 16,
};
#define SLOW_NS (20 * INT64_C(1000000))

struct conn {
    int fd;
    size_t n;      /* bytes of the request */
    size_t flood;  /* bytes that are still to come */
    uint64_t life; /* which connection this is: the struct is used again */
    struct conn *next;
    char buffer[BUFFER];
};

/* Replies that wait; all wait equally long, so the first is the first to go. */
struct slow {
    struct conn *conn;
    uint64_t life;
    int64_t at;
};

struct upstream {
    int poll, listener;
    struct conn *spare;
    uint64_t lives;
    struct slow ring[SLOW_RING];
    size_t first, last;
    char chat[1024], head[256], event[512], end[1024], flood[FLOOD_PIECE + 16];
    size_t chat_n, head_n, event_n, end_n, flood_n;
};

/* ---- what is sent ---- */

static size_t chunk(char *text, size_t size, const char *data)
{
    return (size_t)snprintf(text, size, "%zx\r\n%s\r\n", strlen(data), data);
}

static void make_replies(struct upstream *up)
{
    static const char BODY[] =
        "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"bench\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Nobody "
        "did.\"},"
        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":4,"
        "\"total_tokens\":54}}";
    static const char EVENT[] =
        "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" angel\"},"
        "\"finish_reason\":null}],\"usage\":null}\n\n";
    static const char LAST[] =
        "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"model\":\"bench\",\"choices\":[],\"usage\":{\"prompt_tokens\":50,"
        "\"completion_tokens\":64,\"total_tokens\":114}}\n\ndata: [DONE]\n\n";
    char filling[FLOOD_PIECE];

    up->chat_n = (size_t)snprintf(up->chat, sizeof up->chat,
                                  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %zu\r\n\r\n%s",
                                  sizeof BODY - 1, BODY);
    up->head_n = (size_t)snprintf(up->head, sizeof up->head,
                                  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n");
    up->event_n = chunk(up->event, sizeof up->event, EVENT);
    up->end_n = chunk(up->end, sizeof up->end - 8, LAST);
    memcpy(up->end + up->end_n, "0\r\n\r\n", 5);
    up->end_n += 5;
    memset(filling, 'x', sizeof filling);
    memcpy(filling, "data: \"", 7);
    memcpy(filling + FLOOD_PIECE - 16, "\"\n\n", 4);
    up->flood_n = chunk(up->flood, sizeof up->flood, filling);
}

/* ---- connections ---- */

static void hang_up(struct upstream *up, struct conn *conn)
{
    close(conn->fd);
    conn->fd = -1;
    conn->life = 0;
    conn->next = up->spare;
    up->spare = conn;
}

static bool load_upstream_say(struct upstream *up, struct conn *conn, const char *data, size_t n)
{
    if (send(conn->fd, data, n, MSG_NOSIGNAL) == (ssize_t)n)
        return true;
    hang_up(up, conn);
    return false;
}

static bool stream(struct upstream *up, struct conn *conn)
{
    bool there = load_upstream_say(up, conn, up->head, up->head_n);

    for (int i = 0; there && i < EVENTS; i++)
        there = load_upstream_say(up, conn, up->event, up->event_n);
    return there && load_upstream_say(up, conn, up->end, up->end_n);
}

/* One piece after the other until the other side is full; the rest of a piece is kept by its
 * place. */
static void flood(struct upstream *up, struct conn *conn)
{
    while (conn->flood > 0) {
        size_t place = (FLOOD_BYTES - conn->flood) % up->flood_n;
        size_t n = up->flood_n - place;
        ssize_t sent = send(conn->fd, up->flood + place, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            load_poll_change(up->poll, conn->fd, EPOLLIN | EPOLLOUT, conn);
            return;
        }
        if (sent <= 0) {
            hang_up(up, conn);
            return;
        }
        conn->flood = (size_t)sent < conn->flood ? conn->flood - (size_t)sent : 0;
    }
    hang_up(up, conn);
}

static void reply_later(struct upstream *up, struct conn *conn)
{
    if (up->last - up->first == SLOW_RING)
        load_die("more than %d replies wait", SLOW_RING);
    up->ring[up->last++ % SLOW_RING] = (struct slow){conn, conn->life, load_now() + SLOW_NS};
}

static bool reply(struct upstream *up, struct conn *conn, const char *body)
{
    const char *model = strstr(body, "\"model\":\"bench");
    const char *kind = model ? model + strlen("\"model\":\"bench") : "";

    if (strncmp(kind, "-slow", 5) == 0) {
        reply_later(up, conn);
        return true;
    }
    if (strncmp(kind, "-held", 5) == 0)
        return load_upstream_say(up, conn, up->head, up->head_n) &&
               load_upstream_say(up, conn, up->event, up->event_n);
    if (strncmp(kind, "-flood", 6) == 0) {
        if (!load_upstream_say(up, conn, up->head, up->head_n))
            return false;
        conn->flood = FLOOD_BYTES;
        flood(up, conn);
        return false;
    }
    if (strstr(body, "\"stream\":true"))
        return stream(up, conn);
    return load_upstream_say(up, conn, up->chat, up->chat_n);
}

/* Bytes of the request at the beginning of the buffer; 0: not all there. */
static size_t request_bytes(const struct conn *conn, size_t *head)
{
    const char *end = strstr(conn->buffer, "\r\n\r\n");
    const char *length = strcasestr(conn->buffer, "\r\ncontent-length:");

    if (end == NULL)
        return 0;
    *head = (size_t)(end - conn->buffer) + 4;
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return *head + body <= conn->n ? *head + body : 0;
}

static void load_upstream_take(struct upstream *up, struct conn *conn)
{
    size_t room = BUFFER - 1 - conn->n, head = 0, n;
    ssize_t got = recv(conn->fd, conn->buffer + conn->n, room, 0);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0 || (size_t)got == room) {
        hang_up(up, conn);
        return;
    }
    conn->n += (size_t)got;
    conn->buffer[conn->n] = '\0';
    while ((n = request_bytes(conn, &head)) > 0) {
        if (!reply(up, conn, conn->buffer + head))
            return;
        conn->n -= n;
        memmove(conn->buffer, conn->buffer + n, conn->n + 1);
    }
}

static void welcome(struct upstream *up)
{
    int fd;

    while ((fd = accept4(up->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *conn = up->spare;
        if (conn)
            up->spare = conn->next;
        else if ((conn = malloc(sizeof *conn)) == NULL)
            load_die("no memory");
        conn->fd = fd;
        conn->n = conn->flood = 0;
        conn->life = ++up->lives;
        load_poll_add(up->poll, fd, EPOLLIN, conn);
    }
}

static void send_slow(struct upstream *up)
{
    int64_t now = load_now();

    for (; up->first < up->last && up->ring[up->first % SLOW_RING].at <= now; up->first++) {
        struct slow *slow = &up->ring[up->first % SLOW_RING];
        if (slow->conn->life == slow->life)
            load_upstream_say(up, slow->conn, up->chat, up->chat_n);
    }
}

static void load_upstream_serve(struct upstream *up, const struct epoll_event *event)
{
    struct conn *conn = event->data.ptr;

    if (conn == NULL)
        welcome(up);
    else if (conn->fd < 0)
        return; /* hung up since */
    else if (conn->flood > 0 && (event->events & EPOLLOUT))
        flood(up, conn);
    else
        load_upstream_take(up, conn);
}

int main(int argc, char **argv)
{
    static struct upstream up;
    struct epoll_event events[READY];
    uint16_t port = argc > 1 ? (uint16_t)load_number("PORT", argv[1], 0, 65535) : 0;

    load_raise_descriptors();
    make_replies(&up);
    up.poll = load_poll_new();
    up.listener = load_listen(&port);
    load_poll_add(up.poll, up.listener, EPOLLIN, NULL);
    printf("listening on 127.0.0.1:%u\n", port);
    fflush(stdout);
    for (;;) {
        int64_t until = load_now() + LOAD_SECOND;
        if (up.first < up.last)
            until = up.ring[up.first % SLOW_RING].at;
        int n = load_poll_wait(up.poll, events, READY, until);
        for (int i = 0; i < n; i++)
            load_upstream_serve(&up, &events[i]);
        send_slow(&up);
    }
}
