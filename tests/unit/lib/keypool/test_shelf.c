/* test_shelf.c - the shelf against a plain array that is counted and sorted by hand. */
#include "lib/keypool/shelf.h"

#include <stdlib.h>

#include "check.h"
#include "draw.h"

enum { ITEMS = 500,
       STEPS = 60000 };

static uint64_t seed;

struct model {
    int64_t rooms[ITEMS]; /* below 0: not on the shelf */
};

static uint32_t model_count(const struct model *model, size_t n, int64_t room)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += model->rooms[i] >= 0 && model->rooms[i] >= room;
    return count;
}

/* Every item once, in order, and each where it says. */
static void expect_order(const struct shelf *shelf, const struct model *model, size_t n)
{
    int64_t last_room = -1;
    uint32_t last = 0;

    assert_int_equal(shelf->n, model_count(model, n, 0));
    for (uint32_t place = 0; place < shelf->n; place++) {
        uint32_t number = shelf_at(shelf, place);
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
    struct shelf shelf;

    assert_true(shelf_init(&shelf, n));
    for (size_t i = 0; i < n; i++)
        model.rooms[i] = -1;
    for (int step = 0; step < STEPS; step++) {
        uint32_t number = (uint32_t)draw_between(&draw, 0, (int64_t)n - 1);
        int64_t *room = &model.rooms[number], to = draw_between(&draw, 0, range);
        bool fills = step / 5000 % 2 == 0; /* now mostly full, now mostly empty */
        if (*room < 0) {
            shelf_put(&shelf, to, number);
            *room = to;
        } else if (draw_chance(&draw, fills ? 2 : 60)) {
            shelf_take(&shelf, *room, number);
            *room = -1;
        } else {
            shelf_move(&shelf, *room, to, number);
            *room = to;
        }
        int64_t asked = draw_between(&draw, 0, range);
        if (step % 16 == 0)
            assert_int_equal(shelf_count(&shelf, asked), model_count(&model, n, asked));
        if (step % 500 == 0)
            expect_order(&shelf, &model, n);
    }
    expect_order(&shelf, &model, n);
    shelf_fini(&shelf);
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
    struct shelf shelf;
    (void)state;
    assert_true(shelf_init(&shelf, 0));
    assert_int_equal(shelf_count(&shelf, 0), 0);
    shelf_fini(&shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_counts_and_orders_as_one_does_by_hand),
        cmocka_unit_test(an_empty_shelf_has_nothing),
    };

    seed = draw_seed("test_shelf");
    return cmocka_run_group_tests_name("shelf", tests, NULL, NULL);
}
