/* messages_reply_write.c - a message or the events of its stream, written from events.
 *
 * A stream has one block open at a time, numbered without gaps, while calls read from the chat API
 * interleave. So a call ends when its JSON is complete and another part wants to be written; while
 * it is not, what comes for others is held, and written when their turn comes:
 *
 *     WAITING --(nothing is open)--> CURRENT --(closed, or complete and another waits)--> DONE
 *
 * `message_start` must name the tokens of the prompt before most providers have told them: the
 * estimate stands there, because clients compact a conversation by it, and the true number comes
 * in `message_delta`, which is written last, when the usage is known.
 */
#include <assert.h>

#include "io/text/json_member.h"
#include "server/dialect/anthropic/anthropic.h"
#include "server/dialect/neutral/opaque_pack.h"
#include "server/dialect/neutral/request_write.h"

/* ---- What both have -------------------------------------------------------------------------- */

static const char *stop_reason(const struct reply_writer *writer)
{
    switch (writer->choices[0].stop) {
    case STOP_LENGTH:
    case STOP_CONTINUE:
        return "max_tokens";
    case STOP_TEXT:
        return "stop_sequence";
    case STOP_TOOL:
        return "tool_use";
    case STOP_FILTER:
    case STOP_REFUSAL:
        return "refusal";
    case STOP_PAUSE:
        return "pause_turn";
    case STOP_CONTEXT:
        return "model_context_window_exceeded";
    default:
        return "end_turn";
    }
}

static void write_stop(const struct reply_writer *writer, struct json_writer *out)
{
    write_word(out, "stop_reason", stop_reason(writer));
    json_write_key(out, "stop_sequence");
    if (writer->choices[0].stop == STOP_TEXT && writer->stop_text.size > 0)
        json_write_string(out, writer->stop_text.bytes, writer->stop_text.size);
    else
        json_write_null(out);
}

/* Input excludes what was read from a cache or written to one. In a message_delta, counts that are
 * not known are left out: clients take 0 for a number. */
static void write_usage(const struct reply_writer *writer, bool always, struct json_writer *out)
{
    const struct tg_usage *usage = &writer->usage.usage;
    int64_t written = usage->cache_write + usage->cache_write_long;

    json_write_key(out, "usage");
    json_write_object(out);
    if (always || writer->usage.has_input) {
        write_integer(out, "input_tokens", tg_usage_input(usage) - usage->cached_input - written);
        write_integer(out, "cache_creation_input_tokens", written);
        write_integer(out, "cache_read_input_tokens", usage->cached_input);
        json_write_key(out, "cache_creation");
        json_write_object(out);
        write_integer(out, "ephemeral_5m_input_tokens", usage->cache_write);
        write_integer(out, "ephemeral_1h_input_tokens", usage->cache_write_long);
        json_write_object_end(out);
    }
    write_integer(out, "output_tokens", tg_usage_output(usage));
    if (writer->usage.reasoning > 0) {
        json_write_key(out, "output_tokens_details");
        json_write_object(out);
        write_integer(out, "thinking_tokens", writer->usage.reasoning);
        json_write_object_end(out);
    }
    json_write_object_end(out);
}

static void write_head(const struct reply_writer *writer, struct json_writer *out)
{
    char id[64];

    writer_id(writer, "msg_", id);
    json_write_object(out);
    write_word(out, "id", id);
    write_word(out, "type", "message");
    write_word(out, "role", "assistant");
    write_text(out, "model", writer->terms->model);
}

/* A signature is required, and one that only we understand keeps thinking of others' from being
 * shown to Anthropic's models. */
static void write_signature(const struct reply_writer *writer, const struct reply_part *part,
                            struct json_writer *out)
{
    struct text_out made = {.size = 0};

    if (part->opaque.size == 0)
        opaque_pack(&made, OPAQUE_NONE, writer->terms->from, writer->terms->provider,
                    (struct slice){"", 0});
    write_text(out, "signature", text_out_written(part->opaque.size > 0 ? &part->opaque : &made));
    out->text.failed |= made.failed;
    text_out_fini(&made);
}

