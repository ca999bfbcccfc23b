/* test_room_index.c - the index against a plain array that is counted and sorted by hand. */
#include "lib/keypool/room_index.h"

#include <stdlib.h>

#include "check.h"
#include "draw.h"

enum { ITEMS = 500,
       STEPS = 60000 };

static uint64_t seed;

struct model {
    int64_t rooms[ITEMS]; /* below 0: not on the index */
};

static uint32_t model_count(const struct model *model, size_t n, int64_t room)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += model->rooms[i] >= 0 && model->rooms[i] >= room;
    return count;
}

/* Every item once, in order, and each where it says. */
static void expect_order(const struct room_index *room_index, const struct model *model, size_t n)
{
    int64_t last_room = -1;
    uint32_t last = 0;

    assert_int_equal(room_index->n, model_count(model, n, 0));
    for (uint32_t place = 0; place < room_index->n; place++) {
        uint32_t number = room_index_at(room_index, place);
        assert_true(number < n && model->rooms[number] >= 0);
        assert_true(place == 0 || model->rooms[number] > last_room ||
                    (model->rooms[number] == last_room && number > last));
        last = number;
        last_room = model->rooms[number];
    }
}

/* Rooms from a range that is narrow, so that many are the same, or wide. */
static void walk(size_t n, int64_t range, uint64_t stream)
{
    struct draw draw = draw_stream(seed, stream);
    struct model model;
    struct room_index room_index;

    assert_true(room_index_init(&room_index, n));
    for (size_t i = 0; i < n; i++)
        model.rooms[i] = -1;
    for (int step = 0; step < STEPS; step++) {
        uint32_t number = (uint32_t)draw_between(&draw, 0, (int64_t)n - 1);
        int64_t *room = &model.rooms[number], to = draw_between(&draw, 0, range);
        bool fills = step / 5000 % 2 == 0; /* now mostly full, now mostly empty */
        if (*room < 0) {
            room_index_put(&room_index, to, number);
            *room = to;
        } else if (draw_chance(&draw, fills ? 2 : 60)) {
            room_index_take(&room_index, *room, number);
            *room = -1;
        } else {
            room_index_move(&room_index, *room, to, number);
            *room = to;
        }
        int64_t asked = draw_between(&draw, 0, range);
        if (step % 16 == 0)
            assert_int_equal(room_index_count(&room_index, asked), model_count(&model, n, asked));
        room_index_assert_order(&room_index);
        if (step % 500 == 0)
            expect_order(&room_index, &model, n);
    }
    expect_order(&room_index, &model, n);
    room_index_fini(&room_index);
}

static void it_counts_and_orders_as_one_does_by_hand(void **state)
{
    (void)state;
    walk(1, 10, 1);
    walk(10, 10, 2);
    walk(64, 3, 3);
    walk(65, 1000, 4);
    walk(ITEMS, 5, 5);
    walk(ITEMS, INT64_MAX, 6);
}

static void an_empty_shelf_has_nothing(void **state)
{
    struct room_index room_index;
    (void)state;
    assert_true(room_index_init(&room_index, 0));
    assert_int_equal(room_index_count(&room_index, 0), 0);
    room_index_fini(&room_index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_counts_and_orders_as_one_does_by_hand),
        cmocka_unit_test(an_empty_shelf_has_nothing),
    };

    seed = draw_seed("test_shelf");
    return cmocka_run_group_tests_name("room_index", tests, NULL, NULL);
}
