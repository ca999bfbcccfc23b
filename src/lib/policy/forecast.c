/* forecast.c - scenarios from the past: see forecast.h.
 *
 * Likeness is judged by one number at two time scales: the logarithm of the price at which the
 * calls of the last moments, or of the last half window, would just fill the budgets. It is what
 * the policy is about, so two moments that agree in it are alike for us, whatever else differs.
 * Weights fall off with the distance; scenarios are then drawn at even steps of the summed
 * weights, which gives each its due without chance.
 *
 * Rejected: a mean forecast, however good. With the mean of two equally likely futures, one scarce
 * and one not, the price is right in neither (docs/bid-price.md has the numbers).
 */
#include "lib/policy/forecast.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double MOOD_WIDTH[2] = {0.35, 0.5}; /* octaves of price: what counts as alike */
static const double PRESENT_WEIGHT = 0.3; /* what the present weighs, in moments that are alike */
static const double PRIOR_CALLS = 32;     /* a prior counts as much as so many calls */
static const double ENOUGH = 0.5;     /* this part of the span must have been seen after a moment */
static const double ENOUGH_CALLS = 8; /* to judge a prior by */
static const double SHORTEST = 1.0 / 16; /* in blocks: what was seen for less is no rate yet */
static const float NO_PRICE = -300;      /* the logarithm of a price of 0, well below all others */

void forecast_init(struct forecast *forecast, unsigned axes, tg_ms window)
{
    memset(forecast, 0, sizeof *forecast);
    mix_init(&forecast->mix, axes);
    forecast->block = (double)window / FORECAST_PER_WINDOW;
    forecast->just_now.half_life = (double)window / 20;
    forecast->lately.half_life = (double)window / 2;
    forecast->at = -1;
}

/* ---- cells ---- */

/* What a unit of value takes, with all budgets equally scarce. */
static double plain_use(const struct mix_cell *cell)
{
    double use = 0;

    for (int a = 0; a < MIX_AXES; a++)
        use += cell->per_value[a];
    return use;
}

/* Sorts by insertion: from one time to the next hardly anything moves. */
static void put_in_order(struct forecast *forecast)
{
    const struct mix *mix = &forecast->mix;
    uint8_t *order = forecast->order;

    while (forecast->ordered < mix->n) {
        order[forecast->ordered] = (uint8_t)forecast->ordered;
        forecast->ordered++;
    }
    for (size_t i = 1; i < mix->n; i++) {
        uint8_t cell = order[i];
        double use = plain_use(&mix->cell[cell]);
        size_t j = i;
        for (; j > 0 && plain_use(&mix->cell[order[j - 1]]) > use; j--)
            order[j] = order[j - 1];
        order[j] = cell;
    }
}

static void move_cells(double *value, const int to[MIX_CELLS])
{
    double moved[MIX_CELLS] = {0};

    for (int i = 0; i < MIX_CELLS; i++)
        if (to[i] >= 0)
            moved[to[i]] += value[i];
    memcpy(value, moved, sizeof moved);
}

static void move_row(float *value, const int to[MIX_CELLS])
{
    float moved[MIX_CELLS] = {0};

    for (int i = 0; i < MIX_CELLS; i++)
        if (to[i] >= 0)
            moved[to[i]] += value[i];
    memcpy(value, moved, sizeof moved);
}

static void forecast_make_room(struct forecast *forecast)
{
    int to[MIX_CELLS];

    mix_make_room(&forecast->mix, forecast->ended - FORECAST_BLOCKS, to);
    move_cells(forecast->fresh, to);
    move_cells(forecast->running, to);
    move_cells(forecast->just_now.value, to);
    move_cells(forecast->lately.value, to);
    move_cells(forecast->prior.value, to);
    for (int i = 0; i < FORECAST_BLOCKS; i++)
        move_row(forecast->sum[i], to);
    forecast->ordered = 0;
}

static int cell_of(struct forecast *forecast, double value, const double use[MIX_AXES])
{
    int cell = mix_cell(&forecast->mix, value, use, forecast->ended);

    if (cell < 0) {
        forecast_make_room(forecast);
        cell = mix_cell(&forecast->mix, value, use, forecast->ended);
    }
    return cell;
}

