/* neutral.c - a request in the form that every dialect is read into and written from.
 *
 * Copies of texts come from chunks that are freed together: a request has a few of them or
 * thousands, and none outlives the others. All copies together are never longer than the body,
 * because unescaping makes a text shorter, so the body's limit is theirs.
 */
#include "server/dialect/neutral/neutral.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define CHUNK_BYTES 8192

struct neutral_chunk {
    struct neutral_chunk *next;
    size_t used, size;
    char bytes[];
};

const char *dialect_name(enum dialect dialect)
{
    static const char *const names[DIALECT_COUNT] = {
        [DIALECT_CHAT] = "openai-chat",
        [DIALECT_RESPONSES] = "openai-responses",
        [DIALECT_ANTHROPIC] = "anthropic",
        [DIALECT_GEMINI] = "gemini",
    };

    assert(dialect < DIALECT_COUNT);
    return names[dialect];
}

void neutral_request_init(struct neutral_request *request)
{
    *request = (struct neutral_request){
        .bound = -1,
        .temperature = NAN,
        .top_p = NAN,
        .presence = NAN,
        .frequency = NAN,
        .top_k = -1,
        .n = -1,
        .top_logprobs = -1,
        .budget = BUDGET_UNSET,
    };
}

void neutral_request_fini(struct neutral_request *request)
{
    struct neutral_chunk *chunk = request->copies;

    while (chunk != NULL) {
        struct neutral_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(request->turns);
    free(request->parts);
    free(request->tools);
    free(request->names);
    free(request->extras);
    free(request->hosted);
    neutral_request_init(request);
}

char *neutral_room(struct neutral_request *request, size_t n)
{
    struct neutral_chunk *chunk = request->copies;

    if (chunk == NULL || chunk->size - chunk->used < n) {
        size_t size = n > CHUNK_BYTES ? n : CHUNK_BYTES;
        if (size > PTRDIFF_MAX - sizeof *chunk)
            return NULL;
        chunk = malloc(sizeof *chunk + size);
        if (chunk == NULL)
            return NULL;
        *chunk = (struct neutral_chunk){.next = request->copies, .size = size};
        request->copies = chunk;
    }
    char *room = chunk->bytes + chunk->used;
    chunk->used += n;
    return room;
}

void neutral_target_init(struct neutral_target *target)
{
    *target = (struct neutral_target){.max_output = 4096, .strict = true};
}

/* ---- Efforts --------------------------------------------------------------------------------- */

static const char *const efforts[EFFORT_COUNT] = {"",       "none", "minimal", "low",
                                                  "medium", "high", "xhigh",   "max"};

enum neutral_effort neutral_effort_of(struct slice text)
{
    for (enum neutral_effort effort = EFFORT_NONE; effort < EFFORT_COUNT; effort++)
        if (slice_equal(text, slice_of(efforts[effort])))
            return effort;
    return EFFORT_UNSET;
}

const char *neutral_effort_name(enum neutral_effort effort)
{
    assert(effort < EFFORT_COUNT);
    return efforts[effort];
}

/* ---- Tiers ----------------------------------------------------------------------------------- */

enum neutral_tier neutral_tier_of(struct slice text)
{
    return slice_equal(text, SLICE("auto"))       ? TIER_AUTO
           : slice_equal(text, SLICE("default"))  ? TIER_STANDARD
           : slice_equal(text, SLICE("flex"))     ? TIER_FLEX
           : slice_equal(text, SLICE("priority")) ? TIER_PRIORITY
                                                  : TIER_OTHER;
}
