/* explain_fleet.h - what each gateway of a fleet would tell a call now.
 *
 *     GET /api/v1/explain?...&scope=fleet
 *         |  "explain?...", by fleet_question.h: the others explain, and answer
 *         |  and this gateway explains
 *         v  who would admit it, and each one's explanation
 *
 * Limits and budgets are shared, slots and what blocks hold are not: so gateways may differ, and
 * what a call is told depends on the one that it comes to.
 */
#ifndef TG_ADMIN_EXPLAIN_FLEET_H
#define TG_ADMIN_EXPLAIN_FLEET_H

#include "server/admin/explain_query.h"
#include "server/fleet/fleet_question.h"

struct admin;
struct admin_call;
struct explain_fleet;

struct explain_fleet *explain_fleet_new(struct admin *admin);
void explain_fleet_free(struct explain_fleet *fleet);

/* Replies to the call, later. */
void explain_fleet_start(struct admin_call *call, const struct explain_query *asked);

/* Whoever asked has left. */
void explain_fleet_gone(struct admin_call *call);

/* Another gateway asks. A text that this program does not know is answered with an error: nobody
 * waits for it. */
void explain_fleet_answer(struct explain_fleet *fleet, const struct fleet_asked *asked,
                          struct slice text);

#endif
