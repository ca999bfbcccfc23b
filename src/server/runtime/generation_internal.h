/* generation_internal.h - the parts that a generation is made of. Private to generation*.c. */
#ifndef TG_RUNTIME_GENERATION_INTERNAL_H
#define TG_RUNTIME_GENERATION_INTERNAL_H

#include "server/runtime/generation.h"

/* The pool of a provider for calls without a model: a name that no model can have. */
#define NO_MODEL "\n"

/* "what: text", and false. */
bool generation_say(struct tg_problem *problem, const char *what, const char *text);

/* The keyring of the gateway becomes what the configuration says, and keys belong to this
 * generation. */
bool generation_set_ring(struct generation *generation, tg_ms now, struct tg_problem *problem);

/* The gateway's gates, and those of its routes. */
bool generation_set_gates(struct generation *generation, tg_ms now, struct tg_problem *problem);

/* The budgets of the configuration, into the gateway's books. */
bool generation_set_budgets(struct generation *generation, tg_ms now, struct tg_problem *problem);

#endif
