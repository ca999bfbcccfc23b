/* test_redefine_threads.c - limits change while threads take: every unit is counted once. */
#include "check.h"

#include <stdatomic.h>

#include "crew.h"
#include "keyed.h"

enum { THREADS = 4, ROUNDS = 50, TAKES = 200, KEYS = 8 };

struct scene {
    struct tg_store *store;
    tg_limits set;
    struct tg_limit limits[2];
    atomic_llong admitted;
    atomic_int errors;
};

/* One set. */
static enum tg_err redefine_one(struct tg_store *store, tg_limits set,
                                const struct tg_limit *limits, size_t n, tg_ms now,
                                struct tg_problem *problem)
{
    struct tg_redefinition one = {set, limits, n};

    return tg_store_redefine(store, &one, 1, now, problem);
}

/* The first changes the limits back and forth, the others take. */
static void take_or_change(void *context, size_t i, size_t round)
{
    struct scene *scene = context;
    struct tg_decision decision;

    for (size_t k = 0; k < TAKES; k++) {
        enum tg_err err;
        if (i == 0 && k % 10 == 0) {
            err = redefine_one(scene->store, scene->set, &scene->limits[(round + k / 10) % 2], 1,
                               1000, NULL);
        } else {
            err = take_numbered(scene->store, scene->set, k % KEYS, 1, 1000, &decision);
            if (!err && decision.allowed)
                atomic_fetch_add(&scene->admitted, 1);
        }
        if (err)
            atomic_fetch_add(&scene->errors, 1);
    }
}

static void every_unit_is_counted_once_while_limits_change(void **state)
{
    struct scene scene = {
        .store = must_store((size_t)1 << 20, 4),
        .limits = {limit_on(TG_AXIS_COST, "fixed_window:limit=3000,window=1000000"),
                   limit_on(TG_AXIS_COST, "fixed_window:limit=5000,window=1000000")},
    };
    struct tg_decision decision;
    long long left = 0;
    (void)state;

    scene.set = must_define(scene.store, &scene.limits[0], 1);
    crew_run(THREADS, ROUNDS, take_or_change, &scene);
    assert_int_equal(atomic_load(&scene.errors), 0);
    assert_int_equal(redefine_one(scene.store, scene.set, &scene.limits[1], 1, 1000, NULL), TG_OK);
    for (uint64_t k = 0; k < KEYS; k++) {
        assert_int_equal(take_numbered(scene.store, scene.set, k, 0, 1000, &decision), TG_OK);
        left += decision.remaining;
    }
    assert_int_equal(left, KEYS * 5000LL - atomic_load(&scene.admitted));
    tg_store_free(scene.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unit_is_counted_once_while_limits_change),
    };
    return cmocka_run_group_tests_name("redefine threads", tests, NULL, NULL);
}
