/* mock_script.h - what the mock is told to do: rules, each with conditions and an action.
 *
 *     seed: 7
 *     default: {latency: 20ms, tokens: 32}
 *     rules:
 *       - when: {model: demo-small, nth: 1-2}
 *         do: {status: 429, retry_after_ms: 150}
 *
 * The first rule whose conditions hold is the request's; an action is laid over `default`.
 * docs/mock.md has every key. A script does not change once it is read, but for the counts of its
 * rules, which are atomic: all workers read the same one without a lock.
 */
#ifndef TG_MOCK_MOCK_SCRIPT_H
#define TG_MOCK_MOCK_SCRIPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http/http.h"
#include "io/text/yaml_arena.h"

#define MOCK_TOKENS_MAX 1000000
#define MOCK_CALLS_MAX 8
#define MOCK_SPLITS_MAX 16
#define MOCK_HEADERS_MAX 32
#define MOCK_PADDING_MAX (1 << 20)

enum mock_spread { MOCK_FIXED, MOCK_EXPONENTIAL, MOCK_LOGNORMAL };

enum mock_fault {
    MOCK_NO_FAULT,
    MOCK_HANG,      /* says nothing more, and waits for the client to leave */
    MOCK_CLOSE,     /* what was sent arrives, then the connection ends */
    MOCK_RESET,     /* the connection breaks */
    MOCK_GARBAGE,   /* bytes that are no HTTP, then the end */
    MOCK_BAD_CHUNK, /* a chunk whose length is no number, then the end */
    MOCK_ERROR,     /* an error inside the stream, in the API's form, then its proper end */
    MOCK_FAILED,    /* the same; of responses: response.failed */
};

enum mock_place {
    MOCK_AT_START, /* instead of a reply */
    MOCK_AT_EVENT, /* after the head and this many events; a reply in one piece is one event */
    MOCK_AT_BYTE,  /* after this many bytes of the body */
};

enum mock_usage {
    MOCK_USAGE_TRUE,
    MOCK_USAGE_MISSING,
    MOCK_USAGE_NULL,
    MOCK_USAGE_ZERO,
    MOCK_USAGE_NEGATIVE,
    MOCK_USAGE_ABSURD,
};

struct mock_action {
    /* to the first byte of the reply */
    enum mock_spread spread;
    int64_t latency_ms; /* the mean; of lognormal the median */
    double sigma;       /* lognormal: its sigma */

    int64_t tokens;     /* tokens of output, unless the call bounds it below; default 16 */
    double pace;        /* tokens a second; 0: at once */
    int64_t tool_calls; /* the answer is so many, if the call offers a tool */
    const char *text;   /* the answer, or the arguments of its calls; null: words that are drawn */
    const char *arguments;
    bool thinking; /* what was reasoned is shown, and signed */
    bool refuse;   /* the model refuses to answer; its words are the refusal */
    bool strict;   /* what the API's provider refuses is refused */

    int status; /* 0: what the request deserves */
    const char *body, *content_type;
    const char *error_type, *error_code, *message;              /* null: what the status suggests */
    int64_t retry_after_ms, retry_after_s, retry_after_date_ms; /* -1: none */
    const struct http_field *headers;
    size_t n_headers;
    size_t padding_bytes; /* bytes of further headers */

    enum mock_usage usage;
    int64_t cached, cache_write, reasoning; /* tokens, within those of prompt and output */

    enum mock_fault fault;
    enum mock_place place;
    int64_t at;

    size_t split[MOCK_SPLITS_MAX]; /* sizes of the pieces in which bytes leave, again and again */
    size_t n_split;                /* 0: as they come */
    int64_t split_wait_ms;

    int64_t read_pause_ms; /* after each piece of the request's body */
    bool early;            /* replies before the request's body is read */
};

struct mock_when {
    const char *path, *model; /* exact, or up to a `*` at the end; null: any */
    const char *key;          /* the credential; null: any */
    int stream;               /* 0, 1; -1: any */
    uint64_t nth, nth_last;   /* which of the requests that reach this rule; 0: any */
    double chance;
};

struct mock_rule {
    struct mock_when when;
    struct mock_action action;
    atomic_ullong reached; /* by requests for which all but nth and chance holds */
};

struct mock_script {
    uint64_t seed;
    struct mock_action otherwise; /* for requests without a rule */
    struct mock_rule *rules;
    size_t n_rules;
    struct arena *arena;
};

typedef void mock_script_report(void *context, size_t line, size_t column, const char *text);

/* What a script begins with, and may say otherwise. */
struct mock_base {
    struct mock_action action;
    uint64_t seed;
};

void mock_base_init(struct mock_base *base);

/* Reads YAML, of which JSON is a part. Null: `report` was called for each thing that is wrong. */
struct mock_script *mock_script_read(const struct mock_base *base, const char *text, size_t n,
                                     mock_script_report *report, void *context);
void mock_script_free(struct mock_script *script);

/* "20ms", "exponential(20ms)", "lognormal(20ms, 0.5)". */
bool mock_latency_parse(const char *text, struct mock_action *action);

/* What a request shows of itself. Model and stream are known when its body is. */
struct mock_sight {
    struct slice path, key;
    bool has_body;
    const char *model;
    bool stream;
};

/* The rule of a request: looks from *next on, and leaves *next where to go on. MOCK_RULE_LATER: the
 * body is needed to know. MOCK_RULE_NONE: there is none, and `otherwise` holds. */
#define MOCK_RULE_NONE SIZE_MAX
#define MOCK_RULE_LATER (SIZE_MAX - 1)
size_t mock_script_match(struct mock_script *script, const struct mock_sight *sight, size_t *next);

/* How long this request waits for its first byte: the same for the same hash. */
int64_t mock_latency_draw(const struct mock_action *action, uint64_t seed, uint64_t hash);

#endif
