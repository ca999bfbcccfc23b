/* reply_read.c - keeps the promises about events, whatever a provider sends. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "server/dialect/neutral/reply_events.h"
#include "server/dialect/neutral/tool_calls.h"

/* ---- Terms ----------------------------------------------------------------------------------- */

static struct slice keep(char **at, struct slice text)
{
    struct slice copy = {*at, text.n};

    if (text.n > 0)
        memcpy(*at, text.at, text.n);
    *at += text.n;
    return copy;
}

bool reply_terms_init(struct reply_terms *terms, const struct neutral_request *request,
                      enum dialect from, struct slice provider, struct slice model, int64_t now_s,
                      uint64_t nonce, int64_t prompt_tokens)
{
    size_t bytes = provider.n + model.n + 1, tools = request->n_tools * sizeof *terms->tools;

    *terms = (struct reply_terms){.from = from,
                                  .stream = request->stream,
                                  .want_usage = request->want_usage,
                                  .legacy_functions = request->legacy_functions,
                                  .created = now_s,
                                  .nonce = nonce,
                                  .prompt_tokens = prompt_tokens};
    for (size_t i = 0; i < request->n_tools; i++)
        bytes += request->tools[i].name.n;
    terms->block = malloc(tools + bytes);
    if (terms->block == NULL)
        return false;
    terms->tools = (struct terms_tool *)(void *)terms->block;
    terms->n_tools = request->n_tools;
    char *at = terms->block + tools;
    for (size_t i = 0; i < request->n_tools; i++)
        terms->tools[i] =
            (struct terms_tool){keep(&at, request->tools[i].name), request->tools[i].free};
    terms->provider = keep(&at, provider);
    terms->model = keep(&at, model);
    return true;
}

void reply_terms_fini(struct reply_terms *terms)
{
    free(terms->block);
    *terms = (struct reply_terms){.from = terms->from};
}

/* The tool that the provider calls by a name that we may have cut. */
static const struct terms_tool *find_tool(const struct reply_terms *terms, struct slice name)
{
    char room[TOOL_NAME_MAX];

    for (size_t i = 0; i < terms->n_tools; i++)
        if (slice_equal(neutral_tool_name(terms->tools[i].name, terms->from, room), name))
            return &terms->tools[i];
    return NULL;
}

/* ---- The reader ------------------------------------------------------------------------------ */

void reply_reader_init(struct reply_reader *reader, struct json_reader *json,
                       const struct reply_terms *terms, neutral_sink *sink, void *arg)
{
    *reader = (struct reply_reader){.json = json, .terms = terms, .sink = sink, .arg = arg};
}

void reply_reader_fini(struct reply_reader *reader)
{
    free(reader->slots);
    *reader = (struct reply_reader){.ended = true};
}

static bool reader_is_over(const struct reply_reader *reader)
{
    return reader->ended || reader->no_memory;
}

static void reader_give(struct reply_reader *reader, const struct neutral_event *event)
{
    if (!reader_is_over(reader))
        reader->sink(reader->arg, event);
}

void reader_begin(struct reply_reader *reader)
{
    if (reader->begun)
        return;
    reader_give(reader, &(struct neutral_event){.kind = EVENT_BEGIN, .usage = &reader->usage});
    reader->begun = true;
}

