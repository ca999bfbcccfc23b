/* cluster_kv.c - the KV cache of an instance. See cluster_kv.h. */
#include "lab/cluster/cluster_kv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

/* ---- Rooms for lists of blocks ---------------------------------------------------------------
 *
 * A power of two each, cut from large chunks, and kept by size when they are given back. */

#define SMALLEST_ROOM 3 /* 8 blocks */
#define CHUNK_BLOCKS ((size_t)1 << 16)

static unsigned room_size(size_t n)
{
    unsigned size = SMALLEST_ROOM;

    while ((size_t)1 << size < n)
        size++;
    return size;
}

static bool cluster_kv_add_chunk(struct kv *kv, size_t n)
{
    if (!array_reserve(&kv->chunks, &kv->chunks_capacity, kv->n_chunks + 1))
        return false;
    kv->chunk = malloc(n * sizeof *kv->chunk);
    if (kv->chunk == NULL) {
        kv->chunk_left = 0;
        return false;
    }
    kv->chunks[kv->n_chunks++] = kv->chunk;
    kv->chunk_left = n;
    return true;
}

static uint32_t *get_room(struct kv *kv, unsigned size)
{
    size_t n = (size_t)1 << size;
    uint32_t *room = kv->spare[size];

    if (room != NULL) {
        memcpy(&kv->spare[size], room, sizeof kv->spare[size]);
        return room;
    }
    if (kv->chunk_left < n && !cluster_kv_add_chunk(kv, n > CHUNK_BLOCKS ? n : CHUNK_BLOCKS))
        return NULL;
    room = kv->chunk;
    kv->chunk += n;
    kv->chunk_left -= n;
    return room;
}

static void put_room(struct kv *kv, uint32_t *room, unsigned size)
{
    memcpy(room, &kv->spare[size], sizeof kv->spare[size]);
    kv->spare[size] = room;
}

bool kv_enter(struct kv *kv, struct live *live)
{
    int64_t tokens = (int64_t)live->input + live->output + 1;
    unsigned size = room_size((size_t)(tokens / kv->block_tokens) + 2);

    if (live->blocks != NULL)
        return true;
    assert(size < sizeof kv->spare / sizeof *kv->spare);
    live->blocks = get_room(kv, size);
    live->n_blocks = 0;
    live->fill = 0;
    live->cached = NULL;
    live->capacity = (size_t)1 << size;
    return live->blocks != NULL;
}

void kv_leave(struct kv *kv, struct live *live)
{
    kv_release(kv, live);
    if (live->blocks != NULL)
        put_room(kv, live->blocks, room_size(live->capacity));
    if (live->cached != NULL)
        put_room(kv, live->cached, room_size(live->capacity));
    live->blocks = live->cached = NULL;
}

/* ---- Free blocks ----------------------------------------------------------------------------- */

static void append_free(struct kv *kv, uint32_t id)
{
    struct kv_block *ends = &kv->blocks[kv->n], *block = &kv->blocks[id];

    assert(block->references == 0 && kv->n_free < kv->n && id < kv->fresh);
    block->next = kv->n;
    block->previous = ends->previous;
    kv->blocks[ends->previous].next = id;
    ends->previous = id;
    kv->n_free++;
}

