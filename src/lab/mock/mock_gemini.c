/* mock_gemini.c - generateContent of Gemini's API, whole and streamed.
 *
 * A chunk has the form of a whole reply. Words come one in a chunk, a call comes whole. The last
 * chunk of each candidate has its finishReason, behind the call and with an empty text, as newer
 * models do it; the last of all has the usage. Without `alt=sse` the chunks are an array.
 */
#include "lab/mock/mock_reply.h"

static const char *finish_reason(const struct mock_reply *reply)
{
    return reply->cut ? "MAX_TOKENS" : reply->refuses ? "SAFETY" : "STOP";
}

static void put_member(const char *key, int64_t number, struct text_out *out)
{
    text_out_text(out, key);
    text_out_number(out, number);
}

/* What was thought is counted beside the output here, and what was cached within the prompt. */
static void put_usage(const struct mock_reply *reply, struct text_out *out)
{
    struct mock_counts counts = mock_counts_of(reply);
    bool odd = counts.total <= 0 || counts.total == INT64_MAX;

    if (reply->action->usage == MOCK_USAGE_MISSING)
        return;
    if (reply->action->usage == MOCK_USAGE_NULL) {
        text_out_text(out, ",\"usageMetadata\":null");
        return;
    }
    put_member(",\"usageMetadata\":{\"promptTokenCount\":", counts.prompt, out);
    put_member(",\"candidatesTokenCount\":", odd ? counts.output : counts.output - counts.reasoning,
               out);
    if (!odd && counts.reasoning > 0)
        put_member(",\"thoughtsTokenCount\":", counts.reasoning, out);
    if (!odd && counts.cached > 0)
        put_member(",\"cachedContentTokenCount\":", counts.cached, out);
    put_member(",\"totalTokenCount\":", counts.total, out);
    put_member(",\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":", counts.prompt,
               out);
    text_out_text(out, "}]}");
}

static void put_tail(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, ",\"modelVersion\":");
    mock_model_json(reply, out);
    text_out_text(out, ",\"responseId\":\"");
    mock_id(reply, "", out);
    text_out_text(out, "\"}");
}

/* The first call of an answer is signed, if anything was thought. */
static void put_call(const struct mock_reply *reply, int64_t choice, int64_t call,
                     struct text_out *out)
{
    text_out_text(out, "{\"functionCall\":{\"id\":\"");
    mock_call_id(reply, "call_", call, out);
    text_out_text(out, "\",\"name\":");
    mock_tool_json(reply, call, out);
    text_out_text(out, ",\"args\":");
    mock_arguments(reply, choice, call, out);
    text_out_text(out, "}");
    if (call == 0 && reply->thoughts > 0) {
        text_out_text(out, ",\"thoughtSignature\":\"");
        mock_signature(reply, out);
        text_out_text(out, "\"");
    }
    text_out_text(out, "}");
}

static void begin_candidate(struct text_out *out)
{
    text_out_text(out, "{\"content\":{\"parts\":[");
}

static void end_candidate(int64_t choice, const char *finish, struct text_out *out)
{
    text_out_text(out, "],\"role\":\"model\"}");
    if (finish != NULL) {
        text_out_text(out, ",\"finishReason\":\"");
        text_out_text(out, finish);
        text_out_text(out, "\"");
    }
    put_member(",\"index\":", choice, out);
    text_out_text(out, "}");
}

/* ---- Whole ----------------------------------------------------------------------------------- */

static void put_parts(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    if (reply->thoughts > 0) {
        text_out_text(out, "{\"text\":\"");
        mock_thoughts(reply, choice, out);
        text_out_text(out, "\",\"thought\":true},");
    }
    for (int64_t call = 0; reply->tool && call < reply->calls; call++) {
        text_out_text(out, call > 0 ? "," : "");
        put_call(reply, choice, call, out);
    }
    if (!reply->tool) {
        text_out_text(out, "{\"text\":\"");
        mock_answer(reply, choice, 0, out);
        text_out_text(out, "\"}");
    }
}

void mock_gemini_body(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "{\"candidates\":[");
    for (int64_t i = 0; i < reply->ask->choices; i++) {
        text_out_text(out, i > 0 ? "," : "");
        begin_candidate(out);
        put_parts(reply, i, out);
        end_candidate(i, finish_reason(reply), out);
    }
    text_out_text(out, "]");
    put_usage(reply, out);
    put_tail(reply, out);
}

void mock_gemini_count(const struct mock_reply *reply, struct text_out *out)
{
    int64_t prompt = mock_counts_of(reply).prompt;

    put_member("{\"totalTokens\":", prompt, out);
    put_member(",\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":", prompt, out);
    text_out_text(out, "}]}");
}

/* ---- Streamed -------------------------------------------------------------------------------- */

static void put_piece(const struct mock_reply *reply, int64_t choice, int64_t i,
                      struct text_out *out)
{
    if (i >= reply->thoughts && reply->tool) {
        put_call(reply, choice, i - reply->thoughts, out);
        return;
    }
    text_out_text(out, "{\"text\":\"");
    if (i < reply->thoughts) {
        mock_thought(reply, choice, i, out);
        text_out_text(out, "\",\"thought\":true}");
    } else {
        mock_piece(reply, choice, 0, i - reply->thoughts, out);
        text_out_text(out, "\"}");
    }
}

void mock_gemini_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    int64_t n = reply->ask->choices, last = reply->events - 1;
    bool in_array = reply->ask->in_array, ends = i >= reply->paced;
    int64_t choice = ends ? i - reply->paced : i % n;

    text_out_text(out, !in_array ? "data: " : i == 0 ? "[" : ",\r\n");
    text_out_text(out, "{\"candidates\":[");
    begin_candidate(out);
    if (ends)
        text_out_text(out, "{\"text\":\"\"}");
    else
        put_piece(reply, choice, i / n, out);
    end_candidate(choice, ends ? finish_reason(reply) : NULL, out);
    text_out_text(out, "]");
    if (i == last)
        put_usage(reply, out);
    put_tail(reply, out);
    if (!in_array)
        text_out_text(out, "\r\n\r\n");
    else if (i == last)
        text_out_text(out, "]");
}
