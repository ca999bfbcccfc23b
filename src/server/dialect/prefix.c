/* prefix.c - what a provider has counted of the messages of a call before.
 *
 * Bytes are hashed in blocks by NH, the universal hash of UMAC (Black, Halevi, Krawczyk, Krovetz,
 * Rogaway, 1999), in words of 64 bits:
 *
 *     NH(m) = sum of (m[2i] + k[2i]) * (m[2i+1] + k[2i+1])    mod 2^128
 *
 * and the sums, with lengths, by SipHash. Two different blocks of one length collide with a chance
 * of 2^-64 over the keys, whoever chose them; the keys are random and never leave this process. NH
 * alone is fast (half a byte of SipHash's time), SipHash alone would cost three times what reading
 * the body does. Rejected: XXH3 with a secret, as fast, but nobody has shown that it resists those
 * who look for collisions, and one collision buys a prompt of any length for the price of another.
 *
 * A table has sets of 8 entries; in a set the oldest gives way.
 */
#include "server/dialect/prefix.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include <sys/random.h>

#include "io/text/siphash.h"
#include "lib/core/num.h"

__extension__ typedef unsigned __int128 wide;

#define NH_WORDS 256 /* a block has 2 KiB */
#define NH_BYTES (NH_WORDS * sizeof(uint64_t))

#define SET_ENTRIES 8
#define TABLE_SETS (PREFIX_TENANT_ENTRIES / SET_ENTRIES)

struct entry {
    uint64_t key; /* 0: free */
    int64_t tokens;
    tg_ms at; /* when they were reported */
};

struct table {
    uint64_t tenant; /* 0: nobody's */
    tg_ms used_at;
    struct entry entries[TABLE_SETS][SET_ENTRIES];
};

struct prefix_memory {
    uint64_t nh_key[NH_WORDS];
    uint8_t key[SIPHASH_KEY];
    pthread_mutex_t lock; /* guards the tables, and nothing above it */
    size_t n_tables;
    struct table tables[];
};

/* ---- The hash -------------------------------------------------------------------------------- */

/* A hash of all that has been added to it. */
struct digest {
    uint8_t tag[SIPHASH_TAG];
};

static uint64_t key_of(const uint8_t tag[SIPHASH_TAG])
{
    uint64_t key;

    memcpy(&key, tag, sizeof key);
    return key != 0 ? key : 1;
}

/* Up to NH_BYTES; what is missing of the last 16 is 0. */
static wide nh(const struct prefix_memory *memory, const char *bytes, size_t n)
{
    wide result = 0;
    uint64_t pair[2];

    assert(n <= NH_BYTES);
    for (size_t i = 0; i < n; i += sizeof pair) {
        size_t left = n - i;
        const uint64_t *key = memory->nh_key + i / sizeof(uint64_t);
        if (left < sizeof pair)
            memset(pair, 0, sizeof pair);
        memcpy(pair, bytes + i, left < sizeof pair ? left : sizeof pair);
        result += (wide)(pair[0] + key[0]) * (pair[1] + key[1]);
    }
    return result;
}

static void digest_block(const struct prefix_memory *memory, struct digest *digest,
                         const char *bytes, size_t n)
{
    struct {
        uint8_t tag[SIPHASH_TAG];
        wide sum;
        uint64_t n;
        uint64_t padding;
    } block = {.n = n, .padding = 0};

    memcpy(block.tag, digest->tag, sizeof block.tag);
    block.sum = nh(memory, bytes, n);
    siphash(memory->key, &block, sizeof block, digest->tag);
}

/* Whole blocks and the rest: texts of different lengths never have the same last block. */
static void digest_bytes(const struct prefix_memory *memory, struct digest *digest,
                         const char *bytes, size_t n)
{
    for (; n >= NH_BYTES; n -= NH_BYTES, bytes += NH_BYTES)
        digest_block(memory, digest, bytes, NH_BYTES);
    digest_block(memory, digest, bytes, n);
}

/* The fields that the prompt depends on beside the messages. */
static struct digest digest_of_frames(const struct prefix_memory *memory, const char *body,
                                      const struct ask *ask)
{
    struct digest digest = {{0}};
    uint64_t head[2] = {(uint64_t)ask->endpoint, ask->n_frames};

    digest_bytes(memory, &digest, (const char *)head, sizeof head);
    for (size_t i = 0; i < ask->n_frames; i++) {
        const struct ask_frame *frame = &ask->frames[i];
        head[0] = frame->field;
        head[1] = frame->n;
        digest_bytes(memory, &digest, (const char *)head, sizeof head);
        digest_bytes(memory, &digest, body + frame->at, frame->n);
    }
    return digest;
}

