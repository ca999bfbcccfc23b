/* mock_chat.c - chat and completions of OpenAI's API, whole and streamed.
 *
 *     chat, streamed: a role for each choice, its pieces in turn, its end; usage if asked; [DONE]
 *
 * With include_usage every chunk has `"usage":null` but the last, which has no choices.
 */
#include "lab/mock/mock_reply.h"

static bool is_chat(const struct mock_reply *reply)
{
    return reply->ask->endpoint == MOCK_CHAT;
}

static const char *finish_reason(const struct mock_reply *reply)
{
    if (reply->cut)
        return "\"length\"";
    return reply->tool ? "\"tool_calls\"" : "\"stop\"";
}

void mock_openai_usage(const struct mock_reply *reply, struct mock_text *out)
{
    struct mock_counts counts = mock_counts_of(reply);
    enum mock_endpoint endpoint = reply->ask->endpoint;

    if (reply->action->usage == MOCK_USAGE_MISSING)
        return;
    if (reply->action->usage == MOCK_USAGE_NULL) {
        mock_text_put(out, ",\"usage\":null");
        return;
    }
    mock_text_put(out, ",\"usage\":{\"prompt_tokens\":");
    mock_text_number(out, counts.prompt);
    if (endpoint != MOCK_EMBEDDINGS) {
        mock_text_put(out, ",\"completion_tokens\":");
        mock_text_number(out, counts.output);
    }
    mock_text_put(out, ",\"total_tokens\":");
    mock_text_number(out, endpoint == MOCK_EMBEDDINGS ? counts.prompt : counts.total);
    if (endpoint == MOCK_CHAT) {
        mock_text_put(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
        mock_text_number(out, counts.cached);
        mock_text_put(out, ",\"audio_tokens\":0},\"completion_tokens_details\":"
                           "{\"reasoning_tokens\":");
        mock_text_number(out, counts.reasoning);
        mock_text_put(out, ",\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
                           "\"rejected_prediction_tokens\":0}");
    }
    mock_text_put(out, "}");
}

static void put_top(const struct mock_reply *reply, const char *object, struct mock_text *out)
{
    mock_text_put(out, "{\"id\":\"");
    mock_id(reply, is_chat(reply) ? "chatcmpl-" : "cmpl-", out);
    mock_text_put(out, "\",\"object\":\"");
    mock_text_put(out, object);
    mock_text_put(out, "\",\"created\":");
    mock_text_number(out, MOCK_CREATED);
    mock_text_put(out, ",\"model\":");
    mock_model_json(reply, out);
    mock_text_put(out, ",\"system_fingerprint\":\"fp_mock\",\"choices\":[");
}

static void put_call(const struct mock_reply *reply, int64_t choice, bool whole,
                     struct mock_text *out)
{
    mock_text_put(out, "\"tool_calls\":[{");
    if (!whole)
        mock_text_put(out, "\"index\":0,");
    mock_text_put(out, "\"id\":\"");
    mock_id(reply, "call_", out);
    mock_text_number(out, choice);
    mock_text_put(out, "\",\"type\":\"function\",\"function\":{\"name\":");
    mock_text_json(out, reply->ask->tool, strlen(reply->ask->tool));
    mock_text_put(out, ",\"arguments\":\"");
    if (whole)
        mock_answer(reply, choice, out);
    mock_text_put(out, "\"}}]");
}

/* ---- Whole ----------------------------------------------------------------------------------- */

static void put_choice(const struct mock_reply *reply, int64_t choice, struct mock_text *out)
{
    mock_text_put(out, choice > 0 ? ",{\"index\":" : "{\"index\":");
    mock_text_number(out, choice);
    if (!is_chat(reply)) {
        mock_text_put(out, ",\"text\":\"");
        mock_answer(reply, choice, out);
        mock_text_put(out, "\"");
    } else if (reply->tool) {
        mock_text_put(out, ",\"message\":{\"role\":\"assistant\",\"content\":null,");
        put_call(reply, choice, true, out);
        mock_text_put(out, ",\"refusal\":null}");
    } else {
        mock_text_put(out, ",\"message\":{\"role\":\"assistant\",\"content\":\"");
        mock_answer(reply, choice, out);
        mock_text_put(out, "\",\"refusal\":null}");
    }
    mock_text_put(out, ",\"logprobs\":null,\"finish_reason\":");
    mock_text_put(out, finish_reason(reply));
    mock_text_put(out, "}");
}

void mock_chat_body(const struct mock_reply *reply, struct mock_text *out)
{
    put_top(reply, is_chat(reply) ? "chat.completion" : "text_completion", out);
    for (int64_t i = 0; i < reply->ask->choices; i++)
        put_choice(reply, i, out);
    mock_text_put(out, "]");
    mock_openai_usage(reply, out);
    mock_text_put(out, "}");
}

/* ---- Streamed -------------------------------------------------------------------------------- */

void mock_chat_head(struct mock_reply *reply)
{
    struct mock_text head = reply->head;

    mock_text_put(&head, "data: ");
    put_top(reply, is_chat(reply) ? "chat.completion.chunk" : "text_completion", &head);
    reply->head = head;
}

static void begin_chunk(const struct mock_reply *reply, int64_t choice, struct mock_text *out)
{
    mock_text_add(out, reply->head.at, reply->head.n);
    mock_text_put(out, "{\"index\":");
    mock_text_number(out, choice);
}

static void end_chunk(const struct mock_reply *reply, const char *finish, struct mock_text *out)
{
    mock_text_put(out, ",\"logprobs\":null,\"finish_reason\":");
    mock_text_put(out, finish);
    mock_text_put(out, reply->ask->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void put_role(const struct mock_reply *reply, int64_t choice, struct mock_text *out)
{
    begin_chunk(reply, choice, out);
    if (reply->tool) {
        mock_text_put(out, ",\"delta\":{\"role\":\"assistant\",\"content\":null,");
        put_call(reply, choice, false, out);
        mock_text_put(out, "}");
    } else {
        mock_text_put(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}");
    }
    end_chunk(reply, "null", out);
}

static void put_piece(const struct mock_reply *reply, int64_t choice, int64_t i,
                      struct mock_text *out)
{
    begin_chunk(reply, choice, out);
    if (!is_chat(reply))
        mock_text_put(out, ",\"text\":\"");
    else if (reply->tool)
        mock_text_put(out,
                      ",\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"");
    else
        mock_text_put(out, ",\"delta\":{\"content\":\"");
    mock_piece(reply, choice, i, out);
    if (!is_chat(reply))
        mock_text_put(out, "\"");
    else
        mock_text_put(out, reply->tool ? "\"}}]}" : "\"}");
    end_chunk(reply, "null", out);
}

static void put_finish(const struct mock_reply *reply, int64_t choice, struct mock_text *out)
{
    begin_chunk(reply, choice, out);
    mock_text_put(out, is_chat(reply) ? ",\"delta\":{}" : ",\"text\":\"\"");
    end_chunk(reply, finish_reason(reply), out);
}

void mock_chat_event(const struct mock_reply *reply, int64_t i, struct mock_text *out)
{
    int64_t n = reply->ask->choices, piece = i - reply->before, after = piece - reply->paced;

    if (piece < 0) {
        put_role(reply, i, out);
    } else if (after < 0) {
        put_piece(reply, piece % n, piece / n, out);
    } else if (after < n) {
        put_finish(reply, after, out);
    } else if (i < reply->events - 1) {
        mock_text_add(out, reply->head.at, reply->head.n);
        mock_text_put(out, "]");
        mock_openai_usage(reply, out);
        mock_text_put(out, "}\n\n");
    } else {
        mock_text_put(out, "data: [DONE]\n\n");
    }
}
