/* request_walk.h - what the readers of requests have in common.
 *
 *     while (body_next(walk, &key, &value))
 *         if (json_text_is(key, "top_p"))
 *             request->top_p = body_real(walk, "top_p", &value, 0, 1);
 *
 * The first mistake is kept and ends every loop. A field that is null is as one that is not there.
 */
#ifndef TG_NEUTRAL_REQUEST_WALK_H
#define TG_NEUTRAL_REQUEST_WALK_H

#include "io/text/json_read.h"
#include "server/dialect/neutral/losses.h"

struct request_walk {
    struct json_reader *json;
    struct neutral_request *request;
    struct ask_problem *problem;
    const char *within; /* the object whose members are read; "": the body */
    bool failed;
};

/* Begins a body and enters its root. */
bool body_begin(struct request_walk *walk, struct json_reader *json, enum dialect from,
                const char *body, size_t n, size_t readable, struct neutral_request *request,
                struct ask_problem *problem);

/* Ends it. False: something was wrong, and `problem` says what. */
bool body_end(struct request_walk *walk);

void body_fail(struct request_walk *walk, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void body_no_memory(struct request_walk *walk);

/* The next key and value; nulls are passed over in objects. */
bool body_next(struct request_walk *walk, struct json_text *key, struct json_value *value);

/* Enters an object or array; any other value fails. */
bool body_enter(struct request_walk *walk, const char *param, const struct json_value *value,
                enum json_kind kind);

/* A string, that lives as long as the request. */
struct slice body_text(struct request_walk *walk, const char *param,
                       const struct json_value *value);

/* Any value as the bytes that it stands in; the reader is behind it then. */
struct slice body_raw(struct request_walk *walk, const struct json_value *value);

/* The same for an object or array that was read to its end. */
struct slice body_since(struct request_walk *walk, const struct json_value *value);

bool body_is_true(struct request_walk *walk, const char *param, const struct json_value *value);
enum neutral_tri body_tri(struct request_walk *walk, const char *param,
                          const struct json_value *value);
double body_real(struct request_walk *walk, const char *param, const struct json_value *value,
                 double least, double most);
int64_t body_integer(struct request_walk *walk, const char *param, const struct json_value *value,
                     int64_t least, int64_t most);

/* One of some strings, ended by a null; which. */
size_t body_word(struct request_walk *walk, const char *param, const struct json_value *value,
                 const char *const *list);

/* `stop`: a string or some. */
void body_stops(struct request_walk *walk, const char *param, const struct json_value *value);

void body_foreign(struct request_walk *walk, enum neutral_field field);
void body_unknown(struct request_walk *walk, struct json_text key, const struct json_value *value);

/* What goes back to a provider of the same dialect alone: a member of the body, which the reader
 * may be asked for, and a tool that runs at the provider. */
void body_extra(struct request_walk *walk, struct slice key, struct slice raw);
void body_hosted_tool(struct request_walk *walk, const struct json_value *value);

/* Null when there is no memory, or too many: the walk has failed then. */
struct neutral_turn *body_turn(struct request_walk *walk, enum neutral_role role);

/* Turns of the parts from `first` on: they are added to the last turn where that is the model's, or
 * begins with results. Instructions that stand behind the messages come first. */
void body_model_turn(struct request_walk *walk, size_t first);
void body_result_turn(struct request_walk *walk, size_t first);
void body_first_turn(struct request_walk *walk, size_t first);

struct neutral_part *body_part(struct request_walk *walk, enum neutral_kind kind);
struct neutral_tool *body_tool(struct request_walk *walk);
void body_name(struct request_walk *walk, struct slice name);

/* A part before the ones from `at` on, which become its content where it is a result. */
struct neutral_part *body_part_before(struct request_walk *walk, size_t at, enum neutral_kind kind);

/* Takes a "data:" address apart; any other address stays one. */
void body_address(struct request_walk *walk, struct neutral_part *part, struct slice address);

/* A tool call's id may carry a signature of Gemini's, and a signature may carry whose it is: see
 * opaque_pack.h. */
void body_call_id(struct request_walk *walk, struct neutral_part *part, struct slice id);
void body_opaque(struct neutral_part *part, enum neutral_opaque kind, enum dialect own,
                 struct slice text);

#endif
