/* messages_reply_read.c - a message or the events of its stream, read into events.
 *
 * A stream names its blocks by index; each is one part. The last `message_delta` has the usage, and
 * its numbers replace those of `message_start`, but 0 there means that it is not said again. A
 * stream that ends without `message_stop` was cut.
 */
#include "server/dialect/anthropic/anthropic.h"

static struct slice as_slice(struct json_text text)
{
    return (struct slice){text.bytes, text.size};
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

struct reply_block {
    struct json_text type, text, thinking, signature, data, id, name;
    struct slice input; /* its bytes, if it is not {} */
};

/* "{}", maybe with blanks in it */
static bool is_empty_object(struct slice raw)
{
    size_t i = 1;

    while (i < raw.n && strchr(" \t\r\n", raw.at[i]) != NULL)
        i++;
    return i + 1 >= raw.n;
}

static void read_block(struct reply_reader *reader, struct slice document,
                       struct reply_block *block)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value)) {
        struct json_text *to = json_text_is(key, "type")        ? &block->type
                               : json_text_is(key, "text")      ? &block->text
                               : json_text_is(key, "thinking")  ? &block->thinking
                               : json_text_is(key, "signature") ? &block->signature
                               : json_text_is(key, "data")      ? &block->data
                               : json_text_is(key, "id")        ? &block->id
                               : json_text_is(key, "name")      ? &block->name
                                                                : NULL;
        if (to != NULL && value.kind == JSON_STRING)
            *to = value.string;
        else if (json_text_is(key, "input") && value.kind == JSON_OBJECT)
            block->input = reader_raw(reader, document, &value);
    }
}

/* Opens the part of a block, and gives what it brings along. Blocks of hosted tools have no
 * counterpart and are passed over. */
static void open_block(struct reply_reader *reader, int64_t index, const struct reply_block *block)
{
    bool redacted = json_text_is(block->type, "redacted_thinking");
    bool thinking = redacted || json_text_is(block->type, "thinking");
    bool call = json_text_is(block->type, "tool_use");
    uint32_t part;

    if (call) {
        struct neutral_event event = {.id = as_slice(block->id), .name = as_slice(block->name)};
        part = reader_open(reader, 0, PART_CALL, index, &event);
        if (block->input.n > 0 && !is_empty_object(block->input))
            reader_text(reader, part, (struct json_text){block->input.at, block->input.n});
    } else if (thinking) {
        struct neutral_event event = {.opaque_kind = redacted ? OPAQUE_REDACTED : OPAQUE_NONE,
                                      .opaque = as_slice(block->data)};
        part = reader_open(reader, 0, PART_REASONING, index, &event);
        reader_text(reader, part, block->thinking);
        if (block->signature.size > 0)
            reader_opaque(reader, part, OPAQUE_SIGNATURE, as_slice(block->signature));
    } else if (json_text_is(block->type, "text")) {
        part = reader_open(reader, 0, PART_TEXT, index, NULL);
        reader_text(reader, part, block->text);
    }
}

static void take_usage(struct reply_reader *reader, const struct json_value *value)
{
    struct usage_reading usage = {.found = false};

    usage_read(reader->json, value, &usage);
    usage_merge(&reader->usage, &usage);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

static void keep_stop(struct reply_reader *reader, struct json_text reason)
{
    static const struct {
        const char *reason;
        enum neutral_stop stop;
    } stops[] = {
        {"end_turn", STOP_END},
        {"max_tokens", STOP_LENGTH},
        {"stop_sequence", STOP_TEXT},
        {"tool_use", STOP_TOOL},
        {"pause_turn", STOP_PAUSE},
        {"refusal", STOP_REFUSAL},
        {"model_context_window_exceeded", STOP_CONTEXT},
    };

    reader->has_stop = true;
    reader->stop = STOP_END;
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        if (json_text_is(reason, stops[i].reason))
            reader->stop = stops[i].stop;
}

static void keep_stop_text(struct reply_reader *reader, struct json_text text)
{
    reader->n_stop_text =
        text.size < sizeof reader->stop_text ? text.size : sizeof reader->stop_text;
    memcpy(reader->stop_text, text.bytes, reader->n_stop_text);
}

/* {"category", "explanation"}: why it refused, for the user. */
static void read_stop_details(struct reply_reader *reader)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value))
        if (json_text_is(key, "explanation") && value.kind == JSON_STRING) {
            reader_close_all(reader, 0);
            reader_add(reader, 0, PART_REFUSAL, value.string);
        }
}

static void give_stop(struct reply_reader *reader)
{
    if (reader->has_stop)
        reader_stop(reader, 0, reader->stop,
                    (struct slice){reader->stop_text, reader->n_stop_text});
}

/* ---- Documents ------------------------------------------------------------------------------- */

static void read_content(struct reply_reader *reader, struct slice document)
{
    struct json_text key;
    struct json_value item;
    int64_t index = 0;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &item)) {
        struct reply_block block = {.input = {"", 0}};
        if (item.kind != JSON_OBJECT)
            continue;
        read_block(reader, document, &block);
        open_block(reader, index, &block);
        reader_close_all(reader, 0);
        index++;
    }
}

