/* mock_responses.c - the responses of OpenAI's API, whole and streamed.
 *
 *     created, in_progress, output_item.added, content_part.added, deltas,
 *     output_text.done, content_part.done, output_item.done, completed or incomplete
 *
 * A call of a tool has no content parts, and its own kind of delta.
 */
#include "lab/mock/mock_reply.h"

static void put_usage(const struct mock_reply *reply, struct mock_text *out)
{
    struct mock_counts counts = mock_counts_of(reply);

    if (reply->action->usage == MOCK_USAGE_MISSING)
        return;
    if (reply->action->usage == MOCK_USAGE_NULL) {
        mock_text_put(out, ",\"usage\":null");
        return;
    }
    mock_text_put(out, ",\"usage\":{\"input_tokens\":");
    mock_text_number(out, counts.prompt);
    mock_text_put(out, ",\"input_tokens_details\":{\"cached_tokens\":");
    mock_text_number(out, counts.cached);
    mock_text_put(out, "},\"output_tokens\":");
    mock_text_number(out, counts.output);
    mock_text_put(out, ",\"output_tokens_details\":{\"reasoning_tokens\":");
    mock_text_number(out, counts.reasoning);
    mock_text_put(out, "},\"total_tokens\":");
    mock_text_number(out, counts.total);
    mock_text_put(out, "}");
}

static void put_part(const struct mock_reply *reply, bool done, struct mock_text *out)
{
    mock_text_put(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"");
    if (done)
        mock_answer(reply, 0, out);
    mock_text_put(out, "\"}");
}

static void put_item_id(const struct mock_reply *reply, struct mock_text *out)
{
    mock_text_put(out, "\"");
    mock_id(reply, reply->tool ? "fc_" : "msg_", out);
    mock_text_put(out, "\"");
}

static const char *final_status(const struct mock_reply *reply)
{
    return reply->cut ? "incomplete" : "completed";
}

