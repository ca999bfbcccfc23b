/* admit_api.h - the Admit service as JSON over HTTP, on the gateway's own listener.
 *
 *     POST /tollgate/v1/admit, /release, /heartbeat, /peek      JSON in, JSON out
 *     GET  /tollgate/v1/admit?tenant=...                        204 or 403, for nginx auth_request
 *
 * docs/api.md has the messages. Without `callers` in the configuration there is nothing here, and
 * the paths are anybody's.
 */
#ifndef TG_ADMIT_ADMIT_API_H
#define TG_ADMIT_ADMIT_API_H

#include "server/runtime/worker.h"

/* Whether a request is for us; then takes the exchange over, from begin() of the listener to
 * gone(). */
bool admit_api_begin(struct worker *worker, struct http_inbound *in);

#endif
