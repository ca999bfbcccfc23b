/* redis_internal.h - a client of Redis from inside: its links, and who decides where they lead.
 *
 *     redis.c            asks: written, sent, sent on, answered; up and down
 *     redis_link.c       one connection: asks in flight, health, end
 *     redis_dial.c       how it comes to be: name, address, TLS, greeting
 *     redis_sentinel.c   which server is the master
 *     redis_cluster.c    which servers are masters, and of which slots
 *
 * A link lives as long as its server is wanted, through any number of connections:
 *
 *     WAITING -> RESOLVING -> CONNECTING -> [SHAKING] -> GREETING -> UP
 *        ^------------------------- any of these, on failure -------'
 */
#ifndef TG_REDIS_REDIS_INTERNAL_H
#define TG_REDIS_REDIS_INTERNAL_H

#include "io/net/resolve.h"
#include "io/net/wire.h"
#include "io/redis/redis.h"
#include "io/redis/resp.h"
#include "lib/core/random.h"

#define REDIS_SLOTS 16384
#define REDIS_LINKS_MAX                                                                            \
    128 /* masters of a cluster, nodes to begin with, and those on their way out */
#define REDIS_MASTERS_MAX 64
#define REDIS_TURNS_MAX 5     /* an ask is sent on so often */
#define REDIS_AGAIN_MS 5      /* until an ask that came too early is sent again */
#define REDIS_UNWELL_MS 100   /* between two probes of a server that is unwell */
#define REDIS_FORBIDS_MS 2000 /* a server that forbids us nothing for so long is well again */
#define REDIS_QUEUED_MAX (64u << 20) /* bytes that a connection has not taken */

STAILQ_HEAD(redis_queue, redis_ask);

enum link_state {
    LINK_WAITING, /* for the next try */
    LINK_RESOLVING,
    LINK_CONNECTING,
    LINK_SHAKING,
    LINK_GREETING,
    LINK_UP,
    LINK_ENDED, /* buried */
};

enum link_kind {
    LINK_MASTER,   /* must be one, by ROLE */
    LINK_NODE,     /* a node of a cluster, which says itself who is what */
    LINK_SENTINEL, /* knows no more than a few commands */
};

/* What is sent first, and in this order. */
enum link_step {
    STEP_AUTH,
    STEP_SELECT,
    STEP_NAME,
    STEP_ROLE,
    STEP_CLUSTER,
    STEP_PROBE,
    STEP_COUNT
};

struct redis_link {
    struct net_grave grave;
    struct redis *redis;
    size_t place; /* among the links of the client */
    enum link_kind kind;
    enum link_state state;
    struct redis_host host;
    struct wire wire;
    struct tls_ticket ticket;
    struct resolve_wait resolving;
    struct resolve_answer addresses;
    size_t next_address;
    enum link_step steps[STEP_COUNT];
    size_t n_steps, step;       /* answered */
    struct resp_reader *reader; /* null: not connected */
    struct redis_queue asks;    /* in flight, in the order of their replies */
    size_t in_flight;           /* how many they are */
    size_t n_late;              /* and how many of them are late */
    bool suspect;               /* one was late: until a probe went well */
    bool unwell;                /* the server said so: the same */
    bool cluster_is_down;       /* what `unwell` is about */
    bool plain_probe;           /* it does not understand the good one */
    bool by_text;               /* it takes no EVALSHA: scripts go as text */
    bool forbids;               /* it does not let us do what we must ... */
    tg_ms forbade_at;           /* ... last at this time */
    bool leaving;               /* takes no more, and is closed when it is empty ... */
    bool retired;               /* ... for ever */
    bool wanted;                /* cluster: it has slots */
    struct redis_ask probe;
    struct net_timer timer; /* by the state: next try, time to connect, next look */
    struct net_timer share; /* the time that one address may take */
    unsigned failures;      /* in a row */
    tg_ms up_at, heard_at;
    char text[160]; /* why the last address failed */
};

struct redis_sentinel {
    struct redis_link *link; /* to one of them */
    size_t host;             /* which */
    unsigned doubts;         /* answers in a row that led nowhere */
    struct redis_ask ask;
    struct net_timer timer;
};

struct redis_cluster {
    struct redis_ask ask;
    struct net_timer timer;
    struct redis_link *asked; /* by `ask`, while that is in flight */
    tg_ms asked_at;
    size_t next;                /* whom to ask next */
    size_t without;             /* slots that nobody has */
    bool known;                 /* there is a map */
    uint8_t owner[REDIS_SLOTS]; /* into `links`; LINK_NONE */
};
#define LINK_NONE 255

