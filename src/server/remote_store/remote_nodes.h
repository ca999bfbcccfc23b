/* remote_nodes.h - which nodes there are: each says so in Redis once a second.
 *
 *     <prefix>:node:{nodes}     a sorted set: node id, when it is gone unless it beats again
 *
 * A node that has not been heard of for `ttl` does not count, whatever became of it. The number is
 * what a node's share of a limit is divided by when Redis cannot be asked, and how much of a
 * limit a node should lease at a time. While Redis is away the last known number stands: it is the
 * best guess, and shares that grew because nobody can be heard would all grow at once.
 *
 * One for each process, on any of its loops. remote_nodes_count() and remote_nodes_index() may be
 * called by any thread, everything else by the loop's.
 */
#ifndef TG_REMOTE_STORE_REMOTE_NODES_H
#define TG_REMOTE_STORE_REMOTE_NODES_H

#include "io/redis/redis.h"

struct remote_nodes;

/* The number of nodes, or this one's index, is another. From the loop. */
typedef void remote_nodes_changed(void *context, size_t count, size_t index);

struct remote_nodes_options {
    struct net_loop *loop; /* borrowed, and so is the next */
    struct redis *redis;
    const char *prefix;            /* "tg"; copied */
    const char *node;              /* the id of this node, not used by any other; copied */
    tg_ms every;                   /* between two beats; default 1000 */
    tg_ms ttl;                     /* without a beat it is gone; default 5000 */
    remote_nodes_changed *changed; /* may be null */
    /* Redis does not know this node any more, which beat before: it has lost its data, or this
     * node was not heard for `ttl`. May be null. */
    void (*forgotten)(void *context);
    void *context;
};

void remote_nodes_options_init(struct remote_nodes_options *options);

/* Beats at once, and then by itself. TG_ERR_MEMORY. TG_ERR_INVALID: no node id. */
TG_MUST_CHECK enum tg_err remote_nodes_new(const struct remote_nodes_options *options,
                                           struct remote_nodes **nodes);

/* A beat stays in flight until its client is freed: free that first. */
void remote_nodes_free(struct remote_nodes *nodes);

/* On a clean shutdown: no more beats, and the others know at once. `left` (may be null) is called
 * from the loop when Redis has answered, or cannot. */
void remote_nodes_leave(struct remote_nodes *nodes, void (*left)(void *context), void *context);

/* Live nodes, this one included: 1 at least, and until Redis has first answered. */
size_t remote_nodes_count(const struct remote_nodes *nodes);

/* The index of this node among them, in the order of ids. */
size_t remote_nodes_index(const struct remote_nodes *nodes);

/* Redis' clock less the loop's, as the last beat found it: it is between these. False: unknown. */
bool remote_nodes_offset(const struct remote_nodes *nodes, tg_ms *least, tg_ms *most);

#endif
