/* neutral_error.h - an error of a provider's, in no dialect's words.
 *
 * The class decides what a client is told: the status, the type and the code of its own dialect.
 */
#ifndef TG_NEUTRAL_NEUTRAL_ERROR_H
#define TG_NEUTRAL_NEUTRAL_ERROR_H

#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "server/dialect/neutral/neutral.h"

enum error_class {
    ERROR_BAD_REQUEST,
    ERROR_AUTH,
    ERROR_BILLING, /* money or a quota is gone: no wait will cure it */
    ERROR_PERMISSION,
    ERROR_NOT_FOUND,
    ERROR_TOO_LARGE,
    ERROR_CONTEXT, /* the prompt is longer than the model's window */
    ERROR_RATE,
    ERROR_OVERLOADED,
    ERROR_TIMEOUT,
    ERROR_SERVER,
    ERROR_FILTER, /* the provider's filter refused the prompt */
    ERROR_CLASS_COUNT
};

#define ERROR_WORD_MAX 64
#define ERROR_MESSAGE_MAX 512

struct neutral_error {
    enum error_class class;
    int64_t retry_ms; /* how long to wait, as the body says it; 0: it does not */
    char type[ERROR_WORD_MAX], code[ERROR_WORD_MAX], param[ERROR_WORD_MAX]; /* the provider's own */
    char message[ERROR_MESSAGE_MAX]; /* for people; printable UTF-8, cut where it is too long */
};

/* An error of our own making, such as a stream that was cut. */
void neutral_error_init(struct neutral_error *error, enum error_class class, const char *message);

/* Reads the body of an error in any of the dialects, whole or within a stream. A status of 0 is not
 * known: the body alone tells. What is no JSON gives the status's own class. */
void neutral_error_read(struct json_reader *json, int status, struct slice body,
                        struct neutral_error *error);

/* The same for the object under "error" that the reader gave last. */
void neutral_error_take(struct json_reader *json, const struct json_value *value, int status,
                        struct neutral_error *error);

/* What a client of the dialect is told. */
int neutral_error_status(const struct neutral_error *error, enum dialect to);

/* Writes the body of the error, whole: {"error": ...} or {"type": "error", ...}. */
void neutral_error_write(const struct neutral_error *error, enum dialect to,
                         struct json_writer *out);

#endif
