/* test_algebra.c - the laws of tg_decision_combine(): over every triple of a small carrier, and
 * over the whole range at random; and that many decisions give one answer in any grouping. */
#include <string.h>

#include "check.h"
#include "draw.h"
#include "walk.h"

#define RANDOM_TRIPLES 150000
#define RANDOM_FOLDS 120000
#define FOLD_MAX 8

static uint64_t seed;

static void check_identity(struct tg_decision a)
{
    expect_decision("identity on the left", tg_decision_combine(TG_ALLOW_FULL, a), a);
    expect_decision("identity on the right", tg_decision_combine(a, TG_ALLOW_FULL), a);
}

static void check_idempotency(struct tg_decision a)
{
    expect_decision("idempotency", tg_decision_combine(a, a), a);
}

static void check_commutativity(struct tg_decision a, struct tg_decision b)
{
    expect_decision("commutativity", tg_decision_combine(a, b), tg_decision_combine(b, a));
}

static void check_associativity(struct tg_decision a, struct tg_decision b, struct tg_decision c)
{
    expect_decision("associativity", tg_decision_combine(tg_decision_combine(a, b), c),
                    tg_decision_combine(a, tg_decision_combine(b, c)));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a < b ? b : a;
}

static void check_definition(struct tg_decision a, struct tg_decision b)
{
    struct tg_decision want = {
        .allowed = a.allowed && b.allowed,
        .limit = least(a.limit, b.limit),
        .remaining = least(a.remaining, b.remaining),
        .reset_at = most(a.reset_at, b.reset_at),
        .retry_after_ms = most(a.retry_after_ms, b.retry_after_ms),
    };
    expect_decision("definition", tg_decision_combine(a, b), want);
}

/* ---- every triple of a small carrier ---- */

#define CARRIER 72

static size_t make_carrier(struct tg_decision *carrier)
{
    static const int64_t limits[] = {0, TG_NUMBER_MAX};
    static const int64_t remainings[] = {0, 1, TG_NUMBER_MAX};
    static const int64_t resets[] = {0, 1, TG_NUMBER_MAX};
    static const int64_t retries[] = {0, TG_NUMBER_MAX};
    size_t n = 0;

    for (size_t i = 0; i < CARRIER; i++) {
        size_t at = i;
        struct tg_decision d = {.allowed = at % 2 == 0};
        at /= 2;
        d.limit = limits[at % COUNT_OF(limits)];
        at /= COUNT_OF(limits);
        d.remaining = remainings[at % COUNT_OF(remainings)];
        at /= COUNT_OF(remainings);
        d.reset_at = resets[at % COUNT_OF(resets)];
        at /= COUNT_OF(resets);
        d.retry_after_ms = retries[at % COUNT_OF(retries)];
        carrier[n++] = d;
    }
    return n;
}

static void the_laws_hold_for_every_triple_of_a_small_carrier(void **state)
{
    struct tg_decision carrier[CARRIER];
    size_t n = make_carrier(carrier);
    (void)state;

    for (size_t i = 0; i < n; i++) {
        check_identity(carrier[i]);
        check_idempotency(carrier[i]);
        for (size_t j = 0; j < n; j++) {
            check_definition(carrier[i], carrier[j]);
            check_commutativity(carrier[i], carrier[j]);
            for (size_t k = 0; k < n; k++)
                check_associativity(carrier[i], carrier[j], carrier[k]);
        }
    }
}

/* ---- random decisions ---- */

static int64_t random_number(struct draw *draw)
{
    switch (draw_between(draw, 0, 9)) {
    case 0:
        return 0;
    case 1:
        return TG_NUMBER_MAX;
    case 2:
        return draw_between(draw, 0, 3); /* so that ties are met */
    case 3:
        return draw_magnitude(draw, TG_NUMBER_MAX);
    default:
        return draw_between(draw, 0, TG_NUMBER_MAX);
    }
}

static struct tg_decision random_decision(struct draw *draw)
{
    return (struct tg_decision){
        .allowed = draw_chance(draw, 50),
        .limit = random_number(draw),
        .remaining = random_number(draw),
        .reset_at = random_number(draw),
        .retry_after_ms = random_number(draw),
    };
}

