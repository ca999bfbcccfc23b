/* protect_grpc.h - what a protected route says and hears in the words of gRPC. */
#ifndef TG_PROTECT_PROTECT_GRPC_H
#define TG_PROTECT_PROTECT_GRPC_H

#include "io/grpc/grpc_codec.h"
#include "io/http/http_server.h"
#include "server/dialect/replies.h"

/* Whether a request is an RPC: by its content type, whatever its messages are encoded in. */
bool protect_is_grpc(const struct http_head *head);

/* When its client stops waiting, as it says; 0: it does not. */
tg_ms protect_grpc_deadline(const struct http_head *head, tg_ms now);

/* What is left of it, to be passed on as `grpc-timeout`. */
#define PROTECT_GRPC_TIMEOUT_MAX 24
struct slice protect_grpc_timeout(tg_ms left, char text[PROTECT_GRPC_TIMEOUT_MAX]);

/* Ends a reply that has begun, with a status of ours behind what there was of it. */
void protect_grpc_end(struct http_inbound *in, enum grpc_code code, struct slice text);

/* Answers with a status and no message. `late`: its deadline has come. */
void protect_grpc_refuse(struct http_inbound *in, const struct refusal *why, bool late, tg_ms now,
                         uint64_t random, struct slice id);

/* What the law of the gate is told of an RPC that has ended with this `grpc-status`; empty: with
 * none. */
enum tg_outcome protect_grpc_outcome(struct slice status);

/* The same of one that its upstream has reset, with this code of HTTP/2. */
enum tg_outcome protect_grpc_reset_outcome(uint32_t code);

#endif
