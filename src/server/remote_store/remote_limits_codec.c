/* remote_limits_codec.c - a debit in the words of the scripts. See remote_limits_codec.h. */
#include "server/remote_store/remote_limits_codec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/array.h"
#include "lib/core/decision.h"
#include "lib/core/num.h"
#include "server/remote_store/remote_name.h"

enum { WORDS_EACH = 1 + LIMITS_WORDS_EACH };

void limits_codec_init(struct limits_codec *words)
{
    *words = (struct limits_codec){.n = 0};
}

void limits_codec_fini(struct limits_codec *words)
{
    free(words->text);
    free(words->ends);
    free(words->marks);
    limits_codec_init(words);
}

/* ---- making ---- */

static bool is_ours(const struct tg_limit *limit)
{
    const struct tg_limiter *limiter = &limit->limiter;

    return (limit->axis == TG_AXIS_RATE || limit->axis == TG_AXIS_COST) && limiter->ops != NULL &&
           limiter->ops->name == tg_strategy_name(limiter->config.strategy);
}

/* How many limiters; 0 if it cannot be a debit. */
static size_t remote_limits_codec_count(const struct remote_debit *debit)
{
    size_t n = 0;

    if (!num_in_range(debit->cost) || debit->n_scopes < 1 || debit->n_scopes > TG_SCOPES_MAX)
        return 0;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        const struct remote_scope *scope = &debit->scopes[i];
        if (scope->n < 1 || scope->n > TG_LIMITS_MAX)
            return 0;
        for (size_t k = 0; k < scope->n; k++)
            if (!is_ours(&scope->limits[k]))
                return 0;
        n += scope->n;
    }
    return n;
}

static void remote_limits_codec_put_number(struct remote_text *text, int64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, number);

    remote_text_put(text, (struct slice){digits, (size_t)n});
}

/* A double, every bit of it. Whole ones are written as such: that is shorter, and the same. */
static void put_double(struct remote_text *text, double number)
{
    char digits[40];
    int n = snprintf(digits, sizeof digits, "%.17g", number);

    /* A decimal comma is a locale's. */
    for (int i = 0; i < n; i++)
        if (digits[i] == ',')
            digits[i] = '.';
    remote_text_put(text, (struct slice){digits, (size_t)n});
}

/* Where a state says what its numbers were, any limit of the strategy continues from it. */
static bool is_carried(const struct tg_limiter_config *config)
{
    return config->strategy == TG_GCRA || config->strategy == TG_TOKEN_BUCKET;
}

/* What decides the meaning of a state: limits of another shape cannot read it. */
static void put_shape(struct remote_text *text, const struct tg_limiter_config *config)
{
    remote_text_put(text, slice_of(tg_strategy_name(config->strategy)));
    if (is_carried(config))
        return;
    remote_text_put(text, SLICE("="));
    remote_limits_codec_put_number(text, config->period);
    if (config->strategy != TG_SLIDING_WINDOW && config->strategy != TG_SLIDING_LOG)
        return;
    remote_text_put(text, SLICE("/")); /* the limit is the size of the log's ring */
    remote_limits_codec_put_number(text, config->strategy == TG_SLIDING_WINDOW ? config->buckets
                                                                               : config->limit);
}

bool limits_same_shape(const struct tg_limit *a, const struct tg_limit *b)
{
    const struct tg_limiter_config *x = &a->limiter.config, *y = &b->limiter.config;

    if (a->axis != b->axis || x->strategy != y->strategy)
        return false;
    if (is_carried(x))
        return true;
    return x->period == y->period && x->buckets == y->buckets &&
           (x->strategy != TG_SLIDING_LOG || x->limit == y->limit);
}

/* Two limits of one set may be of one shape, such as 5 and 8 a window: each has its own state. */
static void put_ordinal(struct remote_text *text, const struct remote_scope *scope, size_t limit)
{
    int64_t before = 0;

    for (size_t k = 0; k < limit; k++)
        before += limits_same_shape(&scope->limits[k], &scope->limits[limit]);
    if (before == 0)
        return;
    remote_text_put(text, SLICE("#"));
    remote_limits_codec_put_number(text, before + 1);
}