uint32_t reader_open(struct reply_reader *reader, int choice, enum neutral_kind kind, int64_t key,
                     const struct neutral_event *like)
{
    struct neutral_event event = {.kind = EVENT_OPEN, .choice = choice, .part = kind};

    if (reader_is_over(reader))
        return NO_PART;
    if (choice < 0 || choice >= REPLY_CHOICES_MAX || reader->n_slots == REPLY_PARTS_MAX) {
        reader_fail(reader, ERROR_SERVER, "The provider's reply has too many parts.");
        return NO_PART;
    }
    if (!array_reserve(&reader->slots, &reader->slots_capacity, reader->n_slots + 1)) {
        reader->no_memory = true;
        return NO_PART;
    }
    reader_begin(reader);
    if (like != NULL) {
        event.opaque_kind = like->opaque_kind;
        event.opaque = like->opaque;
    }
    if (like != NULL && kind == PART_CALL) {
        const struct terms_tool *tool = find_tool(reader->terms, like->name);
        event.id = like->id;
        event.name = tool != NULL ? tool->name : like->name;
        event.free = like->free || (tool != NULL && tool->free);
        reader->called = true;
    }
    event.index = (uint32_t)reader->n_slots;
    reader->slots[reader->n_slots++] =
        (struct reply_slot){.kind = kind,
                            .choice = choice,
                            .key = key,
                            .id_hash = XXH3_64bits(event.id.at, event.id.n),
                            .open = true};
    reader_give(reader, &event);
    return event.index;
}

void reader_text(struct reply_reader *reader, uint32_t part, struct json_text text)
{
    if (part == NO_PART || text.size == 0 || !reader->slots[part].open)
        return;
    struct reply_slot *slot = &reader->slots[part];
    slot->grown = true;
    reader_give(reader,
                &(struct neutral_event){.kind = slot->kind == PART_CALL ? EVENT_ARGS : EVENT_TEXT,
                                        .choice = slot->choice,
                                        .index = part,
                                        .part = slot->kind,
                                        .text = {text.bytes, text.size}});
}

void reader_opaque(struct reply_reader *reader, uint32_t part, enum neutral_opaque kind,
                   struct slice text)
{
    if (part == NO_PART || !reader->slots[part].open)
        return;
    reader_give(reader, &(struct neutral_event){.kind = EVENT_OPAQUE,
                                                .choice = reader->slots[part].choice,
                                                .index = part,
                                                .part = reader->slots[part].kind,
                                                .opaque_kind = kind,
                                                .opaque = text});
}

void reader_close(struct reply_reader *reader, uint32_t part)
{
    if (part == NO_PART || !reader->slots[part].open)
        return;
    reader->slots[part].open = false;
    reader_give(reader, &(struct neutral_event){.kind = EVENT_CLOSE,
                                                .choice = reader->slots[part].choice,
                                                .index = part,
                                                .part = reader->slots[part].kind});
}

void reader_close_all(struct reply_reader *reader, int choice)
{
    for (size_t i = 0; i < reader->n_slots; i++)
        if (reader->slots[i].choice == choice)
            reader_close(reader, (uint32_t)i);
}

void reader_usage(struct reply_reader *reader)
{
    if (reader->begun)
        reader_give(reader, &(struct neutral_event){.kind = EVENT_USAGE, .usage = &reader->usage});
}

void reader_ping(struct reply_reader *reader)
{
    reader_give(reader, &(struct neutral_event){.kind = EVENT_PING});
}

/* A call that was cut must not be executed: length stays length. */
void reader_stop(struct reply_reader *reader, int choice, enum neutral_stop stop, struct slice text)
{
    if (reader_is_over(reader) || choice < 0 || choice >= REPLY_CHOICES_MAX ||
        reader->stopped[choice])
        return;
    reader_begin(reader);
    reader_close_all(reader, choice);
    if (stop == STOP_MALFORMED) {
        reader_fail(reader, ERROR_SERVER,
                    "The model called a tool in a form that cannot be understood.");
        return;
    }
    reader->stopped[choice] = true;
    reader->any_stop = true;
    reader_give(reader, &(struct neutral_event){
                            .kind = EVENT_STOP, .choice = choice, .stop = stop, .text = text});
}

void reader_end(struct reply_reader *reader)
{
    if (reader_is_over(reader))
        return;
    if (!reader->any_stop) {
        reader_fail(reader, ERROR_SERVER, "The provider's reply ended before it was complete.");
        return;
    }
    reader_give(reader, &(struct neutral_event){.kind = EVENT_USAGE, .usage = &reader->usage});
    reader_give(reader, &(struct neutral_event){.kind = EVENT_END});
    reader->ended = true;
}

