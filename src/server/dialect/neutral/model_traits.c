/* model_traits.c - what models are known to take, by name. See model_traits.h.
 *
 * A name may have a prefix (a cloud's, a router's) and a suffix (a date, a version), so a row is a
 * part of it. The first row that fits counts: narrow ones stand above wide ones.
 */
#include "server/dialect/neutral/model_traits.h"

#include <string.h>

static const struct {
    const char *part;
    struct model_traits traits;
} rows[] = {
    /* Anthropic: budgets of tokens until 4.5, efforts from 4.6 on, and from 4.7 on no sampling. */
    {"claude-2", {THINKING_NONE, false}},
    {"claude-3-7", {THINKING_BUDGET, false}},
    {"claude-3", {THINKING_NONE, false}},
    {"claude-opus-4-6", {THINKING_ADAPTIVE, false}},
    {"claude-sonnet-4-6", {THINKING_ADAPTIVE, false}},
    {"claude-opus-4-7", {THINKING_ADAPTIVE, true}},
    {"claude-opus-4-8", {THINKING_ADAPTIVE, true}},
    {"claude-opus-4.6", {THINKING_ADAPTIVE, false}},
    {"claude-sonnet-4.6", {THINKING_ADAPTIVE, false}},
    {"claude-opus-4.7", {THINKING_ADAPTIVE, true}},
    {"claude-opus-4.8", {THINKING_ADAPTIVE, true}},
    {"claude-opus-4", {THINKING_BUDGET, false}},
    {"claude-sonnet-4", {THINKING_BUDGET, false}},
    {"claude-haiku-4", {THINKING_BUDGET, false}},
    {"claude-opus-5", {THINKING_ADAPTIVE, true}},
    {"claude-sonnet-5", {THINKING_ADAPTIVE, true}},
    {"claude-haiku-5", {THINKING_ADAPTIVE, true}},
    /* Gemini: budgets in 2.5, levels from 3 on. */
    {"gemini-1", {THINKING_NONE, false}},
    {"gemini-2.0", {THINKING_NONE, false}},
    {"gemini-2.5", {THINKING_BUDGET, false}},
    /* OpenAI: those that do not reason refuse to be asked to. */
    {"gpt-3", {THINKING_NONE, false}},
    {"gpt-4", {THINKING_NONE, false}},
    {"chatgpt-4", {THINKING_NONE, false}},
};

struct model_traits model_traits_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(name, rows[i].part) != NULL)
            return rows[i].traits;
    return (struct model_traits){THINKING_ADAPTIVE, false};
}
