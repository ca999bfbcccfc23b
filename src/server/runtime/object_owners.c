/* object_owners.c - whose objects are whose. See object_owners.h.
 *
 * Entries stand in one array; each is in the hash table, by a part of its hash, and in the queue of
 * its tenant and kind, whose head was used longest ago. Names are kept once, for as long as the
 * process runs: tenants, providers and keys of the configuration.
 */
#include "server/runtime/object_owners.h"

#define OPENSSL_API_COMPAT 10100 /* SHA256_Init */

#include <assert.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/hash_table.h"

enum {
    NOTHING = 0,           /* place 0 of the entries is not used */
    CHANGES_MAX = 1 << 16, /* changes to be written; what comes then is in memory alone */
    BATCH = 1024,          /* in one transaction */
    SHARED_NAME_MAX = 512, /* bytes of a name that another gateway has told */
    EVICTED = 64, /* entries that make room at once, since the longest queue is looked for */
};

#define DAY_MS INT64_C(86400000)
#define SWEEP_MS INT64_C(60000)

struct entry {
    uint8_t hash[LEDGER_OBJECT_HASH];
    uint32_t tenant, provider, key; /* names */
    uint32_t before, after;         /* in its queue; free: `after` alone */
    enum object_kind kind;
    tg_ms used_at;
};

struct queue {
    uint32_t first, last;
    size_t n;
};

struct name {
    char *text;
    struct queue queues[OBJECT_KINDS]; /* a tenant's */
};

struct change {
    struct entry entry;
    bool drop;
};

struct object_owners {
    pthread_mutex_t lock;
    struct hash_table places; /* entries by the first bytes of their hash */
    struct entry *entries;
    size_t room, n, max;
    uint32_t unused; /* the first free entry */
    struct hash_table names_by_text;
    struct name *names;
    size_t n_names, names_room;
    struct change *changes;
    size_t n_changes, changes_room;
    tg_ms now, swept_at;
};

/* ---- Names ---- */

/* False: there is no memory. */
static bool owner_name(struct object_owners *owners, const char *text, bool fresh, uint32_t *number)
{
    uint64_t hash = XXH3_64bits(text, strlen(text));
    struct hash_slot *slot = hash_table_find(&owners->names_by_text, hash);

    for (; slot != NULL; slot = hash_table_find_next(&owners->names_by_text, slot))
        if (strcmp(owners->names[slot->number].text, text) == 0) {
            *number = (uint32_t)slot->number;
            return true;
        }
    if (!fresh || hash_table_reserve(&owners->names_by_text, owners->n_names + 1) != TG_OK)
        return false;
    if (owners->n_names == owners->names_room) {
        size_t room = owners->names_room > 0 ? owners->names_room * 2 : 64;
        struct name *names = realloc(owners->names, room * sizeof *names);
        if (names == NULL)
            return false;
        owners->names = names;
        owners->names_room = room;
    }
    char *copy = strdup(text);
    if (copy == NULL)
        return false;
    owners->names[owners->n_names] = (struct name){.text = copy};
    hash_table_insert(&owners->names_by_text, hash)->number = owners->n_names;
    *number = (uint32_t)owners->n_names++;
    return true;
}

/* ---- Queues ---- */

static struct queue *queue_of(struct object_owners *owners, const struct entry *entry)
{
    return &owners->names[entry->tenant].queues[entry->kind];
}

static void leave_queue(struct object_owners *owners, uint32_t place)
{
    struct entry *entry = &owners->entries[place];
    struct queue *queue = queue_of(owners, entry);

    *(entry->before != NOTHING ? &owners->entries[entry->before].after : &queue->first) =
        entry->after;
    *(entry->after != NOTHING ? &owners->entries[entry->after].before : &queue->last) =
        entry->before;
    assert(queue->n > 0);
    queue->n--;
}

static void join_queue(struct object_owners *owners, uint32_t place)
{
    struct entry *entry = &owners->entries[place];
    struct queue *queue = queue_of(owners, entry);

    entry->before = queue->last;
    entry->after = NOTHING;
    *(queue->last != NOTHING ? &owners->entries[queue->last].after : &queue->first) = place;
    queue->last = place;
    queue->n++;
}

/* ---- Entries ---- */

