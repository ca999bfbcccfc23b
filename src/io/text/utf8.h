/* utf8.h - where a character ends, and whether it is one. */
#ifndef TG_TEXT_UTF8_H
#define TG_TEXT_UTF8_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many bytes the character at `text` takes, of the `left` (1 or more) that are there; 0 if this
 * is not UTF-8. Overlong forms, surrogates and what lies above U+10FFFF are not. */
size_t utf8_bytes(const char *text, size_t left);

/* How many bytes at the head of `text` are UTF-8: `bytes`, if all of them. */
size_t utf8_valid(const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
