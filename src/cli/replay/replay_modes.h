/* replay_modes.h - the three things that `tollgate replay` does with a trace. */
#ifndef TG_REPLAY_REPLAY_MODES_H
#define TG_REPLAY_REPLAY_MODES_H

#include <stdint.h>

#include "cli/replay/replay_input.h"
#include "cli/replay/replay_store.h"

/* Each returns the status to end with. `store`: where limits are kept; null: in memory. */

/* Decides every call by one limiter. */
int replay_by_limiter(struct replay_input *input, const struct tg_limiter *limiter,
                      struct replay_store *store);

/* Tells the gate of a configuration every event. */
int replay_by_gate(struct replay_input *input, const char *config, uint64_t seed,
                   struct replay_store *store);

/* Tells the gates of two, and prints where they decide differently. Each has a store of its own. */
int replay_by_both(struct replay_input *input, const char *first, const char *second, uint64_t seed,
                   struct replay_store *first_store, struct replay_store *second_store);

#endif
