/* key_index.h - virtual keys by their hash. Written once, then read by any number of threads. */
#ifndef TG_TENANCY_KEY_INDEX_H
#define TG_TENANCY_KEY_INDEX_H

#include "server/config/config.h"

struct key_index;

/* Borrows the configuration. False: no memory. */
bool key_index_new(const struct config *config, struct key_index **index);
void key_index_free(struct key_index *index);

/* The number of the tenant whose key hashes to this and has not expired; CONFIG_NONE: there is
 * none. `key` is set with it. */
size_t key_index_find(const struct key_index *index, const uint8_t hash[32], tg_ms now,
                      const struct config_key **key);

#endif
