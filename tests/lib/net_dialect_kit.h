/* net_dialect_kit.h - translations for the tests of dialects: text in, text out.
 *
 * In all texts ' stands for ", so that JSON can be read in C.
 */
#ifndef NET_DIALECT_KIT_H
#define NET_DIALECT_KIT_H

#include "server/dialect/translate/translation.h"

struct dialect_case {
    struct json_reader *json;
    struct neutral_target target; /* not strict; the model's most is 4096 */
    struct neutral_dropped dropped;
    struct ask_problem problem;
    char *text; /* the last result, with " as ' again; owned */
};

void dialect_case_init(struct dialect_case *c);
void dialect_case_fini(struct dialect_case *c);

/* The same for cmocka: the state is the case. */
int dialect_open(void **state);
int dialect_close(void **state);

/* Translates a request. Null: refused, and `problem` says why. */
const char *dialect_request(struct dialect_case *c, enum dialect from, enum dialect to,
                            const char *body);

/* Translates a whole reply, or a stream in pieces of `piece` bytes, the first `first` long, to a
 * client whose request was `body`. An error reply is "STATUS body". */
const char *dialect_reply(struct dialect_case *c, enum dialect provider, enum dialect client,
                          const char *body, const char *reply);
const char *dialect_stream(struct dialect_case *c, enum dialect provider, enum dialect client,
                           const char *body, const char *stream, size_t first, size_t piece);

/* A body that a client of the dialect may send, with a tool `f`, streamed. */
const char *dialect_plain(enum dialect client);

/* The error that a client is told for an error of a provider's, "STATUS body". */
const char *dialect_error(struct dialect_case *c, enum dialect client, int status,
                          const char *body);

/* Fails the test, with the text, unless it has `want`, or has it not. */
#define expect_has(text, want) expect_text(text, want, true, __FILE__, __LINE__)
#define expect_lacks(text, want) expect_text(text, want, false, __FILE__, __LINE__)
void expect_text(const char *text, const char *want, bool has, const char *file, int line);

#endif
