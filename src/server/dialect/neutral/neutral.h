/* neutral.h - a request in the form that every dialect is read into and written from.
 *
 *     struct neutral_request request;
 *     neutral_request_init(&request);
 *     if (dialect->read_request(reader, body, n, readable, &request, &problem))
 *         ... other->write_request(&request, &target, &out, &dropped, &problem)
 *     neutral_request_fini(&request);
 *
 * Texts are slices of the body where they stand there as they are, and copies that the request owns
 * where they were escaped: the body must outlive the request. JSON whose meaning is not looked at
 * (schemas, arguments of tool calls, metadata) is kept as the bytes that were read, because writing
 * numbers and keys anew would change what caches and signatures are computed from.
 *
 * A request holds one array of turns and one of parts. The parts of a turn stand behind each other;
 * the content of a tool's result stands behind its part. Instructions stay where they stood among
 * the turns, and tool results are parts of user turns.
 *
 * This is a form and no I/O: nothing here knows a clock, a socket or admission.
 */
#ifndef TG_NEUTRAL_NEUTRAL_H
#define TG_NEUTRAL_NEUTRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/slice.h"

enum dialect {
    DIALECT_CHAT,      /* openai-chat: POST /v1/chat/completions */
    DIALECT_RESPONSES, /* openai-responses: POST /v1/responses */
    DIALECT_ANTHROPIC, /* anthropic: POST /v1/messages */
    DIALECT_GEMINI,    /* gemini: POST .../models/M:generateContent */
    DIALECT_COUNT
};

/* "openai-chat", as configurations and documents write it. Static. */
const char *dialect_name(enum dialect dialect);

enum neutral_tri { TRI_UNSET, TRI_FALSE, TRI_TRUE };

/* ---- Turns and their parts ------------------------------------------------------------------- */

enum neutral_role { ROLE_INSTRUCTION, ROLE_USER, ROLE_MODEL };

enum neutral_kind {
    PART_TEXT,
    PART_REFUSAL,
    PART_MEDIA,
    PART_CALL,      /* the model calls a tool */
    PART_RESULT,    /* what the tool answered; its content are the `inner` parts behind it */
    PART_REASONING, /* what the model thought, or what stands for it */
    PART_FOREIGN,   /* JSON that only its own dialect understands, and no other is shown */
};

enum neutral_media { MEDIA_IMAGE, MEDIA_AUDIO, MEDIA_VIDEO, MEDIA_DOCUMENT };
enum neutral_source { SOURCE_URL, SOURCE_INLINE, SOURCE_STORED };

/* What a provider wants to see again unchanged, and nobody else understands. */
enum neutral_opaque {
    OPAQUE_NONE,
    OPAQUE_SIGNATURE, /* Anthropic's, beside a text that was thought */
    OPAQUE_REDACTED,  /* Anthropic's, instead of the text */
    OPAQUE_ENCRYPTED, /* encrypted_content of the responses API */
    OPAQUE_THOUGHT,   /* Gemini's thoughtSignature */
};

struct neutral_part {
    enum neutral_kind kind;
    enum neutral_media media;
    enum neutral_source source;
    bool error;           /* RESULT: the tool failed */
    bool free;            /* CALL: the arguments are plain text, not JSON */
    bool cache;           /* the prompt may be cached up to here */
    bool whole;           /* REASONING: what was thought itself, and no summary; FOREIGN: an item of
                             its own, and no part of a message */
    uint32_t inner;       /* RESULT: how many of the parts behind it are its content */
    struct slice text;    /* TEXT, REFUSAL, REASONING; CALL: arguments; MEDIA: the address, the
                             base64, or the id; FOREIGN: its JSON */
    struct slice id;      /* CALL, RESULT: pairs them */
    struct slice name;    /* CALL: the tool; MEDIA: the file */
    struct slice mime;    /* MEDIA: "" if not known */
    struct slice detail;  /* MEDIA: "low", "high", ... */
    struct slice ttl;     /* how long the cache lives; "": the default */
    struct slice item_id; /* the id that the responses API gave the item */
    struct slice phase;   /* what the responses API says the message is for */
    enum neutral_opaque opaque_kind;
    enum dialect opaque_dialect;
    struct slice opaque_provider; /* "": not known, so it may be any of its dialect */
    struct slice opaque;
};

struct neutral_turn {
    enum neutral_role role;
    bool developer;    /* INSTRUCTION: the client said "developer" and not "system" */
    size_t first, end; /* its parts */
};

/* ---- Tools and output ------------------------------------------------------------------------ */

struct neutral_tool {
    struct slice name, description;
    struct slice schema;          /* JSON; "": it has no parameters */
    struct slice syntax, grammar; /* free: what its input must match; "": any text */
    struct slice raw; /* its JSON, where it has members that only its own dialect knows */
    enum neutral_tri strict;
    bool free;  /* takes plain text */
    bool cache; /* the prompt may be cached up to here */
    struct slice ttl;
};

enum neutral_choice {
    CHOICE_UNSET,
    CHOICE_AUTO,
    CHOICE_NONE,
    CHOICE_REQUIRED,
    CHOICE_ONE,              /* the tool `names[0]` */
    CHOICE_ALLOWED,          /* any of `names`, or none */
    CHOICE_ALLOWED_REQUIRED, /* any of `names` */
};

enum neutral_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SCHEMA };

enum neutral_effort {
    EFFORT_UNSET,
    EFFORT_NONE,
    EFFORT_MINIMAL,
    EFFORT_LOW,
    EFFORT_MEDIUM,
    EFFORT_HIGH,
    EFFORT_XHIGH,
    EFFORT_MAX,
    EFFORT_COUNT
};

