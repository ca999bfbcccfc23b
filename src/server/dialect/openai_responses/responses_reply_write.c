/* responses_reply_write.c - a response or the events of its stream, written from events.
 *
 * Every part is an item of its own: a message with one content, a call, or reasoning. Items are
 * numbered in the order in which they are opened, and may be open side by side. The events that end
 * an item, and the one that ends the stream, repeat all that it has: so the texts are kept, and
 * REPLY_GATHER_MAX bounds them.
 *
 * Nothing is stored, so nothing can be referred to later; ids that we made are marked, because
 * clients send them back and no provider knows them.
 */
#include <stdio.h>

#include "io/text/json_member.h"
#include "server/dialect/neutral/request_write.h"
#include "server/dialect/openai_responses/openai_responses.h"

/* ---- What both have -------------------------------------------------------------------------- */

static bool is_cut(const struct reply_writer *writer)
{
    enum neutral_stop stop = writer->choices[0].stop;

    return stop == STOP_LENGTH || stop == STOP_CONTEXT || stop == STOP_CONTINUE;
}

/* A call whose arguments are no whole JSON was cut, and must not be run. */
static bool call_is_whole(const struct reply_part *part)
{
    struct json_depth json = {.depth = 0};

    if (part->kind != PART_CALL || part->free || part->text.size == 0)
        return true;
    json_depth_feed(&json, text_out_written(&part->text));
    return json.complete;
}

static void write_item_id(const struct reply_writer *writer, const struct reply_part *part,
                          const char *key, struct json_writer *out)
{
    const char *prefix = part->kind == PART_REASONING ? "rs"
                         : part->kind != PART_CALL    ? "msg"
                         : part->free                 ? "ctc"
                                                      : "fc";
    char head[16], base[64], id[80];

    snprintf(head, sizeof head, "%s" RESPONSES_OWN_ID "_", prefix);
    writer_id(writer, head, base);
    snprintf(id, sizeof id, "%s%04x", base, (unsigned)part->place);
    write_word(out, key, id);
}

static void write_empty_array(struct json_writer *out, const char *key)
{
    json_write_key(out, key);
    json_write_array(out);
    json_write_array_end(out);
}

static void write_null(struct json_writer *out, const char *key)
{
    json_member_null(out, key);
}

static void write_content(const struct reply_part *part, struct slice text, struct json_writer *out)
{
    bool refusal = part->kind == PART_REFUSAL;

    json_write_object(out);
    write_word(out, "type", refusal ? "refusal" : "output_text");
    write_text(out, refusal ? "refusal" : "text", text);
    if (!refusal) {
        write_empty_array(out, "annotations");
        write_empty_array(out, "logprobs");
    }
    json_write_object_end(out);
}

static void write_summary(struct slice text, struct json_writer *out)
{
    json_write_object(out);
    write_word(out, "type", "summary_text");
    write_text(out, "text", text);
    json_write_object_end(out);
}

/* An item as it begins, or with all that it has. */
static void write_item(const struct reply_writer *writer, const struct reply_part *part,
                       const char *status, struct json_writer *out)
{
    bool begins = strcmp(status, "in_progress") == 0;
    struct slice text = begins ? (struct slice){"", 0} : text_out_written(&part->text);

    json_write_object(out);
    write_item_id(writer, part, "id", out);
    if (part->kind == PART_CALL) {
        write_word(out, "type", part->free ? "custom_tool_call" : "function_call");
        write_word(out, "status", status);
        write_text(out, "call_id", text_out_written(&part->id));
        write_text(out, "name", text_out_written(&part->name));
        write_text(out, part->free ? "input" : "arguments",
                   text.n == 0 && !part->free && !begins ? SLICE("{}") : text);
    } else if (part->kind == PART_REASONING) {
        write_word(out, "type", "reasoning");
        json_write_key(out, "summary");
        json_write_array(out);
        if (text.n > 0)
            write_summary(text, out);
        json_write_array_end(out);
        if (!begins && part->opaque.size > 0)
            write_text(out, "encrypted_content", text_out_written(&part->opaque));
    } else {
        write_word(out, "type", "message");
        write_word(out, "status", status);
        write_word(out, "role", "assistant");
        json_write_key(out, "content");
        json_write_array(out);
        if (!begins)
            write_content(part, text, out);
        json_write_array_end(out);
    }
    json_write_object_end(out);
}

