/* losses.h - what one dialect says and another cannot: the one table of it.
 *
 *     neutral_lose(&losses, FIELD_STOP)                a writer meets what it cannot write
 *
 * Each row names a field as its client writes it, where it comes from, where it cannot go, and what
 * becomes of it. docs/dialects.md shows the table, and test_losses.c compares the two.
 */
#ifndef TG_NEUTRAL_LOSSES_H
#define TG_NEUTRAL_LOSSES_H

#include "io/text/text_out.h"
#include "server/dialect/ask.h"
#include "server/dialect/neutral/neutral.h"

/* Fields with no counterpart somewhere. Bits of neutral_request.foreign are these. */
enum neutral_field {
    FIELD_STOP,
    FIELD_TEMPERATURE,
    FIELD_TOP_P,
    FIELD_TOP_K,
    FIELD_PRESENCE,
    FIELD_FREQUENCY,
    FIELD_SEED,
    FIELD_N,
    FIELD_LOGPROBS,
    FIELD_PARALLEL,
    FIELD_VERBOSITY,
    FIELD_USER,
    FIELD_METADATA,
    FIELD_CACHE,
    FIELD_CACHE_KEY,
    FIELD_STORE,
    FIELD_TIER,
    FIELD_REASONING,
    FIELD_GRAMMAR,
    FIELD_PREFILL,
    FIELD_MESSAGE_NAME,
    FIELD_DETAIL,
    FIELD_AUDIO_PART,
    FIELD_VIDEO_PART,
    FIELD_DOCUMENT_PART,
    FIELD_MEDIA_TYPE,
    FIELD_STORED_FILE,
    FIELD_STORED_AUDIO,
    FIELD_LOGIT_BIAS,
    FIELD_PREDICTION,
    FIELD_MODALITIES,
    FIELD_SEARCH_OPTIONS,
    FIELD_MODERATION,
    FIELD_OBFUSCATION,
    FIELD_PREVIOUS,
    FIELD_CONVERSATION,
    FIELD_TEMPLATE,
    FIELD_ITEM_REFERENCE,
    FIELD_BACKGROUND,
    FIELD_TRUNCATION,
    FIELD_TOOL_CALLS_MAX,
    FIELD_INCLUDE,
    FIELD_CONTEXT,
    FIELD_REASONING_MODE,
    FIELD_HOSTED_TOOL,
    FIELD_HOSTED_PART,
    FIELD_TOOL_HINT,
    FIELD_TOOL_DEFERRED,
    FIELD_GEO,
    FIELD_CONTAINER,
    FIELD_DIAGNOSTICS,
    FIELD_SPEED,
    FIELD_CITATIONS,
    FIELD_SERVERS,
    FIELD_FALLBACKS,
    FIELD_THREAD,
    FIELD_WARMING,
    FIELD_UNKNOWN,
    FIELD_COUNT
};

_Static_assert(FIELD_COUNT <= 64, "neutral_request.foreign has a bit for each");

enum loss_treatment {
    LOSS_HINT,  /* left out, and nobody is told: the answer is the same without it */
    LOSS_NAMED, /* left out and named, in both modes */
    LOSS_ERROR, /* changes the answer: refused under strict, else left out and named */
    LOSS_STATE, /* refers to what one provider keeps: refused in both modes */
};

struct loss {
    enum neutral_field field;
    enum dialect from;
    const char *name; /* how a client of `from` writes it */
    unsigned to;      /* bits of enum dialect */
    enum loss_treatment treatment;
};

extern const struct loss losses[];
extern const size_t n_losses;

/* The table for the documents, as Markdown. */
void losses_describe(struct text_out *out);

/* ---- What a translation left out ------------------------------------------------------------- */

#define DROPPED_MAX 512

/* The names of fields that were left out, each once, for x-tollgate-dropped. Starts as {0}. */
struct neutral_dropped {
    char names[DROPPED_MAX]; /* "logit_bias, top_k"; has a 0 */
    size_t n;
};

void neutral_dropped_add(struct neutral_dropped *dropped, const char *name);

/* Leaves a field out. False: the table says that it must not be, and `problem` is set. */
bool neutral_lose(const struct neutral_request *request, enum dialect to, bool strict,
                  enum neutral_field field, struct neutral_dropped *dropped,
                  struct ask_problem *problem);

#endif