static bool is_redacted(const struct reply_writer *writer, const struct reply_part *part)
{
    return part->opaque_kind == OPAQUE_REDACTED && writer->terms->from == DIALECT_ANTHROPIC;
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void write_start(struct reply_writer *writer, struct json_writer *out)
{
    struct usage_reading known = writer->usage;

    if (tg_usage_input(&writer->usage.usage) == 0)
        writer->usage.usage.input =
            writer->terms->prompt_tokens > 0 ? writer->terms->prompt_tokens : 1;
    sse_begin(out, "message_start");
    json_write_object(out);
    write_word(out, "type", "message_start");
    json_write_key(out, "message");
    write_head(writer, out);
    json_write_key(out, "content");
    json_write_array(out);
    json_write_array_end(out);
    json_member_null(out, "stop_reason");
    json_member_null(out, "stop_sequence");
    write_usage(writer, true, out);
    json_write_object_end(out);
    json_write_object_end(out);
    sse_finish(out);
    writer->usage = known;
}

static void block_event(const struct reply_writer *writer, const char *type,
                        struct json_writer *out)
{
    sse_begin(out, type);
    json_write_object(out);
    write_word(out, "type", type);
    write_integer(out, "index", writer->blocks);
}

static void write_delta(const struct reply_writer *writer, const char *type, const char *key,
                        struct slice text, struct json_writer *out)
{
    block_event(writer, "content_block_delta", out);
    json_write_key(out, "delta");
    json_write_object(out);
    write_word(out, "type", type);
    write_text(out, key, text);
    json_write_object_end(out);
    json_write_object_end(out);
    sse_finish(out);
}

static void write_part_delta(const struct reply_writer *writer, const struct reply_part *part,
                             struct slice text, struct json_writer *out)
{
    if (part->kind == PART_CALL)
        write_delta(writer, "input_json_delta", "partial_json", text, out);
    else if (part->kind == PART_REASONING)
        write_delta(writer, "thinking_delta", "thinking", text, out);
    else
        write_delta(writer, "text_delta", "text", text, out);
}

static void start_block(struct reply_writer *writer, uint32_t index, struct json_writer *out)
{
    struct reply_part *part = &writer->parts[index];

    assert(writer->current == NO_PART && part->state == PART_WAITING);
    part->state = PART_CURRENT;
    writer->current = index;
    block_event(writer, "content_block_start", out);
    json_write_key(out, "content_block");
    json_write_object(out);
    if (part->kind == PART_CALL) {
        write_word(out, "type", "tool_use");
        write_text(out, "id", text_out_written(&part->id));
        write_text(out, "name", text_out_written(&part->name));
        write_raw(out, "input", SLICE("{}"));
    } else if (is_redacted(writer, part)) {
        write_word(out, "type", "redacted_thinking");
        write_text(out, "data", text_out_written(&part->opaque));
    } else if (part->kind == PART_REASONING) {
        write_word(out, "type", "thinking");
        write_word(out, "thinking", "");
        write_word(out, "signature", "");
    } else {
        write_word(out, "type", "text");
        write_word(out, "text", "");
    }
    json_write_object_end(out);
    json_write_object_end(out);
    sse_finish(out);
    if (part->text.size > 0) {
        write_part_delta(writer, part, text_out_written(&part->text), out);
        text_out_fini(&part->text);
    }
}

static void stop_block(struct reply_writer *writer, struct json_writer *out)
{
    struct reply_part *part = &writer->parts[writer->current];

    if (part->kind == PART_REASONING && !is_redacted(writer, part)) {
        block_event(writer, "content_block_delta", out);
        json_write_key(out, "delta");
        json_write_object(out);
        write_word(out, "type", "signature_delta");
        write_signature(writer, part, out);
        json_write_object_end(out);
        json_write_object_end(out);
        sse_finish(out);
    }
    block_event(writer, "content_block_stop", out);
    json_write_object_end(out);
    sse_finish(out);
    part->state = PART_DONE;
    writer->current = NO_PART;
    writer->blocks++;
}

static bool may_stop(const struct reply_part *part, bool all)
{
    return part->closed || all || part->kind != PART_CALL || part->json.complete;
}

/* Goes on to the parts that wait, as far as the current one lets them. */
static void advance_blocks(struct reply_writer *writer, bool all, struct json_writer *out)
{
    for (uint32_t i = 0; i < writer->n_parts; i++) {
        struct reply_part *part = &writer->parts[i];
        if (part->state != PART_WAITING)
            continue;
        if (writer->current != NO_PART) {
            if (!may_stop(&writer->parts[writer->current], all))
                return;
            stop_block(writer, out);
        }
        start_block(writer, i, out);
    }
    if (writer->current != NO_PART && (all || writer->parts[writer->current].closed))
        stop_block(writer, out);
}

static void add_to_part(struct reply_writer *writer, const struct neutral_event *event,
                        struct json_writer *out)
{
    struct reply_part *part = &writer->parts[event->index];

    if (part->kind == PART_CALL)
        json_depth_feed(&part->json, event->text);
    if (part->state == PART_CURRENT) {
        write_part_delta(writer, part, event->text, out);
        advance_blocks(writer, false, out);
    } else if (part->state == PART_WAITING) {
        text_out_slice(&part->text, event->text);
        writer->gathered += event->text.n;
        writer->no_memory |= part->text.failed || writer->gathered > REPLY_GATHER_MAX;
    }
}

static void write_end_of_stream(struct reply_writer *writer, struct json_writer *out)
{
    sse_begin(out, "message_delta");
    json_write_object(out);
    write_word(out, "type", "message_delta");
    json_write_key(out, "delta");
    json_write_object(out);
    write_stop(writer, out);
    json_write_object_end(out);
    write_usage(writer, false, out);
    json_write_object_end(out);
    sse_finish(out);
    sse_begin(out, "message_stop");
    json_write_object(out);
    write_word(out, "type", "message_stop");
    json_write_object_end(out);
    sse_finish(out);
}

void messages_write_event(struct reply_writer *writer, const struct neutral_event *event,
                          struct json_writer *out)
{
    /* There is one choice: a request that wants more is not carried over. */
    if (event->choice > 0)
        return;
    switch (event->kind) {
    case EVENT_BEGIN:
        write_start(writer, out);
        break;
    case EVENT_OPEN:
    case EVENT_CLOSE:
        advance_blocks(writer, false, out);
        break;
    case EVENT_TEXT:
    case EVENT_ARGS:
        add_to_part(writer, event, out);
        break;
    case EVENT_STOP:
        advance_blocks(writer, true, out);
        break;
    case EVENT_ERROR:
        sse_begin(out, "error");
        neutral_error_write(event->error, DIALECT_ANTHROPIC, out);
        sse_finish(out);
        break;
    case EVENT_PING:
        sse_begin(out, "ping");
        json_write_object(out);
        write_word(out, "type", "ping");
        json_write_object_end(out);
        sse_finish(out);
        break;
    case EVENT_END:
        write_end_of_stream(writer, out);
        break;
    case EVENT_OPAQUE:
    case EVENT_USAGE:
        break;
    }
}

/* ---- Whole replies --------------------------------------------------------------------------- */

static void write_block(const struct reply_writer *writer, const struct reply_part *part,
                        struct json_writer *out)
{
    struct slice text = text_out_written(&part->text);

    if (part->kind == PART_TEXT && text.n == 0)
        return;
    json_write_object(out);
    if (part->kind == PART_CALL) {
        write_word(out, "type", "tool_use");
        write_text(out, "id", text_out_written(&part->id));
        write_text(out, "name", text_out_written(&part->name));
        if (text.n > 0 && is_json_object(writer->json, text))
            write_raw(out, "input", text);
        else /* a call that was cut by the bound of output */
            write_raw(out, "input", SLICE("{}"));
    } else if (is_redacted(writer, part)) {
        write_word(out, "type", "redacted_thinking");
        write_text(out, "data", text_out_written(&part->opaque));
    } else if (part->kind == PART_REASONING) {
        write_word(out, "type", "thinking");
        write_text(out, "thinking", text);
        write_signature(writer, part, out);
    } else {
        write_word(out, "type", "text");
        write_text(out, "text", text);
    }
    json_write_object_end(out);
}

/* Arguments are an object here, and not a text: what a model wrote that is none cannot be told. */
static bool check_arguments(struct reply_writer *writer)
{
    for (size_t i = 0; i < writer->n_parts; i++)
        if (writer->parts[i].kind == PART_CALL && writer->parts[i].text.size > 0 &&
            !is_json_object(writer->json, text_out_written(&writer->parts[i].text))) {
            neutral_error_init(&writer->error, ERROR_SERVER,
                               "The model called a tool with arguments that are no JSON object.");
            writer->has_error = true;
            return false;
        }
    return true;
}

void messages_write_reply(struct reply_writer *writer, struct json_writer *out)
{
    if (writer->choices[0].stop != STOP_LENGTH && !check_arguments(writer))
        return;
    write_head(writer, out);
    json_write_key(out, "content");
    json_write_array(out);
    for (size_t i = 0; i < writer->n_parts; i++)
        if (writer->parts[i].choice == 0)
            write_block(writer, &writer->parts[i], out);
    json_write_array_end(out);
    write_stop(writer, out);
    write_usage(writer, true, out);
    json_write_object_end(out);
}
