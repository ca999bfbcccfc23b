/* heap.c - an intrusive binary heap. See heap.h. */
#include "lib/core/heap.h"

#include <assert.h>

#include "lib/core/allocator.h"
#include "lib/core/array.h"

void heap_init(struct heap *heap, heap_before *before)
{
    *heap = (struct heap){.before = before};
}

void heap_fini(struct heap *heap)
{
    mem_free(heap->nodes);
}

static void heap_put(struct heap *heap, size_t place, struct heap_node *node)
{
    heap->nodes[place] = node;
    node->place = place;
}

/* Finds the place of a node that may stand at `place`, or should stand above or below it. */
static void heap_settle(struct heap *heap, size_t place, struct heap_node *node)
{
    while (place > 0 && heap->before(node, heap->nodes[(place - 1) / 2])) {
        heap_put(heap, place, heap->nodes[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (size_t child; (child = 2 * place + 1) < heap->n; place = child) {
        if (child + 1 < heap->n && heap->before(heap->nodes[child + 1], heap->nodes[child]))
            child++;
        if (heap->before(node, heap->nodes[child]))
            break;
        heap_put(heap, place, heap->nodes[child]);
    }
    heap_put(heap, place, node);
    assert(place == 0 || !heap->before(node, heap->nodes[(place - 1) / 2]));
}

bool heap_add(struct heap *heap, struct heap_node *node)
{
    if (!array_reserve(&heap->nodes, &heap->capacity, heap->n + 1))
        return false;
    heap_settle(heap, heap->n++, node);
    return true;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    assert(heap->n > 0 && node->place < heap->n && heap->nodes[node->place] == node);
    struct heap_node *last = heap->nodes[--heap->n];

    if (last != node)
        heap_settle(heap, node->place, last);
}

void heap_moved(struct heap *heap, struct heap_node *node)
{
    assert(node->place < heap->n && heap->nodes[node->place] == node);
    heap_settle(heap, node->place, node);
}
