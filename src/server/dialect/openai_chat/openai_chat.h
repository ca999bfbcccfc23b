/* openai_chat.h - the dialect of POST /v1/chat/completions.
 *
 * Requests are read in chat_request_read.c and written in chat_request_write.c, replies and streams
 * read in chat_reply_read.c and written in chat_reply_write.c. Errors have the form of all of
 * OpenAI's APIs, in neutral/neutral_error.c. What each function owes is in neutral/dialect_ops.h.
 */
#ifndef TG_OPENAI_CHAT_OPENAI_CHAT_H
#define TG_OPENAI_CHAT_OPENAI_CHAT_H

#include "server/dialect/neutral/dialect_ops.h"

bool chat_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                       struct neutral_request *request, struct ask_problem *problem);
bool chat_write_request(struct json_reader *json, const struct neutral_request *request,
                        const struct neutral_target *target, struct json_writer *out,
                        struct neutral_dropped *dropped, struct ask_problem *problem);
void chat_read_reply(struct reply_reader *reader, struct slice body);
void chat_read_event(struct reply_reader *reader, struct slice name, struct slice data);
void chat_write_event(struct reply_writer *writer, const struct neutral_event *event,
                      struct json_writer *out);
void chat_write_reply(struct reply_writer *writer, struct json_writer *out);

#endif
