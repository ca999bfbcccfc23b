/* chat_reply_read.c - a chat completion or its chunks, read into events.
 *
 * A chunk's `delta` and a whole reply's `message` have the same members, so one function reads
 * both. Calls interleave by their index, and nothing says that one is complete: they are closed
 * when the choice stops. Text and reasoning are closed when another part begins.
 *
 * `choices: []` can stand anywhere: Azure sends such a chunk first, and the last one has the usage.
 * A stream is read to `[DONE]`, because the usage comes behind the finish_reason.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>

#include "server/dialect/openai_chat/openai_chat.h"

#define FRAGMENTS_MAX 128

struct fragment {
    int64_t index; /* -1: not said */
    struct json_text id, name, arguments;
    bool free;
};

/* What one choice of a chunk or reply says; texts are the JSON reader's. */
struct chat_delta {
    int64_t choice;
    struct json_text content, refusal, reasoning, finish;
    bool has_finish;
    size_t n_fragments;
    struct fragment fragments[FRAGMENTS_MAX];
};

static void take_text(struct json_text *to, const struct json_value *value)
{
    if (value->kind == JSON_STRING)
        *to = value->string;
}

/* ---- Tool calls ------------------------------------------------------------------------------ */

static void read_function(struct json_reader *json, struct fragment *fragment)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &value)) {
        if (json_text_is(key, "name"))
            take_text(&fragment->name, &value);
        else if (json_text_is(key, "arguments") || json_text_is(key, "input"))
            take_text(&fragment->arguments, &value);
    }
}

static void read_calls(struct json_reader *json, struct chat_delta *delta)
{
    struct json_text key;
    struct json_value item, value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &item)) {
        struct fragment fragment = {.index = -1};
        if (item.kind != JSON_OBJECT || !json_enter(json))
            continue;
        while (json_next(json, &key, &value)) {
            if (json_text_is(key, "index") && value.kind == JSON_INTEGER)
                fragment.index = value.integer;
            else if (json_text_is(key, "id"))
                take_text(&fragment.id, &value);
            else if (value.kind == JSON_OBJECT &&
                     (json_text_is(key, "function") || json_text_is(key, "custom"))) {
                fragment.free = json_text_is(key, "custom");
                read_function(json, &fragment);
            }
        }
        if (delta->n_fragments < FRAGMENTS_MAX)
            delta->fragments[delta->n_fragments++] = fragment;
    }
}

/* The call that a fragment belongs to. Some servers give every call the index 0, and another id. */
static uint32_t find_call(struct reply_reader *reader, int choice, const struct fragment *fragment)
{
    uint32_t part = fragment->index >= 0     ? reader_find(reader, choice, fragment->index)
                    : fragment->id.size == 0 ? reader_find_open(reader, choice, PART_CALL)
                                             : NO_PART;

    if (part != NO_PART && fragment->id.size > 0 && fragment->name.size > 0 &&
        XXH3_64bits(fragment->id.bytes, fragment->id.size) != reader->slots[part].id_hash)
        return NO_PART;
    return part;
}

static void take_fragment(struct reply_reader *reader, int choice, const struct fragment *fragment)
{
    uint32_t part = find_call(reader, choice, fragment);

    if (part == NO_PART) {
        char made[32];
        struct neutral_event call = {.free = fragment->free};
        call.id = (struct slice){fragment->id.bytes, fragment->id.size};
        call.name = (struct slice){fragment->name.bytes, fragment->name.size};
        if (fragment->id.size == 0) { /* a legacy function_call has none */
            int n = snprintf(made, sizeof made, "call_%08x%lld", (unsigned)reader->terms->nonce,
                             (long long)reader->counter++);
            call.id = (struct slice){made, (size_t)n};
        }
        for (size_t i = 0; i < reader->n_slots; i++)
            if (reader->slots[i].choice == choice && reader->slots[i].kind != PART_CALL)
                reader_close(reader, (uint32_t)i);
        part = reader_open(reader, choice, PART_CALL,
                           fragment->index >= 0 ? fragment->index : INT64_MAX, &call);
    }
    reader_text(reader, part, fragment->arguments);
}

/* ---- Choices --------------------------------------------------------------------------------- */

static void read_delta(struct json_reader *json, struct chat_delta *delta)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &value)) {
        if (json_text_is(key, "content")) {
            take_text(&delta->content, &value);
        } else if (json_text_is(key, "refusal")) {
            take_text(&delta->refusal, &value);
        } else if (json_text_is(key, "reasoning_content") || json_text_is(key, "reasoning")) {
            take_text(&delta->reasoning, &value);
        } else if (json_text_is(key, "tool_calls") && value.kind == JSON_ARRAY) {
            read_calls(json, delta);
        } else if (json_text_is(key, "function_call") && value.kind == JSON_OBJECT) {
            struct fragment fragment = {.index = 0};
            read_function(json, &fragment);
            if (delta->n_fragments < FRAGMENTS_MAX)
                delta->fragments[delta->n_fragments++] = fragment;
        }
    }
}

