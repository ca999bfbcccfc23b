/* test_config.c - what makes a limiter and what does not: specs, fields, ranges. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "subject.h"

#define NUMBER_MAX_TEXT "9007199254740991"
#define ABOVE_NUMBER_MAX_TEXT "9007199254740992"
#define SIXTY_ZEROS "000000000000000000000000000000000000000000000000000000000000"

/* Parses and initialises; the first error counts. */
static enum tg_err make(const char *spec, struct tg_limiter *limiter, struct tg_problem *problem)
{
    struct tg_limiter_config config;
    enum tg_err err = tg_limiter_config_parse(&config, spec, problem);

    return err != TG_OK ? err : tg_limiter_init(limiter, &config, problem);
}

/* ---- good specs ---- */

static void a_spec_sets_the_fields_of_its_strategy(void **state)
{
    static const struct {
        const char *spec;
        struct tg_limiter_config want;
    } rows[] = {
        {"gcra:limit=10,period=1000,burst=5", {TG_GCRA, 10, 1000, 5, 0, 0}},
        {"gcra:limit=10,period=1000", {TG_GCRA, 10, 1000, 10, 0, 0}},
        {"gcra:burst=7,period=2,limit=3", {TG_GCRA, 3, 2, 7, 0, 0}},
        {"token_bucket:capacity=10,refill=5", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 5}},
        {"token_bucket:capacity=10,refill=0.25", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 0.25}},
        {"token_bucket:capacity=10,refill=12.5e1", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 125}},
        {"token_bucket:capacity=10,refill=1E2", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 100}},
        {"token_bucket:capacity=10,refill=5e-1", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 0.5}},
        {"token_bucket:capacity=10,refill=+2.5e+1", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 25}},
        {"token_bucket:capacity=10,refill=.5", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 0.5}},
        {"token_bucket:capacity=10,refill=5.", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 5}},
        {"token_bucket:capacity=1,refill=" NUMBER_MAX_TEXT,
         {TG_TOKEN_BUCKET, 1, 0, 0, 0, (double)TG_NUMBER_MAX}},
        {"gcra:limit=" SIXTY_ZEROS "125,period=1", {TG_GCRA, 125, 1, 125, 0, 0}},
        {"fixed_window:limit=5,window=1000", {TG_FIXED_WINDOW, 5, 1000, 0, 0, 0}},
        {"sliding_window:limit=10,window=1000,buckets=4",
         {TG_SLIDING_WINDOW, 10, 1000, 0, 4, 0}},
        {"sliding_window:limit=10,window=1000", {TG_SLIDING_WINDOW, 10, 1000, 0, 10, 0}},
        {"sliding_log:limit=5,window=1000", {TG_SLIDING_LOG, 5, 1000, 0, 0, 0}},
        {"token_budget:budget=100,window=60000", {TG_TOKEN_BUDGET, 100, 60000, 0, 0, 0}},
        {"fixed_window:limit=1,window=1", {TG_FIXED_WINDOW, 1, 1, 0, 0, 0}},
        {"fixed_window:limit=" NUMBER_MAX_TEXT ",window=1",
         {TG_FIXED_WINDOW, TG_NUMBER_MAX, 1, 0, 0, 0}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_limiter limiter = limiter_of(rows[i].spec);
        const struct tg_limiter_config *got = &limiter.config, *want = &rows[i].want;
        assert_int_equal(got->strategy, want->strategy);
        assert_int_equal(got->limit, want->limit);
        assert_int_equal(got->period, want->period);
        assert_int_equal(got->burst, want->burst);
        assert_int_equal(got->buckets, want->buckets);
        assert_true(got->refill >= want->refill && got->refill <= want->refill);
        assert_string_equal(limiter.ops->name, tg_strategy_name(want->strategy));
        assert_true(limiter.state_bytes > 0 && limiter.state_bytes % 8 == 0);
    }
}

