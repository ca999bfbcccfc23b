/* chat_reply_write.c - a chat completion or its chunks, written from events.
 *
 * Every choice begins with a chunk that has the role; calls are numbered within their choice. A
 * call without arguments says "{}" before it is closed: clients parse what they are given. The
 * usage comes in a chunk of its own, if the client asked for it, and [DONE] only after a clean end.
 */
#include "io/text/json_member.h"
#include "server/dialect/neutral/request_write.h"
#include "server/dialect/openai_chat/openai_chat.h"

/* ---- What both have -------------------------------------------------------------------------- */

static const char *finish_of(const struct reply_writer *writer, int choice)
{
    switch (writer->choices[choice].stop) {
    case STOP_LENGTH:
    case STOP_CONTEXT:
    case STOP_CONTINUE:
        return "length";
    case STOP_TOOL:
        return writer->terms->legacy_functions ? "function_call" : "tool_calls";
    case STOP_FILTER:
        return "content_filter";
    default:
        return "stop";
    }
}

static void write_head(const struct reply_writer *writer, const char *object,
                       struct json_writer *out)
{
    char id[64];

    writer_id(writer, "chatcmpl-", id);
    json_write_object(out);
    write_word(out, "id", id);
    write_word(out, "object", object);
    write_integer(out, "created", writer->terms->created);
    write_text(out, "model", writer->terms->model);
}

