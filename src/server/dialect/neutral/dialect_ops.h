/* dialect_ops.h - what a dialect is: pure functions on the neutral form.
 *
 * None does I/O, reads a clock or knows of admission. The table of all dialects is in
 * translate/dialects.c: whoever adds one adds a folder and a line there.
 */
#ifndef TG_NEUTRAL_DIALECT_OPS_H
#define TG_NEUTRAL_DIALECT_OPS_H

#include "server/dialect/neutral/losses.h"
#include "server/dialect/neutral/neutral.h"
#include "server/dialect/neutral/reply_events.h"

struct dialect_ops {
    enum dialect dialect;
    const char *name;

    /* Reads a body of `n` bytes, of which `readable` may be read (see json_begin()). The request
     * was initialised, points into the body afterwards, and is freed by its owner in any case.
     * False: `problem` says why. Null where no client speaks the dialect. */
    bool (*read_request)(struct json_reader *json, const char *body, size_t n, size_t readable,
                         struct neutral_request *request, struct ask_problem *problem);

    /* Appends the body for a provider and its model, and names what was left out. The reader's
     * document is forgotten. False: `problem` says why, and what was appended is of no use. */
    bool (*write_request)(struct json_reader *json, const struct neutral_request *request,
                          const struct neutral_target *target, struct json_writer *out,
                          struct neutral_dropped *dropped, struct ask_problem *problem);

    /* Read a whole reply, or one event of a stream, and give its events to the reader's sink. */
    void (*read_reply)(struct reply_reader *reader, struct slice body);
    void (*read_event)(struct reply_reader *reader, struct slice name, struct slice data);

    /* The stream has ended without the mark of its end: some dialects have none. */
    void (*read_eof)(struct reply_reader *reader);

    /* Write an event of a stream, or the whole reply that the writer has gathered. Null where no
     * client speaks the dialect. */
    void (*write_event)(struct reply_writer *writer, const struct neutral_event *event,
                        struct json_writer *out);
    void (*write_reply)(struct reply_writer *writer, struct json_writer *out);
    bool keeps_text; /* the writer needs the texts again at the end of a stream */
};

#endif
