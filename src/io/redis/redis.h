/* redis.h - one worker's way to Redis: commands go out pipelined, each is answered once.
 *
 *     redis_options_init(&options); redis_url_read("rediss://user:pw@host:6379/0", &options, ...)
 *     redis_new(loop, &options, &redis, &problem)
 *     redis_ask_init(&ask, answered, late)
 *     redis_eval(redis, &ask, &script, keys, n_keys, args, n_args)
 *
 * A client belongs to one loop and its thread, and holds one connection to each server it needs:
 * the one of a URL, the master that Sentinel names, or the masters of a cluster by the slot of a
 * command's keys. hiredis parses, nothing else: connections, TLS and time are ours.
 *
 * Every ask is answered exactly once, by answered(), never from inside redis_eval(): with the reply
 * of the server, or with null when there will be none (no connection, it broke, the server was not
 * found). Before that, at most once, late() comes when the time limit has passed: whoever waits
 * should continue without the store. The ask itself stays in flight until its reply comes or its
 * connection ends, so that a yes that comes too late can be refunded. A connection that owes a
 * reply for longer than `patience` is closed.
 *
 * While a server is not to be had, asks are answered with null at the next turn of the loop,
 * without any wait; the client tries to connect again by itself, with growing pauses. "To be had"
 * is more than connected. A connection is down for new asks
 *
 *     until it has greeted        AUTH, SELECT, a master by ROLE, and a probe that went well
 *     while it is suspected       one ask is late: until that is answered, and a probe after it
 *     while the server is unwell  it answered LOADING, MASTERDOWN, OOM, MISCONF, NOREPLICAS, BUSY,
 *                                 or that the cluster is down: until a probe goes well
 *     while it empties            it answered READONLY or NOAUTH: connected to anew, the master
 *                                 looked for again
 *
 * The probe is a script that writes nothing but is refused where a write would be. An idle
 * connection is probed every `health`, so that a server that has stopped is known before it is
 * needed.
 *
 * Errors of the server are replies, given to the owner: these as well, each for the ask that it
 * answers. Never seen by the owner, unless five turns did not help: NOSCRIPT (the text is sent),
 * MOVED and ASK (followed), TRYAGAIN (sent again after some ms). Of these, what is late by then is
 * not sent on but answered with null, REDIS_AWAY: it was not done, and nobody waits for it.
 */
#ifndef TG_REDIS_REDIS_H
#define TG_REDIS_REDIS_H

#include <sys/queue.h>

#include "io/net/loop.h"
#include "io/text/slice.h"
#include "tollgate.h"

struct redis;
struct redisReply; /* hiredis' type; see redis_reply_*() */
struct tls_context;

enum redis_kind { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER };

#define REDIS_HOSTS_MAX 16

struct redis_host {
    char name[256]; /* without brackets; or "unix:PATH" */
    int port;
};

struct redis_options {
    enum redis_kind kind;
    struct redis_host hosts[REDIS_HOSTS_MAX]; /* the server; or sentinels, or nodes to begin with */
    size_t n_hosts;
    char master[256];        /* Sentinel: the name of the master */
    char user[256];          /* "": none, the default user */
    char password[512];      /* "": no AUTH; wiped by redis_options_wipe() */
    char sentinels[512];     /* the password of sentinels; "": the same; wiped, too */
    int db;                  /* SELECT; 0 with a cluster */
    bool secure;             /* rediss: TLS */
    struct tls_context *tls; /* a reference is taken; needed if secure */
    tg_ms timeout;           /* until late() of a command; default 25 */
    tg_ms doubt;             /* a connection is in doubt if it has said nothing for so long when an
                                ask is late; default 0: it is in any case */
    tg_ms patience;          /* until a connection that owes replies is closed; default 2000 */
    tg_ms connect;           /* name, connection, TLS, AUTH together; default 1000 */
    tg_ms backoff_min;       /* between two tries to connect; doubles, with jitter; default 50 */
    tg_ms backoff_max;       /* default 2000 */
    tg_ms health;            /* an idle connection is probed so often; default 1000 */
    size_t in_flight_max; /* commands of a connection; beyond: answered with null; default 10000 */
    uint64_t seed;        /* for jitter */
};

void redis_options_init(struct redis_options *options);
void redis_options_wipe(struct redis_options *options);

/* "redis://[user:password@]host:port[/db]", "rediss://...", "redis+cluster://[..@]host:port,...",
 * "redis+sentinel://[..@]name[:password of the sentinels]@host:port,...[/db]", and the two with
 * "rediss+"; or "redis+unix://[..@]/path". Without a port: 6379, and 26379 of sentinels.
 * Percent-escapes in user, passwords and name are undone. `problem` says what is wrong without
 * repeating a password. */
TG_MUST_CHECK enum tg_err redis_url_read(const char *url, struct redis_options *options,
                                         struct tg_problem *problem);

/* Begins to connect. The options are copied. TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err redis_new(struct net_loop *loop, const struct redis_options *options,
                                    struct redis **redis, struct tg_problem *problem);

/* Asks that are in flight are answered with null from inside this call. Null is allowed. Not from
 * inside answered(), late() or changed(). */
