/* cluster_names.h - interned texts: each has a small number.
 *
 * A workload names tenants, clients and prefix groups a million times and has a few of each: the
 * requests carry numbers, and here is what they stand for. Number 0 is always the empty text.
 */
#ifndef TG_CLUSTER_CLUSTER_NAMES_H
#define TG_CLUSTER_CLUSTER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/hash_table.h"

struct cluster_names {
    char **texts; /* the text of each number, terminated by zero */
    size_t n;
    size_t capacity;
    struct hash_table numbers; /* by the hash of the text */
};

/* Has "" as number 0. False: no memory. */
bool cluster_names_init(struct cluster_names *names);
void cluster_names_fini(struct cluster_names *names);

/* The number of a text, a new one if it is new. False: no memory. */
bool cluster_names_get(struct cluster_names *names, const char *bytes, size_t size,
                       uint32_t *number);

#endif
