/* gemini_reply_read.c - a GenerateContentResponse, whole or in chunks, read into events.
 *
 * Every chunk has the form of a whole reply. Parts of one sort that follow each other are one part;
 * a call comes whole in one. The usage of each chunk replaces the one before. A stream has no mark
 * of its end: the connection ends, and the last chunk has a finishReason, which may come later than
 * the call it belongs to and then says STOP all the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/array.h"
#include "server/dialect/gemini/gemini.h"

struct gemini_part {
    struct json_text text, signature, id, name;
    struct slice args;
    bool thought, call, has_text;
};

static void read_call(struct reply_reader *reader, struct slice document, struct gemini_part *part)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    part->call = true;
    while (json_next(reader->json, &key, &value)) {
        if (json_text_is(key, "id") && value.kind == JSON_STRING)
            part->id = value.string;
        else if (json_text_is(key, "name") && value.kind == JSON_STRING)
            part->name = value.string;
        else if (json_text_is(key, "args") && value.kind == JSON_OBJECT)
            part->args = reader_raw(reader, document, &value);
    }
}

static void read_gemini_part(struct reply_reader *reader, struct slice document,
                             struct gemini_part *part)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value)) {
        if (json_text_is(key, "text") && value.kind == JSON_STRING)
            part->text = value.string;
        else if (json_text_is(key, "thought") && value.kind == JSON_BOOL)
            part->thought = value.boolean;
        else if (json_text_is(key, "thoughtSignature") && value.kind == JSON_STRING)
            part->signature = value.string;
        else if (json_text_is(key, "functionCall") && value.kind == JSON_OBJECT)
            read_call(reader, document, part);
    }
}

static void take_call(struct reply_reader *reader, int choice, const struct gemini_part *part)
{
    char made[48];
    struct neutral_event call = {.id = {part->id.bytes, part->id.size},
                                 .name = {part->name.bytes, part->name.size},
                                 .opaque = {part->signature.bytes, part->signature.size}};

    if (part->id.size == 0) { /* older models give none */
        int n = snprintf(made, sizeof made, "call_%016llx_%lld",
                         (unsigned long long)reader->terms->nonce, (long long)reader->counter++);
        call.id = (struct slice){made, (size_t)n};
    }
    if (part->signature.size > 0)
        call.opaque_kind = OPAQUE_THOUGHT;
    reader_close_all(reader, choice);
    uint32_t index = reader_open(reader, choice, PART_CALL, -1, &call);
    reader_text(reader, index, (struct json_text){part->args.at, part->args.n});
    reader_close(reader, index);
}

static void take_part(struct reply_reader *reader, int choice, const struct gemini_part *part)
{
    enum neutral_kind kind = part->thought ? PART_REASONING : PART_TEXT;

    if (part->call) {
        take_call(reader, choice, part);
        return;
    }
    reader_add(reader, choice, kind, part->text);
    uint32_t index = reader_find_open(reader, choice, PART_REASONING);
    if (part->signature.size > 0 && index != NO_PART)
        reader_opaque(reader, index, OPAQUE_THOUGHT,
                      (struct slice){part->signature.bytes, part->signature.size});
}

/* ---- Candidates ------------------------------------------------------------------------------ */

static enum neutral_stop stop_of(const struct reply_reader *reader, int choice,
                                 struct json_text reason)
{
    static const struct {
        const char *reason;
        enum neutral_stop stop;
    } stops[] = {
        {"MAX_TOKENS", STOP_LENGTH},
        {"SAFETY", STOP_FILTER},
        {"RECITATION", STOP_FILTER},
        {"BLOCKLIST", STOP_FILTER},
        {"PROHIBITED_CONTENT", STOP_FILTER},
        {"SPII", STOP_FILTER},
        {"LANGUAGE", STOP_FILTER},
        {"MALFORMED_FUNCTION_CALL", STOP_MALFORMED},
        {"UNEXPECTED_TOOL_CALL", STOP_MALFORMED},
        {"TOO_MANY_TOOL_CALLS", STOP_MALFORMED},
        {"CONTINUATION", STOP_CONTINUE},
    };

    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        if (json_text_is(reason, stops[i].reason))
            return stops[i].stop;
    if (reason.size > 6 && memcmp(reason.bytes, "IMAGE_", 6) == 0)
        return STOP_FILTER;
    for (size_t i = 0; i < reader->n_slots; i++)
        if (reader->slots[i].choice == choice && reader->slots[i].kind == PART_CALL)
            return STOP_TOOL;
    return STOP_END;
}

/* What a candidate says, kept until it is known which one it is. */
struct candidate {
    struct gemini_part *parts;
    size_t n, capacity;
    struct json_text finish;
    int64_t index;
};