static void config_init_sets_the_defaults(void **state)
{
    (void)state;
    for (int i = 0; i < TG_STRATEGY_COUNT; i++) {
        struct tg_limiter_config config;
        memset(&config, 0xA5, sizeof(config));
        tg_limiter_config_init(&config, (enum tg_strategy)i);
        assert_int_equal(config.strategy, i);
        assert_int_equal(config.limit, 0);
        assert_int_equal(config.period, 0);
        assert_int_equal(config.burst, 0);
        assert_int_equal(config.buckets, 0);
        assert_false(config.refill > 0 || config.refill < 0);
    }
}

static void every_strategy_has_the_name_of_its_spec(void **state)
{
    static const char *const names[] = {
#define NAME(upper, lower) [TG_##upper] = #lower,
        TG_STRATEGIES(NAME)
#undef NAME
    };
    (void)state;

    for (int i = 0; i < TG_STRATEGY_COUNT; i++)
        assert_string_equal(tg_strategy_name((enum tg_strategy)i), names[i]);
    assert_null(tg_strategy_name(TG_STRATEGY_COUNT));
    assert_null(tg_strategy_name((enum tg_strategy) - 1));
}

/* ---- bad specs ---- */

enum { ANY = -1 };

struct bad {
    const char *spec;
    int err;          /* or ANY, where more than one is right */
    const char *word; /* what the message must name */
};

static void expect_refused(const struct bad *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tg_limiter limiter;
        struct tg_problem problem = {""};
        enum tg_err err = make(rows[i].spec, &limiter, &problem);
        if (err == TG_OK || (rows[i].err != ANY && (int)err != rows[i].err))
            fail_msg("'%s' gives %d: %s", rows[i].spec, (int)err, problem.text);
        assert_non_null(memchr(problem.text, '\0', sizeof(problem.text)));
        if (strlen(problem.text) == 0 || strstr(problem.text, rows[i].word) == NULL)
            fail_msg("'%s': '%s' does not name '%s'", rows[i].spec, problem.text, rows[i].word);
        /* The same without anybody to tell. */
        assert_int_equal(make(rows[i].spec, &limiter, NULL), err);
    }
}

static void what_is_unknown_is_named(void **state)
{
    static const struct bad rows[] = {
        {"", ANY, ""},
        {":", ANY, ""},
        {"leaky:limit=1,period=1", TG_ERR_UNKNOWN, "leaky"},
        {"GCRA:limit=1,period=1", TG_ERR_UNKNOWN, "GCRA"},
        {"gcr:limit=1,period=1", TG_ERR_UNKNOWN, "gcr"},
        {"gcraa:limit=1,period=1", TG_ERR_UNKNOWN, "gcraa"},
        {" gcra:limit=1,period=1", ANY, "gcra"},
        {"gcra:limit=1,period=1,colour=3", TG_ERR_UNKNOWN, "colour"},
        {"gcra:limit=1,period=1,Limit=3", TG_ERR_UNKNOWN, "Limit"},
        {"gcra:limits=1,period=1", TG_ERR_UNKNOWN, "limits"},
        {"gcra:lim=1,period=1", TG_ERR_UNKNOWN, "lim"},
    };
    (void)state;
    expect_refused(rows, COUNT_OF(rows));
}

static void what_is_unknown_is_answered_by_what_is_known(void **state)
{
    static const struct {
        const char *spec;
        const char *words[TG_STRATEGY_COUNT];
    } rows[] = {
        {"leaky:limit=1",
         {"gcra", "token_bucket", "fixed_window", "sliding_window", "sliding_log", "token_budget"}},
        {"gcra:colour=1", {"limit", "period", "burst"}},
        {"token_bucket:colour=1", {"capacity", "refill"}},
        {"fixed_window:colour=1", {"limit", "window"}},
        {"sliding_window:colour=1", {"limit", "window", "buckets"}},
        {"sliding_log:colour=1", {"limit", "window"}},
        {"token_budget:colour=1", {"budget", "window"}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < TG_STRATEGY_COUNT && rows[i].words[k] != NULL; k++)
            expect_refused(&(struct bad){rows[i].spec, TG_ERR_UNKNOWN, rows[i].words[k]}, 1);
    }
}

