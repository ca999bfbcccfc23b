/* ask_walk_internal.h - a body that is being read: what the files of the body reader share.
 *
 *     ask_read.c       the top of the body, and what is refused
 *     ask_fields.c     its fields: which there are, and how each is read
 *     ask_walk.c       from value to value: bounds on them, keys that rules name or that are odd
 *     ask_measure.c    what they count for: text, payloads, tools, the parts of a prompt
 */
#ifndef TG_DIALECT_ASK_WALK_INTERNAL_H
#define TG_DIALECT_ASK_WALK_INTERNAL_H

#include "server/dialect/ask_internal.h"
#include "server/dialect/ask_watch.h"

enum ask_mode { QUIET, PROSE, DATA };

/* What an object or array is for, where that matters. */
enum ask_level_kind {
    LEVEL_OTHER,
    LEVEL_CACHE,   /* cache_control */
    LEVEL_CONTEXT, /* in context_management */
    LEVEL_MESSAGE, /* or item */
    LEVEL_PART,    /* another object in an array of a prompt */
    LEVEL_TOOLS,   /* an array of tools */
    LEVEL_TOOL,
};

/* Files, images and recordings that stand in an object, until it is known what they are. */
struct ask_payload {
    int n;
    bool addressed;         /* one of them is not in the body */
    bool expected;          /* one stands where media belong, whatever the type says */
    bool other;             /* one says that it is no image, and may be a video */
    uint32_t width, height; /* the largest sides found; 0: not all are images with a size */
    int64_t audio_ms;       /* -1: not all are recordings with a length */
    enum ask_detail detail;
    struct normal_length text; /* their length, if they turn out to be text */
};

/* An object or array that is being walked. */
struct ask_level {
    enum ask_mode mode;
    enum ask_level_kind kind;
    bool is_array;
    bool is_source;         /* the value of "source" */
    bool is_media;          /* the value of "image_url" and the like */
    bool plain;             /* a source says that it is text, or a block has such a source */
    bool has_role, replies; /* a message: of a reply */
    bool named;             /* a tool has a name or function */
    bool encrypted;         /* it has its text with it, encrypted */
    bool recalls;           /* an item of a reply whose text may be at the provider */
    enum ask_media media;   /* what its type says it is */
    enum ask_tool tool;
    int64_t payload_bytes; /* payloads in it, without those of files within it */
    int64_t data_bytes;    /* "data": payload, unless it turns out to be plain text */
    int64_t result_bytes;  /* "result": payload of an image that was made, otherwise text */
    int64_t hidden;        /* tokens that a tool's description adds */
    int64_t max_uses;      /* most uses of a tool; -1: it does not say */
    size_t at;             /* where it begins */
    const struct watch_node *watch; /* where rules name something in it; null: nowhere */
    struct ask_payload payload;
};

struct ask_walk {
    struct json_reader *reader;
    const char *body;
    size_t n;
    struct ask *ask;
    struct ask_problem *problem;
    const struct ask_watch *watch; /* what rules name; null: nothing */
    struct ask_seen *seen;
    const struct watch_node *given; /* the node of the value that was given last */
    bool failed;
    bool is_api;       /* keys of this top-level field are the API's, and not a client's own */
    bool no_bound;     /* a bound of 0 was given to a server that takes that for none */
    bool keeps_prefix; /* in messages of a body that is worth it */
    bool has_messages; /* they have come, by one name or another */
    bool has_prompts;  /* in a field that may have several prompts */
    bool after_reply;  /* the last message was of a reply */
    size_t keys, values, max_values;
    size_t depth;
    size_t data_depth;                      /* depth of the outermost level whose mode is DATA */
    struct ask_prefix last;                 /* up to the end of the last message */
    struct ask_level levels[ASK_DEPTH_MAX]; /* not cleared: a call has three or four of them */
};

static inline bool ask_is_container(const struct json_value *value)
{
    return value->kind == JSON_OBJECT || value->kind == JSON_ARRAY;
}

/* ---- ask_walk.c: from value to value --------------------------------------------------------- */

/* Says what is wrong, once, and returns false. `param` is the field. */
__attribute__((format(printf, 3, 4))) bool ask_walk_fail(struct ask_walk *walk, const char *param,
                                                         const char *format, ...);
bool ask_walk_fail_type(struct ask_walk *walk, const char *param, const char *wanted,
                        const struct json_value *value);

/* A key that is the name but for the case of its letters. */
bool ask_walk_fail_case(struct ask_walk *walk, const char *name);

/* The reader has found a mistake. Where it names a key, that is the field. */
bool ask_walk_fail_json(struct ask_walk *walk);

/* Where a string, number or word is that the reader has accepted. */
struct ask_span ask_walk_span(const struct ask_walk *walk, const struct json_value *value);

/* The end of the value that was walked last. */
size_t ask_walk_end(const struct ask_walk *walk);

/* Goes into the object or array that was given last. */
bool ask_walk_push(struct ask_walk *walk, enum ask_mode mode, struct json_text key,
                   const struct json_value *value);

/* The next value in it. False: there is none, or something is wrong. */
bool ask_walk_next(struct ask_walk *walk, struct json_text *key, struct json_value *value);

/* Walks the value that was given last, to its end. */
void ask_walk_kind(struct ask_walk *walk, enum ask_mode mode, enum ask_level_kind kind,
                   const struct json_value *value);
void ask_walk_value(struct ask_walk *walk, enum ask_mode mode, const struct json_value *value);

/* ---- ask_measure.c: what it counts for ------------------------------------------------------- */

void ask_measure_text(struct ask_walk *walk, struct json_text text);

/* A value below a level, before what is in it is walked. */
void ask_measure_value(struct ask_walk *walk, struct ask_level *level, struct json_text key,
                       const struct json_value *value);

/* The level has ended. */
void ask_measure_level(struct ask_walk *walk, struct ask_level *level);

/* A tool has ended. */
void ask_measure_tool(struct ask_walk *walk, const struct ask_level *level);

/* A message has ended. */
void ask_measure_message(struct ask_walk *walk, const struct ask_level *level);

/* Bytes of JSON that the model is shown, in whatever form that makes the most of them. */
void ask_measure_forms(struct ask_walk *walk, int64_t bytes);

/* ---- ask_fields.c: the fields of the top ----------------------------------------------------- */

/* Whether the prompt depends on a field: a prefix of messages is known only under the same ones. */
enum ask_framing { APART, FRAME, MESSAGES };

struct ask_field {
    const char *name;
    unsigned endpoints; /* bits 1 << endpoint */
    void (*read)(struct ask_walk *walk, const struct ask_field *field,
                 const struct json_value *value);
    enum ask_framing framing;
    enum ask_mode mode;
    size_t offset;    /* where in struct ask it is kept */
    unsigned feature; /* which it is, unless it is null */
};

/* Whether requests of this endpoint have any. */
bool ask_field_is_any(enum endpoint endpoint);

/* Null: it is none of this endpoint's. */
const struct ask_field *ask_field_find(enum endpoint endpoint, struct json_text key);

/* The name that differs from the key in the case of its letters alone, or null. */
const char *ask_field_variant(struct json_text key);

/* Keeps a short word of the client's, for people. */
void ask_word_set(struct ask_word *word, struct json_text text);

#endif
