/* first_byte.h - the time to a first byte, made comparable between prompts of different size.
 *
 * A law that moves a limit takes latency for load. But a long prompt takes longer to its first byte
 * than a short one on an idle machine too, and a mix of both that changes is no overload. So calls
 * are sorted into buckets by the size of their prompt, a power of two each; for each bucket the
 * least time of late is known, and what the law is given is how many times that a call took, in
 * terms of one common bucket. The answer's length does not come in at all.
 *
 * Any number of threads; a race costs a sample, not the order of magnitude.
 */
#ifndef TG_DIALECT_FIRST_BYTE_H
#define TG_DIALECT_FIRST_BYTE_H

#include <stdatomic.h>
#include <stdint.h>

enum { FIRST_BYTE_BUCKETS = 24 };

struct first_byte {
    _Atomic double least_ms[FIRST_BYTE_BUCKETS]; /* 0: none yet */
    _Atomic double common_ms;                    /* what all are scaled to: the first bucket's */
};

/* The sample for a law: a call with so many tokens of prompt took so long to its first byte. */
double first_byte_sample(struct first_byte *first_byte, int64_t prompt_tokens, double ms);

#endif
