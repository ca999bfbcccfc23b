/* mock_responses.c - the responses of OpenAI's API, whole and streamed.
 *
 *     created, in_progress, output_item.added, content_part.added, deltas,
 *     output_text.done, content_part.done, output_item.done, completed or incomplete
 *
 * A call of a tool has no content parts, and its own kind of delta; reasoning has a summary.
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

/* One item after the other: what was thought, and the answer or its calls. */
struct item {
    int64_t index, call;
    bool thinking;
};

static struct item item_at(const struct mock_reply *reply, int64_t index)
{
    bool thinks = reply->thoughts > 0;

    return (struct item){index, index - thinks, thinks && index == 0};
}

static int64_t n_items(const struct mock_reply *reply)
{
    return (reply->thoughts > 0) + reply->calls;
}

static bool is_call(const struct mock_reply *reply, const struct item *item)
{
    return reply->tool && !item->thinking;
}

/* A text, or a summary of what was thought. */
static void put_part(const struct mock_reply *reply, const struct item *item, bool done,
                     struct text_out *out)
{
    text_out_text(out, item->thinking   ? "{\"type\":\"summary_text\",\"text\":\""
                       : reply->refuses ? "{\"type\":\"refusal\",\"refusal\":\""
                                        : "{\"type\":\"output_text\",\"annotations\":[],"
                                          "\"logprobs\":[],\"text\":\"");
    if (done && item->thinking)
        mock_thoughts(reply, 0, out);
    else if (done)
        mock_answer(reply, 0, 0, out);
    text_out_text(out, "\"}");
}

static void put_item_id(const struct mock_reply *reply, const struct item *item,
                        struct text_out *out)
{
    text_out_text(out, "\"");
    mock_call_id(reply,
                 item->thinking ? "rs_"
                 : reply->tool  ? "fc_"
                                : "msg_",
                 item->thinking ? 0 : item->call, out);
    text_out_text(out, "\"");
}

static const char *final_status(const struct mock_reply *reply)
{
    return reply->cut ? "incomplete" : "completed";
}

static void put_reasoning(const struct mock_reply *reply, const struct item *item, bool done,
                          struct text_out *out)
{
    text_out_text(out, ",\"type\":\"reasoning\",\"summary\":[");
    if (done)
        put_part(reply, item, true, out);
    text_out_text(out, "],\"encrypted_content\":\"");
    if (done)
        mock_signature(reply, out);
    text_out_text(out, "\"}");
}

