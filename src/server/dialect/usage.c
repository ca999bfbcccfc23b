/* usage.c - what a usage object says, in the words of any of the APIs.
 *
 * Two ways of counting input are in use. OpenAI's and Gemini's count is of all input, and details
 * say how much of it was cached. Anthropic's is of what was read anew, and what was cached stands
 * beside it:
 *
 *     prompt_tokens 100, prompt_tokens_details.cached_tokens 80      20 anew, 80 cached
 *     input_tokens 20, cache_read_input_tokens 80                    the same
 *
 * `prompt_tokens`, or details beside `input_tokens`, tell the first way. Gateways that translate
 * between the two write both kinds of fields; the larger of two that mean the same counts.
 *
 * Output has what was thought in it, except with providers that report it beside: there the total
 * is the sum of three, or more than the sum of two, and tells. Gemini names it, in
 * thoughtsTokenCount.
 *
 * Writes to a cache have a total and, by how long they are kept, parts. A stream's later events
 * bring totals alone, which may have grown since the parts were told: what is in no part is kept
 * for the shorter time, and never free.
 *
 * Audio and images are within input and output. Where they were cached, too, they count as audio
 * and images, which are dearer.
 *
 * Anthropic's totals leave out passes that are billed (compaction, advisors): `iterations` has all
 * of them, and their sum counts if it is the larger. A pass may be of another model, which it
 * names, and which has prices of its own: passes are kept apart by these names.
 */
#include "server/dialect/usage.h"

#include <math.h>
#include <string.h>

#include "lib/core/num.h"

/* Counts of one object; -1: not there. */
struct counts {
    int64_t prompt, input, output, total;
    int64_t cached, written;           /* from the details: within the input */
    int64_t cache_read, cache_written; /* beside the input */
    int64_t written_short, written_long;
    int64_t reasoning, thoughts; /* within the output, and beside it */
    int64_t tool_results;        /* beside the input */
    int64_t audio_input, image_input, audio_output, image_output;
    int64_t searches, executions; /* calls of tools */
    bool absurd;
    struct tg_usage iterations; /* the sum of them */
    bool has_iterations;
    char model[USAGE_MODEL_MAX]; /* what an iteration names; "": nothing */
    bool model_unknown;          /* its name is too long, or it is another's that is not named */
};

struct name {
    const char *text;
    size_t offset;
};

#define NAME(text, member)                                                                         \
    {                                                                                              \
        text, offsetof(struct counts, member)                                                      \
    }

static const struct name counts_names[] = {
    NAME("prompt_tokens", prompt),
    NAME("input_tokens", input),
    NAME("completion_tokens", output),
    NAME("output_tokens", output),
    NAME("total_tokens", total),
    NAME("cache_read_input_tokens", cache_read),
    NAME("cache_creation_input_tokens", cache_written),
    NAME("prompt_cache_hit_tokens", cached),
    NAME("promptTokenCount", prompt),
    NAME("cachedContentTokenCount", cached),
    NAME("candidatesTokenCount", output),
    NAME("thoughtsTokenCount", thoughts),
    NAME("toolUsePromptTokenCount", tool_results),
    {NULL, 0},
};
static const struct name input_names[] = {
    NAME("cached_tokens", cached),          NAME("cache_write_tokens", written),
    NAME("cache_creation_tokens", written), NAME("audio_tokens", audio_input),
    NAME("image_tokens", image_input),      {NULL, 0},
};
static const struct name output_names[] = {
    NAME("reasoning_tokens", reasoning),
    NAME("thinking_tokens", reasoning),
    NAME("audio_tokens", audio_output),
    NAME("image_tokens", image_output),
    {NULL, 0},
};
static const struct name creation_names[] = {
    NAME("ephemeral_5m_input_tokens", written_short),
    NAME("ephemeral_1h_input_tokens", written_long),
    NAME("ttl_30m_tokens", written_short),
    NAME("ttl_12h_tokens", written_long),
    {NULL, 0},
};
/* Calls that cost; fetching a page is free but for its tokens. */
static const struct name tool_names[] = {
    NAME("web_search_requests", searches),
    NAME("code_execution_requests", executions),
    {NULL, 0},
};
static const struct name request_names[] = {
    NAME("num_requests", searches),
    {NULL, 0},
};
static const struct name prompt_modalities[] = {
    NAME("AUDIO", audio_input),
    NAME("IMAGE", image_input),
    {NULL, 0},
};
static const struct name output_modalities[] = {
    NAME("AUDIO", audio_output),
    NAME("IMAGE", image_output),
    {NULL, 0},
};