void reader_error(struct reply_reader *reader, const struct neutral_error *error)
{
    reader_give(reader, &(struct neutral_event){.kind = EVENT_ERROR, .error = error});
    reader->ended = true;
}

void reader_fail(struct reply_reader *reader, enum error_class class, const char *message)
{
    struct neutral_error error;

    neutral_error_init(&error, class, message);
    reader_error(reader, &error);
}

bool reader_json_is_whole(struct reply_reader *reader)
{
    if (json_end(reader->json))
        return true;
    reader->no_memory |= json_reader_problem(reader->json)->no_memory;
    reader_fail(reader, ERROR_SERVER, "The provider's reply is not valid JSON.");
    return false;
}

uint32_t reader_find_open(const struct reply_reader *reader, int choice, enum neutral_kind kind)
{
    for (size_t i = reader->n_slots; i-- > 0;)
        if (reader->slots[i].open && reader->slots[i].choice == choice &&
            reader->slots[i].kind == kind)
            return (uint32_t)i;
    return NO_PART;
}

uint32_t reader_find(const struct reply_reader *reader, int choice, int64_t key)
{
    for (size_t i = reader->n_slots; i-- > 0;)
        if (reader->slots[i].choice == choice && reader->slots[i].key == key)
            return (uint32_t)i;
    return NO_PART;
}

void reader_add(struct reply_reader *reader, int choice, enum neutral_kind kind,
                struct json_text text)
{
    uint32_t part = reader_find_open(reader, choice, kind);

    if (text.size == 0)
        return;
    if (part == NO_PART) {
        for (size_t i = 0; i < reader->n_slots; i++)
            if (reader->slots[i].choice == choice && reader->slots[i].kind != PART_CALL)
                reader_close(reader, (uint32_t)i);
        part = reader_open(reader, choice, kind, -1, NULL);
    }
    reader_text(reader, part, text);
}

struct slice reader_raw(struct reply_reader *reader, struct slice document,
                        const struct json_value *value)
{
    if (!json_enter(reader->json) || !json_leave(reader->json))
        return (struct slice){"", 0};
    size_t end = json_here(reader->json);
    while (end > value->offset && strchr(" \t\r\n", document.at[end - 1]) != NULL)
        end--;
    return (struct slice){document.at + value->offset, end - value->offset};
}

static void merge_count(int64_t *count, int64_t later)
{
    if (later > 0)
        *count = later;
}

static void merge_word(char word[USAGE_WORD_MAX], const char before[USAGE_WORD_MAX])
{
    if (word[0] == '\0')
        memcpy(word, before, USAGE_WORD_MAX);
}

void usage_merge(struct usage_reading *usage, const struct usage_reading *later)
{
    struct usage_reading before = *usage;

    *usage = *later;
    usage->usage = before.usage;
    merge_word(usage->tier, before.tier);
    merge_word(usage->speed, before.speed);
    merge_word(usage->geo, before.geo);
    merge_count(&usage->usage.input, later->usage.input);
    merge_count(&usage->usage.cached_input, later->usage.cached_input);
    merge_count(&usage->usage.cache_write, later->usage.cache_write);
    merge_count(&usage->usage.cache_write_long, later->usage.cache_write_long);
    merge_count(&usage->usage.output, later->usage.output);
    merge_count(&usage->usage.audio_input, later->usage.audio_input);
    merge_count(&usage->usage.image_input, later->usage.image_input);
    merge_count(&usage->usage.audio_output, later->usage.audio_output);
    merge_count(&usage->usage.image_output, later->usage.image_output);
    merge_count(&usage->usage.tool_calls, later->usage.tool_calls);
    merge_count(&usage->usage.longest, later->usage.longest);
    usage->refused |= before.refused;
    usage->reasoning = later->reasoning > 0 ? later->reasoning : before.reasoning;
    usage->found |= before.found;
    usage->has_input |= before.has_input;
    usage->has_output |= before.has_output;
    usage->absurd |= before.absurd;
}
