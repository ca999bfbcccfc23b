/* sized.h - structs of a caller that may be older or newer than the library.
 *
 * A struct that can grow has its size as its first member, `struct_size`, which its init macro sets
 * to what the caller's header says. New members come at the end, and 0 is their default. So the
 * library reads a shorter struct with zeros behind it, and a longer one if what it does not know is
 * zero: then the caller uses nothing that is missing here.
 *
 * The usual case, a caller of the same version, is one comparison.
 */
#ifndef TG_CORE_SIZED_H
#define TG_CORE_SIZED_H

#include <stddef.h>

#include "tollgate.h"

/* The size of a struct whose last member is `member`: what its first version had. */
#define SIZED_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/* Writes `ours` bytes of defaults into a caller's struct of `size` bytes, and its size. A size that
 * is below that of the first version leaves a struct that is not initialized. */
void sized_init(void *to, size_t size, const void *defaults, size_t ours, size_t first);

/* Copies a caller's struct, which is not null, into one of ours. False: it was not initialized, or
 * uses members that are not known here. */
bool sized_read(void *to, size_t ours, const void *from, size_t first);

/* The same for functions that describe a problem; `from` may be null. */
enum tg_err sized_check(void *to, size_t ours, const void *from, size_t first, const char *name,
                        struct tg_problem *problem);

/* Copies a result of ours to a caller that has room for `size` bytes. */
void sized_give(void *to, size_t size, const void *from, size_t ours);

#endif