static void put_key(struct remote_text *text, const char *prefix, const struct remote_debit *debit,
                    const struct remote_scope *scope, size_t limit)
{
    remote_text_put(text, slice_of(prefix));
    remote_text_put(text, scope->limits[limit].axis == TG_AXIS_COST ? SLICE(":cost:{")
                                                                    : SLICE(":rate:{"));
    remote_text_name(text, debit->root);
    remote_text_put(text, SLICE("}:"));
    remote_text_name(text, scope->name);
    remote_text_put(text, SLICE(":"));
    remote_text_name(text, scope->key);
    remote_text_put(text, SLICE(":"));
    put_shape(text, &scope->limits[limit].limiter.config);
    put_ordinal(text, scope, limit);
}

static struct slice remote_limits_codec_place_of(const struct limits_mark *mark)
{
    if (mark->shadow)
        return mark->on_cost ? SLICE("cost-shadow") : SLICE("rate-shadow");
    return mark->on_cost ? SLICE("cost") : SLICE("rate");
}

/* The three numbers of limiters.lua, the second and third as text of their own. */
static void put_numbers(struct remote_text *text, const struct tg_limiter_config *config,
                        uint32_t *ends)
{
    remote_limits_codec_put_number(text, config->limit);
    ends[0] = (uint32_t)text->n;
    if (config->strategy == TG_TOKEN_BUCKET)
        put_double(text, config->refill);
    else
        remote_limits_codec_put_number(text, config->period);
    ends[1] = (uint32_t)text->n;
    remote_limits_codec_put_number(text, config->strategy == TG_GCRA             ? config->burst
                                         : config->strategy == TG_SLIDING_WINDOW ? config->buckets
                                                                                 : 0);
    ends[2] = (uint32_t)text->n;
}

/* So long a charge is lifetime, if no other follows. */
static tg_ms lifetime_of(const struct tg_limiter_config *config)
{
    switch (config->strategy) {
    case TG_GCRA:
        return num_ceil((double)config->period * (double)config->burst / (double)config->limit);
    case TG_TOKEN_BUCKET:
        return num_ceil((double)config->limit / config->refill * 1000);
    case TG_SLIDING_WINDOW: /* and the bucket that is on its way out */
        return num_add(config->period, config->period / config->buckets + 1);
    default:
        return config->period;
    }
}

static void put_limiter(struct limits_codec *words, struct remote_text *text, const char *prefix,
                        const struct remote_debit *debit, size_t scope, size_t limit)
{
    const struct tg_limit *from = &debit->scopes[scope].limits[limit];
    const struct tg_limiter_config *config = &from->limiter.config;
    uint32_t *ends = &words->ends[words->n * WORDS_EACH];
    struct limits_mark *mark = &words->marks[words->n++];

    *mark = (struct limits_mark){
        .scope = (uint8_t)scope,
        .limit = (uint8_t)limit,
        .on_cost = from->axis == TG_AXIS_COST,
        .shadow = from->mode == TG_SHADOW,
        .fades = config->strategy == TG_GCRA || config->strategy == TG_TOKEN_BUCKET,
        .ceiling = config->strategy == TG_GCRA ? config->burst : config->limit,
        .lifetime = lifetime_of(config),
    };
    put_key(text, prefix, debit, &debit->scopes[scope], limit);
    ends[0] = (uint32_t)text->n;
    remote_text_put(text, slice_of(tg_strategy_name(config->strategy)));
    ends[1] = (uint32_t)text->n;
    remote_text_put(text, remote_limits_codec_place_of(mark));
    ends[2] = (uint32_t)text->n;
    put_numbers(text, config, &ends[3]);
}

/* How long the text is; it may not fit. */
static size_t put_all(struct limits_codec *words, const char *prefix,
                      const struct remote_debit *debit)
{
    struct remote_text text = {words->text, words->text_capacity, 0};

    words->n = 0;
    for (size_t i = 0; i < debit->n_scopes; i++)
        for (size_t k = 0; k < debit->scopes[i].n; k++)
            put_limiter(words, &text, prefix, debit, i, k);
    return text.n;
}

enum tg_err limits_codec_set(struct limits_codec *words, const char *prefix,
                             const struct remote_debit *debit)
{
    size_t n = remote_limits_codec_count(debit);

    words->n = 0;
    if (n == 0)
        return TG_ERR_INVALID;
    if (!array_reserve(&words->ends, &words->ends_capacity, n * WORDS_EACH) ||
        !array_reserve(&words->marks, &words->marks_capacity, n))
        return TG_ERR_MEMORY;
    words->cost = debit->cost;
    words->charging = debit->charging;
    size_t needed = put_all(words, prefix, debit);
    if (needed <= words->text_capacity)
        return TG_OK;
    words->n = 0;
    if (needed > UINT32_MAX)
        return TG_ERR_INVALID;
    if (!array_reserve(&words->text, &words->text_capacity, needed))
        return TG_ERR_MEMORY;
    put_all(words, prefix, debit);
    assert(words->n == n);
    return TG_OK;
}

