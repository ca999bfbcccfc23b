/* dialects.c - the table of dialects: one line for each. */
#include "server/dialect/translate/dialects.h"

#include <assert.h>

#include "server/dialect/anthropic/anthropic.h"
#include "server/dialect/gemini/gemini.h"
#include "server/dialect/openai_chat/openai_chat.h"
#include "server/dialect/openai_responses/openai_responses.h"

static const struct dialect_ops table[DIALECT_COUNT] = {
    {DIALECT_CHAT, "openai-chat", chat_read_request, chat_write_request, chat_read_reply,
     chat_read_event, reader_end, chat_write_event, chat_write_reply, false},
    {DIALECT_RESPONSES, "openai-responses", responses_read_request, responses_write_request,
     responses_read_reply, responses_read_event, reader_end, responses_write_event,
     responses_write_reply, true},
    {DIALECT_ANTHROPIC, "anthropic", messages_read_request, messages_write_request,
     messages_read_reply, messages_read_event, messages_read_eof, messages_write_event,
     messages_write_reply, false},
    {DIALECT_GEMINI, "gemini", NULL, gemini_write_request, gemini_read_reply, gemini_read_event,
     reader_end, NULL, NULL, false},
};

const struct dialect_ops *dialect_find(enum dialect dialect)
{
    assert(dialect < DIALECT_COUNT && table[dialect].dialect == dialect);
    return &table[dialect];
}
