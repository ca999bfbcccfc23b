/* admin_body_internal.h - bodies of the admin API: small JSON objects whose members are all known.
 *
 * Private to admin_*.c.
 *
 *     static const struct admin_member members[] = {{"name", JSON_STRING, true}, ...};
 *     struct admin_value values[2];
 *     if (!admin_body_read(call, members, 2, values))
 *         return;                                        it has been answered: 400 with the place
 */
#ifndef TG_ADMIN_ADMIN_BODY_INTERNAL_H
#define TG_ADMIN_ADMIN_BODY_INTERNAL_H

#include "io/text/json_write.h"
#include "server/admin/admin_call.h"

enum { ADMIN_TEXT_MAX = 512 };

struct admin_member {
    const char *name;
    enum json_kind kind; /* JSON_STRING; JSON_DOUBLE for any number; JSON_NULL for whatever is
                            there, which is only noted: who reads the body again says if it is wrong
                          */
    bool required;
};

struct admin_value {
    bool given;
    size_t offset;             /* in the body */
    char text[ADMIN_TEXT_MAX]; /* the string, or the number as it was written */
};

/* One that is too long, of another kind, unknown or given twice is answered, and false. */
bool admin_body_read(struct admin_call *call, const struct admin_member *members, size_t n,
                     struct admin_value *values);

/* Answers 400 with the place of an offset in the body. */
void admin_body_wrong(struct admin_call *call, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether it is one that the ledger keeps whole; if not it has been answered. */
bool admin_read_reason(struct admin_call *call, const struct admin_value *reason);

/* Whether the body is one JSON object; if not it has been answered. */
bool admin_body_is_object(struct admin_call *call);

/* A JSON text that is known to be good, as a value of a document; null where it is not. */
void admin_body_copy(struct json_reader *reader, const char *text, size_t bytes,
                     struct json_writer *out);

#endif
