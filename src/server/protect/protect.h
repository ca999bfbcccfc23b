/* protect.h - `protect` routes: any HTTP upstream of the owner's, behind the gate whose law learns.
 *
 *     client --> protect.c ------------> protect_upstream.c --> upstream
 *                    |  the step function     forwards, judges the reply
 *                    |
 *                    +--> protect_match.c      which route, which priority
 *                    +--> protect_admit.c      the gate: admitted, waiting, refused; renewals
 *                    +--> protect_grpc.c       refusals, deadlines and statuses of RPCs
 *                    `--> protect_report.c     log, metrics and traces of a call
 *
 * No keys and no money: memory, fairness, concurrency by priority, and the gate's own rate and
 * cost. Bodies stream both ways and are kept nowhere. The states of a call and its events are drawn
 * in protect_internal.h.
 */
#ifndef TG_PROTECT_PROTECT_H
#define TG_PROTECT_PROTECT_H

#include "server/runtime/gateway.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"

/* The route of a request's target; null: none. "/api" is for "/api", "/api/x" and "/api?x", not for
 * "/apix"; the longest prefix wins. */
const struct protected_route *protect_find(const struct generation *generation,
                                           struct slice target);

/* The class of a request by the route's `priorities`, of which the longest path that matches as
 * above wins; normal where there is none. */
enum tg_priority protect_priority(const struct protected_route *route, struct slice method,
                                  struct slice target);

extern const struct service protect_service;

#endif
