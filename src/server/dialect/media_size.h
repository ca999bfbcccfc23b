/* media_size.h - how large an image or recording in a body is, read from the head of its base64.
 *
 * Providers bill images by their sides and recordings by their length. Both stand in the first
 * bytes of a file; what does not parse, or could be parsed in two ways, has no size here, and is
 * counted at the most that its model takes for one.
 */
#ifndef TG_DIALECT_MEDIA_SIZE_H
#define TG_DIALECT_MEDIA_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `text` is a "data:...;base64," address or base64 alone. False: by another address, or no PNG,
 * JPEG, GIF or WebP that says its size. Where a file states several sizes, as a JPEG with two
 * frames does, the largest sides are taken. */
bool media_image_size(const char *text, size_t n, uint32_t *width, uint32_t *height);

/* Milliseconds that a recording can last at most: WAV by its header, MP3 by the lowest bit rate
 * that there is. -1: another format, or not in the body. */
int64_t media_audio_ms(const char *text, size_t n);

#endif
