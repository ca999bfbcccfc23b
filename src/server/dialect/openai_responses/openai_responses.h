/* openai_responses.h - the dialect of POST /v1/responses.
 *
 * Requests are read in responses_request_read.c and written in responses_request_write.c, replies
 * and streams read in responses_reply_read.c and written in responses_reply_write.c. What each
 * function owes is in neutral/dialect_ops.h.
 */
#ifndef TG_OPENAI_RESPONSES_OPENAI_RESPONSES_H
#define TG_OPENAI_RESPONSES_OPENAI_RESPONSES_H

#include "server/dialect/neutral/dialect_ops.h"

/* The ids of items that we made have this in them: no provider knows them. */
#define RESPONSES_OWN_ID "_tg1"

bool responses_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                            struct neutral_request *request, struct ask_problem *problem);
bool responses_write_request(struct json_reader *json, const struct neutral_request *request,
                             const struct neutral_target *target, struct json_writer *out,
                             struct neutral_dropped *dropped, struct ask_problem *problem);
void responses_read_reply(struct reply_reader *reader, struct slice body);
void responses_read_event(struct reply_reader *reader, struct slice name, struct slice data);
void responses_write_event(struct reply_writer *writer, const struct neutral_event *event,
                           struct json_writer *out);
void responses_write_reply(struct reply_writer *writer, struct json_writer *out);

#endif
