/* admit_lease.c - the ids of leases: opaque, unguessable, valid for one caller, stored nowhere.
 *
 *     NODE - base64url( number of the lease 8 | time to live 6 | tag 16 )
 *
 * The tag is a keyed hash over the rest, the node and the caller's name, with a key that was drawn
 * when the process began. So an id that was made up, changed, given to another caller or minted by
 * another process is not valid; and whether the lease still exists is for the gate to say, which
 * never gives a number twice. Rejected: a table from random ids to leases, one more thing to lock,
 * to bound and to sweep.
 *
 * A caller is its name, not its token: so a token can be replaced, with two entries of one name for
 * a while, and leases that were obtained with the old one can be ended with the new.
 *
 * The top bit of the time to live says that the lease is among the bound leases.
 */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/admit/admit_internal.h"

enum { NUMBER = 8, TTL = 6, SAID = NUMBER + TTL, PACKED = SAID + SIPHASH_TAG, LETTERS = 40 };
enum { BOUND = 0x80, MESSAGE_MAX = SAID + GATEWAY_NODE_BYTES + 1024 };

_Static_assert(PACKED * 8 == LETTERS * 6, "no bits are left over that could differ");
_Static_assert(ADMIT_LEASE_BYTES == GATEWAY_NODE_BYTES + 1 + LETTERS, "an id has this many");

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- base64url ---- */

static void encode(const uint8_t bytes[PACKED], char text[LETTERS])
{
    for (int i = 0, o = 0; i < PACKED; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6)
            text[o++] = alphabet[three >> shift & 63];
    }
}

/* The value of each character; 64: it is not in the alphabet. */
static const uint8_t sextets[128] = {
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 62, 64, 64, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 64, 64, 64, 64, 64, 64, 64, 0,
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
    23, 24, 25, 64, 64, 64, 64, 63, 64, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38,
    39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 64, 64, 64, 64, 64};

static bool decode(const char text[LETTERS], uint8_t bytes[PACKED])
{
    bool fine = true;

    for (int i = 0, o = 0; i < LETTERS; i += 4) {
        uint32_t three = 0;
        for (int k = 0; k < 4; k++) {
            unsigned char c = (unsigned char)text[i + k];
            fine &= c < 128 && sextets[c & 127] < 64;
            three = three << 6 | (sextets[c & 127] & 63u);
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            bytes[o++] = (uint8_t)(three >> shift);
    }
    return fine;
}

/* ---- the contents of an id ---- */

static void admit_lease_put_number(uint8_t *to, int n, uint64_t number)
{
    for (int i = n - 1; i >= 0; i--, number >>= 8)
        to[i] = (uint8_t)number;
}

static uint64_t get_number(const uint8_t *from, int n)
{
    uint64_t number = 0;

    for (int i = 0; i < n; i++)
        number = number << 8 | from[i];
    return number;
}

/* False: the name is longer than any that is configured. */
static bool seal(const struct gateway *gateway, const char *caller, const uint8_t said[SAID],
                 uint8_t tag[SIPHASH_TAG])
{
    uint8_t message[MESSAGE_MAX];
    size_t n = strlen(caller);

    if (n > sizeof message - SAID - GATEWAY_NODE_BYTES)
        return false;
    memcpy(message, said, SAID);
    memcpy(message + SAID, gateway->node_id, GATEWAY_NODE_BYTES);
    memcpy(message + SAID + GATEWAY_NODE_BYTES, caller, n);
    siphash(gateway->admit->key, message, SAID + GATEWAY_NODE_BYTES + n, tag);
    return true;
}

void admit_lease_write(const struct gateway *gateway, const char *caller,
                       const struct admit_lease *lease, char text[ADMIT_LEASE_BYTES])
{
    uint8_t packed[PACKED] = {0};

    admit_lease_put_number(packed, NUMBER, lease->lease);
    admit_lease_put_number(packed + NUMBER, TTL, (uint64_t)lease->ttl);
    packed[NUMBER] |= lease->is_bound ? BOUND : 0;
    (void)seal(gateway, caller, packed,
               packed + SAID); /* else its id is not valid, and the lease expires */
    memcpy(text, gateway->node_id, GATEWAY_NODE_BYTES);
    text[GATEWAY_NODE_BYTES] = '-';
    encode(packed, text + GATEWAY_NODE_BYTES + 1);
}

bool admit_lease_read(const struct gateway *gateway, const char *caller, struct slice text,
                      struct admit_lease *lease)
{
    uint8_t packed[PACKED], tag[SIPHASH_TAG];

    if (text.n != ADMIT_LEASE_BYTES || text.at[GATEWAY_NODE_BYTES] != '-' ||
        memcmp(text.at, gateway->node_id, GATEWAY_NODE_BYTES) != 0 ||
        !decode(text.at + GATEWAY_NODE_BYTES + 1, packed) || !seal(gateway, caller, packed, tag) ||
        CRYPTO_memcmp(tag, packed + SAID, SIPHASH_TAG) != 0)
        return false;
    lease->lease = get_number(packed, NUMBER);
    lease->is_bound = packed[NUMBER] & BOUND;
    packed[NUMBER] &= (uint8_t)~BOUND;
    lease->ttl = (tg_ms)get_number(packed + NUMBER, TTL);
    return true;
}

/* ---- what all workers share ---- */

bool admit_new(struct admit **made)
{
    struct admit *admit = calloc(1, sizeof *admit);

    if (admit == NULL)
        return false;
    if (getrandom(admit->key, sizeof admit->key, 0) != sizeof admit->key) {
        free(admit);
        return false;
    }
    bound_leases_init(&admit->bound);
    *made = admit;
    return true;
}

void admit_free(struct admit *admit)
{
    if (admit == NULL)
        return;
    bound_leases_fini(&admit->bound);
    OPENSSL_cleanse(admit->key, sizeof admit->key);
    free(admit);
}
