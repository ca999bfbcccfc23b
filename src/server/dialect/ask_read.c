/* ask_read.c - reads what we act on out of the body of a call, and measures its prompt.
 *
 * A limit that can be talked around is none, so what is read here must be what the provider reads:
 *
 *   - A key that comes twice in one object, at any depth, is refused: one parser takes the first,
 *     another the last. Keys are compared unescaped ("mod\u0065l" is "model").
 *   - A field that we act on and do not understand is refused; any other is none of our business.
 *   - Numbers that are whole may be written as 100.0 or 1e2; others, and those above 2^53, are
 *     refused.
 *   - A key that differs from one that is read in the case of its letters alone is refused: Go's
 *     encoding/json would take it for that one.
 *
 * Keys and values are bounded in number, so that what a reading may cost is: docs/decisions/0035.
 *
 * The whole body is walked once, by one loop with a stack of its own, and no tree is built. On its
 * way the walk measures the prompt, in one of three ways by the top-level field that it is in:
 *
 *   QUIET  what is no prompt: sampling parameters, metadata
 *   PROSE  messages, system, instructions, input: text is counted, and not the frame around it
 *          (keys, roles, ids); integers in arrays are tokens; payloads are not text
 *   DATA   tools, functions, schemas, and arguments of tool calls: counted as compact JSON, keys
 *          too, because that is about what providers show to the model
 *
 * A payload is what stands where a payload belongs (url, image_url, file_data, data, ...),
 * whatever it looks like: a "data:" URL in a text is text to the model, and counts. Images,
 * recordings and files are counted by the type of the block that they are in, when the block ends,
 * because "type" may be its last key. A document whose source is plain text is text.
 */
#include "server/dialect/ask_watch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tollgate.h"

enum mode { QUIET, PROSE, DATA };

enum media { NO_MEDIA, IMAGE, AUDIO, FILE_MEDIA };

/* An object or array that is being walked. */
struct level {
    enum mode mode;
    bool is_array;
    bool is_source;        /* the value of "source" */
    bool plain;            /* a source says that it is text, or a block has such a source */
    enum media media;      /* what its type says it is */
    int64_t payload_bytes; /* payloads in it, without those of files within it */
    int64_t data_bytes;    /* "data": payload, unless it turns out to be plain text */
    int64_t result_bytes;  /* "result": payload of an image that was made, otherwise text */
    const struct watch_node *watch; /* where rules name something in it; null: nowhere */
};

struct walk {
    struct json_reader *reader;
    const char *body;
    size_t n;
    struct ask *ask;
    struct ask_problem *problem;
    const struct ask_watch *watch; /* what rules name; null: nothing */
    struct ask_seen *seen;
    const struct watch_node *given; /* the node of the value that was given last */
    bool failed;
    bool is_api; /* keys of this top-level field are the API's, and not a client's own */
    size_t keys, values, max_values;
    size_t depth;
    struct level levels[ASK_DEPTH_MAX];
};

