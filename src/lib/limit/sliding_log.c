/* sliding_log.c - the last `period`, every call remembered.
 *
 *     admit iff  units charged in (now - period, now] + cost <= limit
 *
 * Exact where sliding_window estimates, at the price of memory: one record for each ms in which
 * something was charged. There cannot be more of them than units in the limit, nor than ms in
 * the period, so a key's state has a fixed size after all.
 *
 * The records are a ring in the order of time. A record keeps a running total instead of its own
 * units, so the units since any moment are one subtraction, and both questions of a check
 * (which records are live, when does the k-th unit expire) are binary searches.
 *
 *     head                                  head + n
 *      | at 1000 upto 3 | at 1100 upto 4 | ... |        base: the total before head
 *
 * No record is later than `latest`, and none is added before it.
 *
 * Promise: no span of `period` ever holds more than `limit` admitted units.
 */
#include "lib/core/problem.h"
#include "lib/limit/limit.h"

#include <string.h>

struct record {
    tg_ms at;
    int64_t upto;
};

struct sliding_log {
    tg_ms latest; /* when something was last charged; a clock that has stepped back stays there */
    int64_t head;
    int64_t n;
    int64_t base;
    struct record ring[];
};

enum { RECORDS_MAX = 1 << 20 };

/* Above this, running totals are brought back to 0: far from overflow, and seldom. */
static const int64_t TOTAL_MAX = INT64_C(1) << 60;

/* One more than can be live, so that a record can be put in before others are dropped. */
static int64_t capacity_of(const struct tg_limiter *limiter)
{
    return num_min(limiter->config.limit, limiter->config.period) + 1;
}

static struct record *record_at(const struct tg_limiter *limiter, struct sliding_log *log,
                                int64_t i)
{
    int64_t slot = log->head + i, capacity = capacity_of(limiter);

    assert(i >= 0 && i < capacity && log->head < capacity);
    return &log->ring[slot < capacity ? slot : slot - capacity];
}

static struct record get(const struct tg_limiter *limiter, const struct sliding_log *log, int64_t i)
{
    return *record_at(limiter, (struct sliding_log *)(uintptr_t)log, i);
}

/* The running total before record i. */
static int64_t total_before(const struct tg_limiter *limiter, const struct sliding_log *log,
                            int64_t i)
{
    return i > 0 ? get(limiter, log, i - 1).upto : log->base;
}

/* The first record after `moment`; n if there is none. */
static int64_t first_after(const struct tg_limiter *limiter, const struct sliding_log *log,
                           tg_ms moment)
{
    int64_t low = 0, high = log->n;

    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (get(limiter, log, middle).at > moment)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The record that holds the unit number `total`, counted as `upto` counts. */
static int64_t record_of_unit(const struct tg_limiter *limiter, const struct sliding_log *log,
                              int64_t total)
{
    int64_t low = 0, high = log->n - 1;

    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (get(limiter, log, middle).upto >= total)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static tg_ms latest(const struct sliding_log *log, tg_ms now)
{
    return num_max(log->latest, now);
}

static void sliding_log_reset(const struct tg_limiter *limiter, void *state)
{
    memset(state, 0, limiter->state_bytes);
}

static tg_ms sliding_log_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    const struct sliding_log *log = state;

    return log->n > 0 ? num_add(get(limiter, log, log->n - 1).at, limiter->config.period)
                      : log->latest;
}

/* When the call will fit: once so many units of the oldest have left the window. */
static tg_ms log_fits_from(const struct tg_limiter *limiter, const struct sliding_log *log,
                           int64_t total)
{
    tg_ms leaves = get(limiter, log, record_of_unit(limiter, log, total)).at;

    return num_add(leaves, limiter->config.period);
}

static void sliding_log_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                             int64_t cost, struct tg_decision *answer)
{
    const struct sliding_log *log = state;
    int64_t limit = limiter->config.limit;
    tg_ms period = limiter->config.period, at = latest(log, now);
    int64_t first = first_after(limiter, log, at - period);
    int64_t before = total_before(limiter, log, first);
    int64_t live = total_before(limiter, log, log->n) - before;
    int64_t left = num_less(limit, live);
    tg_ms reset_at = num_add(first < log->n ? get(limiter, log, first).at : at, period);

    assert(live >= 0);
    if (cost <= left)
        limit_allow(answer, limit, left - cost, reset_at);
    else if (cost > limit)
        limit_deny(answer, limit, left, reset_at, TG_UNSATISFIABLE);
    else
        limit_deny(answer, limit, left, reset_at,
                   limit_hint(log_fits_from(limiter, log, before + live + cost - limit) - now));
}

static void drop_expired(const struct tg_limiter *limiter, struct sliding_log *log, tg_ms at)
{
    int64_t dead = first_after(limiter, log, at - limiter->config.period);

    log->base = total_before(limiter, log, dead);
    log->n -= dead;
    assert(log->n >= 0 && log->n <= capacity_of(limiter));
    log->head = (log->head + dead) % capacity_of(limiter);
    if (log->base > TOTAL_MAX) {
        for (int64_t i = 0; i < log->n; i++)
            record_at(limiter, log, i)->upto -= log->base;
        log->base = 0;
    }
}

