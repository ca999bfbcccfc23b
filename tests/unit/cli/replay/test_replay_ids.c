/* test_replay_ids.c - the ids of a trace that are in use, against a plain array of all of them. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "cli/replay/replay_ids.h"
#include "draw.h"

enum { IDS = 500,
       STEPS = 20000 };

static uint64_t seed;

/* What an id should have: 0: it is not in use. */
struct model {
    tg_lease lease;
    tg_ms ends_at;
};

static size_t write_id(char text[16], int64_t number)
{
    return (size_t)snprintf(text, 16, "id-%d", (int)number);
}

/* A lease that has ended may be forgotten at any put; one that has not is never. */
static void ids_are_found_until_they_are_removed_or_their_lease_has_ended(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    struct model model[IDS] = {{0, 0}};
    struct replay_ids ids = {.n = 0};
    char text[16];

    (void)state;
    for (tg_ms now = 1; now < STEPS; now++) {
        int64_t number = draw_between(&draw, 0, IDS - 1);
        size_t n = write_id(text, number);
        struct replay_id *id = replay_ids_find(&ids, text, n);

        if (model[number].ends_at > now)
            assert_non_null(id);
        if (model[number].lease == 0)
            assert_null(id);
        if (id != NULL)
            assert_int_equal(id->lease, model[number].lease);
        if (id != NULL && draw_chance(&draw, 40)) {
            replay_ids_remove(&ids, id);
            model[number] = (struct model){0, 0};
            assert_null(replay_ids_find(&ids, text, n));
        } else {
            model[number] = (struct model){(tg_lease)now, now + draw_between(&draw, 0, 400)};
            id = replay_ids_put(&ids, text, n, now);
            assert_non_null(id);
            id->lease = model[number].lease;
            id->ends_at = model[number].ends_at;
        }
    }
    replay_ids_fini(&ids);
}

static void leases_that_have_ended_do_not_make_the_list_grow(void **state)
{
    struct replay_ids ids = {.n = 0};
    char text[16];

    (void)state;
    for (tg_ms now = 0; now < STEPS; now++) {
        size_t n = write_id(text, now);
        struct replay_id *id = replay_ids_put(&ids, text, n, now - 10);
        assert_non_null(id);
        id->ends_at = now;
    }
    assert_true(ids.capacity <= 64);
    replay_ids_fini(&ids);
}

static void a_call_that_waits_is_never_forgotten(void **state)
{
    struct replay_ids ids = {.n = 0};
    char text[16];

    (void)state;
    for (int64_t i = 0; i < IDS; i++) {
        size_t n = write_id(text, i);
        struct replay_id *id = replay_ids_put(&ids, text, n, 1000);
        assert_non_null(id);
        id->call = (struct replay_call *)(void *)&ids; /* any: it is not looked into */
    }
    assert_int_equal(ids.n, IDS);
    replay_ids_fini(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_found_until_they_are_removed_or_their_lease_has_ended),
        cmocka_unit_test(leases_that_have_ended_do_not_make_the_list_grow),
        cmocka_unit_test(a_call_that_waits_is_never_forgotten),
    };

    seed = draw_seed("test_replay_ids");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