/* What is quoted in a message is cut after 40 characters. */
static void what_is_quoted_is_cut(void **state)
{
    static const char name[] = "0123456789012345678901234567890123456789x";
    (void)state;

    for (int length = 38; length <= 41; length++) {
        char spec[80], quoted[80];
        struct tg_problem problem = {""};
        struct tg_limiter limiter;
        (void)snprintf(spec, sizeof spec, "%.*s:limit=1", length, name);
        (void)snprintf(quoted, sizeof quoted, "\"%.*s\"", length < 40 ? length : 40, name);
        assert_int_equal(make(spec, &limiter, &problem), TG_ERR_UNKNOWN);
        assert_non_null(strstr(problem.text, quoted));
    }
}

static void a_field_of_another_strategy_is_unknown(void **state)
{
    static const struct bad rows[] = {
        {"gcra:limit=1,period=1,window=1", TG_ERR_UNKNOWN, "window"},
        {"gcra:limit=1,period=1,refill=1", TG_ERR_UNKNOWN, "refill"},
        {"gcra:capacity=1,period=1", TG_ERR_UNKNOWN, "capacity"},
        {"token_bucket:limit=1,refill=1", TG_ERR_UNKNOWN, "limit"},
        {"token_bucket:capacity=1,refill=1,period=1", TG_ERR_UNKNOWN, "period"},
        {"fixed_window:limit=1,period=1", TG_ERR_UNKNOWN, "period"},
        {"fixed_window:limit=1,window=1,buckets=2", TG_ERR_UNKNOWN, "buckets"},
        {"sliding_window:limit=1,window=1,burst=2", TG_ERR_UNKNOWN, "burst"},
        {"sliding_log:limit=1,window=1,buckets=2", TG_ERR_UNKNOWN, "buckets"},
        {"token_budget:limit=1,window=1", TG_ERR_UNKNOWN, "limit"},
    };
    (void)state;
    expect_refused(rows, COUNT_OF(rows));
}

static void a_field_is_given_once(void **state)
{
    static const struct bad rows[] = {
        {"gcra:limit=1,period=1,limit=1", TG_ERR_INVALID, "limit"},
        {"gcra:limit=1,period=1,period=2", TG_ERR_INVALID, "period"},
        {"token_bucket:capacity=1,capacity=1,refill=1", TG_ERR_INVALID, "capacity"},
        {"token_bucket:capacity=1,refill=1,refill=1", TG_ERR_INVALID, "refill"},
        {"gcra:limit=1,period=1,burst=0,burst=2", TG_ERR_INVALID, "burst"},
    };
    (void)state;
    expect_refused(rows, COUNT_OF(rows));
}

static void a_field_without_a_default_must_be_given(void **state)
{
    static const struct bad rows[] = {
        {"gcra", TG_ERR_INVALID, "limit"},
        {"gcra:", TG_ERR_INVALID, "limit"},
        {"gcra:limit=10", TG_ERR_INVALID, "period"},
        {"gcra:period=10", TG_ERR_INVALID, "limit"},
        {"gcra:burst=10", TG_ERR_INVALID, "limit"},
        {"token_bucket:capacity=1", TG_ERR_INVALID, "refill"},
        {"token_bucket:refill=1", TG_ERR_INVALID, "capacity"},
        {"fixed_window:limit=1", TG_ERR_INVALID, "window"},
        {"fixed_window:window=1", TG_ERR_INVALID, "limit"},
        {"sliding_window:limit=1", TG_ERR_INVALID, "window"},
        {"sliding_window:limit=1,buckets=4", TG_ERR_INVALID, "window"},
        {"sliding_window:window=1", TG_ERR_INVALID, "limit"},
        {"sliding_window:window=1,buckets=4", TG_ERR_INVALID, "limit"},
        {"sliding_log:limit=1", TG_ERR_INVALID, "window"},
        {"sliding_log:window=1", TG_ERR_INVALID, "limit"},
        {"token_budget:window=1", TG_ERR_INVALID, "budget"},
        {"token_budget:budget=1", TG_ERR_INVALID, "window"},
    };
    (void)state;
    expect_refused(rows, COUNT_OF(rows));
}

