/* replay_modes.h - the three things that `tollgate replay` does with a trace.
 *
 *     lines --replay_input.c--> trace.c: one event --.
 *                                                    v
 *     replay_limiter.c   one limiter decides calls, in memory or in Redis
 *     replay_gate.c      replay_side.c: the gate of a configuration is told every event
 *     replay_compare.c   two such sides, and where they decide differently
 *     replay_recording.c what `serve --record` wrote: recording.c reads it, recording_side.c is a
 *                        whole gateway that is told it
 *                             |
 *                             +--> replay_ids.c      which call or lease an id of the trace means
 *                             `--> replay_remote.c --> replay_store.c     limits that are in Redis
 *
 * Time is the trace's: nothing waits, and the same trace with the same seed gives the same bytes.
 */
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

/* What `serve --record` wrote, once more. `reloaded`: files that `serve` read later, with commas
 * between them; null: none. `second` null: each call as it is decided now, and where
 * that is not as it was recorded, why; else where the two configurations differ, by tenant. */
int replay_recording(struct replay_input *input, const char *first, const char *reloaded,
                     const char *second);

#endif