/* The members of a message, and of the `delta` of message_delta. */
static void read_message_key(struct reply_reader *reader, struct slice document,
                             struct json_text key, const struct json_value *value)
{
    if (json_text_is(key, "content") && value->kind == JSON_ARRAY)
        read_content(reader, document);
    else if (json_text_is(key, "stop_reason") && value->kind == JSON_STRING)
        keep_stop(reader, value->string);
    else if (json_text_is(key, "stop_sequence") && value->kind == JSON_STRING)
        keep_stop_text(reader, value->string);
    else if (json_text_is(key, "stop_details") && value->kind == JSON_OBJECT)
        read_stop_details(reader);
    else if (json_text_is(key, "usage") && value->kind == JSON_OBJECT)
        take_usage(reader, value);
}

static void read_reply_message(struct reply_reader *reader, struct slice document)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value))
        read_message_key(reader, document, key, &value);
}

void messages_read_reply(struct reply_reader *reader, struct slice body)
{
    struct json_text key;
    struct json_value root, value;

    if (json_begin(reader->json, body.at, body.n, body.n, &root) && root.kind == JSON_OBJECT &&
        json_enter(reader->json))
        while (json_next(reader->json, &key, &value)) {
            if (json_text_is(key, "error") && value.kind == JSON_OBJECT) {
                struct neutral_error error;
                neutral_error_take(reader->json, &value, 0, &error);
                reader_error(reader, &error);
            } else {
                read_message_key(reader, body, key, &value);
            }
        }
    if (!reader_json_is_whole(reader))
        return;
    give_stop(reader);
    reader_end(reader);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* One event, as far as it was read. */
struct stream_event {
    struct json_text type;
    int64_t index;
    struct reply_block block; /* a content_block_start, or a delta */
    struct json_text partial; /* arguments of an input_json_delta */
};

static void read_delta(struct reply_reader *reader, struct slice document,
                       struct stream_event *event)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value)) {
        struct json_text *to = json_text_is(key, "type")           ? &event->block.type
                               : json_text_is(key, "text")         ? &event->block.text
                               : json_text_is(key, "thinking")     ? &event->block.thinking
                               : json_text_is(key, "signature")    ? &event->block.signature
                               : json_text_is(key, "partial_json") ? &event->partial
                                                                   : NULL;
        if (to != NULL && value.kind == JSON_STRING)
            *to = value.string;
        else if (to == NULL)
            read_message_key(reader, document, key, &value);
    }
}

static void take_delta(struct reply_reader *reader, const struct stream_event *event)
{
    uint32_t part = reader_find(reader, 0, event->index);

    if (part == NO_PART)
        return; /* a block of a kind that is passed over */
    reader_text(reader, part, event->block.text);
    reader_text(reader, part, event->block.thinking);
    reader_text(reader, part, event->partial);
    if (event->block.signature.size > 0)
        reader_opaque(reader, part, OPAQUE_SIGNATURE, as_slice(event->block.signature));
}

static void take_stream_event(struct reply_reader *reader, const struct stream_event *event)
{
    if (json_text_is(event->type, "message_start")) {
        reader_begin(reader);
    } else if (json_text_is(event->type, "content_block_start")) {
        open_block(reader, event->index, &event->block);
    } else if (json_text_is(event->type, "content_block_delta")) {
        take_delta(reader, event);
    } else if (json_text_is(event->type, "content_block_stop")) {
        reader_close(reader, reader_find(reader, 0, event->index));
    } else if (json_text_is(event->type, "message_delta")) {
        give_stop(reader);
        reader_usage(reader);
    } else if (json_text_is(event->type, "message_stop")) {
        reader_end(reader);
    } else if (json_text_is(event->type, "ping")) {
        reader_ping(reader);
    }
}

void messages_read_event(struct reply_reader *reader, struct slice name, struct slice data)
{
    struct json_reader *json = reader->json;
    struct stream_event event = {.index = 0};
    struct json_text key;
    struct json_value root, value;

    (void)name;
    if (data.n == 0)
        return;
    if (json_begin(json, data.at, data.n, data.n, &root) && root.kind == JSON_OBJECT &&
        json_enter(json)) {
        while (json_next(json, &key, &value)) {
            if (json_text_is(key, "type") && value.kind == JSON_STRING) {
                event.type = value.string;
            } else if (json_text_is(key, "index") && value.kind == JSON_INTEGER) {
                event.index = value.integer;
            } else if (json_text_is(key, "message") && value.kind == JSON_OBJECT) {
                read_reply_message(reader, data);
            } else if (json_text_is(key, "content_block") && value.kind == JSON_OBJECT) {
                read_block(reader, data, &event.block);
            } else if (json_text_is(key, "delta") && value.kind == JSON_OBJECT) {
                read_delta(reader, data, &event);
            } else if (json_text_is(key, "usage") && value.kind == JSON_OBJECT) {
                take_usage(reader, &value);
            } else if (json_text_is(key, "error") && value.kind == JSON_OBJECT) {
                struct neutral_error error;
                neutral_error_take(json, &value, 0, &error);
                reader_error(reader, &error);
            }
        }
    }
    if (reader_json_is_whole(reader))
        take_stream_event(reader, &event);
}

void messages_read_eof(struct reply_reader *reader)
{
    if (!reader->ended)
        reader_fail(reader, ERROR_SERVER, "The provider's reply ended before it was complete.");
}
