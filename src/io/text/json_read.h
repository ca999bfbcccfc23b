/* json_read.h - reading JSON: one document at a time, from front to back.
 *
 *     struct json_text key;
 *     struct json_value value;
 *
 *     json_begin(reader, text, bytes, readable, &value);
 *     if (value.kind == JSON_OBJECT && json_enter(reader))
 *         while (json_next(reader, &key, &value))
 *             ...                            json_enter() again, for an object or array
 *     if (!json_end(reader))
 *         ... json_reader_problem(reader)->text
 *
 * The first error is kept and everything after it answers false, so only json_end() has to be
 * checked. A document is good only when json_end() says so: until then, values that were read may
 * stand in front of a mistake. What is not entered is passed over, but checked all the same.
 *
 * A reader belongs to one thread at a time. See json_read.cc for why it is the way it is.
 */
#ifndef TG_TEXT_JSON_READ_H
#define TG_TEXT_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes after a document that must be readable, whatever they hold, for it to be read in place. */
#define JSON_PADDING 64

/* Bytes that a reader takes at most for each byte of its document: where tokens begin, its texts
 * unescaped, and a copy of it if it is not padded as it should be. */
#define JSON_READER_FACTOR 7

/* Objects and arrays within one another; deeper is an error. */
#define JSON_DEPTH_MAX 256

enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_INTEGER, /* written without fraction and exponent, and an int64 */
    JSON_DOUBLE,  /* any other number, rounded to the nearest double */
    JSON_HUGE,    /* a number that is neither: the document is good, the value is unusable */
    JSON_STRING,
    JSON_OBJECT,
    JSON_ARRAY,
};

/* UTF-8, unescaped; may hold any byte, 0 too, and has no 0 after it. Valid until the next
 * json_begin(). */
struct json_text {
    const char *bytes;
    size_t size;
};

struct json_value {
    enum json_kind kind;
    size_t offset; /* where its first byte is in the document */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct json_text string;
    };
};

struct json_problem {
    size_t offset; /* where reading ended */
    char text[120];
    bool no_memory; /* the text is not to blame */
};

struct json_reader;

/* Null when there is no memory. */
struct json_reader *json_reader_new(void);
void json_reader_free(struct json_reader *reader);

/* Gives back memory beyond what documents of so many bytes take. Its document is forgotten. */
void json_reader_trim(struct json_reader *reader, size_t bytes);

/* Begins a document of `bytes` bytes, and forgets the one before. From `text` on, `readable` bytes
 * may be read: if these are JSON_PADDING more than `bytes`, the document is read where it stands
 * and must stay there, otherwise it is copied. The root, an object or an array, is given but not
 * entered; on an error it is null. */
bool json_begin(struct json_reader *reader, const char *text, size_t bytes, size_t readable,
                struct json_value *root);

/* Goes into the object or array that was given last. */
bool json_enter(struct json_reader *reader);

/* The next value of what was entered last, and its key: in an array, an empty one. False when there
 * is none; the reader is then back in what is around it. A key that comes twice in an object that
 * was entered is an error. */
bool json_next(struct json_reader *reader, struct json_text *key, struct json_value *value);

/* Where the next token is: behind a value that was read to its end, and blanks. */
size_t json_here(struct json_reader *reader);

/* Passes over what is left of what was entered last. */
bool json_leave(struct json_reader *reader);

/* Passes over the rest of the document. True if all of it was good. */
bool json_end(struct json_reader *reader);

/* What went wrong; null if nothing did. */
const struct json_problem *json_reader_problem(const struct json_reader *reader);

/* "an object", "a string", ... for messages. Static. */
const char *json_kind_name(enum json_kind kind);

/* Here, so that the length of a literal is known: a key of another length costs one comparison, and
 * every key of every event of a stream is held against a dozen words. */
static inline bool json_text_is(struct json_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

static inline bool json_text_begins(struct json_text text, const char *with)
{
    size_t n = strlen(with);

    return text.size >= n && memcmp(text.bytes, with, n) == 0;
}

#ifdef __cplusplus
}
#endif
#endif