static void put_item(const struct mock_reply *reply, bool done, struct mock_text *out)
{
    mock_text_put(out, "{\"id\":");
    put_item_id(reply, out);
    mock_text_put(out, ",\"status\":\"");
    mock_text_put(out, done ? final_status(reply) : "in_progress");
    if (reply->tool) {
        mock_text_put(out, "\",\"type\":\"function_call\",\"call_id\":\"");
        mock_id(reply, "call_", out);
        mock_text_put(out, "\",\"name\":");
        mock_text_json(out, reply->ask->tool, strlen(reply->ask->tool));
        mock_text_put(out, ",\"arguments\":\"");
        if (done)
            mock_answer(reply, 0, out);
        mock_text_put(out, "\"}");
        return;
    }
    mock_text_put(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
    if (done)
        put_part(reply, true, out);
    mock_text_put(out, "]}");
}

/* With status in_progress it has neither output nor usage. */
static void put_response(const struct mock_reply *reply, const char *status, struct mock_text *out)
{
    bool done = strcmp(status, "in_progress") != 0, failed = strcmp(status, "failed") == 0;

    mock_text_put(out, "{\"id\":\"");
    mock_id(reply, "resp_", out);
    mock_text_put(out, "\",\"object\":\"response\",\"created_at\":");
    mock_text_number(out, MOCK_CREATED);
    mock_text_put(out, ",\"status\":\"");
    mock_text_put(out, status);
    mock_text_put(out, "\",\"background\":false,\"error\":");
    mock_text_put(out, failed ? "{\"code\":\"server_error\",\"message\":\"The server failed\"}"
                              : "null");
    mock_text_put(out, ",\"incomplete_details\":");
    mock_text_put(out,
                  done && !failed && reply->cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    mock_text_put(out, ",\"instructions\":null,\"max_output_tokens\":");
    if (reply->ask->max_tokens >= 0)
        mock_text_number(out, reply->ask->max_tokens);
    else
        mock_text_put(out, "null");
    mock_text_put(out, ",\"model\":");
    mock_model_json(reply, out);
    mock_text_put(out, ",\"output\":[");
    if (done && !failed)
        put_item(reply, true, out);
    mock_text_put(out, "],\"parallel_tool_calls\":true,\"previous_response_id\":null,"
                       "\"reasoning\":{\"effort\":null,\"summary\":null},\"store\":true,"
                       "\"temperature\":1.0,\"text\":{\"format\":{\"type\":\"text\"}},"
                       "\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,"
                       "\"truncation\":\"disabled\"");
    if (done)
        put_usage(reply, out);
    else
        mock_text_put(out, ",\"usage\":null");
    mock_text_put(out, ",\"user\":null,\"metadata\":{}}");
}

void mock_responses_body(const struct mock_reply *reply, struct mock_text *out)
{
    put_response(reply, final_status(reply), out);
}

/* ---- Streamed -------------------------------------------------------------------------------- */

static void begin_event(const char *name, int64_t i, struct mock_text *out)
{
    mock_text_put(out, "event: ");
    mock_text_put(out, name);
    mock_text_put(out, "\ndata: {\"type\":\"");
    mock_text_put(out, name);
    mock_text_put(out, "\",\"sequence_number\":");
    mock_text_number(out, i);
}

static void end_event(struct mock_text *out)
{
    mock_text_put(out, "}\n\n");
}

static void whole_event(const struct mock_reply *reply, const char *name, const char *status,
                        int64_t i, struct mock_text *out)
{
    begin_event(name, i, out);
    mock_text_put(out, ",\"response\":");
    put_response(reply, status, out);
    end_event(out);
}

static void item_event(const struct mock_reply *reply, bool done, int64_t i, struct mock_text *out)
{
    begin_event(done ? "response.output_item.done" : "response.output_item.added", i, out);
    mock_text_put(out, ",\"output_index\":0,\"item\":");
    put_item(reply, done, out);
    end_event(out);
}

static void put_where(const struct mock_reply *reply, struct mock_text *out)
{
    mock_text_put(out, ",\"item_id\":");
    put_item_id(reply, out);
    mock_text_put(out,
                  reply->tool ? ",\"output_index\":0" : ",\"output_index\":0,\"content_index\":0");
}

static void part_event(const struct mock_reply *reply, bool done, int64_t i, struct mock_text *out)
{
    begin_event(done ? "response.content_part.done" : "response.content_part.added", i, out);
    put_where(reply, out);
    mock_text_put(out, ",\"part\":");
    put_part(reply, done, out);
    end_event(out);
}

static void delta_event(const struct mock_reply *reply, int64_t piece, int64_t i,
                        struct mock_text *out)
{
    begin_event(reply->tool ? "response.function_call_arguments.delta"
                            : "response.output_text.delta",
                i, out);
    put_where(reply, out);
    if (!reply->tool)
        mock_text_put(out, ",\"logprobs\":[]");
    mock_text_put(out, ",\"delta\":\"");
    mock_piece(reply, 0, piece, out);
    mock_text_put(out, "\"");
    end_event(out);
}

static void answer_event(const struct mock_reply *reply, int64_t i, struct mock_text *out)
{
    begin_event(reply->tool ? "response.function_call_arguments.done" : "response.output_text.done",
                i, out);
    put_where(reply, out);
    mock_text_put(out, reply->tool ? ",\"arguments\":\"" : ",\"logprobs\":[],\"text\":\"");
    mock_answer(reply, 0, out);
    mock_text_put(out, "\"");
    end_event(out);
}

static void final_event(const struct mock_reply *reply, int64_t i, struct mock_text *out)
{
    whole_event(reply, reply->cut ? "response.incomplete" : "response.completed",
                final_status(reply), i, out);
}

void mock_responses_event(const struct mock_reply *reply, int64_t i, struct mock_text *out)
{
    int64_t piece = i - reply->before, after = piece - reply->pieces;

    if (i == 0)
        whole_event(reply, "response.created", "in_progress", i, out);
    else if (i == 1)
        whole_event(reply, "response.in_progress", "in_progress", i, out);
    else if (i == 2)
        item_event(reply, false, i, out);
    else if (piece < 0)
        part_event(reply, false, i, out);
    else if (after < 0)
        delta_event(reply, piece, i, out);
    else if (after == 0)
        answer_event(reply, i, out);
    else if (i == reply->events - 1)
        final_event(reply, i, out);
    else if (i == reply->events - 2)
        item_event(reply, true, i, out);
    else
        part_event(reply, true, i, out);
}

void mock_responses_failed(const struct mock_reply *reply, int64_t i, struct mock_text *out)
{
    whole_event(reply, "response.failed", "failed", i, out);
}
