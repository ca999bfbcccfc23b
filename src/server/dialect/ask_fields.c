/* ask_fields.c - the top-level fields of a body that we act on, and how each is read.
 *
 * A field that is not here is none of our business, but is reported where it could be shown to the
 * model.
 */
#include "server/dialect/ask_walk_internal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "tollgate.h"

void ask_word_set(struct ask_word *word, struct json_text text)
{
    if (text.size >= sizeof word->at) {
        memcpy(word->at, "?", 2);
        return;
    }
    for (size_t i = 0; i < text.size; i++)
        word->at[i] = text.bytes[i] > ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
    word->at[text.size] = '\0';
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* A whole number from `least` to 2^53, or -1 for null. */
static bool ask_read_read_whole(struct ask_walk *walk, const char *name,
                                const struct json_value *value, int64_t least, int64_t *whole)
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
        return ask_walk_fail_type(walk, name, "a whole number", value);
    if (*whole >= least && *whole <= TG_NUMBER_MAX)
        return true;
    return ask_walk_fail(walk, name, "'%s' must be a whole number from %" PRId64 " to %" PRId64,
                         name, least, TG_NUMBER_MAX);
}

static void read_bound(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    struct ask_bound *bound = walk->ask->bounds;
    int64_t whole;

    if (!ask_read_read_whole(walk, field->name, value, 0, &whole))
        return;
    if (bound->name != NULL)
        bound++;
    assert(bound->name == NULL); /* no endpoint has three, and a key comes once */
    *bound = (struct ask_bound){field->name, whole, ask_walk_span(walk, value)};
    walk->no_bound |= whole == 0 && walk->ask->endpoint != ENDPOINT_MESSAGES;
    if (whole > walk->ask->max_output)
        walk->ask->max_output = whole;
}

static void read_choices(struct ask_walk *walk, const struct ask_field *field,
                         const struct json_value *value)
{
    int64_t whole;

    if (ask_read_read_whole(walk, field->name, value, 1, &whole) && whole > walk->ask->choices)
        walk->ask->choices = whole;
}

static bool read_bool(struct ask_walk *walk, const char *name, const struct json_value *value)
{
    if (value->kind == JSON_BOOL)
        return value->boolean;
    if (value->kind != JSON_NULL)
        ask_walk_fail_type(walk, name, "true or false", value);
    return false;
}

static void read_flag(struct ask_walk *walk, const struct ask_field *field,
                      const struct json_value *value)
{
    *(bool *)((char *)walk->ask + field->offset) = read_bool(walk, field->name, value);
}

