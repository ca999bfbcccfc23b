/* usage.c - what a usage object says, in the words of any of the APIs.
 *
 * Two ways of counting input are in use. OpenAI's count is of all input, and details say how much
 * of it was cached. Anthropic's is of what was read anew, and what was cached stands beside it:
 *
 *     prompt_tokens 100, prompt_tokens_details.cached_tokens 80      20 anew, 80 cached
 *     input_tokens 20, cache_read_input_tokens 80                    the same
 *
 * `prompt_tokens`, or details beside `input_tokens`, tell the first way. Gateways that translate
 * between the two write both kinds of fields; the larger of two that mean the same counts.
 *
 * Output has what was thought in it, except with providers that report it beside: there the total
 * is the sum of three, or more than the sum of two, and tells.
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
    int64_t written_5m, written_1h;    /* the same by how long it is kept */
    int64_t reasoning;
    bool absurd;
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
    {NULL, 0},
};
static const struct name input_names[] = {
    NAME("cached_tokens", cached),
    NAME("cache_write_tokens", written),
    NAME("cache_creation_tokens", written),
    {NULL, 0},
};
static const struct name output_names[] = {
    NAME("reasoning_tokens", reasoning),
    {NULL, 0},
};
static const struct name creation_names[] = {
    NAME("ephemeral_5m_input_tokens", written_5m),
    NAME("ephemeral_1h_input_tokens", written_1h),
    {NULL, 0},
};

static const struct {
    const char *text;
    const struct name *names;
} parts[] = {
    {"prompt_tokens_details", input_names},      {"input_tokens_details", input_names},
    {"completion_tokens_details", output_names}, {"output_tokens_details", output_names},
    {"cache_creation", creation_names},
};

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

static void read_part(struct json_reader *reader, struct counts *counts, const struct name *names)
{
    struct json_text key;
    struct json_value value;

    if (json_enter(reader))
        while (json_next(reader, &key, &value))
            take_count(counts, names, key, &value);
}

static void read_counts(struct json_reader *reader, struct counts *counts)
{
    struct json_text key;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        take_count(counts, counts_names, key, &value);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            if (value.kind == JSON_OBJECT && json_text_is(key, parts[i].text)) {
                read_part(reader, counts, parts[i].names);
                break;
            }
    }
}

/* ---- Meaning --------------------------------------------------------------------------------- */

/* Parts that are within the whole are taken out of it. */
static void take_whole(struct counts *counts, int64_t whole, struct usage_reading *reading)
{
    struct tg_usage *usage = &reading->usage;

    usage->cached_input = num_max(0, num_max(counts->cached, counts->cache_read));
    usage->cache_write = num_max(0, num_max(counts->written, counts->cache_written));
    if (usage->cached_input > whole || usage->cache_write > whole - usage->cached_input)
        counts->absurd = true;
    else
        usage->input = whole - usage->cached_input - usage->cache_write;
}

static void take_input(struct counts *counts, struct usage_reading *reading)
{
    struct tg_usage *usage = &reading->usage;
    bool whole = counts->prompt >= 0 || counts->cached >= 0 || counts->written >= 0;
    int64_t input = num_max(counts->prompt, counts->input);

    if (counts->written_5m >= 0 || counts->written_1h >= 0)
        counts->cache_written =
            num_max(counts->cache_written,
                    num_add(num_max(0, counts->written_5m), num_max(0, counts->written_1h)));
    if (input < 0 && counts->output < 0)
        input = counts->total;
    reading->has_input |= input >= 0;
    if (whole && input >= 0) {
        take_whole(counts, input, reading);
        return;
    }
    if (input >= 0)
        usage->input = input;
    if (counts->cache_read >= 0)
        usage->cached_input = counts->cache_read;
    if (counts->cache_written >= 0)
        usage->cache_write = counts->cache_written;
}

static void take_output(const struct counts *counts, struct usage_reading *reading)
{
    int64_t input = num_max(0, num_max(counts->prompt, counts->input));
    int64_t output = counts->output;

    if (output < 0)
        return;
    int64_t beside = counts->total - input - output;
    if (beside > 0 && (counts->reasoning < 0 || counts->reasoning == beside))
        output += beside;
    reading->has_output = true;
    reading->usage.output = output;
    reading->reasoning = num_max(0, num_min(counts->reasoning, output));
}

void usage_read(struct json_reader *reader, const struct json_value *value,
                struct usage_reading *reading)
{
    struct counts counts = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, false};

    if (value->kind == JSON_NULL)
        return;
    if (value->kind == JSON_OBJECT)
        read_counts(reader, &counts);
    else
        counts.absurd = true;
    if (!counts.absurd) {
        take_input(&counts, reading);
        take_output(&counts, reading);
    }
    reading->absurd |= counts.absurd || tg_usage_absurd(&reading->usage);
    reading->found |= reading->has_input || reading->has_output || reading->absurd;
    if (reading->absurd) {
        reading->usage = (struct tg_usage){0};
        reading->reasoning = 0;
    }
}
