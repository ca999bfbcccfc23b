/* request_object.h - the members of an object of a request, as a table.
 *
 *     static const struct body_field fields[] = {
 *         {KEY("type"), BODY_TEXT, .at = offsetof(struct part, type)},
 *         {KEY("file"), BODY_OBJECT, .name = "file", .inner = file_fields},
 *         {KEY("source"), BODY_READ, .read = read_source},
 *         {.form = BODY_PASSED},
 *     };
 *     struct part part = {...};
 *     body_object(walk, "messages.content", value, fields, &part);
 *
 * A row says how a member is read, and where it goes in what is read into. The last row has no key,
 * and says what becomes of all other members.
 */
#ifndef TG_NEUTRAL_REQUEST_OBJECT_H
#define TG_NEUTRAL_REQUEST_OBJECT_H

#include "server/dialect/neutral/request_walk.h"

enum body_form {
    BODY_PASSED,  /* passed over */
    BODY_TEXT,    /* a struct slice: a string */
    BODY_RAW,     /* a struct slice: the bytes of any value */
    BODY_TRI,     /* an enum neutral_tri */
    BODY_TRUE,    /* a bool */
    BODY_REAL,    /* a double from `least` to `most` */
    BODY_WHOLE,   /* an int64_t from `least` to `most` */
    BODY_OBJECT,  /* an object, whose members `inner` names */
    BODY_LIST,    /* an array, each of whose values `read` deals with */
    BODY_READ,    /* `read` deals with it */
    BODY_FOREIGN, /* `foreign` is noted; kept for the same dialect where it is one of the body's */
    BODY_UNKNOWN, /* the body has a member that nobody knows */
};

typedef void body_reader(struct request_walk *walk, const struct json_value *value, void *into);

struct body_field {
    const char *key; /* null in the last row */
    size_t n;
    enum body_form form;
    size_t at; /* where it goes in what is read into */
    double least, most;
    enum neutral_field foreign;
    const char *name; /* OBJECT, LIST: how messages name it */
    const struct body_field *inner;
    body_reader *read;
};

#define KEY(literal) (literal), sizeof(literal) - 1

/* Reads an object: any other value fails. `param` names it in messages. */
void body_object(struct request_walk *walk, const char *param, const struct json_value *value,
                 const struct body_field *fields, void *into);

/* The same for an object that was entered. */
void body_members(struct request_walk *walk, const char *param, const struct body_field *fields,
                  void *into);

/* Reads an array, each of its values by `read`. */
void body_list(struct request_walk *walk, const char *param, const struct json_value *value,
               body_reader *read, void *into);

/* ---- Values that several APIs have ----------------------------------------------------------- */

/* A text, or a list of parts. */
void body_content(struct request_walk *walk, const char *param, const struct json_value *value,
                  body_reader *read, void *into);

/* "auto", "none", "required" */
enum neutral_choice body_choice_word(struct request_walk *walk, const struct json_value *value);

/* "text", "json_object", "json_schema" */
enum neutral_format body_format_type(struct request_walk *walk, const char *param,
                                     const struct json_value *value);

/* `user`, which the safety_identifier replaces, and `service_tier`. */
body_reader body_user, body_tier;

#endif
