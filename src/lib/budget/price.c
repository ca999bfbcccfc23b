/* price.c - what tokens cost.
 *
 * A price is in micro-dollars for a million tokens, so tokens x price is in millionths of a
 * micro-dollar. All products of a call are added up exactly, in 128 bits, and divided once, at the
 * end, upwards:
 *
 *     cost = ceil((sum of tokens x price x step x factor + fees x 10^6) / 10^6)
 *
 * where a step is what long context multiplies the prices of input and of output by, and the factor
 * is that of the tier, both in thousandths; fees are by call, and no factor applies to them.
 *
 * Rejected: a division for each kind of token, towards zero. Six tokens of a small model cost
 * nothing then, and a caller with many small calls never pays. Rounding up, a call is dearer than
 * its exact cost by less than one micro-dollar, whatever it consists of.
 *
 * Nothing here can overflow: prices count up to PRICE_MAX < 2^50 and tokens are below 2^63, so a
 * product is below 2^113, and a sum of all kinds below 2^117. Sums from SUM_MAX on are
 * TG_MONEY_MAX, which 10^9 tokens of each kind at the highest price do not reach; two sums below it
 * with two factors of at most 10^6 are below 2^127.
 */
#include "lib/budget/money.h"

#include <string.h>

#include "lib/core/num.h"
#include "lib/core/sized.h"

#define THOUSAND 1000u
#define MILLION 1000000u
#define PRICE_MAX INT64_C(1000000000000000)
#define COUNT_MAX INT64_C(1000000000) /* more of one kind in one call is beyond belief */

__extension__ typedef unsigned __int128 exact;

#define SUM_MAX ((exact)1 << 86)

#define PRICE_FIRST SIZED_TO(struct tg_price, steps)

void tg_price_init_sized(struct tg_price *price, size_t size)
{
    static const struct tg_price defaults = {.cached_input = -1,
                                             .cache_write = -1,
                                             .cache_write_long = -1,
                                             .audio_input = -1,
                                             .image_input = -1,
                                             .audio_output = -1,
                                             .image_output = -1};

    sized_init(price, size, &defaults, sizeof defaults, PRICE_FIRST);
}

/* A price that is none of this version's. In one that was not initialized, a kind of token at 0 has
 * no price of its own: taken for a number, it would be free. */
static __attribute__((noinline)) const struct tg_price *read_price(const struct tg_price *price,
                                                                   struct tg_price *copy)
{
    if (!price)
        return NULL;
    if (price->struct_size != 0)
        return sized_read(copy, sizeof *copy, price, PRICE_FIRST) ? copy : NULL;
    memset(copy, 0, sizeof *copy);
    memcpy(copy, price, PRICE_FIRST);
    int64_t *const kinds[] = {&copy->cached_input, &copy->cache_write, &copy->cache_write_long,
                              &copy->audio_input,  &copy->image_input, &copy->audio_output,
                              &copy->image_output};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (*kinds[i] == 0)
            *kinds[i] = -1;
    return copy;
}

/* Null: there is none, or its size is wrong. */
static const struct tg_price *price_as_ours(const struct tg_price *price, struct tg_price *copy)
{
    return price && price->struct_size == sizeof *price ? price : read_price(price, copy);
}

/* ---- The parts of a price -------------------------------------------------------------------- */

static uint64_t within(int64_t price)
{
    return (uint64_t)num_min(num_max(price, 0), PRICE_MAX);
}

/* A kind without a price of its own costs what a plainer one does. */
static int64_t or_else(int64_t kind, int64_t plainer)
{
    return kind < 0 ? plainer : kind;
}

static int64_t write_long_price(const struct tg_price *price)
{
    return or_else(price->cache_write_long, or_else(price->cache_write, price->input));
}

static uint64_t milli_of(int64_t milli)
{
    return milli <= 0 ? THOUSAND : (uint64_t)num_min(milli, TG_FACTOR_MILLI_MAX);
}

struct factors {
    uint64_t input, output, all; /* in thousandths */
};

/* What a call costs: sums in millionths of a micro-dollar before the factors, fees in
 * micro-dollars. */
struct parts {
    exact input, output, fees;
    struct factors factors;
};

static exact times(int64_t tokens, uint64_t price)
{
    return tokens > 0 ? (exact)(uint64_t)tokens * price : 0;
}

static exact fees_of(const struct tg_price *price, int64_t tool_calls)
{
    return within(price->per_call) + times(tool_calls, within(price->per_tool_call));
}

