/* load_upstream.c - an upstream that costs next to nothing, for measuring what stands before it.
 *
 *     load_upstream [PORT]       says "listening on 127.0.0.1:PORT" and runs until it is killed
 *
 * `tollgate mock` reads, checks, counts and scripts; beside a gateway it would be the bottleneck.
 * This one finds the end of a request and sends bytes that it made before: Anthropic's to a call of
 * /v1/messages, those of OpenAI's chats to all others. The model decides:
 *
 *     bench          a reply at once; with "stream":true, 64 events with text, each of which is a
 *                    write of its own, as a provider's are, between those that open and end it
 *     bench-slow     a reply after 20 ms
 *     bench-held     a first event with text, then nothing
 *     bench-flood    4 MiB of events, as fast as they are taken
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
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

/* Bytes of replies, made before the first call. */
struct bytes {
    size_t n;
    char at[2048];
};

/* What calls of a dialect are answered: a whole reply, or the head of a stream, what opens it, a
 * text as often as wanted, and its end. */
struct replies {
    struct bytes whole, head, open, text, end;
};

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
    const struct bytes *reply;
    uint64_t life;
    int64_t at;
};

struct upstream {
    int poll, listener;
    struct conn *spare;
    uint64_t lives;
    struct slow ring[SLOW_RING];
    size_t first, last;
    struct replies chat, messages;
    size_t flood_n;
    char flood[FLOOD_PIECE + 16];
};

/* ---- what is sent ---- */

__attribute__((format(printf, 2, 3))) static void put(struct bytes *bytes, const char *format, ...)
{
    size_t room = sizeof bytes->at - bytes->n;
    va_list list;

    va_start(list, format);
    int n = vsnprintf(bytes->at + bytes->n, room, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= room)
        load_die("a reply of more than %zu bytes", sizeof bytes->at);
    bytes->n += (size_t)n;
}

static void put_chunk(struct bytes *bytes, const char *data)
{
    put(bytes, "%zx\r\n%s\r\n", strlen(data), data);
}

static void make_heads(struct replies *replies, const char *body)
{
    put(&replies->whole,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    put(&replies->head, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n");
}

static void make_chat(struct replies *chat)
{
    make_heads(chat,
               "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,"
               "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
               "\"content\":\"Nobody did.\"},\"finish_reason\":\"stop\"}],"
               "\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":4,\"total_tokens\":54}}");
    put_chunk(&chat->text,
              "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
              "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" angel\"},"
              "\"finish_reason\":null}],\"usage\":null}\n\n");
    put_chunk(&chat->end,
              "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
              "\"model\":\"bench\",\"choices\":[],\"usage\":{\"prompt_tokens\":50,"
              "\"completion_tokens\":64,\"total_tokens\":114}}\n\ndata: [DONE]\n\n");
    put(&chat->end, "0\r\n\r\n");
}

/* The same texts and counts in Anthropic's form, which has more events around them. */
static void make_messages(struct replies *messages)
{
#define MESSAGE                                                                                    \
    "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"bench\","           \
    "\"content\":"
#define INPUT "\"input_tokens\":50,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
    make_heads(messages, MESSAGE "[{\"type\":\"text\",\"text\":\"Nobody did.\"}],"
                                 "\"stop_reason\":\"end_turn\",\"stop_sequence\":null,"
                                 "\"usage\":{" INPUT "\"output_tokens\":4}}");
    put_chunk(&messages->open,
              "event: message_start\ndata: {\"type\":\"message_start\",\"message\":" MESSAGE
              "[],\"stop_reason\":null,\"stop_sequence\":null,"
              "\"usage\":{" INPUT "\"output_tokens\":1}}}\n\n");
    put_chunk(&messages->open,
              "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
              "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
    put_chunk(&messages->open, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    put_chunk(&messages->text,
              "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
              "\"delta\":{\"type\":\"text_delta\",\"text\":\" angel\"}}\n\n");
    put_chunk(&messages->end,
              "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n");
    put_chunk(&messages->end, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":"
                              "{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
                              "\"usage\":{\"output_tokens\":64}}\n\n");
    put_chunk(&messages->end, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    put(&messages->end, "0\r\n\r\n");
#undef MESSAGE
#undef INPUT
}

static void make_flood(struct upstream *up)
{
    char filling[FLOOD_PIECE];

    memset(filling, 'x', sizeof filling);
    memcpy(filling, "data: \"", 7);
    memcpy(filling + FLOOD_PIECE - 16, "\"\n\n", 4);
    up->flood_n =
        (size_t)snprintf(up->flood, sizeof up->flood, "%zx\r\n%s\r\n", strlen(filling), filling);
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

/* True without bytes, too. */
static bool load_upstream_say(struct upstream *up, struct conn *conn, const struct bytes *bytes)
{
    if (bytes->n == 0 || send(conn->fd, bytes->at, bytes->n, MSG_NOSIGNAL) == (ssize_t)bytes->n)
        return true;
    hang_up(up, conn);
    return false;
}

static bool stream(struct upstream *up, struct conn *conn, const struct replies *replies, int texts)
{
    bool there =
        load_upstream_say(up, conn, &replies->head) && load_upstream_say(up, conn, &replies->open);

    for (int i = 0; there && i < texts; i++)
        there = load_upstream_say(up, conn, &replies->text);
    return there;
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

static void reply_later(struct upstream *up, struct conn *conn, const struct bytes *reply)
{
    if (up->last - up->first == SLOW_RING)
        load_die("more than %d replies wait", SLOW_RING);
    up->ring[up->last++ % SLOW_RING] = (struct slow){conn, reply, conn->life, load_now() + SLOW_NS};
}

static bool reply(struct upstream *up, struct conn *conn, const char *body)
{
    static const char MESSAGES[] = "POST /v1/messages ";
    bool chat = strncmp(conn->buffer, MESSAGES, sizeof MESSAGES - 1) != 0;
    const struct replies *replies = chat ? &up->chat : &up->messages;
    const char *model = strstr(body, "\"model\":\"bench");
    const char *kind = model ? model + strlen("\"model\":\"bench") : "";

    if (strncmp(kind, "-slow", 5) == 0) {
        reply_later(up, conn, &replies->whole);
        return true;
    }
    if (strncmp(kind, "-held", 5) == 0)
        return stream(up, conn, replies, 1);
    if (strncmp(kind, "-flood", 6) == 0) {
        if (!load_upstream_say(up, conn, &replies->head))
            return false;
        conn->flood = FLOOD_BYTES;
        flood(up, conn);
        return false;
    }
    if (strstr(body, "\"stream\":true"))
        return stream(up, conn, replies, EVENTS) && load_upstream_say(up, conn, &replies->end);
    return load_upstream_say(up, conn, &replies->whole);
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
            load_upstream_say(up, slow->conn, slow->reply);
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
    make_chat(&up.chat);
    make_messages(&up.messages);
    make_flood(&up);
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
