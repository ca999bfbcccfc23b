/* test_guard_books.c - the shadow of a guard and what calls are expected to use, held against books
 * that are kept by hand.
 *
 * test_guard.c in tests/prop shows what the guard promises to a whole policy. Here every call is
 * judged twice: by the guard, and by the sentences of guard.h; and the same for expected.h.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lib/policy/expected.h"
#include "lib/policy/fluid.h"
#include "lib/policy/guard.h"

enum { RATE = FLUID_RATE,
       COST = FLUID_COST,
       HOLD = FLUID_HOLD };

static uint64_t seed;

static bool same(double a, double b)
{
    return a >= b && a <= b;
}

/* ---- the guard ---- */

/* What no policy would have: whatever fits is admitted. */
struct book {
    double earned, shadow;
    double left[MIX_AXES];
    double guessed; /* asked for by calls that only the shadow has admitted */
    uint64_t acted;
};

static bool fits(const struct book *book, const double use[MIX_AXES])
{
    bool rate = use[RATE] <= book->left[RATE] + 1e-12, cost = use[COST] <= book->left[COST] + 1e-12;

    return rate && cost && (same(use[HOLD], 0) || book->left[HOLD] >= 0);
}

/* It fits into what the policy has left, and the policy would then have less than the shadow. */
static bool would_have_less(const struct book *book, const double use[MIX_AXES],
                            const double left[MIX_AXES])
{
    bool rate = use[RATE] > 0 && left[RATE] - use[RATE] + 1e-12 < book->left[RATE];
    bool cost = use[COST] > 0 && left[COST] - use[COST] + 1e-12 < book->left[COST];

    return left[RATE] >= use[RATE] && left[COST] >= use[COST] && (rate || cost);
}

static bool judge_by_hand(struct book *book, bool on, double value, const double use[MIX_AXES],
                          double asked, const double left[MIX_AXES], bool worth)
{
    bool admits = fits(book, use), admit = worth;

    if (admits) {
        book->shadow += value;
        for (int a = 0; a < MIX_AXES; a++)
            book->left[a] -= use[a];
    }
    if (on && admits && !worth && book->earned < 0.99 * book->shadow)
        admit = true;
    if (on && !admits && worth && would_have_less(book, use, left))
        admit = false;
    if (admits && !admit)
        book->guessed += asked;
    if (admit != worth)
        book->acted++;
    return admit;
}

static void replenish_by_hand(struct book *book, double part, bool steady, bool anew)
{
    for (int a = RATE; a <= COST; a++)
        if (anew)
            book->left[a] = 1;
        else if (steady)
            book->left[a] = fmin(1, book->left[a] + part);
    book->left[HOLD] = fmin(1.0 / 16, book->left[HOLD] + part);
    if (anew)
        book->guessed = 0;
    else if (steady)
        book->guessed = part < 1 ? book->guessed * (1 - part) : 0;
}

static void refuse_by_hand(struct book *book, double value, const double use[MIX_AXES])
{
    if (!fits(book, use))
        return;
    book->shadow = fmax(0, book->shadow - value);
    book->left[RATE] = fmin(1, book->left[RATE] + use[RATE]);
    book->left[COST] = fmin(1, book->left[COST] + use[COST]);
    book->left[HOLD] = fmin(1.0 / 16, book->left[HOLD] + use[HOLD]);
}

static void expect_booked(const struct guard *guard, const struct book *book)
{
    assert_true(same(guard->earned, book->earned) && same(guard->shadow, book->shadow));
    assert_true(same(guard->guessed, book->guessed));
    assert_int_equal(guard->acted, book->acted);
    for (int a = 0; a < MIX_AXES; a++)
        assert_true(same(guard->left[a], book->left[a]));
}

/* Halves and quarters, so that what is just enough is met; and any part. */
static double draw_part(struct draw *draw, double most)
{
    return draw_chance(draw, 30)   ? 0
           : draw_chance(draw, 40) ? most * 0.25 * (double)draw_between(draw, 0, 4)
                                   : most * draw_unit(draw);
}

