/* mock_reply.c - what all replies of the mock have in common: their words, counts and errors. */
#include "lab/mock/mock_reply.h"

#include "io/http/http.h"
#include "lib/core/num.h"

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

#define PIECE_BYTES 8 /* a token of a text that the script gives */

#define N_WORDS (sizeof word_list / sizeof word_list[0])

/* The finaliser of splitmix64: any word can be asked for without those before it. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Word i of choice `choice`, with the space after it. */
static void mock_word(const struct mock_reply *reply, int64_t choice, int64_t i,
                      struct text_out *out)
{
    uint64_t at = mix(reply->ask->hash + (uint64_t)choice * 1000003 + (uint64_t)i);

    text_out_text(out, word_list[at % N_WORDS]);
}

/* Where piece i of the script's text begins: characters are not cut. */
static size_t piece_at(struct slice said, int64_t i)
{
    size_t at = (size_t)i < said.n / PIECE_BYTES + 1 ? (size_t)i * PIECE_BYTES : said.n;

    while (at < said.n && ((unsigned char)said.at[at] & 0xc0) == 0x80)
        at++;
    return at < said.n ? at : said.n;
}

/* Appends a text as it stands within a JSON string. */
static void put_escaped(struct text_out *out, struct slice text)
{
    size_t from = out->size;

    text_out_json(out, text);
    if (out->failed)
        return;
    memmove(out->bytes + from, out->bytes + from + 1, out->size - from - 2);
    out->size -= 2;
}

void mock_piece(const struct mock_reply *reply, int64_t choice, int64_t call, int64_t i,
                struct text_out *out)
{
    int64_t stream = choice + call * MOCK_CHOICES_MAX;

    if (reply->said.at != NULL) {
        size_t from = piece_at(reply->said, i), end = piece_at(reply->said, i + 1);
        put_escaped(out, (struct slice){reply->said.at + from, end - from});
    } else if (!reply->tool) {
        mock_word(reply, stream, i, out);
    } else if (i == 0) { /* arguments are JSON in a string, so their quotes are escaped */
        text_out_text(out, "{\\\"text\\\":\\\"");
    } else if (i == reply->pieces - 1) {
        text_out_text(out, "\\\"}");
    } else {
        mock_word(reply, stream, i - 1, out);
    }
}

void mock_answer(const struct mock_reply *reply, int64_t choice, int64_t call, struct text_out *out)
{
    for (int64_t i = 0; i < reply->pieces; i++)
        mock_piece(reply, choice, call, i, out);
}

void mock_arguments(const struct mock_reply *reply, int64_t choice, int64_t call,
                    struct text_out *out)
{
    if (reply->said.at != NULL) {
        text_out_slice(out, reply->cut ? SLICE("{}") : reply->said);
        return;
    }
    text_out_text(out, "{\"text\":\"");
    for (int64_t i = 0; i < reply->pieces - 2; i++)
        mock_word(reply, choice + call * MOCK_CHOICES_MAX, i, out);
    text_out_text(out, "\"}");
}

/* ---- Reasoning ------------------------------------------------------------------------------- */

void mock_thought(const struct mock_reply *reply, int64_t choice, int64_t i, struct text_out *out)
{
    mock_word(reply, choice + (MOCK_CALLS_MAX + 1) * MOCK_CHOICES_MAX, i, out);
}

void mock_thoughts(const struct mock_reply *reply, int64_t choice, struct text_out *out)
{
    for (int64_t i = 0; i < reply->thoughts; i++)
        mock_thought(reply, choice, i, out);
}