void forecast_expect(struct forecast *forecast, double value, const double use[MIX_AXES],
                     double calls_a_ms)
{
    int cell = value > 0 ? cell_of(forecast, value, use) : -1;

    if (cell < 0)
        return;
    forecast->prior.value[cell] += value * calls_a_ms;
    forecast->prior.span = 1;
    forecast->prior_calls = PRIOR_CALLS;
}

void forecast_count(struct forecast *forecast, double value, const double use[MIX_AXES])
{
    int cell = value > 0 ? cell_of(forecast, value, use) : -1;

    forecast->seen++;
    if (cell >= 0)
        forecast->fresh[cell] += value;
}

void forecast_discount(struct forecast *forecast, double value, const double use[MIX_AXES])
{
    int cell = value > 0 ? mix_find(&forecast->mix, value, use) : -1;

    if (cell < 0)
        return;
    double fresh = fmin(value, forecast->fresh[cell]), counted = value - fresh;
    forecast->fresh[cell] -= fresh;
    double *const since[] = {&forecast->running[cell], &forecast->just_now.value[cell],
                             &forecast->lately.value[cell]};
    for (size_t i = 0; i < sizeof since / sizeof since[0] && counted > 0; i++)
        *since[i] = fmax(0, *since[i] - counted);
}

/* ---- time ---- */

static void recent_update(struct forecast_recent *recent, const double *fresh, size_t n, double ms)
{
    double kept = exp2(-ms / recent->half_life);

    assert(kept >= 0 && kept <= 1); /* time does not go back */

    recent->span = recent->span * kept + recent->half_life / log(2) * (1 - kept);
    for (size_t i = 0; i < n; i++)
        recent->value[i] = recent->value[i] * kept + fresh[i];
}

/* The logarithm of the price at which what came recently would just fill the budgets: in octaves.
 * */
static float mood(const struct forecast *forecast, const struct forecast_recent *recent)
{
    const struct mix *mix = &forecast->mix;
    double window = forecast->block * FORECAST_PER_WINDOW;
    /* The part of a window's budgets that is due, all of them added up, as the use is. */
    double left = fmax(recent->span, 1) / window * __builtin_popcount(mix->axes);

    for (size_t i = 0; i < forecast->ordered; i++) {
        double per_value = plain_use(&mix->cell[forecast->order[i]]);
        left -= recent->value[forecast->order[i]] * per_value;
        if (left < 0)
            return (float)-log2(per_value);
    }
    return NO_PRICE;
}

static float *row_of(struct forecast *forecast, int64_t block)
{
    return forecast->sum[block % FORECAST_BLOCKS];
}

/* Sums only ever grow, and floats with them lose what is small: from time to time they begin at 0
 * again, at the oldest that is kept. */
static void rebase(struct forecast *forecast)
{
    float base[MIX_CELLS];

    memcpy(base, row_of(forecast, forecast->ended), sizeof base); /* the next to be overwritten */
    for (int i = 0; i < FORECAST_BLOCKS; i++)
        for (int k = 0; k < MIX_CELLS; k++)
            forecast->sum[i][k] -= base[k];
}

static void end_block(struct forecast *forecast)
{
    int64_t block = forecast->ended;
    float *row = row_of(forecast, block);

    if (block > 0)
        memmove(row, row_of(forecast, block - 1), sizeof forecast->sum[0]);
    for (int k = 0; k < MIX_CELLS; k++)
        row[k] += (float)forecast->running[k];
    forecast->mood[block % FORECAST_BLOCKS][0] = mood(forecast, &forecast->just_now);
    forecast->mood[block % FORECAST_BLOCKS][1] = mood(forecast, &forecast->lately);
    forecast->ended++;
    if (forecast->ended % FORECAST_BLOCKS == 0)
        rebase(forecast);
}

