/* key_place.h - where the calls of a provider's key go, and with what they are let in there.
 *
 * One for each key that the configuration writes, of providers and of models. A generation is given
 * those of the one before it where they are the same: connections stay, and tokens.
 */
#ifndef TG_RUNTIME_KEY_PLACE_H
#define TG_RUNTIME_KEY_PLACE_H

#include "server/runtime/generation.h"

/* Makes `generation->places`, once its providers have their origins. */
bool key_places_new(struct generation *generation, const struct generation *before,
                    struct tg_problem *problem);
void key_places_free(struct generation *generation);

/* The place of a key of the configuration: one of a provider's or a model's list. */
const struct key_place *key_place_of(const struct generation *generation,
                                     const struct config_provider_key *key);

#endif
