/* go_random.c - the stream of chance of Go's math/rand. See go_random.h.
 *
 * Go keeps a table of 607 words with which every seed is mixed: the state of the same generator,
 * begun with seed 1, after 7.8e12 calls. We compute it instead of keeping it. A call is linear,
 * y(k) = y(k - 607) + y(k - 273) modulo 2^64, so y(n) is a sum of the first 607 words with the
 * coefficients of x^n modulo x^607 - x^334 - 1, and that power takes 34 squarings: some
 * milliseconds, for those runs that come to a tie.
 */
#include "lab/cluster/go_random.h"

#include <assert.h>
#include <string.h>

#define WORDS GO_RANDOM_WORDS
#define LAG 273
#define COOKED_CALLS UINT64_C(7800000000000)
#define FIRST_BITS 34 /* without them, the calls are fewer than the words */

struct polynomial {
    uint64_t at[WORDS]; /* coefficient of each power of x */
};

/* ---- Jumping ahead --------------------------------------------------------------------------- */

/* x^607 is x^334 + 1. */
static void reduce(uint64_t *wide, struct polynomial *out)
{
    for (int i = 2 * WORDS - 2; i >= WORDS; i--) {
        wide[i - LAG] += wide[i];
        wide[i - WORDS] += wide[i];
    }
    memcpy(out->at, wide, sizeof out->at);
}

static void square(struct polynomial *p)
{
    uint64_t wide[2 * WORDS] = {0};

    for (int i = 0; i < WORDS; i++) {
        uint64_t twice = 2 * p->at[i];
        wide[2 * i] += p->at[i] * p->at[i];
        for (int j = i + 1; j < WORDS && twice != 0; j++)
            wide[i + j] += twice * p->at[j];
    }
    reduce(wide, p);
}

static void times_x(struct polynomial *p)
{
    uint64_t top = p->at[WORDS - 1];

    memmove(&p->at[1], &p->at[0], (WORDS - 1) * sizeof p->at[0]);
    p->at[0] = top;
    p->at[WORDS - LAG] += top;
}

/* The first bits at once: x^454 needs no reduction. */
static void power_of_x(uint64_t n, struct polynomial *p)
{
    assert(n >> FIRST_BITS < WORDS);
    *p = (struct polynomial){0};
    p->at[n >> FIRST_BITS] = 1;
    for (int bit = FIRST_BITS - 1; bit >= 0; bit--) {
        square(p);
        if (n >> bit & 1)
            times_x(p);
    }
}

/* ---- Seeding --------------------------------------------------------------------------------- */

static int32_t next_seed(int32_t x)
{
    return (int32_t)((int64_t)x * 48271 % INT32_MAX);
}

/* The next word from a seed, of three numbers shifted by `shift`. */
static uint64_t seed_word(int32_t *x, int shift)
{
    uint64_t word;

    *x = next_seed(*x);
    word = (uint64_t)*x << 2 * shift;
    *x = next_seed(*x);
    word ^= (uint64_t)*x << shift;
    *x = next_seed(*x);
    return word ^ (uint64_t)*x;
}

static int32_t warm_up(int32_t x)
{
    for (int i = 0; i < 20; i++)
        x = next_seed(x);
    return x;
}

/* Where the word of call k is kept; calls before the first are those that made the seed. */
static size_t go_random_place_of(int64_t k)
{
    int64_t place = (WORDS - LAG - k) % WORDS;

    return (size_t)(place < 0 ? place + WORDS : place);
}

static void cook(uint64_t *cooked)
{
    uint64_t words[WORDS];
    struct polynomial p;
    int32_t x = warm_up(1);

    for (int i = 0; i < WORDS; i++)
        words[i] = seed_word(&x, 10);
    power_of_x(COOKED_CALLS, &p);
    for (int64_t k = (int64_t)COOKED_CALLS - WORDS + 1; k <= (int64_t)COOKED_CALLS; k++) {
        uint64_t sum = 0;
        for (int i = 0; i < WORDS; i++)
            sum += p.at[i] * words[go_random_place_of(i - WORDS + 1)];
        cooked[go_random_place_of(k)] = sum;
        times_x(&p);
    }
}

void go_random_init(struct go_random *random, int64_t seed)
{
    uint64_t cooked[WORDS];
    int64_t start = seed % INT32_MAX;

    start += start < 0 ? INT32_MAX : 0;
    int32_t x = warm_up(start == 0 ? 89482311 : (int32_t)start);
    cook(cooked);
    for (int i = 0; i < WORDS; i++)
        random->words[i] = seed_word(&x, 20) ^ cooked[i];
    random->tap = 0;
    random->feed = WORDS - LAG;
}

int64_t go_random_part(int64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return (int64_t)((uint64_t)seed ^ hash);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static uint64_t next_word(struct go_random *random)
{
    random->tap = random->tap > 0 ? random->tap - 1 : WORDS - 1;
    random->feed = random->feed > 0 ? random->feed - 1 : WORDS - 1;
    return random->words[random->feed] += random->words[random->tap];
}

static int32_t next_31_bits(struct go_random *random)
{
    return (int32_t)(next_word(random) << 1 >> 33);
}

int32_t go_random_below(struct go_random *random, int32_t n)
{
    uint32_t range = UINT32_C(1) << 31;
    int32_t most = (int32_t)(range - 1 - range % (uint32_t)n), drawn;

    assert(n > 0 && random->tap >= 0 && random->tap < WORDS && random->feed < WORDS);
    if ((n & (n - 1)) == 0)
        return next_31_bits(random) & (n - 1);
    do
        drawn = next_31_bits(random);
    while (drawn > most);
    return drawn % n;
}
