/* test_heap.c - what src/lib/core/heap.c promises: the first is always the first. */
#include "check.h"
#include "draw.h"
#include "failing_malloc.h"
#include "lib/core/container_of.h"
#include "lib/core/heap.h"

enum { NODES = 200,
       STEPS = 20000 };

struct item {
    struct heap_node node;
    int64_t rank;
    bool inside;
};

static struct item items[NODES];

static bool ranks_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct item *x = container_of(a, struct item, node);
    const struct item *y = container_of(b, struct item, node);

    return x->rank != y->rank ? x->rank < y->rank : x < y;
}

static const struct item *lowest(void)
{
    const struct item *best = NULL;

    for (size_t i = 0; i < NODES; i++)
        if (items[i].inside && (!best || ranks_before(&items[i].node, &best->node)))
            best = &items[i];
    return best;
}

static void the_first_is_the_first_whoever_comes_goes_or_changes(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_heap"), 0);
    struct heap heap;
    (void)state;

    heap_init(&heap, ranks_before);
    for (int step = 0; step < STEPS; step++) {
        struct item *item = &items[draw_between(&draw, 0, NODES - 1)];
        if (!item->inside) {
            item->rank = draw_between(&draw, 0, 50);
            assert_true(heap_add(&heap, &item->node));
            item->inside = true;
        } else if (draw_chance(&draw, 50)) {
            heap_remove(&heap, &item->node);
            item->inside = false;
        } else {
            item->rank = draw_between(&draw, 0, 50);
            heap_moved(&heap, &item->node);
        }
        const struct item *best = lowest();
        assert_ptr_equal(heap_first(&heap), best ? &best->node : NULL);
    }
    heap_fini(&heap);
}

static void without_memory_nothing_is_added(void **state)
{
    struct item one = {.rank = 1};
    struct heap heap;
    (void)state;

    need_allocator();
    heap_init(&heap, ranks_before);
    fail_at(0);
    assert_false(heap_add(&heap, &one.node));
    assert_null(heap_first(&heap));
    assert_true(heap_add(&heap, &one.node));
    assert_ptr_equal(heap_first(&heap), &one.node);
    long before = live;
    heap_fini(&heap);
    assert_int_equal(live, before - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_first_whoever_comes_goes_or_changes),
        cmocka_unit_test(without_memory_nothing_is_added),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
