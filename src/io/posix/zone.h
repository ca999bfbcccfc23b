/* zone.h - a named time zone, read from the system's files.
 *
 *     struct tg_zone zone;
 *     err = zone_read("Europe/Berlin", &zone, &problem);
 *     ...
 *     zone_fini(&zone);
 *
 * A zone that was read does not change when its file does.
 */
#ifndef TG_POSIX_ZONE_H
#define TG_POSIX_ZONE_H

#include "tollgate.h"

/* The changes from 1970 to the end of 2100; after that, the last one's offset stays. "UTC" needs no
 * file. Files are looked for in the folder that $TZDIR names, else in /usr/share/zoneinfo.
 *
 * TG_ERR_INVALID: no name of a zone. TG_ERR_UNKNOWN: no such file. TG_ERR_STORE: it cannot be read,
 * or is not what it should be. TG_ERR_MEMORY. `problem` names the zone. */
TG_MUST_CHECK enum tg_err zone_read(const char *name, struct tg_zone *zone,
                                    struct tg_problem *problem);
void zone_fini(struct tg_zone *zone);

#endif
