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
 *                ask_types.c      types of tools and parts that it knows
 *                ask_watch.c      what it has of the fields that rules name
 *                media_size.c     how large its images and recordings are
 *                estimate.c       how many tokens it is likely to take
 *                bound.c          how many it can take at most, for money
 *                prefix.c         what a provider has counted of its messages before
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
#include "io/text/normal_length.h"

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

/* Whether a POST to the path starts work that goes on after its reply, and is billed then: batches,
 * fine-tuning, runs of assistants, evaluations, videos. */
bool endpoint_starts_work(struct slice path);

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

/* ---- What moves a bill ----------------------------------------------------------------------- */

/* Features of a call, bits of ask.features. Those from ASK_STORED on bring in what is not in the
 * body; those from ASK_MODELS on make bills that no field of the call bounds. */
#define ASK_CACHE (1u << 0)        /* cache_control, prompt_cache_options, ... */
#define ASK_CACHE_LONG (1u << 1)   /* with a time to live above 30 minutes, or one unknown to us */
#define ASK_AUDIO_OUT (1u << 2)    /* modalities, audio */
#define ASK_IMAGE_OUT (1u << 3)    /* modalities */
#define ASK_COMPACTION (1u << 4)   /* context_management that makes passes of its own */
#define ASK_EDITS (1u << 5)        /* context_management, truncation: parts of a prompt left out */
#define ASK_NEW_KEY (1u << 6)      /* a top-level key that we do not know: ask.new_key */
#define ASK_NEW_PART (1u << 7)     /* a part or item of a type that we do not know */
#define ASK_STORED (1u << 8)       /* previous_response_id: never changes once it is there */
#define ASK_CONVERSATION (1u << 9) /* these may change from call to call */
#define ASK_TEMPLATE (1u << 10)    /* prompt: {id} */
#define ASK_THREAD (1u << 11)
#define ASK_CONTAINER (1u << 12)
#define ASK_CACHED_CONTENT (1u << 13)
#define ASK_ITEM (1u << 14)   /* item_reference */
#define ASK_MODELS (1u << 15) /* models, route, plugins: the host chooses what is run */
#define ASK_FALLBACKS (1u << 16)
#define ASK_ADVISOR (1u << 17)     /* a tool that is a dearer model */
#define ASK_PRO (1u << 18)         /* reasoning.mode other than "standard" */
#define ASK_CODE (1u << 19)        /* containers, billed by time */
#define ASK_IMAGE_TOOL (1u << 20)  /* images by another model */
#define ASK_MCP_SERVERS (1u << 21) /* mcp_servers: nothing bounds their calls */
#define ASK_SEARCH (1u << 22)   /* web_search_options, googleSearch: nothing bounds the queries */
#define ASK_NEW_TOOL (1u << 23) /* a tool of a type that we do not know: ask.new_tool */
#define ASK_USES (1u << 24)     /* a tool that the provider runs, without max_uses */

enum ask_detail {
    ASK_DETAIL_NONE, /* absent, "auto", or another word */
    ASK_DETAIL_LOW,
    ASK_DETAIL_HIGH,
    ASK_DETAIL_ORIGINAL,
};

/* Images of one size. */
struct ask_image {
    uint32_t width, height;
    enum ask_detail detail;
    int64_t count;
};

#define ASK_IMAGE_SIZES 16

/* A short word: service_tier and the like. One that does not fit is "?". */
struct ask_word {
    char at[24]; /* "": absent */
};

/* A prompt, as far as it has been walked. Unlike text_bytes and the others, which are for an
 * estimate, this leaves out nothing that a model could be shown: names, roles and ids count, too.
 */
struct ask_measure {
    struct normal_length text; /* strings; and `data` as JSON with an indent of 4 */
    int64_t data_bytes;        /* tools, schemas and arguments, as they were sent */
    int64_t token_ids;
    int64_t messages; /* or items */
    int64_t parts;    /* objects within messages, and each of several texts */
    int64_t images;   /* whatever their size */
    int64_t files;    /* and recordings without a length: what is in them is not known */
    int64_t recalled; /* items of replies whose text the provider has, and may show again */
};

