/* mock_responses.c - the responses of OpenAI's API, whole and streamed.
 *
 *     created, in_progress, output_item.added, content_part.added, deltas,
 *     output_text.done, content_part.done, output_item.done, completed or incomplete
 *
 * A call of a tool has no content parts, and its own kind of delta.
 */
#include "lab/mock/mock_reply.h"

static void put_usage(const struct mock_reply *reply, struct text_out *out)
{
    struct mock_counts counts = mock_counts_of(reply);

    if (reply->action->usage == MOCK_USAGE_MISSING)
        return;
    if (reply->action->usage == MOCK_USAGE_NULL) {
        text_out_text(out, ",\"usage\":null");
        return;
    }
    text_out_text(out, ",\"usage\":{\"input_tokens\":");
    text_out_number(out, counts.prompt);
    text_out_text(out, ",\"input_tokens_details\":{\"cached_tokens\":");
    text_out_number(out, counts.cached);
    text_out_text(out, "},\"output_tokens\":");
    text_out_number(out, counts.output);
    text_out_text(out, ",\"output_tokens_details\":{\"reasoning_tokens\":");
    text_out_number(out, counts.reasoning);
    text_out_text(out, "},\"total_tokens\":");
    text_out_number(out, counts.total);
    text_out_text(out, "}");
}

static void put_part(const struct mock_reply *reply, bool done, struct text_out *out)
{
    text_out_text(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"");
    if (done)
        mock_answer(reply, 0, out);
    text_out_text(out, "\"}");
}

static void put_item_id(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "\"");
    mock_id(reply, reply->tool ? "fc_" : "msg_", out);
    text_out_text(out, "\"");
}

static const char *final_status(const struct mock_reply *reply)
{
    return reply->cut ? "incomplete" : "completed";
}

static void put_item(const struct mock_reply *reply, bool done, struct text_out *out)
{
    text_out_text(out, "{\"id\":");
    put_item_id(reply, out);
    text_out_text(out, ",\"status\":\"");
    text_out_text(out, done ? final_status(reply) : "in_progress");
    if (reply->tool) {
        text_out_text(out, "\",\"type\":\"function_call\",\"call_id\":\"");
        mock_id(reply, "call_", out);
        text_out_text(out, "\",\"name\":");
        text_out_json(out, slice_of(reply->ask->tool));
        text_out_text(out, ",\"arguments\":\"");
        if (done)
            mock_answer(reply, 0, out);
        text_out_text(out, "\"}");
        return;
    }
    text_out_text(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
    if (done)
        put_part(reply, true, out);
    text_out_text(out, "]}");
}

/* With status in_progress it has neither output nor usage. */
static void put_response(const struct mock_reply *reply, const char *status, struct text_out *out)
{
    bool done = strcmp(status, "in_progress") != 0, failed = strcmp(status, "failed") == 0;

    text_out_text(out, "{\"id\":\"");
    mock_id(reply, "resp_", out);
    text_out_text(out, "\",\"object\":\"response\",\"created_at\":");
    text_out_number(out, MOCK_CREATED);
    text_out_text(out, ",\"status\":\"");
    text_out_text(out, status);
    text_out_text(out, "\",\"background\":false,\"error\":");
    text_out_text(out, failed ? "{\"code\":\"server_error\",\"message\":\"The server failed\"}"
                              : "null");
    text_out_text(out, ",\"incomplete_details\":");
    text_out_text(out,
                  done && !failed && reply->cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    text_out_text(out, ",\"instructions\":null,\"max_output_tokens\":");
    if (reply->ask->max_tokens >= 0)
        text_out_number(out, reply->ask->max_tokens);
    else
        text_out_text(out, "null");
    text_out_text(out, ",\"model\":");
    mock_model_json(reply, out);
    text_out_text(out, ",\"output\":[");
    if (done && !failed)
        put_item(reply, true, out);
    text_out_text(out, "],\"parallel_tool_calls\":true,\"previous_response_id\":null,"
                       "\"reasoning\":{\"effort\":null,\"summary\":null},\"store\":true,"
                       "\"temperature\":1.0,\"text\":{\"format\":{\"type\":\"text\"}},"
                       "\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,"
                       "\"truncation\":\"disabled\"");
    if (done)
        put_usage(reply, out);
    else
        text_out_text(out, ",\"usage\":null");
    text_out_text(out, ",\"user\":null,\"metadata\":{}}");
}

void mock_responses_body(const struct mock_reply *reply, struct text_out *out)
{
    put_response(reply, final_status(reply), out);
}

/* ---- Streamed -------------------------------------------------------------------------------- */

static void begin_event(const char *name, int64_t i, struct text_out *out)
{
    text_out_text(out, "event: ");
    text_out_text(out, name);
    text_out_text(out, "\ndata: {\"type\":\"");
    text_out_text(out, name);
    text_out_text(out, "\",\"sequence_number\":");
    text_out_number(out, i);
}

static void end_event(struct text_out *out)
{
    text_out_text(out, "}\n\n");
}

static void whole_event(const struct mock_reply *reply, const char *name, const char *status,
                        int64_t i, struct text_out *out)
{
    begin_event(name, i, out);
    text_out_text(out, ",\"response\":");
    put_response(reply, status, out);
    end_event(out);
}

static void item_event(const struct mock_reply *reply, bool done, int64_t i, struct text_out *out)
{
    begin_event(done ? "response.output_item.done" : "response.output_item.added", i, out);
    text_out_text(out, ",\"output_index\":0,\"item\":");
    put_item(reply, done, out);
    end_event(out);
}

static void put_where(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, ",\"item_id\":");
    put_item_id(reply, out);
    text_out_text(out,
                  reply->tool ? ",\"output_index\":0" : ",\"output_index\":0,\"content_index\":0");
}

static void part_event(const struct mock_reply *reply, bool done, int64_t i, struct text_out *out)
{
    begin_event(done ? "response.content_part.done" : "response.content_part.added", i, out);
    put_where(reply, out);
    text_out_text(out, ",\"part\":");
    put_part(reply, done, out);
    end_event(out);
}

static void delta_event(const struct mock_reply *reply, int64_t piece, int64_t i,
                        struct text_out *out)
{
    begin_event(reply->tool ? "response.function_call_arguments.delta"
                            : "response.output_text.delta",
                i, out);
    put_where(reply, out);
    if (!reply->tool)
        text_out_text(out, ",\"logprobs\":[]");
    text_out_text(out, ",\"delta\":\"");
    mock_piece(reply, 0, piece, out);
    text_out_text(out, "\"");
    end_event(out);
}

static void answer_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    begin_event(reply->tool ? "response.function_call_arguments.done" : "response.output_text.done",
                i, out);
    put_where(reply, out);
    text_out_text(out, reply->tool ? ",\"arguments\":\"" : ",\"logprobs\":[],\"text\":\"");
    mock_answer(reply, 0, out);
    text_out_text(out, "\"");
    end_event(out);
}

static void final_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    whole_event(reply, reply->cut ? "response.incomplete" : "response.completed",
                final_status(reply), i, out);
}

void mock_responses_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
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

void mock_responses_failed(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    whole_event(reply, "response.failed", "failed", i, out);
}
