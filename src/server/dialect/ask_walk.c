/* ask_walk.c - the walk over a body, from value to value. See ask_read.c for what it has to hold.
 *
 * One loop with a stack of its own, and no tree. Values, keys and depth are bounded, so what a
 * reading may cost is: docs/decisions/0035.
 */
#include "server/dialect/ask_walk_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Problems -------------------------------------------------------------------------------- */

bool ask_walk_fail(struct ask_walk *walk, const char *param, const char *format, ...)
{
    va_list arguments;

    if (walk->failed)
        return false;
    walk->failed = true;
    snprintf(walk->problem->param, sizeof walk->problem->param, "%s", param);
    va_start(arguments, format);
    vsnprintf(walk->problem->text, sizeof walk->problem->text, format, arguments);
    va_end(arguments);
    return false;
}

bool ask_walk_fail_type(struct ask_walk *walk, const char *param, const char *wanted,
                        const struct json_value *value)
{
    return ask_walk_fail(walk, param, "'%s' must be %s, not %s", param, wanted,
                         json_kind_name(value->kind));
}

/* The reader has found a mistake. Where it names a key, that is the field. */
bool ask_walk_fail_json(struct ask_walk *walk)
{
    const struct json_problem *problem = json_reader_problem(walk->reader);
    const char *name = strchr(problem->text, '"');
    const char *end = name != NULL ? strchr(name + 1, '"') : NULL;
    char param[sizeof walk->problem->param] = "";

    if (end != NULL)
        snprintf(param, sizeof param, "%.*s", (int)(end - name - 1), name + 1);
    walk->problem->no_memory = problem->no_memory;
    return ask_walk_fail(walk, param, "the body cannot be read: %s, at byte %zu", problem->text,
                         problem->offset);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

/* Where a string, number or word is that the reader has accepted, so it does end. */
struct ask_span ask_walk_span(const struct ask_walk *walk, const struct json_value *value)
{
    size_t at = value->offset;
    size_t end = at + 1;

    if (value->kind == JSON_STRING) {
        while (end < walk->n && walk->body[end] != '"')
            end += walk->body[end] == '\\' ? 2 : 1;
        end++;
    } else {
        while (end < walk->n && strchr(",]} \t\r\n", walk->body[end]) == NULL)
            end++;
    }
    assert(at < end && end <= walk->n);
    return (struct ask_span){at, end - at};
}

size_t ask_walk_end(const struct ask_walk *walk)
{
    size_t end = json_here(walk->reader);

    while (end > 0 && strchr(" \t\r\n", walk->body[end - 1]) != NULL)
        end--;
    return end;
}

/* ---- Keys that rules name, and keys in other letters ----------------------------------------- */

bool ask_walk_fail_case(struct ask_walk *walk, const char *name)
{
    return ask_walk_fail(walk, name,
                         "a key differs from '%s' in the case of its letters alone, and providers "
                         "may read it as that; write '%s'",
                         name, name);
}

/* The keys that are read below the top, in what has no free keys. */
static const char *const below_top[] = {
    "type",      "source",    "data",    "result",      "url",           "image_url",
    "file_data", "role",      "content", "text",        "file_url",      "file_id",
    "input",     "arguments", "name",    "function",    "max_uses",      "max_tokens",
    "model",     "detail",    "ttl",     "input_audio", "cache_control", NULL};

/* The name that the key is meant to be, or null. */
static const char *variant_of(const struct ask_walk *walk, const struct ask_level *level,
                              struct json_text key)
{
    const char *name = NULL;

    if (level->watch != NULL)
        name = ask_watch_variant(walk->watch, level->watch, key);
    if (walk->depth == 1 && name == NULL)
        name = ask_field_variant(key);
    for (size_t i = 0; walk->depth > 1 && name == NULL && below_top[i] != NULL; i++)
        name = ask_key_is_variant(key, slice_of(below_top[i])) ? below_top[i] : NULL;
    return name;
}

static bool has_api_keys(const struct ask_walk *walk, const struct ask_level *level)
{
    return walk->depth == 1 || (walk->is_api && (level->mode == PROSE || walk->depth == 3));
}

/* What has to be done for each key and value before it is read. */
static bool take_given(struct ask_walk *walk, const struct ask_level *level, struct json_text key,
                       const struct json_value *value)
{
    const char *name;

    walk->given = NULL;
    if (level->is_array) {
        walk->given = level->watch;
    } else {
        if ((has_api_keys(walk, level) || level->watch != NULL) && ask_key_is_odd(key) &&
            (name = variant_of(walk, level, key)) != NULL)
            return ask_walk_fail_case(walk, name);
        if (level->watch != NULL) {
            if (level->watch->field != ASK_WATCH_NONE)
                walk->seen[level->watch->field].filled = true;
            walk->given = ask_watch_key(walk->watch, level->watch, key);
        }
    }
    if (walk->given != NULL) {
        struct ask_span span = ask_is_container(value) ? (struct ask_span){value->offset, 1}
                                                       : ask_walk_span(walk, value);
        ask_watch_note(walk->watch, walk->given, walk->ask->endpoint, value, span, level->is_array,
                       walk->seen);
    }
    return true;
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Goes into the object or array that was given last. */
bool ask_walk_push(struct ask_walk *walk, enum ask_mode mode, struct json_text key,
                   const struct json_value *value)
{
    static const char *const media[] = {"image_url", "input_audio", "audio_url",
                                        "video_url", "file",        NULL};

    if (walk->depth == ASK_DEPTH_MAX)
        return ask_walk_fail(walk, "", "objects and arrays are nested more than %d deep",
                             ASK_DEPTH_MAX);
    if (!json_enter(walk->reader))
        return false;
    walk->levels[walk->depth++] = (struct ask_level){
        .mode = mode,
        .is_array = value->kind == JSON_ARRAY,
        .is_source = json_text_is(key, "source"),
        .is_media = mode == PROSE && ask_is_one_of(key, media),
        .max_uses = -1,
        .watch = walk->given,
        .at = value->offset,
    };
    if (mode == DATA && (walk->depth == 1 || walk->levels[walk->depth - 2].mode != DATA))
        walk->data_depth = walk->depth;
    return true;
}

bool ask_walk_next(struct ask_walk *walk, struct json_text *key, struct json_value *value)
{
    if (walk->failed)
        return false;
    if (json_next(walk->reader, key, value)) {
        const struct ask_level *level = &walk->levels[walk->depth - 1];
        if (++walk->values > walk->max_values) {
            walk->problem->too_many = true;
            return ask_walk_fail(walk, "", "the body has more than %zu values", walk->max_values);
        }
        if (level->is_array || ++walk->keys <= ASK_KEYS_MAX)
            return take_given(walk, level, *key, value);
        return ask_walk_fail(walk, "", "the body has more than %d keys", ASK_KEYS_MAX);
    }
    return false;
}

/* Messages and items are the objects right below a top-level array. */
static enum ask_level_kind kind_below(struct ask_walk *walk, const struct ask_level *level,
                                      struct json_text key, const struct json_value *value)
{
    if (json_text_is(key, "cache_control") || json_text_is(key, "prompt_cache_breakpoint")) {
        walk->ask->features |= ASK_CACHE;
        return LEVEL_CACHE;
    }
    if (level->kind == LEVEL_TOOLS && value->kind == JSON_OBJECT)
        return LEVEL_TOOL;
    if (json_text_is(key, "tools") && value->kind == JSON_ARRAY &&
        (level->kind == LEVEL_TOOL || level->kind == LEVEL_MESSAGE || level->kind == LEVEL_PART))
        return LEVEL_TOOLS;
    if (level->kind == LEVEL_CONTEXT && level->is_array)
        return LEVEL_CONTEXT;
    if (level->kind == LEVEL_CONTEXT)
        return json_text_is(key, "edits") || json_text_is(key, "trigger") ? LEVEL_CONTEXT
                                                                          : LEVEL_OTHER;
    if (level->mode != PROSE || value->kind != JSON_OBJECT)
        return LEVEL_OTHER;
    if (level->is_array && walk->depth == 2)
        return LEVEL_MESSAGE;
    return level->is_array ? LEVEL_PART : LEVEL_OTHER;
}

static void enter_below(struct ask_walk *walk, struct json_text key, const struct json_value *value)
{
    const struct ask_level *level = &walk->levels[walk->depth - 1];
    enum ask_level_kind kind = kind_below(walk, level, key, value);
    enum ask_mode mode = level->mode;

    if (mode == PROSE && !level->is_array &&
        (json_text_is(key, "input") || json_text_is(key, "arguments") || kind == LEVEL_TOOLS))
        mode = DATA;
    /* A spoken reply is sent back by its id. */
    if (level->kind == LEVEL_MESSAGE && level->mode == PROSE && json_text_is(key, "audio"))
        walk->ask->features |= ASK_ITEM;
    walk->ask->messages += kind == LEVEL_MESSAGE;
    walk->ask->measure.messages += kind == LEVEL_MESSAGE;
    walk->ask->measure.parts +=
        mode == PROSE && value->kind == JSON_OBJECT && kind != LEVEL_MESSAGE;
    if (mode == PROSE && level->is_array && walk->depth == 2 && kind != LEVEL_MESSAGE)
        walk->ask->measure.parts++; /* a list of tokens */
    if (ask_walk_push(walk, mode, key, value))
        walk->levels[walk->depth - 1].kind = kind;
}

/* The object or array that was entered last has ended. */
static void leave(struct ask_walk *walk)
{
    struct ask_level *level = &walk->levels[--walk->depth];

    if (level->mode == DATA && walk->data_depth == walk->depth + 1) {
        int64_t bytes = (int64_t)(json_here(walk->reader) - level->at);
        ask_measure_forms(walk, bytes);
        walk->ask->measure.data_bytes += bytes;
        walk->data_depth = 0;
    }
    if (level->kind == LEVEL_TOOL)
        ask_measure_tool(walk, level);
    ask_measure_level(walk, level);
    walk->ask->measure.recalled += level->recalls && !level->encrypted;
    if (level->kind == LEVEL_MESSAGE && walk->keeps_prefix)
        ask_measure_message(walk, level);
}

/* Walks the value that was given last, to its end. */
void ask_walk_kind(struct ask_walk *walk, enum ask_mode mode, enum ask_level_kind kind,
                   const struct json_value *value)
{
    size_t outside = walk->depth;
    struct json_text key = {"", 0};
    struct json_value below;

    if (!ask_is_container(value) || !ask_walk_push(walk, mode, key, value))
        return;
    walk->levels[outside].kind = kind;
    while (walk->depth > outside && !walk->failed) {
        if (ask_walk_next(walk, &key, &below)) {
            ask_measure_value(walk, &walk->levels[walk->depth - 1], key, &below);
            if (ask_is_container(&below))
                enter_below(walk, key, &below);
        } else if (json_reader_problem(walk->reader) == NULL && !walk->failed) {
            leave(walk);
        } else {
            return;
        }
    }
}

void ask_walk_value(struct ask_walk *walk, enum ask_mode mode, const struct json_value *value)
{
    ask_walk_kind(walk, mode, LEVEL_OTHER, value);
}
