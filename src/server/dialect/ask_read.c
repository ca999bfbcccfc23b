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
 *
 * On the same way it finds what moves a bill (see ask.h): how many prompts, which tools the
 * provider runs, how large images are, what is kept in a cache. There the rule is the opposite
 * one: what could be shown to the model counts (ask.measure), also what an estimate leaves out, and
 * a type or top-level key that is unknown is reported as such.
 */
#include "server/dialect/ask_watch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/core/num.h"
#include "server/dialect/ask_internal.h"
#include "server/dialect/media_size.h"
#include "tollgate.h"

enum mode { QUIET, PROSE, DATA };

/* What an object or array is for, where that matters. */
enum level_kind {
    LEVEL_OTHER,
    LEVEL_CACHE,   /* cache_control */
    LEVEL_CONTEXT, /* in context_management */
    LEVEL_MESSAGE, /* or item */
    LEVEL_PART,    /* another object in an array of a prompt */
    LEVEL_TOOLS,   /* an array of tools */
    LEVEL_TOOL,
};

/* Files, images and recordings that stand in an object, until it is known what they are. */
struct payload {
    int n;
    bool addressed;         /* one of them is not in the body */
    bool expected;          /* one stands where media belong, whatever the type says */
    bool other;             /* one says that it is no image, and may be a video */
    uint32_t width, height; /* the largest sides found; 0: not all are images with a size */
    int64_t audio_ms;       /* -1: not all are recordings with a length */
    enum ask_detail detail;
    struct normal_length text; /* their length, if they turn out to be text */
};

