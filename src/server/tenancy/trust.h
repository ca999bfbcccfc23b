/* trust.h - whose statements about priority and peer are believed, and what they state.
 *
 * An identity or a class out of a header that anybody can send is worth nothing: these are read
 * only after trust_covers() has said yes to the address that the connection came from.
 */
#ifndef TG_TENANCY_TRUST_H
#define TG_TENANCY_TRUST_H

#include <sys/socket.h>

#include "io/http/http.h"
#include "server/config/config.h"

/* Whether an address is in `trust_headers_from`. An IPv4 address that reached a socket of IPv6
 * (::ffff:a.b.c.d) counts as what it is. A local socket has no address and is in no range. */
bool trust_covers(const struct config *config, const struct sockaddr *address);

/* What x-tollgate-priority says, or else x-deriva-priority: high, normal or low. */
enum tg_priority trust_priority(const struct http_head *head, enum tg_priority otherwise);

/* The same from anybody: whoever asks may put itself behind others, never before them. */
enum tg_priority trust_lower_priority(const struct http_head *head, enum tg_priority highest);

/* What x-deriva-node-id says; empty: nothing, or more than TRUST_NODE_MAX bytes. */
#define TRUST_NODE_MAX 256
struct slice trust_node(const struct http_head *head);

#endif