static void the_guard_judges_as_its_sentences_say(void **state)
{
    (void)state;
    for (uint64_t life = 0; life < 300; life++) {
        struct draw draw = draw_stream(seed, life);
        bool on = draw_chance(&draw, 80), steady = draw_chance(&draw, 50);
        struct book book = {.left = {1, 1, 1.0 / 16}};
        struct guard guard;
        guard_init(&guard, on);
        expect_booked(&guard, &book);
        for (int step = 0; step < 600; step++) {
            double use[MIX_AXES], left[MIX_AXES], value = draw_part(&draw, 8);
            for (int a = 0; a < MIX_AXES; a++) {
                use[a] = draw_part(&draw, 0.5);
                left[a] = draw_chance(&draw, 30) ? guard.left[a] : draw_part(&draw, 1);
            }
            bool worth = draw_chance(&draw, 50), anew = draw_chance(&draw, 20);
            double part = draw_part(&draw, 0.3) + (draw_chance(&draw, 5) ? 1 : 0);
            switch (draw_between(&draw, 0, 9)) {
            case 0:
            case 1:
                guard_replenish(&guard, part, steady, anew);
                replenish_by_hand(&book, part, steady, anew);
                break;
            case 2:
                guard_learn(&guard, part - 0.15, 2 * use[RATE]);
                book.left[COST] =
                    fmin(1, book.left[COST] + (part - 0.15) * (2 * use[RATE] + book.guessed));
                break;
            case 3:
                guard_refused(&guard, value, use);
                refuse_by_hand(&book, value, use);
                break;
            case 4:
            case 5:
                guard_admitted(&guard, value);
                book.earned += value;
                break;
            default:
                assert_int_equal(guard_judge(&guard, value, use, use[COST] * 3, left, worth),
                                 judge_by_hand(&book, on, value, use, use[COST] * 3, left, worth));
            }
            expect_booked(&guard, &book);
        }
    }
}

/* ---- what calls use ---- */

struct sums {
    double asked, used;
};

static void add(struct sums *sums, double asked, double used)
{
    sums->asked += asked - sums->asked / 256;
    sums->used += used - sums->used / 256;
}

/* Below 1 is the first; 1 is in the second, from 2 on in the third, and so on. */
static int octave(double asked)
{
    int n = 0;

    for (double from = 1; asked >= from && n < EXPECTED_OCTAVES - 1; from *= 2)
        n++;
    return n;
}

static void use_is_learned_by_octaves(void **state)
{
    struct draw draw = draw_stream(seed, 1000);
    struct {
        char before[64];
        struct expected expected;
        char after[64];
    } fenced;
    (void)state;

    for (int life = 0; life < 60; life++) {
        struct sums all = {0, 0}, near[EXPECTED_OCTAVES];
        memset(near, 0, sizeof near);
        memset(&fenced, 0, sizeof fenced);
        for (int i = 0; i < 800; i++) {
            double asked = draw_chance(&draw, 5)   ? 0
                           : draw_chance(&draw, 5) ? ldexp(1, (int)draw_between(&draw, -3, 80))
                                                   : ldexp(draw_unit(&draw),
                                                           (int)draw_between(&draw, -3, 70));
            double used = draw_chance(&draw, 10) ? 0 : asked * draw_unit(&draw) * 4;
            int n = octave(asked);
            double mean = (all.used + asked) / (all.asked + asked);
            double want = asked * ((near[n].used + mean * asked) / (near[n].asked + asked));
            assert_true(same(expected_use(&fenced.expected, asked), asked > 0 ? want : 0));
            assert_true(same(expected_factor(&fenced.expected),
                             all.asked > 0 ? all.used / all.asked : 1));
            assert_true(expected_is_sane(&fenced.expected));
            expected_learn(&fenced.expected, asked, used);
            if (asked > 0 && used > 0) {
                add(&all, asked, fmin(used, 3 * asked));
                add(&near[n], asked, fmin(used, 3 * asked));
            }
        }
        for (size_t i = 0; i < sizeof fenced.before; i++)
            assert_true(fenced.before[i] == 0 && fenced.after[i] == 0);
    }
}

/* A sum that no calls can make is found wherever it stands, and one at a bound is accepted. */
static void sums_that_no_calls_make_are_found(void **state)
{
    static const struct {
        double asked, used;
        bool sane;
    } rows[] = {
        {0, 0, true},
        {1, 3, true},
        {1, 3.1, false},
        {-1, 0, false},
        {1, -1, false},
        {1e300, 1, true},
        {2e300, 1, false},
        {NAN, 1, false},
        {1, NAN, false},
        {0, 1e-9, false},
        {INFINITY, 1, false},
        {8, 0, true},
        {0.5, 1.5, true},
        {0.5, 0.25, true},
        {-0.5, -2, false},
    };
    static struct expected expected;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int n = -1; n < EXPECTED_OCTAVES; n++) {
            struct expected_sum *sum = n < 0 ? &expected.all : &expected.octave[n];
            memset(&expected, 0, sizeof expected);
            *sum = (struct expected_sum){rows[i].asked, rows[i].used};
            assert_int_equal(expected_is_sane(&expected), rows[i].sane);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_guard_judges_as_its_sentences_say),
        cmocka_unit_test(use_is_learned_by_octaves),
        cmocka_unit_test(sums_that_no_calls_make_are_found),
    };

    seed = draw_seed("guard_books");
    return cmocka_run_group_tests_name("guard_books", tests, NULL, NULL);
}
