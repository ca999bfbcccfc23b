/* body_edit.h - small changes to a large body, without copying it.
 *
 *     struct body_edit edit;
 *     body_edit_init(&edit);
 *     body_edit_model(&edit, &ask, name);
 *     body_edit_include_usage(&edit, &ask);
 *     n = body_edit_slices(&edit, body, body_bytes, slices, &total);     send them in order
 *
 * All bytes that are not edited stay as they are. Slices point into the body and into the edit,
 * which must both stay where they are until the slices are sent. To send the body to another route,
 * begin anew with body_edit_init().
 */
#ifndef TG_DIALECT_BODY_EDIT_H
#define TG_DIALECT_BODY_EDIT_H

#include "server/dialect/ask.h"

#define BODY_EDITS_MAX (6 + 16) /* those below, and what rules put in */
#define BODY_SLICES_MAX (2 * BODY_EDITS_MAX + 1)
/* The longest name, every byte escaped, what rules put in, with its keys, and more. */
#define BODY_EDIT_ROOM (6 * ASK_TEXT_MAX + 256 + 16 * (64 + 64 + 16))

struct body_edit {
    struct {
        size_t at, n;           /* bytes of the body, replaced by */
        size_t text_at, text_n; /* these of room */
    } list[BODY_EDITS_MAX];     /* ascending, apart from each other */
    size_t n;
    size_t used;
    size_t begun; /* how much of room the edit that is being made has taken */
    char room[BODY_EDIT_ROOM];
};

void body_edit_init(struct body_edit *edit);

/* Each of these at most once. False: a name longer than ASK_TEXT_MAX or not UTF-8. */
bool body_edit_model(struct body_edit *edit, const struct ask *ask, struct slice name);

/* Has another member, a name and a text of plain characters, in place of the model. Not beside
 * body_edit_model(). */
void body_edit_replace_model(struct body_edit *edit, const struct ask *ask, const char *body,
                             const char *name, const char *text);

/* Makes `most` the bound of one choice's output: bounds that are larger, null, or 0 where that is
 * none are replaced; where there is none it is added, as `in_chats` (max_completion_tokens, or
 * max_tokens: what the provider knows; static), max_output_tokens (responses) or max_tokens.
 * Nothing to be done is no edit. The key that was set last, static; null: less than 1 (Anthropic:
 * 0), or an endpoint without output. */
const char *body_edit_bound(struct body_edit *edit, const struct ask *ask, int64_t most,
                            const char *in_chats);

/* Makes `bound` the bound of one choice's output, whatever the body has, in place of
 * body_edit_bound(). False: an endpoint without output. */
bool body_edit_set_bound(struct body_edit *edit, const struct ask *ask, int64_t bound,
                         const char *in_chats);

/* One more edit, in pieces: begin, texts as by printf(), and at its end the span that it replaces
 * and a last text. For what rules put in, which the configuration bounds. */
void body_edit_begin(struct body_edit *edit);
void body_edit_text(struct body_edit *edit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void body_edit_end(struct body_edit *edit, size_t at, size_t n, const char *more);

/* Has stream_options.include_usage true, for chat and completions. Nothing is done where it is,
 * where the call does not stream, and for endpoints that report usage unasked: false then, and
 * where true is returned the usage chunk is one that the client did not ask for. */
bool body_edit_include_usage(struct body_edit *edit, const struct ask *ask);

/* The edited body, how many slices and how many bytes. Without edits: the body, one slice. */
size_t body_edit_slices(const struct body_edit *edit, const char *body, size_t n,
                        struct slice slices[BODY_SLICES_MAX], size_t *total);

#endif