static bool has_factors(const struct factors *factors)
{
    return factors->input != THOUSAND || factors->output != THOUSAND || factors->all != THOUSAND;
}

static tg_micro sum_parts(const struct parts *parts)
{
    const struct factors *factors = &parts->factors;

    if (parts->input >= SUM_MAX || parts->output >= SUM_MAX || parts->fees >= (exact)TG_MONEY_MAX)
        return TG_MONEY_MAX;
    if (!has_factors(factors)) {
        exact sum = parts->input + parts->output + parts->fees * MILLION + MILLION - 1;
        /* Nearly all calls cost less than 18 million dollars: one instruction divides those. */
        sum = sum <= UINT64_MAX ? (uint64_t)sum / MILLION : sum / MILLION;
        return sum < (exact)TG_MONEY_MAX ? (tg_micro)sum : TG_MONEY_MAX;
    }
    const exact unit = (exact)MILLION * MILLION;
    exact sum = (parts->input * factors->input + parts->output * factors->output) * factors->all +
                parts->fees * unit;
    sum = (sum + unit - 1) / unit;
    return sum < (exact)TG_MONEY_MAX ? (tg_micro)sum : TG_MONEY_MAX;
}

/* ---- What was used --------------------------------------------------------------------------- */

static int64_t add_counts(const int64_t *counts, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        if (counts[i] > 0 && __builtin_add_overflow(sum, counts[i], &sum))
            return INT64_MAX;
    return sum;
}

int64_t tg_usage_input(const struct tg_usage *usage)
{
    if (!usage)
        return 0;
    const int64_t counts[] = {usage->input,       usage->cached_input,
                              usage->cache_write, usage->cache_write_long,
                              usage->audio_input, usage->image_input};

    return add_counts(counts, sizeof counts / sizeof counts[0]);
}

int64_t tg_usage_output(const struct tg_usage *usage)
{
    if (!usage)
        return 0;
    const int64_t counts[] = {usage->output, usage->audio_output, usage->image_output};

    return add_counts(counts, sizeof counts / sizeof counts[0]);
}

void tg_usage_fold(struct tg_usage *usage)
{
    if (!usage)
        return;
    const int64_t input[] = {usage->input, usage->audio_input, usage->image_input};
    const int64_t written[] = {usage->cache_write, usage->cache_write_long};

    *usage = (struct tg_usage){.input = add_counts(input, 3),
                               .cached_input = num_max(usage->cached_input, 0),
                               .cache_write = add_counts(written, 2),
                               .output = tg_usage_output(usage)};
}

/* The highest step that the call is above counts. */
static void find_step(const struct tg_price *price, int64_t longest, struct factors *factors)
{
    int64_t highest = 0;

    for (size_t i = 0; i < TG_PRICE_STEPS && price->steps[i].above > 0; i++)
        if (price->steps[i].above > highest && longest > price->steps[i].above) {
            highest = price->steps[i].above;
            factors->input = milli_of(price->steps[i].input_milli);
            factors->output = milli_of(price->steps[i].output_milli);
        }
}

tg_micro tg_price_of(const struct tg_price *price, const struct tg_usage *usage)
{
    struct tg_price copy;

    price = price_as_ours(price, &copy);
    if (!price || !usage)
        return TG_MONEY_MAX;
    int64_t input = price->input;
    struct parts parts = {
        .input = times(usage->input, within(input)) +
                 times(usage->cached_input, within(or_else(price->cached_input, input))) +
                 times(usage->cache_write, within(or_else(price->cache_write, input))) +
                 times(usage->cache_write_long, within(write_long_price(price))) +
                 times(usage->audio_input, within(or_else(price->audio_input, input))) +
                 times(usage->image_input, within(or_else(price->image_input, input))),
        .output = times(usage->output, within(price->output)) +
                  times(usage->audio_output, within(or_else(price->audio_output, price->output))) +
                  times(usage->image_output, within(or_else(price->image_output, price->output))),
        .fees = fees_of(price, usage->tool_calls),
        .factors = {THOUSAND, THOUSAND, milli_of(usage->factor_milli)},
    };

    if (price->steps[0].above > 0)
        find_step(price, usage->longest > 0 ? usage->longest : tg_usage_input(usage),
                  &parts.factors);
    return sum_parts(&parts);
}

/* ---- What can be used ------------------------------------------------------------------------ */

static uint64_t dearest(uint64_t most, bool possible, int64_t price)
{
    return possible && within(price) > most ? within(price) : most;
}

