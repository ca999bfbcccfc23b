/* reference.h - what a good engineer writes by hand for one rate limit.
 *
 * Read the clock, hash the key, probe a table, compare-and-swap a timestamp; no way to add a
 * second limit, to bound memory, to say what remains. That is the price a limiter cannot go below,
 * and the one the library is measured against.
 */
#ifndef TG_BENCH_REFERENCE_H
#define TG_BENCH_REFERENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REFERENCE_KEY_BYTES = 32 };

struct reference_slot {
    _Alignas(64) char key[REFERENCE_KEY_BYTES];
    uint64_t hash; /* 0: free */
    _Atomic(int64_t) tat_us;
};

struct reference {
    struct reference_slot *slots;
    uint64_t mask;
};

/* For up to half as many keys as `slots`, a power of two. */
bool reference_init(struct reference *reference, size_t slots);
void reference_fini(struct reference *reference);

/* Adds a key before the measuring starts; not for threads. */
void reference_add(struct reference *reference, const char *key);

/* One check of a key that was added: whether it is within its limit now. */
bool reference_check(struct reference *reference, const char *key);

#endif
