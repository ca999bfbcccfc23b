/* remote_blocks_credit.c - leasing and spending of one limit. See remote_blocks_credit.h.
 *
 * Life. Units of gcra and token_bucket are charged as if spent at the end of their life, and of an
 * idle limit so many less can be leased: a quarter of its burst at most, which bounds their life.
 * Units of the sliding ones leave the window of Redis `life` later, which costs that share of their
 * rate: a fiftieth at most.
 *
 * Size. About a second of what is asked for: then a busy node asks Redis once or twice a second,
 * however busy it is, and what it holds in vain when its calls stop is back within two. Demand
 * rises at once and falls with a half-life of some hundred ms.
 *
 * Refusals. When Redis has too little, it is not asked again before a refused call could have been
 * granted, and not before it is worth an ask: units of a bucket that come in meanwhile are not
 * lost, they come in one block. Of a window the others may give something back at any time: it is
 * asked again after two seconds at the latest. Of a sliding window units come free all the time,
 * and what nobody takes is lost: it is asked again when a block would have been used up, and after
 * the life of a block at the latest, when what others held is spent or back; it gives all that is
 * left to who wants it, and gets back what a block has over before it ends.
 */
#include "server/remote_store/remote_blocks_credit.h"

#include <assert.h>

#include "lib/core/num.h"

static const tg_ms LIFE_LEAST = 50;          /* a block that lives shorter is not worth it */
static const tg_ms SLIDE_LEAST = 100;        /* the same for a sliding window: a few ticks */
static const tg_ms HORIZON = 1000;           /* what a block should last for */
static const tg_ms LOW = 50;                 /* so much before the end the next is asked for */
static const tg_ms MEASURE = 20;             /* below, a rate is chance */
static const double RISES = 50, FADES = 200; /* ms, of demand: to go half the way */
static const tg_ms REFUSED_BRIEFLY = 500;    /* at least until it is worth an ask */
static const tg_ms REFUSED_LONG = 2000;
static const tg_ms IDLE = 1000;
static const tg_ms QUICKLY = 50;  /* a block that was used up */
static const tg_ms EXPIRING = 60; /* more than a tick: so much before its end a block is returned */
static const tg_ms SETTLED = 200; /* what is asked for is known after so long */

/* ---- what it is of ---- */

static tg_ms shorter(double a, tg_ms b)
{
    return a < (double)b ? num_floor(a) : b;
}

/* A burst that refills at a rate; null-proof by the limiter's own checks. */
static void init_burst(struct credit *credit, int64_t burst, double rate, tg_ms life)
{
    credit->limit = burst;
    credit->rate = rate;
    credit->life = shorter((double)burst / 4 / rate, life);
    if (credit->life >= LIFE_LEAST)
        credit->most = num_floor((double)burst - (double)credit->life * rate);
}

static void init_window(struct credit *credit, const struct tg_limiter_config *config)
{
    credit->limit = credit->most = config->limit;
    credit->period = config->period;
    credit->rate = (double)config->limit / (double)config->period;
}

/* A window of so many ms more, and what it is called in Redis. False: there is no such limiter. */
static bool lengthen(struct tg_limit *leased, tg_ms more)
{
    struct tg_limiter_config config = leased->limiter.config;
    struct tg_problem problem;

    config.period = num_add(config.period, more);
    return tg_limiter_init(&leased->limiter, &config, &problem) == TG_OK;
}

/* A sliding window counts whole buckets: it has to be longer by the life in all but one of them. */
static tg_ms longer_by(const struct tg_limiter_config *config, tg_ms life)
{
    if (config->strategy != TG_SLIDING_WINDOW)
        return life;
    return num_ceil((double)life * (double)config->buckets / (double)(config->buckets - 1));
}

static void init_sliding(struct credit *credit, const struct tg_limiter_config *config, tg_ms life,
                         struct tg_limit *leased)
{
    bool one_bucket = config->strategy == TG_SLIDING_WINDOW && config->buckets < 2;

    credit->limit = config->limit;
    credit->rate = (double)config->limit / (double)config->period;
    credit->life = num_min(config->period / 50, life);
    credit->slides = true;
    credit->by_moment = config->strategy == TG_SLIDING_LOG;
    if (!one_bucket && credit->life >= SLIDE_LEAST &&
        lengthen(leased, longer_by(config, credit->life)))
        credit->most = config->limit;
}

void credit_init(struct credit *credit, const struct tg_limit *given, tg_ms block, tg_ms life,
                 struct tg_limit *leased, tg_ms now)
{
    const struct tg_limiter_config *config = &given->limiter.config;

