/* grpc_server.h - services of gRPC on a listener: a table of methods, and one struct for an RPC.
 *
 *     begin -> message ... -> end       what arrives
 *     grpc_send ..., grpc_finish        what goes back, at any time after begin
 *     cancel                            instead of a finish of the owner's: the client has left, or
 *                                       its deadline has come, or what it sent is no gRPC
 *
 * Framing, codec, statuses, deadlines and headers of the protocol are done below this line; what an
 * RPC means is above it. The transport is that of io/http/http_server.h.
 *
 *     grpc_server   RPCs from begin to gone       grpc_frame   messages out of bytes
 *     grpc_reply    messages and statuses out     grpc_codec   codes, timeouts, paths
 *     grpc_cut      strings with a zero in them   grpc_arena   memory for one message
 *     grpc_inflate  messages that are compressed  grpc_retry   when to come back
 *
 * Messages that arrive are unpacked into an arena that is emptied when the callback returns: what
 * an owner wants to keep it copies. Messages that arrive together are answered together: what is
 * sent from inside message() goes out as one write.
 *
 * A server belongs to one loop. Callbacks come from the loop, never from inside a call of the
 * owner's, but for drain(). After grpc_finish() there are no more of them, and calls for the RPC do
 * nothing; its struct is there until the callback ends.
 */
#ifndef TG_GRPC_GRPC_SERVER_H
#define TG_GRPC_GRPC_SERVER_H

#include <protobuf-c/protobuf-c.h>
#include <sys/queue.h>

#include "io/grpc/grpc_codec.h"
#include "io/grpc/grpc_frame.h"
#include "io/http/http_server.h"
#include "io/net/loop.h"

#define GRPC_MESSAGE_MAX ((size_t)64 << 10) /* bytes of one that arrives; beyond: an error */
#define GRPC_STATE_BYTES 256                /* for the owner of an RPC */
#define GRPC_TRAILERS_MAX 12                /* trailers that an owner may add */

struct grpc_call;
struct grpc_server;

/* One RPC of a service. */
struct grpc_method {
    const char *name; /* "Admit" */
    const ProtobufCMessageDescriptor *request;
    bool many; /* the client may send any number of messages, each is given out as it comes. If not:
                  exactly one, given out when the client has said that it was all */

    /* Who is asking; a refusal here is seen before the message is. May be null. */
    void (*begin)(struct grpc_call *call);
    void (*message)(struct grpc_call *call, const ProtobufCMessage *message);
    /* No more messages come, for `many` alone. Null: the RPC is finished with GRPC_OK. */
    void (*end)(struct grpc_call *call);
    /* grpc_has_room() was false and is true again. May be null. */
    void (*room)(struct grpc_call *call);
    /* Gives back what is held, and sends nothing. May be null. */
    void (*cancel)(struct grpc_call *call);
    /* It was finished, but the client left before it was sent all of it. May be null. */
    void (*lost)(struct grpc_call *call);
    /* The server ends: what would go on for ever is to be finished soon. Null: it ends anyway. */
    void (*drain)(struct grpc_call *call);
};

struct grpc_service {
    const char *name; /* "tollgate.v1.Admission" */
    const struct grpc_method *methods;
    size_t n_methods;
};

struct grpc_server_options {
    struct net_loop *loop;
    const struct grpc_service *const *services; /* static */
    size_t n_services;
    void *context; /* for all calls: grpc_context() */
};

/* TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err grpc_server_new(const struct grpc_server_options *options,
                                          struct grpc_server **server);

/* Its listener has been freed. */
void grpc_server_free(struct grpc_server *server);

/* Tells every RPC that runs. */
void grpc_server_drain(struct grpc_server *server);

/* For the listener's ops; the owner's begin() says which server it is. */
void grpc_server_begin(struct grpc_server *server, struct http_inbound *in);
void grpc_server_data(struct http_inbound *in, struct slice bytes);
void grpc_server_end(struct http_inbound *in);
void grpc_server_room(struct http_inbound *in);
void grpc_server_gone(struct http_inbound *in, enum http_why why);

/* ---- One RPC --------------------------------------------------------------------------------- */

/* Its storage is the server's, and goes when the exchange does. */
struct grpc_call {
    struct grpc_server *server;
    const struct grpc_method *method;
    struct http_inbound *in;     /* the metadata is its head */
    LIST_ENTRY(grpc_call) among; /* all that run, or all that are spare */
    tg_ms deadline;              /* by the client's grpc-timeout; 0: none */
    struct net_timer timer;      /* fires at the deadline */
    bool replied;                /* the head has gone out */
    bool finished;
    bool stuck;        /* output is above its high mark */
    bool held;         /* the owner wants no more messages for now */
    size_t n_messages; /* messages that have arrived */
    bool first_compressed;
    struct slice
        first;       /* the only message of an RPC with one: in `frames` until the client's end */
    const char *cut; /* in message(): a field whose text has a zero byte in it, and so ends too
                           early; null: there is none */
    struct grpc_frames frames;
    _Alignas(16) char state[GRPC_STATE_BYTES]; /* free for the owner; zero at begin() */
};

void *grpc_context(const struct grpc_call *call);
tg_ms grpc_now(const struct grpc_call *call);

/* The first value of that name, in lower case; `at` is null if there is none. */
static inline struct slice grpc_metadata(const struct grpc_call *call, struct slice name)
{
    return http_find(&call->in->head, name);
}

/* The head of the reply, before there is a message: so a client knows that a stream has begun. */
void grpc_start(struct grpc_call *call);

/* One message. False: it could not be sent, for there is no memory; cancel() has been called, and
 * the RPC is finished with GRPC_RESOURCE_EXHAUSTED. */
bool grpc_send(struct grpc_call *call, const ProtobufCMessage *message);

/* The same for a message that is known to take at most so many bytes: then nobody has to measure it
 * first, which takes as long as packing it. */
bool grpc_send_within(struct grpc_call *call, const ProtobufCMessage *message, size_t most);

/* Ends the RPC. `text` is for people, null or "" for none. */
void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *text);

/* The same with more trailers; those beyond GRPC_TRAILERS_MAX are left out. */
void grpc_finish_with(struct grpc_call *call, enum grpc_code code, const char *text,
                      const struct http_field *trailers, size_t n);

/* grpc_send() and grpc_finish() with GRPC_OK. */
void grpc_reply(struct grpc_call *call, const ProtobufCMessage *message);

/* The client takes what is sent. If not, whoever has more waits for room(); what is sent anyway is
 * kept in memory. While a client of a stream does not read, no messages of its are read either. */
bool grpc_has_room(const struct grpc_call *call);

/* No more messages, until it is called with false. Those that have arrived already still come. */
void grpc_hold(struct grpc_call *call, bool hold);

#endif