void object_owners_hash(struct slice id, uint8_t hash[LEDGER_OBJECT_HASH])
{
    uint8_t whole[SHA256_DIGEST_LENGTH];
    SHA256_CTX context;

    SHA256_Init(&context);
    SHA256_Update(&context, id.at, id.n);
    SHA256_Final(whole, &context);
    memcpy(hash, whole, LEDGER_OBJECT_HASH);
}

static uint64_t slot_hash(const uint8_t hash[LEDGER_OBJECT_HASH])
{
    uint64_t key;

    memcpy(&key, hash, sizeof key);
    return key;
}

static void note_change(struct object_owners *owners, const struct entry *entry, bool drop)
{
    if (owners->n_changes == CHANGES_MAX)
        return;
    if (owners->n_changes == owners->changes_room) {
        size_t room = owners->changes_room > 0 ? owners->changes_room * 2 : 64;
        struct change *changes = realloc(owners->changes, room * sizeof *changes);
        if (changes == NULL)
            return;
        owners->changes = changes;
        owners->changes_room = room;
    }
    owners->changes[owners->n_changes++] = (struct change){*entry, drop};
}

static void drop_entry(struct object_owners *owners, uint32_t place)
{
    struct entry *entry = &owners->entries[place];
    struct hash_slot *slot = hash_table_find(&owners->places, slot_hash(entry->hash));

    while (slot != NULL && slot->number != place)
        slot = hash_table_find_next(&owners->places, slot);
    assert(slot != NULL); /* an entry is in the table as long as it is in its queue */
    hash_table_remove(&owners->places, slot);
    leave_queue(owners, place);
    note_change(owners, entry, true);
    entry->after = owners->unused;
    owners->unused = place;
    owners->n--;
}

/* The longest queue gives way. */
static void evict(struct object_owners *owners)
{
    struct queue *longest = NULL;

    for (size_t i = 0; i < owners->n_names; i++)
        for (int k = 0; k < OBJECT_KINDS; k++) {
            struct queue *queue = &owners->names[i].queues[k];
            if (longest == NULL || queue->n > longest->n)
                longest = queue;
        }
    for (int i = 0; i < EVICTED && longest != NULL && longest->first != NOTHING; i++)
        drop_entry(owners, longest->first);
}

static bool make_room(struct object_owners *owners)
{
    if (owners->n >= owners->max)
        evict(owners);
    if (owners->n >= owners->max || hash_table_reserve(&owners->places, owners->n + 1) != TG_OK)
        return false;
    if (owners->unused != NOTHING || owners->n + 1 < owners->room)
        return true;
    size_t room = owners->room > 0 ? owners->room * 2 : 256;
    struct entry *entries = realloc(owners->entries, room * sizeof *entries);
    if (entries == NULL)
        return false;
    owners->entries = entries;
    owners->room = room;
    return true;
}

static uint32_t find_at(struct object_owners *owners, const uint8_t hash[LEDGER_OBJECT_HASH],
                        uint32_t provider)
{
    struct hash_slot *slot = hash_table_find(&owners->places, slot_hash(hash));

    for (; slot != NULL; slot = hash_table_find_next(&owners->places, slot)) {
        const struct entry *entry = &owners->entries[slot->number];
        if (memcmp(entry->hash, hash, LEDGER_OBJECT_HASH) == 0 && entry->provider == provider)
            return (uint32_t)slot->number;
    }
    return NOTHING;
}

/* Null: there is no room. */
static const struct entry *add_entry(struct object_owners *owners, const struct entry *made)
{
    if (!make_room(owners))
        return NULL;
    uint32_t place = owners->unused;
    if (place != NOTHING)
        owners->unused = owners->entries[place].after;
    else
        place = (uint32_t)owners->n + 1; /* none was ever freed that is not in use again */
    owners->entries[place] = *made;
    hash_table_insert(&owners->places, slot_hash(made->hash))->number = place;
    owners->n++;
    join_queue(owners, place);
    return &owners->entries[place];
}

static tg_ms life_of(enum object_kind kind)
{
    return kind == OBJECT_RESPONSE ? OBJECT_RESPONSE_MS : OBJECT_OTHER_MS;
}

static bool is_over(const struct entry *entry, tg_ms now)
{
    return now - entry->used_at > life_of(entry->kind);
}

static void sweep(struct object_owners *owners)
{
    if (owners->now - owners->swept_at < SWEEP_MS)
        return;
    owners->swept_at = owners->now;
    for (size_t i = 0; i < owners->n_names; i++)
        for (int k = 0; k < OBJECT_KINDS; k++) {
            struct queue *queue = &owners->names[i].queues[k];
            while (queue->first != NOTHING && is_over(&owners->entries[queue->first], owners->now))
                drop_entry(owners, queue->first);
        }
}

