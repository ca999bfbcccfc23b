/* json_write.h - writing JSON, appended to a buffer that grows.
 *
 *     struct json_writer out;
 *     json_writer_init(&out);
 *     json_write_object(&out);
 *     json_write_key(&out, "limit");
 *     json_write_integer(&out, 5);
 *     json_write_object_end(&out);                {"limit":5}
 *
 * Commas and colons come by themselves. The writer does not check that a key stands before each
 * value of an object or that all is closed again: that is the shape of the calling code. The bytes
 * are ASCII and UTF-8 whatever it is given. When memory ends, `text.failed` is set and nothing more
 * is appended: one check, at the end, will do.
 */
#ifndef TG_TEXT_JSON_WRITE_H
#define TG_TEXT_JSON_WRITE_H

#include "io/text/text_out.h"

struct json_writer {
    struct text_out text; /* what is written; `failed` is there, too */
    size_t escapes;       /* bytes that strings have taken besides their own and their quotes */
    bool comma;           /* the next value or key is not the first where it stands */
};

void json_writer_init(struct json_writer *writer);
void json_writer_fini(struct json_writer *writer);

/* Forgets what was written and keeps the memory. */
void json_writer_clear(struct json_writer *writer);

void json_write_object(struct json_writer *writer);
void json_write_object_end(struct json_writer *writer);
void json_write_array(struct json_writer *writer);
void json_write_array_end(struct json_writer *writer);

/* A key, up to its 0. */
void json_write_key(struct json_writer *writer, const char *key);

/* Bytes that are not UTF-8 are written as U+FFFD. */
void json_write_string(struct json_writer *writer, const char *bytes, size_t size);

/* A value that is JSON already, as it is. The bytes are not checked. */
void json_write_raw(struct json_writer *writer, const char *bytes, size_t size);

void json_write_integer(struct json_writer *writer, int64_t value);

/* With as few digits as give the same double when read again. JSON has no infinity and no NaN:
 * they are written as null. */
void json_write_double(struct json_writer *writer, double value);

void json_write_bool(struct json_writer *writer, bool value);
void json_write_null(struct json_writer *writer);

/* Ends a document with a newline; another may follow. */
void json_write_line_end(struct json_writer *writer);

#endif