/* Counts what is fresh, and lets time pass to `now`. */
static void pass(struct forecast *forecast, double ms)
{
    size_t n = forecast->mix.n;

    recent_update(&forecast->just_now, forecast->fresh, n, ms);
    recent_update(&forecast->lately, forecast->fresh, n, ms);
    for (size_t i = 0; i < n; i++) {
        forecast->running[i] += forecast->fresh[i];
        forecast->fresh[i] = 0;
    }
}

static void forecast_begin(struct forecast *forecast, tg_ms now)
{
    forecast->at = now;
    forecast->current = (int64_t)((double)now / forecast->block);
    forecast->whole = (double)now - (double)forecast->current * forecast->block < 1;
}

void forecast_update(struct forecast *forecast, tg_ms now)
{
    if (forecast->at < 0)
        forecast_begin(forecast, now);
    int64_t block = (int64_t)((double)now / forecast->block);
    put_in_order(forecast);
    pass(forecast, (double)(now - forecast->at));
    forecast->at = now;
    if (block > forecast->current + FORECAST_BLOCKS)
        forecast->current = block - FORECAST_BLOCKS; /* a long silence: more blocks say no more */
    for (; forecast->current < block; forecast->current++) {
        if (forecast->whole)
            end_block(forecast);
        memset(forecast->running, 0, sizeof forecast->running);
        forecast->whole = true;
    }
}

/* ---- scenarios ---- */

struct outlook {
    double blocks; /* how far ahead, in blocks */
    float mood[2]; /* now */
};

/* About exp(-distance / 2), for a tenth of its price, and nothing beyond 18: six widths. */
static double likeness(const float then[2], const float now[2])
{
    double distance = 0;

    for (int i = 0; i < 2; i++) {
        double d = (double)(then[i] - now[i]) / MOOD_WIDTH[i];
        distance += d * d;
    }
    double near = 1 - distance / 18, near2 = near * near, near4 = near2 * near2;
    return near > 0 ? near4 * near4 * near : 0;
}

/* How much of the past says what came after its moment: weights of the blocks from `first` on. */
static double weigh(const struct forecast *forecast, const struct outlook *ahead, int64_t first,
                    double *weights)
{
    assert(forecast->ended - first <= FORECAST_BLOCKS);
    double all = 0;

    for (int64_t block = first; block < forecast->ended; block++) {
        double after = (double)(forecast->ended - 1 - block);
        bool enough = after >= 1 && after >= ahead->blocks * ENOUGH;
        double weight = enough ? likeness(forecast->mood[block % FORECAST_BLOCKS], ahead->mood) : 0;
        weights[block - first] = weight;
        all += weight;
    }
    return all;
}

/* What came in the blocks after one of the past, stretched if they are too few. */
static void replay(struct forecast *forecast, int64_t block, const struct outlook *ahead,
                   double *value)
{
    double after = (double)(forecast->ended - 1 - block);
    double use = ahead->blocks < after ? ahead->blocks : after, stretch = ahead->blocks / use;
    int64_t whole = (int64_t)use;
    assert(use > 0 && stretch >= 1);
    double part = use - (double)whole;
    const float *from = row_of(forecast, block), *to = row_of(forecast, block + whole);
    const float *next = part > 0 ? row_of(forecast, block + whole + 1) : to;

    for (size_t k = 0; k < forecast->mix.n; k++) {
        double came = (double)(to[k] - from[k]) + part * (double)(next[k] - to[k]);
        value[k] = came > 0 ? came * stretch : 0;
    }
}

/* The present, or what was expected, going on: so many times what it was. */
static void repeat_recent(const struct forecast *forecast, const struct forecast_recent *recent,
                          double times, double *value)
{
    for (size_t k = 0; k < forecast->mix.n; k++)
        value[k] = recent->value[k] * times;
}

/* What a prior still counts, against all that was seen: it is as good as so many calls, as long as
 * it is like what came. */
static double trust_in_prior(const struct forecast *forecast, const struct outlook *ahead)
{
    if (forecast->prior_calls <= 0)
        return 0;
    double trust = forecast->prior_calls / (forecast->seen + 1);
    if (forecast->seen < ENOUGH_CALLS)
        return trust;
    float expected = mood(forecast, &forecast->prior);
    return trust * likeness((const float[2]){expected, expected},
                            (const float[2]){ahead->mood[1], ahead->mood[1]});
}

