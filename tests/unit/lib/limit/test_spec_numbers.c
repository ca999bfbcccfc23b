/* test_spec_numbers.c - numbers in a spec are read as C reads them, and what is none is refused.
 *
 * Made-up numbers, right and nearly right, go through a spec; strtod() and strtoll() say what each
 * is, as far as the alphabet goes that the spec allows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"

enum { NUMBERS = 60000,
       LONGEST = 63 };

static uint64_t seed;

static void put_digits(struct draw *draw, char **at, int64_t most)
{
    for (int64_t n = draw_between(draw, 0, most); n > 0; n--)
        *(*at)++ = (char)('0' + draw_between(draw, 0, 9));
}

/* A number of its parts, each of which may be missing; now and then with a letter that should not
 * be where it is. */
static void draw_number(struct draw *draw, char *text)
{
    static const char letters[] = "0123456789+-.eE";
    char *at = text;

    if (draw_chance(draw, 10))
        *at++ = draw_chance(draw, 50) ? '+' : '-';
    put_digits(draw, &at, draw_chance(draw, 5) ? 60 : 12);
    if (draw_chance(draw, 60)) {
        *at++ = '.';
        put_digits(draw, &at, draw_chance(draw, 5) ? 60 : 12);
    }
    if (draw_chance(draw, 50)) {
        *at++ = draw_chance(draw, 50) ? 'e' : 'E';
        if (draw_chance(draw, 50))
            *at++ = draw_chance(draw, 30) ? '+' : '-';
        put_digits(draw, &at, draw_chance(draw, 80) ? 2 : 4);
    }
    *at = 0;
    if (at > text && draw_chance(draw, 20))
        text[draw_between(draw, 0, at - text - 1)] =
            letters[draw_between(draw, 0, sizeof letters - 2)];
}

static bool parse(const char *format, const char *number, struct tg_limiter_config *config)
{
    struct tg_problem problem = {""};
    char spec[320];

    (void)snprintf(spec, sizeof spec, format, number);
    enum tg_err err = tg_limiter_config_parse(config, spec, &problem);
    assert_true(err == TG_OK || err == TG_ERR_INVALID);
    assert_int_equal(err == TG_OK, problem.text[0] == 0);
    return err == TG_OK;
}

static void fractions_are_read_as_c_reads_them(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    int taken = 0;
    (void)state;

    for (int i = 0; i < NUMBERS; i++) {
        struct tg_limiter_config config = {.refill = -7};
        char text[256], *end;
        draw_number(&draw, text);
        errno = 0;
        double want = strtod(text, &end);
        bool is_fine = end != text && *end == 0 && errno != ERANGE && want > 0 &&
                       strlen(text) <= LONGEST;
        if (parse("token_bucket:capacity=5,refill=%s", text, &config) != is_fine)
            fail_msg("\"%s\" is %s", text, is_fine ? "refused" : "taken");
        double got = is_fine ? want : -7;
        assert_true(config.refill >= got && config.refill <= got);
        taken += is_fine;
    }
    assert_in_range(taken, NUMBERS / 4, NUMBERS * 3 / 4);
}

static void whole_numbers_are_read_as_c_reads_them(void **state)
{
    struct draw draw = draw_stream(seed, 2);
    int taken = 0;
    (void)state;

    for (int i = 0; i < NUMBERS; i++) {
        struct tg_limiter_config config = {.limit = -7};
        char text[256], *end;
        if (draw_chance(&draw, 30)) {
            draw_number(&draw, text);
        } else {
            char *at = text;
            put_digits(&draw, &at, draw_chance(&draw, 5) ? 70 : 20);
            *at = 0;
        }
        errno = 0;
        long long want = strtoll(text, &end, 10);
        bool is_fine = end != text && *end == 0 && errno != ERANGE && want > 0 &&
                       strlen(text) <= LONGEST && text[0] != '+';
        if (parse("token_bucket:refill=1,capacity=%s", text, &config) != is_fine)
            fail_msg("\"%s\" is %s", text, is_fine ? "refused" : "taken");
        assert_int_equal(config.limit, is_fine ? want : -7);
        taken += is_fine;
    }
    assert_in_range(taken, NUMBERS / 4, NUMBERS * 3 / 4);
}

/* What C would take beyond that is none, wherever it stands. */
static void other_ways_to_write_numbers_are_none(void **state)
{
    static const char *const wrong[] = {"inf", "nan", "0x10", " 5", "5 ", "1e", "e5", "1e+",
                                        ".", "+", "-", "", "5u", "1.2.3", "1,5", "1e5e5",
                                        "--5", "1e1.", "\t5", "5\n"};
    struct tg_limiter_config config;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (strcmp(wrong[i], "1,5") != 0) /* there a second setting begins */
            assert_false(parse("token_bucket:capacity=5,refill=%s", wrong[i], &config));
}

/* A number may have 63 characters, of whatever kind, and no more. */
static void a_number_may_have_63_characters(void **state)
{
    struct tg_limiter_config config;
    char text[LONGEST + 2];
    (void)state;

    for (int n = LONGEST; n <= LONGEST + 1; n++) {
        bool is_fine = n == LONGEST;
        memset(text, '0', (size_t)n);
        text[n] = 0;
        text[n - 1] = '7';
        assert_int_equal(parse("token_bucket:capacity=5,refill=%s", text, &config), is_fine);
        assert_true(!is_fine || (config.refill >= 7 && config.refill <= 7));
        assert_int_equal(parse("token_bucket:refill=1,capacity=%s", text, &config), is_fine);
        assert_true(!is_fine || config.limit == 7);
        text[1] = '.';
        text[2] = '5';
        assert_int_equal(parse("token_bucket:capacity=5,refill=%s", text, &config), is_fine);
        assert_true(!is_fine || (config.refill >= 0.5 && config.refill < 0.5000001));
    }
}

static void what_is_missing_is_an_error(void **state)
{
    struct tg_limiter_config config = {.limit = -7};
    struct tg_problem problem = {""};
    (void)state;

    assert_int_equal(tg_limiter_config_parse(NULL, "gcra:limit=1,period=1", &problem), TG_ERR_NULL);
    assert_true(problem.text[0] != 0);
    assert_int_equal(tg_limiter_config_parse(&config, NULL, &problem), TG_ERR_NULL);
    assert_int_equal(config.limit, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fractions_are_read_as_c_reads_them),
        cmocka_unit_test(whole_numbers_are_read_as_c_reads_them),
        cmocka_unit_test(other_ways_to_write_numbers_are_none),
        cmocka_unit_test(a_number_may_have_63_characters),
        cmocka_unit_test(what_is_missing_is_an_error),
    };

    seed = draw_seed("spec_numbers");
    return cmocka_run_group_tests_name("spec_numbers", tests, NULL, NULL);
}
