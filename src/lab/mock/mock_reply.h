/* mock_reply.h - what the mock says: bodies and events of all APIs, as functions of the request.
 *
 * A streamed reply is never in memory as a whole: its events are numbered, and each is written
 * when it is due. Everything follows from the request, its hash and the action; the time of day
 * appears nowhere, so that the same request gets the same bytes. They are put together from
 * templates with text_out, not with the JSON writer: an event is the same few hundred bytes again
 * and again with one word changed, and copying a template costs a tenth of building it.
 */
#ifndef TG_MOCK_MOCK_REPLY_H
#define TG_MOCK_MOCK_REPLY_H

#include "io/text/text_out.h"
#include "lab/mock/mock_ask.h"
#include "lab/mock/mock_script.h"

#define MOCK_CREATED 1700000000 /* when every reply was made, in s of the epoch */

struct mock_reply {
    const struct mock_ask *ask;
    const struct mock_action *action;
    bool tool;            /* the answer is one call or several ... */
    int64_t calls;        /* ... of ask->tools in turn; 1 if it is none */
    int64_t thoughts;     /* words of reasoning that are shown before it */
    struct slice said;    /* the script's text, or arguments of every call; at null: words */
    const char *stopped;  /* the stop sequence that has ended it; null: none */
    bool refuses;         /* the answer is a refusal */
    bool cut;             /* the call's bound has cut the answer */
    int64_t output;       /* tokens of one choice, reasoning included */
    int64_t words;        /* words of the visible answer; each is a token */
    int64_t pieces;       /* in which the answer, or each call, is streamed: the words, and what is
                             around them */
    int64_t before;       /* events before the first piece ... */
    int64_t paced;        /* ... the pieces of all choices ... */
    int64_t events;       /* ... and all, with those after the last piece */
    struct text_out head; /* what every event of a chat begins with */
};

/* All zeros before the first; may be used again and again. Both are borrowed. */
void mock_reply_init(struct mock_reply *reply, const struct mock_ask *ask,
                     const struct mock_action *action);
void mock_reply_fini(struct mock_reply *reply);

/* Appends the whole body of a reply that is not streamed. */
void mock_reply_body(const struct mock_reply *reply, struct slice models, struct text_out *out);

/* Appends event i of a streamed one. */
void mock_reply_event(const struct mock_reply *reply, int64_t i, struct text_out *out);

/* Appends an error, as a body, or as an event inside a stream. */
void mock_error_body(const struct mock_ask *ask, const struct mock_action *action, int status,
                     const char *message, struct text_out *out);
void mock_error_event(const struct mock_reply *reply, int64_t i, struct text_out *out);

/* ---- For the files that write the replies ---------------------------------------------------- */

/* Numbers as `usage` of the action wants them. */
struct mock_counts {
    int64_t prompt, output, cached, cache_write, reasoning, total;
};
struct mock_counts mock_counts_of(const struct mock_reply *reply);

/* Piece i of a call, or of the answer where `call` is 0; all of it; as they stand within a JSON
 * string. */
void mock_piece(const struct mock_reply *reply, int64_t choice, int64_t call, int64_t i,
                struct text_out *out);
void mock_answer(const struct mock_reply *reply, int64_t choice, int64_t call,
                 struct text_out *out);

/* The arguments of a call as the object that they are; {} where they were cut. */
void mock_arguments(const struct mock_reply *reply, int64_t choice, int64_t call,
                    struct text_out *out);

/* The same of what was thought before it, and the signature of that. */
void mock_thought(const struct mock_reply *reply, int64_t choice, int64_t i, struct text_out *out);
void mock_thoughts(const struct mock_reply *reply, int64_t choice, struct text_out *out);
void mock_signature(const struct mock_reply *reply, struct text_out *out);

/* Name of the tool of a call, with its quotes, and the call's id. */
void mock_tool_json(const struct mock_reply *reply, int64_t call, struct text_out *out);
void mock_call_id(const struct mock_reply *reply, const char *prefix, int64_t call,
                  struct text_out *out);

void mock_model_json(const struct mock_reply *reply, struct text_out *out);
void mock_id(const struct mock_reply *reply, const char *prefix, struct text_out *out);

/* `,"usage":{...}`, or null, or nothing at all, of chat, completions and embeddings. */
void mock_openai_usage(const struct mock_reply *reply, struct text_out *out);

void mock_chat_body(const struct mock_reply *reply, struct text_out *out);
void mock_chat_head(struct mock_reply *reply);
void mock_chat_event(const struct mock_reply *reply, int64_t i, struct text_out *out);
void mock_responses_body(const struct mock_reply *reply, struct text_out *out);
void mock_responses_event(const struct mock_reply *reply, int64_t i, struct text_out *out);
void mock_responses_failed(const struct mock_reply *reply, int64_t i, struct text_out *out);
void mock_messages_body(const struct mock_reply *reply, struct text_out *out);
void mock_messages_event(const struct mock_reply *reply, int64_t i, struct text_out *out);
void mock_gemini_body(const struct mock_reply *reply, struct text_out *out);
void mock_gemini_event(const struct mock_reply *reply, int64_t i, struct text_out *out);
void mock_gemini_count(const struct mock_reply *reply, struct text_out *out);
int64_t mock_messages_events(const struct mock_reply *reply);
int64_t mock_responses_events(const struct mock_reply *reply);
void mock_embeddings_body(const struct mock_reply *reply, struct text_out *out);
void mock_models_body(const struct mock_reply *reply, struct slice models, struct text_out *out);
void mock_model_object(const struct mock_reply *reply, struct slice model, struct text_out *out);

#endif