    *credit = (struct credit){.measured_at = now, .asked_at = now};
    *leased = *given;
    switch (config->strategy) {
    case TG_GCRA:
        init_burst(credit, config->burst, (double)config->limit / (double)config->period, life);
        break;
    case TG_TOKEN_BUCKET:
        init_burst(credit, config->limit, config->refill / 1000, life);
        break;
    case TG_SLIDING_WINDOW:
    case TG_SLIDING_LOG:
        init_sliding(credit, config, life, leased);
        break;
    case TG_TOKEN_BUDGET:
        credit->meter = true;
        init_window(credit, config);
        credit->most = TG_NUMBER_MAX;
        break;
    default:
        init_window(credit, config);
    }
    credit->left = credit->limit;
    credit->first = num_max(num_floor(credit->rate * (double)block), 1);
}

/* ---- what Redis has to be told ---- */

static void note_unsent(struct credit *credit, tg_ms now)
{
    if (credit->back == 0 && credit->debt == 0)
        credit->unsent_since = now;
}

/* Whether `at` is in the window of what is here. */
static bool is_current(const struct credit *credit, tg_ms at)
{
    return credit->period > 0 && credit->n > 0 && at >= credit->reset_at - credit->period;
}

/* If several are returned, the earliest time counts: the least deficit since then is the lowest. */
static void add_back(struct credit *credit, int64_t units, tg_ms at, tg_ms now)
{
    note_unsent(credit, now);
    bool first = credit->back == 0, same = at == credit->back_at;

    /* The log forgets what it cannot name, and windows what is not theirs any more. */
    if (!first && !same && credit->by_moment)
        return;
    if (!first && credit->period > 0 && at / credit->period != credit->back_at / credit->period) {
        credit->back = at > credit->back_at ? 0 : credit->back;
        first = credit->back == 0;
        if (!first)
            return;
    }
    assert(units > 0);
    credit->back_at = first ? at : num_min(at, credit->back_at);
    credit->back = num_add(credit->back, units);
}

/* ---- blocks ---- */

/* What is always true of a credit: its units are those of its blocks, and nothing is negative. The
 * sums saturate. */
static bool credit_adds_up(const struct credit *credit)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < credit->n; i++) {
        if (credit->blocks[i].units < 0)
            return false;
        sum = num_add(sum, credit->blocks[i].units);
    }
    return credit->n <= CREDIT_BLOCKS && sum == credit->units && credit->back >= 0 &&
           credit->debt >= 0;
}

/* What nobody has spent of a sliding window goes back: it would count there for a whole one. */
static void void_block(struct credit *credit, const struct credit_block *block, tg_ms now)
{
    credit->units -= block->units;
    if (credit->slides && block->units > 0)
        add_back(credit, block->units, block->at, now);
}

void credit_expire(struct credit *credit, tg_ms now)
{
    unsigned gone = 0;

    while (gone < credit->n && credit->blocks[gone].ends <= now)
        void_block(credit, &credit->blocks[gone++], now);
    if (gone == 0)
        return;
    assert(gone <= credit->n);
    credit->n -= gone;
    for (unsigned i = 0; i < credit->n; i++)
        credit->blocks[i] = credit->blocks[i + gone];
    assert(credit_adds_up(credit));
}

/* Blocks of one window end together, and are one. Others are joined where there are too many: the
 * one that ends first counts, and the one that was charged first. */
static void add_block(struct credit *credit, struct credit_block block)
{
    struct credit_block *last = credit->n > 0 ? &credit->blocks[credit->n - 1] : NULL;

    assert(block.units > 0 && credit->n <= CREDIT_BLOCKS);
    credit->units = num_add(credit->units, block.units);
    if (last && (credit->period > 0 || credit->n == CREDIT_BLOCKS)) {
        last->units = num_add(last->units, block.units);
        last->ends = num_min(last->ends, block.ends);
        last->at = num_min(last->at, block.at);
        return;
    }
    /* The safe side of a slow round trip may let a later block end earlier. */
    assert(credit->n < CREDIT_BLOCKS);
    unsigned i = credit->n++;
    for (; i > 0 && credit->blocks[i - 1].ends > block.ends; i--)
        credit->blocks[i] = credit->blocks[i - 1];
    credit->blocks[i] = block;
    assert(credit_adds_up(credit));
}

tg_ms credit_spend(struct credit *credit, int64_t units)
{
    tg_ms leased_at = INT64_MAX;
    unsigned used = 0;

    assert(units >= 0 && units <= credit->units);
    credit->units -= units;
    for (unsigned i = 0; i < credit->n && units > 0; i++) {
        int64_t part = num_min(units, credit->blocks[i].units);
        if (part > 0)
            leased_at = num_min(leased_at, credit->blocks[i].at);
        credit->blocks[i].units -= part;
        units -= part;
        used += credit->blocks[i].units == 0;
    }
    /* The last one stays, and with it the window that is known. */
    used = credit->n > 0 && used == credit->n ? used - 1 : used;
    credit->n -= used;
    for (unsigned i = 0; used > 0 && i < credit->n; i++)
        credit->blocks[i] = credit->blocks[i + used];
    assert(units == 0 && credit_adds_up(credit));
    return leased_at;
}

