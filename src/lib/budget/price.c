/* price.c - what tokens cost.
 *
 * A price is in micro-dollars for a million tokens, so tokens x price is in millionths of a
 * micro-dollar. All products of a call are added up exactly, in 128 bits, and divided once, at the
 * end, upwards:
 *
 *     cost = ceil((sum of tokens x price + per_call x 10^6) / 10^6)
 *
 * Rejected: a division for each kind of token, towards zero. Six tokens of a small model cost
 * nothing then, and a caller with many small calls never pays. Rounding up, a call is dearer than
 * its exact cost by less than one micro-dollar, whatever it consists of.
 *
 * Nothing here can overflow: prices count up to PRICE_MAX < 2^50 and tokens are below 2^63, so a
 * product is below 2^113.
 */
#include "lib/budget/money.h"
#include "lib/core/num.h"

#define MILLION 1000000u
#define PRICE_MAX INT64_C(1000000000000000)
#define TOKENS_MAX INT64_C(1000000000) /* more of one kind in one call is beyond belief */

__extension__ typedef unsigned __int128 exact;

void tg_price_init(struct tg_price *price)
{
    *price = (struct tg_price){.cached_input = -1, .cache_write = -1};
}

static uint64_t within(int64_t price)
{
    return (uint64_t)num_min(num_max(price, 0), PRICE_MAX);
}

/* A kind of input without a price of its own costs what input does. */
static uint64_t or_input(const struct tg_price *price, int64_t kind)
{
    return within(kind < 0 ? price->input : kind);
}

static exact times(int64_t tokens, uint64_t price)
{
    return tokens > 0 ? (exact)(uint64_t)tokens * price : 0;
}

static tg_micro rounded_up(exact sum)
{
    const exact most = (exact)TG_MONEY_MAX * MILLION;

    if (sum >= most)
        return TG_MONEY_MAX;
    sum += MILLION - 1;
    /* Nearly all calls cost less than 18 million dollars: one instruction divides those. */
    return sum <= UINT64_MAX ? (tg_micro)((uint64_t)sum / MILLION) : (tg_micro)(sum / MILLION);
}

tg_micro tg_price_of(const struct tg_price *price, const struct tg_usage *usage)
{
    return rounded_up(times(usage->input, within(price->input)) +
                      times(usage->cached_input, or_input(price, price->cached_input)) +
                      times(usage->cache_write, or_input(price, price->cache_write)) +
                      times(usage->output, within(price->output)) +
                      times(MILLION, within(price->per_call)));
}

/* What a call costs before its first token of output, if its prompt is taken the dearest way. */
static exact prompt_bound(const struct tg_price *price, int64_t prompt)
{
    uint64_t dearest = within(price->input);

    if (or_input(price, price->cached_input) > dearest)
        dearest = or_input(price, price->cached_input);
    if (or_input(price, price->cache_write) > dearest)
        dearest = or_input(price, price->cache_write);
    return times(prompt, dearest) + times(MILLION, within(price->per_call));
}

tg_micro tg_price_bound(const struct tg_price *price, int64_t prompt, int64_t output)
{
    return rounded_up(prompt_bound(price, prompt) + times(output, within(price->output)));
}

int64_t tg_price_affordable(const struct tg_price *price, int64_t prompt, tg_micro money)
{
    exact has = money > 0 ? (exact)num_min(money, TG_MONEY_MAX) * MILLION : 0;
    exact needs = prompt_bound(price, prompt);

    if (money < 0 || needs > has)
        return -1;
    if (within(price->output) == 0)
        return TG_NUMBER_MAX;
    exact tokens = (has - needs) / within(price->output);
    return tokens < (exact)TG_NUMBER_MAX ? (int64_t)tokens : TG_NUMBER_MAX;
}

static bool is_absurd(int64_t tokens)
{
    return tokens < 0 || tokens > TOKENS_MAX;
}

bool tg_usage_absurd(const struct tg_usage *usage)
{
    return is_absurd(usage->input) || is_absurd(usage->cached_input) ||
           is_absurd(usage->cache_write) || is_absurd(usage->output);
}