static enum neutral_stop stop_of(struct reply_reader *reader, int choice, struct json_text reason)
{
    if (json_text_is(reason, "length") || json_text_is(reason, "model_length"))
        return STOP_LENGTH;
    if (json_text_is(reason, "tool_calls") || json_text_is(reason, "function_call"))
        return STOP_TOOL;
    if (json_text_is(reason, "content_filter"))
        return STOP_FILTER;
    for (size_t i = 0; i < reader->n_slots; i++)
        if (reader->slots[i].choice == choice && reader->slots[i].kind == PART_REFUSAL)
            return STOP_REFUSAL;
    /* Some say "stop" behind the calls of tools. */
    for (size_t i = 0; i < reader->n_slots; i++)
        if (reader->slots[i].choice == choice && reader->slots[i].kind == PART_CALL)
            return STOP_TOOL;
    return STOP_END;
}

static void take_delta(struct reply_reader *reader, const struct chat_delta *delta)
{
    if (delta->choice < 0 || delta->choice >= REPLY_CHOICES_MAX) {
        reader_fail(reader, ERROR_SERVER, "The provider's reply has too many choices.");
        return;
    }
    int choice = (int)delta->choice;
    reader_begin(reader);
    reader_add(reader, choice, PART_REASONING, delta->reasoning);
    reader_add(reader, choice, PART_TEXT, delta->content);
    reader_add(reader, choice, PART_REFUSAL, delta->refusal);
    for (size_t i = 0; i < delta->n_fragments; i++)
        take_fragment(reader, choice, &delta->fragments[i]);
    if (!delta->has_finish)
        return;
    if (json_text_is(delta->finish, "error"))
        reader_fail(reader, ERROR_SERVER, "The provider's reply ended in an error.");
    else
        reader_stop(reader, choice, stop_of(reader, choice, delta->finish), (struct slice){"", 0});
}

static void read_chunk_choices(struct reply_reader *reader)
{
    struct json_reader *json = reader->json;
    struct json_text key;
    struct json_value item, value;

    if (!json_enter(json))
        return;
    while (json_next(json, &key, &item)) {
        struct chat_delta delta;
        delta.choice = 0;
        delta.content = delta.refusal = delta.reasoning = (struct json_text){"", 0};
        delta.has_finish = false;
        delta.n_fragments = 0;
        if (item.kind != JSON_OBJECT || !json_enter(json))
            continue;
        while (json_next(json, &key, &value)) {
            if (json_text_is(key, "index") && value.kind == JSON_INTEGER) {
                delta.choice = value.integer;
            } else if ((json_text_is(key, "delta") || json_text_is(key, "message")) &&
                       value.kind == JSON_OBJECT) {
                read_delta(json, &delta);
            } else if (json_text_is(key, "finish_reason") && value.kind == JSON_STRING) {
                delta.finish = value.string;
                delta.has_finish = true;
            }
        }
        take_delta(reader, &delta);
    }
}

/* ---- Documents ------------------------------------------------------------------------------- */

static void read_document(struct reply_reader *reader, struct slice data)
{
    struct json_reader *json = reader->json;
    struct json_text key;
    struct json_value root, value;

    if (json_begin(json, data.at, data.n, data.n, &root) && root.kind == JSON_OBJECT &&
        json_enter(json)) {
        while (json_next(json, &key, &value)) {
            if (json_text_is(key, "choices") && value.kind == JSON_ARRAY) {
                read_chunk_choices(reader);
            } else if (json_text_is(key, "service_tier")) {
                usage_keep_word(reader->usage.tier, &value);
            } else if (json_text_is(key, "usage") && value.kind == JSON_OBJECT) {
                struct usage_reading usage = {.found = false};
                usage_read(json, &value, &usage);
                usage_merge(&reader->usage, &usage);
                reader_usage(reader);
            } else if (json_text_is(key, "error") && value.kind != JSON_NULL) {
                struct neutral_error error;
                neutral_error_take(json, &value, 0, &error);
                reader_error(reader, &error);
            }
        }
    }
    (void)reader_json_is_whole(reader);
}

void chat_read_reply(struct reply_reader *reader, struct slice body)
{
    read_document(reader, body);
    reader_end(reader);
}

void chat_read_event(struct reply_reader *reader, struct slice name, struct slice data)
{
    (void)name;
    if (slice_equal(data, SLICE("[DONE]")))
        reader_end(reader);
    else if (data.n > 0)
        read_document(reader, data);
}
