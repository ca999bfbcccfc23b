/* meter.c - what a streamed reply has used so far, event by event.
 *
 *     API                output                           usage                        end
 *     chat, completions  choices[].delta, choices[].text  the chunk whose usage is one [DONE]
 *     responses          delta of response.*.delta        response.usage               (1)
 *     messages           delta of content_block_delta,    message_start,               message_stop
 *                        content_block                    message_delta
 *
 *     (1) response.completed, .incomplete, .failed or .cancelled, which also bring the usage
 *
 * The forms do not contradict each other, so one walk reads an event of any of them, and what was
 * found is then understood by the endpoint. An event counts only if all of it was JSON. Names are
 * those in the data: the `event:` line says the same, or nothing, and proxies have been seen to
 * drop it.
 *
 * Text is counted in bytes, for streams that are cut before they say what they used: what has been
 * written was paid for. Unknown events bring nothing and harm nothing.
 */
#include "server/dialect/meter.h"

#include <assert.h>
#include <stdio.h>

#define TYPE_MAX 64

/* What stands in one event. */
struct chunk {
    char type[TYPE_MAX];  /* the event's */
    char code[TYPE_MAX];  /* an error's code, */
    char fault[TYPE_MAX]; /* and its type */
    int64_t status;       /* a code that is a number; 0: none */
    bool error;
    size_t choices;
    int64_t text;        /* bytes of output in choices, deltas and blocks */
    int64_t delta;       /* bytes of a delta that is a string */
    bool payload;        /* audio or an image */
    bool refused;        /* the model declined to answer */
    int64_t searches;    /* items that searched */
    struct json_text id; /* the response's, or the message's */
    struct usage_reading usage;
};

void meter_init(struct meter *meter, enum endpoint endpoint)
{
    *meter = (struct meter){.endpoint = endpoint};
}

/* ---- Reading an event ------------------------------------------------------------------------ */

/* Anything but printable ASCII would have to be escaped wherever this is shown. */
static void keep_word(char word[TYPE_MAX], const struct json_value *value)
{
    size_t n = 0;

    if (value->kind == JSON_STRING)
        for (; n < value->string.size && n < TYPE_MAX - 1; n++) {
            char c = value->string.bytes[n];
            word[n] = c > ' ' && c < 0x7f ? c : '_';
        }
    word[n] = '\0';
}

static bool is_text_key(struct json_text key)
{
    return json_text_is(key, "content") || json_text_is(key, "text") ||
           json_text_is(key, "arguments") || json_text_is(key, "thinking") ||
           json_text_is(key, "reasoning") || json_text_is(key, "refusal") ||
           json_text_is(key, "partial_json") || json_text_is(key, "reasoning_content") ||
           json_text_is(key, "name") || json_text_is(key, "transcript") ||
           json_text_is(key, "input");
}

/* Counts all the text that a model wrote in the object or array given last, at any depth. What
 * OpenRouter calls reasoning_details is the reasoning once more. */
static void read_output(struct json_reader *reader, struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;
    int depth = json_enter(reader) ? 1 : 0;

    while (depth > 0) {
        if (!json_next(reader, &key, &value)) {
            depth--;
        } else if (value.kind == JSON_STRING) {
            if (is_text_key(key))
                chunk->text += (int64_t)value.string.size;
            chunk->payload |= json_text_is(key, "data") && value.string.size > 0;
            chunk->refused |=
                json_text_is(key, "stop_reason") && json_text_is(value.string, "refusal");
        } else if ((value.kind == JSON_OBJECT || value.kind == JSON_ARRAY) &&
                   !json_text_is(key, "reasoning_details") && !json_text_is(key, "logprobs")) {
            depth += json_enter(reader);
        }
    }
}

static void read_choices(struct json_reader *reader, struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        chunk->choices++;
        if (value.kind == JSON_OBJECT)
            read_output(reader, chunk);
    }
}

static void read_code(struct chunk *chunk, const struct json_value *value)
{
    keep_word(chunk->code, value);
    if (value->kind == JSON_INTEGER)
        chunk->status = value->integer;
}

static void read_error(struct json_reader *reader, const struct json_value *error,
                       struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;

    if (error->kind == JSON_NULL)
        return;
    chunk->error = true;
    if (error->kind != JSON_OBJECT || !json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        if (json_text_is(key, "type"))
            keep_word(chunk->fault, &value);
        else if (json_text_is(key, "code"))
            read_code(chunk, &value);
    }
}

/* {"type": "web_search_call", "action": {"type": "search"}}: searches are billed, pages that are
 * opened are not. */
static void read_item(struct json_reader *reader, struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        if (value.kind == JSON_STRING && json_text_is(key, "type")) {
            chunk->searches += json_text_is(value.string, "file_search_call");
        } else if (value.kind == JSON_OBJECT && json_text_is(key, "action") && json_enter(reader)) {
            while (json_next(reader, &key, &value))
                chunk->searches += value.kind == JSON_STRING && json_text_is(key, "type") &&
                                   json_text_is(value.string, "search");
        }
    }
}

