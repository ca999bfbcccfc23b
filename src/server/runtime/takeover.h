/* takeover.h - the new process's side of a takeover: it takes what the old one has, begins to
 * serve, and hears of the calls that the old one still has. See takeover_wire.h for what is said.
 *
 *     takeover_begin(ledger, &inherited, &clock, &takeover, &problem)
 *     gateway_new_from(..., &inherited, ...)           opens the ledger, reads budgets
 *     takeover_read(takeover)
 *     worker_init(), control_init()                    listen on the same sockets
 *     takeover_serve(takeover, control, &problem)      limits go on where they were
 *     control_start(), worker_start()
 *
 * If the old process dies meanwhile, this one goes on alone: it has the sockets and the ledger, and
 * what the old one had in flight is in its journal.
 */
#ifndef TG_RUNTIME_TAKEOVER_H
#define TG_RUNTIME_TAKEOVER_H

#include "server/runtime/control.h"
#include "server/runtime/inherited.h"

struct takeover;

/* Before the first thread. True and null: there is nobody to take over from. False: the other
 * process refuses, or is not ours; `problem` says why. */
bool takeover_begin(const char *ledger, struct inherited *inherited, struct clock *clock,
                    struct takeover **takeover, struct tg_problem *problem);

/* The ledger has been read. Null is fine here and below. */
void takeover_read(struct takeover *takeover);

/* Everything is there, and listens: takes over, and leaves the link to the control thread, which is
 * about to start. */
bool takeover_serve(struct takeover *takeover, struct control *control, struct tg_problem *problem);

/* If it has not come to takeover_serve(): the other process goes on. */
void takeover_free(struct takeover *takeover);

/* On the control thread: whether a process that died has left something, which is in the ledger by
 * now. */
void takeover_tick(struct control *control);

/* When the control thread has ended. */
void takeover_forget_all(struct control *control);

#endif
