/* mock_internal.h - what the parts of the running mock share: the whole, a worker, an exchange.
 *
 *     READING -> WAITING -> SENDING -> gone
 *                   |          '-----> HUNG -> gone       the client leaves
 *                   '----------------> HUNG
 *
 * A worker has a thread, a loop and a listener. It shares with the others the script, which does
 * not change, the records and the quota, which have a lock each.
 */
#ifndef TG_MOCK_MOCK_INTERNAL_H
#define TG_MOCK_MOCK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "lab/mock/mock.h"
#include "lab/mock/mock_ask.h"
#include "lab/mock/mock_out.h"
#include "lab/mock/mock_quota.h"
#include "lab/mock/mock_records.h"
#include "lab/mock/mock_reply.h"
#include "lab/mock/mock_script.h"

#define MOCK_BODY_MAX ((size_t)64 << 20)
#define MOCK_OUTPUT_HIGH ((size_t)256 << 10) /* bytes that wait; then events wait too */

struct mock_worker;

enum mock_stage {
    MOCK_READING,
    MOCK_WAITING, /* before the first byte of the reply */
    MOCK_SENDING,
    MOCK_BREAKING, /* what was sent gets a moment before the connection breaks */
    MOCK_HUNG,
    MOCK_ENDED, /* the reply is complete, or cut as it was told */
};

struct mock_exchange {
    SLIST_ENTRY(mock_exchange) next; /* among the worker's spare ones */
    struct mock_worker *worker;
    struct http_inbound *in;
    enum mock_stage stage;
    uint64_t number; /* counts all requests, from 1 */
    unsigned age;    /* age of the records when it began */
    bool control;    /* the path is the mock's own */
    bool too_large;

    /* the request */
    struct mock_ask ask;
    struct slice path, key;
    char *body; /* JSON_PADDING bytes longer than its capacity */
    size_t body_bytes, body_capacity;
    bool body_done;
    const char *problem; /* what is wrong with the body; null: nothing */

    /* what is done with it */
    struct mock_script *script;
    size_t rule, next_rule;
    const struct mock_action *action;
    int refused; /* the status of a refusal by key or quota, before any rule; 0: none */
    struct mock_quota_answer quota;

    /* the reply */
    struct mock_reply reply;
    struct mock_out out;
    struct net_timer timer;
    int status; /* 0: none yet */
    int64_t event, sent_bytes;
    bool faulted;
    tg_ms begun_at, first_byte_at, pace_at;
};

struct mock_worker {
    struct mock *mock;
    struct net_loop *loop;
    struct http_listener *listener;
    struct json_reader *reader;
    struct json_writer line;           /* a record being written */
    struct text_out scratch;           /* a body or an event being written */
    struct text_out padding;           /* the value of headers that only take room */
    SLIST_HEAD(, mock_exchange) spare; /* exchanges to be used again */
    pthread_t thread;
    bool running;
};

struct mock {
    struct mock_options options;
    struct clock clock;
    tg_ms started_at;
    _Atomic(struct mock_script *) script;
    pthread_mutex_t scripts_lock;
    struct mock_scripts *scripts; /* all there were: exchanges may still use them */
    struct mock_records records;
    struct mock_quota quota;
    struct mock_auth auth;
    struct mock_worker *workers;
    int port;
};

extern const struct http_server_ops mock_server_ops;

/* The request is known as far as it has to be: decides what is replied, and when. */
void mock_play(struct mock_exchange *x);
void mock_play_room(struct mock_exchange *x);
void mock_play_timer(void *arg);
void mock_play_drained(void *arg);

/* The reply begins. length -1: not known. */
void mock_send_head(struct mock_exchange *x, int status, const char *type, int64_t length);

/* Answers a path of the mock's own. */
void mock_control(struct mock_exchange *x);

/* From now on; the mock's. False: no memory, and the script is the caller's. */
bool mock_set_script(struct mock *mock, struct mock_script *script);

/* How the exchange went, as one line of JSON without its end. */
struct slice mock_describe(struct mock_exchange *x, enum http_why why);

void mock_exchange_free(struct mock_exchange *x);

#endif