static void put_item(const struct mock_reply *reply, const struct item *item, bool done,
                     struct text_out *out)
{
    text_out_text(out, "{\"id\":");
    put_item_id(reply, item, out);
    if (item->thinking) {
        put_reasoning(reply, item, done, out);
        return;
    }
    text_out_text(out, ",\"status\":\"");
    text_out_text(out, done ? final_status(reply) : "in_progress");
    if (reply->tool) {
        text_out_text(out, "\",\"type\":\"function_call\",\"call_id\":\"");
        mock_call_id(reply, "call_", item->call, out);
        text_out_text(out, "\",\"name\":");
        mock_tool_json(reply, item->call, out);
        text_out_text(out, ",\"arguments\":\"");
        if (done)
            mock_answer(reply, 0, item->call, out);
        text_out_text(out, "\"}");
        return;
    }
    text_out_text(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
    if (done)
        put_part(reply, item, true, out);
    text_out_text(out, "]}");
}

static void put_items(const struct mock_reply *reply, struct text_out *out)
{
    for (int64_t i = 0; i < n_items(reply); i++) {
        struct item item = item_at(reply, i);
        text_out_text(out, i > 0 ? "," : "");
        put_item(reply, &item, true, out);
    }
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
        put_items(reply, out);
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

/* The events of an item: it begins, its part, its deltas, the end of each. */
static int64_t item_events(const struct mock_reply *reply, const struct item *item)
{
    return item->thinking ? reply->thoughts + 5 : reply->pieces + (reply->tool ? 3 : 5);
}

/* All but created, in_progress and the last are of items. */
int64_t mock_responses_events(const struct mock_reply *reply)
{
    int64_t events = 3;

    for (int64_t i = 0; i < n_items(reply); i++) {
        struct item item = item_at(reply, i);
        events += item_events(reply, &item);
    }
    return events;
}

static void whole_item_event(const struct mock_reply *reply, const struct item *item, bool done,
                             int64_t i, struct text_out *out)
{
    begin_event(done ? "response.output_item.done" : "response.output_item.added", i, out);
    text_out_text(out, ",\"output_index\":");
    text_out_number(out, item->index);
    text_out_text(out, ",\"item\":");
    put_item(reply, item, done, out);
    end_event(out);
}

static void put_where(const struct mock_reply *reply, const struct item *item, struct text_out *out)
{
    text_out_text(out, ",\"item_id\":");
    put_item_id(reply, item, out);
    text_out_text(out, ",\"output_index\":");
    text_out_number(out, item->index);
    if (item->thinking)
        text_out_text(out, ",\"summary_index\":0");
    else if (!reply->tool)
        text_out_text(out, ",\"content_index\":0");
}

static void part_event(const struct mock_reply *reply, const struct item *item, bool done,
                       int64_t i, struct text_out *out)
{
    if (item->thinking)
        begin_event(done ? "response.reasoning_summary_part.done"
                         : "response.reasoning_summary_part.added",
                    i, out);
    else
        begin_event(done ? "response.content_part.done" : "response.content_part.added", i, out);
    put_where(reply, item, out);
    text_out_text(out, ",\"part\":");
    put_part(reply, item, done, out);
    end_event(out);
}

static void delta_event(const struct mock_reply *reply, const struct item *item, int64_t piece,
                        int64_t i, struct text_out *out)
{
    begin_event(item->thinking   ? "response.reasoning_summary_text.delta"
                : reply->tool    ? "response.function_call_arguments.delta"
                : reply->refuses ? "response.refusal.delta"
                                 : "response.output_text.delta",
                i, out);
    put_where(reply, item, out);
    if (!item->thinking && !reply->tool && !reply->refuses)
        text_out_text(out, ",\"logprobs\":[]");
    text_out_text(out, ",\"delta\":\"");
    if (item->thinking)
        mock_thought(reply, 0, piece, out);
    else
        mock_piece(reply, 0, item->call, piece, out);
    text_out_text(out, "\"");
    end_event(out);
}

static void answer_event(const struct mock_reply *reply, const struct item *item, int64_t i,
                         struct text_out *out)
{
    begin_event(item->thinking   ? "response.reasoning_summary_text.done"
                : reply->tool    ? "response.function_call_arguments.done"
                : reply->refuses ? "response.refusal.done"
                                 : "response.output_text.done",
                i, out);
    put_where(reply, item, out);
    if (item->thinking) {
        text_out_text(out, ",\"text\":\"");
        mock_thoughts(reply, 0, out);
    } else {
        text_out_text(out, reply->tool      ? ",\"arguments\":\""
                           : reply->refuses ? ",\"refusal\":\""
                                            : ",\"logprobs\":[],\"text\":\"");
        mock_answer(reply, 0, item->call, out);
    }
    text_out_text(out, "\"");
    end_event(out);
}

/* Event `at` of an item, which is event i of the stream. */
static void item_event(const struct mock_reply *reply, const struct item *item, int64_t at,
                       int64_t i, struct text_out *out)
{
    int64_t parts = is_call(reply, item) ? 0 : 1, piece = at - 1 - parts;
    int64_t after = piece - (item->thinking ? reply->thoughts : reply->pieces);

    if (at == 0)
        whole_item_event(reply, item, false, i, out);
    else if (piece < 0)
        part_event(reply, item, false, i, out);
    else if (after < 0)
        delta_event(reply, item, piece, i, out);
    else if (after == 0)
        answer_event(reply, item, i, out);
    else if (after <= parts)
        part_event(reply, item, true, i, out);
    else
        whole_item_event(reply, item, true, i, out);
}

static void final_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    whole_event(reply, reply->cut ? "response.incomplete" : "response.completed",
                final_status(reply), i, out);
}

void mock_responses_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    struct item item = item_at(reply, 0);
    int64_t at = i - 2;

    if (i < 2) {
        whole_event(reply, i == 0 ? "response.created" : "response.in_progress", "in_progress", i,
                    out);
        return;
    }
    if (i == reply->events - 1) {
        final_event(reply, i, out);
        return;
    }
    while (at >= item_events(reply, &item)) {
        at -= item_events(reply, &item);
        item = item_at(reply, item.index + 1);
    }
    item_event(reply, &item, at, i, out);
}

void mock_responses_failed(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    whole_event(reply, "response.failed", "failed", i, out);
}
