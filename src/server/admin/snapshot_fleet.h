/* snapshot_fleet.h - the snapshot of all gateways that share a store, as one.
 *
 *     GET /api/v1/snapshot?scope=fleet
 *         |  "snapshot", by fleet_question.h: the others answer with theirs
 *         |  merged with this gateway's own, by fleet_snapshot.h
 *         |  budgets: what the store has of each window, by one pipelined read
 *         v  one reply for everybody who asked meanwhile
 *
 * Every answer was made after the question. Whoever asks while a round is under way gets the next
 * one, so however many ask, a gateway makes one at a time. Without a store, or where it is away,
 * the document has this gateway alone and says so.
 */
#ifndef TG_ADMIN_SNAPSHOT_FLEET_H
#define TG_ADMIN_SNAPSHOT_FLEET_H

#include <sys/queue.h>

struct admin;
struct admin_call;
struct snapshot_fleet;

/* Answers the others from then on, too. Null: no memory. */
struct snapshot_fleet *snapshot_fleet_new(struct admin *admin);
void snapshot_fleet_free(struct snapshot_fleet *fleet);

/* Replies to the call, later. */
void snapshot_fleet_start(struct admin_call *call);

/* Whoever asked has left. */
void snapshot_fleet_gone(struct admin_call *call);

#endif
