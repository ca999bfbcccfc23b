/* heap.h - who is first, among many that come, go and change: an intrusive binary heap.
 *
 * A node stands in the struct it is for, and knows its place, so that it can be taken out from the
 * middle. The order is the owner's: a function that says which of two goes before the other. It
 * should say so of any two, lest the order depend on the heap's shape.
 */
#ifndef TG_CORE_HEAP_H
#define TG_CORE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct heap_node {
    size_t place;
};

typedef bool heap_before(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node **nodes;
    size_t n;
    size_t capacity;
    heap_before *before;
};

void heap_init(struct heap *heap, heap_before *before);
void heap_fini(struct heap *heap);

/* False: no memory. */
bool heap_add(struct heap *heap, struct heap_node *node);

void heap_remove(struct heap *heap, struct heap_node *node);

/* What the order of a node depends on has changed. */
void heap_moved(struct heap *heap, struct heap_node *node);

/* Null if there is none. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
    return heap->n > 0 ? heap->nodes[0] : NULL;
}

#endif
