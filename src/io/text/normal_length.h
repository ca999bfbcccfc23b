/* normal_length.h - how long a text can become when it is normalised.
 *
 * Tokenizers that fall back on bytes make at most one token of each byte of the text that they
 * see, and some of them see it normalised: NFC writes U+0FA2 with twice its bytes, NFKC writes
 * U+FDFA with eleven times its bytes. So the length of the normalised text bounds the tokens, and
 * the length of the text does not.
 */
#ifndef TG_TEXT_NORMAL_LENGTH_H
#define TG_TEXT_NORMAL_LENGTH_H

#include <stddef.h>
#include <stdint.h>

struct normal_length {
    int64_t bytes; /* in the form that it has */
    int64_t nfc;   /* at most, in this form; never less than bytes */
    int64_t nfkc;  /* never less than nfc */
};

/* Adds the length of a text, which must be UTF-8: what is not is counted, but not as what. Lengths
 * add up: texts may be measured in any pieces that end where characters do. */
void normal_length_add(struct normal_length *length, const char *text, size_t n);

#endif
