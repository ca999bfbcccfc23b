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
    return reply->tool ? "\"tool_use\"" : "\"end_turn\"";
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

static void put_tool(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "{\"type\":\"tool_use\",\"id\":\"");
    mock_id(reply, "toolu_", out);
    text_out_text(out, "\",\"name\":");
    text_out_json(out, slice_of(reply->ask->tool));
    text_out_text(out, ",\"input\":{");
}

void mock_messages_body(const struct mock_reply *reply, struct text_out *out)
{
    put_top(reply, out);
    if (reply->tool) {
        put_tool(reply, out);
        text_out_text(out, "\"text\":\"");
        for (int64_t i = 0; i < reply->words; i++)
            mock_word(reply, 0, i, out);
        text_out_text(out, "\"}}");
    } else {
        text_out_text(out, "{\"type\":\"text\",\"text\":\"");
        mock_answer(reply, 0, out);
        text_out_text(out, "\"}");
    }
    text_out_text(out, "],\"stop_reason\":");
    text_out_text(out, stop_reason(reply));
    text_out_text(out, ",\"stop_sequence\":null");
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

static void put_block_start(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "event: content_block_start\ndata: {\"type\":\"content_block_start\","
                       "\"index\":0,\"content_block\":");
    if (reply->tool) {
        put_tool(reply, out);
        text_out_text(out, "}}");
    } else {
        text_out_text(out, "{\"type\":\"text\",\"text\":\"\"}");
    }
    text_out_text(out, "}\n\n");
}

static void put_delta(const struct mock_reply *reply, int64_t piece, struct text_out *out)
{
    text_out_text(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\","
                       "\"index\":0,\"delta\":{\"type\":");
    text_out_text(out, reply->tool ? "\"input_json_delta\",\"partial_json\":\""
                                   : "\"text_delta\",\"text\":\"");
    mock_piece(reply, 0, piece, out);
    text_out_text(out, "\"}}\n\n");
}

static void put_message_delta(const struct mock_reply *reply, struct text_out *out)
{
    text_out_text(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":"
                       "{\"stop_reason\":");
    text_out_text(out, stop_reason(reply));
    text_out_text(out, ",\"stop_sequence\":null}");
    if (begin_usage(reply, out)) {
        text_out_text(out, "\"output_tokens\":");
        text_out_number(out, mock_counts_of(reply).output);
        text_out_text(out, "}");
    }
    text_out_text(out, "}\n\n");
}

void mock_messages_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    int64_t piece = i - reply->before, after = piece - reply->pieces;

    if (i == 0)
        put_start(reply, out);
    else if (i == 1)
        put_block_start(reply, out);
    else if (i == 2)
        text_out_text(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    else if (after < 0)
        put_delta(reply, piece, out);
    else if (after == 0)
        text_out_text(out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\","
                           "\"index\":0}\n\n");
    else if (after == 1)
        put_message_delta(reply, out);
    else
        text_out_text(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}
