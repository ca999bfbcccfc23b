/* takeover_state.h - what limits and keys have counted, from one process to the next.
 *
 * Exact: rate and cost limits of the store in memory, with what calls in flight settle later; what
 * keys were charged in the last minute, what cools, breakers. Not handed over: what is in Redis
 * anyway, calls in flight at gates and keys, the limits that laws have found.
 */
#ifndef TG_RUNTIME_TAKEOVER_STATE_H
#define TG_RUNTIME_TAKEOVER_STATE_H

#include "server/runtime/control.h"

typedef void takeover_moved_fn(void *context, const void *bytes, size_t n);

/* Everything as records (takeover_wire.h), to be freed; moved() is called from then on, from any
 * thread, for what changes. False: no memory, and nothing is followed. */
bool takeover_state_save(struct control *control, takeover_moved_fn *moved, void *context,
                         char **bytes, size_t *n);
void takeover_state_unfollow(struct gateway *gateway);

/* What another process has said. */
struct takeover_state;

/* Null: no memory. */
struct takeover_state *takeover_state_new(void);
void takeover_state_free(struct takeover_state *state);

/* Takes one record of a state: all of them before takeover_state_load(). False: no memory, or it is
 * none. */
bool takeover_state_take(struct takeover_state *state, uint32_t kind, const char *bytes, size_t n);

/* Before the first call. `json`: the form of what it may have to say. */
void takeover_state_load(struct takeover_state *state, struct gateway *gateway, bool json);

/* What has changed there since. */
void takeover_state_apply(struct takeover_state *state, struct gateway *gateway, const char *bytes,
                          size_t n);

#endif
