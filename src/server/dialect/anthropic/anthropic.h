/* anthropic.h - the dialect of POST /v1/messages.
 *
 * Requests are read in messages_request_read.c and written in messages_request_write.c, replies and
 * streams read in messages_reply_read.c and written in messages_reply_write.c. What each function
 * owes is in neutral/dialect_ops.h.
 */
#ifndef TG_ANTHROPIC_ANTHROPIC_H
#define TG_ANTHROPIC_ANTHROPIC_H

#include "server/dialect/neutral/dialect_ops.h"

bool messages_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                           struct neutral_request *request, struct ask_problem *problem);
bool messages_write_request(struct json_reader *json, const struct neutral_request *request,
                            const struct neutral_target *target, struct json_writer *out,
                            struct neutral_dropped *dropped, struct ask_problem *problem);
void messages_read_reply(struct reply_reader *reader, struct slice body);
void messages_read_event(struct reply_reader *reader, struct slice name, struct slice data);
void messages_read_eof(struct reply_reader *reader);
void messages_write_event(struct reply_writer *writer, const struct neutral_event *event,
                          struct json_writer *out);
void messages_write_reply(struct reply_writer *writer, struct json_writer *out);

#endif