static void allow_full_is_the_identity(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    (void)state;

    for (long i = 0; i < RANDOM_TRIPLES; i++)
        check_identity(random_decision(&draw));
    cases_report("identity", RANDOM_TRIPLES);
}

static void combine_is_idempotent(void **state)
{
    struct draw draw = draw_stream(seed, 2);
    (void)state;

    for (long i = 0; i < RANDOM_TRIPLES; i++)
        check_idempotency(random_decision(&draw));
    cases_report("idempotency", RANDOM_TRIPLES);
}

static void combine_commutes(void **state)
{
    struct draw draw = draw_stream(seed, 3);
    (void)state;

    for (long i = 0; i < RANDOM_TRIPLES; i++) {
        struct tg_decision a = random_decision(&draw);
        struct tg_decision b = random_decision(&draw);
        check_definition(a, b);
        check_commutativity(a, b);
    }
    cases_report("commutativity", RANDOM_TRIPLES);
}

static void combine_associates(void **state)
{
    struct draw draw = draw_stream(seed, 4);
    (void)state;

    for (long i = 0; i < RANDOM_TRIPLES; i++) {
        struct tg_decision a = random_decision(&draw);
        struct tg_decision b = random_decision(&draw);
        check_associativity(a, b, random_decision(&draw));
    }
    cases_report("associativity", RANDOM_TRIPLES);
}

/* ---- many at once ---- */

/* Combines any two until one is left: every order and every grouping can come out. */
static struct tg_decision combine_anyhow(struct draw *draw, const struct tg_decision *given,
                                         size_t n)
{
    struct tg_decision left[FOLD_MAX + 1] = {TG_ALLOW_FULL};

    memcpy(left + 1, given, n * sizeof(*given));
    for (n++; n > 1; n--) {
        size_t a = (size_t)draw_between(draw, 0, (int64_t)n - 1);
        struct tg_decision taken = left[a];
        left[a] = left[n - 1];
        size_t b = (size_t)draw_between(draw, 0, (int64_t)n - 2);
        left[b] = tg_decision_combine(left[b], taken);
    }
    return left[0];
}

static void fold_gives_one_answer_in_any_grouping_and_order(void **state)
{
    struct draw draw = draw_stream(seed, 5);
    (void)state;

    for (long i = 0; i < RANDOM_FOLDS; i++) {
        struct tg_decision given[FOLD_MAX] = {{0}};
        size_t n = (size_t)draw_between(&draw, 0, FOLD_MAX);
        for (size_t k = 0; k < n; k++)
            given[k] = random_decision(&draw);
        expect_decision("fold", tg_decision_fold(given, n), combine_anyhow(&draw, given, n));
    }
    cases_report("fold in any grouping and order", RANDOM_FOLDS);
}

static void fold_of_two_parts_is_the_fold_of_the_whole(void **state)
{
    struct draw draw = draw_stream(seed, 6);
    (void)state;

    for (long i = 0; i < RANDOM_FOLDS; i++) {
        struct tg_decision given[FOLD_MAX] = {{0}};
        size_t n = (size_t)draw_between(&draw, 0, FOLD_MAX);
        size_t cut = (size_t)draw_between(&draw, 0, (int64_t)n);
        for (size_t k = 0; k < n; k++)
            given[k] = random_decision(&draw);
        expect_decision("parts",
                        tg_decision_combine(tg_decision_fold(given, cut),
                                            tg_decision_fold(given + cut, n - cut)),
                        tg_decision_fold(given, n));
    }
    cases_report("fold of parts", RANDOM_FOLDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_laws_hold_for_every_triple_of_a_small_carrier),
        cmocka_unit_test(allow_full_is_the_identity),
        cmocka_unit_test(combine_is_idempotent),
        cmocka_unit_test(combine_commutes),
        cmocka_unit_test(combine_associates),
        cmocka_unit_test(fold_gives_one_answer_in_any_grouping_and_order),
        cmocka_unit_test(fold_of_two_parts_is_the_fold_of_the_whole),
    };
    seed = draw_seed("test_algebra");
    return cmocka_run_group_tests_name("algebra", tests, NULL, NULL);
}