/* The digest of whole blocks of messages up to a point that moves on. */
struct progress {
    struct digest blocks;
    size_t at; /* behind them */
};

static struct digest digest_until(const struct prefix_memory *memory, struct progress *progress,
                                  const char *body, size_t end)
{
    assert(end >= progress->at);
    for (; end - progress->at >= NH_BYTES; progress->at += NH_BYTES)
        digest_block(memory, &progress->blocks, body + progress->at, NH_BYTES);
    struct digest digest = progress->blocks;
    digest_block(memory, &digest, body + progress->at, end - progress->at);
    return digest;
}

/* The key of a prefix for a tenant at a model. */
static uint64_t key_for(const struct prefix_memory *memory, const struct prefix_who *who,
                        struct digest digest)
{
    const struct slice parts[] = {who->tenant, who->provider, who->model, who->extra};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        digest_bytes(memory, &digest, parts[i].at, parts[i].n);
    return key_of(digest.tag);
}

/* The key of a response for a tenant at a model. It has another length than the digests of prompts
 * begin with. */
static uint64_t key_of_response(const struct prefix_memory *memory, const struct prefix_who *who,
                                struct slice id)
{
    struct digest digest = {{0}};

    digest_bytes(memory, &digest, "response", sizeof "response" - 1);
    digest_bytes(memory, &digest, id.at, id.n);
    return key_for(memory, who, digest);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static uint64_t tenant_key(const struct prefix_memory *memory, struct slice tenant)
{
    uint8_t tag[SIPHASH_TAG];

    siphash(memory->key, tenant.at, tenant.n, tag);
    return key_of(tag);
}

/* A tenant's table. Where it has none and `fresh`, one that nobody has used for long enough. Some
 * hundred comparisons at the most: only long bodies come here. Under the lock. */
static struct table *table_of(struct prefix_memory *memory, uint64_t tenant, bool fresh, tg_ms now)
{
    struct table *idle = NULL;

    for (size_t i = 0; i < memory->n_tables; i++) {
        struct table *table = &memory->tables[i];
        if (table->tenant == tenant)
            return table;
        if (table->tenant == 0 || now - table->used_at > PREFIX_KEPT_MS)
            if (idle == NULL || (idle->tenant != 0 && table->tenant == 0))
                idle = table;
    }
    if (fresh && idle != NULL) {
        memset(idle, 0, sizeof *idle);
        idle->tenant = tenant;
        return idle;
    }
    return NULL;
}

static int64_t look_up(const struct table *table, uint64_t key, tg_ms now)
{
    const struct entry *set = table->entries[key % TABLE_SETS];

    for (size_t i = 0; i < SET_ENTRIES; i++)
        if (set[i].key == key && now - set[i].at <= PREFIX_KEPT_MS)
            return set[i].tokens;
    return -1;
}

/* ---- The interface --------------------------------------------------------------------------- */

struct prefix_memory *prefix_memory_new(size_t tenants)
{
    struct prefix_memory *memory =
        calloc(1, sizeof *memory + (tenants > 0 ? tenants : 1) * sizeof *memory->tables);

    if (memory == NULL)
        return NULL;
    char *secret = (char *)memory->nh_key;
    size_t n = sizeof memory->nh_key + sizeof memory->key;
    static_assert(offsetof(struct prefix_memory, key) == sizeof memory->nh_key, "one secret");
    for (size_t have = 0; have < n;) {
        ssize_t got = getrandom(secret + have, n - have < 256 ? n - have : 256, 0);
        if (got <= 0) {
            free(memory);
            return NULL;
        }
        have += (size_t)got;
    }
    memory->n_tables = tenants;
    pthread_mutex_init(&memory->lock, NULL);
    return memory;
}

void prefix_memory_free(struct prefix_memory *memory)
{
    if (memory != NULL)
        pthread_mutex_destroy(&memory->lock);
    free(memory);
}

/* Whether a call has the prompt that its parts make, whole and unchanged. */
static bool is_whole(const struct ask *ask)
{
    const unsigned changing =
        ASK_EDITS | ASK_COMPACTION | ASK_CONVERSATION | ASK_TEMPLATE | ASK_THREAD | ASK_CONTAINER |
        ASK_CACHED_CONTENT | ASK_ITEM | ASK_NEW_KEY | ASK_NEW_PART | ASK_NEW_TOOL | ASK_MODELS |
        ASK_FALLBACKS | ASK_MCP_SERVERS | ASK_SEARCH | ASK_CODE | ASK_IMAGE_TOOL | ASK_ADVISOR;

    return (ask->features & changing) == 0 && ask->hosted_tools == 0 && ask->by_address == 0;
}

/* Whether the tokens of a call say how many a longer one of its kind has at the least. */
static bool extends(const struct ask *ask)
{
    return ask->messages_end > 0 && ask->messages_end - ask->messages_at <= PREFIX_BYTES_MAX &&
           ask->n_frames <= ASK_FRAMES && is_whole(ask);
}

static void find_response(struct prefix_memory *memory, const struct prefix_who *who,
                          struct ask *ask, tg_ms now)
{
    struct slice id = ask_slice(&ask->previous_response_id);

