/* rpc.h - the gRPC services of a worker, on listen.grpc.
 *
 *     tollgate.v1.Admission     rpc_admission.c, rpc_stream.c     over admit.h
 *     tollgate.v1.Monitor       rpc_monitor.c, rpc_snapshot.c     over watch, snapshot
 *     grpc.health.v1.Health     rpc_health.c
 *     envoy.service.ratelimit.v3.RateLimitService   rpc_envoy.c   over envoy_rls.h
 *
 * Adaptors: each takes a message apart, asks what the rest of the gateway asks too, and puts an
 * answer together. What they mean is said in proto/.
 *
 * Everything here belongs to the worker's thread.
 */
#ifndef TG_SERVE_RPC_H
#define TG_SERVE_RPC_H

#include "io/http/http_server.h"

struct rpc;
struct worker;

/* False: no memory. */
bool rpc_new(struct worker *worker, struct rpc **rpc);

/* The listener has been freed, and the control thread has ended. */
void rpc_free(struct rpc *rpc);

/* The gateway takes no more: streams come to their end. */
void rpc_drain(struct rpc *rpc);

/* Of the listener; its context is the struct rpc. */
extern const struct http_server_ops rpc_server_ops;

#endif
