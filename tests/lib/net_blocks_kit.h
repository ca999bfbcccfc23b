/* net_blocks_kit.h - a world of nodes that lease blocks of units, for tests of remote_blocks.
 *
 * Nodes are objects in this process, Redis is real, and time is the test's own: so windows and
 * minutes pass in no time, each node's clock may be off, and answers may be as slow as we like.
 * Every admitted call is written down with the true moment of its admission. There is one world at
 * a time, `world`, and one server.
 */
#ifndef NET_BLOCKS_KIT_H
#define NET_BLOCKS_KIT_H

#include "draw.h"
#include "net_remote_kit.h"
#include "server/remote_store/remote_blocks.h"

#define BEGIN INT64_C(1700000000000)

enum { NODES = 4, LOG = 400000, CALLS = 4096 };

struct call {
    struct world *world;
    struct node *node;
    struct remote_blocks_ask *ask; /* null: decided, or not in use */
    int64_t cost;
    bool in_use, allowed;
    bool strict;   /* and waits */
    size_t logged; /* where, if it was admitted */
    enum tg_err err;
    struct tg_axes axes;
    struct remote_blocks_charge charge;
};

struct node {
    struct world *world;
    struct remote_kit kit;
    struct remote_limits *limits;
    struct remote_blocks *blocks;
    tg_ms skew;
};

struct admission {
    tg_ms at;
    int64_t units;
};

struct world {
    struct draw draw;
    struct net_loop *loop;
    tg_ms now;
    tg_ms there; /* Redis' clock, as the last command found it */
    tg_ms slow;  /* a command may take so long to get there, and so long back */
    struct node nodes[NODES];
    size_t n;
    tg_ms block; /* the first, if not the usual */
    struct tg_limit limits[TG_LIMITS_MAX];
    size_t n_limits;
    enum tg_charging charging;
    struct call calls[CALLS];
    struct admission log[LOG];
    size_t n_log;
    size_t decided, refused, failed;
    struct remote_blocks_stats dead; /* sums over nodes that died */
};

extern struct world world;

/* Set-up and tear-down of a group of tests. */
int world_start_server(void **state);
int world_stop_server(void **state);
struct net_redis *world_server(void);

/* So many nodes, an empty server; limits are to be added. Streams of chance differ by number. */
void world_open(size_t n, uint64_t stream);
void world_add_limit(const char *spec, enum tg_axis axis, enum tg_mode mode);
void world_close(void);

/* Like a process that is killed: nothing is given back, and calls that wait are forgotten. Then
 * another comes in its place. */
void world_die(struct node *node);

/* This node's clock. */
tg_ms world_here(void *context);

/* All limits, under one scope. Good until the next one is made. */
struct remote_debit world_debit(int64_t cost);

void world_take(struct node *node, struct call *call, int64_t cost);

/* By a node of the first tier: Redis decides, on the same states. */
void world_take_strictly(struct node *node, struct call *call, int64_t cost);

/* What was not used is taken out of the log. */
void world_settle(struct call *call, int64_t actual);
void world_refund(struct call *call);
struct call *world_free_call(void);

/* Answers arrive, after Redis has given them. */
void world_calm(void);

/* Time passes, in one step; all nodes tick. */
void world_pass(tg_ms ms);

struct remote_blocks_stats world_stats(void);

#endif
