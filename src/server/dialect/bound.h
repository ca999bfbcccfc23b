/* bound.h - the most that a call can use: what is reserved for it.
 *
 *     struct bound_facts facts;
 *     bound_facts_init(&facts);
 *     facts.context = ...                                  of the model
 *     if (!bound_of(&ask, &facts, true, &bound, &problem))
 *         ... 400, problem.param and problem.text
 *     reserve tg_price_bound(&price, &bound)
 *
 * An estimate (estimate.h) is what a call is likely to use, and is for limits. This is for money:
 * whatever the provider counts by its own rules is at most this, so that a budget holds.
 *
 *     input    of a pass   text at the most tokens that its tokenizer makes of a byte,
 *                          + 16 a message, 8 a part, 64 a tool or schema, 128 a call,
 *                          + what tools bring along, images by their size, recordings by length;
 *                          the context, where something is not in the body
 *                          at most the context, for each prompt
 *     passes               1, or with tools that the provider runs their uses + 1
 *     output               (what the call allows, else the model's most) x choices x prompts,
 *                          + a prediction, x passes on Anthropic
 *
 * What cannot be bounded is refused where a budget is enforced, by the name of the field. Without
 * one it is taken at its least: there is nothing to protect, and an estimate will do.
 *
 * docs/money.md has a worked example; tests/unit/server/dialect/test_bound.c has a test for each
 * row of the table that this is made of, test_bound_drawn.c compares it with counts of the
 * worst that a tokenizer can do.
 */
#ifndef TG_DIALECT_BOUND_H
#define TG_DIALECT_BOUND_H

#include "server/dialect/ask.h"
#include "tollgate.h"

/* What the tokenizer does to a text before it splits it. */
enum bound_form { BOUND_BYTES, BOUND_NFC, BOUND_NFKC };

enum bound_image_rule {
    BOUND_IMAGE_MOST,    /* each image at `most` */
    BOUND_IMAGE_TILES,   /* base + tile for each 512 x 512, after scaling: gpt-4o, gpt-4.1, o1 */
    BOUND_IMAGE_PATCHES, /* 32 x 32, up to a budget, times a factor: gpt-5-mini and later */
    BOUND_IMAGE_CLAUDE,  /* 28 x 28 */
    BOUND_IMAGE_GEMINI,  /* 258 for each tile */
};

struct bound_image {
    enum bound_image_rule rule;
    int64_t most;         /* tokens of one image; 0: not known, the context; default */
    int64_t base, tile;   /* tiles */
    int64_t budget;       /* patches, unless `detail` is "original"; 0: as many as `most` has */
    int64_t factor_milli; /* patches; 0: 1000 */
};

/* Tokens that any tool brings along on Anthropic. */
#define BOUND_ANTHROPIC_TOOLS 900

/* What is known of a model. bound_facts_init() has the defaults. */
struct bound_facts {
    int64_t context;      /* tokens of one pass; 0: not known; default */
    int64_t most_output;  /* tokens that it writes at most; 0: the context; default */
    enum bound_form form; /* default BOUND_NFKC, the longest */
    bool self_hosted;     /* a server of one's own may write tools anew, escaped; default false */
    int64_t per_call, per_message, per_part, per_tool; /* default 128, 16, 8, 64 */
    int64_t tool_prompt; /* tokens that any tool brings along; default 0, on Anthropic 900 */
    int64_t audio_per_s; /* tokens of a recording; default 32 */
    int64_t rounds;      /* passes of one call with tools that the provider runs; default 10 */
    bool cache_write_implicit; /* default false */
    bool only_max_tokens;      /* it does not read max_completion_tokens; default false */
    struct bound_image image;

    /* Factors that the model's price has for the call's service_tier, speed and inference_geo, or
     * for "auto" where it has none; 0: no factor is known. */
    int64_t tier_milli, speed_milli, geo_milli;
    int64_t dearest_milli; /* the product of the largest of each; 0: 1000 */
};

void bound_facts_init(struct bound_facts *facts);

/* The most that the call lets each choice write, as far as its server reads it; -1: it does not
 * say. */
int64_t bound_stated_output(const struct ask *ask, const struct bound_facts *facts);

/* Sets the bound. False: under a hard budget only, and the problem names the field. `ask` may have
 * what prefix_find() knows of it. */
bool bound_of(const struct ask *ask, const struct bound_facts *facts, bool hard_budget,
              struct tg_usage_bound *bound, struct ask_problem *problem);

/* Whether the provider bills no more than the bound: not where the call leaves something open that
 * a hard budget would have refused. */
bool bound_holds(const struct ask *ask);

/* Whether models may take part whose price is not that of the model asked. */
static inline bool bound_has_other_models(const struct ask *ask)
{
    return (ask->features & (ASK_MODELS | ASK_FALLBACKS | ASK_ADVISOR)) != 0;
}

/* Tokens of one image of a known size. */
int64_t bound_image(const struct bound_image *rule, const struct ask_image *image);

#endif
