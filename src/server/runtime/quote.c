/* quote.c - what an attempt can cost at most. See quote.h. */
#include "server/runtime/quote.h"

#include <stdio.h>

#include "lib/core/num.h"
#include "server/runtime/expected_cost.h"

/* Tokens that a translation may add: an instruction to answer in JSON; a message for what stood
 * within another; words for a tool that failed, and for an image that is shown elsewhere. */
enum { TRANSLATED_CALL = 128, TRANSLATED_MESSAGE = 32, TRANSLATED_PART = 32 };

/* Thousandths; 0: it has no price. Under a budget the rules have refused what has none, unless one
 * of them allows it: that costs what it costs without the word. A translation may leave the word
 * out, so what costs less with it is taken to go without. */
static int64_t factor_of(const struct quote_call *call, const struct config_factors *factors,
                         const struct ask_word *word)
{
    const char *said = word->at[0] != '\0' ? word->at : "auto";
    int64_t milli = config_factor(factors, said, strlen(said));

    if (milli == 0 && config_is_hard(call->tenant, call->key))
        milli = 1000;
    if (milli > 0 && call->is_translated)
        milli = num_max(milli, num_max(1000, config_factor(factors, "auto", 4)));
    return milli;
}

/* What is known of the model, for this call. */
static void find_facts(const struct quote_call *call, const struct quote *quote,
                       struct bound_facts *facts)
{
    const struct config_model *model = call->route->config;

    *facts = call->route->facts;
    facts->tier_milli = factor_of(call, &model->service_tier, &call->ask->service_tier);
    facts->speed_milli = factor_of(call, &model->speed, &call->ask->speed);
    facts->geo_milli = factor_of(call, &model->inference_geo, &call->ask->inference_geo);
    if (call->is_translated) {
        /* A text may have become one within JSON that the model is shown. */
        facts->per_call += TRANSLATED_CALL + (int64_t)call->escapes;
        facts->per_message += TRANSLATED_MESSAGE;
        facts->per_part += TRANSLATED_PART;
        if (call->route->provider->config->api == CONFIG_ANTHROPIC)
            facts->tool_prompt = num_max(facts->tool_prompt, BOUND_ANTHROPIC_TOOLS);
    }
    if (quote->most_output >= 0)
        facts->most_output = quote->most_output;
    facts->only_max_tokens = !call->is_translated &&
                             call->route->provider->config->output_field == CONFIG_FIELD_MAX_TOKENS;
}

/* What one choice may write. */
static int64_t choice_output(const struct ask *ask, const struct bound_facts *facts)
{
    int64_t most = facts->most_output > 0 ? facts->most_output : facts->context;
    int64_t stated = bound_stated_output(ask, facts);

    if (stated < 0)
        return most;
    return most > 0 ? num_min(stated, most) : stated;
}

int64_t quote_affordable(const struct quote_call *call, const struct quote *quote, tg_micro money)
{
    const struct tg_usage_bound *bound = &quote->bound;
    struct bound_facts facts;

    find_facts(call, quote, &facts);
    int64_t each = num_max(1, choice_output(call->ask, &facts));
    int64_t outputs = num_max(1, bound->output / each + (bound->output % each > 0));
    return tg_price_affordable(&call->route->config->price, bound,
                               expected_cost_whole(num_max(money, 0), quote->share)) /
           outputs;
}

/* The most that the attempt can use. False: it cannot be said. */
static bool bound_attempt(const struct quote_call *call, bool hard, struct quote *quote,
                          struct refusal *why)
{
    struct ask_problem problem = {.param = ""};
    struct bound_facts facts;

    find_facts(call, quote, &facts);
    if (!bound_of(call->ask, &facts, hard && quote->pair == 0, &quote->bound, &problem)) {
        refusal_of_ask(&problem, why);
        return false;
    }
    quote->most = bound_has_other_models(call->ask)
                      ? config_dearest_bound(call->route->provider->config, call->route->config,
                                             &quote->bound)
                      : tg_price_bound(&call->route->config->price, &quote->bound);
    quote->asked = expected_cost_part(quote->most, quote->share);
    return true;
}

/* Bounds a call that does not say how much it may write, where that is configured: by `clamp_to`,
 * else by the most that the model writes, and by what is left of its budgets. */
static bool clamp_attempt(const struct quote_call *call, tg_micro left, struct quote *quote,
                          struct refusal *why)
{
    const struct config_model *model = call->route->config;
    bool hard = left != TG_MONEY_MAX;

    if (!hard && model->clamp_to == 0)
        return bound_attempt(call, hard, quote, why); /* nobody's budget depends on it */
    quote->most_output = model->clamp_to > 0 ? model->clamp_to : config_most_output(model);
    if (!bound_attempt(call, hard, quote, why))
        return false;
    if (quote->asked <= left)
        return true;
    quote->most_output = num_max(1, quote_affordable(call, quote, left));
    return bound_attempt(call, hard, quote, why);
}

/* Which part of its bound the attempt asks for, where a budget may refuse it. */
static void find_share(const struct quote_call *call, struct quote *quote)
{
    const struct expected_cost *expected = call->gateway->expected;

    if (!config_is_hard(call->tenant, call->key) || config_is_bound(call->tenant, call->key))
        return;
    quote->pair = expected_cost_pair(expected, call->tenant->name, call->route->config->name,
                                     call->route->provider->config->name);
    quote->share = expected_cost_share(expected, quote->pair);
}

bool quote_make(const struct quote_call *call, tg_micro left, struct quote *quote,
                struct refusal *why)
{
    const struct config_model *model = call->route->config;

    *quote = (struct quote){.share = 1000, .most_output = -1};
    if (left != TG_MONEY_MAX && call->is_listed && !model->has_price) {
        refusal_init(why, REPLY_MODEL_NOT_ALLOWED,
                     "model '%s' has no price here, so its calls cannot be paid from a budget",
                     model->name);
        snprintf(why->param, sizeof why->param, "model");
        return false;
    }
    if (!call->route->priced)
        left = TG_MONEY_MAX; /* no budget depends on what costs nothing */
    if (left != TG_MONEY_MAX)
        find_share(call, quote);
    bool unbounded = estimate_has_output(call->ask->endpoint) && call->ask->max_output < 0;
    if (unbounded && model->on_unbounded == CONFIG_REFUSE) {
        refusal_init(why, REPLY_INVALID_REQUEST,
                     "this model's calls have to say how many tokens they may write");
        snprintf(why->param, sizeof why->param, "max_tokens");
        return false;
    }
    if (unbounded && model->on_unbounded == CONFIG_CLAMP)
        return clamp_attempt(call, left, quote, why);
    return bound_attempt(call, left != TG_MONEY_MAX, quote, why);
}