    ask->stored_tokens = -1;
    if ((ask->features & ASK_STORED) == 0 || id.n == 0)
        return;
    uint64_t tenant = tenant_key(memory, who->tenant), key = key_of_response(memory, who, id);
    pthread_mutex_lock(&memory->lock);
    struct table *table = table_of(memory, tenant, false, now);
    if (table != NULL) {
        table->used_at = now;
        ask->stored_tokens = look_up(table, key, now);
    }
    pthread_mutex_unlock(&memory->lock);
}

void prefix_find(struct prefix_memory *memory, const struct prefix_who *who, const char *body,
                 struct ask *ask, tg_ms now)
{
    uint64_t keys[ASK_PREFIXES];
    size_t n = ask->n_prefixes < ASK_PREFIXES ? ask->n_prefixes : ASK_PREFIXES;
    size_t first = ask->n_prefixes - n;

    ask->known_tokens = -1;
    ask->prefix_hash[0] = ask->prefix_hash[1] = 0;
    find_response(memory, who, ask, now);
    if (!extends(ask))
        return;
    struct progress progress = {digest_of_frames(memory, body, ask), ask->messages_at};
    for (size_t i = 0; i < n; i++)
        keys[i] = key_for(
            memory, who,
            digest_until(memory, &progress, body, ask->prefixes[(first + i) % ASK_PREFIXES].end));
    struct digest whole = digest_until(memory, &progress, body, ask->messages_end);
    memcpy(ask->prefix_hash, whole.tag, sizeof ask->prefix_hash);
    uint64_t tenant = tenant_key(memory, who->tenant), key = key_for(memory, who, whole);

    pthread_mutex_lock(&memory->lock);
    struct table *table = table_of(memory, tenant, false, now);
    if (table != NULL) {
        table->used_at = now;
        ask->known_tokens = look_up(table, key, now);
        ask->known = ask->messages_measure;
        for (size_t i = n; i-- > 0 && ask->known_tokens < 0;) {
            ask->known_tokens = look_up(table, keys[i], now);
            ask->known = ask->prefixes[(first + i) % ASK_PREFIXES].measure;
        }
    }
    pthread_mutex_unlock(&memory->lock);
}

static void keep_entry(struct prefix_memory *memory, struct slice name, uint64_t key,
                       int64_t tokens, tg_ms now)
{
    uint64_t tenant = tenant_key(memory, name);

    pthread_mutex_lock(&memory->lock);
    struct table *table = table_of(memory, tenant, true, now);
    if (table != NULL) {
        struct entry *set = table->entries[key % TABLE_SETS], *oldest = set;
        for (size_t i = 0; i < SET_ENTRIES && oldest->key != key; i++)
            if (set[i].key == key || set[i].key == 0 || set[i].at < oldest->at)
                oldest = &set[i];
        *oldest = (struct entry){key, tokens, now};
        table->used_at = now;
    }
    pthread_mutex_unlock(&memory->lock);
}

void prefix_remember(struct prefix_memory *memory, const struct prefix_who *who,
                     const struct ask *ask, int64_t tokens, tg_ms now)
{
    struct digest whole;

    static_assert(sizeof whole.tag == sizeof ask->prefix_hash, "the same hash");
    if ((ask->prefix_hash[0] == 0 && ask->prefix_hash[1] == 0) || tokens <= 0 ||
        tokens > TG_NUMBER_MAX)
        return;
    memcpy(whole.tag, ask->prefix_hash, sizeof whole.tag);
    keep_entry(memory, who->tenant, key_for(memory, who, whole), tokens, now);
}

void prefix_remember_response(struct prefix_memory *memory, const struct prefix_who *who,
                              const struct ask *ask, struct slice id, const struct tg_usage *usage,
                              tg_ms now)
{
    int64_t tokens = num_add(tg_usage_input(usage), num_times(3, tg_usage_output(usage)));
    bool continues = (ask->features & ASK_STORED) != 0;

    if (!is_whole(ask) || (continues && ask->stored_tokens < 0) || id.n == 0 || tokens <= 0 ||
        tokens > TG_NUMBER_MAX)
        return;
    keep_entry(memory, who->tenant, key_of_response(memory, who, id), tokens, now);
}
