/* trace.h - one line of a trace: a call or something else that happened, and when. */
#ifndef TG_REPLAY_TRACE_H
#define TG_REPLAY_TRACE_H

#include "io/text/json_read.h"
#include "io/text/lines.h"
#include "tollgate.h"

/* A text is valid until the next line is read. */

/* What a limiter alone is asked. */
struct trace_call {
    tg_ms t;              /* when; required */
    struct json_text key; /* whose limit; default "" */
    int64_t cost;         /* units; default 1 */
};

enum trace_op {
    TRACE_ADMIT, /* default */
    TRACE_RELEASE,
    TRACE_MEMORY,
    TRACE_LIMITS,
    TRACE_FIRST_BYTE,
};

/* What a gate is told. A text that is not given has null bytes. A line may carry any of these; its
 * op says which are used. */
struct trace_event {
    enum trace_op op;
    struct trace_call call;
    struct json_text
        id;            /* required for a release and a first byte; a number's digits are its text */
    int64_t id_number; /* if it was written as one */
    bool id_is_number;
    struct json_text model, user, peer;
    enum tg_priority priority; /* default normal */
    double value;              /* negative: not given */
    double hold_s;             /* default 0 */
    int64_t size;              /* tokens of the prompt, for its first byte; default 0 */
    struct tg_release release; /* defaults of tg_release_init() */
    double used;               /* part of the memory in use, from 0 to 1; NaN: not known */
    bool has_used;             /* required for memory */
    bool is_recorded;          /* it has fields of a recording that says no version */
    char digits[24];           /* private: where the text of a number is */
};

enum trace_result {
    TRACE_CALL, /* or an event */
    TRACE_BLANK,
    TRACE_WRONG,
};

/* Reads `{"t":1000,"key":"a","cost":1}`. A blank line has no call. If the line is wrong, `problem`
 * says what is and what is allowed. */
enum trace_result trace_read(struct json_reader *reader, const struct line *line,
                             struct trace_call *call, struct tg_problem *problem);

/* The same with every field of an event. */
enum trace_result trace_read_event(struct json_reader *reader, const struct line *line,
                                   struct trace_event *event, struct tg_problem *problem);

#endif