void redis_free(struct redis *redis);

/* ---- Asking ---------------------------------------------------------------------------------- */

enum redis_lost {
    REDIS_ANSWERED,
    REDIS_AWAY,  /* there was no connection: it was never sent */
    REDIS_BROKE, /* it was sent, or a part of it: nobody knows whether it was done */
    REDIS_FULL,  /* too many are in flight already: it was never sent */
};

struct redis_link;

/* In its owner's storage until answered() has been called; the owner's members are around it. */
struct redis_ask {
    /* `reply` is good until this returns; null: see `lost`. The ask is the owner's again. */
    void (*answered)(struct redis_ask *ask, const struct redisReply *reply);
    void (*late)(struct redis_ask *ask); /* may be null */
    enum redis_lost lost;
    tg_ms sent_at; /* loop's time */
    bool is_late;  /* late() has been called */

    /* Private from here on. */
    bool is_pending; /* asked, and not answered yet */
    bool ours;       /* not an owner's: a probe, a question about the cluster */
    bool asking;     /* sent with ASKING before it, whose reply is skipped */
    bool text;       /* the script was sent as text */
    bool spared;     /* its time limit was extended, once */
    uint8_t skip;    /* replies to others that come before its own */
    uint8_t turns;   /* how often it was sent on */
    int slot;        /* the slot of its keys; -1: any server will do */
    tg_ms queued_at; /* on the connection where it is */
    STAILQ_ENTRY(redis_ask) queue;
    struct redis *redis;
    struct redis_link *link; /* null: not in flight */
    struct net_timer timer;
    const struct redis_script *script; /* null: not one */
    char *command;                     /* kept to be sent again after NOSCRIPT, MOVED and ASK */
    size_t command_bytes;
};

void redis_ask_init(struct redis_ask *ask,
                    void (*answered)(struct redis_ask *ask, const struct redisReply *reply),
                    void (*late)(struct redis_ask *ask));

/* A script that is embedded at build time (tools/embed-lua); Redis knows it by the same SHA-1. */
struct redis_script {
    const char *name;
    struct slice text;
    char sha1[41];
};

/* EVALSHA; a server that does not know the script is sent the text (EVAL), which it then knows.
 * SCRIPT is never used. All keys are of one slot. Numbers are given as text. */
void redis_eval(struct redis *redis, struct redis_ask *ask, const struct redis_script *script,
                const struct slice *keys, size_t n_keys, const struct slice *args, size_t n_args);

/* Any other command; `words[key]` decides the slot; key 0: any server. */
void redis_command(struct redis *redis, struct redis_ask *ask, const struct slice *words, size_t n,
                   size_t key);

/* The time limit of asks from now on. */
void redis_set_timeout(struct redis *redis, tg_ms timeout);

/* The loop that the client belongs to; and whether redis_free() is at work. */
struct net_loop *redis_loop(const struct redis *redis);
bool redis_is_freeing(const struct redis *redis);

/* ---- Looking --------------------------------------------------------------------------------- */

/* Whether a command on `key` would be sent now. Null: whether any command would be; of a cluster:
 * every slot has its master, and every one of these is up; and no server has forbidden us anything
 * in the last two seconds. */
bool redis_is_up(const struct redis *redis, const struct slice *key);

struct redis_stats {
    uint64_t commands; /* sent for owners, at least once */
    uint64_t replies;  /* given to owners; `errors` are some of them */
    uint64_t errors;
    uint64_t late;       /* replies that came too late, or never */
    uint64_t away, full; /* never sent */
    uint64_t broken;     /* sent, and without an answer for ever */
    uint64_t connects;   /* connections that greeted */
    uint64_t failed;     /* connections that broke, or could not be made */
    uint64_t moved;      /* MOVED and ASK that were followed */
    uint64_t asked_text; /* scripts sent as text */
    size_t in_flight, links_up, links;
    tg_ms down_since;  /* 0: it is up; of all links together */
    char problem[240]; /* the last; "" if none. No secrets */
};

void redis_get_stats(const struct redis *redis, struct redis_stats *stats);

/* Told of each change of redis_is_up(redis, NULL), from the loop; one at a time; null: nobody. */
void redis_on_change(struct redis *redis, void (*changed)(void *context, bool up), void *context);

/* ---- Replies --------------------------------------------------------------------------------- */

bool redis_reply_is_error(const struct redisReply *reply); /* or null */
size_t redis_reply_n(const struct redisReply *reply);      /* elements of an array; else 0 */
const struct redisReply *redis_reply_at(const struct redisReply *reply, size_t i);
int64_t redis_reply_integer(const struct redisReply *reply, int64_t otherwise);
struct slice redis_reply_text(const struct redisReply *reply); /* string, status or error */
int64_t redis_reply_number(const struct redisReply *reply);    /* a text of digits; 0: it is none */

/* The slot of a key, by its hash tag; 0 to 16383. */
unsigned redis_slot(struct slice key);

#endif