static const struct {
    const char *text;
    enum json_kind kind;
    const struct name *names;
} parts[] = {
    {"prompt_tokens_details", JSON_OBJECT, input_names},
    {"input_tokens_details", JSON_OBJECT, input_names},
    {"completion_tokens_details", JSON_OBJECT, output_names},
    {"output_tokens_details", JSON_OBJECT, output_names},
    {"cache_creation", JSON_OBJECT, creation_names},
    {"cache_write_tokens_details", JSON_OBJECT, creation_names},
    {"server_tool_use", JSON_OBJECT, tool_names},
    {"promptTokensDetails", JSON_ARRAY, prompt_modalities},
    {"candidatesTokensDetails", JSON_ARRAY, output_modalities},
};

/* ---- Reading --------------------------------------------------------------------------------- */

void usage_keep_word(char word[USAGE_WORD_MAX], const struct json_value *value)
{
    size_t n = 0;

    if (value->kind != JSON_STRING)
        return;
    for (; n < value->string.size && n < USAGE_WORD_MAX - 1; n++) {
        char c = value->string.bytes[n];
        word[n] = c > ' ' && c < 0x7f ? c : '_';
    }
    word[n] = '\0';
}

static void take_count(struct counts *counts, const struct name *names, struct json_text key,
                       const struct json_value *value)
{
    int64_t count = -1;

    while (names->text != NULL && !json_text_is(key, names->text))
        names++;
    if (names->text == NULL || value->kind == JSON_NULL)
        return;
    if (value->kind == JSON_INTEGER)
        count = value->integer;
    else if (value->kind == JSON_DOUBLE && value->real >= 0 && value->real == floor(value->real))
        count = num_floor(value->real);
    if (!num_in_range(count)) /* so that sums of them cannot overflow */
        counts->absurd = true;
    else
        *(int64_t *)((char *)counts + names->offset) = count;
}

static const struct name *part_names(struct json_text key, enum json_kind kind)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].kind == kind && json_text_is(key, parts[i].text))
            return parts[i].names;
    return NULL;
}

/* Details may have details: input_tokens_details.cache_write_tokens_details. */
static void read_part(struct json_reader *reader, struct counts *counts, const struct name *names)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        const struct name *inner = part_names(key, value.kind);
        if (inner == creation_names && names == input_names)
            read_part(reader, counts, inner);
        else
            take_count(counts, names, key, &value);
    }
}

/* [{"modality": "AUDIO", "tokenCount": 5}] */
static void read_modalities(struct json_reader *reader, struct counts *counts,
                            const struct name *names)
{
    struct json_text key;
    struct json_value item, value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &item)) {
        struct json_value count = {.kind = JSON_NULL};
        char modality[USAGE_WORD_MAX] = "";
        if (item.kind != JSON_OBJECT || !json_enter(reader))
            continue;
        while (json_next(reader, &key, &value)) {
            if (json_text_is(key, "modality"))
                usage_keep_word(modality, &value);
            else if (json_text_is(key, "tokenCount"))
                count = value;
        }
        take_count(counts, names, (struct json_text){modality, strlen(modality)}, &count);
    }
}

static void read_served(struct json_text key, const struct json_value *value,
                        struct usage_reading *reading)
{
    if (json_text_is(key, "service_tier") || json_text_is(key, "serviceTier") ||
        json_text_is(key, "trafficType"))
        usage_keep_word(reading->tier, value);
    else if (json_text_is(key, "speed"))
        usage_keep_word(reading->speed, value);
    else if (json_text_is(key, "inference_geo"))
        usage_keep_word(reading->geo, value);
}

static void read_iterations(struct json_reader *reader, struct counts *counts,
                            struct usage_passes *passes);

static void read_pass_model(struct counts *counts, const struct json_value *value)
{
    size_t n = value->string.size < USAGE_MODEL_MAX ? value->string.size : USAGE_MODEL_MAX - 1;

    if (n == 0)
        return;
    memcpy(counts->model, value->string.bytes, n);
    counts->model[n] = '\0';
    counts->model_unknown = n < value->string.size || strlen(counts->model) < n;
}

/* Those of the model itself and of its compactions may leave out its name. */
static void read_pass_type(struct counts *counts, const struct json_value *value)
{
    counts->model_unknown |= counts->model[0] == '\0' && !json_text_is(value->string, "message") &&
                             !json_text_is(value->string, "compaction");
}

