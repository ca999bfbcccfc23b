/* json_text_out.h - text as a JSON string, into a buffer of the caller's. */
#ifndef TG_TEXT_JSON_TEXT_OUT_H
#define TG_TEXT_JSON_TEXT_OUT_H

#include <stddef.h>

/* Writes the string with its quotes, and no 0; how many bytes. What does not fit is cut off between
 * characters, and the string is closed all the same; `size` is 2 or more. Bytes that are not UTF-8
 * become U+FFFD. */
size_t json_text_out(const char *text, size_t n, char *out, size_t size);

#endif
