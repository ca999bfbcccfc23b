/* meter.h - what a streamed reply has used so far, event by event.
 *
 *     meter_init(&meter, ask.endpoint);
 *     while (sse_next(&sse, &event)) {
 *         meter_take(&meter, reader, &event, &seen);
 *         if (!(injected && seen.usage_only))
 *             ... pass event.raw on
 *     }
 *
 * After the last event, meter.reading is what the provider says; where it says nothing (a stream
 * that was cut), meter.text_bytes is what has been written.
 */
#ifndef TG_DIALECT_METER_H
#define TG_DIALECT_METER_H

#include "server/dialect/ask.h"
#include "server/dialect/sse.h"
#include "server/dialect/usage.h"

#define METER_ID_MAX 128 /* bytes; what is longer is no id */

struct meter {
    enum endpoint endpoint;
    struct usage_reading reading; /* its `passes` are the ones below */
    struct usage_passes passes;
    bool final; /* reading.usage.output is the last word. Messages begin with a count of some
                  tokens, and some providers of chats count in every chunk: no more than a lower
                  bound until the end of the stream */
    int64_t text_bytes; /* bytes of output: text, reasoning, tool names, arguments, refusals */
    int64_t events;     /* with data */
    int64_t searches;   /* items of a response that searched */
    int64_t unread;     /* events whose data was no JSON object, or that were too large */
    bool content;       /* an event with content has come */
    bool error;         /* an event with an error has come, */
    bool failed;        /* which is the provider's, or its key's, and not the call's, */
    bool limited;       /* and a rate limit */
    size_t id_n;        /* bytes of `id`: of the response, which a provider keeps; 0: not known */
    char id[METER_ID_MAX];
    bool ended; /* the reply is complete: [DONE], message_stop, response.completed and the like */
};

/* What one event was. */
struct meter_event {
    bool content;    /* brings output: text, reasoning, tool call, refusal, audio */
    bool usage_only; /* a chunk of chat or completions with usage and no choices */
    bool done;       /* [DONE] */
    bool error;      /* an error within a 200: */
    bool retryable;  /* another attempt may do better: overload, rate limit, fault of the server */
    bool limited;    /* it is a rate limit: the key should cool */
    bool timed_out;  /* the provider has run out of time: what it did until then may be billed */
    char error_type[64]; /* its type or code, printable ASCII; "" if it has none */
};

void meter_init(struct meter *meter, enum endpoint endpoint);

/* Every event that sse gives, SSE_BLANK and SSE_PIECE too. */
void meter_take(struct meter *meter, struct json_reader *reader, const struct sse_event *event,
                struct meter_event *seen);

#endif