static void read_model(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    struct ask_text *model = &walk->ask->model;

    if (value->kind != JSON_STRING) {
        ask_walk_fail_type(walk, field->name, "a string", value);
    } else if (value->string.size == 0 || value->string.size > ASK_TEXT_MAX) {
        ask_walk_fail(walk, field->name, "'model' must have 1 to %d bytes", ASK_TEXT_MAX);
    } else {
        model->n = value->string.size;
        memcpy(model->at, value->string.bytes, model->n);
        walk->ask->model_span = ask_walk_span(walk, value);
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

static void ask_read_read_text(struct ask_walk *walk, const struct ask_field *field,
                               const struct json_value *value)
{
    ask_read_keep_text((struct ask_text *)((char *)walk->ask + field->offset), value);
    ask_walk_value(walk, QUIET, value);
}

/* Whether a key is this one; the same in other letters is refused. */
static bool key_is(struct ask_walk *walk, struct json_text key, const char *name)
{
    if (ask_key_is_odd(key) && ask_key_is_variant(key, slice_of(name)))
        return ask_walk_fail_case(walk, name);
    return json_text_is(key, name);
}

/* The name is one key of an object: metadata.user_id, conversation.id. */
static void read_text_within(struct ask_walk *walk, const struct ask_field *field,
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
    if (!ask_walk_push(walk, QUIET, key, value))
        return;
    while (ask_walk_next(walk, &key, &below)) {
        if (key_is(walk, key, wanted))
            ask_read_keep_text(text, &below);
        ask_walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

static void read_stream_options(struct ask_walk *walk, const struct ask_field *field,
                                const struct json_value *value)
{
    struct ask *ask = walk->ask;
    struct json_text key = {"", 0};
    struct json_value below;

    if (value->kind == JSON_NULL) {
        ask->stream_options = ask_walk_span(walk, value);
        return;
    }
    if (value->kind != JSON_OBJECT) {
        ask_walk_fail_type(walk, field->name, "an object", value);
        return;
    }
    ask->stream_options = (struct ask_span){value->offset, 1};
    ask->stream_options_empty = true;
    if (!ask_walk_push(walk, QUIET, key, value))
        return;
    while (ask_walk_next(walk, &key, &below)) {
        ask->stream_options_empty = false;
        if (key_is(walk, key, "include_usage")) {
            ask->include_usage = read_bool(walk, "stream_options.include_usage", &below);
            ask->include_usage_span =
                ask_is_container(&below) ? (struct ask_span){0, 0} : ask_walk_span(walk, &below);
        }
        ask_walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

static void read_prompt(struct ask_walk *walk, const struct ask_field *field,
                        const struct json_value *value)
{
    if (value->kind == JSON_STRING) {
        walk->ask->text_bytes += (int64_t)value->string.size;
        ask_measure_text(walk, value->string);
    } else {
        ask_walk_value(walk, field->mode, value);
    }
}

/* Prompts of completions and inputs of embeddings: one, or an array of them. */
static void read_prompts(struct ask_walk *walk, const struct ask_field *field,
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
static void read_messages(struct ask_walk *walk, const struct ask_field *field,
                          const struct json_value *value)
{
    struct ask *ask = walk->ask;
    bool again = walk->has_messages;

    if (*field->name == 'm' && value->kind != JSON_ARRAY && value->kind != JSON_NULL) {
        ask_walk_fail_type(walk, field->name, "an array", value);
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
static void read_prediction(struct ask_walk *walk, const struct ask_field *field,
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

static void read_tools(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    (void)field;
    ask_walk_kind(walk, DATA, LEVEL_TOOLS, value);
}

static void read_schema(struct ask_walk *walk, const struct ask_field *field,
                        const struct json_value *value)
{
    walk->ask->schemas += value->kind != JSON_NULL;
    read_prompt(walk, field, value);
}

/* None of our business, beyond its feature. */
static void read_other(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    ask_walk_value(walk, field->mode, value);
}

static void read_short(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    struct ask_word *word = (struct ask_word *)((char *)walk->ask + field->offset);

    if (value->kind == JSON_STRING)
        ask_word_set(word, value->string);
    else if (value->kind != JSON_NULL)
        ask_walk_fail_type(walk, field->name, "a string", value);
}

static void read_whole(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    int64_t *count = (int64_t *)((char *)walk->ask + field->offset);

    (void)ask_read_read_whole(walk, field->name, value, 0, count);
}

static void read_cache(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    (void)field;
    ask_walk_kind(walk, QUIET, LEVEL_CACHE, value);
}

static void read_retention(struct ask_walk *walk, const struct ask_field *field,
                           const struct json_value *value)
{
    (void)field;
    if (value->kind != JSON_NULL &&
        !(value->kind == JSON_STRING && json_text_is(value->string, "in_memory")))
        walk->ask->features |= ASK_CACHE | ASK_CACHE_LONG;
    ask_walk_value(walk, QUIET, value);
}

static void read_context(struct ask_walk *walk, const struct ask_field *field,
                         const struct json_value *value)
{
    (void)field;
    ask_walk_kind(walk, QUIET, LEVEL_CONTEXT, value);
}

static void read_truncation(struct ask_walk *walk, const struct ask_field *field,
                            const struct json_value *value)
{
    (void)field;
    if (value->kind != JSON_NULL &&
        !(value->kind == JSON_STRING && json_text_is(value->string, "disabled")))
        walk->ask->features |= ASK_EDITS;
    ask_walk_value(walk, QUIET, value);
}

/* "pro" runs several samples, and no field bounds their sum. */
static void read_reasoning(struct ask_walk *walk, const struct ask_field *field,
                           const struct json_value *value)
{
    struct json_text key = {"", 0};
    struct json_value below;

    (void)field;
    if (value->kind != JSON_OBJECT) {
        ask_walk_value(walk, QUIET, value);
        return;
    }
    if (!ask_walk_push(walk, QUIET, key, value))
        return;
    while (ask_walk_next(walk, &key, &below)) {
        if (json_text_is(key, "mode") && below.kind != JSON_NULL &&
            !(below.kind == JSON_STRING && json_text_is(below.string, "standard")))
            walk->ask->features |= ASK_PRO;
        ask_walk_value(walk, QUIET, &below);
    }
    walk->depth--;
}

static void read_modalities(struct ask_walk *walk, const struct ask_field *field,
                            const struct json_value *value)
{
    struct json_text key = {"", 0};
    struct json_value below;

    (void)field;
    if (value->kind != JSON_ARRAY) {
        ask_walk_value(walk, QUIET, value);
        return;
    }
    if (!ask_walk_push(walk, QUIET, key, value))
        return;
    while (ask_walk_next(walk, &key, &below)) {
        bool is_text = below.kind == JSON_STRING && json_text_is(below.string, "text");
        bool is_audio = below.kind == JSON_STRING && json_text_is(below.string, "audio");
        walk->ask->features |= is_audio ? ASK_AUDIO_OUT : is_text ? 0 : ASK_IMAGE_OUT;
        ask_walk_value(walk, QUIET, &below);
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
static const struct ask_field fields_a[] = {
    {"audio", ON_CHAT, read_other, FRAME, QUIET, 0, ASK_AUDIO_OUT},
    {"anthropic_version", ON_ALL, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_b[] = {
    {"background", ON_RESPONSES, read_flag, APART, QUIET, AT(background), 0},
    {"best_of", ON_COMPLETIONS, read_choices, APART, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_c[] = {
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

static const struct ask_field fields_d[] = {
    {"dimensions", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"documents", ON_ALL, read_prompt, FRAME, PROSE, 0, 0},
    {0},
};

static const struct ask_field fields_e[] = {
    {"echo", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"encoding_format", ON_ALL, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_f[] = {
    {"fallbacks", ON_ALL, read_other, FRAME, QUIET, 0, ASK_FALLBACKS},
    {"frequency_penalty", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"function_call", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"functions", ON_ALL, read_tools, FRAME, DATA, 0, 0},
    {0},
};

static const struct ask_field fields_i[] = {
    {"ignore_eos", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"include", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"inference_geo", ON_ALL, read_short, APART, QUIET, AT(inference_geo), 0},
    {"input", ON_EMBEDDINGS, read_prompts, FRAME, PROSE, 0, 0},
    {"input", ON_ALL & ~ON_EMBEDDINGS, read_messages, MESSAGES, PROSE, 0, 0},
    {"instructions", ON_ALL, read_prompt, FRAME, PROSE, 0, 0},
    {0},
};

static const struct ask_field fields_l[] = {
    {"logit_bias", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"logprobs", ON_ALL, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_m[] = {
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

static const struct ask_field fields_n[] = {
    {"n", ON_CHAT | ON_COMPLETIONS, read_choices, APART, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_o[] = {
    {"output_config", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {"output_format", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {0},
};

static const struct ask_field fields_p[] = {
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

static const struct ask_field fields_r[] = {
    {"random_seed", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"reasoning", ON_ALL, read_reasoning, FRAME, QUIET, 0, 0},
    {"reasoning_effort", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {"repetition_penalty", ON_ALL, read_other, APART, QUIET, 0, 0},
    {"response_format", ON_ALL, read_schema, FRAME, DATA, 0, 0},
    {"route", ON_ALL, read_other, APART, QUIET, 0, ASK_MODELS},
    {0},
};

static const struct ask_field fields_s[] = {
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

static const struct ask_field fields_t[] = {
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

static const struct ask_field fields_u[] = {
    {"user", ON_ALL & ~ON_MESSAGES, ask_read_read_text, APART, QUIET, AT(user), 0},
    {"user", ON_MESSAGES, read_other, APART, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_v[] = {
    {"verbosity", ON_ALL, read_other, FRAME, QUIET, 0, 0},
    {0},
};

static const struct ask_field fields_w[] = {
    {"web_search_options", ON_ALL, read_other, FRAME, QUIET, 0, ASK_SEARCH},
    {0},
};

#define FIELD_LISTS ('z' - 'a' + 1)

static const struct ask_field *const field_lists[FIELD_LISTS] = {
    ['a' - 'a'] = fields_a, ['b' - 'a'] = fields_b, ['c' - 'a'] = fields_c, ['d' - 'a'] = fields_d,
    ['e' - 'a'] = fields_e, ['f' - 'a'] = fields_f, ['i' - 'a'] = fields_i, ['l' - 'a'] = fields_l,
    ['m' - 'a'] = fields_m, ['n' - 'a'] = fields_n, ['o' - 'a'] = fields_o, ['p' - 'a'] = fields_p,
    ['r' - 'a'] = fields_r, ['s' - 'a'] = fields_s, ['t' - 'a'] = fields_t, ['u' - 'a'] = fields_u,
    ['v' - 'a'] = fields_v, ['w' - 'a'] = fields_w,
};

const struct ask_field *ask_field_find(enum endpoint endpoint, struct json_text key)
{
    if (key.size == 0 || *key.bytes < 'a' || *key.bytes > 'z')
        return NULL;
    const struct ask_field *field = field_lists[*key.bytes - 'a'];
    for (; field != NULL && field->name != NULL; field++)
        if ((field->endpoints >> endpoint & 1) != 0 && json_text_is(key, field->name))
            return field;
    return NULL;
}

bool ask_field_is_any(enum endpoint endpoint)
{
    return (unsigned)endpoint < ENDPOINT_COUNT && (ON_ALL >> endpoint & 1) != 0;
}

const char *ask_field_variant(struct json_text key)
{
    for (size_t i = 0; i < FIELD_LISTS; i++)
        for (const struct ask_field *field = field_lists[i]; field != NULL && field->name != NULL;
             field++)
            if (ask_key_is_variant(key, slice_of(field->name)))
                return field->name;
    return NULL;
}
