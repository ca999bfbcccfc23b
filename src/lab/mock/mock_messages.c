/* mock_messages.c - the messages of Anthropic's API, whole and streamed.
 *
 *     message_start, content_block_start, ping, content_block_delta ...,
 *     content_block_stop, message_delta, message_stop
 *
 * The prompt is counted in message_start, the output in message_delta. Cached tokens are not part
 * of input_tokens here, unlike in the other API.
 */
#include "lab/mock/mock_reply.h"

static const char *stop_reason(const struct mock_reply *reply)
{
    if (reply->cut)
        return "\"max_tokens\"";
    if (reply->refuses)
        return "\"refusal\"";
    if (reply->stopped != NULL)
        return "\"stop_sequence\"";
    return reply->tool ? "\"tool_use\"" : "\"end_turn\"";
}

static void put_stop(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, stop_reason(reply));
    text_out_text(out, ",\"stop_sequence\":");
    if (reply->stopped != NULL && !reply->cut)
        text_out_json(out, slice_of(reply->stopped));
    else
        text_out_text(out, "null");
    if (reply->refuses)
        text_out_text(out, ",\"stop_details\":{\"type\":\"refusal\",\"category\":\"cyber\","
                           "\"explanation\":\"It may do harm.\"}");
}

/* False: the script wants none, or null, and that is written. */
static bool begin_usage(const struct mock_reply *reply, struct text_out *out)
{
    if (reply->action->usage == MOCK_USAGE_NULL)
        text_out_text(out, ",\"usage\":null");
    if (reply->action->usage == MOCK_USAGE_NULL || reply->action->usage == MOCK_USAGE_MISSING)
        return false;
    text_out_text(out, ",\"usage\":{");
    return true;
}

static void put_usage(const struct mock_reply *reply, bool whole, struct text_out *out)
{
    struct mock_counts counts = mock_counts_of(reply);
    bool odd = counts.prompt <= 0 || counts.prompt == INT64_MAX;

    if (!begin_usage(reply, out))
        return;
    text_out_text(out, "\"input_tokens\":");
    text_out_number(out, odd ? counts.prompt : counts.prompt - counts.cached - counts.cache_write);
    text_out_text(out, ",\"cache_creation_input_tokens\":");
    text_out_number(out, counts.cache_write);
    text_out_text(out, ",\"cache_read_input_tokens\":");
    text_out_number(out, counts.cached);
    text_out_text(out, ",\"output_tokens\":");
    text_out_number(out, whole || odd || counts.output == 0 ? counts.output : 1);
    text_out_text(out, ",\"service_tier\":\"standard\"}");
}

static void put_top(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "{\"id\":\"");
    mock_id(reply, "msg_", out);
    text_out_text(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    mock_model_json(reply, out);
    text_out_text(out, ",\"content\":[");
}

static void put_tool(const struct mock_reply *reply, int64_t call, struct text_out *out)
{
    text_out_text(out, "{\"type\":\"tool_use\",\"id\":\"");
    mock_call_id(reply, "toolu_", call, out);
    text_out_text(out, "\",\"name\":");
    mock_tool_json(reply, call, out);
    text_out_text(out, ",\"input\":");
}

void mock_messages_body(const struct mock_reply *reply, struct text_out *out)
{
    put_top(reply, out);
    if (reply->thoughts > 0) {
        text_out_text(out, "{\"type\":\"thinking\",\"thinking\":\"");
        mock_thoughts(reply, 0, out);
        text_out_text(out, "\",\"signature\":\"");
        mock_signature(reply, out);
        text_out_text(out, "\"},");
    }
    for (int64_t call = 0; reply->tool && call < reply->calls; call++) {
        text_out_text(out, call > 0 ? "," : "");
        put_tool(reply, call, out);
        mock_arguments(reply, 0, call, out);
        text_out_text(out, "}");
    }
    if (!reply->tool) {
        text_out_text(out, "{\"type\":\"text\",\"text\":\"");
        mock_answer(reply, 0, 0, out);
        text_out_text(out, "\"}");
    }
    text_out_text(out, "],\"stop_reason\":");
    put_stop(reply, out);
    put_usage(reply, true, out);
    text_out_text(out, "}");
}