struct redis {
    struct net_grave grave;
    struct net_loop *loop;
    struct redis_options options;
    struct resolver resolver;
    struct random random;
    struct resp_pool pool;
    struct redis_link *links[REDIS_LINKS_MAX]; /* places may be empty */
    size_t n_links;                            /* places in use */
    struct redis_link *master;                 /* null with a cluster */
    struct redis_sentinel sentinel;
    struct redis_cluster *cluster; /* null: not one */
    struct redis_queue refused;    /* to be answered with null */
    struct net_post refuse;
    struct redis_queue again; /* to be sent again soon */
    struct net_timer again_timer;
    struct net_later tell;
    bool told; /* what `changed` was told last */
    bool freeing;
    void (*changed)(void *context, bool up);
    void *context;
    struct redis_stats stats;
};

/* ---- redis.c */

/* A reply, or none, for an ask that is no longer in flight. */
void redis_take_reply(struct redis_link *link, struct redis_ask *ask,
                      const struct redisReply *reply);
void redis_lose(struct redis *redis, struct redis_ask *ask, enum redis_lost lost);

/* Something that redis_is_up() depends on may have changed. */
void redis_poll(struct redis *redis);
void redis_note_problem(struct redis *redis, const struct redis_host *host, const char *text);

/* Formats a command of our own into the ask. False: no memory. */
bool redis_write_ask(struct redis *redis, struct redis_ask *ask, const struct slice *words,
                     size_t n);

/* ---- redis_link.c */

/* Null: no memory, or too many. It begins to connect. */
struct redis_link *link_new(struct redis *redis, enum link_kind kind,
                            const struct redis_host *host);
struct redis_link *link_find(struct redis *redis, const char *name, int port);

/* Answers everything with null, and is gone. */
void link_end(struct redis_link *link);

/* Takes no more; ends when everything is answered. */
void link_retire(struct redis_link *link);

/* Closes, answers everything with null, and tries again later. */
void link_fail(struct redis_link *link, const char *text);

bool link_answers(const struct redis_link *link);  /* be it to say that it is unwell */
bool link_is_ready(const struct redis_link *link); /* for asks of owners */
bool link_has_room(const struct redis_link *link);

/* Sends the command of an ask, with ASKING before it if it says so. */
void link_send(struct redis_link *link, struct redis_ask *ask);
void link_ask_is_late(struct redis_link *link, struct redis_ask *ask);

/* The server is unwell. */
void link_be_unwell(struct redis_link *link, bool cluster_is_down, const char *text);

/* It does not let us do what an owner asked for. Others are sent all the same, for they may be
 * allowed; but for a while the server is reported as down. */
void link_forbids(struct redis_link *link, const char *text);

/* The server is not, or no longer, what we need: connect anew when it is empty. */
void link_leave(struct redis_link *link, const char *text);

/* It has become a replica. One of a cluster may become a master again, and knows the map anyway. */
void link_be_readonly(struct redis_link *link, const char *text);

/* From redis_dial.c: it has greeted; and bytes that are for asks. */
void link_is_up(struct redis_link *link);
extern const struct wire_ops redis_wire_ops;

/* ---- redis_dial.c */

void link_dial(void *link);
void link_dial_stop(struct redis_link *link);
void link_dial_up(struct redis_link *link); /* the wire is up */
void link_dial_broke(struct redis_link *link, enum wire_fault, const char *text); /* it broke */
void link_greet_reply(struct redis_link *link, const struct redisReply *reply);

/* ---- The script that is refused where a write would be. */

extern const struct slice redis_probe_text;

/* ---- redis_sentinel.c */

bool redis_sentinel_begin(struct redis *redis); /* false: no memory */
void redis_sentinel_fini(struct redis *redis);
void redis_sentinel_link_up(struct redis *redis);   /* to the sentinel */
void redis_sentinel_link_down(struct redis *redis); /* the same: another one is tried */
void redis_sentinel_hurry(struct redis *redis);     /* the master is not one, or is gone */

/* ---- redis_cluster.c */

bool redis_cluster_begin(struct redis *redis); /* false: no memory */
void redis_cluster_free(struct redis *redis);
struct redis_link *redis_cluster_link(const struct redis *redis, int slot);
bool redis_cluster_is_whole(const struct redis *redis);
void redis_cluster_link_up(struct redis_link *link);
void redis_cluster_link_gone(struct redis *redis, size_t place);
void redis_cluster_hurry(struct redis *redis);
void redis_cluster_lost_slot(struct redis *redis, int slot);

/* Follows a MOVED or an ASK; null: it leads nowhere. */
struct redis_link *redis_cluster_follow(struct redis *redis, struct redis_link *from,
                                        const struct redisReply *reply, bool moved);

#endif
