/* siphash.c - SipHash-2-4 with a tag of 128 bits.
 *
 * For short messages under a secret key, hundreds of thousands a second: a lease id is made for
 * every admitted call. OpenSSL has the same function, behind a context that costs several times the
 * hash; HMAC of SHA-256 costs more than a whole decision. The tables' hash (xxhash) is fast, too,
 * but was never meant to keep a secret. The function is that of Aumasson and Bernstein's paper;
 * tests/unit/server/admit/test_admit_lease.c holds it against OpenSSL's.
 */
#include "io/text/siphash.h"

#include <string.h>

struct lanes {
    uint64_t a, b, c, d;
};

static uint64_t turned(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void stir(struct lanes *v, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v->a += v->b;
        v->b = turned(v->b, 13) ^ v->a;
        v->a = turned(v->a, 32);
        v->c += v->d;
        v->d = turned(v->d, 16) ^ v->c;
        v->a += v->d;
        v->d = turned(v->d, 21) ^ v->a;
        v->c += v->b;
        v->b = turned(v->b, 17) ^ v->c;
        v->c = turned(v->c, 32);
    }
}

/* The first byte is the lowest, on any machine; compilers make one load of it. */
static uint64_t word_of(const uint8_t *b)
{
    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
           (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 |
           (uint64_t)b[7] << 56;
}

/* The same for fewer than 8 bytes. */
static uint64_t rest_of(const uint8_t *bytes, size_t n)
{
    uint64_t x = 0;

    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)bytes[i] << (8 * i);
    return x;
}

static void absorb(struct lanes *v, uint64_t word)
{
    v->d ^= word;
    stir(v, 2);
    v->a ^= word;
}

static void put_sum(struct lanes *v, uint8_t to[8])
{
    stir(v, 4);
    uint64_t sum = v->a ^ v->b ^ v->c ^ v->d;
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(sum >> (8 * i));
}

void siphash(const uint8_t key[SIPHASH_KEY], const void *bytes, size_t n, uint8_t tag[SIPHASH_TAG])
{
    uint64_t k0 = word_of(key), k1 = word_of(key + 8);
    struct lanes v = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                      k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    const uint8_t *at = bytes;
    size_t left = n;

    for (; left >= 8; left -= 8, at += 8)
        absorb(&v, word_of(at));
    absorb(&v, rest_of(at, left) | (uint64_t)(n & 0xff) << 56);
    v.c ^= 0xee;
    put_sum(&v, tag);
    v.b ^= 0xdd;
    put_sum(&v, tag + 8);
}