/* Values that are no number of a field, whatever the field. */
static const char *const nonsense[] = {
    "",
    " ",
    "-1",
    "-0.5",
    "0",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "infinity",
    "1e400",
    "-1e400",
    "0.5e-99999999999999999999",
    "0.5e99999999999999999999",
    "0x10",
    "1k",
    "1 ",
    " 1",
    "1,",
    "1=",
    "one",
    "1;",
    "--1",
    "1.2.3",
    "1e",
    "e3",
    "1e5e5",
    "1e+-5",
    "1e5.",
    "1-1",
    "-",
    "+",
    "+-1",
    SIXTY_ZEROS "1234", /* 64 characters */
    ".",
    "1\t",
    "\xc3\xa9",
    "1\n",
    "99999999999999999999999999999999999999999999999999",
};

/* Values that are a number, but not a whole one in [1, TG_NUMBER_MAX]. */
static const char *const not_whole[] = {
    "1.5",
    "0.5",
    ABOVE_NUMBER_MAX_TEXT,
    "18446744073709551616",
    "1e300",
};

static void expect_value_refused(const char *format, const char *field, const char *value)
{
    char spec[200];

    (void)snprintf(spec, sizeof(spec), format, value);
    expect_refused(&(struct bad){spec, ANY, field}, 1);
}

static void nonsense_is_no_number_of_any_field(void **state)
{
    static const struct {
        const char *format, *field;
    } rows[] = {
        {"gcra:limit=%s,period=1", "limit"},
        {"gcra:limit=1,period=%s", "period"},
        {"token_bucket:capacity=%s,refill=1", "capacity"},
        {"token_bucket:capacity=1,refill=%s", "refill"},
        {"fixed_window:limit=%s,window=1", "limit"},
        {"fixed_window:limit=1,window=%s", "window"},
        {"sliding_window:limit=%s,window=1", "limit"},
        {"sliding_window:limit=1,window=%s", "window"},
        {"sliding_log:limit=%s,window=1", "limit"},
        {"sliding_log:limit=1,window=%s", "window"},
        {"token_budget:budget=%s,window=1", "budget"},
        {"token_budget:budget=1,window=%s", "window"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < COUNT_OF(nonsense); k++)
            expect_value_refused(rows[i].format,
                                 /* a comma ends the value: what is wrong then is what follows */
                                 strchr(nonsense[k], ',') ? "" : rows[i].field, nonsense[k]);
        for (size_t k = 0; k < COUNT_OF(not_whole); k++) {
            if (strcmp(rows[i].field, "refill") != 0)
                expect_value_refused(rows[i].format, rows[i].field, not_whole[k]);
        }
    }
}

static void fields_with_a_default_are_checked_too(void **state)
{
    static const char *const values[] = {"-1", "1.5", "nan", "", "x", "1e400",
                                         ABOVE_NUMBER_MAX_TEXT};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        expect_value_refused("gcra:limit=1,period=1,burst=%s", "burst", values[i]);
        expect_value_refused("sliding_window:limit=1,window=1,buckets=%s", "buckets", values[i]);
    }
    expect_value_refused("sliding_window:limit=1,window=1000,buckets=%s", "buckets", "100001");
    /* A thousand buckets a ms, rounded up, and no more. */
    expect_value_refused("sliding_window:limit=1,window=1,buckets=%s", "buckets", "1001");
    limiter_of("sliding_window:limit=1,window=1,buckets=1000");
    limiter_of("sliding_window:limit=1,window=2,buckets=1001");
    limiter_of("sliding_window:limit=1,window=100,buckets=100000");
}

