/* handover.h - the old process's side of a takeover: it offers what it has, goes on serving, and
 * retires when another process serves. See takeover_wire.h for what is said.
 *
 * On the control thread. Everything can be taken back until the other process serves: then this one
 * serves on as if nothing had happened. So it does when that takes longer than a minute for a step,
 * or longer than five seconds while nobody accepts.
 */
#ifndef TG_RUNTIME_HANDOVER_H
#define TG_RUNTIME_HANDOVER_H

#include "server/runtime/control.h"

struct handover;

/* Listens for a process that wants to take over, beside the ledger; in the place of whoever
 * listened there before. `retire` is called on the control thread once another process serves.
 * Null: there is no memory, or no place for the socket, which is said; a gateway serves without,
 * too. */
struct handover *handover_new(struct control *control, void (*retire)(void *arg), void *arg);

/* Tells the other process what is still to be told. Null is fine. */
void handover_free(struct handover *handover);

/* Whether another process serves. Null: no. */
bool handover_is_retired(const struct handover *handover);

/* Whether another process serves in the place of this one, or will as soon as it hears of it. */
bool handover_has_passed(const struct handover *handover);

/* Before its thread runs, for tests: how long each step of the other process may take, and how long
 * that one in which nobody accepts; how much may wait to be told. */
void handover_set_bounds(struct handover *handover, tg_ms late_ms, tg_ms turn_ms,
                         size_t events_max);

#endif
