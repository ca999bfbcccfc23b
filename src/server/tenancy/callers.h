/* callers.h - who may ask for decisions: the entries of `callers`, found by their tokens. */
#ifndef TG_TENANCY_CALLERS_H
#define TG_TENANCY_CALLERS_H

#include "server/config/config.h"

/* The entry whose token has this SHA-256; null: there is none. All entries are compared, and each
 * takes the same time: nothing can be learned from how long it took. */
const struct config_caller *caller_find(const struct config *config, const uint8_t hash[32]);

#endif
