/* dialects.h - the table of dialects. */
#ifndef TG_TRANSLATE_DIALECTS_H
#define TG_TRANSLATE_DIALECTS_H

#include "server/dialect/neutral/dialect_ops.h"

const struct dialect_ops *dialect_find(enum dialect dialect);

#endif
