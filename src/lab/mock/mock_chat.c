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

void mock_openai_usage(const struct mock_reply *reply, struct text_out *out)
{
    struct mock_counts counts = mock_counts_of(reply);
    enum mock_endpoint endpoint = reply->ask->endpoint;

    if (reply->action->usage == MOCK_USAGE_MISSING)
        return;
    if (reply->action->usage == MOCK_USAGE_NULL) {
        text_out_text(out, ",\"usage\":null");
        return;
    }
    text_out_text(out, ",\"usage\":{\"prompt_tokens\":");
    text_out_number(out, counts.prompt);
    if (endpoint != MOCK_EMBEDDINGS) {
        text_out_text(out, ",\"completion_tokens\":");
        text_out_number(out, counts.output);
    }
    text_out_text(out, ",\"total_tokens\":");
    text_out_number(out, endpoint == MOCK_EMBEDDINGS ? counts.prompt : counts.total);
    if (endpoint == MOCK_CHAT) {
        text_out_text(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
        text_out_number(out, counts.cached);
        text_out_text(out, ",\"audio_tokens\":0},\"completion_tokens_details\":"
                           "{\"reasoning_tokens\":");
        text_out_number(out, counts.reasoning);
        text_out_text(out, ",\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
                           "\"rejected_prediction_tokens\":0}");
    }
    text_out_text(out, "}");
}

static void put_top(const struct mock_reply *reply, const char *object, struct text_out *out)
{
    text_out_text(out, "{\"id\":\"");
    mock_id(reply, is_chat(reply) ? "chatcmpl-" : "cmpl-", out);
    text_out_text(out, "\",\"object\":\"");
    text_out_text(out, object);
    text_out_text(out, "\",\"created\":");
    text_out_number(out, MOCK_CREATED);
    text_out_text(out, ",\"model\":");
    mock_model_json(reply, out);
    text_out_text(out, ",\"system_fingerprint\":\"fp_mock\",\"choices\":[");
}

static void put_calls(const struct mock_reply *reply, int64_t choice, bool whole,
                      struct text_out *out)
{
    text_out_text(out, "\"tool_calls\":[");
    for (int64_t call = 0; call < reply->calls; call++) {
        text_out_text(out, call > 0 ? ",{" : "{");
        if (!whole) {
            text_out_text(out, "\"index\":");
            text_out_number(out, call);
            text_out_text(out, ",");
        }
        text_out_text(out, "\"id\":\"");
        mock_id(reply, "call_", out);
        text_out_number(out, choice);
        if (call > 0) {
            text_out_text(out, "_");
            text_out_number(out, call);
        }
        text_out_text(out, "\",\"type\":\"function\",\"function\":{\"name\":");
        mock_tool_json(reply, call, out);
        text_out_text(out, ",\"arguments\":\"");
        if (whole)
            mock_answer(reply, choice, call, out);
        text_out_text(out, "\"}}");
    }
    text_out_text(out, "]");
}

/* What was thought, as the servers of open models tell it. */
static void put_thoughts(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    if (reply->thoughts == 0)
        return;
    text_out_text(out, ",\"reasoning_content\":\"");
    mock_thoughts(reply, choice, out);
    text_out_text(out, "\"");
}

/* ---- Whole ----------------------------------------------------------------------------------- */

static void put_choice(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    text_out_text(out, choice > 0 ? ",{\"index\":" : "{\"index\":");
    text_out_number(out, choice);
    if (!is_chat(reply)) {
        text_out_text(out, ",\"text\":\"");
        mock_answer(reply, choice, 0, out);
        text_out_text(out, "\"");
    } else if (reply->tool) {
        text_out_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":null,");
        put_calls(reply, choice, true, out);
        put_thoughts(reply, choice, out);
        text_out_text(out, ",\"refusal\":null}");
    } else if (reply->refuses) {
        text_out_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":null,\"refusal\":\"");
        mock_answer(reply, choice, 0, out);
        text_out_text(out, "\"");
        put_thoughts(reply, choice, out);
        text_out_text(out, "}");
    } else {
        text_out_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":\"");
        mock_answer(reply, choice, 0, out);
        text_out_text(out, "\"");
        put_thoughts(reply, choice, out);
        text_out_text(out, ",\"refusal\":null}");
    }
    text_out_text(out, ",\"logprobs\":null,\"finish_reason\":");
    text_out_text(out, finish_reason(reply));
    text_out_text(out, "}");
}

