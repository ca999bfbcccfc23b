/* generation_internal.h - the parts that a generation is made of. Private to generation*.c. */
#ifndef TG_RUNTIME_GENERATION_INTERNAL_H
#define TG_RUNTIME_GENERATION_INTERNAL_H

#include "server/runtime/generation.h"

/* The pool of a provider for calls without a model: a name that no model can have. */
#define NO_MODEL "\n"

/* The keyring of the gateway becomes what the configuration says, and keys belong to this
 * generation. */
bool generation_set_ring(struct generation *generation, tg_ms now, struct tg_problem *problem);

/* The same model of the same provider, in the generation before; null: there is none. */
const struct route *generation_route_before(const struct generation *before,
                                            const struct route *route);

/* ---- generation_slots.c ---- */

/* Slots of models, protected routes and callers: those of the generation before, or new ones. */
bool generation_make_slots(struct generation *generation, const struct generation *before,
                           struct tg_problem *problem);

/* They take the settings of this generation. */
bool generation_set_slots(struct generation *generation, tg_ms now, struct tg_problem *problem);

void generation_free_slots(struct generation *generation);

/* ---- */

/* The budgets of the configuration, into the gateway's books, with those of keys that the
 * generation before it (null: none) had: its calls go on for a while. */
bool generation_set_budgets(struct generation *generation, const struct generation *before,
                            tg_ms now, struct tg_problem *problem);

/* The same budgets, with what the ledger says now: after somebody else has written to it. */
bool generation_read_budgets(struct generation *generation, tg_ms now, struct tg_problem *problem);

#endif