static void read_items(struct json_reader *reader, struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;

    if (json_enter(reader))
        while (json_next(reader, &key, &value))
            if (value.kind == JSON_OBJECT)
                read_item(reader, chunk);
}

/* `response` of the responses API, `message` of messages. */
static void meter_read_whole(struct json_reader *reader, struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        if (json_text_is(key, "usage"))
            usage_read(reader, &value, &chunk->usage);
        else if (json_text_is(key, "tool_usage"))
            usage_read_tools(reader, &value, &chunk->usage);
        else if (json_text_is(key, "output") && value.kind == JSON_ARRAY)
            read_items(reader, chunk);
        else if (json_text_is(key, "service_tier"))
            usage_keep_word(chunk->usage.tier, &value);
        else if (json_text_is(key, "error"))
            read_error(reader, &value, chunk);
        else if (json_text_is(key, "id") && value.kind == JSON_STRING)
            chunk->id = value.string;
    }
}

static void read_member(struct json_reader *reader, struct json_text key,
                        const struct json_value *value, struct chunk *chunk)
{
    bool object = value->kind == JSON_OBJECT;

    if (json_text_is(key, "type"))
        keep_word(chunk->type, value);
    else if (json_text_is(key, "usage"))
        usage_read(reader, value, &chunk->usage);
    else if (json_text_is(key, "choices") && value->kind == JSON_ARRAY)
        read_choices(reader, chunk);
    else if (json_text_is(key, "error"))
        read_error(reader, value, chunk);
    else if (json_text_is(key, "code"))
        read_code(chunk, value);
    else if (json_text_is(key, "delta") && value->kind == JSON_STRING)
        chunk->delta = (int64_t)value->string.size;
    else if ((json_text_is(key, "delta") || json_text_is(key, "content_block")) && object)
        read_output(reader, chunk);
    else if (json_text_is(key, "service_tier"))
        usage_keep_word(chunk->usage.tier, value);
    else if (json_text_is(key, "item") && object)
        read_item(reader, chunk);
    else if ((json_text_is(key, "response") || json_text_is(key, "message")) && object)
        meter_read_whole(reader, chunk);
}

static bool read_chunk(struct json_reader *reader, struct slice data, struct chunk *chunk)
{
    struct json_text key;
    struct json_value value;

    if (!json_begin(reader, data.at, data.n, data.n, &value) || value.kind != JSON_OBJECT ||
        !json_enter(reader))
        return false;
    while (json_next(reader, &key, &value))
        read_member(reader, key, &value, chunk);
    return json_end(reader);
}

/* ---- Errors within a stream ------------------------------------------------------------------ */

