/* admin_server.h - the admin listener: who may ask, what is asked, and the answer.
 *
 *     begin ---> page, /healthz, /readyz                          anybody
 *          `---> token? ---> route? ---> body ... ---> run        /metrics and /api/
 *                 401, 403    404, 405    413, 415
 *
 * The token is looked at before the path, so that somebody without it cannot tell which paths there
 * are, nor by the time it takes which part of the token was right.
 *
 * Everything here belongs to the thread of the control thread, which carries no call: it answers
 * under any load and never delays one. What waits for a disk or reads the configuration is done by
 * a thread of its own (admin_change.h).
 */
#ifndef TG_ADMIN_ADMIN_SERVER_H
#define TG_ADMIN_ADMIN_SERVER_H

#include "server/admin/admin_call.h"
#include "server/admin/admin_routes.h"

/* TG_ERR_MEMORY, TG_ERR_STORE. What the administrator made is read from the ledger for when the
 * next top-up ends. */
TG_MUST_CHECK enum tg_err admin_new(const struct admin_options *options, struct admin **admin,
                                    struct tg_problem *problem);

/* The listener has been freed. Waits for a change that is under way. */
void admin_free(struct admin *admin);

/* The listener's operations; their context is the struct admin. */
extern const struct http_server_ops admin_server_ops;

#endif