/* ---- calling ---- */

static struct slice word_at(const struct limits_codec *words, size_t i)
{
    uint32_t from = i > 0 ? words->ends[i - 1] : 0;

    return (struct slice){words->text + from, words->ends[i] - from};
}

struct slice limits_codec_key(const struct limits_codec *words, size_t i)
{
    return word_at(words, i * WORDS_EACH);
}

struct slice limits_codec_tag(const struct limits_codec *words, const char *prefix)
{
    struct slice key = limits_codec_key(words, 0);
    size_t from = strlen(prefix) + sizeof ":rate:" - 1;
    const char *end = memchr(key.at + from, '}', key.n - from);

    assert(key.n > from && key.at[from] == '{' && end != NULL);
    return (struct slice){key.at + from, (size_t)(end - key.at) + 1 - from};
}

static void add_arg(struct limits_call *call, struct slice arg)
{
    assert(call->n_args < sizeof call->args / sizeof call->args[0]);
    call->args[call->n_args++] = arg;
}

static void remote_limits_codec_add_number(struct limits_call *call, int64_t number)
{
    char *digits = call->numbers[call->n_args];
    int n = snprintf(digits, sizeof call->numbers[0], "%" PRId64, number);

    add_arg(call, (struct slice){digits, (size_t)n});
}

static void begin_call(struct limits_call *call, const struct limits_clock *clock)
{
    call->n_keys = call->n_args = 0;
    if (clock->callers)
        remote_limits_codec_add_number(call, clock->now);
    else
        add_arg(call, SLICE("*"));
    remote_limits_codec_add_number(call, clock->callers ? clock->ttl_floor : 0);
}

static void add_limiter(const struct limits_codec *words, size_t i, struct limits_call *call)
{
    assert(i < words->n && call->n_keys < sizeof call->keys / sizeof call->keys[0]);
    call->keys[call->n_keys++] = limits_codec_key(words, i);
    for (size_t k = 1; k < WORDS_EACH; k++)
        add_arg(call, word_at(words, i * WORDS_EACH + k));
}

void limits_codec_take(const struct limits_codec *words, const struct limits_clock *clock,
                       const char *flags, struct limits_call *call)
{
    bool peeks = flags[0] == 'p';

    begin_call(call, clock);
    add_arg(call, words->charging == TG_CHARGE_PER_AXIS ? SLICE("per-axis") : SLICE("atomic"));
    remote_limits_codec_add_number(call, words->cost);
    add_arg(call, clock->callers ? slice_of(flags) : peeks ? SLICE("tp") : SLICE("t"));
    for (size_t i = 0; i < words->n; i++)
        add_limiter(words, i, call);
}

static int64_t units_of(const struct limits_codec *words, const struct limits_mark *mark)
{
    return mark->on_cost ? words->cost : 1;
}

/* Something that is told, and marked as done if it may be told again. */
static void begin_telling(struct limits_call *call, const struct limits_clock *clock,
                          const struct limits_once *once)
{
    begin_call(call, clock);
    if (once != NULL)
        remote_limits_codec_add_number(call, once->bit);
    else
        add_arg(call, SLICE(""));
}

/* The marks are the last of the keys. */
static bool end_telling(struct limits_call *call, const struct limits_once *once)
{
    bool something = call->n_keys > 0;

    if (once != NULL)
        call->keys[call->n_keys++] = once->key;
    return something;
}

bool limits_codec_undo(const struct limits_codec *words, const struct limits_clock *clock,
                       const struct limits_once *once, tg_ms charged_at, struct limits_call *call)
{
    begin_telling(call, clock, once);
    remote_limits_codec_add_number(call, charged_at);
    remote_limits_codec_add_number(call, words->cost);
    for (size_t i = 0; i < words->n; i++)
        if (words->marks[i].charged)
            add_limiter(words, i, call);
    return end_telling(call, once);
}

static bool was_charged(const struct limits_mark *mark, const struct remote_charge *charge)
{
    return !(charge->uncharged[mark->scope] & 1u << mark->limit);
}