/* An iteration has no words and no iterations of its own: `reading` is null there. */
static void read_counts(struct json_reader *reader, struct counts *counts,
                        struct usage_reading *reading)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        const struct name *names = part_names(key, value.kind);
        if (names != NULL && value.kind == JSON_OBJECT)
            read_part(reader, counts, names);
        else if (names != NULL)
            read_modalities(reader, counts, names);
        else if (reading != NULL && value.kind == JSON_STRING)
            read_served(key, &value, reading);
        else if (reading != NULL && value.kind == JSON_ARRAY && json_text_is(key, "iterations"))
            read_iterations(reader, counts, reading->passes);
        else if (value.kind == JSON_STRING && json_text_is(key, "model"))
            read_pass_model(counts, &value);
        else if (value.kind == JSON_STRING && json_text_is(key, "type"))
            read_pass_type(counts, &value);
        if (names == NULL)
            take_count(counts, counts_names, key, &value);
    }
}

/* ---- Meaning --------------------------------------------------------------------------------- */

static void counts_init(struct counts *counts)
{
    memset(counts, 0, sizeof *counts);
    memset(counts, 0xff, offsetof(struct counts, absurd)); /* -1, all of them */
}

/* What was written to a cache, by how long it is kept there; a total that is told without its parts
 * leaves what is known of them. */
static void take_writes(const struct counts *counts, struct tg_usage *usage)
{
    int64_t total = num_max(counts->written, counts->cache_written);
    int64_t kept_long = usage->cache_write_long;

    if (counts->written_short >= 0 || counts->written_long >= 0) {
        kept_long = num_max(0, counts->written_long);
        total = num_max(total, num_add(num_max(0, counts->written_short), kept_long));
    }
    if (total < 0)
        return;
    usage->cache_write_long = num_min(kept_long, total);
    usage->cache_write = total - usage->cache_write_long;
}

/* Parts that are within the whole are taken out of it. */
static void take_whole(struct counts *counts, int64_t whole, struct tg_usage *usage)
{
    int64_t *const caches[] = {&usage->cached_input, &usage->cache_write, &usage->cache_write_long};
    int64_t cached = num_max(0, num_max(counts->cached, counts->cache_read));
    int64_t media = num_add(num_max(0, counts->audio_input), num_max(0, counts->image_input));

    usage->cached_input = cached;
    if (counts->audio_input >= 0)
        usage->audio_input = counts->audio_input;
    if (counts->image_input >= 0)
        usage->image_input = counts->image_input;
    int64_t written = num_add(usage->cache_write, usage->cache_write_long);
    if (num_add(cached, written) > whole || media > whole) {
        counts->absurd = true;
        return;
    }
    int64_t both = num_less(num_add(num_add(cached, written), media), whole);
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        int64_t less = num_min(both, *caches[i]);
        *caches[i] -= less;
        both -= less;
    }
    usage->input =
        whole - usage->cached_input - usage->cache_write - usage->cache_write_long - media;
}

static bool take_input(struct counts *counts, struct tg_usage *usage)
{
    bool whole = counts->prompt >= 0 || counts->cached >= 0 || counts->written >= 0 ||
                 counts->audio_input >= 0 || counts->image_input >= 0;
    int64_t input = num_max(counts->prompt, counts->input);

    if (input < 0 && counts->output < 0)
        input = counts->total;
    take_writes(counts, usage);
    if (whole && input >= 0) {
        take_whole(counts, input, usage);
    } else {
        if (input >= 0)
            usage->input = input;
        if (counts->cache_read >= 0)
            usage->cached_input = counts->cache_read;
    }
    if (counts->tool_results > 0)
        usage->input = num_add(usage->input, counts->tool_results);
    return input >= 0;
}

static bool take_output(struct counts *counts, struct tg_usage *usage)
{
    int64_t input = num_max(0, num_max(counts->prompt, counts->input));
    int64_t media = num_add(num_max(0, counts->audio_output), num_max(0, counts->image_output));
    int64_t output = counts->output;

    if (counts->thoughts >= 0) {
        output = num_add(num_max(0, output), counts->thoughts);
        counts->reasoning = counts->thoughts;
    }
    if (output < 0)
        return false;
    int64_t beside = counts->total - input - output;
    if (beside > 0 && (counts->reasoning < 0 || counts->reasoning == beside))
        output += beside;
    counts->absurd |= media > output;
    if (counts->audio_output >= 0)
        usage->audio_output = counts->audio_output;
    if (counts->image_output >= 0)
        usage->image_output = counts->image_output;
    usage->output = num_less(output, media);
    return true;
}

static void add_usage(struct tg_usage *sum, const struct tg_usage *one)
{
    sum->input = num_add(sum->input, one->input);
    sum->cached_input = num_add(sum->cached_input, one->cached_input);
    sum->cache_write = num_add(sum->cache_write, one->cache_write);
    sum->cache_write_long = num_add(sum->cache_write_long, one->cache_write_long);
    sum->output = num_add(sum->output, one->output);
    sum->longest = num_max(sum->longest, tg_usage_input(one));
}

