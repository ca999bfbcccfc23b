/* usage.h - what a reply says was used, in the words of any of the APIs.
 *
 * usage_read() understands the object itself. usage_scan finds it in a reply of any size that
 * passes by in pieces, and keeps no more of the reply than that object:
 *
 *     usage_scan_init(&scan);
 *     usage_scan_feed(&scan, bytes, n);               for each piece
 *     usage_scan_end(&scan, reader, &reading);
 *
 * Zero that was written is zero, null and nothing are not found: an estimate stands in for what was
 * not found, never for a zero.
 */
#ifndef TG_DIALECT_USAGE_H
#define TG_DIALECT_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/json_read.h"
#include "tollgate.h"

#define USAGE_WORD_MAX 24
#define USAGE_MODEL_MAX 64
#define USAGE_PASSES_MAX 4

/* What the passes of a call used that a reply reports one by one, by the model that made them. They
 * are parts of the reading's usage. */
struct usage_passes {
    size_t n; /* 0: the reply does not tell them apart */
    struct usage_pass {
        char model[USAGE_MODEL_MAX]; /* "": the reply names none */
        bool unknown; /* the model is not known: its name is too long or missing, or this place has
                         all that found no other */
        struct tg_usage usage;
    } list[USAGE_PASSES_MAX];
};

struct usage_reading {
    struct tg_usage usage; /* kinds exclude each other, whatever the API counts; factor_milli is not
                              known here */
    int64_t reasoning;     /* the part of the output that was thought and not shown */
    bool found;            /* a count of input or output was there */
    bool has_input, has_output; /* which; what was not there is 0 */
    bool absurd;  /* a count was negative, a fraction, not a number, above 10^9, or a part was
                    greater than its whole: not to be believed. The counts are then 0 */
    bool refused; /* the model declined to answer, as Anthropic says it */
    char tier[USAGE_WORD_MAX], speed[USAGE_WORD_MAX], geo[USAGE_WORD_MAX]; /* what was served; "":
                                                                              not said */
    struct usage_passes *passes; /* where passes are told apart; null: nobody asks for them */
};

/* Whether the provider charges nothing: it declined before it wrote anything. `text_bytes` is what
 * has been written. Such a call counts for limits all the same. */
static inline bool usage_is_free(const struct usage_reading *reading, int64_t text_bytes)
{
    return reading->refused && text_bytes == 0 && tg_usage_output(&reading->usage) == 0;
}

/* Keeps a word that a reply says, printable; of one that is too long its head. */
void usage_keep_word(char word[USAGE_WORD_MAX], const struct json_value *value);

/* Reads the object (or null) that the reader gave last, and leaves the reader behind it. Counts
 * that are there replace those of `reading`, others stay: streams report in parts. Start from {0}.
 * */
void usage_read(struct json_reader *reader, const struct json_value *value,
                struct usage_reading *reading);

/* Reads `tool_usage`, which the responses API writes beside the usage: the more calls count. */
void usage_read_tools(struct json_reader *reader, const struct json_value *value,
                      struct usage_reading *reading);

#define USAGE_VALUE_MAX 4096 /* bytes of a usage object; iterations make it long */
#define USAGE_TOOLS_MAX 1024 /* bytes of what tools used */
#define USAGE_KEY_MAX 32
#define USAGE_DEPTH_MAX 256

struct usage_scan {
    /* What is known so far: */
    int64_t text_bytes; /* what the model wrote, roughly: for an estimate where usage is missing */
    bool error;         /* a top-level "error" that is not null */
    bool too_long;      /* there was a usage, larger than USAGE_VALUE_MAX */
    bool broken;        /* this is not JSON; what was found before still counts */
    bool complete;      /* the top-level object has ended */

    /* The scanner's own: */
    int state;
    int depth;
    uint64_t objects[USAGE_DEPTH_MAX / 64]; /* bits: which levels are objects */
    int input_depth;                        /* where a tool call's arguments are; 0: in none */
    bool in_key;                            /* the next string is a key, or this one is */
    bool expecting;                         /* a value comes next */
    bool counted;                           /* the string is what a model wrote */
    int capturing;    /* enum usage_capture: where the value goes that is passing by */
    int word;         /* enum usage_word: the string that is passing by */
    bool in_items;    /* below the top-level "output" */
    bool in_action;   /* below "action" of one of its items */
    int64_t searches; /* actions of items that searched */
    size_t word_n;    /* bytes of that string */
    char words[USAGE_WORD_MAX];
    char tier[USAGE_WORD_MAX]; /* the top-level "service_tier" */
    bool refused;              /* the top-level "stop_reason" is "refusal" */
    unsigned mark; /* bytes of a byte order mark that were seen; 3: it can come no more */
    unsigned escape_left, escape_value;
    size_t key_n;
    char key[USAGE_KEY_MAX];
    size_t value_n;
    size_t tools_n;
    char value[USAGE_VALUE_MAX + JSON_PADDING];
    char tools[USAGE_TOOLS_MAX + JSON_PADDING];
};

void usage_scan_init(struct usage_scan *scan);
void usage_scan_feed(struct usage_scan *scan, const char *bytes, size_t n);

/* `reading` is of the last top-level "usage". Without one, or with one that is no JSON, not found.
 * `passes` may be null. */
void usage_scan_end(struct usage_scan *scan, struct json_reader *reader,
                    struct usage_passes *passes, struct usage_reading *reading);

#endif
