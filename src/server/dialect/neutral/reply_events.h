/* reply_events.h - a reply in the neutral form: events, read from one dialect, written in another.
 *
 *     provider's bytes -> reply_reader -> events -> reply_writer -> client's bytes
 *
 * A whole reply and a stream give the same events:
 *
 *     begin (open (text | args | opaque)* close | usage | ping)* stop usage* end
 *
 * One `begin` comes first. Parts are numbered 0, 1, 2 ... over all choices, opened before they are
 * added to, and closed once. Several are open at once only where the provider's dialect lets calls
 * of tools interleave. A usage replaces the one before. `error` may come anywhere and is the last,
 * and a stream that was cut gives one: never a clean end.
 *
 * Texts of an event are valid only while the sink runs.
 */
#ifndef TG_NEUTRAL_REPLY_EVENTS_H
#define TG_NEUTRAL_REPLY_EVENTS_H

#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "server/dialect/neutral/neutral.h"
#include "server/dialect/neutral/neutral_error.h"
#include "server/dialect/usage.h"

enum neutral_stop {
    STOP_END,
    STOP_LENGTH,
    STOP_TEXT, /* a stop sequence */
    STOP_TOOL,
    STOP_FILTER,
    STOP_REFUSAL,
    STOP_PAUSE,
    STOP_CONTEXT,
    STOP_CONTINUE,
    STOP_MALFORMED, /* the model called a tool in no form that can be understood */
};

enum neutral_event_kind {
    EVENT_BEGIN,
    EVENT_OPEN,
    EVENT_TEXT,
    EVENT_ARGS,
    EVENT_OPAQUE,
    EVENT_CLOSE,
    EVENT_USAGE,
    EVENT_STOP,
    EVENT_ERROR,
    EVENT_PING,
    EVENT_END,
};

struct neutral_event {
    enum neutral_event_kind kind;
    int choice;
    uint32_t index;                  /* OPEN to CLOSE: the part */
    enum neutral_kind part;          /* OPEN: what it is */
    bool free;                       /* OPEN of a call: its arguments are plain text */
    struct slice id, name;           /* OPEN of a call */
    struct slice text;               /* TEXT, ARGS; STOP: the sequence that stopped it */
    enum neutral_opaque opaque_kind; /* OPEN, OPAQUE */
    struct slice opaque;
    enum neutral_stop stop;
    const struct usage_reading *usage; /* USAGE: all that is known so far */
    const struct neutral_error *error;
};

typedef void neutral_sink(void *arg, const struct neutral_event *event);

#define REPLY_CHOICES_MAX 128
#define REPLY_PARTS_MAX 4096
#define REPLY_GATHER_MAX (64 << 20) /* bytes of a reply that is kept until its end */

/* ---- What a reply needs to know of its request ----------------------------------------------- */

struct terms_tool {
    struct slice name;
    bool free;
};

/* Everything here is a copy: the request and its body may be gone. */
struct reply_terms {
    enum dialect from;     /* the provider's dialect, */
    struct slice provider; /* and its name: whose signatures the reply has */
    struct slice model;    /* what the client is told */
    bool stream, want_usage, legacy_functions;
    int64_t created;       /* s since 1970 */
    uint64_t nonce;        /* the reply's id is made of it */
    int64_t prompt_tokens; /* an estimate, for streams that must name one before it is known */
    struct terms_tool *tools;
    size_t n_tools;
    char *block; /* the memory of all of it */
};

/* False: no memory. `now_s` and `nonce` are the caller's: nothing here reads a clock or chance. */
bool reply_terms_init(struct reply_terms *terms, const struct neutral_request *request,
                      enum dialect from, struct slice provider, struct slice model, int64_t now_s,
                      uint64_t nonce, int64_t prompt_tokens);
void reply_terms_fini(struct reply_terms *terms);

/* ---- Reading --------------------------------------------------------------------------------- */

struct reply_slot {
    enum neutral_kind kind;
    int choice;
    int64_t key;      /* how the provider's dialect names the part */
    uint64_t id_hash; /* the id that a call has */
    bool open;
    bool grown; /* text or arguments have come */
};

struct reply_reader {
    struct json_reader *json;
    const struct reply_terms *terms;
    neutral_sink *sink;
    void *arg;
    struct usage_reading usage;
    struct reply_slot *slots; /* one for each part, by number */
    size_t n_slots, slots_capacity;
    bool stopped[REPLY_CHOICES_MAX];
    bool begun;
    bool any_stop;
    bool called;    /* a tool was called */
    bool ended;     /* `end` or `error` was given */
    bool no_memory; /* nothing more is read */
    /* What a dialect's reader remembers between events: */
    enum neutral_stop stop; /* known before it may be told */
    bool has_stop;
    char stop_text[256];
    size_t n_stop_text;
    int64_t counter;
};

