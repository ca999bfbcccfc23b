/* relay.h - requests that still come to a process which another has taken over from.
 *
 * They are sent on as they are to the process that serves now, which decides about them: this one
 * decides about nothing any more. That one learns from a field who the client is, and believes it
 * only on the socket that it has made for this.
 */
#ifndef TG_SERVE_RELAY_H
#define TG_SERVE_RELAY_H

#include "io/http/http_client.h"
#include "io/http/http_server.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"

extern const struct service relay_service; /* owns what is relayed; not in the table */

void relay_begin(struct worker *worker, struct http_inbound *in, struct http_origin *to);

/* At the other end: whose request this is. */
void relay_read(struct http_inbound *in);

#endif