/* ---- deciding ---- */

enum credit_verdict credit_peek(const struct credit *credit, int64_t units, tg_ms now, bool final)
{
    assert(units >= 0 && credit->units >= 0);
    if (units <= credit->units)
        return CREDIT_YES;
    if (!credit->meter && units > credit->limit)
        return CREDIT_NO;
    if (credit->denied_until > now && (credit->is_scarce || units > credit->units + credit->left))
        return CREDIT_NO;
    return final && credit->fell_short ? CREDIT_NO : CREDIT_UNKNOWN;
}

void credit_answer(const struct credit *credit, int64_t units, bool refused, tg_ms now,
                   struct tg_decision *answer)
{
    int64_t there = num_min(num_add(credit->units, credit->left), credit->limit);

    *answer = (struct tg_decision){.allowed = !refused,
                                   .limit = credit->limit,
                                   .remaining = refused ? there : num_less(there, units),
                                   .reset_at = credit->is_known ? credit->reset_at : now};
    if (!refused)
        return;
    answer->retry_after_ms = !credit->meter && units > credit->limit
                                 ? TG_UNSATISFIABLE
                                 : num_max(credit->retry_at - now, 1);
}

/* ---- demand ---- */

void credit_note(struct credit *credit, int64_t units, tg_ms now)
{
    credit->asked = num_add(credit->asked, units);
    credit->asked_at = now;
}

/* Units a ms, as they were asked for most lately. */
static double remote_blocks_credit_measure(struct credit *credit, tg_ms now)
{
    tg_ms span = now - credit->measured_at;

    if (span < MEASURE)
        return credit->demand;
    double latest = (double)credit->asked / (double)span;
    double weight = (double)span / ((double)span + (latest > credit->demand ? RISES : FADES));
    credit->demand += (latest - credit->demand) * weight;
    credit->asked = 0;
    credit->measured_at = now;
    return credit->demand;
}

static tg_ms horizon_of(const struct credit *credit)
{
    return num_min(HORIZON, credit->life ? credit->life * 3 / 4 : credit->period);
}

int64_t credit_target(struct credit *credit, tg_ms now)
{
    int64_t lasts =
        num_floor(remote_blocks_credit_measure(credit, now) * (double)horizon_of(credit));
    int64_t least = credit->granted == 0 ? credit->first : 1;

    /* Used up sooner than a rate can be measured: twice as much, then. */
    if (credit->granted > 0 && now - credit->granted_at < QUICKLY)
        least = num_add(credit->granted, credit->granted);
    return num_min(num_max(least, lasts), num_max(credit->most, 1));
}

bool credit_is_low(const struct credit *credit, tg_ms now)
{
    int64_t low = num_min(num_floor(credit->demand * (double)LOW), credit->granted / 4);

    return credit->units < low && credit->denied_until <= now;
}

/* ---- what Redis says ---- */

/* How long a limit without a window may be left alone, so that what comes in meanwhile is not lost:
 * each holder gets his share of it, so it has to hold as much for all of them. */
static tg_ms left_alone(const struct credit *credit, int64_t holders)
{
    double fills = (double)credit->most / 2 / credit->rate / (double)holders;

    return num_max(shorter(fills, REFUSED_BRIEFLY), 1);
}

static tg_ms refused_for(const struct credit *credit, tg_ms wait, const struct credit_pace *pace)
{
    if (credit->slides) {
        tg_ms again = num_min(left_alone(credit, pace->holders), horizon_of(credit));
        return num_min(num_max(wait, shorter(pace->worth, again)),
                       num_max(credit->life, REFUSED_BRIEFLY));
    }
    if (credit->period > 0)
        return num_min(wait, num_max(REFUSED_BRIEFLY, shorter(pace->worth, REFUSED_LONG)));
    return num_min(num_max(wait, shorter(pace->worth, left_alone(credit, pace->holders))),
                   REFUSED_LONG);
}

/* What was not granted is not there, or not for us: when the units are used up it is too early to
 * ask again. Whoever took little bites all the time would get no more. */
