/* virtual_key.c - the keys that we give to tenants: found in a request, hashed, compared, made.
 *
 * SHA-256 without salt or stretching, because a key is 256 random bits: there is no dictionary of
 * them, and a hash has to be made for every call. Only the hash is ever configured or kept. It is
 * made by OpenSSL's older interface: the newer one looks the algorithm up by name each time, under
 * a lock, and allocates, which costs several times the hash.
 *
 * A request with two keys that differ is nobody's: one program on its way would have taken the
 * first, we the second.
 */
#define _DEFAULT_SOURCE          /* getentropy */
#define OPENSSL_API_COMPAT 10100 /* SHA256_Init */
#include "server/tenancy/virtual_key.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include "io/text/base64url.h"

#define SECRET_BYTES 32

static struct slice trimmed(struct slice text)
{
    while (text.n > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.n--;
    }
    while (text.n > 0 && (text.at[text.n - 1] == ' ' || text.at[text.n - 1] == '\t'))
        text.n--;
    return text;
}

/* Empty for any other scheme. */
static struct slice bearer(struct slice value)
{
    size_t n = sizeof "bearer" - 1;

    if (value.n <= n || !slice_equal_nocase((struct slice){value.at, n}, SLICE("bearer")) ||
        (value.at[n] != ' ' && value.at[n] != '\t'))
        return (struct slice){value.at, 0};
    return trimmed((struct slice){value.at + n, value.n - n});
}

static struct slice key_in(const struct http_field *field)
{
    if (slice_equal_nocase(field->name, SLICE("authorization")))
        return bearer(trimmed(field->value));
    if (slice_equal_nocase(field->name, SLICE("x-api-key")) ||
        slice_equal_nocase(field->name, SLICE("api-key")))
        return trimmed(field->value);
    return (struct slice){NULL, 0};
}

enum virtual_key_found virtual_key_find(const struct http_field *fields, size_t n,
                                        struct slice *key)
{
    enum virtual_key_found found = VIRTUAL_KEY_NONE;

    *key = (struct slice){"", 0};
    for (size_t i = 0; i < n; i++) {
        struct slice one = key_in(&fields[i]);
        if (one.n == 0)
            continue;
        if (found == VIRTUAL_KEY_FOUND && !slice_equal(one, *key))
            return VIRTUAL_KEY_CONFLICT;
        found = VIRTUAL_KEY_FOUND;
        *key = one;
    }
    return found;
}

bool virtual_key_hash(struct slice key, uint8_t hash[VIRTUAL_KEY_HASH])
{
    SHA256_CTX context;
    bool fine = SHA256_Init(&context) == 1 && SHA256_Update(&context, key.at, key.n) == 1 &&
                SHA256_Final(hash, &context) == 1;

    OPENSSL_cleanse(&context, sizeof context);
    return fine;
}

bool virtual_key_equal(const uint8_t a[VIRTUAL_KEY_HASH], const uint8_t b[VIRTUAL_KEY_HASH])
{
    return CRYPTO_memcmp(a, b, VIRTUAL_KEY_HASH) == 0;
}

void virtual_key_hex(const uint8_t hash[VIRTUAL_KEY_HASH], char text[VIRTUAL_KEY_HEX + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < VIRTUAL_KEY_HASH; i++) {
        text[2 * i] = digits[hash[i] >> 4];
        text[2 * i + 1] = digits[hash[i] & 15];
    }
    text[VIRTUAL_KEY_HEX] = '\0';
}

bool virtual_key_make(char text[VIRTUAL_KEY_BYTES + 1])
{
    uint8_t secret[SECRET_BYTES];

    if (getentropy(secret, sizeof secret) != 0)
        return false;
    memcpy(text, "tg-", 3);
    base64url_write(secret, sizeof secret, text + 3);
    text[VIRTUAL_KEY_BYTES] = '\0';
    OPENSSL_cleanse(secret, sizeof secret);
    return true;
}
