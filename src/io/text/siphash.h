/* siphash.h - a keyed hash of 128 bits that cannot be made without the key. See siphash.c. */
#ifndef TG_TEXT_SIPHASH_H
#define TG_TEXT_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY 16
#define SIPHASH_TAG 16

void siphash(const uint8_t key[SIPHASH_KEY], const void *bytes, size_t n, uint8_t tag[SIPHASH_TAG]);

#endif