size_t forecast_draw(struct forecast *forecast, double span, struct forecast_scenario *scenarios)
{
    struct outlook ahead = {
        .blocks = span / forecast->block,
        .mood = {mood(forecast, &forecast->just_now), mood(forecast, &forecast->lately)}};
    int64_t first = forecast->ended > FORECAST_BLOCKS ? forecast->ended - FORECAST_BLOCKS : 0;
    double weights[FORECAST_BLOCKS], present = PRESENT_WEIGHT;
    double past = weigh(forecast, &ahead, first, weights);
    double prior = (past + present) * trust_in_prior(forecast, &ahead);
    double all = past + present + prior;
    size_t n = 0;

    double step = past / FORECAST_SCENARIOS, next = step / 2, sum = 0;
    for (int64_t block = first; block < forecast->ended && n < FORECAST_SCENARIOS; block++) {
        double drawn = 0;
        sum += weights[block - first];
        for (; sum > next && past > 0; next += step)
            drawn++;
        if (drawn > 0) {
            replay(forecast, block, &ahead, scenarios[n].value);
            scenarios[n++].weight = drawn * step / all;
        }
    }
    /* Two calls in the first ms of all are no sign that a thousand come each second. */
    double seen = fmax(forecast->lately.span, SHORTEST * forecast->block);
    repeat_recent(forecast, &forecast->lately, span / fmax(seen, 1), scenarios[n].value);
    scenarios[n++].weight = present / all;
    if (prior > 0) {
        repeat_recent(forecast, &forecast->prior, span, scenarios[n].value); /* it is for a ms */
        scenarios[n++].weight = prior / all;
    }
    assert(n >= 1 && n <= FORECAST_SCENARIOS + 2);
    return n;
}

/* ---- what was kept ---- */

static const double MOST_VALUE = 1e300;

static bool values_are_sane(const double *value)
{
    for (int i = 0; i < MIX_CELLS; i++)
        if (!(value[i] >= 0 && value[i] <= MOST_VALUE))
            return false;
    return true;
}

static bool recent_is_sane(const struct forecast_recent *recent, double half_life)
{
    bool same = recent->half_life >= half_life && recent->half_life <= half_life;

    return same && recent->span >= 0 && recent->span <= MOST_VALUE &&
           values_are_sane(recent->value);
}

bool forecast_is_sane(const struct forecast *forecast, const struct forecast *fresh, tg_ms now)
{
    bool sane = mix_is_sane(&forecast->mix) && forecast->mix.axes == fresh->mix.axes &&
                memcmp(&forecast->block, &fresh->block, sizeof fresh->block) == 0 &&
                forecast->at >= 0 && forecast->at <= now && forecast->current >= 0 &&
                (double)forecast->current <= (double)now / forecast->block + 1 &&
                forecast->ended >= 0 && forecast->seen >= 0 && forecast->seen <= MOST_VALUE &&
                forecast->prior_calls >= 0 && forecast->prior_calls <= PRIOR_CALLS &&
                forecast->ordered <= forecast->mix.n && values_are_sane(forecast->fresh) &&
                values_are_sane(forecast->running) &&
                recent_is_sane(&forecast->just_now, fresh->just_now.half_life) &&
                recent_is_sane(&forecast->lately, fresh->lately.half_life) &&
                recent_is_sane(&forecast->prior, fresh->prior.half_life);

    for (size_t i = 0; sane && i < forecast->ordered; i++)
        sane = forecast->order[i] < forecast->mix.n;
    for (int i = 0; sane && i < FORECAST_BLOCKS; i++) {
        sane = isfinite(forecast->mood[i][0]) && isfinite(forecast->mood[i][1]);
        for (int k = 0; sane && k < MIX_CELLS; k++)
            sane = isfinite(forecast->sum[i][k]);
    }
    return sane;
}
