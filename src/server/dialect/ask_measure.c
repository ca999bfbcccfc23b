/* ask_measure.c - what the values of a body count for: the text, payloads and tools of its prompt.
 *
 * See ask_read.c for the three ways in which a value counts, and why.
 */
#include "server/dialect/ask_walk_internal.h"

#include <assert.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/dialect/media_size.h"

/* ---- The prompt ------------------------------------------------------------------------------ */

void ask_measure_text(struct ask_walk *walk, struct json_text text)
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
static void payload_add(struct ask_payload *payload, struct json_text text, bool inside)
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

static void payload_merge(struct ask_payload *to, const struct ask_payload *from)
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

static void read_type(struct ask_walk *walk, struct ask_level *level, struct json_text text)
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
    level->recalls |= level->kind == LEVEL_MESSAGE && ask_is_one_of(text, recalled);
    if (level->kind == LEVEL_MESSAGE && !level->has_role)
        level->replies = text.size < 7 || memcmp(text.bytes + text.size - 7, "_output", 7) != 0;
}

/* A detail makes an image cheaper only where its API looks for one. */
static bool has_detail(const struct ask_walk *walk, const struct ask_level *level)
{
    return walk->ask->endpoint == ENDPOINT_CHAT
               ? level->is_media
               : walk->ask->endpoint == ENDPOINT_RESPONSES && level->kind == LEVEL_PART;
}

static void count_prose_string(struct ask_walk *walk, struct ask_level *level, struct json_text key,
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
    } else if (ask_is_one_of(key, payloads)) {
        level->payload_bytes += bytes;
        is_payload = true;
    } else if (!ask_is_one_of(key, frames)) {
        walk->ask->text_bytes += bytes;
        if (json_text_is(key, "arguments"))
            walk->ask->measure.data_bytes += bytes; /* a server may read it and write it anew */
        level->encrypted |= json_text_is(key, "encrypted_content");
    } else if (json_text_is(key, "role")) {
        level->has_role = true;
        level->replies = json_text_is(text, "assistant");
    } else if (json_text_is(key, "detail")) {
        if (has_detail(walk, level) || detail_of(text) == ASK_DETAIL_ORIGINAL)
            level->payload.detail = detail_of(text);
    } else if (json_text_is(key, "file_id")) {
        level->payload.n += 2; /* no size is known */
    }
    if (!is_payload) {
        ask_measure_text(walk, text);
        return;
    }
    level->payload.expected |=
        level->is_media || (!json_text_is(key, "url") && *key.bytes != 'd' && *key.bytes != 'r');
    payload_add(&level->payload, text,
                *key.bytes == 'd' || *key.bytes == 'r' || json_text_is(key, "file_data"));
}

/* Comma or brackets, quotes and colon are a byte each; numbers and words are taken to have four. */
static int64_t data_bytes(const struct ask_level *level, struct json_text key,
                          const struct json_value *value)
{
    int64_t bytes = 1 + (level->is_array ? 0 : (int64_t)key.size + 3);

    if (value->kind == JSON_STRING)
        return bytes + (int64_t)value->string.size + 2;
    return bytes + (ask_is_container(value) ? 1 : 4);
}

#define NUMBER_MOST 24 /* bytes of a number in its longest form */

void ask_measure_forms(struct ask_walk *walk, int64_t bytes)
{
    add_length(&walk->ask->measure.text, &(struct normal_length){bytes, bytes, bytes});
}

static void add_growth(struct ask_walk *walk, struct json_text text)
{
    struct normal_length length = {0, 0, 0};

    normal_length_add(&length, text.bytes, text.size);
    walk->ask->measure.text.nfc += length.nfc - length.bytes;
    walk->ask->measure.text.nfkc += length.nfkc - length.bytes;
}

/* What the value takes more than its bytes in the body, if it is written anew with an indent of 4:
 * a line of its own, a space behind the colon, for brackets a second line, and for numbers their
 * longest form (1e15 becomes 1000000000000000.0). Escapes are no longer than those in the body. */
static void measure_data(struct ask_walk *walk, struct json_text key,
                         const struct json_value *value)
{
    int64_t depth = (int64_t)(walk->depth - walk->data_depth);
    int64_t line = 1 + 4 * (depth + 1);

    walk->ask->data_depth = num_max(walk->ask->data_depth, depth + 1);
    if (key.size > 0)
        add_growth(walk, key);
    if (value->kind == JSON_STRING)
        add_growth(walk, value->string);
    else if (ask_is_container(value))
        line *= 2;
    else
        line += NUMBER_MOST;
    ask_measure_forms(walk, line + 1);
}

static void read_tool_key(struct ask_walk *walk, struct ask_level *level, struct json_text key,
                          const struct json_value *value)
{
    static const char *const names[] = {"name", "function", "parameters", "input_schema", NULL};

    if (value->kind == JSON_STRING && json_text_is(key, "type")) {
        level->tool = ask_tool_of(value->string, &level->hidden);
        if (level->tool == ASK_TOOL_NEW && walk->ask->new_tool.at[0] == '\0')
            ask_word_set(&walk->ask->new_tool, value->string);
    } else if (value->kind == JSON_INTEGER && json_text_is(key, "max_uses")) {
        level->max_uses = value->integer;
    } else if (ask_is_one_of(key, names)) {
        level->named = true;
    }
}

static void read_context_key(struct ask_walk *walk, struct json_text key,
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
static void measure_scalar(struct ask_walk *walk, const struct json_value *value)
{
    if (value->kind == JSON_INTEGER || value->kind == JSON_DOUBLE || value->kind == JSON_HUGE)
        ask_measure_forms(walk, NUMBER_MOST);
    else if (!ask_is_container(value))
        ask_measure_forms(walk, sizeof "false," - 1);
}

void ask_measure_value(struct ask_walk *walk, struct ask_level *level, struct json_text key,
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
    if (level->mode == PROSE && !level->is_array && !ask_is_one_of(key, prose_keys)) {
        ask_measure_text(walk, key);
        ask_measure_forms(walk, KEY_FRAME);
    }
    if (walk->has_prompts && walk->depth == 2 && level->is_array)
        walk->ask->prompts += value->kind == JSON_STRING || ask_is_container(value);
    if (level->kind == LEVEL_CACHE && value->kind == JSON_STRING && json_text_is(key, "ttl") &&
        !json_text_is(value->string, "5m") && !json_text_is(value->string, "30m"))
        walk->ask->features |= ASK_CACHE_LONG;
    if (level->kind == LEVEL_CONTEXT)
        read_context_key(walk, key, value);
}

static void count_image(struct ask *ask, const struct ask_payload *payload)
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
static void count_payload(struct ask_walk *walk, struct ask_level *level, struct ask_level *around)
{
    struct ask *ask = walk->ask;
    struct ask_payload *payload = &level->payload;

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
void ask_measure_level(struct ask_walk *walk, struct ask_level *level)
{
    struct ask *ask = walk->ask;
    struct ask_level *around = &walk->levels[walk->depth - 1];

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

void ask_measure_tool(struct ask_walk *walk, const struct ask_level *level)
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
/* A message has ended. What was before it is a prompt that may have been sent, if this one is the
 * beginning of a reply. */
void ask_measure_message(struct ask_walk *walk, const struct ask_level *level)
{
    struct ask *ask = walk->ask;

    if (level->replies && !walk->after_reply && walk->last.end > 0)
        ask->prefixes[ask->n_prefixes++ % ASK_PREFIXES] = walk->last;
    walk->after_reply = level->replies;
    walk->last = (struct ask_prefix){(uint32_t)ask_walk_end(walk), ask->measure};
}
