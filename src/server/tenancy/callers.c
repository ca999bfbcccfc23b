/* callers.c - who may ask for decisions: see callers.h. */
#include "server/tenancy/callers.h"

#include "server/tenancy/virtual_key.h"

const struct config_caller *caller_find(const struct config *config, const uint8_t hash[32])
{
    const struct config_caller *found = NULL;

    for (size_t i = 0; i < config->n_callers; i++)
        if (virtual_key_equal(config->callers[i].token_sha256, hash))
            found = &config->callers[i];
    return found;
}
