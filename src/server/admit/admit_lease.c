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

#include "io/text/base64url.h"
#include "server/admit/admit_internal.h"

enum { NUMBER = 8, TTL = 6, SAID = NUMBER + TTL, PACKED = SAID + SIPHASH_TAG, LETTERS = 40 };
enum { BOUND = 0x80, MESSAGE_MAX = SAID + GATEWAY_NODE_BYTES + 1024 };

_Static_assert(PACKED * 8 == LETTERS * 6, "no bits are left over that could differ");
_Static_assert(ADMIT_LEASE_BYTES == GATEWAY_NODE_BYTES + 1 + LETTERS, "an id has this many");

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
    base64url_write(packed, sizeof packed, text + GATEWAY_NODE_BYTES + 1);
}

bool admit_lease_read(const struct gateway *gateway, const char *caller, struct slice text,
                      struct admit_lease *lease)
{
    uint8_t packed[PACKED], tag[SIPHASH_TAG];
    size_t n;

    if (text.n != ADMIT_LEASE_BYTES || text.at[GATEWAY_NODE_BYTES] != '-' ||
        memcmp(text.at, gateway->node_id, GATEWAY_NODE_BYTES) != 0 ||
        !base64url_read((struct slice){text.at + GATEWAY_NODE_BYTES + 1, LETTERS}, packed,
                        sizeof packed, &n) ||
        !seal(gateway, caller, packed, tag) || CRYPTO_memcmp(tag, packed + SAID, SIPHASH_TAG) != 0)
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