/* Adds a pass to those of its model. Where there is no room for another name, the last place has
 * the rest. */
static void add_pass(struct usage_passes *passes, const struct counts *one,
                     const struct tg_usage *usage)
{
    size_t i = 0;

    while (i < passes->n && (passes->list[i].unknown != one->model_unknown ||
                             strcmp(passes->list[i].model, one->model) != 0))
        i++;
    if (i < passes->n) {
        add_usage(&passes->list[i].usage, usage);
    } else if (i < USAGE_PASSES_MAX) {
        struct usage_pass *pass = &passes->list[passes->n++];
        *pass = (struct usage_pass){.unknown = one->model_unknown};
        memcpy(pass->model, one->model, sizeof pass->model);
        add_usage(&pass->usage, usage);
    } else {
        passes->list[i - 1].unknown = true;
        add_usage(&passes->list[i - 1].usage, usage);
    }
}

static void read_iterations(struct json_reader *reader, struct counts *counts,
                            struct usage_passes *passes)
{
    struct json_text key;
    struct json_value value;

    if (passes != NULL)
        passes->n = 0;
    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        struct tg_usage usage = {0};
        struct counts one;
        if (value.kind != JSON_OBJECT)
            continue;
        counts_init(&one);
        read_counts(reader, &one, NULL);
        take_input(&one, &usage);
        take_output(&one, &usage);
        counts->absurd |= one.absurd || tg_usage_absurd(&usage);
        counts->has_iterations = true;
        add_usage(&counts->iterations, &usage);
        if (passes != NULL)
            add_pass(passes, &one, &usage);
    }
}

/* All passes, if they are more than what the totals say. */
static void take_iterations(const struct counts *counts, struct usage_passes *passes,
                            struct tg_usage *usage)
{
    const struct tg_usage *all = &counts->iterations;
    int64_t tool_calls = usage->tool_calls;

    if (counts->has_iterations && tg_usage_input(all) + tg_usage_output(all) >=
                                      tg_usage_input(usage) + tg_usage_output(usage)) {
        *usage = *all;
        usage->tool_calls = tool_calls;
    } else if (passes != NULL) {
        passes->n = 0; /* they are not all of it, or were told before and no more */
    }
}

void usage_read(struct json_reader *reader, const struct json_value *value,
                struct usage_reading *reading)
{
    struct tg_usage *usage = &reading->usage;
    struct counts counts;

    if (value->kind == JSON_NULL)
        return;
    counts_init(&counts);
    if (value->kind == JSON_OBJECT)
        read_counts(reader, &counts, reading);
    else
        counts.absurd = true;
    if (!counts.absurd) {
        reading->has_input |= take_input(&counts, usage);
        if (take_output(&counts, usage)) {
            reading->has_output = true;
            reading->reasoning = num_max(0, num_min(counts.reasoning, usage->output));
        }
        if (counts.searches >= 0 || counts.executions >= 0)
            usage->tool_calls = num_add(num_max(0, counts.searches), num_max(0, counts.executions));
        take_iterations(&counts, reading->passes, usage);
    }
    reading->absurd |= counts.absurd || tg_usage_absurd(usage);
    reading->found |= reading->has_input || reading->has_output || reading->absurd;
    if (reading->absurd) {
        *usage = (struct tg_usage){0};
        reading->reasoning = 0;
        if (reading->passes != NULL)
            reading->passes->n = 0;
    }
}

/* {"web_search": {"num_requests": 3}, "image_gen": {"input_tokens": 50, "output_tokens": 1056}} */
void usage_read_tools(struct json_reader *reader, const struct json_value *value,
                      struct usage_reading *reading)
{
    struct json_text key, inner;
    struct json_value tool, count;
    int64_t calls = 0;

    if (value->kind != JSON_OBJECT || !json_enter(reader))
        return;
    while (json_next(reader, &key, &tool)) {
        struct counts counts;
        counts_init(&counts);
        if (tool.kind != JSON_OBJECT)
            continue;
        if (json_text_is(key, "image_gen")) {
            read_counts(reader, &counts, NULL);
            reading->usage.image_input = num_max(0, counts.input);
            reading->usage.image_output = num_max(0, counts.output);
        } else if (json_enter(reader)) {
            while (json_next(reader, &inner, &count))
                take_count(&counts, request_names, inner, &count);
            calls = num_add(calls, num_max(0, counts.searches));
        }
        reading->absurd |= counts.absurd;
    }
    reading->usage.tool_calls = num_max(reading->usage.tool_calls, calls);
    reading->absurd |= tg_usage_absurd(&reading->usage);
    if (reading->absurd)
        reading->usage = (struct tg_usage){0};
}
