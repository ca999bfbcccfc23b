/* admit_write.h - answers of the Admit service in JSON: see docs/api.md. */
#ifndef TG_ADMIT_ADMIT_WRITE_H
#define TG_ADMIT_ADMIT_WRITE_H

#include "io/text/json_write.h"
#include "server/admit/admit.h"

/* The reply must be ADMIT_DECIDED. */
void admit_write_reply(struct json_writer *out, const struct admit_reply *reply);

void admit_write_release(struct json_writer *out, bool found);
void admit_write_heartbeat(struct json_writer *out, const struct slice *leases, const bool *live,
                           size_t n, tg_ms next_deadline);

#endif
