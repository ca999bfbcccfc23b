/* jwt_internal.h - what jwt_check.c and jwt_keys.c share. */
#ifndef TG_TENANCY_JWT_INTERNAL_H
#define TG_TENANCY_JWT_INTERNAL_H

#include <openssl/types.h>

#include "server/tenancy/jwt_check.h"

struct jwt_key {
    char *id; /* its `kid`; owned, without a zero at its end */
    size_t id_bytes;
    uint32_t algorithms; /* bits of those that it verifies */
    EVP_PKEY *key;
};

struct jwt_keys {
    size_t n;
    struct jwt_key keys[JWT_KEYS_MAX];
};

#endif
