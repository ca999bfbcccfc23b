/* responses_reply_read.c - a response or the events of its stream, read into events.
 *
 * A stream names items by output_index and the parts of a message by content_index. What came in
 * deltas is repeated whole when an item is done; servers that send no deltas say it only there, so
 * what has not come yet is taken from it. The usage, and why the response ended, stand in the last
 * event, with the whole response once more: it is read only if there was nothing before it.
 *
 * A reasoning item is one part, however many summaries it has: a blank line is between them.
 */
#include "server/dialect/openai_responses/openai_responses.h"

#define PIECES_MAX 256 /* parts of one item */

struct piece {
    struct json_text type, text;
};

/* An item, whole or as far as it is known; texts are the JSON reader's. */
struct reply_item {
    struct json_text type, id, call_id, name, arguments, encrypted;
    struct piece content[PIECES_MAX], summary[PIECES_MAX];
    size_t n_content, n_summary;
};

/* What a response says of itself. */
struct reply_state {
    struct json_text status, reason;
    struct usage_reading usage;
    struct neutral_error error;
    bool has_usage, has_error;
};

struct response_event {
    struct json_text type, delta, text, part_type;
    int64_t output_index, content_index, summary_index;
    bool has_item;
};

static struct slice as_slice(struct json_text text)
{
    return (struct slice){text.bytes, text.size};
}

static void keep_text(struct json_text *to, const struct json_value *value)
{
    if (value->kind == JSON_STRING)
        *to = value->string;
}

/* ---- Which part is meant --------------------------------------------------------------------- */

/* Calls and reasoning are one part of an item, a message has several. */
static int64_t slot_key(int64_t output, int64_t content)
{
    int64_t most = REPLY_PARTS_MAX;

    output = output < 0 || output > most ? most : output;
    content = content < -1 || content > most ? most : content;
    return output * (most + 2) + content + 1;
}

static uint32_t open_part(struct reply_reader *reader, int64_t key, enum neutral_kind kind)
{
    uint32_t part = reader_find(reader, 0, key);

    return part != NO_PART ? part : reader_open(reader, 0, kind, key, NULL);
}

static enum neutral_kind kind_of(struct json_text type)
{
    return json_text_is(type, "refusal")          ? PART_REFUSAL
           : json_text_is(type, "reasoning_text") ? PART_REASONING
                                                  : PART_TEXT;
}

static bool is_call(struct json_text type)
{
    return json_text_is(type, "function_call") || json_text_is(type, "custom_tool_call");
}

static uint32_t open_call(struct reply_reader *reader, int64_t output,
                          const struct reply_item *item)
{
    struct neutral_event call = {.name = as_slice(item->name),
                                 .free = json_text_is(item->type, "custom_tool_call")};
    uint32_t part = reader_find(reader, 0, slot_key(output, -1));

    call.id = as_slice(item->call_id.size > 0 ? item->call_id : item->id);
    return part != NO_PART ? part : reader_open(reader, 0, PART_CALL, slot_key(output, -1), &call);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Texts that did not come in pieces before. */
static void complete_part(struct reply_reader *reader, uint32_t part, const struct piece *pieces,
                          size_t n)
{
    if (part == NO_PART || reader->slots[part].grown)
        return;
    for (size_t i = 0; i < n; i++) {
        if (reader->slots[part].grown)
            reader_text(reader, part, (struct json_text){"\n\n", 2});
        reader_text(reader, part, pieces[i].text);
    }
}

static void take_message(struct reply_reader *reader, int64_t output, const struct reply_item *item)
{
    for (size_t i = 0; i < item->n_content; i++) {
        uint32_t part =
            open_part(reader, slot_key(output, (int64_t)i), kind_of(item->content[i].type));
        complete_part(reader, part, &item->content[i], 1);
        reader_close(reader, part);
    }
}

static void take_reasoning(struct reply_reader *reader, int64_t output,
                           const struct reply_item *item)
{
    int64_t key = slot_key(output, -1);

    if (item->n_summary == 0 && item->n_content == 0 && item->encrypted.size == 0 &&
        reader_find(reader, 0, key) == NO_PART)
        return;
    uint32_t part = open_part(reader, key, PART_REASONING);
    complete_part(reader, part, item->summary, item->n_summary);
    complete_part(reader, part, item->content, item->n_content);
    if (item->encrypted.size > 0)
        reader_opaque(reader, part, OPAQUE_ENCRYPTED, as_slice(item->encrypted));
    reader_close(reader, part);
}

/* An item that is complete. Those of hosted tools have no counterpart and are passed over. */
static void take_item(struct reply_reader *reader, int64_t output, const struct reply_item *item)
{
    if (json_text_is(item->type, "message")) {
        take_message(reader, output, item);
    } else if (json_text_is(item->type, "reasoning")) {
        take_reasoning(reader, output, item);
    } else if (is_call(item->type)) {
        uint32_t part = open_call(reader, output, item);
        complete_part(reader, part, &(struct piece){.text = item->arguments}, 1);
        reader_close(reader, part);
    }
}

static void read_piece(struct json_reader *json, struct piece *piece)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &value)) {
        if (json_text_is(key, "type"))
            keep_text(&piece->type, &value);
        else if (json_text_is(key, "text") || json_text_is(key, "refusal"))
            keep_text(&piece->text, &value);
    }
}