/* ---- The interface ---- */

struct object_owners *object_owners_new(size_t max)
{
    struct object_owners *owners = calloc(1, sizeof *owners);

    if (owners == NULL)
        return NULL;
    owners->max = max;
    pthread_mutex_init(&owners->lock, NULL);
    return owners;
}

void object_owners_free(struct object_owners *owners)
{
    if (owners == NULL)
        return;
    for (size_t i = 0; i < owners->n_names; i++)
        free(owners->names[i].text);
    free(owners->names);
    hash_table_fini(&owners->names_by_text);
    hash_table_fini(&owners->places);
    free(owners->entries);
    free(owners->changes);
    pthread_mutex_destroy(&owners->lock);
    free(owners);
}

size_t object_owners_count(struct object_owners *owners)
{
    pthread_mutex_lock(&owners->lock);
    size_t n = owners->n;
    pthread_mutex_unlock(&owners->lock);
    return n;
}

static void load_one(void *context, const struct ledger_object *object)
{
    struct object_owners *owners = context;
    struct entry entry = {.kind = object->kind == OBJECT_RESPONSE ? OBJECT_RESPONSE : OBJECT_OTHER,
                          .used_at = object->used_at};

    memcpy(entry.hash, object->hash, sizeof entry.hash);
    if (is_over(&entry, owners->now) || !owner_name(owners, object->tenant, true, &entry.tenant) ||
        !owner_name(owners, object->provider, true, &entry.provider) ||
        !owner_name(owners, object->key, true, &entry.key))
        return;
    if (find_at(owners, entry.hash, entry.provider) == NOTHING)
        add_entry(owners, &entry);
}

bool object_owners_load(struct object_owners *owners, struct ledger *ledger, tg_ms now,
                        struct tg_problem *problem)
{
    pthread_mutex_lock(&owners->lock);
    owners->now = now;
    bool read = ledger_objects_read(ledger, load_one, owners, problem);
    pthread_mutex_unlock(&owners->lock);
    return read;
}

enum object_claim object_owners_find(struct object_owners *owners, struct slice id,
                                     const char *tenant, tg_ms now, struct object_place *place)
{
    uint8_t hash[LEDGER_OBJECT_HASH];
    enum object_claim claim = OBJECT_UNKNOWN;
    uint32_t me = UINT32_MAX;

    object_owners_hash(id, hash);
    pthread_mutex_lock(&owners->lock);
    owners->now = now > owners->now ? now : owners->now;
    if (!owner_name(owners, tenant, false, &me))
        me = UINT32_MAX; /* has never made anything */
    struct hash_slot *slot = hash_table_find(&owners->places, slot_hash(hash));
    for (; slot != NULL && claim != OBJECT_MINE;
         slot = hash_table_find_next(&owners->places, slot)) {
        uint32_t at = (uint32_t)slot->number;
        struct entry *entry = &owners->entries[at];
        if (memcmp(entry->hash, hash, sizeof hash) != 0 || is_over(entry, now))
            continue;
        claim = entry->tenant == me ? OBJECT_MINE : OBJECT_OTHERS;
        if (claim != OBJECT_MINE)
            continue;
        if (place != NULL)
            *place = (struct object_place){owners->names[entry->provider].text,
                                           owners->names[entry->key].text};
        if (entry->kind == OBJECT_OTHER && now - entry->used_at > DAY_MS) {
            leave_queue(owners, at);
            entry->used_at = now;
            join_queue(owners, at);
            note_change(owners, entry, false);
        }
    }
    pthread_mutex_unlock(&owners->lock);
    return claim;
}

void object_owners_add(struct object_owners *owners, struct slice id, enum object_kind kind,
                       const char *tenant, const char *provider, const char *key, tg_ms now)
{
    struct entry entry = {.kind = kind, .used_at = now};

    object_owners_hash(id, entry.hash);
    pthread_mutex_lock(&owners->lock);
    owners->now = now > owners->now ? now : owners->now;
    if (owner_name(owners, tenant, true, &entry.tenant) &&
        owner_name(owners, provider, true, &entry.provider) &&
        owner_name(owners, key, true, &entry.key) &&
        find_at(owners, entry.hash, entry.provider) == NOTHING && add_entry(owners, &entry) != NULL)
        note_change(owners, &entry, false);
    pthread_mutex_unlock(&owners->lock);
}

