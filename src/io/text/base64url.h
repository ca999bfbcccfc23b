/* base64url.h - bytes as letters, digits, "-" and "_", without padding (RFC 4648, 5).
 *
 * Reading is strict, so that each text of bytes has one form: what is signed or sealed cannot be
 * written in another way. Base64 with padding is written by EVP_EncodeBlock().
 */
#ifndef TG_TEXT_BASE64URL_H
#define TG_TEXT_BASE64URL_H

#include <stdbool.h>
#include <stdint.h>

#include "io/text/slice.h"

#define BASE64URL_CHARACTERS(bytes) (((bytes)*8 + 5) / 6)

/* Writes BASE64URL_CHARACTERS(n) characters, and no zero. */
void base64url_write(const void *bytes, size_t n, char *text);

/* Sets *n. False: the text is none, has bits left over that are not zero, or more bytes than
 * `room`. */
bool base64url_read(struct slice text, uint8_t *bytes, size_t room, size_t *n);

#endif
