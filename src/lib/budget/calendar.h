/* calendar.h - what the bank wants to know of zones. */
#ifndef TG_BUDGET_CALENDAR_H
#define TG_BUDGET_CALENDAR_H

#include "tollgate.h"

/* Offsets lie between these; the largest ever used were below 16 hours. */
#define ZONE_OFFSET_MAX_S (26 * 3600 - 1)

/* What is wrong with a zone; null: nothing, or there is none. */
const char *zone_complaint(const struct tg_zone *zone);

#endif