void mock_chat_body(const struct mock_reply *reply, struct text_out *out)
{
    put_top(reply, is_chat(reply) ? "chat.completion" : "text_completion", out);
    for (int64_t i = 0; i < reply->ask->choices; i++)
        put_choice(reply, i, out);
    text_out_text(out, "]");
    mock_openai_usage(reply, out);
    text_out_text(out, "}");
}

/* ---- Streamed -------------------------------------------------------------------------------- */

void mock_chat_head(struct mock_reply *reply)
{
    struct text_out head = reply->head;

    text_out_text(&head, "data: ");
    put_top(reply, is_chat(reply) ? "chat.completion.chunk" : "text_completion", &head);
    reply->head = head;
}

static void begin_chunk(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    text_out_slice(out, text_out_written(&reply->head));
    text_out_text(out, "{\"index\":");
    text_out_number(out, choice);
}

static void end_chunk(const struct mock_reply *reply, const char *finish, struct text_out *out)
{
    text_out_text(out, ",\"logprobs\":null,\"finish_reason\":");
    text_out_text(out, finish);
    text_out_text(out, reply->ask->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void put_role(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    begin_chunk(reply, choice, out);
    if (reply->tool && reply->thoughts == 0) {
        text_out_text(out, ",\"delta\":{\"role\":\"assistant\",\"content\":null,");
        put_calls(reply, choice, false, out);
        text_out_text(out, "}");
    } else {
        text_out_text(
            out, reply->refuses
                     ? ",\"delta\":{\"role\":\"assistant\"}"
                     : ",\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}");
    }
    end_chunk(reply, "null", out);
}

static void put_thought(const struct mock_reply *reply, int64_t choice, int64_t i,
                        struct text_out *out)
{
    begin_chunk(reply, choice, out);
    text_out_text(out, ",\"delta\":{\"reasoning_content\":\"");
    mock_thought(reply, choice, i, out);
    text_out_text(out, "\"}");
    end_chunk(reply, "null", out);
}

static void put_late_calls(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    begin_chunk(reply, choice, out);
    text_out_text(out, ",\"delta\":{");
    put_calls(reply, choice, false, out);
    text_out_text(out, "}");
    end_chunk(reply, "null", out);
}

/* Calls side by side come in turn, a piece of each. */
static void put_piece(const struct mock_reply *reply, int64_t choice, int64_t i,
                      struct text_out *out)
{
    int64_t call = i % reply->calls;

    begin_chunk(reply, choice, out);
    if (!is_chat(reply)) {
        text_out_text(out, ",\"text\":\"");
    } else if (reply->tool) {
        text_out_text(out, ",\"delta\":{\"tool_calls\":[{\"index\":");
        text_out_number(out, call);
        text_out_text(out, ",\"function\":{\"arguments\":\"");
    } else {
        text_out_text(out,
                      reply->refuses ? ",\"delta\":{\"refusal\":\"" : ",\"delta\":{\"content\":\"");
    }
    mock_piece(reply, choice, call, i / reply->calls, out);
    if (!is_chat(reply))
        text_out_text(out, "\"");
    else
        text_out_text(out, reply->tool ? "\"}}]}" : "\"}");
    end_chunk(reply, "null", out);
}

static void put_finish(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    begin_chunk(reply, choice, out);
    text_out_text(out, is_chat(reply) ? ",\"delta\":{}" : ",\"text\":\"\"");
    end_chunk(reply, finish_reason(reply), out);
}

static void put_paced(const struct mock_reply *reply, int64_t choice, int64_t i,
                      struct text_out *out)
{
    bool late = reply->tool && reply->thoughts > 0;

    if (i < reply->thoughts)
        put_thought(reply, choice, i, out);
    else if (late && i == reply->thoughts)
        put_late_calls(reply, choice, out);
    else
        put_piece(reply, choice, i - reply->thoughts - late, out);
}

void mock_chat_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    int64_t n = reply->ask->choices, piece = i - reply->before, after = piece - reply->paced;

    if (piece < 0) {
        put_role(reply, i, out);
    } else if (after < 0) {
        put_paced(reply, piece % n, piece / n, out);
    } else if (after < n) {
        put_finish(reply, after, out);
    } else if (i < reply->events - 1) {
        text_out_slice(out, text_out_written(&reply->head));
        text_out_text(out, "]");
        mock_openai_usage(reply, out);
        text_out_text(out, "}\n\n");
    } else {
        text_out_text(out, "data: [DONE]\n\n");
    }
}