void limits_codec_charged(struct limits_codec *words, const struct remote_charge *charge)
{
    for (size_t i = 0; i < words->n; i++)
        words->marks[i].charged =
            was_charged(&words->marks[i], charge) && units_of(words, &words->marks[i]) > 0;
}

bool limits_codec_debt(const struct limits_codec *words, const struct limits_clock *clock,
                       const struct limits_once *once, tg_ms age, tg_ms fades_within,
                       struct limits_call *call)
{
    begin_telling(call, clock, once);
    remote_limits_codec_add_number(call, age);
    remote_limits_codec_add_number(call, words->cost);
    for (size_t i = 0; i < words->n; i++) {
        const struct limits_mark *mark = &words->marks[i];
        tg_ms lifetime = mark->fades ? num_min(mark->lifetime, fades_within) : mark->lifetime;
        if (!mark->charged && !mark->shadow && age < lifetime && units_of(words, mark) > 0)
            add_limiter(words, i, call);
    }
    return end_telling(call, once);
}

tg_ms limits_codec_lifetime(const struct limits_codec *words)
{
    tg_ms lifetime = 0;

    for (size_t i = 0; i < words->n; i++)
        lifetime = num_max(lifetime, words->marks[i].lifetime);
    return lifetime;
}

/* Scopes are told apart by a word; any will do. */
static struct slice scope_word(const struct limits_mark *mark)
{
    static const char LETTERS[TG_SCOPES_MAX + 1] = "abcdefghijklmnop";

    return (struct slice){&LETTERS[mark->scope], 1};
}

bool limits_codec_settle(const struct limits_codec *words, const struct limits_clock *clock,
                         const struct limits_once *once, const struct remote_charge *charge,
                         int64_t actual, struct limits_call *call)
{
    size_t n = 0;

    begin_telling(call, clock, once);
    remote_limits_codec_add_number(call, charge->at);
    remote_limits_codec_add_number(call, words->cost);
    remote_limits_codec_add_number(call, actual);
    size_t n_at = call->n_args++;
    for (size_t i = 0; i < words->n; i++) {
        const struct limits_mark *mark = &words->marks[i];
        if (!mark->on_cost || !was_charged(mark, charge))
            continue;
        add_limiter(words, i, call);
        call->args[call->n_args - LIMITS_WORDS_EACH + 1] = scope_word(mark);
        n++;
    }
    call->args[n_at] =
        (struct slice){call->numbers[n_at], (size_t)snprintf(call->numbers[n_at], 24, "%zu", n)};

    /* A call that was charged nothing and costs nothing: see settle.lua. */
    for (size_t i = 0; words->cost == 0 && actual == 0 && i < words->n; i++)
        if (!words->marks[i].on_cost) {
            call->keys[call->n_keys++] = limits_codec_key(words, i);
            add_arg(call, scope_word(&words->marks[i]));
        }
    end_telling(call, once);
    return n > 0 && (actual != words->cost || actual == 0);
}

/* ---- reading ---- */

/* Where the four of each limiter begin: the first of each axis has its place, the others follow,
 * those of rate before those of cost. Returns how many numbers there are. */
static size_t remote_limits_codec_lay_out(const struct limits_codec *words,
                                          size_t at[LIMITS_WORDS_MAX])
{
    size_t next = 13;

    for (int on_cost = 0; on_cost <= 1; on_cost++) {
        bool first = true;
        for (size_t i = 0; i < words->n; i++) {
            if (words->marks[i].on_cost != (on_cost == 1))
                continue;
            at[i] = first ? (on_cost ? 9 : 5) : next;
            next += first ? 0 : 4;
            first = false;
        }
    }
    return next;
}

/* `n` numbers of the reply. */
static bool read_numbers(const struct redisReply *reply, size_t from, size_t n, int64_t *numbers)
{
    for (size_t i = 0; i < n; i++) {
        numbers[i] = redis_reply_integer(redis_reply_at(reply, from + i), INT64_MIN);
        if (numbers[i] < -1 || numbers[i] > TG_NUMBER_MAX)
            return false;
    }
    return true;
}

static bool is_decision(const int64_t four[4])
{
    return (four[0] == 0 || four[0] == 1) && four[1] >= 0 && four[2] >= 0 && four[3] >= 0 &&
           (four[0] == 0 || four[3] == 0);
}

static bool not_asked(const int64_t four[4])
{
    return four[0] == -1 && four[1] == -1 && four[2] == -1 && four[3] == -1;
}