/* Input and output are wholes, and the parts are within them. */
static void write_usage(const struct reply_writer *writer, struct json_writer *out)
{
    const struct tg_usage *usage = &writer->usage.usage;
    int64_t input = tg_usage_input(usage), output = tg_usage_output(usage);

    json_write_key(out, "usage");
    json_write_object(out);
    write_integer(out, "prompt_tokens", input);
    write_integer(out, "completion_tokens", output);
    write_integer(out, "total_tokens", input + output);
    json_write_key(out, "prompt_tokens_details");
    json_write_object(out);
    write_integer(out, "cached_tokens", usage->cached_input);
    write_integer(out, "cache_write_tokens", usage->cache_write + usage->cache_write_long);
    write_integer(out, "audio_tokens", usage->audio_input);
    json_write_object_end(out);
    json_write_key(out, "completion_tokens_details");
    json_write_object(out);
    write_integer(out, "reasoning_tokens", writer->usage.reasoning);
    write_integer(out, "audio_tokens", usage->audio_output);
    json_write_object_end(out);
    json_write_object_end(out);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void chunk_begin(const struct reply_writer *writer, int choice, struct json_writer *out)
{
    sse_begin(out, NULL);
    write_head(writer, "chat.completion.chunk", out);
    json_write_key(out, "choices");
    json_write_array(out);
    json_write_object(out);
    write_integer(out, "index", choice);
    json_write_key(out, "delta");
    json_write_object(out);
}

static void chunk_end(struct json_writer *out, const char *finish)
{
    json_write_object_end(out);
    json_write_key(out, "finish_reason");
    if (finish == NULL)
        json_write_null(out);
    else
        json_write_string(out, finish, strlen(finish));
    json_write_object_end(out);
    json_write_array_end(out);
    json_write_object_end(out);
    sse_finish(out);
}

static void begin_choice(struct reply_writer *writer, int choice, struct json_writer *out)
{
    if (writer->choices[choice].begun)
        return;
    writer->choices[choice].begun = true;
    chunk_begin(writer, choice, out);
    write_word(out, "role", "assistant");
    write_word(out, "content", "");
    chunk_end(out, NULL);
}

/* The first fragment of a call has its id and name; `args` are those of a later one. */
static void write_fragment(struct reply_writer *writer, const struct reply_part *part,
                           struct slice args, bool first, struct json_writer *out)
{
    bool legacy = writer->terms->legacy_functions;

    chunk_begin(writer, part->choice, out);
    if (legacy) {
        json_write_key(out, "function_call");
    } else {
        json_write_key(out, "tool_calls");
        json_write_array(out);
        json_write_object(out);
        write_integer(out, "index", part->number);
        if (first) {
            write_text(out, "id", text_out_written(&part->id));
            write_word(out, "type", part->free ? "custom" : "function");
        }
        json_write_key(out, part->free ? "custom" : "function");
    }
    json_write_object(out);
    if (first)
        write_text(out, "name", text_out_written(&part->name));
    write_text(out, part->free ? "input" : "arguments", args);
    json_write_object_end(out);
    if (!legacy) {
        json_write_object_end(out);
        json_write_array_end(out);
    }
    chunk_end(out, NULL);
}

static void write_end_of_stream(struct reply_writer *writer, struct json_writer *out)
{
    if (writer->terms->want_usage) {
        sse_begin(out, NULL);
        write_head(writer, "chat.completion.chunk", out);
        json_write_key(out, "choices");
        json_write_array(out);
        json_write_array_end(out);
        write_usage(writer, out);
        json_write_object_end(out);
        sse_finish(out);
    }
    text_out_text(&out->text, "data: [DONE]\n\n");
}

void chat_write_event(struct reply_writer *writer, const struct neutral_event *event,
                      struct json_writer *out)
{
    const struct reply_part *part = event->kind >= EVENT_OPEN && event->kind <= EVENT_CLOSE
                                        ? &writer->parts[event->index]
                                        : NULL;

    switch (event->kind) {
    case EVENT_BEGIN:
        begin_choice(writer, 0, out);
        break;
    case EVENT_OPEN:
        begin_choice(writer, event->choice, out);
        if (part->kind == PART_CALL)
            write_fragment(writer, part, (struct slice){"", 0}, true, out);
        break;
    case EVENT_TEXT:
        chunk_begin(writer, part->choice, out);
        write_text(out,
                   part->kind == PART_REASONING ? "reasoning_content"
                   : part->kind == PART_REFUSAL ? "refusal"
                                                : "content",
                   event->text);
        chunk_end(out, NULL);
        break;
    case EVENT_ARGS:
        write_fragment(writer, part, event->text, false, out);
        break;
    case EVENT_CLOSE:
        if (part->kind == PART_CALL && !part->grown && !part->free)
            write_fragment(writer, part, SLICE("{}"), false, out);
        break;
    case EVENT_STOP:
        begin_choice(writer, event->choice, out);
        chunk_begin(writer, event->choice, out);
        chunk_end(out, finish_of(writer, event->choice));
        break;
    case EVENT_ERROR:
        sse_begin(out, NULL);
        neutral_error_write(event->error, DIALECT_CHAT, out);
        sse_finish(out);
        break;
    case EVENT_PING:
        text_out_text(&out->text, ": ping\n\n");
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

/* All parts of a kind as one text; null if there is none. */
static void write_joined(const struct reply_writer *writer, int choice, const char *key,
                         enum neutral_kind kind, bool always, struct json_writer *out)
{
    struct text_out joined = {.size = 0};
    bool any = false;

    for (size_t i = 0; i < writer->n_parts; i++)
        if (writer->parts[i].choice == choice && writer->parts[i].kind == kind) {
            text_out_slice(&joined, text_out_written(&writer->parts[i].text));
            any = true;
        }
    if (any)
        write_text(out, key, text_out_written(&joined));
    if (!any && always) {
        json_member_null(out, key);
    }
    out->text.failed |= joined.failed;
    text_out_fini(&joined);
}

static void write_reply_call(const struct reply_part *part, bool legacy, struct json_writer *out)
{
    struct slice text = text_out_written(&part->text);

    if (!legacy) {
        json_write_object(out);
        write_text(out, "id", text_out_written(&part->id));
        write_word(out, "type", part->free ? "custom" : "function");
        json_write_key(out, part->free ? "custom" : "function");
    }
    json_write_object(out);
    write_text(out, "name", text_out_written(&part->name));
    write_text(out, part->free ? "input" : "arguments",
               text.n == 0 && !part->free ? SLICE("{}") : text);
    json_write_object_end(out);
    if (!legacy)
        json_write_object_end(out);
}

static void write_choice(const struct reply_writer *writer, int choice, struct json_writer *out)
{
    bool legacy = writer->terms->legacy_functions;

    json_write_object(out);
    write_integer(out, "index", choice);
    json_write_key(out, "message");
    json_write_object(out);
    write_word(out, "role", "assistant");
    write_joined(writer, choice, "content", PART_TEXT, true, out);
    write_joined(writer, choice, "refusal", PART_REFUSAL, true, out);
    write_joined(writer, choice, "reasoning_content", PART_REASONING, false, out);
    if (writer->choices[choice].calls > 0) {
        json_write_key(out, legacy ? "function_call" : "tool_calls");
        if (!legacy)
            json_write_array(out);
        for (size_t i = 0; i < writer->n_parts; i++)
            if (writer->parts[i].choice == choice && writer->parts[i].kind == PART_CALL &&
                !(legacy && writer->parts[i].number > 0))
                write_reply_call(&writer->parts[i], legacy, out);
        if (!legacy)
            json_write_array_end(out);
    }
    json_write_object_end(out);
    json_member_null(out, "logprobs");
    write_word(out, "finish_reason", finish_of(writer, choice));
    json_write_object_end(out);
}

void chat_write_reply(struct reply_writer *writer, struct json_writer *out)
{
    write_head(writer, "chat.completion", out);
    json_write_key(out, "choices");
    json_write_array(out);
    for (int choice = 0; choice < writer->n_choices; choice++)
        write_choice(writer, choice, out);
    json_write_array_end(out);
    write_usage(writer, out);
    json_write_object_end(out);
}