/* Its length is a multiple of four, as base64 wants it. */
void mock_signature(const struct mock_reply *reply, struct text_out *out)
{
    mock_id(reply, "c2ln", out);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void mock_tool_json(const struct mock_reply *reply, int64_t call, struct text_out *out)
{
    text_out_json(out, slice_of(reply->ask->tools[(size_t)call % reply->ask->n_tools]));
}

void mock_call_id(const struct mock_reply *reply, const char *prefix, int64_t call,
                  struct text_out *out)
{
    mock_id(reply, prefix, out);
    if (call > 0) {
        text_out_char(out, '_');
        text_out_number(out, call);
    }
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
    counts.cached = num_min(action->cached, counts.prompt);
    counts.cache_write = num_min(action->cache_write, counts.prompt - counts.cached);
    counts.reasoning = num_min(action->reasoning, reply->output) * reply->ask->choices;
    counts.total = counts.prompt + counts.output;
    return counts;
}

static void count_events(struct mock_reply *reply)
{
    int64_t n = reply->ask->choices, after = 0;
    int64_t pieces = reply->pieces * reply->calls;

    reply->paced = pieces;
    switch (reply->ask->endpoint) {
    case MOCK_CHAT: /* a role, then pieces, then an end for each choice; usage; [DONE] */
        reply->before = n;
        reply->paced = (reply->thoughts + pieces) * n;
        if (reply->tool && reply->thoughts > 0)
            reply->paced += n; /* calls begin behind what was thought */
        after = n + 1;
        break;
    case MOCK_COMPLETIONS:
        reply->before = 0;
        reply->paced = pieces * n;
        after = n + 1;
        break;
    case MOCK_RESPONSES:
        reply->before = reply->tool && reply->thoughts == 0 ? 3 : 4;
        after = reply->tool ? 3 : 4;
        reply->paced = mock_responses_events(reply) - reply->before - after;
        break;
    case MOCK_GENERATE: /* a call comes in one piece */
        reply->before = 0;
        reply->paced = (reply->thoughts + (reply->tool ? reply->calls : reply->pieces)) * n;
        after = n;
        break;
    default: /* messages */
        reply->before = 3;
        reply->paced = mock_messages_events(reply) - 6;
        after = 3;
        break;
    }
    if ((reply->ask->endpoint == MOCK_CHAT || reply->ask->endpoint == MOCK_COMPLETIONS) &&
        reply->ask->include_usage && reply->action->usage != MOCK_USAGE_MISSING)
        after++;
    reply->events = reply->before + reply->paced + after;
}

static int64_t calls_of(const struct mock_ask *ask, const struct mock_action *action)
{
    int64_t calls = action->tool_calls > 0 ? action->tool_calls : ask->forced;

    if (ask->n_tools == 0 || ask->forbidden || ask->endpoint == MOCK_COMPLETIONS)
        return 0;
    return ask->alone ? num_min(calls, 1) : calls;
}

static int64_t pieces_of(struct slice said)
{
    int64_t pieces = 0;

    while (piece_at(said, pieces) < said.n)
        pieces++;
    return pieces;
}

/* A text that the script gives ends where a stop sequence of the call begins. */
static void stop_said(struct mock_reply *reply)
{
    reply->stopped = NULL;
    for (size_t i = 0; reply->said.at != NULL && !reply->tool && i < reply->ask->n_stops; i++) {
        const char *stop = reply->ask->stops[i], *at = strstr(reply->said.at, stop);

        if (stop[0] == '\0' || at == NULL || (size_t)(at - reply->said.at) >= reply->said.n)
            continue;
        reply->said.n = (size_t)(at - reply->said.at);
        reply->stopped = stop;
    }
}

void mock_reply_init(struct mock_reply *reply, const struct mock_ask *ask,
                     const struct mock_action *action)
{
    int64_t calls = calls_of(ask, action), tokens = action->tokens, whole = 0;
    const char *said = calls > 0 ? action->arguments : action->text;

    reply->ask = ask;
    reply->action = action;
    reply->tool = calls > 0;
    reply->calls = calls > 0 ? calls : 1;
    reply->refuses = action->refuse && calls == 0 && ask->endpoint != MOCK_COMPLETIONS;
    reply->said = said != NULL ? slice_of(said) : (struct slice){NULL, 0};
    stop_said(reply);
    if (said != NULL) {
        whole = pieces_of(reply->said);
        tokens = whole * reply->calls + action->reasoning;
    }
    reply->output = tokens;
    reply->cut = ask->max_tokens >= 0 && ask->max_tokens < tokens;
    if (reply->cut)
        reply->output = ask->max_tokens;
    reply->words = reply->output - num_min(action->reasoning, reply->output);
    reply->thoughts = action->thinking && ask->endpoint != MOCK_COMPLETIONS
                          ? num_min(action->reasoning, reply->output)
                          : 0;
    reply->pieces = reply->words / reply->calls;
    if (said != NULL)
        reply->pieces = num_min(reply->pieces, whole);
    else if (reply->tool)
        reply->pieces += 2;
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
    case MOCK_GENERATE:
        mock_gemini_body(reply, out);
        break;
    case MOCK_COUNT_TOKENS:
        if (reply->ask->api == MOCK_GEMINI) {
            mock_gemini_count(reply, out);
            break;
        }
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
    case MOCK_TOKEN:
        break;
    }
}

