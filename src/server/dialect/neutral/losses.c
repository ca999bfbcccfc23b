/* losses.c - what one dialect says and another cannot: the one table of it.
 *
 * A hint does not change the answer, so nobody is told. What changes it is refused, or left out and
 * named, as the route's mode says. What refers to something that one provider keeps has no meaning
 * at another, whatever the mode.
 *
 * Rows are in the order of the documents: by client's dialect, then by what is asked for.
 */
#include "server/dialect/neutral/losses.h"

#include <stdio.h>
#include <string.h>

#define C DIALECT_CHAT
#define R DIALECT_RESPONSES
#define A DIALECT_ANTHROPIC
#define TO_C (1u << DIALECT_CHAT)
#define TO_R (1u << DIALECT_RESPONSES)
#define TO_A (1u << DIALECT_ANTHROPIC)
#define TO_G (1u << DIALECT_GEMINI)
#define ALL (TO_C | TO_R | TO_A | TO_G)
#define NOT_C (ALL & ~TO_C)
#define NOT_R (ALL & ~TO_R)
#define NOT_A (ALL & ~TO_A)

const struct loss losses[] = {
    {FIELD_STOP, C, "stop", TO_R, LOSS_ERROR},
    {FIELD_TEMPERATURE, C, "temperature", ALL, LOSS_ERROR},
    {FIELD_TOP_P, C, "top_p", ALL, LOSS_ERROR},
    {FIELD_PRESENCE, C, "presence_penalty", TO_R | TO_A, LOSS_ERROR},
    {FIELD_FREQUENCY, C, "frequency_penalty", TO_R | TO_A, LOSS_ERROR},
    {FIELD_SEED, C, "seed", TO_R | TO_A, LOSS_HINT},
    {FIELD_N, C, "n", TO_R | TO_A, LOSS_ERROR},
    {FIELD_LOGPROBS, C, "logprobs", NOT_C, LOSS_ERROR},
    {FIELD_PARALLEL, C, "parallel_tool_calls", TO_G, LOSS_ERROR},
    {FIELD_VERBOSITY, C, "verbosity", TO_A | TO_G, LOSS_ERROR},
    {FIELD_USER, C, "user", TO_G, LOSS_HINT},
    {FIELD_METADATA, C, "metadata", TO_A | TO_G, LOSS_HINT},
    {FIELD_CACHE, C, "prompt_cache_breakpoint", ALL, LOSS_HINT},
    {FIELD_CACHE_KEY, C, "prompt_cache_key", TO_A | TO_G, LOSS_HINT},
    {FIELD_STORE, C, "store", TO_A | TO_G, LOSS_HINT},
    {FIELD_TIER, C, "service_tier", ALL, LOSS_HINT},
    {FIELD_REASONING, C, "reasoning_effort", TO_A | TO_G, LOSS_HINT},
    {FIELD_GRAMMAR, C, "tools.custom.format", TO_A | TO_G, LOSS_ERROR},
    {FIELD_PREFILL, C, "messages", TO_A | TO_G, LOSS_ERROR},
    {FIELD_MESSAGE_NAME, C, "messages.name", ALL, LOSS_HINT},
    {FIELD_DETAIL, C, "image_url.detail", TO_A | TO_G, LOSS_HINT},
    {FIELD_AUDIO_PART, C, "input_audio", TO_R | TO_A, LOSS_ERROR},
    {FIELD_DOCUMENT_PART, C, "file", TO_A | TO_C, LOSS_ERROR},
    {FIELD_MEDIA_TYPE, C, "image_url", TO_A | TO_G, LOSS_ERROR},
    {FIELD_STORED_FILE, C, "file_id", NOT_C, LOSS_STATE},
    {FIELD_STORED_AUDIO, C, "messages.audio", ALL, LOSS_STATE},
    {FIELD_LOGIT_BIAS, C, "logit_bias", NOT_C, LOSS_ERROR},
    {FIELD_PREDICTION, C, "prediction", NOT_C, LOSS_HINT},
    {FIELD_MODALITIES, C, "modalities", NOT_C, LOSS_ERROR},
    {FIELD_SEARCH_OPTIONS, C, "web_search_options", NOT_C, LOSS_ERROR},
    {FIELD_MODERATION, C, "moderation", NOT_C, LOSS_ERROR},
    {FIELD_OBFUSCATION, C, "stream_options", ALL, LOSS_HINT},
    {FIELD_HOSTED_TOOL, C, "tools", NOT_C, LOSS_ERROR},
    {FIELD_HOSTED_PART, C, "messages.content", NOT_C, LOSS_ERROR},
    {FIELD_UNKNOWN, C, "(any other field)", NOT_C, LOSS_ERROR},

    {FIELD_TEMPERATURE, R, "temperature", ALL, LOSS_ERROR},
    {FIELD_TOP_P, R, "top_p", ALL, LOSS_ERROR},
    {FIELD_LOGPROBS, R, "top_logprobs", NOT_R, LOSS_ERROR},
    {FIELD_PARALLEL, R, "parallel_tool_calls", TO_G, LOSS_ERROR},
    {FIELD_VERBOSITY, R, "text.verbosity", TO_A | TO_G, LOSS_ERROR},
    {FIELD_USER, R, "user", TO_G, LOSS_HINT},
    {FIELD_METADATA, R, "metadata", TO_A | TO_G, LOSS_HINT},
    {FIELD_CACHE, R, "prompt_cache_breakpoint", ALL, LOSS_HINT},
    {FIELD_CACHE_KEY, R, "prompt_cache_key", TO_A | TO_G, LOSS_HINT},
    {FIELD_STORE, R, "store", TO_C | TO_A | TO_G, LOSS_HINT},
    {FIELD_TIER, R, "service_tier", ALL, LOSS_HINT},
    {FIELD_REASONING, R, "reasoning", TO_A | TO_G, LOSS_HINT},
    {FIELD_GRAMMAR, R, "tools.format", TO_A | TO_G, LOSS_ERROR},
    {FIELD_PREFILL, R, "input", TO_A | TO_G, LOSS_ERROR},
    {FIELD_DETAIL, R, "input_image.detail", TO_A | TO_G, LOSS_HINT},
    {FIELD_AUDIO_PART, R, "input_audio", TO_A, LOSS_ERROR},
    {FIELD_DOCUMENT_PART, R, "input_file", TO_A | TO_C, LOSS_ERROR},
    {FIELD_MEDIA_TYPE, R, "input_image", TO_A | TO_G, LOSS_ERROR},
    {FIELD_STORED_FILE, R, "file_id", NOT_R, LOSS_STATE},
    {FIELD_MODERATION, R, "moderation", NOT_R, LOSS_ERROR},
    {FIELD_OBFUSCATION, R, "stream_options", NOT_R, LOSS_HINT},
    {FIELD_PREVIOUS, R, "previous_response_id", NOT_R, LOSS_STATE},
    {FIELD_CONVERSATION, R, "conversation", NOT_R, LOSS_STATE},
    {FIELD_TEMPLATE, R, "prompt", NOT_R, LOSS_STATE},
    {FIELD_ITEM_REFERENCE, R, "item_reference", NOT_R, LOSS_STATE},
    {FIELD_BACKGROUND, R, "background", NOT_R, LOSS_STATE},
    {FIELD_TRUNCATION, R, "truncation", NOT_R, LOSS_ERROR},
    {FIELD_TOOL_CALLS_MAX, R, "max_tool_calls", NOT_R, LOSS_HINT},
    {FIELD_INCLUDE, R, "include", ALL, LOSS_HINT},
    {FIELD_CONTEXT, R, "context_management", NOT_R, LOSS_ERROR},
    {FIELD_REASONING_MODE, R, "reasoning.mode", ALL, LOSS_ERROR},
    {FIELD_HOSTED_TOOL, R, "tools", NOT_R, LOSS_ERROR},
    {FIELD_HOSTED_PART, R, "input", NOT_R, LOSS_ERROR},
    {FIELD_TOOL_HINT, R, "tools.output_schema", NOT_R, LOSS_HINT},
    {FIELD_TOOL_DEFERRED, R, "tools.defer_loading", NOT_R, LOSS_ERROR},
    {FIELD_UNKNOWN, R, "(any other field)", NOT_R, LOSS_ERROR},

    {FIELD_STOP, A, "stop_sequences", TO_R, LOSS_ERROR},
    {FIELD_TEMPERATURE, A, "temperature", ALL, LOSS_ERROR},
    {FIELD_TOP_P, A, "top_p", ALL, LOSS_ERROR},
    {FIELD_TOP_K, A, "top_k", ALL, LOSS_ERROR},
    {FIELD_PARALLEL, A, "tool_choice.disable_parallel_tool_use", TO_G, LOSS_ERROR},
    {FIELD_USER, A, "metadata.user_id", TO_G, LOSS_HINT},
    {FIELD_CACHE, A, "cache_control", TO_C | TO_R | TO_G, LOSS_HINT},
    {FIELD_TIER, A, "service_tier", ALL, LOSS_HINT},
    {FIELD_REASONING, A, "thinking", ALL, LOSS_HINT},
    {FIELD_PREFILL, A, "messages", ALL, LOSS_ERROR},
    {FIELD_DOCUMENT_PART, A, "document", TO_C, LOSS_ERROR},
    {FIELD_MEDIA_TYPE, A, "image", TO_A | TO_G, LOSS_ERROR},
    {FIELD_STORED_FILE, A, "source.file_id", NOT_A, LOSS_STATE},
    {FIELD_HOSTED_TOOL, A, "tools", NOT_A, LOSS_ERROR},
    {FIELD_HOSTED_PART, A, "messages.content", NOT_A, LOSS_ERROR},
    {FIELD_TOOL_HINT, A, "tools.input_examples", NOT_A, LOSS_HINT},
    {FIELD_TOOL_DEFERRED, A, "tools.defer_loading", NOT_A, LOSS_ERROR},
    {FIELD_CONTEXT, A, "context_management", NOT_A, LOSS_ERROR},
    {FIELD_GEO, A, "inference_geo", NOT_A, LOSS_ERROR},
    {FIELD_CONTAINER, A, "container", NOT_A, LOSS_ERROR},
    {FIELD_DIAGNOSTICS, A, "diagnostics", NOT_A, LOSS_HINT},
    {FIELD_SPEED, A, "speed", NOT_A, LOSS_NAMED},
    {FIELD_CITATIONS, A, "citations", ALL, LOSS_ERROR},
    {FIELD_SERVERS, A, "mcp_servers", NOT_A, LOSS_ERROR},
    {FIELD_FALLBACKS, A, "fallbacks", NOT_A, LOSS_ERROR},
    {FIELD_THREAD, A, "thread", NOT_A, LOSS_STATE},
    {FIELD_WARMING, A, "max_tokens: 0", TO_C | TO_R | TO_G, LOSS_STATE},
    {FIELD_UNKNOWN, A, "(any other field)", NOT_A, LOSS_ERROR},
};