/* An object or array that is being walked. */
struct level {
    enum mode mode;
    enum level_kind kind;
    bool is_array;
    bool is_source;         /* the value of "source" */
    bool is_media;          /* the value of "image_url" and the like */
    bool plain;             /* a source says that it is text, or a block has such a source */
    bool has_role, replies; /* a message: of a reply */
    bool named;             /* a tool has a name or function */
    bool encrypted;         /* it has its text with it, encrypted */
    bool recalls;           /* an item of a reply whose text may be at the provider */
    enum ask_media media;   /* what its type says it is */
    enum ask_tool tool;
    int64_t payload_bytes; /* payloads in it, without those of files within it */
    int64_t data_bytes;    /* "data": payload, unless it turns out to be plain text */
    int64_t result_bytes;  /* "result": payload of an image that was made, otherwise text */
    int64_t hidden;        /* tokens that a tool's description adds */
    int64_t max_uses;      /* most uses of a tool; -1: it does not say */
    size_t at;             /* where it begins */
    const struct watch_node *watch; /* where rules name something in it; null: nowhere */
    struct payload payload;
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
    bool is_api;       /* keys of this top-level field are the API's, and not a client's own */
    bool no_bound;     /* a bound of 0 was given to a server that takes that for none */
    bool keeps_prefix; /* in messages of a body that is worth it */
    bool has_messages; /* they have come, by one name or another */
    bool has_prompts;  /* in a field that may have several prompts */
    bool after_reply;  /* the last message was of a reply */
    size_t keys, values, max_values;
    size_t depth;
    size_t data_depth;                  /* depth of the outermost level whose mode is DATA */
    struct ask_prefix last;             /* up to the end of the last message */
    struct level levels[ASK_DEPTH_MAX]; /* not cleared: a call has three or four of them */
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
    walk->problem->no_memory = problem->no_memory;
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

static bool is_container(const struct json_value *value)
{
    return value->kind == JSON_OBJECT || value->kind == JSON_ARRAY;
}

static void ask_read_word(struct ask_word *word, struct json_text text)
{
    if (text.size >= sizeof word->at) {
        memcpy(word->at, "?", 2);
        return;
    }
    for (size_t i = 0; i < text.size; i++)
        word->at[i] = text.bytes[i] > ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
    word->at[text.size] = '\0';
}

static void measure_text(struct walk *walk, struct json_text text)
{
    normal_length_add(&walk->ask->measure.text, text.bytes, text.size);
}

static void add_length(struct normal_length *to, const struct normal_length *from)
{
    to->bytes += from->bytes;
    to->nfc += from->nfc;
    to->nfkc += from->nfkc;
}

/* A payload may be megabytes of base64, which is ASCII. Where it turns out to be text after all,
 * what is behind the first 64 KiB counts as if all of it grew the most. */
static void payload_add(struct payload *payload, struct json_text text, bool inside)
{
    size_t head = text.size < 65536 ? text.size : 65536;
    int64_t rest = (int64_t)(text.size - head);
    uint32_t width = 0, height = 0;

    normal_length_add(&payload->text, text.bytes, head);
    add_length(&payload->text, &(struct normal_length){rest, 3 * rest, 11 * rest});
    bool address = text.size >= 5 && memcmp(text.bytes, "data:", 5) == 0;
    payload->other |= address && (text.size < 11 || memcmp(text.bytes, "data:image/", 11) != 0);
    inside = inside || address;
    payload->addressed |= !inside;
    bool sized = inside && media_image_size(text.bytes, text.size, &width, &height);
    int64_t ms = inside && !sized ? media_audio_ms(text.bytes, text.size) : -1;
    bool first = payload->n++ == 0;
    payload->width = sized && (first || payload->width > 0) ? width : 0;
    payload->height = sized && (first || payload->height > 0) ? height : 0;
    payload->audio_ms = first ? ms : -1;
    if (!first)
        payload->width = payload->height = 0; /* one image has one: the most will be assumed */
}

static void payload_merge(struct payload *to, const struct payload *from)
{
    bool first = to->n == 0;

    to->n += from->n;
    to->addressed |= from->addressed;
    to->expected |= from->expected;
    to->other |= from->other;
    to->width = first ? from->width : 0;
    to->height = first ? from->height : 0;
    to->audio_ms = first ? from->audio_ms : -1;
    if (from->detail != ASK_DETAIL_NONE)
        to->detail = from->detail;
    add_length(&to->text, &from->text);
}

static enum ask_detail detail_of(struct json_text text)
{
    if (json_text_is(text, "low"))
        return ASK_DETAIL_LOW;
    if (json_text_is(text, "high"))
        return ASK_DETAIL_HIGH;
    return json_text_is(text, "original") ? ASK_DETAIL_ORIGINAL : ASK_DETAIL_NONE;
}

static void read_type(struct walk *walk, struct level *level, struct json_text text)
{
    /* Sent back with their ids, without what was thought or found. */
    static const char *const recalled[] = {"reasoning", "web_search_call", "file_search_call",
                                           "code_interpreter_call", NULL};

    if (level->is_source) {
        level->plain = json_text_is(text, "text") || json_text_is(text, "content");
        return;
    }
    level->media = ask_media_of(text);
    if (json_text_is(text, "item_reference"))
        walk->ask->features |= ASK_ITEM;
    level->recalls |= level->kind == LEVEL_MESSAGE && is_one_of(text, recalled);
    if (level->kind == LEVEL_MESSAGE && !level->has_role)
        level->replies = text.size < 7 || memcmp(text.bytes + text.size - 7, "_output", 7) != 0;
}

static void read_role(struct level *level, struct json_text text)
{
    level->has_role = true;
    level->replies = json_text_is(text, "assistant");
}

/* A detail makes an image cheaper only where its API looks for one. */
static bool has_detail(const struct walk *walk, const struct level *level)
{
    return walk->ask->endpoint == ENDPOINT_CHAT
               ? level->is_media
               : walk->ask->endpoint == ENDPOINT_RESPONSES && level->kind == LEVEL_PART;
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
    bool is_payload = false;

    if (level->is_array) {
        walk->ask->text_bytes += bytes;
        walk->ask->measure.parts++;
    } else if (json_text_is(key, "type")) {
        read_type(walk, level, text);
    } else if (json_text_is(key, "data")) {
        level->data_bytes = bytes;
        is_payload = true;
    } else if (json_text_is(key, "result")) {
        level->result_bytes = bytes;
        is_payload = true;
    } else if (is_one_of(key, payloads)) {
        level->payload_bytes += bytes;
        is_payload = true;
    } else if (!is_one_of(key, frames)) {
        walk->ask->text_bytes += bytes;
        if (json_text_is(key, "arguments"))
            walk->ask->measure.data_bytes += bytes; /* a server may read it and write it anew */
        level->encrypted |= json_text_is(key, "encrypted_content");
    } else if (json_text_is(key, "role")) {
        read_role(level, text);
    } else if (json_text_is(key, "detail")) {
        if (has_detail(walk, level) || detail_of(text) == ASK_DETAIL_ORIGINAL)
            level->payload.detail = detail_of(text);
    } else if (json_text_is(key, "file_id")) {
        level->payload.n += 2; /* no size is known */
    }
    if (!is_payload) {
        measure_text(walk, text);
        return;
    }
    level->payload.expected |=
        level->is_media || (!json_text_is(key, "url") && *key.bytes != 'd' && *key.bytes != 'r');
    payload_add(&level->payload, text,
                *key.bytes == 'd' || *key.bytes == 'r' || json_text_is(key, "file_data"));
}

/* Comma or brackets, quotes and colon are a byte each; numbers and words are taken to have four. */
static int64_t data_bytes(const struct level *level, struct json_text key,
                          const struct json_value *value)
{
    int64_t bytes = 1 + (level->is_array ? 0 : (int64_t)key.size + 3);

    if (value->kind == JSON_STRING)
        return bytes + (int64_t)value->string.size + 2;
    return bytes + (is_container(value) ? 1 : 4);
}

#define NUMBER_MOST 24 /* bytes of a number in its longest form */

static void add_all_forms(struct walk *walk, int64_t bytes)
{
    add_length(&walk->ask->measure.text, &(struct normal_length){bytes, bytes, bytes});
}

static void add_growth(struct walk *walk, struct json_text text)
{
    struct normal_length length = {0, 0, 0};

    normal_length_add(&length, text.bytes, text.size);
    walk->ask->measure.text.nfc += length.nfc - length.bytes;
    walk->ask->measure.text.nfkc += length.nfkc - length.bytes;
}

/* What the value takes more than its bytes in the body, if it is written anew with an indent of 4:
 * a line of its own, a space behind the colon, for brackets a second line, and for numbers their
 * longest form (1e15 becomes 1000000000000000.0). Escapes are no longer than those in the body. */
static void measure_data(struct walk *walk, struct json_text key, const struct json_value *value)
{
    int64_t depth = (int64_t)(walk->depth - walk->data_depth);
    int64_t line = 1 + 4 * (depth + 1);

    walk->ask->data_depth = num_max(walk->ask->data_depth, depth + 1);
    if (key.size > 0)
        add_growth(walk, key);
    if (value->kind == JSON_STRING)
        add_growth(walk, value->string);
    else if (is_container(value))
        line *= 2;
    else
        line += NUMBER_MOST;
    add_all_forms(walk, line + 1);
}

static void read_tool_key(struct walk *walk, struct level *level, struct json_text key,
                          const struct json_value *value)
{
    static const char *const names[] = {"name", "function", "parameters", "input_schema", NULL};

    if (value->kind == JSON_STRING && json_text_is(key, "type")) {
        level->tool = ask_tool_of(value->string, &level->hidden);
        if (level->tool == ASK_TOOL_NEW && walk->ask->new_tool.at[0] == '\0')
            ask_read_word(&walk->ask->new_tool, value->string);
    } else if (value->kind == JSON_INTEGER && json_text_is(key, "max_uses")) {
        level->max_uses = value->integer;
    } else if (is_one_of(key, names)) {
        level->named = true;
    }
}

static void read_context_key(struct walk *walk, struct json_text key,
                             const struct json_value *value)
{
    struct ask *ask = walk->ask;

    if (value->kind == JSON_STRING && json_text_is(key, "type")) {
        bool clears = value->string.size > 6 && memcmp(value->string.bytes, "clear_", 6) == 0;
        if (!clears)
            ask->features |= ASK_COMPACTION;
    } else if (value->kind == JSON_INTEGER && value->integer >= 0 &&
               (json_text_is(key, "compact_threshold") || json_text_is(key, "value"))) {
        ask->compact_above =
            ask->compact_above < 0 ? value->integer : num_min(ask->compact_above, value->integer);
    }
}

/* Keys of messages and their parts, which overheads are for. A template may show the model any
 * other, with its quotes, colon and comma. */
static const char *const prose_keys[] = {
    "role",          "content",      "type",       "text",      "name",
    "tool_calls",    "function",     "arguments",  "id",        "input",
    "tool_use_id",   "tool_call_id", "call_id",    "output",    "image_url",
    "url",           "source",       "media_type", "data",      "detail",
    "cache_control", "ttl",          "thinking",   "signature", "summary",
    "status",        "annotations",  "format",     "file_id",   "file_data",
    "input_audio",   "title",        NULL};
#define KEY_FRAME 6

/* A number, true, false or null as text. */
static void measure_scalar(struct walk *walk, const struct json_value *value)
{
    if (value->kind == JSON_INTEGER || value->kind == JSON_DOUBLE || value->kind == JSON_HUGE)
        add_all_forms(walk, NUMBER_MOST);
    else if (!is_container(value))
        add_all_forms(walk, sizeof "false," - 1);
}

static void count_value(struct walk *walk, struct level *level, struct json_text key,
                        const struct json_value *value)
{
    if (level->mode == DATA) {
        walk->ask->text_bytes += data_bytes(level, key, value);
        measure_data(walk, key, value);
        if (level->kind == LEVEL_TOOL)
            read_tool_key(walk, level, key, value);
    } else if (level->mode == PROSE && value->kind == JSON_STRING) {
        count_prose_string(walk, level, key, value->string);
    } else if (level->mode == PROSE && level->is_array && value->kind == JSON_INTEGER) {
        walk->ask->token_ids++;
        walk->ask->measure.token_ids++;
        if (!walk->has_prompts)
            measure_scalar(walk, value);
    } else if (level->mode == PROSE) {
        measure_scalar(walk, value);
    }
    if (level->mode == PROSE && !level->is_array && !is_one_of(key, prose_keys)) {
        measure_text(walk, key);
        add_all_forms(walk, KEY_FRAME);
    }
    if (walk->has_prompts && walk->depth == 2 && level->is_array)
        walk->ask->prompts += value->kind == JSON_STRING || is_container(value);
    if (level->kind == LEVEL_CACHE && value->kind == JSON_STRING && json_text_is(key, "ttl") &&
        !json_text_is(value->string, "5m") && !json_text_is(value->string, "30m"))
        walk->ask->features |= ASK_CACHE_LONG;
    if (level->kind == LEVEL_CONTEXT)
        read_context_key(walk, key, value);
}

static void count_image(struct ask *ask, const struct payload *payload)
{
    ask->measure.images++;
    ask->by_address += payload->addressed;
    for (size_t i = 0; i < ask->n_sizes && payload->width > 0; i++)
        if (ask->sizes[i].width == payload->width && ask->sizes[i].height == payload->height &&
            ask->sizes[i].detail == payload->detail) {
            ask->sizes[i].count++;
            return;
        }
    if (payload->n != 1 || payload->width == 0 || ask->n_sizes == ASK_IMAGE_SIZES)
        ask->images_unknown++;
    else
        ask->sizes[ask->n_sizes++] =
            (struct ask_image){payload->width, payload->height, payload->detail, 1};
}

/* What the payloads of an object are, or those within it that no other object has claimed. */
static void count_payload(struct walk *walk, struct level *level, struct level *around)
{
    struct ask *ask = walk->ask;
    struct payload *payload = &level->payload;

    if (level->media == ASK_IMAGE && !payload->other) {
        count_image(ask, payload);
    } else if (level->media == ASK_AUDIO && payload->n == 1 && payload->audio_ms >= 0) {
        ask->audio_ms = num_add(ask->audio_ms, payload->audio_ms);
    } else if (level->media == ASK_AUDIO || level->media == ASK_IMAGE ||
               (level->media == ASK_FILE && !level->plain)) {
        ask->measure.files++;
        ask->by_address += payload->addressed;
    } else if (walk->depth > 1 && level->kind != LEVEL_MESSAGE && level->kind != LEVEL_PART &&
               !(level->is_source && level->plain)) {
        payload_merge(&around->payload, payload);
    } else {
        add_length(&ask->measure.text, &payload->text);
        if (payload->expected)
            ask->features |= ASK_NEW_PART;
    }
}

/* What is known of an object or array only at its end. */
static void count_level(struct walk *walk, struct level *level)
{
    struct ask *ask = walk->ask;
    struct level *around = &walk->levels[walk->depth - 1];

    assert(walk->depth >= 1); /* the body itself is around everything that is counted */
    if (level->mode != PROSE)
        return;
    int64_t payload = level->payload_bytes;

    *(level->is_source && level->plain ? &ask->text_bytes : &payload) += level->data_bytes;
    *(level->media == ASK_IMAGE ? &payload : &ask->text_bytes) += level->result_bytes;
    if (level->media == ASK_FILE)
        ask->file_bytes += payload;
    if (level->media == ASK_FILE || walk->depth == 1)
        ask->media_bytes += payload;
    else
        around->payload_bytes += payload;
    if (level->is_source && level->plain)
        around->plain = true;
    ask->images += level->media == ASK_IMAGE;
    ask->audios += level->media == ASK_AUDIO;
    ask->files += level->media == ASK_FILE && !level->plain;
    if (level->payload.n > 0 || level->media != ASK_NO_MEDIA)
        count_payload(walk, level, around);
    else if (level->payload.detail != ASK_DETAIL_NONE)
        around->payload.detail = level->payload.detail;
    if (level->media == ASK_NEW_MEDIA &&
        (level->kind == LEVEL_MESSAGE || level->kind == LEVEL_PART))
        ask->features |= ASK_NEW_PART;
}

static void count_tool(struct walk *walk, const struct level *level)
{
    static const unsigned features[] = {[ASK_TOOL_CODE] = ASK_CODE,
                                        [ASK_TOOL_IMAGE] = ASK_IMAGE_TOOL,
                                        [ASK_TOOL_ADVISOR] = ASK_ADVISOR,
                                        [ASK_TOOL_NEW] = ASK_NEW_TOOL};
    struct ask *ask = walk->ask;

    ask->tools++;
    ask->tool_prompt += level->hidden;
    ask->features |= features[level->tool];
    if (level->tool == ASK_TOOL_NONE && !level->named)
        ask->features |= ASK_NEW_TOOL;
    if (level->tool != ASK_TOOL_HOSTED)
        return;
    ask->hosted_tools++;
    if (level->max_uses >= 0)
        ask->max_uses = num_add(ask->max_uses, level->max_uses);
    else
        ask->features |= ASK_USES;
}

/* Where what was walked last ends: behind its bracket. */
static size_t ask_read_end(const struct walk *walk)
{
    size_t end = json_here(walk->reader);

    while (end > 0 && strchr(" \t\r\n", walk->body[end - 1]) != NULL)
        end--;
    return end;
}

/* A message has ended. What was before it is a prompt that may have been sent, if this one is the
 * beginning of a reply. */
static void keep_prefix(struct walk *walk, const struct level *level)
{
    struct ask *ask = walk->ask;

    if (level->replies && !walk->after_reply && walk->last.end > 0)
        ask->prefixes[ask->n_prefixes++ % ASK_PREFIXES] = walk->last;
    walk->after_reply = level->replies;
    walk->last = (struct ask_prefix){(uint32_t)ask_read_end(walk), ask->measure};
}

/* ---- Keys that rules name, and keys in other letters ----------------------------------------- */

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
            if (level->watch->field != ASK_WATCH_NONE)
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
                          const struct json_value *value)
{
    static const char *const media[] = {"image_url", "input_audio", "audio_url",
                                        "video_url", "file",        NULL};

    if (walk->depth == ASK_DEPTH_MAX)
        return ask_read_fail(walk, "", "objects and arrays are nested more than %d deep",
                             ASK_DEPTH_MAX);
    if (!json_enter(walk->reader))
        return false;
    walk->levels[walk->depth++] = (struct level){
        .mode = mode,
        .is_array = value->kind == JSON_ARRAY,
        .is_source = json_text_is(key, "source"),
        .is_media = mode == PROSE && is_one_of(key, media),
        .max_uses = -1,
        .watch = walk->given,
        .at = value->offset,
    };
    if (mode == DATA && (walk->depth == 1 || walk->levels[walk->depth - 2].mode != DATA))
        walk->data_depth = walk->depth;
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
static enum level_kind kind_below(struct walk *walk, const struct level *level,
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

static void enter_below(struct walk *walk, struct json_text key, const struct json_value *value)
{
    const struct level *level = &walk->levels[walk->depth - 1];
    enum level_kind kind = kind_below(walk, level, key, value);
    enum mode mode = level->mode;

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
    if (ask_read_push(walk, mode, key, value))
        walk->levels[walk->depth - 1].kind = kind;
}

/* The object or array that was entered last has ended. */
static void leave(struct walk *walk)
{
    struct level *level = &walk->levels[--walk->depth];

    if (level->mode == DATA && walk->data_depth == walk->depth + 1) {
        int64_t bytes = (int64_t)(json_here(walk->reader) - level->at);
        add_all_forms(walk, bytes);
        walk->ask->measure.data_bytes += bytes;
        walk->data_depth = 0;
    }
    if (level->kind == LEVEL_TOOL)
        count_tool(walk, level);
    count_level(walk, level);
    walk->ask->measure.recalled += level->recalls && !level->encrypted;
    if (level->kind == LEVEL_MESSAGE && walk->keeps_prefix)
        keep_prefix(walk, level);
}

/* Walks the value that was given last, to its end. */
static void walk_kind(struct walk *walk, enum mode mode, enum level_kind kind,
                      const struct json_value *value)
{
    size_t outside = walk->depth;
    struct json_text key = {"", 0};
    struct json_value below;

    if (!is_container(value) || !ask_read_push(walk, mode, key, value))
        return;
    walk->levels[outside].kind = kind;
    while (walk->depth > outside && !walk->failed) {
        if (ask_read_next(walk, &key, &below)) {
            count_value(walk, &walk->levels[walk->depth - 1], key, &below);
            if (is_container(&below))
                enter_below(walk, key, &below);
        } else if (json_reader_problem(walk->reader) == NULL && !walk->failed) {
            leave(walk);
        } else {
            return;
        }
    }
}

static void walk_value(struct walk *walk, enum mode mode, const struct json_value *value)
{
    walk_kind(walk, mode, LEVEL_OTHER, value);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Whether the prompt depends on a field: a prefix of messages is known only under the same ones. */
enum framing { APART, FRAME, MESSAGES };

struct field {
    const char *name;
    unsigned endpoints; /* bits 1 << endpoint */
    void (*read)(struct walk *walk, const struct field *field, const struct json_value *value);
    enum framing framing;
    enum mode mode;
    size_t offset;    /* where in struct ask it is kept */
    unsigned feature; /* which it is, unless it is null */
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
    walk->no_bound |= whole == 0 && walk->ask->endpoint != ENDPOINT_MESSAGES;
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
    if (!ask_read_push(walk, QUIET, key, value))
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
    if (!ask_read_push(walk, QUIET, key, value))
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
    if (value->kind == JSON_STRING) {
        walk->ask->text_bytes += (int64_t)value->string.size;
        measure_text(walk, value->string);
    } else {
        walk_value(walk, field->mode, value);
    }
}

/* Prompts of completions and inputs of embeddings: one, or an array of them. */
static void read_prompts(struct walk *walk, const struct field *field,
                         const struct json_value *value)
{
    walk->ask->prompts = 0;
    walk->has_prompts = true;
    read_prompt(walk, field, value);
    walk->has_prompts = false;
    walk->ask->prompts = num_max(walk->ask->prompts, 1);
}

/* Messages of a long body are worth remembering: see prefix.h. Not those of a body that has them
 * twice, as `messages` and as `input`: nobody knows which of them a provider has counted. */
static void read_messages(struct walk *walk, const struct field *field,
                          const struct json_value *value)
{
    struct ask *ask = walk->ask;
    bool again = walk->has_messages;

    if (*field->name == 'm' && value->kind != JSON_ARRAY && value->kind != JSON_NULL) {
        fail_type(walk, field->name, "an array", value);
        return;
    }
    walk->has_messages = true;
    walk->keeps_prefix = !again && walk->n >= ASK_PREFIX_LEAST && value->kind == JSON_ARRAY;
    read_prompt(walk, field, value);
    if (again) {
        ask->messages_at = ask->messages_end = 0;
        ask->n_prefixes = 0;
    } else if (walk->keeps_prefix && walk->last.end > 0) {
        ask->messages_at = (uint32_t)value->offset;
        ask->messages_end = walk->last.end;
        ask->messages_measure = walk->last.measure;
    }
    walk->keeps_prefix = false;
}

/* What is predicted is a prompt, and what is wrong of it is billed as if it were written. */
static void read_prediction(struct walk *walk, const struct field *field,
                            const struct json_value *value)
{
    const struct normal_length before = walk->ask->measure.text;
    struct normal_length *length = &walk->ask->prediction;

    read_prompt(walk, field, value);
    *length = walk->ask->measure.text;
    length->bytes -= before.bytes;
    length->nfc -= before.nfc;
    length->nfkc -= before.nfkc;
}

static void read_tools(struct walk *walk, const struct field *field, const struct json_value *value)
{
    (void)field;
    walk_kind(walk, DATA, LEVEL_TOOLS, value);
}

static void read_schema(struct walk *walk, const struct field *field,
                        const struct json_value *value)
{
    walk->ask->schemas += value->kind != JSON_NULL;
    read_prompt(walk, field, value);
}

/* None of our business, beyond its feature. */
static void read_other(struct walk *walk, const struct field *field, const struct json_value *value)
{
    walk_value(walk, field->mode, value);
}

static void read_short(struct walk *walk, const struct field *field, const struct json_value *value)
{
    struct ask_word *word = (struct ask_word *)((char *)walk->ask + field->offset);

    if (value->kind == JSON_STRING)
        ask_read_word(word, value->string);
    else if (value->kind != JSON_NULL)
        fail_type(walk, field->name, "a string", value);
}

static void read_whole(struct walk *walk, const struct field *field, const struct json_value *value)
{
    int64_t *count = (int64_t *)((char *)walk->ask + field->offset);

    (void)ask_read_read_whole(walk, field->name, value, 0, count);
}

static void read_cache(struct walk *walk, const struct field *field, const struct json_value *value)
{
    (void)field;
    walk_kind(walk, QUIET, LEVEL_CACHE, value);
}

static void read_retention(struct walk *walk, const struct field *field,
                           const struct json_value *value)
{
    (void)field;
    if (value->kind != JSON_NULL &&
        !(value->kind == JSON_STRING && json_text_is(value->string, "in_memory")))
        walk->ask->features |= ASK_CACHE | ASK_CACHE_LONG;
    walk_value(walk, QUIET, value);
}

static void read_context(struct walk *walk, const struct field *field,
                         const struct json_value *value)
{
    (void)field;
    walk_kind(walk, QUIET, LEVEL_CONTEXT, value);
}

static void read_truncation(struct walk *walk, const struct field *field,
                            const struct json_value *value)
{
    (void)field;
    if (value->kind != JSON_NULL &&
        !(value->kind == JSON_STRING && json_text_is(value->string, "disabled")))
        walk->ask->features |= ASK_EDITS;
    walk_value(walk, QUIET, value);
}

/* "pro" runs several samples, and no field bounds their sum. */
static void read_reasoning(struct walk *walk, const struct field *field,
                           const struct json_value *value)
{
    struct json_text key = {"", 0};
    struct json_value below;

    (void)field;
    if (value->kind != JSON_OBJECT) {
        walk_value(walk, QUIET, value);
        return;
    }
    if (!ask_read_push(walk, QUIET, key, value))
        return;
    while (ask_read_next(walk, &key, &below)) {
        if (json_text_is(key, "mode") && below.kind != JSON_NULL &&
            !(below.kind == JSON_STRING && json_text_is(below.string, "standard")))
            walk->ask->features |= ASK_PRO;
        walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

static void read_modalities(struct walk *walk, const struct field *field,
                            const struct json_value *value)
{
    struct json_text key = {"", 0};
    struct json_value below;

    (void)field;
    if (value->kind != JSON_ARRAY) {
        walk_value(walk, QUIET, value);
        return;
    }
    if (!ask_read_push(walk, QUIET, key, value))
        return;
    while (ask_read_next(walk, &key, &below)) {
        bool is_text = below.kind == JSON_STRING && json_text_is(below.string, "text");
        bool is_audio = below.kind == JSON_STRING && json_text_is(below.string, "audio");
        walk->ask->features |= is_audio ? ASK_AUDIO_OUT : is_text ? 0 : ASK_IMAGE_OUT;
        walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

#define ON_CHAT (1u << ENDPOINT_CHAT)
#define ON_COMPLETIONS (1u << ENDPOINT_COMPLETIONS)
#define ON_RESPONSES (1u << ENDPOINT_RESPONSES)
#define ON_MESSAGES (1u << ENDPOINT_MESSAGES)
#define ON_EMBEDDINGS (1u << ENDPOINT_EMBEDDINGS)
#define ON_STREAMS (ON_CHAT | ON_COMPLETIONS | ON_RESPONSES | ON_MESSAGES)
#define ON_ALL (ON_STREAMS | ON_EMBEDDINGS | 1u << ENDPOINT_COUNT_TOKENS)

#define AT(member) offsetof(struct ask, member)

/* What is read, and what is known to change no bill, by the first letter. A key that is in none of
 * these is new to us. */
static const struct field fields_a[] = {
    {"audio", ON_CHAT, read_other, FRAME, QUIET, 0, ASK_AUDIO_OUT},
    {"anthropic_version", ON_ALL, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct field fields_b[] = {
    {"background", ON_RESPONSES, read_flag, APART, QUIET, AT(background), 0},
    {"best_of", ON_COMPLETIONS, read_choices, APART, QUIET, 0, 0},
    {0},
};

static const struct field fields_c[] = {
    {"cache_control", ON_ALL, read_cache, APART, QUIET, 0, ASK_CACHE},
    {"cached_content", ON_ALL, read_other, FRAME, QUIET, 0, ASK_CACHED_CONTENT},
    {"cachedContent", ON_ALL, read_other, FRAME, QUIET, 0, ASK_CACHED_CONTENT},
    {"candidateCount", ON_ALL, read_choices, APART, QUIET, 0, 0},
    {"container", ON_ALL, read_other, FRAME, QUIET, 0, ASK_CONTAINER},
    {"context_management", ON_ALL, read_context, FRAME, QUIET, 0, ASK_EDITS},
    {"conversation", ON_RESPONSES, read_text_within, FRAME, QUIET, AT(conversation),
     ASK_CONVERSATION},
    {0},
};

static const struct field fields_d[] = {
    {"dimensions", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"documents", ON_ALL, read_prompt, FRAME, PROSE, 0, 0},
    {0},
};

static const struct field fields_e[] = {
    {"echo", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"encoding_format", ON_ALL, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct field fields_f[] = {
    {"fallbacks", ON_ALL, read_other, FRAME, QUIET, 0, ASK_FALLBACKS},
    {"frequency_penalty", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"function_call", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"functions", ON_ALL, read_tools, FRAME, DATA, 0, 0},
    {0},
};

static const struct field fields_i[] = {
    {"ignore_eos", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"include", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"inference_geo", ON_ALL, read_short, APART, QUIET, AT(inference_geo), 0},
    {"input", ON_EMBEDDINGS, read_prompts, FRAME, PROSE, 0, 0},
    {"input", ON_ALL & ~ON_EMBEDDINGS, read_messages, MESSAGES, PROSE, 0, 0},
    {"instructions", ON_ALL, read_prompt, FRAME, PROSE, 0, 0},
    {0},
};

static const struct field fields_l[] = {
    {"logit_bias", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"logprobs", ON_ALL, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct field fields_m[] = {
    {"messages", ON_ALL, read_messages, MESSAGES, PROSE, 0, 0},
    {"model", ON_ALL, read_model, APART, QUIET, 0, 0},
    {"max_tokens", ON_CHAT | ON_COMPLETIONS | ON_MESSAGES, read_bound, APART, QUIET, 0, 0},
    {"max_completion_tokens", ON_CHAT, read_bound, APART, QUIET, 0, 0},
    {"max_output_tokens", ON_RESPONSES, read_bound, APART, QUIET, 0, 0},
    {"max_tool_calls", ON_RESPONSES, read_whole, APART, QUIET, AT(max_tool_calls), 0},
    {"mcp_servers", ON_ALL, read_other, FRAME, QUIET, 0, ASK_MCP_SERVERS},
    {"metadata", ON_MESSAGES, read_text_within, APART, QUIET, AT(user), 0},
    {"metadata", ON_ALL & ~ON_MESSAGES, read_other, APART, QUIET, 0, 0},
    {"min_p", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"min_tokens", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"modalities", ON_ALL, read_modalities, FRAME, QUIET, 0, 0},
    {"models", ON_ALL, read_other, APART, QUIET, 0, ASK_MODELS},
    {0},
};

static const struct field fields_n[] = {
    {"n", ON_CHAT | ON_COMPLETIONS, read_choices, APART, QUIET, 0, 0},
    {0},
};

static const struct field fields_o[] = {
    {"output_config", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {"output_format", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {0},
};

static const struct field fields_p[] = {
    {"parallel_tool_calls", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"plugins", ON_ALL, read_other, APART, QUIET, 0, ASK_MODELS},
    {"prediction", ON_ALL, read_prediction, FRAME, PROSE, 0, 0},
    {"presence_penalty", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"previous_response_id", ON_RESPONSES, ask_read_read_text, FRAME, QUIET,
     AT(previous_response_id), ASK_STORED},
    {"prompt", ON_COMPLETIONS, read_prompts, FRAME, PROSE, 0, 0},
    {"prompt", ON_RESPONSES, read_prompt, FRAME, PROSE, 0, ASK_TEMPLATE},
    {"prompt", ON_ALL & ~(ON_COMPLETIONS | ON_RESPONSES), read_prompt, FRAME, PROSE, 0, 0},
    {"prompt_cache_key", ON_ALL, ask_read_read_text, APART, QUIET, AT(prompt_cache_key), 0},
    {"prompt_cache_options", ON_ALL, read_cache, APART, QUIET, 0, ASK_CACHE},
    {"prompt_cache_retention", ON_ALL, read_retention, APART, QUIET, 0, 0},
    {"provider", ON_ALL, read_other, APART, QUIET, 0, ASK_MODELS},
    {0},
};

static const struct field fields_r[] = {
    {"random_seed", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"reasoning", ON_ALL, read_reasoning, FRAME, QUIET, 0, 0},
    {"reasoning_effort", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"repetition_penalty", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"response_format", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {"route", ON_ALL, read_other, APART, QUIET, 0, ASK_MODELS},
    {0},
};

static const struct field fields_s[] = {
    {"safety_identifier", ON_ALL, ask_read_read_text, APART, QUIET, AT(safety_identifier), 0},
    {"seed", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"service_tier", ON_ALL, read_short, APART, QUIET, AT(service_tier), 0},
    {"speed", ON_ALL, read_short, APART, QUIET, AT(speed), 0},
    {"stop", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"stop_sequences", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"store", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"stream", ON_STREAMS, read_flag, APART, QUIET, AT(stream), 0},
    {"stream_options", ON_CHAT | ON_COMPLETIONS, read_stream_options, APART, QUIET, 0, 0},
    {"stream_options", ON_ALL & ~(ON_CHAT | ON_COMPLETIONS), read_other, APART, QUIET, 0, 0},
    {"suffix", ON_ALL, read_prompt, FRAME, PROSE, 0, 0},
    {"system", ON_ALL, read_prompt, FRAME, PROSE, 0, 0},
    {0},
};

static const struct field fields_t[] = {
    {"temperature", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"text", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {"thinking", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"thread", ON_ALL, read_other, FRAME, QUIET, 0, ASK_THREAD},
    {"tool_choice", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"tools", ON_ALL, read_tools, FRAME, DATA, 0, 0},
    {"top_k", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"top_logprobs", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"top_p", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"transforms", ON_ALL, read_other, APART, QUIET, 0, ASK_MODELS},
    {"truncation", ON_ALL, read_truncation, FRAME, QUIET, 0, 0},
    {0},
};

static const struct field fields_u[] = {
    {"user", ON_ALL & ~ON_MESSAGES, ask_read_read_text, APART, QUIET, AT(user), 0},
    {"user", ON_MESSAGES, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct field fields_v[] = {
    {"verbosity", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {0},
};

static const struct field fields_w[] = {
    {"web_search_options", ON_ALL, read_other, FRAME, QUIET, 0, ASK_SEARCH},
    {0},
};

#define FIELD_LISTS ('z' - 'a' + 1)

static const struct field *const field_lists[FIELD_LISTS] = {
    ['a' - 'a'] = fields_a, ['b' - 'a'] = fields_b, ['c' - 'a'] = fields_c, ['d' - 'a'] = fields_d,
    ['e' - 'a'] = fields_e, ['f' - 'a'] = fields_f, ['i' - 'a'] = fields_i, ['l' - 'a'] = fields_l,
    ['m' - 'a'] = fields_m, ['n' - 'a'] = fields_n, ['o' - 'a'] = fields_o, ['p' - 'a'] = fields_p,
    ['r' - 'a'] = fields_r, ['s' - 'a'] = fields_s, ['t' - 'a'] = fields_t, ['u' - 'a'] = fields_u,
    ['v' - 'a'] = fields_v, ['w' - 'a'] = fields_w,
};

static const struct field *ask_read_find_field(enum endpoint endpoint, struct json_text key)
{
    if (key.size == 0 || *key.bytes < 'a' || *key.bytes > 'z')
        return NULL;
    const struct field *field = field_lists[*key.bytes - 'a'];
    for (; field != NULL && field->name != NULL; field++)
        if ((field->endpoints >> endpoint & 1) != 0 && json_text_is(key, field->name))
            return field;
    return NULL;
}

static const char *variant_of(const struct walk *walk, const struct level *level,
                              struct json_text key)
{
    const char *name = NULL;

    if (level->watch != NULL)
        name = ask_watch_variant(walk->watch, level->watch, key);
    for (size_t i = 0; walk->depth == 1 && name == NULL && i < FIELD_LISTS; i++)
        for (const struct field *field = field_lists[i];
             field != NULL && field->name != NULL && name == NULL; field++)
            name = ask_key_is_variant(key, slice_of(field->name)) ? field->name : NULL;
    for (size_t i = 0; walk->depth > 1 && name == NULL && below_top[i] != NULL; i++)
        name = ask_key_is_variant(key, slice_of(below_top[i])) ? below_top[i] : NULL;
    return name;
}

/* ---- The interface --------------------------------------------------------------------------- */

/* A field that the prompt depends on. The order of fields does not change it, but a client sends
 * them in the same one each time. */
static void keep_frame(struct walk *walk, const struct field *field, const struct json_value *value)
{
    struct ask *ask = walk->ask;

    assert(ask_read_end(walk) >= value->offset); /* its reader has walked it to its end */
    if (ask->n_frames < ASK_FRAMES)
        ask->frames[ask->n_frames] = (struct ask_frame){
            (uint32_t)value->offset, (uint32_t)(ask_read_end(walk) - value->offset),
            (uint32_t)XXH3_64bits(field->name, strlen(field->name))};
    if (ask->n_frames <= ASK_FRAMES)
        ask->n_frames++;
}

static void walk_root(struct walk *walk, const struct json_value *root)
{
    static const char *const api[] = {"messages", "system", "input", "tools", NULL};
    struct ask *ask = walk->ask;
    struct json_text key = {"", 0};
    struct json_value value;

    if (!ask_read_push(walk, QUIET, key, root))
        return;
    while (ask_read_next(walk, &key, &value)) {
        const struct field *field = ask_read_find_field(ask->endpoint, key);
        walk->is_api = field != NULL && field->mode != QUIET && is_one_of(key, api);
        if (field == NULL) {
            if (ask->new_key.at[0] == '\0')
                ask_read_word(&ask->new_key, key);
            ask->features |= ASK_NEW_KEY;
            walk_value(walk, QUIET, &value);
            continue;
        }
        if (value.kind != JSON_NULL)
            ask->features |= field->feature;
        field->read(walk, field, &value);
        if (field->framing == FRAME && walk->n >= ASK_PREFIX_LEAST && !walk->failed)
            keep_frame(walk, field, &value);
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
    struct walk walk; /* its levels are not cleared */
    struct json_value root;

    memset(&walk, 0, offsetof(struct walk, levels));
    walk.reader = reader;
    walk.body = body;
    walk.n = n;
    walk.ask = ask;
    walk.problem = problem;
    walk.max_values = values;
    walk.watch = watch;
    walk.seen = seen;
    walk.given = watch != NULL ? watch->nodes : NULL;
    if (watch != NULL)
        memset(seen, 0, watch->n_fields * sizeof *seen);
    problem->too_many = problem->no_memory = false;
    memset(ask, 0, offsetof(struct ask, sizes));
    ask->endpoint = endpoint;
    ask->body_bytes = n;
    ask->max_output = ask->max_tool_calls = ask->compact_above = ask->known_tokens =
        ask->stored_tokens = -1;
    ask->choices = ask->prompts = 1;
    if ((unsigned)endpoint >= ENDPOINT_COUNT || (ON_ALL >> endpoint & 1) == 0)
        return ask_read_fail(&walk, "", "this endpoint takes no body");
    if (!json_begin(reader, body, n, readable, &root))
        return fail_json(&walk);
    if (root.kind != JSON_OBJECT)
        return ask_read_fail(&walk, "", "the body must be an object, not %s",
                             json_kind_name(root.kind));
    ask->root_at = root.offset;
    walk_root(&walk, &root);
    if (walk.failed)
        return false;
    if (!json_end(reader))
        return fail_json(&walk);
    if (walk.no_bound)
        ask->max_output = -1;
    return ask->model.n > 0 || ask_read_fail(&walk, "model", "'model' is missing");
}
