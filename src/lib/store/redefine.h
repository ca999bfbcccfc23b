/* redefine.h - carrying what was counted under some limits over to others. For this room. */
#ifndef TG_STORE_REDEFINE_H
#define TG_STORE_REDEFINE_H

#include "lib/store/limit_set.h"

/* The states of one key under other limits: what was counted stays counted. */
void redefine_carry(const struct limit_set *from, const struct limit_set *to, const void *counted,
                    void *states, tg_ms now);

#endif
