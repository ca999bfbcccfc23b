/* virtual_key.h - the keys that we give to tenants: found in a request, hashed, compared, made. */
#ifndef TG_TENANCY_VIRTUAL_KEY_H
#define TG_TENANCY_VIRTUAL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http/http.h"

#define VIRTUAL_KEY_HASH 32        /* bytes of a SHA-256 */
#define VIRTUAL_KEY_BYTES (3 + 43) /* "tg-" and 256 bits in base64url */
#define VIRTUAL_KEY_HEX (2 * VIRTUAL_KEY_HASH)

enum virtual_key_found {
    VIRTUAL_KEY_NONE, /* or an empty one, or an Authorization that is not Bearer */
    VIRTUAL_KEY_FOUND,
    VIRTUAL_KEY_CONFLICT, /* two that differ */
};

/* Looks at `authorization: Bearer`, `x-api-key` and `api-key`, all fields of these names. `key`
 * points into the fields. */
enum virtual_key_found virtual_key_find(const struct http_field *fields, size_t n,
                                        struct slice *key);

/* SHA-256. False: the library of hashes failed. */
bool virtual_key_hash(struct slice key, uint8_t hash[VIRTUAL_KEY_HASH]);

/* Takes the same time whatever the bytes are. */
bool virtual_key_equal(const uint8_t a[VIRTUAL_KEY_HASH], const uint8_t b[VIRTUAL_KEY_HASH]);

/* Lower case, with a 0 at the end. */
void virtual_key_hex(const uint8_t hash[VIRTUAL_KEY_HASH], char text[VIRTUAL_KEY_HEX + 1]);

/* A new key, with a 0 at the end. False: the system gives no randomness. */
bool virtual_key_make(char text[VIRTUAL_KEY_BYTES + 1]);

#endif
