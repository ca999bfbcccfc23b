/* key_lease.c - the leases of a ring. See key_lease.h. */
#include "lib/keypool/key_lease.h"

#include <stdlib.h>

/* Chunk 0 has the first 64 places, chunk c > 0 as many as are before it: 64 << (c - 1). */
static uint32_t chunk_begin(uint32_t chunk)
{
    return chunk == 0 ? 0 : (uint32_t)LEASE_FIRST_CHUNK << (chunk - 1);
}

static uint32_t chunk_size(uint32_t chunk)
{
    return chunk == 0 ? LEASE_FIRST_CHUNK : chunk_begin(chunk);
}

static uint32_t chunk_of(uint32_t place)
{
    uint32_t rows = place / LEASE_FIRST_CHUNK;

    return rows == 0 ? 0 : (uint32_t)(32 - __builtin_clz(rows));
}

void key_leases_fini(struct key_leases *leases)
{
    for (uint32_t i = 0; i < leases->n_chunks; i++)
        free(leases->chunks[i]);
    *leases = (struct key_leases){0};
}

static bool key_lease_add_chunk(struct key_leases *leases)
{
    uint32_t c = leases->n_chunks;

    if (c == LEASE_CHUNKS)
        return false;
    struct key_lease *chunk = calloc(chunk_size(c), sizeof *chunk);
    if (!chunk)
        return false;
    for (uint32_t i = chunk_size(c); i-- > 0;) {
        chunk[i].place = chunk_begin(c) + i;
        chunk[i].generation = 1;
        chunk[i].next_free = leases->free;
        leases->free = &chunk[i];
    }
    leases->chunks[leases->n_chunks++] = chunk;
    return true;
}

struct key_lease *key_leases_get(struct key_leases *leases)
{
    if (!leases->free && !key_lease_add_chunk(leases))
        return NULL;
    struct key_lease *lease = leases->free;
    leases->free = lease->next_free;
    return lease;
}

void key_leases_put(struct key_leases *leases, struct key_lease *lease)
{
    lease->key = NULL;
    lease->generation = (lease->generation + 1) & (UINT64_MAX >> LEASE_PLACE_BITS);
    lease->next_free = leases->free;
    leases->free = lease;
}

struct key_lease *key_leases_at(const struct key_leases *leases, uint32_t place)
{
    uint32_t chunk = chunk_of(place);

    return chunk < leases->n_chunks ? &leases->chunks[chunk][place - chunk_begin(chunk)] : NULL;
}

struct key_lease *key_leases_find(const struct key_leases *leases, tg_key_lease id)
{
    uint32_t number = (uint32_t)(id & ((UINT64_C(1) << LEASE_PLACE_BITS) - 1));

    struct key_lease *lease = number ? key_leases_at(leases, number - 1) : NULL;

    return lease && lease->key && lease->generation == id >> LEASE_PLACE_BITS ? lease : NULL;
}