/* ---- Problems -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static bool ask_read_fail(struct walk *walk,
                                                                const char *param,
                                                                const char *format, ...)
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

static bool fail_type(struct walk *walk, const char *param, const char *wanted,
                      const struct json_value *value)
{
    return ask_read_fail(walk, param, "'%s' must be %s, not %s", param, wanted,
                         json_kind_name(value->kind));
}

/* The reader has found a mistake. Where it names a key, that is the field. */
static bool fail_json(struct walk *walk)
{
    const struct json_problem *problem = json_reader_problem(walk->reader);
    const char *name = strchr(problem->text, '"');
    const char *end = name != NULL ? strchr(name + 1, '"') : NULL;
    char param[sizeof walk->problem->param] = "";

    if (end != NULL)
        snprintf(param, sizeof param, "%.*s", (int)(end - name - 1), name + 1);
    return ask_read_fail(walk, param, "the body cannot be read: %s, at byte %zu", problem->text,
                         problem->offset);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

/* Where a string, number or word is that the reader has accepted, so it does end. */
static struct ask_span span_of(const struct walk *walk, const struct json_value *value)
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

/* ---- The prompt ------------------------------------------------------------------------------ */

static bool is_one_of(struct json_text text, const char *const words[])
{
    for (size_t i = 0; words[i] != NULL && text.size > 0; i++)
        if (words[i][0] == text.bytes[0] && json_text_is(text, words[i]))
            return true;
    return false;
}

static enum media media_of(struct json_text type)
{
    static const char *const images[] = {"image_url",           "input_image",           "image",
                                         "computer_screenshot", "image_generation_call", NULL};
    static const char *const audios[] = {"input_audio", "audio", NULL};
    static const char *const files[] = {"file",  "input_file", "document", "container_upload",
                                        "video", "video_url",  NULL};

    if (is_one_of(type, images))
        return IMAGE;
    if (is_one_of(type, audios))
        return AUDIO;
    return is_one_of(type, files) ? FILE_MEDIA : NO_MEDIA;
}

static void count_prose_string(struct walk *walk, struct level *level, struct json_text key,
                               struct json_text text)
{
    static const char *const payloads[] = {"url", "image_url", "file_data", "file_url", NULL};
    /* What names, orders or frames a text, and is none. */
    static const char *const frames[] = {
        "role",   "id",         "tool_call_id", "tool_use_id", "call_id",   "item_id", "status",
        "detail", "media_type", "format",       "file_id",     "signature", "ttl",     NULL};
    int64_t bytes = (int64_t)text.size;

    if (level->is_array)
        walk->ask->text_bytes += bytes;
    else if (json_text_is(key, "type") && level->is_source)
        level->plain = json_text_is(text, "text") || json_text_is(text, "content");
    else if (json_text_is(key, "type"))
        level->media = media_of(text);
    else if (json_text_is(key, "data"))
        level->data_bytes = bytes;
    else if (json_text_is(key, "result"))
        level->result_bytes = bytes;
    else if (is_one_of(key, payloads))
        level->payload_bytes += bytes;
    else if (!is_one_of(key, frames))
        walk->ask->text_bytes += bytes;
}

/* Comma or brackets, quotes and colon are a byte each; numbers and words are taken to have four. */
static int64_t data_bytes(const struct level *level, struct json_text key,
                          const struct json_value *value)
{
    int64_t bytes = 1 + (level->is_array ? 0 : (int64_t)key.size + 3);

    if (value->kind == JSON_STRING)
        return bytes + (int64_t)value->string.size + 2;
    return bytes + (value->kind == JSON_OBJECT || value->kind == JSON_ARRAY ? 1 : 4);
}

static void count_value(struct walk *walk, struct level *level, struct json_text key,
                        const struct json_value *value)
{
    if (level->mode == DATA)
        walk->ask->text_bytes += data_bytes(level, key, value);
    else if (level->mode == PROSE && value->kind == JSON_STRING)
        count_prose_string(walk, level, key, value->string);
    else if (level->mode == PROSE && value->kind == JSON_INTEGER && level->is_array)
        walk->ask->token_ids++;
}

/* What is known of an object or array only at its end. */
static void count_level(struct walk *walk, const struct level *level)
{
    struct ask *ask = walk->ask;
    struct level *around = &walk->levels[walk->depth - 1];

    assert(walk->depth >= 1); /* the body itself is around everything that is counted */
    if (level->mode != PROSE)
        return;
    int64_t payload = level->payload_bytes;

    *(level->is_source && level->plain ? &ask->text_bytes : &payload) += level->data_bytes;
    *(level->media == IMAGE ? &payload : &ask->text_bytes) += level->result_bytes;
    if (level->media == FILE_MEDIA)
        ask->file_bytes += payload;
    if (level->media == FILE_MEDIA || walk->depth == 1)
        ask->media_bytes += payload;
    else
        around->payload_bytes += payload;
    if (level->is_source && level->plain)
        around->plain = true;
    ask->images += level->media == IMAGE;
    ask->audios += level->media == AUDIO;
    ask->files += level->media == FILE_MEDIA && !level->plain;
}

/* ---- Keys that rules name, and keys in other letters ----------------------------------------- */

static bool is_container(const struct json_value *value)
{
    return value->kind == JSON_OBJECT || value->kind == JSON_ARRAY;
}

static bool fail_case(struct walk *walk, const char *name)
{
    return ask_read_fail(walk, name,
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

static const char *variant_of(const struct walk *walk, const struct level *level,
                              struct json_text key);

static bool has_api_keys(const struct walk *walk, const struct level *level)
{
    return walk->depth == 1 || (walk->is_api && (level->mode == PROSE || walk->depth == 3));
}

/* What has to be done for each key and value before it is read. */
static bool take_given(struct walk *walk, const struct level *level, struct json_text key,
                       const struct json_value *value)
{
    const char *name;

    walk->given = NULL;
    if (level->is_array) {
        walk->given = level->watch;
    } else {
        if ((has_api_keys(walk, level) || level->watch != NULL) && ask_key_is_odd(key) &&
            (name = variant_of(walk, level, key)) != NULL)
            return fail_case(walk, name);
        if (level->watch != NULL) {
            if (level->watch->field != WATCH_NONE)
                walk->seen[level->watch->field].filled = true;
            walk->given = ask_watch_key(walk->watch, level->watch, key);
        }
    }
    if (walk->given != NULL) {
        struct ask_span span =
            is_container(value) ? (struct ask_span){value->offset, 1} : span_of(walk, value);
        ask_watch_note(walk->watch, walk->given, walk->ask->endpoint, value, span, level->is_array,
                       walk->seen);
    }
    return true;
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Goes into the object or array that was given last. */
static bool ask_read_push(struct walk *walk, enum mode mode, struct json_text key,
                          enum json_kind kind)
{
    if (walk->depth == ASK_DEPTH_MAX)
        return ask_read_fail(walk, "", "objects and arrays are nested more than %d deep",
                             ASK_DEPTH_MAX);
    if (!json_enter(walk->reader))
        return false;
    walk->levels[walk->depth++] = (struct level){
        .mode = mode,
        .is_array = kind == JSON_ARRAY,
        .is_source = json_text_is(key, "source"),
        .watch = walk->given,
    };
    return true;
}

static bool ask_read_next(struct walk *walk, struct json_text *key, struct json_value *value)
{
    if (walk->failed)
        return false;
    if (json_next(walk->reader, key, value)) {
        const struct level *level = &walk->levels[walk->depth - 1];
        if (++walk->values > walk->max_values) {
            walk->problem->too_many = true;
            return ask_read_fail(walk, "", "the body has more than %zu values", walk->max_values);
        }
        if (level->is_array || ++walk->keys <= ASK_KEYS_MAX)
            return take_given(walk, level, *key, value);
        return ask_read_fail(walk, "", "the body has more than %d keys", ASK_KEYS_MAX);
    }
    return false;
}

/* Messages and items are the objects right below a top-level array. */
static void enter_below(struct walk *walk, struct json_text key, const struct json_value *value)
{
    const struct level *level = &walk->levels[walk->depth - 1];
    enum mode mode = level->mode;

    if (mode == PROSE && !level->is_array &&
        (json_text_is(key, "input") || json_text_is(key, "arguments")))
        mode = DATA;
    if (mode == PROSE && walk->depth == 2 && level->is_array && value->kind == JSON_OBJECT)
        walk->ask->messages++;
    ask_read_push(walk, mode, key, value->kind);
}

/* Walks the value that was given last, to its end. */
static void walk_value(struct walk *walk, enum mode mode, const struct json_value *value)
{
    size_t outside = walk->depth;
    struct json_text key = {"", 0};
    struct json_value below;

    if (!is_container(value) || !ask_read_push(walk, mode, key, value->kind))
        return;
    while (walk->depth > outside && !walk->failed) {
        if (ask_read_next(walk, &key, &below)) {
            count_value(walk, &walk->levels[walk->depth - 1], key, &below);
            if (is_container(&below))
                enter_below(walk, key, &below);
        } else {
            walk->depth--;
            count_level(walk, &walk->levels[walk->depth]);
        }
    }
}

/* ---- Fields ---------------------------------------------------------------------------------- */

struct field {
    const char *name;
    unsigned endpoints; /* bits 1 << endpoint */
    void (*read)(struct walk *walk, const struct field *field, const struct json_value *value);
    size_t offset; /* where in struct ask it is kept */
    enum mode mode;
};

/* A whole number from `least` to 2^53, or -1 for null. */
static bool ask_read_read_whole(struct walk *walk, const char *name, const struct json_value *value,
                                int64_t least, int64_t *whole)
{
    double real = value->kind == JSON_DOUBLE ? value->real : 0.5;

    *whole = -1;
    if (value->kind == JSON_NULL)
        return true;
    if (value->kind == JSON_INTEGER)
        *whole = value->integer;
    else if (value->kind == JSON_DOUBLE && real == floor(real) && fabs(real) <= 0x1p53)
        *whole = (int64_t)real;
    else if (value->kind != JSON_DOUBLE && value->kind != JSON_HUGE)
        return fail_type(walk, name, "a whole number", value);
    if (*whole >= least && *whole <= TG_NUMBER_MAX)
        return true;
    return ask_read_fail(walk, name, "'%s' must be a whole number from %" PRId64 " to %" PRId64,
                         name, least, TG_NUMBER_MAX);
}

static void read_bound(struct walk *walk, const struct field *field, const struct json_value *value)
{
    struct ask_bound *bound = walk->ask->bounds;
    int64_t whole;

    if (!ask_read_read_whole(walk, field->name, value, 0, &whole))
        return;
    if (bound->name != NULL)
        bound++;
    assert(bound->name == NULL); /* no endpoint has three, and a key comes once */
    *bound = (struct ask_bound){field->name, whole, span_of(walk, value)};
    if (whole > walk->ask->max_output)
        walk->ask->max_output = whole;
}

static void read_choices(struct walk *walk, const struct field *field,
                         const struct json_value *value)
{
    int64_t whole;

    if (ask_read_read_whole(walk, field->name, value, 1, &whole) && whole > walk->ask->choices)
        walk->ask->choices = whole;
}

static bool read_bool(struct walk *walk, const char *name, const struct json_value *value)
{
    if (value->kind == JSON_BOOL)
        return value->boolean;
    if (value->kind != JSON_NULL)
        fail_type(walk, name, "true or false", value);
    return false;
}

static void read_flag(struct walk *walk, const struct field *field, const struct json_value *value)
{
    *(bool *)((char *)walk->ask + field->offset) = read_bool(walk, field->name, value);
}

static void read_model(struct walk *walk, const struct field *field, const struct json_value *value)
{
    struct ask_text *model = &walk->ask->model;

    if (value->kind != JSON_STRING) {
        fail_type(walk, field->name, "a string", value);
    } else if (value->string.size == 0 || value->string.size > ASK_TEXT_MAX) {
        ask_read_fail(walk, field->name, "'model' must have 1 to %d bytes", ASK_TEXT_MAX);
    } else {
        model->n = value->string.size;
        memcpy(model->at, value->string.bytes, model->n);
        walk->ask->model_span = span_of(walk, value);
    }
}

/* Keeps what names somebody or something. What has another type is the provider's to refuse. */
static void ask_read_keep_text(struct ask_text *text, const struct json_value *value)
{
    struct json_text from = value->kind == JSON_STRING ? value->string : (struct json_text){"", 0};
    char hash[20];

    text->n = from.size < ASK_TEXT_MAX ? from.size : ASK_TEXT_MAX;
    memcpy(text->at, from.bytes, text->n);
    if (from.size <= ASK_TEXT_MAX)
        return;
    int n = snprintf(hash, sizeof hash, "~%016" PRIx64, (uint64_t)XXH64(from.bytes, from.size, 0));
    assert(n > 0 && (size_t)n < sizeof hash);
    memcpy(text->at + ASK_TEXT_MAX - n, hash, (size_t)n);
}

static void ask_read_read_text(struct walk *walk, const struct field *field,
                               const struct json_value *value)
{
    ask_read_keep_text((struct ask_text *)((char *)walk->ask + field->offset), value);
    walk_value(walk, QUIET, value);
}

/* Whether a key is this one; the same in other letters is refused. */
static bool key_is(struct walk *walk, struct json_text key, const char *name)
{
    if (ask_key_is_odd(key) && ask_key_is_variant(key, slice_of(name)))
        return fail_case(walk, name);
    return json_text_is(key, name);
}

/* The name is one key of an object: metadata.user_id, conversation.id. */
static void read_text_within(struct walk *walk, const struct field *field,
                             const struct json_value *value)
{
    struct ask_text *text = (struct ask_text *)((char *)walk->ask + field->offset);
    const char *wanted = strcmp(field->name, "metadata") == 0 ? "user_id" : "id";
    struct json_text key = {"", 0};
    struct json_value below;

    if (value->kind != JSON_OBJECT) {
        ask_read_read_text(walk, field, value);
        return;
    }
    if (!ask_read_push(walk, QUIET, key, value->kind))
        return;
    while (ask_read_next(walk, &key, &below)) {
        if (key_is(walk, key, wanted))
            ask_read_keep_text(text, &below);
        walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

static void read_stream_options(struct walk *walk, const struct field *field,
                                const struct json_value *value)
{
    struct ask *ask = walk->ask;
    struct json_text key = {"", 0};
    struct json_value below;

    if (value->kind == JSON_NULL) {
        ask->stream_options = span_of(walk, value);
        return;
    }
    if (value->kind != JSON_OBJECT) {
        fail_type(walk, field->name, "an object", value);
        return;
    }
    ask->stream_options = (struct ask_span){value->offset, 1};
    ask->stream_options_empty = true;
    if (!ask_read_push(walk, QUIET, key, value->kind))
        return;
    while (ask_read_next(walk, &key, &below)) {
        ask->stream_options_empty = false;
        if (key_is(walk, key, "include_usage")) {
            ask->include_usage = read_bool(walk, "stream_options.include_usage", &below);
            ask->include_usage_span =
                is_container(&below) ? (struct ask_span){0, 0} : span_of(walk, &below);
        }
        walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

static void read_prompt(struct walk *walk, const struct field *field,
                        const struct json_value *value)
{
    if (value->kind == JSON_STRING)
        walk->ask->text_bytes += (int64_t)value->string.size;
    else
        walk_value(walk, field->mode, value);
}

#define ON_CHAT (1u << ENDPOINT_CHAT)
#define ON_COMPLETIONS (1u << ENDPOINT_COMPLETIONS)
#define ON_RESPONSES (1u << ENDPOINT_RESPONSES)
#define ON_MESSAGES (1u << ENDPOINT_MESSAGES)
#define ON_STREAMS (ON_CHAT | ON_COMPLETIONS | ON_RESPONSES | ON_MESSAGES)
#define ON_ALL (ON_STREAMS | 1u << ENDPOINT_EMBEDDINGS | 1u << ENDPOINT_COUNT_TOKENS)

#define AT(member) offsetof(struct ask, member)

static const struct field fields[] = {
    {"model", ON_ALL, read_model, 0, QUIET},
    {"stream", ON_STREAMS, read_flag, AT(stream), QUIET},
    {"background", ON_RESPONSES, read_flag, AT(background), QUIET},
    {"stream_options", ON_CHAT | ON_COMPLETIONS, read_stream_options, 0, QUIET},
    {"max_tokens", ON_CHAT | ON_COMPLETIONS | ON_MESSAGES, read_bound, 0, QUIET},
    {"max_completion_tokens", ON_CHAT, read_bound, 0, QUIET},
    {"max_output_tokens", ON_RESPONSES, read_bound, 0, QUIET},
    {"n", ON_CHAT | ON_COMPLETIONS, read_choices, 0, QUIET},
    {"best_of", ON_COMPLETIONS, read_choices, 0, QUIET},

    {"previous_response_id", ON_RESPONSES, ask_read_read_text, AT(previous_response_id), QUIET},
    {"prompt_cache_key", ON_ALL, ask_read_read_text, AT(prompt_cache_key), QUIET},
    {"safety_identifier", ON_ALL, ask_read_read_text, AT(safety_identifier), QUIET},
    {"user", ON_ALL & ~ON_MESSAGES, ask_read_read_text, AT(user), QUIET},
    {"metadata", ON_MESSAGES, read_text_within, AT(user), QUIET},
    {"conversation", ON_RESPONSES, read_text_within, AT(conversation), QUIET},

    {"messages", ON_ALL, read_prompt, 0, PROSE},
    {"system", ON_ALL, read_prompt, 0, PROSE},
    {"instructions", ON_ALL, read_prompt, 0, PROSE},
    {"input", ON_ALL, read_prompt, 0, PROSE},
    {"prompt", ON_ALL, read_prompt, 0, PROSE},
    {"suffix", ON_ALL, read_prompt, 0, PROSE},
    {"prediction", ON_ALL, read_prompt, 0, PROSE},
    {"documents", ON_ALL, read_prompt, 0, PROSE},
    {"tools", ON_ALL, read_prompt, 0, DATA},
    {"functions", ON_ALL, read_prompt, 0, DATA},
    {"response_format", ON_ALL, read_prompt, 0, DATA},
    {"text", ON_ALL, read_prompt, 0, DATA},
    {"output_format", ON_ALL, read_prompt, 0, DATA},
    {"output_config", ON_ALL, read_prompt, 0, DATA},
};

static const struct field *ask_read_find_field(enum endpoint endpoint, struct json_text key)
{
    char first = key.size > 0 ? *key.bytes : '\0'; /* it settles nearly all of them */

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (*fields[i].name == first && (fields[i].endpoints >> endpoint & 1) != 0 &&
            json_text_is(key, fields[i].name))
            return &fields[i];
    return NULL;
}

static const char *variant_of(const struct walk *walk, const struct level *level,
                              struct json_text key)
{
    const char *name = NULL;

    if (level->watch != NULL)
        name = ask_watch_variant(walk->watch, level->watch, key);
    for (size_t i = 0; walk->depth == 1 && name == NULL && i < sizeof fields / sizeof *fields; i++)
        name = ask_key_is_variant(key, slice_of(fields[i].name)) ? fields[i].name : NULL;
    for (size_t i = 0; walk->depth > 1 && name == NULL && below_top[i] != NULL; i++)
        name = ask_key_is_variant(key, slice_of(below_top[i])) ? below_top[i] : NULL;
    return name;
}

/* ---- The interface --------------------------------------------------------------------------- */

static void walk_root(struct walk *walk)
{
    static const char *const api[] = {"messages", "system", "input", "tools", NULL};
    struct json_text key = {"", 0};
    struct json_value value;

    if (!ask_read_push(walk, QUIET, key, JSON_OBJECT))
        return;
    while (ask_read_next(walk, &key, &value)) {
        const struct field *field = ask_read_find_field(walk->ask->endpoint, key);
        walk->is_api = field != NULL && field->mode != QUIET && is_one_of(key, api);
        if (field != NULL)
            field->read(walk, field, &value);
        else
            walk_value(walk, QUIET, &value);
    }
}

bool ask_read(struct json_reader *reader, enum endpoint endpoint, const char *body, size_t n,
              size_t readable, struct ask *ask, struct ask_problem *problem)
{
    return ask_read_watching(reader, ASK_VALUES_MAX, endpoint, body, n, readable, NULL, NULL, ask,
                             problem);
}

bool ask_read_watching(struct json_reader *reader, size_t values, enum endpoint endpoint,
                       const char *body, size_t n, size_t readable, const struct ask_watch *watch,
                       struct ask_seen *seen, struct ask *ask, struct ask_problem *problem)
{
    struct walk walk = {.reader = reader,
                        .body = body,
                        .n = n,
                        .ask = ask,
                        .problem = problem,
                        .max_values = values,
                        .watch = watch,
                        .seen = seen,
                        .given = watch != NULL ? watch->nodes : NULL};
    struct json_value root;

    if (watch != NULL)
        memset(seen, 0, watch->n_fields * sizeof *seen);
    problem->too_many = false;
    *ask = (struct ask){.endpoint = endpoint, .body_bytes = n, .max_output = -1, .choices = 1};
    if ((unsigned)endpoint >= ENDPOINT_COUNT || (ON_ALL >> endpoint & 1) == 0)
        return ask_read_fail(&walk, "", "this endpoint takes no body");
    if (!json_begin(reader, body, n, readable, &root))
        return fail_json(&walk);
    if (root.kind != JSON_OBJECT)
        return ask_read_fail(&walk, "", "the body must be an object, not %s",
                             json_kind_name(root.kind));
    ask->root_at = root.offset;
    walk_root(&walk);
    if (walk.failed)
        return false;
    if (!json_end(reader))
        return fail_json(&walk);
    return ask->model.n > 0 || ask_read_fail(&walk, "model", "'model' is missing");
}
