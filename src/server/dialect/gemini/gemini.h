/* gemini.h - the dialect of POST .../models/M:generateContent, the provider's side alone.
 *
 * Requests are written in gemini_request_write.c; replies and streams are read in
 * gemini_reply_read.c. The model stands in the path, and so does whether the reply is a stream
 * (`:streamGenerateContent?alt=sse`): neither is in the body. What each function owes is in
 * neutral/dialect_ops.h.
 */
#ifndef TG_GEMINI_GEMINI_H
#define TG_GEMINI_GEMINI_H

#include "server/dialect/neutral/dialect_ops.h"

bool gemini_write_request(struct json_reader *json, const struct neutral_request *request,
                          const struct neutral_target *target, struct json_writer *out,
                          struct neutral_dropped *dropped, struct ask_problem *problem);
void gemini_read_reply(struct reply_reader *reader, struct slice body);

/* The count in a reply to `:countTokens`. False: it has none. */
bool gemini_read_count(struct json_reader *json, struct slice body, int64_t *tokens);
void gemini_read_event(struct reply_reader *reader, struct slice name, struct slice data);

#endif