/* {"parts": [...], "role": "model"} */
static void read_gemini_content(struct reply_reader *reader, struct slice document,
                                struct candidate *candidate)
{
    struct json_text key;
    struct json_value value, item;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value)) {
        if (!json_text_is(key, "parts") || value.kind != JSON_ARRAY || !json_enter(reader->json))
            continue;
        while (json_next(reader->json, &key, &item)) {
            if (item.kind != JSON_OBJECT)
                continue;
            if (!array_reserve(&candidate->parts, &candidate->capacity, candidate->n + 1)) {
                reader->no_memory = true;
                return;
            }
            candidate->parts[candidate->n] = (struct gemini_part){.args = {"", 0}};
            read_gemini_part(reader, document, &candidate->parts[candidate->n++]);
        }
    }
}

static void take_candidate(struct reply_reader *reader, const struct candidate *candidate)
{
    int choice = (int)candidate->index;

    if (candidate->index < 0 || candidate->index >= REPLY_CHOICES_MAX)
        return;
    reader_begin(reader);
    for (size_t i = 0; i < candidate->n; i++)
        take_part(reader, choice, &candidate->parts[i]);
    if (candidate->finish.size > 0)
        reader_stop(reader, choice, stop_of(reader, choice, candidate->finish),
                    (struct slice){"", 0});
}

/* The index of a candidate stands behind its content, so its parts are kept until it has been
 * read. Where there is none, the place among the candidates tells it. */
static void read_candidates(struct reply_reader *reader, struct slice document)
{
    struct candidate candidate = {.parts = NULL};
    struct json_text key;
    struct json_value item, value;

    if (!json_enter(reader->json))
        return;
    for (int64_t place = 0; json_next(reader->json, &key, &item); place++) {
        if (item.kind != JSON_OBJECT || !json_enter(reader->json))
            continue;
        candidate.n = 0;
        candidate.finish = (struct json_text){"", 0};
        candidate.index = place;
        while (json_next(reader->json, &key, &value)) {
            if (json_text_is(key, "content") && value.kind == JSON_OBJECT)
                read_gemini_content(reader, document, &candidate);
            else if (json_text_is(key, "finishReason") && value.kind == JSON_STRING)
                candidate.finish = value.string;
            else if (json_text_is(key, "index") && value.kind == JSON_INTEGER)
                candidate.index = value.integer;
        }
        take_candidate(reader, &candidate);
    }
    free(candidate.parts);
}

/* {"blockReason": "SAFETY"}: the prompt was refused, and there is no candidate. */
static void read_feedback(struct reply_reader *reader)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader->json))
        return;
    while (json_next(reader->json, &key, &value))
        if (json_text_is(key, "blockReason") && value.kind == JSON_STRING)
            reader_stop(reader, 0, STOP_FILTER, (struct slice){"", 0});
}

static void read_document(struct reply_reader *reader, struct slice document)
{
    struct json_reader *json = reader->json;
    struct json_text key;
    struct json_value root, value;

    if (json_begin(json, document.at, document.n, document.n, &root) && root.kind == JSON_OBJECT &&
        json_enter(json)) {
        while (json_next(json, &key, &value)) {
            if (json_text_is(key, "candidates") && value.kind == JSON_ARRAY) {
                read_candidates(reader, document);
            } else if (json_text_is(key, "promptFeedback") && value.kind == JSON_OBJECT) {
                read_feedback(reader);
            } else if (json_text_is(key, "usageMetadata") && value.kind == JSON_OBJECT) {
                struct usage_reading usage = {.found = false};
                usage_read(json, &value, &usage);
                usage_merge(&reader->usage, &usage);
                reader_usage(reader);
            } else if (json_text_is(key, "error") && value.kind == JSON_OBJECT) {
                struct neutral_error error;
                neutral_error_take(json, &value, 0, &error);
                reader_error(reader, &error);
            }
        }
    }
    (void)reader_json_is_whole(reader);
}

void gemini_read_reply(struct reply_reader *reader, struct slice body)
{
    read_document(reader, body);
    reader_end(reader);
}

bool gemini_read_count(struct json_reader *json, struct slice body, int64_t *tokens)
{
    struct json_text key;
    struct json_value value;
    bool found = false;

    if (json_begin(json, body.at, body.n, body.n, &value) && value.kind == JSON_OBJECT &&
        json_enter(json))
        while (json_next(json, &key, &value))
            if (json_text_is(key, "totalTokens") && value.kind == JSON_INTEGER &&
                value.integer >= 0) {
                *tokens = value.integer;
                found = true;
            }
    return json_end(json) && found;
}

void gemini_read_event(struct reply_reader *reader, struct slice name, struct slice data)
{
    (void)name;
    if (data.n > 0)
        read_document(reader, data);
}
