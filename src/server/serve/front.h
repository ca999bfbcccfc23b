/* front.h - decides which service owns a request, and hands its events to the owner.
 *
 *     listen.gateway:  begin --> the first service on this listener that takes it
 *     listen.grpc:     begin --> an RPC of a service?  the gRPC server (runtime/rpc.h)
 *                            `-> else the first service on this listener that takes it
 *                            `-> else the gRPC server, which answers UNIMPLEMENTED
 *
 *     data, end, room, gone --> the owner
 *
 * in->owner points to a struct of the owner's, whose first member points to its struct service; or
 * it is a struct grpc_call, whose first member points to the gRPC server; or null: there was no
 * memory for the request, which is being aborted.
 *
 * The context of both listeners is the worker, and everything here is on its thread.
 */
#ifndef TG_SERVE_FRONT_H
#define TG_SERVE_FRONT_H

#include "io/http/http_server.h"

extern const struct http_server_ops front_gateway_ops, front_grpc_ops;

/* The same for requests that another process relays: relay.h. */
extern const struct http_server_ops front_relayed_ops, front_relayed_grpc_ops;

#endif