static bool is_word_of(const char *word, const char *const words[])
{
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* The key is at its limit or out of money: another may do better. */
static bool is_limit(const char *word)
{
    static const char *const words[] = {"rate_limit_error",
                                        "rate_limit_exceeded",
                                        "rate_limit",
                                        "tokens",
                                        "requests",
                                        "insufficient_quota",
                                        "RateLimitError",
                                        "resource_exhausted",
                                        "RESOURCE_EXHAUSTED",
                                        "too_many_requests",
                                        NULL};

    return is_word_of(word, words);
}

static bool is_timeout(const char *word)
{
    static const char *const words[] = {"timeout_error", "timeout", "DEADLINE_EXCEEDED", NULL};

    return is_word_of(word, words);
}

static bool is_server_fault(const char *word)
{
    static const char *const words[] = {"overloaded_error",
                                        "overloaded",
                                        "server_error",
                                        "api_error",
                                        "internal_error",
                                        "internal_server_error",
                                        "slow_down",
                                        "service_unavailable",
                                        "engine_overloaded",
                                        "server_is_overloaded",
                                        "InternalServerError",
                                        "UNAVAILABLE",
                                        NULL};

    return is_word_of(word, words);
}

static void judge_error(const struct chunk *chunk, struct meter_event *seen)
{
    const char *word = chunk->code[0] != '\0' ? chunk->code : chunk->fault;

    seen->error = true;
    seen->limited = is_limit(chunk->code) || is_limit(chunk->fault) || chunk->status == 429;
    seen->timed_out = is_timeout(chunk->code) || is_timeout(chunk->fault) || chunk->status == 408 ||
                      chunk->status == 504;
    seen->retryable = seen->limited || is_server_fault(chunk->code) ||
                      is_server_fault(chunk->fault) || seen->timed_out ||
                      (chunk->status >= 500 && chunk->status <= 599);
    snprintf(seen->error_type, sizeof seen->error_type, "%s", word);
    if (word[0] == '\0' && chunk->status > 0)
        snprintf(seen->error_type, sizeof seen->error_type, "%lld", (long long)chunk->status);
}

/* ---- What an event means --------------------------------------------------------------------- */

static bool type_is(const struct chunk *chunk, const char *type)
{
    return strcmp(chunk->type, type) == 0;
}

static bool ends_in(const char *word, const char *end)
{
    size_t n = strlen(word);
    size_t m = strlen(end);

    return n >= m && strcmp(word + n - m, end) == 0;
}

/* Audio and images come as base64: output, but no text. */
static void judge_responses(struct chunk *chunk, struct meter *meter)
{
    bool audio = ends_in(chunk->type, "audio.delta");

    if (ends_in(chunk->type, ".delta") && !audio)
        chunk->text += chunk->delta;
    chunk->payload |= (audio && chunk->delta > 0) || ends_in(chunk->type, ".partial_image");
    chunk->error |= type_is(chunk, "response.failed") || type_is(chunk, "error");
    if (type_is(chunk, "response.completed") || type_is(chunk, "response.incomplete") ||
        type_is(chunk, "response.failed") || type_is(chunk, "response.cancelled"))
        meter->ended = true;
}

static void judge(struct chunk *chunk, struct meter *meter, struct meter_event *seen)
{
    bool usage = chunk->usage.has_output || chunk->usage.absurd;

    switch (meter->endpoint) {
    case ENDPOINT_RESPONSES:
        judge_responses(chunk, meter);
        meter->final |= usage && meter->ended;
        break;
    case ENDPOINT_MESSAGES:
        chunk->error |= type_is(chunk, "error");
        meter->ended |= type_is(chunk, "message_stop");
        meter->final |= usage && type_is(chunk, "message_delta");
        break;
    default:
        seen->usage_only = chunk->choices == 0 && chunk->usage.found;
        meter->final |= usage && chunk->choices == 0; /* else there may be more of both */
        break;
    }
    seen->content = chunk->text > 0 || chunk->payload;
    if (chunk->error)
        judge_error(chunk, seen);
}

/* In an event's own reading, flags are what this event said, and counts those of all so far. */
static void take_usage(struct meter *meter, const struct usage_reading *usage)
{
    bool has_input = meter->reading.has_input || usage->has_input;
    bool has_output = meter->reading.has_output || usage->has_output;

    memcpy(meter->reading.tier, usage->tier, sizeof usage->tier);
    if (!usage->found)
        return;
    meter->reading = *usage;
    meter->reading.has_input = has_input;
    meter->reading.has_output = has_output;
}

/* Items come one by one, and all of them once more at the end. */
static void take_searches(struct meter *meter, const struct chunk *chunk)
{
    if (meter->endpoint != ENDPOINT_RESPONSES)
        return;
    if (type_is(chunk, "response.output_item.done"))
        meter->searches += chunk->searches;
    else if (meter->ended && chunk->searches > 0)
        meter->searches = chunk->searches;
    if (!meter->reading.absurd && meter->reading.usage.tool_calls < meter->searches)
        meter->reading.usage.tool_calls = meter->searches;
}

void meter_take(struct meter *meter, struct json_reader *reader, const struct sse_event *event,
                struct meter_event *seen)
{
    struct chunk chunk = {.usage = meter->reading};

    *seen = (struct meter_event){.content = false};
    if (event->kind != SSE_EVENT) {
        meter->unread += event->kind == SSE_PIECE;
        return;
    }
    meter->events++;
    if (slice_equal(event->data, SLICE("[DONE]"))) {
        seen->done = true;
        meter->ended = true;
        if (meter->endpoint == ENDPOINT_CHAT || meter->endpoint == ENDPOINT_COMPLETIONS)
            meter->final |= meter->reading.has_output || meter->reading.absurd;
        return;
    }
    chunk.usage.found = chunk.usage.has_input = chunk.usage.has_output = false;
    chunk.usage.passes = &meter->passes;
    if (!read_chunk(reader, event->data, &chunk)) {
        meter->unread++;
        return;
    }
    judge(&chunk, meter, seen);
    take_usage(meter, &chunk.usage);
    take_searches(meter, &chunk);
    meter->reading.refused |= chunk.refused;
    meter->text_bytes += chunk.text;
    if (meter->id_n == 0 && chunk.id.size > 0 && chunk.id.size <= METER_ID_MAX) {
        memcpy(meter->id, chunk.id.bytes, chunk.id.size);
        meter->id_n = chunk.id.size;
    }
    meter->content |= seen->content;
    meter->error |= seen->error;
    meter->failed |= seen->retryable;
    meter->limited |= seen->limited;
    assert(!meter->limited || meter->failed); /* a rate limit is one kind of fault, */
    assert(!meter->failed || meter->error);   /* and a fault is reported as an error */
}
