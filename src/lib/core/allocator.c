/* allocator.c - memory from libc, or from the functions that the program has given.
 *
 * The choice is made once: by tg_set_allocator(), or by the first allocation if that comes before
 * it. So a block always goes back to where it came from, and no object has to carry its allocator
 * along.
 *
 * An allocator of a program has no aligned_alloc(). Where memory has to be aligned, a larger block
 * is taken from it, and the address of that block is written before the part that is used. libc has
 * one, which is used as it is: a table then has a power of two of bytes, and not some more.
 */
#include "lib/core/allocator.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "lib/core/sized.h"

#define ALLOCATOR_FIRST SIZED_TO(struct tg_allocator, context)

enum allocator_state { ALLOCATOR_OPEN, ALLOCATOR_BEING_SET, ALLOCATOR_LIBC, ALLOCATOR_GIVEN };

static atomic_int allocator_state = ALLOCATOR_OPEN;
static struct tg_allocator allocator_given; /* written in BEING_SET, read in GIVEN */

/* What the program has given; null: libc. The acquire pairs with the release of
 * tg_set_allocator(). */
static const struct tg_allocator *allocator_chosen(void)
{
    int state = atomic_load_explicit(&allocator_state, memory_order_acquire);

    /* On failure `state` is what another thread has made of it. */
    if (state == ALLOCATOR_OPEN &&
        atomic_compare_exchange_strong_explicit(&allocator_state, &state, ALLOCATOR_LIBC,
                                                memory_order_acquire, memory_order_acquire))
        return NULL;
    while (state == ALLOCATOR_BEING_SET) { /* for as long as a struct is copied */
        sched_yield();
        state = atomic_load_explicit(&allocator_state, memory_order_acquire);
    }
    return state == ALLOCATOR_GIVEN ? &allocator_given : NULL;
}

void tg_allocator_init_sized(struct tg_allocator *allocator, size_t size)
{
    static const struct tg_allocator defaults;

    sized_init(allocator, size, &defaults, sizeof defaults, ALLOCATOR_FIRST);
}

enum tg_err tg_set_allocator(const struct tg_allocator *given, struct tg_problem *problem)
{
    struct tg_allocator own;
    enum tg_err err =
        sized_check(&own, sizeof own, given, ALLOCATOR_FIRST, "tg_allocator", problem);
    int open = ALLOCATOR_OPEN;

    if (err)
        return err;
    if (!own.malloc || !own.calloc || !own.realloc || !own.free)
        return problem_say(
            problem, TG_ERR_NULL,
            "allocator: malloc, calloc, realloc and free are all needed, and %s is null",
            !own.malloc    ? "malloc"
            : !own.calloc  ? "calloc"
            : !own.realloc ? "realloc"
                           : "free");
    if (!atomic_compare_exchange_strong_explicit(&allocator_state, &open, ALLOCATOR_BEING_SET,
                                                 memory_order_acquire, memory_order_relaxed))
        return problem_say(
            problem, TG_ERR_INVALID,
            "allocator: it can be set once, before the library has allocated anything; %s",
            open == ALLOCATOR_LIBC ? "something was allocated before" : "it was set before");
    allocator_given = own;
    atomic_store_explicit(&allocator_state, ALLOCATOR_GIVEN, memory_order_release);
    return TG_OK;
}

void *mem_malloc(size_t bytes)
{
    const struct tg_allocator *given = allocator_chosen();

    return given ? given->malloc(given->context, bytes) : malloc(bytes);
}

void *mem_calloc(size_t n, size_t bytes)
{
    const struct tg_allocator *given = allocator_chosen();

    return given ? given->calloc(given->context, n, bytes) : calloc(n, bytes);
}

void *mem_realloc(void *block, size_t bytes)
{
    const struct tg_allocator *given = allocator_chosen();

    return given ? given->realloc(given->context, block, bytes) : realloc(block, bytes);
}

void mem_free(void *block)
{
    const struct tg_allocator *given = allocator_chosen();

    if (!given)
        free(block);
    else if (block)
        given->free(given->context, block);
}

void *mem_aligned_alloc(size_t alignment, size_t bytes)
{
    const struct tg_allocator *given = allocator_chosen();
    char *block, *aligned;

    if (!given)
        return aligned_alloc(alignment, bytes);
    if (bytes > SIZE_MAX - alignment - sizeof block)
        return NULL;
    block = given->malloc(given->context, bytes + alignment + sizeof block);
    if (!block)
        return NULL;
    aligned = block + sizeof block;
    aligned += (alignment - (uintptr_t)aligned % alignment) % alignment;
    memcpy(aligned - sizeof block, &block, sizeof block);
    return aligned;
}

void mem_free_aligned(void *aligned)
{
    const struct tg_allocator *given = allocator_chosen();
    char *block;

    if (!given) {
        free(aligned);
    } else if (aligned) {
        memcpy(&block, (char *)aligned - sizeof block, sizeof block);
        given->free(given->context, block);
    }
}