static uint64_t input_bound(const struct tg_price *price, unsigned kinds)
{
    int64_t input = price->input;
    uint64_t most = dearest(within(input), true, or_else(price->cached_input, input));

    most = dearest(most, kinds & TG_INPUT_WRITE, or_else(price->cache_write, input));
    most = dearest(most, kinds & TG_INPUT_WRITE_LONG, write_long_price(price));
    most = dearest(most, kinds & TG_INPUT_AUDIO, or_else(price->audio_input, input));
    return dearest(most, kinds & TG_INPUT_IMAGE, or_else(price->image_input, input));
}

static uint64_t output_bound(const struct tg_price *price, unsigned kinds)
{
    uint64_t most = within(price->output);

    most = dearest(most, kinds & TG_OUTPUT_AUDIO, or_else(price->audio_output, price->output));
    return dearest(most, kinds & TG_OUTPUT_IMAGE, or_else(price->image_output, price->output));
}

/* A shorter call is below a step, and a step may be cheaper than the one before it: the dearest
 * that can be reached counts. */
static void find_dearest_step(const struct tg_price *price, int64_t longest,
                              struct factors *factors)
{
    for (size_t i = 0; i < TG_PRICE_STEPS && price->steps[i].above > 0; i++)
        if (longest > price->steps[i].above) {
            uint64_t input = milli_of(price->steps[i].input_milli);
            uint64_t output = milli_of(price->steps[i].output_milli);
            factors->input = input > factors->input ? input : factors->input;
            factors->output = output > factors->output ? output : factors->output;
        }
}

/* All but the output. */
static void bound_rest(const struct tg_price *price, const struct tg_usage_bound *bound,
                       struct parts *parts)
{
    *parts = (struct parts){
        .input = times(bound->input, input_bound(price, bound->kinds)),
        .fees = fees_of(price, bound->tool_calls),
        .factors = {THOUSAND, THOUSAND, milli_of(bound->factor_milli)},
    };
    find_dearest_step(price, bound->longest > 0 ? bound->longest : bound->input, &parts->factors);
}

tg_micro tg_price_bound(const struct tg_price *price, const struct tg_usage_bound *bound)
{
    struct tg_price copy;
    struct parts parts;

    price = price_as_ours(price, &copy);
    if (!price || !bound)
        return TG_MONEY_MAX;
    bound_rest(price, bound, &parts);
    parts.output = times(bound->output, output_bound(price, bound->kinds));
    return sum_parts(&parts);
}

int64_t tg_price_affordable(const struct tg_price *price, const struct tg_usage_bound *bound,
                            tg_micro money)
{
    const exact unit = (exact)MILLION * MILLION;
    struct tg_price copy;
    struct parts rest;

    price = price_as_ours(price, &copy);
    if (!price || !bound)
        return -1;
    bound_rest(price, bound, &rest);
    if (money < 0 || sum_parts(&rest) > money)
        return -1;
    exact rate = output_bound(price, bound->kinds);
    if (rate == 0 || money >= TG_MONEY_MAX)
        return TG_NUMBER_MAX;
    exact needs = rest.input * rest.factors.input * rest.factors.all + rest.fees * unit;
    exact tokens = ((exact)money * unit - needs) / (rate * rest.factors.output * rest.factors.all);
    if (tokens > (SUM_MAX - 1) / rate)
        tokens = (SUM_MAX - 1) / rate;
    return tokens < (exact)TG_NUMBER_MAX ? (int64_t)tokens : TG_NUMBER_MAX;
}

/* ---- What cannot be -------------------------------------------------------------------------- */

static bool is_absurd(int64_t count)
{
    return count < 0 || count > COUNT_MAX;
}

bool tg_usage_absurd(const struct tg_usage *usage)
{
    return !usage || is_absurd(usage->input) || is_absurd(usage->cached_input) ||
           is_absurd(usage->cache_write) || is_absurd(usage->output) ||
           is_absurd(usage->cache_write_long) || is_absurd(usage->audio_input) ||
           is_absurd(usage->image_input) || is_absurd(usage->audio_output) ||
           is_absurd(usage->image_output) || is_absurd(usage->tool_calls);
}

bool tg_usage_exceeds(const struct tg_usage *usage, const struct tg_usage_bound *bound)
{
    return tg_usage_absurd(usage) || !bound || tg_usage_input(usage) > bound->input ||
           tg_usage_output(usage) > bound->output || usage->tool_calls > bound->tool_calls;
}
