/* snapshot_internal.h - the lists of a snapshot. Private to snapshot*.c. */
#ifndef TG_ADMIN_SNAPSHOT_INTERNAL_H
#define TG_ADMIN_SNAPSHOT_INTERNAL_H

#include "server/admin/snapshot.h"

/* Each writes its members, with their keys. */
void snapshot_write_routes(struct json_writer *out, const struct generation *generation, tg_ms now,
                           size_t most);
void snapshot_write_keys(struct json_writer *out, const struct generation *generation, tg_ms now,
                         size_t most);
void snapshot_write_budgets(struct json_writer *out, struct gateway *gateway,
                            const struct generation *generation, tg_ms now, size_t most);
void snapshot_write_tenants(struct json_writer *out, const struct snapshot_memory *memory,
                            const struct generation *generation, size_t most);

/* The topmost of a tenant's parents, or itself: whose budgets are kept together. */
const char *snapshot_root(const struct config *config, const struct config_tenant *tenant);

/* "fleet": how this gateway stands to the others. */
void snapshot_write_fleet(struct json_writer *out, struct gateway *gateway);

/* {"high":..,"normal":..,"low":..} */
void snapshot_write_queued(struct json_writer *out, const struct tg_gate_stats *stats);

#endif
