/* key_failures.h - whether a key has failed, or a tenant's own requests have.
 *
 * Some requests fail wherever they are sent: a schema that crashes a server's grammar, a prompt
 * that a model thinks about for longer than a time-out. If each of them counted for the key's
 * breaker, one tenant that repeats such a request would take the key from all others. So a failure
 * of tenant T, after its request was sent, counts unless both hold:
 *
 *     another tenant was served with this key in the last 10 minutes
 *     T was the last that failed with it, or nobody else failed in the last 2 minutes
 *
 * Where the key does fail, it fails for everybody: failures of two tenants in turn all count. Where
 * one tenant is alone, nothing is known of others, and each of its failures counts. What this
 * cannot tell from an outage is two tenants that work together.
 *
 * What does not count is told to the breaker as an attempt that was cancelled: it says nothing,
 * neither good nor bad, and lets the next call try where the breaker is half open.
 *
 * The memory has an entry for each key of a pool that was ever used, 64 bytes: they come from the
 * configuration alone.
 *
 * Threads: any. One mutex, held for a lookup.
 */
#ifndef TG_UPSTREAM_KEY_FAILURES_H
#define TG_UPSTREAM_KEY_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "tollgate.h"

enum { KEY_FAILURES_SERVED_MS = 600000, KEY_FAILURES_FAILED_MS = 120000 };

struct key_failures;

/* Null: there is no memory. */
struct key_failures *key_failures_new(void);
void key_failures_free(struct key_failures *failures); /* null is fine */

/* What stands for a key of a pool. */
uint64_t key_failures_id(const struct tg_pool *pool, const char *key);

/* An attempt of this tenant with this key was answered as it should be, or has failed. The tenant
 * is any number that stands for it. */
void key_failures_served(struct key_failures *failures, uint64_t key, uint64_t tenant, tg_ms now);

/* Returns whether the failure counts; where there is no memory for the key, it does. */
bool key_failures_failed(struct key_failures *failures, uint64_t key, uint64_t tenant, tg_ms now);

#endif
