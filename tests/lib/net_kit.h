/* net_kit.h - what tests of the network stand on: a loop that is driven until something is so, a
 * server and a client that write down what they are told, and plain sockets for the other side.
 *
 * Nothing sleeps: between two looks the kit waits for the next event of the loop or of a socket.
 * What never becomes so fails the test after a while, whose length is no part of any promise.
 */
#ifndef NET_KIT_H
#define NET_KIT_H

#include "check.h"
#include "io/http/http_client.h"
#include "io/http/http_server.h"
#include "io/net/tls.h"

#define KIT_MAX 4096

struct kit;

/* What a server's exchange was told. */
struct kit_in {
    struct kit *kit;
    struct http_inbound *in; /* null after gone */
    char line[256];          /* "POST /path" */
    char *body;
    size_t body_n;
    bool ended, gone;
    enum http_why why;
    int rooms;
    uint64_t connection;
    uint32_t reset_code; /* at gone */
    char trailers[256];  /* "name: value\n" each */
};

/* What a client's exchange was told. */
struct kit_out {
    struct kit *kit;
    struct http_outbound *out; /* null after the last */
    const struct http_head *head;
    int status;
    int64_t length;
    char type[64]; /* content-type */
    char *body;
    size_t body_n;
    bool ended, failed, sent, reused;
    enum http_why why;
    char text[200];
    int rooms;
    bool was_reset;
    uint32_t reset_code;
    char trailers[256]; /* "name: value\n" each */
};

/* A plain socket, whose other side is under test. */
struct kit_raw {
    int fd;
    char *got;
    size_t n;
    bool eof, reset;
    bool stuck; /* does not read */
};

struct kit {
    struct clock clock;
    struct net_loop *loop;
    struct http_listener *listener;
    struct http_census census;
    struct http_listen_options options;
    struct http_client_options client_options;
    struct http_client *client;
    int port;
    struct kit_in *ins;
    size_t n_ins;
    size_t n_closed;      /* connections that closed() told of */
    uint64_t last_closed; /* which was the last */
    bool trusts_all;      /* every address is a proxy's */
    int keep;             /* how often an idle connection is to stay when it is asked for */
    struct kit_raw *raws[128];
    size_t n_raws;
    /* What the server does; null: nothing. */
    void (*on_begin)(struct kit_in *in);
    void (*on_data)(struct kit_in *in, struct slice bytes);
    void (*on_end)(struct kit_in *in);
    void (*on_room)(struct kit_in *in);
    /* And the client's owner. */
    void (*on_head)(struct kit_out *out);
    void (*on_reply)(struct kit_out *out, struct slice bytes);
    void (*on_out_room)(struct kit_out *out);
    void *arg;
    int listening; /* a test's own listening socket on which a peer is expected; -1: none */
    int idle;      /* ms in which nothing happened */
};

void kit_init(struct kit *kit); /* options may be changed before kit_listen() and kit_client() */
void kit_listen(struct kit *kit);
void kit_client(struct kit *kit);
void kit_fini(struct kit *kit);

/* Drives everything until `so`; fails the test if that never comes. */
#define kit_until(kit, so)                                                                         \
    do {                                                                                           \
        for (int kit_rounds = 0; !(so); kit_rounds++)                                              \
            kit_step(kit, kit_rounds, #so, __FILE__, __LINE__);                                    \
    } while (0)
void kit_step(struct kit *kit, int round, const char *what, const char *file, int line);

/* Lets everything that can happen without waiting happen. */
void kit_calm(struct kit *kit);

/* Replies that handlers use. */
void kit_reply(struct kit_in *in, int status, const char *body);
void kit_echo(struct kit_in *in);         /* on_end: 200 with the request's body */
void kit_echo_chunked(struct kit_in *in); /* the same without a length */

/* ---- Plain sockets */

struct kit_raw *kit_connect(struct kit *kit);                  /* to the kit's listener */
struct kit_raw *kit_connect_from(struct kit *kit, int number); /* from 127.0.0.number */
int kit_raw_listen(int *port); /* a listening socket of the test's own */
struct kit_raw *kit_raw_accept(struct kit *kit, int listening); /* drives until somebody comes */
void kit_put(struct kit *kit, struct kit_raw *raw, const char *text);
void kit_put_bytes(struct kit *kit, struct kit_raw *raw, const char *bytes, size_t n);
void kit_hang_up(struct kit_raw *raw);                     /* close */
void kit_reset(struct kit_raw *raw);                       /* close, with RST */
bool kit_got(const struct kit_raw *raw, const char *text); /* somewhere in what arrived */
size_t kit_count(const struct kit_raw *raw, const char *text);
void kit_forget(struct kit_raw *raw); /* what arrived */

/* ---- Requests */

struct http_origin *kit_origin(int port, struct tls_context *tls, const char *name);
struct http_origin *kit_origin_http2(int port, struct tls_context *tls, const char *name,
                                     enum http2_use use);
void kit_send(struct kit *kit, struct kit_out *out, struct http_origin *origin, const char *method,
              const char *target, int64_t length);
void kit_send_within(struct kit *kit, struct kit_out *out, struct http_origin *origin,
                     const char *method, const char *target, int64_t length,
                     const struct http_timeouts *timeouts);
void kit_out_fini(struct kit_out *out);
bool kit_over(const struct kit_out *out);

/* Drive until it is over: with its whole reply, or failed for this reason. */
#define kit_expect_reply(out)                                                                      \
    do {                                                                                           \
        kit_until((out)->kit, kit_over(out));                                                      \
        assert_true((out)->ended);                                                                 \
    } while (0)
#define kit_expect_failure(out, because)                                                           \
    do {                                                                                           \
        kit_until((out)->kit, kit_over(out));                                                      \
        assert_int_equal((out)->why, because);                                                     \
    } while (0)

/* Whether this machine knows `localhost` as an address of IPv4: a bare one has no hosts file. */
bool net_knows_localhost(void);

#endif
