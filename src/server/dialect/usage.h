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

struct usage_reading {
    struct tg_usage usage;      /* kinds of input exclude each other, whatever the API counts */
    int64_t reasoning;          /* the part of the output that was thought and not shown */
    bool found;                 /* a count of input or output was there */
    bool has_input, has_output; /* which; what was not there is 0 */
    bool absurd; /* a count was negative, a fraction, not a number, above 10^9, or a part was
                    greater than its whole: not to be believed. The counts are then 0 */
};

/* Reads the object (or null) that the reader gave last, and leaves the reader behind it. Counts
 * that are there replace those of `reading`, others stay: streams report in parts. Start from {0}.
 * */
void usage_read(struct json_reader *reader, const struct json_value *value,
                struct usage_reading *reading);

#define USAGE_VALUE_MAX 4096 /* bytes of a usage object; the longest known have some hundred */
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
    bool capturing;
    unsigned mark; /* bytes of a byte order mark that were seen; 3: it can come no more */
    unsigned escape_left, escape_value;
    size_t key_n;
    char key[USAGE_KEY_MAX];
    size_t value_n;
    char value[USAGE_VALUE_MAX + JSON_PADDING];
};

void usage_scan_init(struct usage_scan *scan);
void usage_scan_feed(struct usage_scan *scan, const char *bytes, size_t n);

/* `reading` is of the last top-level "usage". Without one, or with one that is no JSON, not found.
 * */
void usage_scan_end(struct usage_scan *scan, struct json_reader *reader,
                    struct usage_reading *reading);

#endif