static size_t read_pieces(struct reply_reader *reader, struct piece pieces[PIECES_MAX])
{
    struct json_text key;
    struct json_value item;
    size_t n = 0;

    if (!json_enter(reader->json))
        return 0;
    while (json_next(reader->json, &key, &item)) {
        if (item.kind != JSON_OBJECT)
            continue;
        if (n == PIECES_MAX) {
            reader_fail(reader, ERROR_SERVER, "The provider's reply has too many parts.");
            return n;
        }
        pieces[n] = (struct piece){.text = {"", 0}};
        read_piece(reader->json, &pieces[n++]);
    }
    return n;
}

static void read_item(struct reply_reader *reader, struct reply_item *item)
{
    struct json_text key, none = {"", 0};
    struct json_value value;

    item->type = item->id = item->call_id = item->name = item->arguments = item->encrypted = none;
    item->n_content = item->n_summary = 0;
    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value)) {
        struct json_text *to = json_text_is(key, "type")                ? &item->type
                               : json_text_is(key, "id")                ? &item->id
                               : json_text_is(key, "call_id")           ? &item->call_id
                               : json_text_is(key, "name")              ? &item->name
                               : json_text_is(key, "arguments")         ? &item->arguments
                               : json_text_is(key, "input")             ? &item->arguments
                               : json_text_is(key, "encrypted_content") ? &item->encrypted
                                                                        : NULL;
        if (to != NULL)
            keep_text(to, &value);
        else if (json_text_is(key, "content") && value.kind == JSON_ARRAY)
            item->n_content = read_pieces(reader, item->content);
        else if (json_text_is(key, "summary") && value.kind == JSON_ARRAY)
            item->n_summary = read_pieces(reader, item->summary);
    }
}

/* ---- Responses ------------------------------------------------------------------------------- */

static void read_output(struct reply_reader *reader)
{
    struct json_text key;
    struct json_value value;
    struct reply_item item;

    if (!json_enter(reader->json))
        return;
    for (int64_t output = 0; json_next(reader->json, &key, &value); output++) {
        if (value.kind != JSON_OBJECT)
            continue;
        read_item(reader, &item);
        take_item(reader, output, &item);
    }
}

static void read_incomplete(struct json_reader *json, struct reply_state *state)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &value))
        if (json_text_is(key, "reason"))
            keep_text(&state->reason, &value);
}

