/* replay_store.h - `tollgate replay --store`: the limits of a replay, kept in Redis.
 *
 * The trace's clock counts, and a decision is waited for before the next line is read: one round
 * trip each. Settlements are sent and not waited for, until the next decision is to be asked for.
 *
 * A replay has its keys to itself, under a prefix that chance chose, and removes them when it ends;
 * if it cannot, they are gone within an hour or so. With a prefix that was given, it finds what is
 * there and leaves what it makes.
 */
#ifndef TG_REPLAY_REPLAY_STORE_H
#define TG_REPLAY_REPLAY_STORE_H

#include "cli/common/command.h"
#include "server/remote_store/remote_limits.h"

struct replay_store;

/* Connects. `prefix` null: one of its own. Null after saying why; `status` has what to end with. */
struct replay_store *replay_store_open(const struct command *command, const char *url,
                                       const char *prefix, int *status);

/* Waits for what was sent, and removes its keys. False after saying that something was lost, if
 * `status` was STATUS_DONE. Null is allowed. */
bool replay_store_close(struct replay_store *store, int status);

/* Decides. TG_ERR_STORE: replay_store_problem() says why. */
enum tg_err replay_store_take(struct replay_store *store, const struct remote_debit *debit,
                              tg_ms now, struct tg_axes *axes, struct remote_charge *charge);
void replay_store_settle(struct replay_store *store, const struct remote_debit *debit, tg_ms now,
                         const struct remote_charge *charge, int64_t actual);

/* What came in between, for people. */
void replay_store_problem(const struct replay_store *store, struct tg_problem *problem);

#endif
