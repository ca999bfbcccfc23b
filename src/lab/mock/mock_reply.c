/* mock_reply.c - what all replies of the mock have in common: their words, counts and errors. */
#include "lab/mock/mock_reply.h"

#include "io/http/http.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *const word_list[] = {
    "the ",   "gate ",  "opens ", "when ",  "one ",   "call ",  "has ",   "paid ",
    "its ",   "toll ",  "and ",   "no ",    "other ", "waits ", "long ",  "here ",
    "small ", "loads ", "pass ",  "at ",    "once ",  "large ", "ones ",  "take ",
    "turns ", "each ",  "lane ",  "is ",    "fair ",  "to ",    "all ",   "who ",
    "come ",  "by ",    "day ",   "or ",    "night ", "with ",  "light ", "freight ",
    "a ",     "bell ",  "rings ", "as ",    "carts ", "roll ",  "on ",    "over ",
    "old ",   "stone ", "roads ", "from ",  "far ",   "towns ", "where ", "bread ",
    "bakes ", "early ", "while ", "birds ", "sing ",  "in ",    "green ", "fields ",
};

#define N_WORDS (sizeof word_list / sizeof word_list[0])

/* The finaliser of splitmix64: any word can be asked for without those before it. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void mock_word(const struct mock_reply *reply, int64_t choice, int64_t i, struct text_out *out)
{
    uint64_t at = mix(reply->ask->hash + (uint64_t)choice * 1000003 + (uint64_t)i);

    text_out_text(out, word_list[at % N_WORDS]);
}

/* The arguments of a tool are JSON in a string, so their quotes are escaped. */
void mock_piece(const struct mock_reply *reply, int64_t choice, int64_t i, struct text_out *out)
{
    if (!reply->tool)
        mock_word(reply, choice, i, out);
    else if (i == 0)
        text_out_text(out, "{\\\"text\\\":\\\"");
    else if (i == reply->pieces - 1)
        text_out_text(out, "\\\"}");
    else
        mock_word(reply, choice, i - 1, out);
}

void mock_answer(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    for (int64_t i = 0; i < reply->pieces; i++)
        mock_piece(reply, choice, i, out);
}

void mock_model_json(const struct mock_reply *reply, struct text_out *out)
{
    text_out_json(out, slice_of(reply->ask->model));
}

/* 16 hexadecimal digits. */
static void put_hash(struct text_out *out, uint64_t hash)
{
    uint8_t bytes[8];

    for (size_t i = sizeof bytes; i-- > 0; hash >>= 8)
        bytes[i] = (uint8_t)hash;
    text_out_hex(out, bytes, sizeof bytes);
}