const size_t n_losses = sizeof losses / sizeof losses[0];

/* The row, or null if the field goes over, or does not exist in `from`. */
static const struct loss *loss_find(enum neutral_field field, enum dialect from, enum dialect to)
{
    for (size_t i = 0; i < n_losses; i++)
        if (losses[i].field == field && losses[i].from == from && (losses[i].to >> to & 1) != 0)
            return &losses[i];
    return NULL;
}

void losses_describe(struct text_out *out)
{
    static const char *const treatments[] = {
        [LOSS_HINT] = "left out",
        [LOSS_NAMED] = "left out and named",
        [LOSS_ERROR] = "refused under `strict`, else left out and named",
        [LOSS_STATE] = "refused",
    };

    text_out_text(out, "| from | field | cannot go to | treatment |\n|---|---|---|---|\n");
    for (size_t i = 0; i < n_losses; i++) {
        const char *comma = "";
        text_out_format(out, "| `%s` | `%s` | ", dialect_name(losses[i].from), losses[i].name);
        for (enum dialect to = 0; to < DIALECT_COUNT; to++)
            if ((losses[i].to >> to & 1) != 0 && to != losses[i].from) {
                text_out_format(out, "%s`%s`", comma, dialect_name(to));
                comma = ", ";
            }
        text_out_format(out, " | %s |\n", treatments[losses[i].treatment]);
    }
}