static void a_spec_has_its_form_and_nothing_else(void **state)
{
    static const struct bad rows[] = {
        {"gcra,limit=1,period=1", ANY, ""},
        {"gcra:limit=1;period=1", ANY, "limit"},
        {"gcra:limit,period=1", TG_ERR_INVALID, "limit"},
        {"gcra:limit=1,period=1,", ANY, ""},
        {"gcra:,limit=1,period=1", ANY, ""},
        {"gcra:limit=1,,period=1", ANY, ""},
        {"gcra:=1,limit=1,period=1", ANY, ""},
        {"gcra:limit=1, period=1", ANY, "period"},
        {"gcra:limit =1,period=1", ANY, "limit"},
        {"gcra:limit=1,period=1 ", ANY, "period"},
        {"gcra:limit=1,period=1:burst=1", ANY, "period"},
        {"gcra:limit=1=2,period=1", ANY, "limit"},
        {"gcra::limit=1,period=1", ANY, ""},
    };
    (void)state;
    expect_refused(rows, COUNT_OF(rows));
}

static void a_very_long_spec_is_refused_like_a_short_one(void **state)
{
    char spec[5000];
    (void)state;

    memset(spec, 'x', sizeof(spec) - 1);
    spec[sizeof(spec) - 1] = '\0';
    expect_refused(&(struct bad){spec, TG_ERR_UNKNOWN, "x"}, 1);
    memcpy(spec, "gcra:", 5);
    expect_refused(&(struct bad){spec, ANY, "x"}, 1);
    memcpy(spec, "gcra:limit=", 11);
    expect_refused(&(struct bad){spec, ANY, "limit"}, 1);
    memset(spec + 11, '9', sizeof(spec) - 12);
    expect_refused(&(struct bad){spec, ANY, "limit"}, 1);
}

static void on_error_the_result_is_untouched(void **state)
{
    static const char *const specs[] = {"leaky:limit=1", "gcra:limit=1,period=x", "gcra:limit=1"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_limiter_config config, before;
        memset(&before, 0xA5, sizeof(before));
        config = before;
        assert_int_not_equal(tg_limiter_config_parse(&config, specs[i], NULL), TG_OK);
        assert_memory_equal(&config, &before, sizeof(config));
    }
}

/* ---- configs made by hand ---- */

