/* failing_malloc.h - an allocator that counts, and fails when told: for one file of a test program.
 *
 * What it defines takes the place of the C library's in the whole program, so it cannot stand among
 * the helpers that every test is linked with. A sanitizer has an allocator of its own: there
 * OWN_ALLOCATOR is 0 and nothing is replaced.
 */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ALLOCATOR 0
#endif
#endif
#if !defined(OWN_ALLOCATOR) && defined(__GLIBC__)
#define OWN_ALLOCATOR 1
#endif

#define MAYBE_UNUSED __attribute__((unused)) /* nobody looks at all of them */

/* Allocations left until one fails; below 0: none does. */
MAYBE_UNUSED static long until_failure = -1;
MAYBE_UNUSED static bool keeps_failing;
MAYBE_UNUSED static long allocations;
MAYBE_UNUSED static long live;

#if OWN_ALLOCATOR

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static bool fails(void)
{
    allocations++;
    if (until_failure < 0 || until_failure-- > 0)
        return false;
    until_failure = keeps_failing ? 0 : -1;
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    live += block != NULL;
    return block;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

void *realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    live -= block != NULL;
    return counted(__libc_realloc(block, size));
}

void free(void *block)
{
    live -= block != NULL;
    __libc_free(block);
}

/* The C library's own call its malloc() by a name that cannot be replaced. */
char *strndup(const char *text, size_t most)
{
    size_t n = strnlen(text, most);
    char *copy = malloc(n + 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *strdup(const char *text)
{
    return strndup(text, SIZE_MAX);
}

#endif

MAYBE_UNUSED static void need_allocator(void)
{
    if (!OWN_ALLOCATOR) {
        print_message("the sanitizer's allocator cannot be told to fail\n");
        skip();
    }
}

/* From now on, the nth allocation from 0 fails. */
MAYBE_UNUSED static void fail_at(long nth)
{
    allocations = 0;
    until_failure = nth;
}

/* A life with its 1st, 2nd, 3rd ... allocation failing, or that and all after it, until it is over
 * before the failure comes. `live_once` calls fail_at(nth), returns how many errors it was told,
 * and leaves nothing behind. */
MAYBE_UNUSED static void expect_survival(long (*live_once)(long nth), bool persistently,
                                         long lives_min, long errors_min)
{
    long errors = 0, nth = -1;

    keeps_failing = persistently;
    do {
        long before = live;
        errors += live_once(++nth);
        assert_int_equal(live, before);
    } while (allocations > nth);
    assert_true(nth + 1 > lives_min);
    assert_true(errors > errors_min);
}

#endif /* FAILING_MALLOC_H */
