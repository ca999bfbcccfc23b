/* model_traits.h - what models are known to take that others of their dialect do not, by name. */
#ifndef TG_NEUTRAL_MODEL_TRAITS_H
#define TG_NEUTRAL_MODEL_TRAITS_H

#include "server/dialect/neutral/neutral.h"

struct model_traits {
    enum neutral_thinking thinking;
    bool fixed_sampling;
};

/* What a model takes, by the name that its provider has for it, whatever stands around that. One
 * that is not known is taken for one of the newest that take everything. */
struct model_traits model_traits_of(const char *name);

#endif