static void a_config_out_of_range_makes_no_limiter(void **state)
{
    static const struct {
        struct tg_limiter_config config;
        const char *word;
    } rows[] = {
        {{TG_GCRA, 0, 1, 0, 0, 0}, "limit"},
        {{TG_GCRA, -1, 1, 0, 0, 0}, "limit"},
        {{TG_GCRA, INT64_MIN, 1, 0, 0, 0}, "limit"},
        {{TG_GCRA, TG_NUMBER_MAX + 1, 1, 0, 0, 0}, "limit"},
        {{TG_GCRA, INT64_MAX, 1, 0, 0, 0}, "limit"},
        {{TG_GCRA, 1, 0, 0, 0, 0}, "period"},
        {{TG_GCRA, 1, -1, 0, 0, 0}, "period"},
        {{TG_GCRA, 1, TG_NUMBER_MAX + 1, 0, 0, 0}, "period"},
        {{TG_GCRA, 1, 1, -1, 0, 0}, "burst"},
        {{TG_GCRA, 1, 1, TG_NUMBER_MAX + 1, 0, 0}, "burst"},
        {{TG_GCRA, 1, 1, 0, 1, 0}, "buckets"},
        {{TG_GCRA, 1, 1, 0, 0, 1}, "refill"},
        {{TG_GCRA, 1, 1, 0, 0, NAN}, "refill"},
        {{TG_TOKEN_BUCKET, 0, 0, 0, 0, 1}, "capacity"},
        {{TG_TOKEN_BUCKET, -5, 0, 0, 0, 1}, "capacity"},
        {{TG_TOKEN_BUCKET, 1, 0, 0, 0, 0}, "refill"},
        {{TG_TOKEN_BUCKET, 1, 0, 0, 0, -1}, "refill"},
        {{TG_TOKEN_BUCKET, 1, 0, 0, 0, -0.0}, "refill"},
        {{TG_TOKEN_BUCKET, 1, 0, 0, 0, NAN}, "refill"},
        {{TG_TOKEN_BUCKET, 1, 0, 0, 0, INFINITY}, "refill"},
        {{TG_TOKEN_BUCKET, 1, 0, 0, 0, -INFINITY}, "refill"},
        {{TG_TOKEN_BUCKET, 1, 1, 0, 0, 1}, "period"},
        {{TG_TOKEN_BUCKET, 1, 0, 1, 0, 1}, "burst"},
        {{TG_FIXED_WINDOW, 0, 1, 0, 0, 0}, "limit"},
        {{TG_FIXED_WINDOW, 1, 0, 0, 0, 0}, "window"},
        {{TG_FIXED_WINDOW, 1, 1, 1, 0, 0}, "burst"},
        {{TG_FIXED_WINDOW, 1, 1, 0, 1, 0}, "buckets"},
        {{TG_SLIDING_WINDOW, 1, 1, 0, -1, 0}, "buckets"},
        {{TG_SLIDING_WINDOW, 1, 1, 0, 100001, 0}, "buckets"},
        {{TG_SLIDING_WINDOW, 1, 1, 0, 0, 2}, "refill"},
        {{TG_SLIDING_LOG, 0, 1, 0, 0, 0}, "limit"},
        {{TG_SLIDING_LOG, 1, 0, 0, 0, 0}, "window"},
        {{TG_SLIDING_LOG, 1, 1, 0, 3, 0}, "buckets"},
        {{TG_TOKEN_BUDGET, 0, 1, 0, 0, 0}, "budget"},
        {{TG_TOKEN_BUDGET, 1, 0, 0, 0, 0}, "window"},
        {{TG_TOKEN_BUDGET, 1, 1, 1, 0, 0}, "burst"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_limiter limiter, before;
        struct tg_problem problem = {""};
        memset(&before, 0xA5, sizeof(before));
        limiter = before;
        if (tg_limiter_init(&limiter, &rows[i].config, &problem) != TG_ERR_INVALID)
            fail_msg("row %zu makes a limiter", i);
        if (strstr(problem.text, rows[i].word) == NULL)
            fail_msg("row %zu: '%s' does not name '%s'", i, problem.text, rows[i].word);
        assert_memory_equal(&limiter, &before, sizeof(limiter));
        assert_int_equal(tg_limiter_init(&limiter, &rows[i].config, NULL), TG_ERR_INVALID);
    }
}

static void a_number_that_is_no_strategy_makes_no_limiter(void **state)
{
    static const int numbers[] = {-1, TG_STRATEGY_COUNT, 1000};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct tg_limiter limiter;
        struct tg_limiter_config config;
        struct tg_problem problem = {""};
        tg_limiter_config_init(&config, (enum tg_strategy)numbers[i]);
        config.limit = config.period = 1;
        assert_int_not_equal(tg_limiter_init(&limiter, &config, &problem), TG_OK);
        assert_true(strlen(problem.text) > 0);
    }
}

/* ---- whatever makes a limiter keeps to the range of numbers ---- */

#define EPOCH_TIME INT64_C(1700000000000)

static void expect_range(const struct subject *subject, struct tg_decision decision)
{
    if (!decision_in_range(decision))
        fail_msg("%s: %s", subject_text(subject).text, decision_text(decision).text);
}

/* Everything that can be asked and done at one time, with one cost. */
static void use_up(struct subject *subject, tg_ms now, int64_t cost)
{
    struct tg_charge charge = {now, cost};

    expect_range(subject, subject_take(subject, now, cost));
    expect_range(subject, subject_balance(subject, now));
    subject_settle(subject, now, charge, TG_NUMBER_MAX);
    expect_range(subject, subject_peek(subject, now, 1));
    subject_refund(subject, now, charge, cost);
    subject_settle(subject, now, charge, cost / 2);
    expect_range(subject, subject_balance(subject, now));
    expect_range(subject, subject_peek(subject, now, TG_NUMBER_MAX));
    tg_ms fresh_at = subject_fresh_at(subject);
    assert_true(fresh_at >= 0 && fresh_at <= TG_NUMBER_MAX);
}