/* ---- Streamed -------------------------------------------------------------------------------- */

static void put_start(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    put_top(reply, out);
    text_out_text(out, "],\"stop_reason\":null,\"stop_sequence\":null");
    put_usage(reply, false, out);
    text_out_text(out, "}}\n\n");
}

/* One block after the other: what was thought, and the answer or its calls. */
struct block {
    int64_t index, call;
    bool thinking;
};

/* The events of a block: its start, its deltas, a signature, its stop. */
static int64_t block_events(const struct mock_reply *reply, const struct block *block)
{
    return block->thinking ? reply->thoughts + 3 : reply->pieces + 2;
}

static struct block block_at(const struct mock_reply *reply, int64_t index)
{
    bool thinks = reply->thoughts > 0;

    return (struct block){index, index - thinks, thinks && index == 0};
}

/* All but message_start, the ping, message_delta and message_stop are of blocks. */
int64_t mock_messages_events(const struct mock_reply *reply)
{
    int64_t blocks = (reply->thoughts > 0) + reply->calls, events = 4;

    for (int64_t i = 0; i < blocks; i++) {
        struct block block = block_at(reply, i);
        events += block_events(reply, &block);
    }
    return events;
}

static void begin_block_event(const char *type, const struct block *block, struct text_out *out)
{
    text_out_text(out, "event: ");
    text_out_text(out, type);
    text_out_text(out, "\ndata: {\"type\":\"");
    text_out_text(out, type);
    text_out_text(out, "\",\"index\":");
    text_out_number(out, block->index);
}

static void put_block_start(const struct mock_reply *reply, const struct block *block,
                            struct text_out *out)
{
    begin_block_event("content_block_start", block, out);
    text_out_text(out, ",\"content_block\":");
    if (block->thinking) {
        text_out_text(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else if (reply->tool) {
        put_tool(reply, block->call, out);
        text_out_text(out, "{}}");
    } else {
        text_out_text(out, "{\"type\":\"text\",\"text\":\"\"}");
    }
    text_out_text(out, "}\n\n");
}

static void put_delta(const struct mock_reply *reply, const struct block *block, int64_t piece,
                      struct text_out *out)
{
    begin_block_event("content_block_delta", block, out);
    text_out_text(out, ",\"delta\":{\"type\":");
    if (block->thinking && piece < reply->thoughts) {
        text_out_text(out, "\"thinking_delta\",\"thinking\":\"");
        mock_thought(reply, 0, piece, out);
    } else if (block->thinking) {
        text_out_text(out, "\"signature_delta\",\"signature\":\"");
        mock_signature(reply, out);
    } else {
        text_out_text(out, reply->tool ? "\"input_json_delta\",\"partial_json\":\""
                                       : "\"text_delta\",\"text\":\"");
        mock_piece(reply, 0, block->call, piece, out);
    }
    text_out_text(out, "\"}}\n\n");
}

/* Event i of those that belong to blocks. */
static void put_block_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    struct block block = block_at(reply, 0);

    while (i >= block_events(reply, &block)) {
        i -= block_events(reply, &block);
        block = block_at(reply, block.index + 1);
    }
    if (i == 0) {
        put_block_start(reply, &block, out);
    } else if (i < block_events(reply, &block) - 1) {
        put_delta(reply, &block, i - 1, out);
    } else {
        begin_block_event("content_block_stop", &block, out);
        text_out_text(out, "}\n\n");
    }
}

static void put_message_delta(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":"
                       "{\"stop_reason\":");
    put_stop(reply, out);
    text_out_text(out, "}");
    if (begin_usage(reply, out)) {
        text_out_text(out, "\"output_tokens\":");
        text_out_number(out, mock_counts_of(reply).output);
        text_out_text(out, "}");
    }
    text_out_text(out, "}\n\n");
}

void mock_messages_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    if (i == 0)
        put_start(reply, out);
    else if (i == 2)
        text_out_text(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    else if (i < reply->events - 2)
        put_block_event(reply, i == 1 ? 0 : i - 2, out);
    else if (i == reply->events - 2)
        put_message_delta(reply, out);
    else
        text_out_text(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}
