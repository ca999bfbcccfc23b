/* grpc_internal.h - a server of gRPC, for the files of this folder. See grpc_server.h. */
#ifndef TG_GRPC_GRPC_INTERNAL_H
#define TG_GRPC_GRPC_INTERNAL_H

#include "io/grpc/grpc_arena.h"
#include "io/grpc/grpc_inflate.h"
#include "io/grpc/grpc_server.h"

#define GRPC_TEXT_MAX 1024 /* bytes of a message in a trailer */

struct grpc_server {
    struct grpc_server_options options;
    LIST_HEAD(, grpc_call) running;
    LIST_HEAD(, grpc_call) spare; /* structs to be used again */
    size_t n_spare;
    size_t left;               /* bytes that messages may still take which have not arrived whole */
    struct grpc_call *reading; /* the RPC whose messages are being given out; null: none */
    struct grpc_arena arena;   /* holds the message that is given out */
    struct grpc_inflate *inflate; /* null: nothing compressed has arrived yet */
    char *out;                    /* messages packed for `reading`, and not written yet */
    size_t out_n, out_capacity;
};

/* ---- grpc_server.c */

/* Ends an RPC without its owner: cancel(), and a status. */
void grpc_fail(struct grpc_call *call, enum grpc_code code, const char *text);

/* ---- grpc_cut.c */

/* The name of a field whose text has a zero byte in it; null: there is none. */
const char *grpc_find_cut(const ProtobufCMessageDescriptor *type, struct slice message);

/* ---- grpc_reply.c */

/* Writes what is packed. */
void grpc_flush(struct grpc_call *call);

/* Reads on, or not: after `held` or `stuck` have changed. */
void grpc_choose_pace(struct grpc_call *call);

#endif