static void remove_free(struct kv *kv, uint32_t id)
{
    struct kv_block *block = &kv->blocks[id];

    assert(kv->n_free > 0);
    assert(kv->blocks[block->previous].next == id && kv->blocks[block->next].previous == id);
    kv->blocks[block->previous].next = block->next;
    kv->blocks[block->next].previous = block->previous;
    kv->n_free--;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void cluster_kv_forget(struct kv *kv, struct kv_block *block)
{
    if (block->owner == KV_NONE)
        return;
    if (block->of_group) {
        assert(block->piece < kv->n_prefixes);
        kv->prefixes[block->piece] = KV_NONE;
    } else {
        const struct live *live = kv->lives[block->owner];
        if (live != NULL && live->cached != NULL)
            live->cached[block->piece] = KV_NONE;
    }
    block->owner = KV_NONE;
}

/* Names a block that holds piece `piece` of the prompt. */
static void name(struct kv *kv, struct live *live, uint32_t id, uint32_t piece)
{
    struct kv_block *block = &kv->blocks[id];

    assert(((int64_t)piece + 1) * kv->block_tokens <= live->input); /* a full piece of a prompt */
    block->owner = live->request;
    block->of_group = piece < live->prefix_blocks;
    block->piece = block->of_group ? live->prefix_at + piece : piece;
    if (block->of_group)
        kv->prefixes[block->piece] = id;
    else if (live->cached != NULL)
        live->cached[piece] = id;
}

static uint32_t known(const struct kv *kv, const struct live *live, uint32_t piece)
{
    if (piece < live->prefix_blocks)
        return kv->prefixes[live->prefix_at + piece];
    return live->cached != NULL ? live->cached[piece] : KV_NONE;
}

uint32_t kv_cached(const struct kv *kv, const struct live *live)
{
    uint32_t n = (uint32_t)(live->input / kv->block_tokens), i = 0;

    if (live->prefix_blocks == 0 && live->cached == NULL)
        return 0;
    while (i < n && known(kv, live, i) != KV_NONE)
        i++;
    return i;
}

/* ---- Allocating ------------------------------------------------------------------------------ */

static bool enough_for_prompt(const struct kv *kv, const struct live *live, int32_t tokens,
                              uint32_t n_cached)
{
    int32_t spare = live->n_blocks > 0 ? kv->block_tokens - live->fill : 0;
    int32_t beyond = tokens > spare ? tokens - spare : 0;
    int64_t needed = ((int64_t)beyond + kv->block_tokens - 1) / kv->block_tokens;

    for (uint32_t i = 0; i < n_cached; i++)
        needed += kv->blocks[known(kv, live, i)].references == 0;
    return needed <= (int64_t)kv->n_free;
}

static void claim_cached(struct kv *kv, struct live *live, uint32_t n_cached)
{
    for (uint32_t i = 0; i < n_cached; i++) {
        uint32_t id = known(kv, live, i);
        assert(id < kv->fresh && live->n_blocks < live->capacity);
        if (kv->blocks[id].references++ == 0)
            remove_free(kv, id);
        live->blocks[live->n_blocks++] = id;
    }
    kv->hits += n_cached;
    if (n_cached > 0)
        live->fill = kv->block_tokens;
}

/* The block that has been free for longest: those that never were used come before all others. */
static uint32_t take_free(struct kv *kv)
{
    uint32_t id = kv->fresh;

    assert(kv->n_free > 0 && kv->fresh <= kv->n);
    if (kv->fresh < kv->n) {
        kv->blocks[kv->fresh++] = (struct kv_block){.owner = KV_NONE};
        kv->n_free--;
        return id;
    }
    id = kv->blocks[kv->n].next;
    assert(id < kv->n && kv->blocks[id].references == 0);
    remove_free(kv, id);
    cluster_kv_forget(kv, &kv->blocks[id]);
    return id;
}

static void add_block(struct kv *kv, struct live *live, int32_t tokens, bool of_prompt)
{
    uint32_t id = take_free(kv), piece = (uint32_t)live->n_blocks;

    assert(tokens > 0 && tokens <= kv->block_tokens && live->n_blocks < live->capacity);
    kv->blocks[id].references = 1;
    kv->misses++;
    live->blocks[live->n_blocks++] = id;
    live->fill = tokens;
    if (of_prompt && tokens == kv->block_tokens)
        name(kv, live, id, piece);
}

/* Tokens into the last block, while it has room. Says how many. */
static int32_t top_up(struct kv *kv, struct live *live, int32_t tokens, bool of_prompt)
{
    int32_t room = live->fill > 0 ? kv->block_tokens - live->fill : 0;
    int32_t taken = tokens < room ? tokens : room;
    size_t last = live->n_blocks - 1;

    assert(room >= 0 && (live->fill == 0) == (live->n_blocks == 0));
    live->fill += taken;
    if (of_prompt && taken > 0 && live->fill == kv->block_tokens)
        name(kv, live, live->blocks[last], (uint32_t)last);
    return taken;
}

bool kv_allocate(struct kv *kv, struct live *live, int32_t start, int32_t end, uint32_t n_cached)
{
    bool of_prompt = live->progress < live->input;
    int32_t tokens = of_prompt ? end - start : 1;

    if (!of_prompt && kv_top_up(kv, live))
        return true;
    if (of_prompt ? !enough_for_prompt(kv, live, tokens, n_cached) : kv->n_free == 0)
        return false;
    /* A prompt that is wholly in the cache costs no computation and claims no block. */
    if (tokens > 0 && live->n_blocks == 0)
        claim_cached(kv, live, n_cached);
    tokens -= top_up(kv, live, tokens, of_prompt);
    while (tokens > 0) {
        int32_t part = tokens < kv->block_tokens ? tokens : kv->block_tokens;
        add_block(kv, live, part, of_prompt);
        tokens -= part;
    }
    return true;
}

void kv_release(struct kv *kv, struct live *live)
{
    while (live->n_blocks > 0) {
        uint32_t id = live->blocks[--live->n_blocks];
        assert(kv->blocks[id].references > 0);
        if (--kv->blocks[id].references == 0)
            append_free(kv, id);
    }
    live->fill = 0;
}

/* What names lead to, as far as the request is concerned: until now, to the blocks it holds. */
static bool keep_names(struct kv *kv, struct live *live)
{
    size_t n = (size_t)(live->input / kv->block_tokens);

    assert(n <= live->capacity);
    live->cached = get_room(kv, room_size(live->capacity));
    if (live->cached == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct kv_block *block = i < live->n_blocks ? &kv->blocks[live->blocks[i]] : NULL;
        bool named =
            block != NULL && block->owner == live->request && !block->of_group && block->piece == i;
        live->cached[i] = named ? live->blocks[i] : KV_NONE;
    }
    return true;
}

bool kv_preempt(struct kv *kv, struct live *live)
{
    if (live->cached == NULL && !keep_names(kv, live))
        return false;
    kv_release(kv, live);
    return true;
}

/* ---- Making one ------------------------------------------------------------------------------ */

bool kv_init(struct kv *kv, int64_t n_blocks, int64_t block_tokens, size_t n_prefixes,
             struct live *const *lives)
{
    assert(n_blocks > 0 && n_blocks < KV_NONE && block_tokens > 0);
    *kv = (struct kv){.n = (uint32_t)n_blocks,
                      .n_free = (uint32_t)n_blocks,
                      .block_tokens = (int32_t)block_tokens,
                      .n_prefixes = n_prefixes,
                      .lives = lives};
    kv->blocks = malloc(((size_t)n_blocks + 1) * sizeof *kv->blocks);
    kv->prefixes = malloc((n_prefixes + 1) * sizeof *kv->prefixes);
    if (kv->blocks == NULL || kv->prefixes == NULL) {
        kv_fini(kv);
        return false;
    }
    for (size_t i = 0; i < n_prefixes; i++)
        kv->prefixes[i] = KV_NONE;
    kv->blocks[kv->n] = (struct kv_block){.next = kv->n, .previous = kv->n, .owner = KV_NONE};
    return true;
}

void kv_fini(struct kv *kv)
{
    for (size_t i = 0; i < kv->n_chunks; i++)
        free(kv->chunks[i]);
    free(kv->chunks);
    free(kv->blocks);
    free(kv->prefixes);
    *kv = (struct kv){0};
}