void mock_id(const struct mock_reply *reply, const char *prefix, struct text_out *out)
{
    text_out_text(out, prefix);
    put_hash(out, reply->ask->hash);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct mock_counts all_of(int64_t number)
{
    return (struct mock_counts){number, number, number, number, number, number};
}

struct mock_counts mock_counts_of(const struct mock_reply *reply)
{
    const struct mock_action *action = reply->action;
    struct mock_counts counts = {.prompt = mock_ask_prompt_tokens(reply->ask),
                                 .output = reply->output * reply->ask->choices};

    if (action->usage == MOCK_USAGE_ZERO)
        return all_of(0);
    if (action->usage == MOCK_USAGE_NEGATIVE)
        return all_of(-1);
    if (action->usage == MOCK_USAGE_ABSURD)
        return all_of(INT64_MAX);
    counts.cached = smaller(action->cached, counts.prompt);
    counts.cache_write = smaller(action->cache_write, counts.prompt - counts.cached);
    counts.reasoning = smaller(action->reasoning, reply->output) * reply->ask->choices;
    counts.total = counts.prompt + counts.output;
    return counts;
}

static void count_events(struct mock_reply *reply)
{
    int64_t n = reply->ask->choices, after = 0;

    reply->paced = reply->pieces;
    switch (reply->ask->endpoint) {
    case MOCK_CHAT: /* a role, then pieces, then an end for each choice; usage; [DONE] */
        reply->before = n;
        reply->paced = reply->pieces * n;
        after = n + 1;
        break;
    case MOCK_COMPLETIONS:
        reply->before = 0;
        reply->paced = reply->pieces * n;
        after = n + 1;
        break;
    case MOCK_RESPONSES:
        reply->before = reply->tool ? 3 : 4;
        after = reply->tool ? 3 : 4;
        break;
    default: /* messages */
        reply->before = 3;
        after = 3;
        break;
    }
    if ((reply->ask->endpoint == MOCK_CHAT || reply->ask->endpoint == MOCK_COMPLETIONS) &&
        reply->ask->include_usage && reply->action->usage != MOCK_USAGE_MISSING)
        after++;
    reply->events = reply->before + reply->paced + after;
}

void mock_reply_init(struct mock_reply *reply, const struct mock_ask *ask,
                     const struct mock_action *action)
{
    reply->ask = ask;
    reply->action = action;
    reply->output = action->tokens;
    reply->cut = ask->max_tokens >= 0 && ask->max_tokens < action->tokens;
    if (reply->cut)
        reply->output = ask->max_tokens;
    reply->words = reply->output - smaller(action->reasoning, reply->output);
    reply->tool = action->tool_call && ask->tool[0] != '\0' && ask->endpoint != MOCK_COMPLETIONS;
    reply->pieces = reply->words + (reply->tool ? 2 : 0);
    count_events(reply);
    text_out_clear(&reply->head);
    if (ask->stream && (ask->endpoint == MOCK_CHAT || ask->endpoint == MOCK_COMPLETIONS))
        mock_chat_head(reply);
}

void mock_reply_fini(struct mock_reply *reply)
{
    text_out_fini(&reply->head);
}

/* ---- Which file writes it -------------------------------------------------------------------- */

void mock_reply_body(const struct mock_reply *reply, struct slice models, struct text_out *out)
{
    switch (reply->ask->endpoint) {
    case MOCK_CHAT:
    case MOCK_COMPLETIONS:
        mock_chat_body(reply, out);
        break;
    case MOCK_RESPONSES:
        mock_responses_body(reply, out);
        break;
    case MOCK_EMBEDDINGS:
        mock_embeddings_body(reply, out);
        break;
    case MOCK_MESSAGES:
        mock_messages_body(reply, out);
        break;
    case MOCK_COUNT_TOKENS:
        text_out_text(out, "{\"input_tokens\":");
        text_out_number(out, mock_counts_of(reply).prompt);
        text_out_text(out, "}");
        break;
    case MOCK_MODELS:
        mock_models_body(reply, models, out);
        break;
    case MOCK_MODEL:
        mock_model_object(reply, slice_of(reply->ask->model), out);
        break;
    case MOCK_OTHER:
        break;
    }
}

void mock_reply_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    if (reply->ask->endpoint == MOCK_RESPONSES)
        mock_responses_event(reply, i, out);
    else if (reply->ask->endpoint == MOCK_MESSAGES)
        mock_messages_event(reply, i, out);
    else
        mock_chat_event(reply, i, out);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static const struct error_row {
    int status;
    const char *openai_type, *openai_code, *anthropic_type, *message;
} errors[] = {
    {400, "invalid_request_error", "invalid_request", "invalid_request_error",
     "The request is bad"},
    {401, "invalid_request_error", "invalid_api_key", "authentication_error",
     "The API key is not known"},
    {402, "billing_error", "billing_error", "billing_error", "Payment is required"},
    {403, "invalid_request_error", "permission_denied", "permission_error",
     "This API key may not do that"},
    {404, "invalid_request_error", "not_found", "not_found_error", "There is no such thing"},
    {405, "invalid_request_error", "method_not_allowed", "invalid_request_error",
     "This path does not take that method"},
    {409, "invalid_request_error", "conflict", "invalid_request_error", "It was changed meanwhile"},
    {413, "invalid_request_error", "payload_too_large", "request_too_large",
     "The request is too large"},
    {429, "requests", "rate_limit_exceeded", "rate_limit_error", "The rate limit is reached"},
    {503, "server_error", "service_unavailable", "overloaded_error", "No capacity at the moment"},
    {529, "server_error", "overloaded", "overloaded_error", "Overloaded"},
    {500, "server_error", "server_error", "api_error", "The server failed"},
};

/* The last row stands for every status that has none. */
static const struct error_row *error_of(int status)
{
    const struct error_row *row = errors;

    while (row->status != status && row->status != 500)
        row++;
    return row;
}

static void put_json(struct text_out *out, const char *key, const char *value)
{
    text_out_text(out, key);
    text_out_json(out, slice_of(value));
}

static const char *first_of(const char *a, const char *b)
{
    return a != NULL ? a : b;
}

void mock_error_body(const struct mock_ask *ask, const struct mock_action *action, int status,
                     const char *message, struct text_out *out)
{
    const struct error_row *row = error_of(status);
    const char *said = first_of(action->message, first_of(message, row->message));

    if (ask->api == MOCK_ANTHROPIC) {
        put_json(out, "{\"type\":\"error\",\"error\":{\"type\":",
                 first_of(action->error_type, row->anthropic_type));
        put_json(out, ",\"message\":", said);
        text_out_text(out, "},\"request_id\":\"req_");
        put_hash(out, ask->hash);
        text_out_text(out, "\"}");
        return;
    }
    put_json(out, "{\"error\":{\"message\":", said);
    put_json(out, ",\"type\":", first_of(action->error_type, row->openai_type));
    text_out_text(out, ",\"param\":null");
    put_json(out, ",\"code\":", first_of(action->error_code, row->openai_code));
    text_out_text(out, "}}");
}

void mock_error_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    const struct mock_action *action = reply->action;
    const char *message = first_of(action->message, "The server had an error while processing");

    if (reply->ask->endpoint == MOCK_RESPONSES && action->fault == MOCK_FAILED) {
        mock_responses_failed(reply, i, out);
    } else if (reply->ask->endpoint == MOCK_RESPONSES) {
        put_json(out, "event: error\ndata: {\"type\":\"error\",\"code\":",
                 first_of(action->error_code, "server_error"));
        put_json(out, ",\"message\":", message);
        text_out_text(out, ",\"param\":null,\"sequence_number\":");
        text_out_number(out, i);
        text_out_text(out, "}\n\n");
    } else if (reply->ask->api == MOCK_ANTHROPIC) {
        put_json(out, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":",
                 first_of(action->error_type, "overloaded_error"));
        put_json(out, ",\"message\":", first_of(action->message, "Overloaded"));
        text_out_text(out, "}}\n\n");
    } else {
        put_json(out, "data: {\"error\":{\"message\":", message);
        put_json(out, ",\"type\":", first_of(action->error_type, "server_error"));
        text_out_text(out, ",\"param\":null");
        put_json(out, ",\"code\":", first_of(action->error_code, "server_error"));
        text_out_text(out, "}}\n\n");
    }
}