void mock_reply_event(const struct mock_reply *reply, int64_t i, struct text_out *out)
{
    if (reply->ask->endpoint == MOCK_RESPONSES)
        mock_responses_event(reply, i, out);
    else if (reply->ask->endpoint == MOCK_MESSAGES)
        mock_messages_event(reply, i, out);
    else if (reply->ask->endpoint == MOCK_GENERATE)
        mock_gemini_event(reply, i, out);
    else
        mock_chat_event(reply, i, out);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static const struct error_row {
    int status;
    const char *openai_type, *openai_code, *anthropic_type, *gemini_status, *message;
} errors[] = {
    {400, "invalid_request_error", "invalid_request", "invalid_request_error", "INVALID_ARGUMENT",
     "The request is bad"},
    {401, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED",
     "The API key is not known"},
    {402, "billing_error", "billing_error", "billing_error", "FAILED_PRECONDITION",
     "Payment is required"},
    {403, "invalid_request_error", "permission_denied", "permission_error", "PERMISSION_DENIED",
     "This API key may not do that"},
    {404, "invalid_request_error", "not_found", "not_found_error", "NOT_FOUND",
     "There is no such thing"},
    {405, "invalid_request_error", "method_not_allowed", "invalid_request_error",
     "INVALID_ARGUMENT", "This path does not take that method"},
    {409, "invalid_request_error", "conflict", "invalid_request_error", "ABORTED",
     "It was changed meanwhile"},
    {413, "invalid_request_error", "payload_too_large", "request_too_large", "INVALID_ARGUMENT",
     "The request is too large"},
    {429, "requests", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED",
     "The rate limit is reached"},
    {503, "server_error", "service_unavailable", "overloaded_error", "UNAVAILABLE",
     "No capacity at the moment"},
    {529, "server_error", "overloaded", "overloaded_error", "UNAVAILABLE", "Overloaded"},
    {500, "server_error", "server_error", "api_error", "INTERNAL", "The server failed"},
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

/* When to come again stands in the body, and `error_code` is the reason. */
static void put_gemini_error(const struct mock_action *action, int status, const char *name,
                             const char *message, struct text_out *out)
{
    int64_t wait_ms = action->retry_after_ms > 0  ? action->retry_after_ms
                      : action->retry_after_s > 0 ? action->retry_after_s * 1000
                                                  : 0;

    text_out_text(out, "{\"error\":{\"code\":");
    text_out_number(out, status);
    put_json(out, ",\"message\":", message);
    put_json(out, ",\"status\":", name);
    text_out_text(out, ",\"details\":[");
    if (wait_ms > 0)
        text_out_format(out,
                        "{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\","
                        "\"retryDelay\":\"%.9gs\"}",
                        (double)wait_ms / 1000);
    if (action->error_code != NULL) {
        put_json(out, wait_ms > 0 ? ",{\"@type\":" : "{\"@type\":",
                 "type.googleapis.com/google.rpc.ErrorInfo");
        put_json(out, ",\"reason\":", action->error_code);
        text_out_text(out, "}");
    }
    text_out_text(out, "]}}");
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
    if (ask->api == MOCK_GEMINI) {
        put_gemini_error(action, status, first_of(action->error_type, row->gemini_status), said,
                         out);
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
    } else if (reply->ask->api == MOCK_GEMINI) {
        text_out_text(out, !reply->ask->in_array ? "data: " : i == 0 ? "[" : ",\r\n");
        put_gemini_error(action, 503, first_of(action->error_type, "UNAVAILABLE"),
                         first_of(action->message, "Overloaded"), out);
        text_out_text(out, reply->ask->in_array ? "]" : "\r\n\r\n");
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
