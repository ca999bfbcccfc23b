/* protect_grpc.h - RPCs on a protected route: deadlines, refusals and outcomes by gRPC status. */
#ifndef TG_PROTECT_PROTECT_GRPC_H
#define TG_PROTECT_PROTECT_GRPC_H

#include "io/grpc/grpc_codec.h"
#include "io/http/http_server.h"
#include "server/dialect/replies.h"

/* Whether a request is an RPC: by its content type, whatever its messages are encoded in. */
bool protect_is_grpc(const struct http_head *head);

/* The deadline that the client states; 0: none. */
tg_ms protect_grpc_deadline(const struct http_head *head, tg_ms now);

/* What is left of the deadline, to be forwarded as `grpc-timeout`. */
#define PROTECT_GRPC_TIMEOUT_MAX 24
struct slice protect_grpc_timeout(tg_ms left, char text[PROTECT_GRPC_TIMEOUT_MAX]);

/* Ends a reply that has begun, with a status of ours in its trailers. */
void protect_grpc_end(struct http_inbound *in, enum grpc_code code, struct slice text);

/* Answers with a status and no message. `limits`: what they say, maybe nothing. `late`: its
 * deadline has come. */
void protect_grpc_refuse(struct http_inbound *in, const struct refusal *why,
                         const struct reply_limits *limits, bool late, tg_ms now, uint64_t random,
                         struct slice id);

/* The outcome, for the gate's law, of an RPC that has ended with this `grpc-status`; empty: without
 * one. `has_deadline`: the client has stated one, which the upstream was told. */
enum tg_outcome protect_grpc_outcome(struct slice status, bool has_deadline);

/* The same for an RPC that its upstream has reset, with this code of HTTP/2. */
enum tg_outcome protect_grpc_reset_outcome(uint32_t code);

#endif
