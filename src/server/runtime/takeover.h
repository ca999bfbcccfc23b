/* takeover.h - the new process's side of a takeover: it takes what the old one has, begins to
 * serve, and hears of the calls that the old one still has. See takeover_wire.h for what is said.
 *
 *     takeover_begin(ledger, &inherited, &clock, &takeover, &problem)
 *     gateway_new_from(..., &inherited, ...)           opens the ledger, reads budgets
 *     takeover_read(takeover)
 *     worker_init(), control_init()                    listen on the same sockets, held
 *     control_start(), worker_start()                  threads, which wait: start_gate.h
 *     takeover_serve(takeover, control, &problem)      limits go on where they were
 *     worker_release(), control_hold(), start_gate_open()
 *
 * If the old process dies meanwhile, this one goes on alone: it has the sockets and the ledger, and
 * what the old one had in flight is in its journal. If the old one goes on, which it says, or which
 * the lock of its journal shows, takeover_serve() fails.
 */
#ifndef TG_RUNTIME_TAKEOVER_H
#define TG_RUNTIME_TAKEOVER_H

#include "server/runtime/control.h"
#include "server/runtime/inherited.h"

struct takeover;

/* Before the first thread. True and null: there is nobody to take over from. False: the other
 * process refuses, or is not ours; `problem` says why. */
bool takeover_begin(const char *ledger, bool json, struct inherited *inherited, struct clock *clock,
                    struct takeover **takeover, struct tg_problem *problem);

/* The ledger has been read. Null is fine here and below. */
void takeover_read(struct takeover *takeover);

/* Everything is there, threads included, and none of them runs: takes over, and leaves the link to
 * the control thread. Nothing may fail after it. False: the other process goes on, or is about to
 * end; `problem` says which. */
bool takeover_serve(struct takeover *takeover, struct control *control, struct tg_problem *problem);

/* For tests: how long to wait for the locks of a process whose link has ended; default 5 s. */
void takeover_set_patience(struct takeover *takeover, tg_ms patience);

/* If it has not come to takeover_serve(): the other process goes on. */
void takeover_free(struct takeover *takeover);

/* On the control thread: whether a process that was taken over from has ended, and all that it held
 * is in the database; and whether somebody else has left something there. */
void takeover_tick(struct control *control);

/* Budgets are shared with those that were taken over from, and with who takes over: see
 * bank_part.h. Returns how many the former are; for whenever that changes. */
uint32_t takeover_share_budgets(struct control *control);

/* When the control thread has ended. */
void takeover_forget_all(struct control *control);

#endif