/* The members of a response: those of the body, or of `response` in an event. */
static void read_state_key(struct reply_reader *reader, struct json_text key,
                           const struct json_value *value, struct reply_state *state)
{
    if (json_text_is(key, "status")) {
        keep_text(&state->status, value);
    } else if (json_text_is(key, "incomplete_details") && value->kind == JSON_OBJECT) {
        read_incomplete(reader->json, state);
    } else if (json_text_is(key, "usage") && value->kind == JSON_OBJECT) {
        usage_read(reader->json, value, &state->usage);
        state->has_usage = true;
    } else if (json_text_is(key, "service_tier")) {
        usage_keep_word(state->usage.tier, value);
    } else if (json_text_is(key, "error") && value->kind == JSON_OBJECT) {
        neutral_error_take(reader->json, value, 0, &state->error);
        state->has_error = true;
    } else if (json_text_is(key, "output") && value->kind == JSON_ARRAY && reader->n_slots == 0) {
        read_output(reader);
    }
}

static bool has_part(const struct reply_reader *reader, enum neutral_kind kind)
{
    for (size_t i = 0; i < reader->n_slots; i++)
        if (reader->slots[i].kind == kind)
            return true;
    return false;
}

static enum neutral_stop stop_of(const struct reply_reader *reader, const struct reply_state *state)
{
    if (json_text_is(state->status, "incomplete")) {
        if (json_text_is(state->reason, "content_filter"))
            return STOP_FILTER;
        if (json_text_is(state->reason, "max_output_tokens"))
            return STOP_LENGTH;
    }
    return has_part(reader, PART_CALL)      ? STOP_TOOL
           : has_part(reader, PART_REFUSAL) ? STOP_REFUSAL
                                            : STOP_END;
}

/* The response has ended, as it says itself. */
static void end_response(struct reply_reader *reader, const struct reply_state *state)
{
    bool complete =
        json_text_is(state->status, "completed") || json_text_is(state->status, "incomplete");

    if (state->has_usage)
        usage_merge(&reader->usage, &state->usage);
    if (state->has_error) {
        reader_error(reader, &state->error);
    } else if (json_text_is(state->status, "failed")) {
        reader_fail(reader, ERROR_SERVER, "The provider's response failed.");
    } else if (complete) {
        reader_stop(reader, 0, stop_of(reader, state), (struct slice){"", 0});
        reader_end(reader);
    } else {
        reader_fail(reader, ERROR_SERVER, "The provider's reply ended before it was complete.");
    }
}

void responses_read_reply(struct reply_reader *reader, struct slice body)
{
    struct reply_state state = {.has_usage = false};
    struct json_text key;
    struct json_value root, value;

    if (json_begin(reader->json, body.at, body.n, body.n, &root) && root.kind == JSON_OBJECT &&
        json_enter(reader->json))
        while (json_next(reader->json, &key, &value))
            read_state_key(reader, key, &value, &state);
    if (reader_json_is_whole(reader))
        end_response(reader, &state);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static bool ends_with(struct json_text text, const char *end)
{
    size_t n = strlen(end);

    return text.size >= n && memcmp(text.bytes + text.size - n, end, n) == 0;
}

static void take_delta(struct reply_reader *reader, const struct response_event *event)
{
    int64_t item = slot_key(event->output_index, -1);
    int64_t content = slot_key(event->output_index, event->content_index);

    if (json_text_is(event->type, "response.output_text.delta"))
        reader_text(reader, open_part(reader, content, PART_TEXT), event->delta);
    else if (json_text_is(event->type, "response.refusal.delta"))
        reader_text(reader, open_part(reader, content, PART_REFUSAL), event->delta);
    else if (json_text_is(event->type, "response.reasoning_summary_text.delta") ||
             json_text_is(event->type, "response.reasoning_text.delta"))
        reader_text(reader, open_part(reader, item, PART_REASONING), event->delta);
    else if (json_text_is(event->type, "response.function_call_arguments.delta") ||
             json_text_is(event->type, "response.custom_tool_call_input.delta"))
        reader_text(reader, reader_find(reader, 0, item), event->delta);
}

/* Arguments that came in no delta. */
static void take_done(struct reply_reader *reader, const struct response_event *event)
{
    if (json_text_is(event->type, "response.function_call_arguments.done") ||
        json_text_is(event->type, "response.custom_tool_call_input.done"))
        complete_part(reader, reader_find(reader, 0, slot_key(event->output_index, -1)),
                      &(struct piece){.text = event->text}, 1);
}

static void take_part_added(struct reply_reader *reader, const struct response_event *event)
{
    int64_t item = slot_key(event->output_index, -1);
    uint32_t part = reader_find(reader, 0, item);

    if (json_text_is(event->type, "response.reasoning_summary_part.added")) {
        if (event->summary_index > 0 && part != NO_PART && reader->slots[part].grown)
            reader_text(reader, part, (struct json_text){"\n\n", 2});
    } else if (json_text_is(event->part_type, "output_text") ||
               json_text_is(event->part_type, "refusal")) {
        (void)open_part(reader, slot_key(event->output_index, event->content_index),
                        kind_of(event->part_type));
    }
}

static void take_event(struct reply_reader *reader, const struct response_event *event,
                       const struct reply_item *item, const struct reply_state *state)
{
    if (ends_with(event->type, ".delta")) {
        take_delta(reader, event);
    } else if (json_text_is(event->type, "response.created") ||
               json_text_is(event->type, "response.in_progress")) {
        reader_begin(reader);
    } else if (json_text_is(event->type, "response.output_item.added")) {
        if (event->has_item && is_call(item->type))
            (void)open_call(reader, event->output_index, item);
    } else if (json_text_is(event->type, "response.output_item.done")) {
        if (event->has_item)
            take_item(reader, event->output_index, item);
    } else if (ends_with(event->type, "_part.added")) {
        take_part_added(reader, event);
    } else if (json_text_is(event->type, "response.completed") ||
               json_text_is(event->type, "response.incomplete") ||
               json_text_is(event->type, "response.failed") ||
               json_text_is(event->type, "response.cancelled")) {
        end_response(reader, state);
    } else if (ends_with(event->type, ".done")) {
        take_done(reader, event);
    }
}

static void read_event_part(struct json_reader *json, struct response_event *event)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &value))
        if (json_text_is(key, "type"))
            keep_text(&event->part_type, &value);
}