static void use_at_extreme_times(const struct tg_limiter *limiter)
{
    static const tg_ms times[] = {0, 1, EPOCH_TIME, TG_NUMBER_MAX - 1, TG_NUMBER_MAX};
    int64_t costs[] = {0, 1, limiter->config.limit, TG_NUMBER_MAX};

    for (size_t t = 0; t < COUNT_OF(times); t++) {
        for (size_t c = 0; c < COUNT_OF(costs); c++) {
            struct subject subject = subject_new(limiter);
            for (size_t later = t; later < COUNT_OF(times); later++)
                use_up(&subject, times[later], costs[c]);
            use_up(&subject, times[t], costs[c]); /* and back */
            subject_free(&subject);
        }
    }
}

/* A state of more than this is not made here: it says nothing new, slowly. */
#define STATE_MAX (64 * 1024)

static void try_extreme(const struct tg_limiter_config *config, int *made)
{
    struct tg_limiter limiter;

    if (tg_limiter_init(&limiter, config, NULL) != TG_OK || limiter.state_bytes > STATE_MAX)
        return;
    use_at_extreme_times(&limiter);
    (*made)++;
}

static void whatever_makes_a_limiter_stays_in_range(void **state)
{
    static const int64_t numbers[] = {1, 2, 3, 7,
                                      1000, 999983, 1 << 30, EPOCH_TIME,
                                      INT64_C(1) << 52, TG_NUMBER_MAX - 1, TG_NUMBER_MAX};
    static const double refills[] = {DBL_TRUE_MIN, DBL_MIN, 1e-300, 1e-12, 1e-9, 0.001, 1,
                                     1000, 1e6, 1e9, 1e15, 1e18, 1e300, DBL_MAX};
    static const int64_t thirds[] = {0, 1, 3, 100, 1000, TG_NUMBER_MAX};
    int made = 0;
    (void)state;

    for (int s = 0; s < TG_STRATEGY_COUNT; s++) {
        struct tg_limiter_config config;
        tg_limiter_config_init(&config, (enum tg_strategy)s);
        for (size_t i = 0; i < COUNT_OF(numbers); i++) {
            config.limit = numbers[i];
            for (size_t k = 0; s == TG_TOKEN_BUCKET && k < COUNT_OF(refills); k++) {
                config.refill = refills[k];
                try_extreme(&config, &made);
            }
            for (size_t k = 0; s != TG_TOKEN_BUCKET && k < COUNT_OF(numbers); k++) {
                config.period = numbers[k];
                for (size_t m = 0; m < COUNT_OF(thirds); m++) {
                    config.burst = s == TG_GCRA ? thirds[m] : 0;
                    config.buckets = s == TG_SLIDING_WINDOW ? thirds[m] : 0;
                    try_extreme(&config, &made);
                }
            }
        }
    }
    assert_true(made > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_sets_the_fields_of_its_strategy),
        cmocka_unit_test(config_init_sets_the_defaults),
        cmocka_unit_test(every_strategy_has_the_name_of_its_spec),
        cmocka_unit_test(what_is_unknown_is_named),
        cmocka_unit_test(what_is_unknown_is_answered_by_what_is_known),
        cmocka_unit_test(what_is_quoted_is_cut),
        cmocka_unit_test(a_field_of_another_strategy_is_unknown),
        cmocka_unit_test(a_field_is_given_once),
        cmocka_unit_test(a_field_without_a_default_must_be_given),
        cmocka_unit_test(nonsense_is_no_number_of_any_field),
        cmocka_unit_test(fields_with_a_default_are_checked_too),
        cmocka_unit_test(a_spec_has_its_form_and_nothing_else),
        cmocka_unit_test(a_very_long_spec_is_refused_like_a_short_one),
        cmocka_unit_test(on_error_the_result_is_untouched),
        cmocka_unit_test(a_config_out_of_range_makes_no_limiter),
        cmocka_unit_test(a_number_that_is_no_strategy_makes_no_limiter),
        cmocka_unit_test(whatever_makes_a_limiter_stays_in_range),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