static const char *item_status(const struct reply_part *part)
{
    return call_is_whole(part) ? "completed" : "incomplete";
}

/* Input and output are wholes, and the parts are within them. */
static void write_usage(const struct reply_writer *writer, struct json_writer *out)
{
    const struct tg_usage *usage = &writer->usage.usage;
    int64_t input = tg_usage_input(usage), output = tg_usage_output(usage);

    json_write_key(out, "usage");
    json_write_object(out);
    write_integer(out, "input_tokens", input);
    json_write_key(out, "input_tokens_details");
    json_write_object(out);
    write_integer(out, "cached_tokens", usage->cached_input);
    write_integer(out, "cache_write_tokens", usage->cache_write + usage->cache_write_long);
    json_write_object_end(out);
    write_integer(out, "output_tokens", output);
    json_write_key(out, "output_tokens_details");
    json_write_object(out);
    write_integer(out, "reasoning_tokens", writer->usage.reasoning);
    json_write_object_end(out);
    write_integer(out, "total_tokens", input + output);
    json_write_object_end(out);
}

static void write_incomplete(const struct reply_writer *writer, struct json_writer *out)
{
    bool filtered = writer->choices[0].stop == STOP_FILTER;

    json_write_key(out, "incomplete_details");
    if (!is_cut(writer) && !filtered) {
        json_write_null(out);
        return;
    }
    json_write_object(out);
    write_word(out, "reason", filtered ? "content_filter" : "max_output_tokens");
    json_write_object_end(out);
}

/* {"code", "message"}: the code is one of a few that clients know. */
static void write_failure(const struct reply_writer *writer, struct json_writer *out)
{
    json_write_key(out, "error");
    if (!writer->has_error) {
        json_write_null(out);
        return;
    }
    json_write_object(out);
    write_word(out, "code",
               writer->error.class == ERROR_RATE          ? "rate_limit_exceeded"
               : writer->error.class == ERROR_BAD_REQUEST ? "invalid_prompt"
               : writer->error.class == ERROR_CONTEXT     ? "context_length_exceeded"
                                                          : "server_error");
    write_word(out, "message", writer->error.message);
    json_write_object_end(out);
}

static const char *final_status(const struct reply_writer *writer)
{
    return writer->has_error                                          ? "failed"
           : is_cut(writer) || writer->choices[0].stop == STOP_FILTER ? "incomplete"
                                                                      : "completed";
}

/* The type wants all of these; what the request asked for is not repeated. */
static void write_settings(struct json_writer *out)
{
    write_null(out, "instructions");
    write_null(out, "max_output_tokens");
    write_raw(out, "metadata", SLICE("{}"));
    write_bool(out, "parallel_tool_calls", true);
    write_null(out, "previous_response_id");
    write_raw(out, "reasoning", SLICE("{\"effort\":null,\"summary\":null}"));
    write_bool(out, "store", false);
    write_null(out, "temperature");
    write_raw(out, "text", SLICE("{\"format\":{\"type\":\"text\"}}"));
    write_word(out, "tool_choice", "auto");
    write_empty_array(out, "tools");
    write_null(out, "top_p");
    write_word(out, "truncation", "disabled");
}

static void write_response(const struct reply_writer *writer, const char *status,
                           struct json_writer *out)
{
    bool ended = strcmp(status, "in_progress") != 0;
    char id[64];