/* Does what src/lib/store/claim.c does. */
static void add_answer(struct tg_axes *axes, const struct limits_mark *mark, const int64_t four[4])
{
    enum tg_axis axis = mark->on_cost ? TG_AXIS_COST : TG_AXIS_RATE;
    struct tg_limit_answer answer = {
        .scope = mark->scope,
        .limit = mark->limit,
        .decision = {four[0] == 1, mark->ceiling, four[1], four[2], four[3]}};

    if (!answer.decision.allowed && mark->shadow)
        axes->would_deny |= 1u << axis;
    else
        axes_add(axes, axis, &answer);
}

/* Whether the first five numbers are the combination of the others. Where an axis was looked at for
 * its hints, these are in here alone, and may be larger. */
static bool agrees(const struct redisReply *reply, bool has_hints, struct tg_axes *axes)
{
    struct tg_decision all;
    int64_t five[5];

    if (!read_numbers(reply, 0, 5, five))
        return false;
    all = axes_combine(axes);
    if (has_hints && five[3] >= all.reset_at && five[4] >= all.retry_after_ms) {
        axes->reset_at = five[3];
        axes->retry_after_ms = five[4];
        all = axes_combine(axes);
    }
    return five[0] == all.allowed && five[1] == all.limit && five[2] == all.remaining &&
           five[3] == all.reset_at && five[4] == all.retry_after_ms;
}

/* Cost may not have been asked, but only because rate has refused. */
static bool read_axes(struct limits_codec *words, const struct redisReply *reply,
                      const size_t at[LIMITS_WORDS_MAX], struct tg_axes *axes)
{
    size_t unasked = 0, costs = 0;

    axes_clear(axes);
    for (size_t i = 0; i < words->n; i++) {
        struct limits_mark *mark = &words->marks[i];
        int64_t four[4];
        costs += mark->on_cost;
        if (!read_numbers(reply, at[i], 4, four))
            return false;
        if (mark->on_cost && not_asked(four)) {
            mark->charged = false;
            unasked++;
            continue;
        }
        if (!is_decision(four))
            return false;
        mark->charged = four[0] == 1 && units_of(words, mark) > 0;
        add_answer(axes, mark, four);
    }
    bool rate_refused = tg_axes_binding(axes) == TG_AXIS_RATE;
    if (words->charging == TG_CHARGE_PER_AXIS && rate_refused)
        return unasked == costs && agrees(reply, costs > 0, axes);
    bool has_spent = words->charging == TG_CHARGE_PER_AXIS && tg_axes_binding(axes) == TG_AXIS_COST;
    return unasked == 0 && agrees(reply, has_spent, axes);
}

/* Limits that allowed were charged, unless one of their axis refused; if atomic, any limit. */
static void note_charge(struct limits_codec *words, const struct tg_axes *axes,
                        struct remote_charge *charge)
{
    enum tg_axis binding = tg_axes_binding(axes);
    bool rate_paid = binding == TG_AXIS_NONE ||
                     (binding == TG_AXIS_COST && words->charging == TG_CHARGE_PER_AXIS);

    memset(charge->uncharged, 0, sizeof charge->uncharged);
    for (size_t i = 0; i < words->n; i++) {
        struct limits_mark *mark = &words->marks[i];
        mark->charged = mark->charged && (mark->on_cost ? binding == TG_AXIS_NONE : rate_paid);
        if (mark->shadow && !mark->charged)
            charge->uncharged[mark->scope] |= (uint8_t)(1u << mark->limit);
    }
}

/* If a reply makes no sense, nobody knows what was charged. */
static void forget_charge(struct limits_codec *words)
{
    for (size_t i = 0; i < words->n; i++)
        words->marks[i].charged = false;
}

bool limits_codec_read(struct limits_codec *words, const struct limits_clock *clock,
                       const struct redisReply *reply, struct tg_axes *axes,
                       struct remote_charge *charge)
{
    size_t at[LIMITS_WORDS_MAX];
    size_t n = remote_limits_codec_lay_out(words, at);
    int64_t when = clock->now;

    if (redis_reply_is_error(reply) || redis_reply_n(reply) != n + !clock->callers)
        return false;
    if (!clock->callers && (!read_numbers(reply, n, 1, &when) || when < 0))
        return false;
    if (!read_axes(words, reply, at, axes)) {
        forget_charge(words);
        return false;
    }
    note_charge(words, axes, charge);
    charge->at = when;
    return true;
}