static void refuse_for_a_while(struct credit *credit, const struct credit_reply *reply, tg_ms now,
                               int64_t want, const struct credit_pace *pace)
{
    credit->is_scarce =
        !credit->fell_short && credit->life > 0 && reply->granted < want && reply->left < 2 * want;
    if (credit->fell_short)
        credit->denied_until = num_add(now, refused_for(credit, reply->wait, pace));
    else if (credit->is_scarce)
        credit->denied_until = num_add(now, refused_for(credit, 1, pace));
    else
        credit->denied_until = 0;
    credit->retry_at = num_max(num_add(now, reply->wait), credit->denied_until);
}

void credit_learn(struct credit *credit, const struct credit_reply *reply, tg_ms sent_at, tg_ms now,
                  int64_t want, int64_t need, const struct credit_pace *pace)
{
    /* The script ran at sent_at or later, and Redis counts in whole ms. */
    tg_ms lasts = credit->life ? credit->life : reply->reset_at - reply->time;
    struct credit_block block = {reply->granted, sent_at + lasts - 1, reply->time};

    credit_expire(credit, now);
    credit->is_known = true;
    credit->left = reply->left;
    credit->reset_at = reply->reset_at;
    if (want == 0)
        return;
    credit->granted = reply->granted;
    credit->granted_at = now;
    if (reply->granted > 0 && block.ends > now)
        add_block(credit, block);
    else if (reply->granted > 0)
        add_back(credit, reply->granted, reply->time, now);
    credit->fell_short = reply->granted < need;
    refuse_for_a_while(credit, reply, now, want, pace);
}

/* ---- giving back ---- */

void credit_refund(struct credit *credit, int64_t units, tg_ms at, tg_ms leased_at, tg_ms now)
{
    credit_expire(credit, now);
    if (!is_current(credit, at)) {
        add_back(credit, units, leased_at, now);
        return;
    }
    credit->blocks[credit->n - 1].units += units;
    credit->units += units;
    assert(credit_adds_up(credit));
}

void credit_add_debt(struct credit *credit, int64_t units, tg_ms at, tg_ms now)
{
    credit_expire(credit, now);
    if (credit->period == 0 || is_current(credit, at)) {
        int64_t here = num_min(units, credit->units);
        credit_spend(credit, here);
        units -= here;
    }
    assert(units >= 0);
    if (units == 0)
        return;
    note_unsent(credit, now);
    /* The later of two windows counts: the other is over. */
    if (credit->debt > 0 && credit->period > 0 &&
        at / credit->period != credit->debt_at / credit->period)
        credit->debt = at > credit->debt_at ? 0 : credit->debt;
    credit->debt_at = num_max(credit->debt_at, at);
    credit->debt = num_add(credit->debt, units);
}

void credit_restore(struct credit *credit, int64_t back, tg_ms back_at, int64_t debt, tg_ms debt_at,
                    tg_ms now)
{
    if (back > 0)
        add_back(credit, back, back_at, now);
    if (debt > 0)
        credit_add_debt(credit, debt, debt_at, now);
}

int64_t credit_return(struct credit *credit, int64_t units, tg_ms now)
{
    int64_t returned = 0;

    for (unsigned i = 0; i < credit->n && returned < units; i++) {
        struct credit_block *block = &credit->blocks[credit->slides ? i : credit->n - 1 - i];
        int64_t part = num_min(units - returned, block->units);
        if (part == 0)
            continue;
        /* Only one moment can be named at a time. */
        if (credit->by_moment && credit->back > 0 && credit->back_at != block->at)
            break;
        block->units -= part;
        credit->units -= part;
        returned += part;
        add_back(credit, part, block->at, now);
    }
    assert(returned <= units && credit_adds_up(credit));
    return returned;
}

/* Units of blocks that end before the next tick, be it a late one. */
static int64_t expiring_units(const struct credit *credit, tg_ms now)
{
    tg_ms margin = num_max(EXPIRING, credit->life / 4);
    int64_t units = 0;

    for (unsigned i = 0; i < credit->n && credit->blocks[i].ends - now <= margin; i++)
        units += credit->blocks[i].units;
    return units;
}

int64_t credit_surplus(struct credit *credit, tg_ms now)
{
    tg_ms lasts = credit->n > 0 ? credit->blocks[credit->n - 1].ends - now : 0;
    double demand = remote_blocks_credit_measure(credit, now);

    if (credit->units == 0)
        return 0;
    if (credit->slides && expiring_units(credit, now) > 0)
        return expiring_units(credit, now);
    if (now - credit->granted_at < SETTLED)
        return 0;
    if (now - credit->asked_at >= IDLE)
        return credit->units;
    /* Half as much again as is expected, and not for less than a quarter of a block. */
    int64_t needed = num_ceil(demand * 1.5 * (double)num_min(lasts, HORIZON * 3 / 2)) + 1;
    int64_t surplus = num_less(credit->units, needed);
    return surplus > credit->granted / 4 ? surplus : 0;
}
