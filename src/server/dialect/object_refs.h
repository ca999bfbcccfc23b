/* object_refs.h - ids of a provider's objects that a request names: in its query, or in its body.
 *
 * Whoever names an object gets at what is in it: a file by `file_id`, a conversation by
 * `previous_response_id`. So each name is held against who made it (runtime/object_owners.h).
 *
 *     object_refs_json(reader, body, n, readable, values, &watch)
 *     ... watch.seen(context, "file-abc", true)
 *
 * seen() is told every short text of the request. `named` says that its key is one under which
 * objects are named, and that it has the form of an id: it has to be the caller's own. Any other
 * text is only wrong if it is known to be somebody else's object.
 *
 * Not looked into: what is free for callers to fill (metadata, schemas, arguments of tools), as far
 * as keys are concerned, and files that are uploaded, but for those of batches, whose lines are
 * calls of models.
 */
#ifndef TG_DIALECT_OBJECT_REFS_H
#define TG_DIALECT_OBJECT_REFS_H

#include "io/text/json_read.h"
#include "io/text/slice.h"
#include "server/dialect/object_scan.h"

struct object_watch {
    void *context;
    bool (*seen)(void *context, struct slice id, bool named); /* false: look no further */
    bool any; /* every key that ends in _id or _ids names an object, but a few: for paths whose
                 fields nobody here knows */
};

enum object_refs {
    OBJECT_REFS_FINE,
    OBJECT_REFS_STOPPED,   /* seen() was false */
    OBJECT_REFS_MALFORMED, /* it cannot be read; what was seen before counts */
    OBJECT_REFS_TOO_MANY,  /* values */
    OBJECT_REFS_NO_MEMORY,
};

enum object_refs object_refs_json(struct json_reader *reader, const char *body, size_t n,
                                  size_t readable, size_t values, const struct object_watch *watch);

/* Fields of multipart/form-data. `type` is the content type, with its boundary. Where the field
 * `purpose` is "batch", the file has a call of a model in each line: {"body": {..}, ..}, of which
 * each may have so many values. Other arguments as for object_refs_json(). */
enum object_refs object_refs_form(struct json_reader *reader, struct slice type, const char *body,
                                  size_t n, size_t readable, size_t values,
                                  const struct object_watch *watch);

/* "a=b&c=d", percent-encoded: a query, or a form. */
enum object_refs object_refs_query(struct slice query, const struct object_watch *watch);

#endif