/* Where an earlier call may have ended: before the first message of a reply. */
struct ask_prefix {
    uint32_t end; /* offset behind the last message in it */
    struct ask_measure measure;
};

/* A field outside of the messages that a prompt depends on. */
struct ask_frame {
    uint32_t at, n; /* its value in the body */
    uint32_t field; /* which one it is */
};

#define ASK_PREFIXES 8 /* the last ones of a body */
#define ASK_FRAMES 24
#define ASK_PREFIX_LEAST 4096 /* bytes of messages; a shorter prompt is bounded well enough */

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
    int64_t max_output; /* tokens of one choice: the largest bound; -1: the call does not say, or
                           says 0, which many servers take for no bound. To Anthropic 0 is 0 */
    int64_t choices;    /* how many outputs are made: the larger of n and best_of; 1 or more */
    int64_t prompts;    /* texts or lists of tokens that each get these; 1 or more */
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

    /* What moves the bill, for bound.h and rules. */
    unsigned features;               /* ASK_CACHE and the like */
    struct ask_measure measure;      /* the whole prompt */
    struct normal_length prediction; /* text of it that may be billed as output, too */
    size_t n_sizes;                  /* entries of `sizes` */
    int64_t images_unknown;          /* images whose size is not */
    int64_t by_address;              /* images and files that may be others in the next call */
    int64_t audio_ms;                /* recordings whose length is known, together */
    int64_t tools, schemas;          /* schemas: of the output */
    int64_t tool_prompt;             /* tokens that known types of tools bring along */
    int64_t hosted_tools;            /* tools that the provider runs */
    int64_t max_uses;                /* how often at most they are used together */
    int64_t max_tool_calls;          /* bound of a whole response; -1: none */
    int64_t compact_above;           /* tokens above which a prompt is compacted; -1: none given */
    int64_t data_depth;              /* how deep tools, schemas and arguments are nested */
    struct ask_word service_tier, speed, inference_geo;
    struct ask_word new_key, new_tool; /* names of the first ones, for a message */

    /* The messages' bytes and where they could be cut, for prefix.h. */
    uint32_t messages_at, messages_end;  /* 0: none */
    struct ask_measure messages_measure; /* the prompt at messages_end */
    size_t n_prefixes;                   /* all there were */
    size_t n_frames;                     /* ASK_FRAMES + 1: more than that */

    /* What prefix.h found, and what the reply will tell. */
    uint64_t prefix_hash[2];  /* all messages, under the frames; 0, 0: not computed */
    int64_t known_tokens;     /* tokens of a prefix that the provider has counted; -1: none */
    int64_t stored_tokens;    /* the most that previous_response_id stands for; -1: not known */
    struct ask_measure known; /* the prompt up to its end */

    size_t root_at; /* where the body's "{" is: new keys go behind it; there is always another */

    /* Only as much of these is set as the counts above say. */
    struct ask_image sizes[ASK_IMAGE_SIZES];  /* images whose size is known */
    struct ask_prefix prefixes[ASK_PREFIXES]; /* a ring: the latest is at n_prefixes - 1 */
    struct ask_frame frames[ASK_FRAMES];
};

/* How many answers are written at once, each as fast as a single one: choices of all prompts. */
static inline int64_t ask_outputs(const struct ask *ask)
{
    int64_t outputs;

    if (__builtin_mul_overflow(ask->choices > 1 ? ask->choices : 1,
                               ask->prompts > 1 ? ask->prompts : 1, &outputs))
        return INT64_MAX;
    return outputs;
}

struct ask_problem {
    char param[64]; /* the field that is wrong, "stream_options.include_usage"; may be "" */
    char text[240]; /* for people; what it quotes of the body is printable ASCII */
    bool too_many;  /* the body has more values than were allowed */
    bool no_memory; /* there was none to read it: the body is not to blame */
    bool not_found; /* it names an object that is not there for its caller */
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
