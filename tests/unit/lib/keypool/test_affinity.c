/* test_affinity.c - the map of affinities against a plain list that is searched. */
#include "failing_malloc.h"

#include "draw.h"
#include "lib/keypool/affinity.h"

enum { NAMES = 40 };

struct memory {
    uint64_t hash;
    tg_ms used_at;
    uint32_t serial;
};

/* The newest last. */
struct model {
    struct memory kept[NAMES];
    size_t n;
};

static void model_remember(struct model *model, size_t capacity, struct memory memory)
{
    size_t i = 0;

    while (i < model->n && model->kept[i].hash != memory.hash)
        i++;
    if (i == model->n && model->n == capacity)
        i = 0;
    else if (i == model->n)
        model->n++;
    for (; i + 1 < model->n; i++)
        model->kept[i] = model->kept[i + 1];
    model->kept[model->n - 1] = memory;
}

static uint32_t model_find(const struct model *model, uint64_t hash, tg_ms now, tg_ms ttl)
{
    for (size_t i = 0; i < model->n; i++)
        if (model->kept[i].hash == hash)
            return now - model->kept[i].used_at <= ttl ? model->kept[i].serial : 0;
    return 0;
}

static void the_one_used_longest_ago_makes_room(void **state)
{
    uint64_t seed = draw_seed("affinity");
    (void)state;

    for (size_t capacity = 1; capacity <= 17; capacity += 4) {
        struct draw draw = draw_stream(seed, capacity);
        struct model model = {.n = 0};
        struct affinity affinity;
        assert_true(affinity_init(&affinity, capacity));
        for (tg_ms now = 0; now < 4000; now++) {
            uint64_t hash = hash_number((uint64_t)draw_between(&draw, 1, NAMES / 2));
            uint32_t serial = (uint32_t)draw_between(&draw, 1, 1000);
            if (draw_chance(&draw, 50)) {
                affinity_remember(&affinity, hash, now, serial);
                model_remember(&model, capacity, (struct memory){hash, now, serial});
            }
            for (uint64_t name = 1; name <= NAMES / 2; name++)
                assert_int_equal(affinity_find(&affinity, hash_number(name), now, 20),
                                 model_find(&model, hash_number(name), now, 20));
        }
        affinity_fini(&affinity);
    }
}

static void a_map_of_nothing_remembers_nothing(void **state)
{
    struct affinity affinity;
    (void)state;

    assert_true(affinity_init(&affinity, 0));
    affinity_remember(&affinity, 7, 0, 1);
    assert_int_equal(affinity_find(&affinity, 7, 0, 1000), 0);
    affinity_fini(&affinity);
}

static void without_memory_there_is_none_and_nothing_is_left(void **state)
{
    struct affinity affinity;
    (void)state;

    if (!OWN_ALLOCATOR)
        skip();
    for (long n = 0; n < 2; n++) {
        long before = live;
        until_failure = n;
        bool made = affinity_init(&affinity, 100);
        until_failure = -1;
        assert_false(made);
        assert_int_equal(live, before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_used_longest_ago_makes_room),
        cmocka_unit_test(a_map_of_nothing_remembers_nothing),
        cmocka_unit_test(without_memory_there_is_none_and_nothing_is_left),
    };
    return cmocka_run_group_tests_name("affinity", tests, NULL, NULL);
}