static void sliding_log_append(const struct tg_limiter *limiter, struct sliding_log *log, tg_ms at,
                               int64_t units)
{
    int64_t total = total_before(limiter, log, log->n) + units;

    assert(log->n == 0 || get(limiter, log, log->n - 1).at <= at); /* the order of time */
    if (log->n == 0 || get(limiter, log, log->n - 1).at != at)
        log->n++;
    assert(log->n <= capacity_of(limiter));
    *record_at(limiter, log, log->n - 1) = (struct record){at, total};
}

static void sliding_log_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost)
{
    struct sliding_log *log = state;

    if (cost == 0)
        return;
    if (now < log->latest)
        limit_note_step(limiter, state, now);
    log->latest = latest(log, now);
    drop_expired(limiter, log, log->latest);
    sliding_log_append(limiter, log, log->latest, cost);
}

/* Adds `units` (or takes them away) in record i and so in every total after it. */
static void shift_totals(const struct tg_limiter *limiter, struct sliding_log *log, int64_t i,
                         int64_t units)
{
    for (; i < log->n; i++) {
        record_at(limiter, log, i)->upto += units;
        assert(get(limiter, log, i).upto >= total_before(limiter, log, i));
    }
}

static void remove_record(const struct tg_limiter *limiter, struct sliding_log *log, int64_t i)
{
    for (; i + 1 < log->n; i++)
        *record_at(limiter, log, i) = get(limiter, log, i + 1);
    log->n--;
    assert(log->n >= 0);
}

/* Refunds take away the record's units while it is live. Those of several calls in the same ms
 * are in one record, and which of them a unit belonged to makes no difference. */
static void sliding_log_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                               struct tg_charge charge, int64_t units)
{
    struct sliding_log *log = state;
    int64_t i = first_after(limiter, log, charge.at - 1);

    (void)now;
    if (i == log->n || get(limiter, log, i).at != charge.at)
        return;
    int64_t held = get(limiter, log, i).upto - total_before(limiter, log, i);
    int64_t back = num_min(held, num_min(units, charge.cost));
    shift_totals(limiter, log, i, -back);
    if (back == held)
        remove_record(limiter, log, i);
}

/* Debt goes to the charge's own ms. Where that has no record (the estimate was 0), it goes to the
 * next one, which keeps it a little longer rather than shorter, or becomes the newest. */
static void add_debt(const struct tg_limiter *limiter, struct sliding_log *log, tg_ms at,
                     int64_t units)
{
    int64_t i = first_after(limiter, log, at - 1);

    log->latest = latest(log, at);
    if (i < log->n) {
        shift_totals(limiter, log, i, units);
    } else if (log->n < capacity_of(limiter)) {
        sliding_log_append(limiter, log, at, units);
    } else {
        record_at(limiter, log, log->n - 1)->at = at;
        shift_totals(limiter, log, log->n - 1, units);
    }
}

/* Only a charge moves the log's time: a settlement from a clock that is ahead for a moment must not
 * drop what has not left the window. */
static void sliding_log_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                               struct tg_charge charge, int64_t actual)
{
    struct sliding_log *log = state;

    if (actual < charge.cost) {
        sliding_log_refund(limiter, state, now, charge, charge.cost - actual);
        return;
    }
    if (limit_stepped(limiter, state, charge.at))
        charge.at = log->latest;
    tg_ms at = latest(log, charge.at);
    if (actual > charge.cost && charge.at > at - limiter->config.period) {
        drop_expired(limiter, log, at);
        int64_t held = total_before(limiter, log, log->n) - log->base;
        add_debt(limiter, log, charge.at, num_min(actual - charge.cost, TG_NUMBER_MAX - held));
    }
}

/* Where the new ring is too short, the last record takes the rest, with the latest of their times.
 * */
static void sliding_log_carry(const struct tg_limiter *limiter, void *state,
                              const struct tg_limiter *from, const void *counted, tg_ms now)
{
    const struct sliding_log *old = counted;
    tg_ms period = num_min(limiter->config.period, from->config.period);
    struct sliding_log *log = state;

    log->latest = old->latest;
    limit_carry_step(limiter, state, from, counted);
    for (int64_t i = first_after(from, old, latest(old, now) - period); i < old->n; i++) {
        struct record record = get(from, old, i);
        int64_t units = record.upto - total_before(from, old, i);
        if (log->n == capacity_of(limiter) - 1 && log->n > 0)
            record_at(limiter, log, log->n - 1)->at = record.at;
        sliding_log_append(limiter, log, record.at, units);
    }
}

static enum tg_err sliding_log_prepare(struct tg_limiter *limiter, struct tg_problem *problem)
{
    if (capacity_of(limiter) > RECORDS_MAX)
        return problem_say(problem, TG_ERR_INVALID,
                           "sliding_log: remembers every call, and so takes a limit or a window "
                           "(in ms) below %d; sliding_window has no such bound",
                           RECORDS_MAX);
    limiter->state_bytes =
        sizeof(struct sliding_log) + (size_t)capacity_of(limiter) * sizeof(struct record);
    return TG_OK;
}

const struct limit_strategy limit_sliding_log = {
    .ops = {"sliding_log", sliding_log_reset, sliding_log_fresh_at, sliding_log_peek,
            sliding_log_take, sliding_log_refund, sliding_log_settle, sliding_log_carry},
    .fields = {{"limit", offsetof(struct tg_limiter_config, limit), LIMIT_UNITS, TG_NUMBER_MAX, 0},
               {"window", offsetof(struct tg_limiter_config, period), LIMIT_TIME, TG_NUMBER_MAX,
                0}},
    .settled_bytes = sizeof(tg_ms),
    .prepare = sliding_log_prepare,
};
