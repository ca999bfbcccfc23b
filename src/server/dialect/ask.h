/* ask.h - what a call asks for: its endpoint, and the few fields of its body that we act on.
 *
 *     struct endpoint_match match = endpoint_of(head->method, head->target);
 *     ...
 *     if (!ask_read(reader, match.endpoint, body, n, n + JSON_PADDING, &ask, &problem))
 *         ... 400, problem.param and problem.text
 *
 * What is read here must be what the provider reads, so a body that two programs could read
 * differently is refused: see ask_read.c. Pure functions; a reader belongs to one thread.
 *
 * The room: what the providers' APIs look like. Nothing here waits, opens a connection or reads a
 * clock.
 *
 *     request    endpoint.c       which call a request line is
 *                request_head.c   what its head has to be like
 *                ask_read.c       what its body asks for                        this header
 *                ask_watch.c      what it has of the fields that rules name
 *                estimate.c       how many tokens it may take
 *                body_edit.c      the body as it is sent on
 *     reply      usage.c          what a usage object says
 *                usage_scan.c     finds it in a reply that passes by in pieces
 *                sse.c, meter.c   a streamed reply: its events, and what they have used
 *     refusal    replies.c        what a client is answered, by reason and API
 *                limit_headers.c  what a success says about limits
 *                upstream_wait.c  how long a provider wants us to wait, and how many it will take
 */
#ifndef TG_DIALECT_ASK_H
#define TG_DIALECT_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http/http.h"
#include "io/text/json_read.h"

/* ---- Endpoints ------------------------------------------------------------------------------- */

enum wire_api { WIRE_OPENAI, WIRE_ANTHROPIC };

enum endpoint {
    ENDPOINT_NONE,         /* no path of ours: 404, or a passthrough */
    ENDPOINT_CHAT,         /* POST /v1/chat/completions */
    ENDPOINT_COMPLETIONS,  /* POST /v1/completions */
    ENDPOINT_RESPONSES,    /* POST /v1/responses */
    ENDPOINT_EMBEDDINGS,   /* POST /v1/embeddings */
    ENDPOINT_MESSAGES,     /* POST /v1/messages */
    ENDPOINT_COUNT_TOKENS, /* POST /v1/messages/count_tokens */
    ENDPOINT_MODELS,       /* GET /v1/models */
    ENDPOINT_MODEL,        /* GET /v1/models/{id} */
    ENDPOINT_COUNT
};

struct endpoint_match {
    enum endpoint endpoint;
    bool method_ok;     /* false: 405, with `allow` */
    const char *allow;  /* "POST" or "GET"; null for ENDPOINT_NONE */
    struct slice model; /* ENDPOINT_MODEL: the id in the target, still percent-encoded */
};

/* The target may have a query, which is ignored. Paths are compared byte by byte. */
struct endpoint_match endpoint_of(struct slice method, struct slice target);

/* ENDPOINT_NONE, MODELS and MODEL have OpenAI's form; an `anthropic-version` header may say
 * otherwise, which is for the caller to check. */
enum wire_api endpoint_api(enum endpoint endpoint);

/* The path without a query: "/v1/messages". Null for NONE and MODEL. Static. */
const char *endpoint_path(enum endpoint endpoint);

/* "chat", "messages", ... for logs and metrics. Static. */
const char *endpoint_name(enum endpoint endpoint);

/* Resolves %XX in a part of a path. False: a bad escape, a zero, or longer than `size`. */
bool endpoint_unescape(struct slice part, char *text, size_t size, size_t *n);

/* ---- The body -------------------------------------------------------------------------------- */

#define ASK_TEXT_MAX 256         /* bytes of a name */
#define ASK_DEPTH_MAX 128        /* objects and arrays within one another */
#define ASK_KEYS_MAX (1 << 16)   /* keys of all objects together */
#define ASK_VALUES_MAX (1 << 20) /* values: what is in objects and arrays, and they themselves */

