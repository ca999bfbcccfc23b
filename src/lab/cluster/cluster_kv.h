/* cluster_kv.h - the KV cache of an instance: blocks, who has them, and which prefixes they hold.
 *
 * Blocks are taken from the front of a list of free ones and given back to its end, a request's
 * last block first. A block that holds a full piece of a prompt stays known until it is taken for
 * something else: whoever begins with the same piece takes it as it is. The pieces that can be the
 * same are those of a group's common prefix, and those of one request that was preempted and comes
 * again; so a piece is named by (group or request, index) instead of a hash of its tokens.
 *
 * As in BLIS, a name leads to the block that got it last, and is forgotten when any block of that
 * name is taken for something else.
 */
#ifndef TG_CLUSTER_CLUSTER_KV_H
#define TG_CLUSTER_CLUSTER_KV_H

#include "lab/cluster/cluster_live_internal.h"

#define KV_NONE UINT32_MAX

struct kv_block {
    uint32_t next, previous; /* among the free ones */
    uint32_t owner;          /* owner of its name; KV_NONE: it has no name */
    uint32_t piece;
    uint32_t references;
    bool of_group; /* the owner is a group: `piece` is then its place in `prefixes` */
};

struct kv {
    struct kv_block *blocks; /* the last one is the ends of the list */
    uint32_t n;
    uint32_t n_free;
    uint32_t fresh; /* from here on none was ever used: free, before all in the list, unwritten */
    int32_t block_tokens;
    uint32_t *prefixes;        /* blocks of all groups' prefixes */
    size_t n_prefixes;         /* the same for every instance */
    struct live *const *lives; /* the record of each request; null where there is none */
    uint64_t hits, misses;     /* blocks */
    uint32_t *spare[32];       /* rooms for lists of blocks, by the logarithm of their size */
    void **chunks;             /* what rooms are cut from */
    size_t n_chunks, chunks_capacity;
    uint32_t *chunk;
    size_t chunk_left;
};

/* False: no memory. `lives` is borrowed. */
bool kv_init(struct kv *kv, int64_t n_blocks, int64_t block_tokens, size_t n_prefixes,
             struct live *const *lives);
void kv_fini(struct kv *kv);

/* Room to write down which blocks the request has; only those that run, or did, need it. Does
 * nothing if it has it. False: no memory. */
bool kv_enter(struct kv *kv, struct live *live);

/* Gives back all that it has. */
void kv_leave(struct kv *kv, struct live *live);

/* How many blocks at the front of its prompt are in the cache. */
uint32_t kv_cached(const struct kv *kv, const struct live *live);

/* Blocks for tokens from `start` to before `end`, of the prompt while progress is before its end,
 * else of the output. One that holds nothing yet takes its first `n_cached` from the cache. False:
 * there are not enough, and nothing has changed. */
bool kv_allocate(struct kv *kv, struct live *live, int32_t start, int32_t end, uint32_t n_cached);

/* One more token of the output, where the last block has room for it: what nearly every token
 * needs. False: it has none. */
static inline bool kv_top_up(const struct kv *kv, struct live *live)
{
    if (live->fill == 0 || live->fill == kv->block_tokens)
        return false;
    live->fill++;
    return true;
}

/* Gives back all of them. */
void kv_release(struct kv *kv, struct live *live);

/* Gives back all blocks of a request that will run again. False: no memory. */
bool kv_preempt(struct kv *kv, struct live *live);

static inline uint32_t kv_used(const struct kv *kv)
{
    return kv->n - kv->n_free;
}

#endif