    writer_id(writer, "resp_", id);
    json_write_object(out);
    write_word(out, "id", id);
    write_word(out, "object", "response");
    write_integer(out, "created_at", writer->terms->created);
    write_word(out, "status", status);
    write_failure(writer, out);
    if (ended)
        write_incomplete(writer, out);
    else
        write_null(out, "incomplete_details");
    write_text(out, "model", writer->terms->model);
    json_write_key(out, "output");
    json_write_array(out);
    for (size_t i = 0; i < writer->n_parts && ended; i++)
        if (writer->parts[i].choice == 0)
            write_item(writer, &writer->parts[i], item_status(&writer->parts[i]), out);
    json_write_array_end(out);
    write_settings(out);
    if (ended && !writer->has_error)
        write_usage(writer, out);
    else
        write_null(out, "usage");
    json_write_object_end(out);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void event_begin(struct reply_writer *writer, const char *type, struct json_writer *out)
{
    sse_begin(out, type);
    json_write_object(out);
    write_word(out, "type", type);
    write_integer(out, "sequence_number", writer->sequence++);
}

static void event_end(struct json_writer *out)
{
    json_write_object_end(out);
    sse_finish(out);
}

static void response_event(struct reply_writer *writer, const char *type, const char *status,
                           struct json_writer *out)
{
    event_begin(writer, type, out);
    json_write_key(out, "response");
    write_response(writer, status, out);
    event_end(out);
}

static void begin_response(struct reply_writer *writer, struct json_writer *out)
{
    struct neutral_error none = writer->error;
    bool has_error = writer->has_error;

    writer->has_error = false;
    response_event(writer, "response.created", "in_progress", out);
    response_event(writer, "response.in_progress", "in_progress", out);
    writer->error = none;
    writer->has_error = has_error;
    writer->choices[0].begun = true;
}

/* Names the item that an event is about. */
static void item_event(struct reply_writer *writer, const struct reply_part *part, const char *type,
                       struct json_writer *out)
{
    event_begin(writer, type, out);
    write_item_id(writer, part, "item_id", out);
    write_integer(out, "output_index", part->place);
}

/* And the content of a message, or the summary of reasoning: there is one. */
static void content_event(struct reply_writer *writer, const struct reply_part *part,
                          const char *type, struct json_writer *out)
{
    item_event(writer, part, type, out);
    write_integer(out, part->kind == PART_REASONING ? "summary_index" : "content_index", 0);
}

static void whole_item_event(struct reply_writer *writer, const struct reply_part *part,
                             const char *type, const char *status, struct json_writer *out)
{
    event_begin(writer, type, out);
    write_integer(out, "output_index", part->place);
    json_write_key(out, "item");
    write_item(writer, part, status, out);
    event_end(out);
}

static void content_part_event(struct reply_writer *writer, const struct reply_part *part,
                               const char *type, struct slice text, struct json_writer *out)
{
    content_event(writer, part, type, out);
    json_write_key(out, "part");
    if (part->kind == PART_REASONING)
        write_summary(text, out);
    else
        write_content(part, text, out);
    event_end(out);
}

/* Thinking of which nothing is shown has no summary, so one begins with its first text. */
static void open_item(struct reply_writer *writer, struct reply_part *part, struct json_writer *out)
{
    part->place = writer->blocks++;
    whole_item_event(writer, part, "response.output_item.added", "in_progress", out);
    if (part->kind == PART_TEXT || part->kind == PART_REFUSAL)
        content_part_event(writer, part, "response.content_part.added", (struct slice){"", 0}, out);
}

static const struct {
    const char *delta, *done, *key;
} names[] = {
    [PART_TEXT] = {"response.output_text.delta", "response.output_text.done", "text"},
    [PART_REFUSAL] = {"response.refusal.delta", "response.refusal.done", "refusal"},
    [PART_CALL] = {"response.function_call_arguments.delta",
                   "response.function_call_arguments.done", "arguments"},
    [PART_REASONING] = {"response.reasoning_summary_text.delta",
                        "response.reasoning_summary_text.done", "text"},
};

static void add_delta(struct reply_writer *writer, const struct reply_part *part, struct slice text,
                      struct json_writer *out)
{
    bool custom = part->kind == PART_CALL && part->free;
    const char *type = custom ? "response.custom_tool_call_input.delta" : names[part->kind].delta;