static bool copy_name(struct slice name, char text[SHARED_NAME_MAX])
{
    return snprintf(text, SHARED_NAME_MAX, "%.*s", (int)name.n, name.at) < SHARED_NAME_MAX;
}

void object_owners_learn(struct object_owners *owners, const uint8_t hash[LEDGER_OBJECT_HASH],
                         enum object_kind kind, struct slice tenant, struct slice provider,
                         struct slice key, tg_ms now)
{
    struct entry entry = {.kind = kind, .used_at = now};
    char names[3][SHARED_NAME_MAX];

    if (!copy_name(tenant, names[0]) || !copy_name(provider, names[1]) || !copy_name(key, names[2]))
        return;
    memcpy(entry.hash, hash, sizeof entry.hash);
    pthread_mutex_lock(&owners->lock);
    if (owner_name(owners, names[0], true, &entry.tenant) &&
        owner_name(owners, names[1], true, &entry.provider) &&
        owner_name(owners, names[2], true, &entry.key) &&
        find_at(owners, entry.hash, entry.provider) == NOTHING)
        add_entry(owners, &entry);
    pthread_mutex_unlock(&owners->lock);
}

static bool remove_at(struct object_owners *owners, const uint8_t hash[LEDGER_OBJECT_HASH],
                      const char *tenant, const char *provider)
{
    bool removed = false;
    uint32_t me, at;

    pthread_mutex_lock(&owners->lock);
    if (owner_name(owners, tenant, false, &me) && owner_name(owners, provider, false, &at)) {
        uint32_t place = find_at(owners, hash, at);
        removed = place != NOTHING && owners->entries[place].tenant == me;
        if (removed)
            drop_entry(owners, place);
    }
    pthread_mutex_unlock(&owners->lock);
    return removed;
}

bool object_owners_remove(struct object_owners *owners, struct slice id, const char *tenant,
                          const char *provider)
{
    uint8_t hash[LEDGER_OBJECT_HASH];

    object_owners_hash(id, hash);
    return remove_at(owners, hash, tenant, provider);
}

void object_owners_unlearn(struct object_owners *owners, const uint8_t hash[LEDGER_OBJECT_HASH],
                           struct slice tenant, struct slice provider)
{
    char names[2][SHARED_NAME_MAX];

    if (copy_name(tenant, names[0]) && copy_name(provider, names[1]))
        (void)remove_at(owners, hash, names[0], names[1]);
}

/* A copy of the next changes, without the lock over the disk. */
static size_t take_changes(struct object_owners *owners, struct ledger_object list[BATCH])
{
    pthread_mutex_lock(&owners->lock);
    sweep(owners);
    size_t n = owners->n_changes < BATCH ? owners->n_changes : BATCH;
    for (size_t i = 0; i < n; i++) {
        const struct change *change = &owners->changes[i];
        list[i] = (struct ledger_object){
            .tenant = change->drop ? NULL : owners->names[change->entry.tenant].text,
            .provider = owners->names[change->entry.provider].text,
            .key = owners->names[change->entry.key].text,
            .kind = (int)change->entry.kind,
            .used_at = change->entry.used_at};
        memcpy(list[i].hash, change->entry.hash, sizeof list[i].hash);
    }
    pthread_mutex_unlock(&owners->lock);
    return n;
}

/* What cannot be written now is written next time: changes are only forgotten once they are on the
 * disk. One thread flushes. */
void object_owners_flush(void *context, struct ledger *ledger)
{
    struct object_owners *owners = context;
    struct ledger_object *list = NULL;
    size_t n;

    pthread_mutex_lock(&owners->lock);
    bool idle = owners->n_changes == 0 && owners->now - owners->swept_at < SWEEP_MS;
    pthread_mutex_unlock(&owners->lock);
    if (idle || (list = malloc(BATCH * sizeof *list)) == NULL)
        return;
    while ((n = take_changes(owners, list)) > 0 && ledger_objects_write(ledger, list, n, NULL)) {
        pthread_mutex_lock(&owners->lock);
        owners->n_changes -= n;
        memmove(owners->changes, owners->changes + n, owners->n_changes * sizeof *owners->changes);
        pthread_mutex_unlock(&owners->lock);
    }
    free(list);
}