void reply_reader_init(struct reply_reader *reader, struct json_reader *json,
                       const struct reply_terms *terms, neutral_sink *sink, void *arg);
void reply_reader_fini(struct reply_reader *reader);

/* For the dialects: each gives one event, and keeps the order that is promised above. */
void reader_begin(struct reply_reader *reader);
#define NO_PART UINT32_MAX
uint32_t reader_open(struct reply_reader *reader, int choice, enum neutral_kind kind, int64_t key,
                     const struct neutral_event *like); /* its id, name and opaque, or null */
void reader_text(struct reply_reader *reader, uint32_t part, struct json_text text);
void reader_opaque(struct reply_reader *reader, uint32_t part, enum neutral_opaque kind,
                   struct slice text);
void reader_close(struct reply_reader *reader, uint32_t part);
void reader_close_all(struct reply_reader *reader, int choice);
void reader_usage(struct reply_reader *reader);
void reader_ping(struct reply_reader *reader);
void reader_stop(struct reply_reader *reader, int choice, enum neutral_stop stop,
                 struct slice text);
void reader_end(struct reply_reader *reader);
void reader_fail(struct reply_reader *reader, enum error_class class, const char *message);
void reader_error(struct reply_reader *reader, const struct neutral_error *error);

/* Ends the document that has been read. False: it was not valid JSON, and the reply has failed. */
bool reader_json_is_whole(struct reply_reader *reader);

/* The part of that kind that is open in the choice, or NO_PART. */
uint32_t reader_find_open(const struct reply_reader *reader, int choice, enum neutral_kind kind);
/* The part with that key, open or not, or NO_PART. */
uint32_t reader_find(const struct reply_reader *reader, int choice, int64_t key);
/* Adds to the open part of that kind, or opens one; parts of other kinds but calls are closed. */
void reader_add(struct reply_reader *reader, int choice, enum neutral_kind kind,
                struct json_text text);

/* The bytes of the object or array of `document` that was given last, which is passed over. */
struct slice reader_raw(struct reply_reader *reader, struct slice document,
                        const struct json_value *value);

/* Counts that are 0 or absent in `later` keep those of `usage`. */
void usage_merge(struct usage_reading *usage, const struct usage_reading *later);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Where JSON ends, followed byte by byte. */
struct json_depth {
    int depth;
    bool quoted, escaped, complete;
};

enum reply_part_state { PART_WAITING, PART_CURRENT, PART_DONE };

struct reply_part {
    enum neutral_kind kind;
    int choice;
    uint32_t number; /* among the calls of its choice */
    uint32_t place;  /* the responses API's output_index */
    bool free, closed, grown;
    enum reply_part_state state;
    struct json_depth json;
    struct text_out id, name;
    struct text_out text;    /* text or arguments that are kept */
    struct text_out wrapped; /* arguments of a free tool, in the JSON that it was wrapped in */
    enum neutral_opaque opaque_kind;
    struct text_out opaque;
};

struct reply_choice {
    bool begun, stopped;
    enum neutral_stop stop;
    uint32_t calls;
};

struct dialect_ops;

struct reply_writer {
    const struct dialect_ops *to;
    const struct reply_terms *terms;
    struct json_reader *json; /* for whole replies, once what is read has ended */
    bool stream;
    bool ended;     /* nothing more will be written: the reply may be closed */
    bool has_error; /* `error` is what ended it */
    bool no_memory;
    struct neutral_error error;
    struct usage_reading usage;
    struct reply_part *parts;
    size_t n_parts, parts_capacity;
    size_t gathered; /* bytes in the parts */
    struct reply_choice choices[REPLY_CHOICES_MAX];
    int n_choices;
    struct text_out stop_text;
    /* What a dialect's writer remembers between events: */
    uint32_t current;
    uint32_t blocks;
    int64_t sequence;
};

/* `stream`: events are written as they come; otherwise one reply, at the end. */
void reply_writer_init(struct reply_writer *writer, const struct dialect_ops *to,
                       struct json_reader *json, const struct reply_terms *terms, bool stream);
void reply_writer_fini(struct reply_writer *writer);

/* Takes an event and appends what the client gets for it. */
void reply_writer_take(struct reply_writer *writer, const struct neutral_event *event,
                       struct json_writer *out);

/* For the dialects. */
void json_depth_feed(struct json_depth *json, struct slice text);
void sse_begin(struct json_writer *out, const char *event); /* null: without a name */
void sse_finish(struct json_writer *out);
void writer_id(const struct reply_writer *writer, const char *prefix, char id[64]);

#endif