static void read_response(struct reply_reader *reader, struct reply_state *state)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value))
        read_state_key(reader, key, &value, state);
}

static void read_event_key(struct reply_reader *reader, struct json_text key,
                           const struct json_value *value, struct response_event *event,
                           struct reply_item *item, struct reply_state *state)
{
    int64_t *number = json_text_is(key, "output_index")    ? &event->output_index
                      : json_text_is(key, "content_index") ? &event->content_index
                      : json_text_is(key, "summary_index") ? &event->summary_index
                                                           : NULL;
    struct json_text *text = json_text_is(key, "type")        ? &event->type
                             : json_text_is(key, "delta")     ? &event->delta
                             : json_text_is(key, "arguments") ? &event->text
                             : json_text_is(key, "input")     ? &event->text
                                                              : NULL;

    if (number != NULL && value->kind == JSON_INTEGER) {
        *number = value->integer;
    } else if (text != NULL) {
        keep_text(text, value);
    } else if (json_text_is(key, "part") && value->kind == JSON_OBJECT) {
        read_event_part(reader->json, event);
    } else if (json_text_is(key, "item") && value->kind == JSON_OBJECT) {
        read_item(reader, item);
        event->has_item = true;
    } else if (json_text_is(key, "response") && value->kind == JSON_OBJECT) {
        read_response(reader, state);
    }
}

void responses_read_event(struct reply_reader *reader, struct slice name, struct slice data)
{
    struct response_event event = {.output_index = 0};
    struct reply_state state = {.has_usage = false};
    struct reply_item item;
    struct json_text key;
    struct json_value root, value;

    (void)name;
    if (data.n == 0 || slice_equal(data, SLICE("[DONE]")))
        return;
    if (json_begin(reader->json, data.at, data.n, data.n, &root) && root.kind == JSON_OBJECT &&
        json_enter(reader->json))
        while (json_next(reader->json, &key, &value))
            read_event_key(reader, key, &value, &event, &item, &state);
    if (!reader_json_is_whole(reader))
        return;
    if (json_text_is(event.type, "error")) {
        struct neutral_error error;
        neutral_error_read(reader->json, 0, data, &error);
        reader_error(reader, &error);
        return;
    }
    take_event(reader, &event, &item, &state);
}
