/* fleet_snapshot.h - what each member of a gateway's snapshot is for all gateways together.
 *
 * The snapshot of the fleet has the form of a gateway's (docs/openapi.yaml, Snapshot): counters,
 * rates, limits and calls in flight are added, of states the worst is shown, of names those that
 * all have. Lists are joined row by row, and cut as a gateway cuts its own.
 */
#ifndef TG_FLEET_FLEET_SNAPSHOT_H
#define TG_FLEET_FLEET_SNAPSHOT_H

#include "server/fleet/fleet_merge.h"
#include "tollgate.h"

#define FLEET_ROUTES_MAX 200
#define FLEET_KEYS_MAX 500
#define FLEET_BUDGETS_MAX (100 + TG_BUDGETS_MAX) /* everyone's, and of tenants the fullest */
#define FLEET_TENANTS_MAX 20
#define FLEET_DENIALS_MAX 50

extern const struct merge_rule fleet_snapshot_rules[];

/* What is shown of each gateway beside the fleet: a part of its snapshot. */
extern const struct merge_rule fleet_gateway_rules[];

#endif