/* "low" and the like; EFFORT_UNSET for any other word. */
enum neutral_effort neutral_effort_of(struct slice text);
const char *neutral_effort_name(enum neutral_effort effort);

#define BUDGET_UNSET (-2)
#define BUDGET_DYNAMIC (-1)

enum neutral_tier { TIER_UNSET, TIER_AUTO, TIER_STANDARD, TIER_FLEX, TIER_PRIORITY, TIER_OTHER };

/* OpenAI's words for them: "default" is the standard one. */
enum neutral_tier neutral_tier_of(struct slice text);

/* A member of the body that only its own dialect knows. */
struct neutral_extra {
    const char *key; /* has a 0 */
    struct slice raw;
};

#define NEUTRAL_STOPS_MAX 16
#define NEUTRAL_PARTS_MAX (1 << 16) /* parts, turns and tools, each */
#define NEUTRAL_NAMES_MAX                                                                          \
    (1 << 10)               /* tools that a choice names: each is looked for in all of them */
#define NEUTRAL_NAME_MAX 64 /* bytes of a field's name that is told */

struct neutral_request {
    enum dialect from;
    struct slice body;

    struct slice model;
    struct neutral_turn *turns;
    struct neutral_part *parts;
    struct neutral_tool *tools;
    size_t n_turns, n_parts, n_tools;
    size_t turns_capacity, parts_capacity, tools_capacity;

    enum neutral_choice choice;
    struct slice *names; /* tools that `choice` means */
    size_t n_names, names_capacity;
    enum neutral_tri parallel;

    enum neutral_format format;
    struct slice format_name, format_description, format_schema;
    enum neutral_tri format_strict;

    int64_t bound; /* tokens of output; -1: unset */
    struct slice stops[NEUTRAL_STOPS_MAX];
    size_t n_stops;
    double temperature, top_p, presence, frequency; /* NAN: unset */
    int64_t top_k, n, top_logprobs;                 /* -1: unset */
    int64_t seed;
    bool has_seed;
    enum neutral_tri logprobs;

    enum neutral_effort effort;
    int64_t budget; /* tokens of reasoning; BUDGET_UNSET, BUDGET_DYNAMIC */
    enum neutral_tri show_reasoning;
    struct slice verbosity; /* "low", "medium", "high" */

    struct slice user;
    struct slice cache_key;
    struct slice metadata; /* JSON */
    enum neutral_tri store;
    enum neutral_tier tier;
    bool stream;
    bool want_usage;       /* a stream shall end with its usage */
    bool legacy_functions; /* chat: the reply says `function_call` */

    uint64_t foreign;               /* bits: enum neutral_field, fields that have no neutral form */
    char unknown[NEUTRAL_NAME_MAX]; /* a field that is not known; "": there is none */

    struct neutral_extra *extras; /* for a provider of the same dialect */
    struct slice *hosted;         /* JSON of tools that run at the provider, for the same */
    size_t n_extras, extras_capacity, n_hosted, hosted_capacity;

    struct neutral_chunk *copies; /* memory of texts that were escaped */
};

void neutral_request_init(struct neutral_request *request);

/* Frees what the request owns, and leaves it as after neutral_request_init(). */
void neutral_request_fini(struct neutral_request *request);

/* Room for a copy that lives as long as the request. Null: no memory. */
char *neutral_room(struct neutral_request *request, size_t n);

/* ---- What a provider and its model take ------------------------------------------------------ */

enum neutral_thinking {
    THINKING_ADAPTIVE, /* Anthropic's `adaptive` and an effort; Gemini's thinkingLevel */
    THINKING_BUDGET,   /* a budget of tokens */
    THINKING_NONE,     /* the model does not think: asking for it is left out */
};

/* What a provider takes for the id of a tool call: IDS_ALNUM9: 9 letters and digits. */
enum neutral_ids { IDS_ANY, IDS_ALNUM9 };

/* Where a chat sends back what the model thought: nowhere, `reasoning_content`, `reasoning`. */
enum neutral_reasoning_field {
    REASONING_FIELD_NONE,
    REASONING_FIELD_CONTENT,
    REASONING_FIELD_BARE
};

/* What Anthropic's models on Vertex AI want in a body in place of the model's name. */
#define VERTEX_ANTHROPIC_VERSION "vertex-2023-10-16"

struct neutral_target {
    struct slice model;    /* written instead of the request's; "": the request's */
    struct slice provider; /* its name, for what only it understands; "": not known */
    int64_t max_output;    /* the model's most, for Anthropic's required max_tokens; default 4096 */
    bool strict;           /* refuse what has no counterpart; default true */
    bool fixed_sampling;   /* the model refuses temperature, top_p and top_k; default false */
    bool late_system;      /* Anthropic: `role: system` among the messages; default false */
    bool prefill;          /* continues a last turn of the model's; default false */
    bool max_tokens;       /* chat: the bound is `max_tokens`, not `max_completion_tokens` */
    bool developer;        /* chat: knows the role `developer`; default false: `system` */
    bool media_results;    /* Gemini: takes media in results of tools; default false */
    bool vertex;           /* on Vertex AI. Anthropic: the body has the version in place of the
                              model; default false */
    bool counts;           /* Gemini: the tokens of the prompt are asked for, and no reply;
                              default false */
    uint64_t refused;      /* chat: bits of enum neutral_field that the provider does not take */
    enum neutral_thinking thinking;               /* default THINKING_ADAPTIVE */
    enum neutral_ids ids;                         /* ids of tool calls; default IDS_ANY */
    enum neutral_reasoning_field reasoning_field; /* chat: how reasoning is sent back; default none
                                                   */
};

void neutral_target_init(struct neutral_target *target);

#endif
