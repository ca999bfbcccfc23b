/* allocator.h - where the memory of the library comes from: libc, or the program's own allocator.
 *
 * No other file of src/lib calls malloc() and its like (tests/api/own_allocator.sh). The functions
 * are those of libc, and what they return is given back by mem_free(); aligned memory by
 * mem_free_aligned().
 */
#ifndef TG_CORE_ALLOCATOR_H
#define TG_CORE_ALLOCATOR_H

#include <stddef.h>

void *mem_malloc(size_t bytes);
void *mem_calloc(size_t n, size_t bytes);
void *mem_realloc(void *block, size_t bytes);
void mem_free(void *block);

/* `alignment` is a power of two, and `bytes` a multiple of it. */
void *mem_aligned_alloc(size_t alignment, size_t bytes);
void mem_free_aligned(void *block);

#endif