    if (part->kind == PART_REASONING && !part->grown)
        content_part_event(writer, part, "response.reasoning_summary_part.added",
                           (struct slice){"", 0}, out);
    if (part->kind == PART_CALL)
        item_event(writer, part, type, out);
    else
        content_event(writer, part, type, out);
    write_text(out, "delta", text);
    if (part->kind == PART_TEXT)
        write_empty_array(out, "logprobs");
    event_end(out);
}

static void close_call(struct reply_writer *writer, const struct reply_part *part,
                       struct json_writer *out)
{
    struct slice text = text_out_written(&part->text);

    if (text.n == 0 && !part->free) {
        text = SLICE("{}");
        add_delta(writer, part, text, out);
    }
    item_event(writer, part,
               part->free ? "response.custom_tool_call_input.done" : names[PART_CALL].done, out);
    if (!part->free)
        write_text(out, "name", text_out_written(&part->name));
    write_text(out, part->free ? "input" : "arguments", text);
    event_end(out);
}

static void close_item(struct reply_writer *writer, const struct reply_part *part,
                       struct json_writer *out)
{
    struct slice text = text_out_written(&part->text);

    if (part->kind == PART_CALL) {
        close_call(writer, part, out);
    } else if (part->kind != PART_REASONING || part->grown) {
        content_event(writer, part, names[part->kind].done, out);
        write_text(out, names[part->kind].key, text);
        if (part->kind == PART_TEXT)
            write_empty_array(out, "logprobs");
        event_end(out);
        content_part_event(writer, part,
                           part->kind == PART_REASONING ? "response.reasoning_summary_part.done"
                                                        : "response.content_part.done",
                           text, out);
    }
    whole_item_event(writer, part, "response.output_item.done", item_status(part), out);
}

static void end_stream(struct reply_writer *writer, struct json_writer *out)
{
    const char *status = final_status(writer);
    char type[32];

    snprintf(type, sizeof type, "response.%s", status);
    response_event(writer, type, status, out);
}

void responses_write_event(struct reply_writer *writer, const struct neutral_event *event,
                           struct json_writer *out)
{
    struct reply_part *part = event->kind >= EVENT_OPEN && event->kind <= EVENT_CLOSE
                                  ? &writer->parts[event->index]
                                  : NULL;

    /* There is one choice: a request that wants more is not carried over. */
    if (event->choice > 0)
        return;
    switch (event->kind) {
    case EVENT_BEGIN:
        begin_response(writer, out);
        break;
    case EVENT_OPEN:
        open_item(writer, part, out);
        break;
    case EVENT_TEXT:
    case EVENT_ARGS:
        add_delta(writer, part, event->text, out);
        break;
    case EVENT_CLOSE:
        close_item(writer, part, out);
        break;
    case EVENT_ERROR:
        if (!writer->choices[0].begun)
            begin_response(writer, out);
        end_stream(writer, out);
        break;
    case EVENT_PING:
        text_out_text(&out->text, ": ping\n\n");
        break;
    case EVENT_END:
        end_stream(writer, out);
        break;
    case EVENT_OPAQUE:
    case EVENT_USAGE:
    case EVENT_STOP:
        break;
    }
}

/* ---- Whole replies --------------------------------------------------------------------------- */

void responses_write_reply(struct reply_writer *writer, struct json_writer *out)
{
    for (size_t i = 0; i < writer->n_parts; i++)
        if (writer->parts[i].choice == 0)
            writer->parts[i].place = writer->blocks++;
    write_response(writer, final_status(writer), out);
}