/* A name out of the body, unescaped; n is 0 where there was none. Longer than ASK_TEXT_MAX is an
 * error for a model; in any other name a hash replaces the end, so that two that differ still do.
 */
struct ask_text {
    size_t n;
    char at[ASK_TEXT_MAX];
};

static inline struct slice ask_slice(const struct ask_text *text)
{
    return (struct slice){text->at, text->n};
}

/* Bytes of the body, as it was sent. n is 0 for what is not there. */
struct ask_span {
    size_t at, n;
};

/* A key that bounds the output. Chat has two: providers take `max_completion_tokens` where both are
 * given, some refuse, some take the other: the larger one counts, and both are clamped. */
struct ask_bound {
    const char *name;     /* the key; null: the body has none. Static */
    int64_t value;        /* -1: null was written, which bounds nothing */
    struct ask_span span; /* where the value is */
};

#define ASK_BOUNDS_MAX 2

struct ask {
    enum endpoint endpoint;
    size_t body_bytes;

    struct ask_text model;
    struct ask_span model_span; /* where the string is, with its quotes */

    bool stream;
    bool include_usage;                 /* stream_options.include_usage is true */
    struct ask_span stream_options;     /* null: its 4 bytes; an object: its "{" alone */
    bool stream_options_empty;          /* "{}", maybe with blanks in it */
    struct ask_span include_usage_span; /* where the value is */

    struct ask_bound bounds[ASK_BOUNDS_MAX];
    int64_t max_output; /* tokens of one choice: the largest bound; -1: the call does not say */
    int64_t choices;    /* how many outputs are made: the larger of n and best_of; 1 or more */
    bool background;    /* responses: the reply comes before the work is done, without usage */

    /* The prompt: messages, system, instructions, input, tools, schemas. */
    int64_t text_bytes;            /* text, unescaped; tools and schemas as compact JSON */
    int64_t token_ids;             /* a prompt can be given as these */
    int64_t messages;              /* or items, each of which costs a few tokens of its own */
    int64_t images, audios, files; /* whatever their size: payloads are not text */
    int64_t media_bytes;           /* payloads within the body, in their encoded form */
    int64_t file_bytes;            /* the part of media_bytes that is in files */

    /* Calls that belong together. */
    struct ask_text previous_response_id;
    struct ask_text prompt_cache_key;
    struct ask_text conversation;      /* the id of a conversation of the responses API */
    struct ask_text user;              /* `user`, or Anthropic's metadata.user_id */
    struct ask_text safety_identifier; /* who asks, in newer calls; see `user` */

    size_t root_at; /* where the body's "{" is: new keys go behind it; there is always another */
};

struct ask_problem {
    char param[64]; /* the field that is wrong, "stream_options.include_usage"; may be "" */
    char text[240]; /* for people; what it quotes of the body is printable ASCII */
    bool too_many;  /* the body has more values than were allowed */
};

/* Reads the body of a call, `n` bytes, of which `readable` may be read: if these are JSON_PADDING
 * more than n (whatever they hold) nothing is copied. The ask holds nothing of the body or reader.
 *
 * False: the body is no JSON object, not UTF-8, has a key twice in one object or one that is read
 * in other letters; is nested deeper than ASK_DEPTH_MAX, has more than ASK_VALUES_MAX values, has
 * no model, or a field that we act on has a wrong type or is out of range; `ask` then holds nothing
 * of use. ENDPOINT_NONE, MODELS and MODEL have no body: false. */
bool ask_read(struct json_reader *reader, enum endpoint endpoint, const char *body, size_t n,
              size_t readable, struct ask *ask, struct ask_problem *problem);

/* The same for a body of at most so many values, and says what the body has of the fields of
 * `watch` (ask_watch.h): `seen` has one for each of them. Null: of none. */
struct ask_watch;
struct ask_seen;
bool ask_read_watching(struct json_reader *reader, size_t values, enum endpoint endpoint,
                       const char *body, size_t n, size_t readable, const struct ask_watch *watch,
                       struct ask_seen *seen, struct ask *ask, struct ask_problem *problem);

#endif