/* Whether the list has the name already. */
static bool dropped_has(const struct neutral_dropped *dropped, const char *name, size_t n)
{
    const char *at = dropped->names;

    while (*at != '\0') {
        size_t word = strcspn(at, ",");
        if (word == n && memcmp(at, name, n) == 0)
            return true;
        at += word;
        at += strspn(at, ", ");
    }
    return false;
}

/* A list that is full says no more: it is a header. */
void neutral_dropped_add(struct neutral_dropped *dropped, const char *name)
{
    size_t n = strlen(name), separator = dropped->n > 0 ? 2 : 0;

    if (dropped_has(dropped, name, n) || n + separator >= DROPPED_MAX - dropped->n)
        return;
    memcpy(dropped->names + dropped->n, ", ", separator);
    memcpy(dropped->names + dropped->n + separator, name, n + 1);
    dropped->n += separator + n;
}

bool neutral_lose(const struct neutral_request *request, enum dialect to, bool strict,
                  enum neutral_field field, struct neutral_dropped *dropped,
                  struct ask_problem *problem)
{
    const struct loss *loss = loss_find(field, request->from, to);
    /* What is in no row cannot have been written by a client of this dialect. */
    const char *name = field == FIELD_UNKNOWN ? request->unknown : loss != NULL ? loss->name : "";

    if (loss == NULL || loss->treatment == LOSS_HINT)
        return true;
    if (loss->treatment == LOSS_STATE || (strict && loss->treatment == LOSS_ERROR)) {
        *problem = (struct ask_problem){.no_memory = false};
        snprintf(problem->param, sizeof problem->param, "%s", name);
        snprintf(problem->text, sizeof problem->text,
                 loss->treatment == LOSS_STATE
                     ? "'%s' refers to what another provider keeps, and has no meaning at a "
                       "provider that speaks %s."
                     : "'%s' cannot be carried over to a provider that speaks %s.",
                 name, dialect_name(to));
        return false;
    }
    neutral_dropped_add(dropped, name);
    return true;
}
