/* net_rpc_kit.h - RPCs without a socket: what a server of gRPC is told, and what it says.
 *
 * An exchange whose transport is none: heads, bytes and trailers that go back are written down, and
 * the test says how many bytes the client has not taken.
 */
#ifndef NET_RPC_KIT_H
#define NET_RPC_KIT_H

#include <protobuf-c/protobuf-c.h>

#include "check.h"
#include "io/grpc/grpc_server.h"

#define RPC_KIT_FIELDS 8

struct rpc_exchange {
    struct http_inbound in; /* first */
    struct http_field fields[RPC_KIT_FIELDS];
    size_t queued; /* what the client has not taken */
    int status;    /* HTTP status; 0: no head yet */
    int code;      /* gRPC status; -1: none yet */
    bool alone;    /* head and status were one: "Trailers-Only" */
    bool finished, paused;
    char said[2000]; /* all fields that went back, "name: value\n" */
    char *body;
    size_t n;    /* bytes of it */
    size_t read; /* by rpc_next() */
    int writes;
};

/* A request of HTTP/2 with these fields ("name: value", null at the end) and the content type. */
void rpc_open(struct rpc_exchange *exchange, struct grpc_server *server, const char *path,
              const char *const *fields);

/* The same head, to be changed, and begun by grpc_server_begin(). */
void rpc_prepare(struct rpc_exchange *exchange, const char *path, const char *const *fields);

/* Some bytes as they are; and a message in its frame, in pieces of at most so many bytes. */
void rpc_put(struct rpc_exchange *exchange, const void *bytes, size_t n);
void rpc_put_message(struct rpc_exchange *exchange, const ProtobufCMessage *message, size_t piece);

/* The client has sent all; has taken all that waits; has left, or has got the end. */
void rpc_end(struct rpc_exchange *exchange);
void rpc_take(struct rpc_exchange *exchange);
void rpc_close(struct rpc_exchange *exchange);

/* open, one message, end. */
void rpc_ask(struct rpc_exchange *exchange, struct grpc_server *server, const char *path,
             const char *const *fields, const ProtobufCMessage *message);

/* The next message that went back, to be freed; null: there is none. */
ProtobufCMessage *rpc_next(struct rpc_exchange *exchange,
                           const ProtobufCMessageDescriptor *descriptor);

bool rpc_said(const struct rpc_exchange *exchange, const char *text);

#endif
