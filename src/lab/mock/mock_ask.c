/* mock_ask.c - what a request asks the mock for: endpoint, and the fields its reply follows.
 *
 * Unknown fields are passed over: providers take them, or complain about them, in ways of their
 * own, and a script can complain too. What the reply is built from must have the right type.
 */
#include "lab/mock/mock_ask.h"

#include <stdio.h>

#define DIMENSIONS 8

/* ---- Head ------------------------------------------------------------------------------------ */

static const struct {
    const char *path;
    enum mock_endpoint endpoint;
    const char *method;
} paths[] = {
    {"/v1/chat/completions", MOCK_CHAT, "POST"},
    {"/v1/completions", MOCK_COMPLETIONS, "POST"},
    {"/v1/responses", MOCK_RESPONSES, "POST"},
    {"/v1/embeddings", MOCK_EMBEDDINGS, "POST"},
    {"/v1/messages", MOCK_MESSAGES, "POST"},
    {"/v1/messages/count_tokens", MOCK_COUNT_TOKENS, "POST"},
    {"/v1/models", MOCK_MODELS, "GET"},
    {"/token", MOCK_TOKEN, "POST"},
};

/* ".../models/M:generateContent", whatever stands before it: the Gemini API and Vertex AI differ
 * there. The model is what is between. So it is with Anthropic's models on Vertex AI. */
static bool set_method(struct mock_ask *ask, struct slice path)
{
    static const struct {
        const char *method;
        enum mock_api api;
        enum mock_endpoint endpoint;
        bool stream;
    } methods[] = {
        {":generateContent", MOCK_GEMINI, MOCK_GENERATE, false},
        {":streamGenerateContent", MOCK_GEMINI, MOCK_GENERATE, true},
        {":countTokens", MOCK_GEMINI, MOCK_COUNT_TOKENS, false},
        {"/count-tokens:rawPredict", MOCK_ANTHROPIC, MOCK_COUNT_TOKENS, false},
        {":rawPredict", MOCK_ANTHROPIC, MOCK_MESSAGES, false},
        {":streamRawPredict", MOCK_ANTHROPIC, MOCK_MESSAGES, true},
    };
    size_t from = path.n;

    while (from > 0 && path.at[from - 1] != '/')
        from--;
    if (from < 8 || memcmp(path.at + from - 8, "/models/", 8) != 0)
        return false;
    struct slice last = {path.at + from, path.n - from};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        size_t n = strlen(methods[i].method);
        bool whole = methods[i].method[0] == '/';
        if (whole ? last.n + 1 != n || memcmp(last.at - 1, methods[i].method, n) != 0
                  : last.n <= n || last.n - n > MOCK_NAME_MAX ||
                        memcmp(last.at + last.n - n, methods[i].method, n) != 0)
            continue;
        ask->api = methods[i].api;
        ask->endpoint = methods[i].endpoint;
        ask->stream = methods[i].stream;
        ask->vertex = methods[i].api == MOCK_ANTHROPIC;
        if (!whole)
            snprintf(ask->model, sizeof ask->model, "%.*s", (int)(last.n - n), last.at);
        return true;
    }
    return false;
}

static void set_endpoint(struct mock_ask *ask, struct slice method, struct slice path)
{
    static const char models[] = "/v1/models/";

    /* Bedrock has them below a name, Azure OpenAI too. */
    for (size_t i = 0; i < 2; i++) {
        struct slice below = i == 0 ? SLICE("/anthropic") : SLICE("/openai");
        if (path.n > below.n && memcmp(path.at, below.at, below.n) == 0 && path.at[below.n] == '/')
            path = (struct slice){path.at + below.n, path.n - below.n};
    }
    if (set_method(ask, path)) {
        ask->method_ok = slice_equal(method, SLICE("POST"));
        return;
    }

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (!slice_equal(path, slice_of(paths[i].path)))
            continue;
        ask->endpoint = paths[i].endpoint;
        ask->method_ok = slice_equal(method, slice_of(paths[i].method));
    }
    if (path.n >= sizeof models && memcmp(path.at, models, sizeof models - 1) == 0) {
        ask->endpoint = MOCK_MODEL;
        ask->method_ok = slice_equal(method, SLICE("GET"));
        snprintf(ask->model, sizeof ask->model, "%.*s", (int)(path.n - (sizeof models - 1)),
                 path.at + sizeof models - 1);
    }
}

/* "?alt=sse", maybe among others. */
static bool has_sse(struct slice target, const char *query)
{
    static const char sse[] = "alt=sse";

    for (const char *at = query + 1; at + sizeof sse - 1 <= target.at + target.n; at++)
        if (memcmp(at, sse, sizeof sse - 1) == 0 && (at[-1] == '?' || at[-1] == '&'))
            return true;
    return false;
}

void mock_ask_head(struct mock_ask *ask, const struct http_head *head)
{
    const char *query = memchr(head->target.at, '?', head->target.n);
    struct slice path = head->target;

    if (query != NULL)
        path.n = (size_t)(query - head->target.at);
    *ask = (struct mock_ask){.max_tokens = -1, .choices = 1, .dimensions = DIMENSIONS};
    set_endpoint(ask, head->method, path);
    if (ask->api == MOCK_GEMINI)
        ask->in_array = ask->stream && (query == NULL || !has_sse(head->target, query));
    else if (ask->endpoint == MOCK_MESSAGES || ask->endpoint == MOCK_COUNT_TOKENS ||
             http_find(head, SLICE("anthropic-version")).at != NULL)
        ask->api = MOCK_ANTHROPIC;
}

/* ---- Body ------------------------------------------------------------------------------------ */

struct walk {
    struct mock_ask *ask;
    struct json_reader *reader;
    const char *problem;
};

static void copy_name(struct json_text from, char to[MOCK_NAME_MAX + 1])
{
    snprintf(to, MOCK_NAME_MAX + 1, "%.*s", (int)from.size, from.bytes);
}

static bool is_payload(struct json_text key, struct json_text value)
{
    return json_text_is(key, "data") || json_text_is(key, "file_data") ||
           (value.size > 5 && memcmp(value.bytes, "data:", 5) == 0);
}

static void add_tool(struct mock_ask *ask, struct json_text name)
{
    /* One that the call names was found before, or will take the place of all. */
    if (!ask->named && ask->n_tools < MOCK_TOOLS_MAX)
        copy_name(name, ask->tools[ask->n_tools++]);
}

/* Below it, a name is not a tool's. */
static bool is_schema(struct json_text key)
{
    return json_text_is(key, "parameters") || json_text_is(key, "input_schema") ||
           json_text_is(key, "parametersJsonSchema");
}

/* Adds up the text in a value, whatever its shape. */
static void count_text(struct walk *walk, bool tools, struct json_text key,
                       const struct json_value *value)
{
    struct mock_ask *ask = walk->ask;
    struct json_text name;
    struct json_value child;

    if (value->kind == JSON_STRING && !is_payload(key, value->string)) {
        ask->prompt_bytes += (int64_t)value->string.size;
        if (tools && json_text_is(key, "name"))
            add_tool(ask, value->string);
    }
    if (value->kind == JSON_INTEGER && key.size == 0)
        ask->prompt_bytes += 4; /* a prompt can be given as numbers of tokens */
    if ((value->kind == JSON_OBJECT || value->kind == JSON_ARRAY) && json_enter(walk->reader))
        while (json_next(walk->reader, &name, &child))
            count_text(walk, tools && !is_schema(name), name, &child);
}

/* One text, one list of token numbers, or a list of either. */
static void read_input(struct walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value item;
    bool numbers = false;

    walk->ask->inputs = 0;
    if (value->kind != JSON_ARRAY) {
        count_text(walk, false, (struct json_text){NULL, 0}, value);
        walk->ask->inputs = 1;
        return;
    }
    if (!json_enter(walk->reader))
        return;
    while (json_next(walk->reader, &key, &item)) {
        numbers = numbers || item.kind == JSON_INTEGER;
        count_text(walk, false, key, &item);
        walk->ask->inputs++;
    }
    if (numbers)
        walk->ask->inputs = 1;
}

static void mock_ask_read_number(struct walk *walk, const struct json_value *value, int64_t most,
                                 const char *problem, int64_t *number)
{
    if (value->kind == JSON_NULL)
        return;
    if (value->kind != JSON_INTEGER || value->integer < 1 || value->integer > most)
        walk->problem = problem;
    else
        *number = value->integer;
}

/* What a tool_choice of any API says, as far as a reply follows it. */
struct choice {
    struct json_text word; /* itself, its type, or its mode */
    struct json_text name;
    bool allowed; /* some tools are, and the mode says the rest */
};

static void read_choice_member(struct walk *walk, struct json_text key,
                               const struct json_value *value, struct choice *choice)
{
    struct json_text inner;
    struct json_value child;

    if (value->kind == JSON_STRING && (json_text_is(key, "mode") || json_text_is(key, "type"))) {
        choice->allowed |= json_text_is(value->string, "allowed_tools");
        if (json_text_is(key, "mode") || choice->word.size == 0)
            choice->word = value->string;
    } else if (value->kind == JSON_STRING && (json_text_is(key, "name") || key.size == 0)) {
        if (choice->name.size == 0)
            choice->name = value->string;
    } else if (value->kind == JSON_BOOL && json_text_is(key, "disable_parallel_tool_use")) {
        walk->ask->alone = value->boolean;
    } else if ((value->kind == JSON_OBJECT || value->kind == JSON_ARRAY) &&
               json_enter(walk->reader)) {
        while (json_next(walk->reader, &inner, &child))
            read_choice_member(walk, inner, &child, choice);
    }
}

static bool is_forced(struct json_text word, bool named)
{
    return json_text_is(word, "required") || json_text_is(word, "any") ||
           json_text_is(word, "ANY") ||
           (named && (json_text_is(word, "tool") || json_text_is(word, "function") ||
                      json_text_is(word, "custom")));
}

static void read_tool_choice(struct walk *walk, const struct json_value *value)
{
    struct choice choice = {.word = {"", 0}, .name = {"", 0}};
    struct mock_ask *ask = walk->ask;

    if (value->kind == JSON_STRING)
        choice.word = value->string;
    else
        read_choice_member(walk, (struct json_text){"", 0}, value, &choice);
    ask->forbidden = json_text_is(choice.word, "none") || json_text_is(choice.word, "NONE");
    if (!is_forced(choice.word, choice.name.size > 0 && !choice.allowed))
        return;
    ask->forced = true;
    if (choice.name.size > 0 && choice.name.size <= MOCK_NAME_MAX) {
        copy_name(choice.name, ask->tools[0]);
        ask->n_tools = 1;
        ask->named = true;
    }
}

static void read_stream_options(struct walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value option;

    if (value->kind != JSON_OBJECT || !json_enter(walk->reader))
        return;
    while (json_next(walk->reader, &key, &option)) {
        if (json_text_is(key, "include_usage"))
            walk->ask->include_usage = option.kind == JSON_BOOL && option.boolean;
        else if (option.kind == JSON_OBJECT || option.kind == JSON_ARRAY)
            count_text(walk, false, key, &option);
    }
}

/* One, or a list. */
static void read_stops(struct walk *walk, const struct json_value *value)
{
    struct mock_ask *ask = walk->ask;
    struct json_text key;
    struct json_value item = *value;
    bool list = value->kind == JSON_ARRAY && json_enter(walk->reader);

    while (list ? json_next(walk->reader, &key, &item) : item.kind == JSON_STRING) {
        if (item.kind == JSON_STRING && item.string.size <= MOCK_NAME_MAX &&
            ask->n_stops < MOCK_STOPS_MAX)
            copy_name(item.string, ask->stops[ask->n_stops++]);
        if (!list)
            break;
    }
}

static void read_generation(struct walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value option;

    if (value->kind != JSON_OBJECT || !json_enter(walk->reader))
        return;
    while (json_next(walk->reader, &key, &option)) {
        if (json_text_is(key, "maxOutputTokens"))
            mock_ask_read_number(walk, &option, INT64_MAX,
                                 "maxOutputTokens must be a whole number from 1",
                                 &walk->ask->max_tokens);
        else if (json_text_is(key, "candidateCount"))
            mock_ask_read_number(walk, &option, MOCK_CHOICES_MAX,
                                 "candidateCount must be from 1 to 16", &walk->ask->choices);
        else if (json_text_is(key, "stopSequences"))
            read_stops(walk, &option);
        else if (option.kind == JSON_OBJECT || option.kind == JSON_ARRAY)
            count_text(walk, false, key, &option);
    }
}

static void read_model(struct walk *walk, const struct json_value *value)
{
    if (value->kind != JSON_STRING || value->string.size == 0 || value->string.size > MOCK_NAME_MAX)
        walk->problem = "model must be a string of 1 to 128 bytes";
    else
        copy_name(value->string, walk->ask->model);
}

static bool is_prompt(struct json_text key)
{
    static const char *const keys[] = {
        "messages",        "prompt",    "input", "system",   "instructions",      "tools",
        "response_format", "functions", "text",  "contents", "systemInstruction",
    };

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_text_is(key, keys[i]))
            return true;
    return false;
}

static bool is_bound(struct json_text key)
{
    return json_text_is(key, "max_tokens") || json_text_is(key, "max_completion_tokens") ||
           json_text_is(key, "max_output_tokens");
}

static void mock_ask_read_field(struct walk *walk, struct json_text key,
                                const struct json_value *value);

/* What the Gemini API counts; Vertex AI has it one level higher. */
static void read_counted(struct walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value child;

    if (value->kind == JSON_OBJECT && json_enter(walk->reader))
        while (json_next(walk->reader, &key, &child))
            mock_ask_read_field(walk, key, &child);
}

static void mock_ask_read_field(struct walk *walk, struct json_text key,
                                const struct json_value *value)
{
    struct mock_ask *ask = walk->ask;

    if (json_text_is(key, "tool_choice") || json_text_is(key, "toolConfig"))
        read_tool_choice(walk, value);
    else if (json_text_is(key, "parallel_tool_calls"))
        ask->alone = value->kind == JSON_BOOL && !value->boolean;
    else if (ask->api == MOCK_GEMINI && json_text_is(key, "generationConfig"))
        read_generation(walk, value);
    else if (ask->api == MOCK_GEMINI && json_text_is(key, "generateContentRequest"))
        read_counted(walk, value);
    else if (ask->api == MOCK_GEMINI && !is_prompt(key))
        return;
    else if (json_text_is(key, "anthropic_version"))
        ask->version = value->kind == JSON_STRING;
    else if (json_text_is(key, "model") && ask->vertex && ask->endpoint == MOCK_MESSAGES)
        walk->problem = "model: Extra inputs are not permitted";
    else if (json_text_is(key, "model"))
        read_model(walk, value);
    else if (json_text_is(key, "stream"))
        ask->stream = value->kind == JSON_BOOL && value->boolean;
    else if (json_text_is(key, "stream_options"))
        read_stream_options(walk, value);
    else if (is_bound(key))
        mock_ask_read_number(walk, value, INT64_MAX,
                             "a bound of tokens must be a whole number from 1", &ask->max_tokens);
    else if (json_text_is(key, "n"))
        mock_ask_read_number(walk, value, MOCK_CHOICES_MAX, "n must be from 1 to 16",
                             &ask->choices);
    else if (json_text_is(key, "stop") || json_text_is(key, "stop_sequences"))
        read_stops(walk, value);
    else if (json_text_is(key, "dimensions"))
        mock_ask_read_number(walk, value, MOCK_DIMENSIONS_MAX, "dimensions must be from 1 to 4096",
                             &ask->dimensions);
    else if (json_text_is(key, "encoding_format"))
        ask->base64 = value->kind == JSON_STRING && json_text_is(value->string, "base64");
    else if (ask->endpoint == MOCK_EMBEDDINGS && json_text_is(key, "input"))
        read_input(walk, value);
    else if (is_prompt(key))
        count_text(walk, json_text_is(key, "tools"), key, value);
}

static bool may_stream(enum mock_endpoint endpoint)
{
    return endpoint == MOCK_CHAT || endpoint == MOCK_COMPLETIONS || endpoint == MOCK_RESPONSES ||
           endpoint == MOCK_MESSAGES || endpoint == MOCK_GENERATE;
}

const char *mock_ask_body(struct mock_ask *ask, struct json_reader *reader, const char *body,
                          size_t n, size_t readable)
{
    struct walk walk = {ask, reader, NULL};
    struct json_text key;
    struct json_value value;

    json_begin(reader, body, n, readable, &value);
    if (value.kind == JSON_OBJECT && json_enter(reader))
        while (json_next(reader, &key, &value))
            mock_ask_read_field(&walk, key, &value);
    if (!json_end(reader))
        return json_reader_problem(reader)->text;
    if (walk.problem != NULL)
        return walk.problem;
    if (ask->model[0] == '\0')
        return "model is missing";
    if (ask->vertex && !ask->version)
        return "anthropic_version: Field required";
    if (ask->inputs > MOCK_INPUTS_MAX)
        return "input must have 2048 items at most";
    ask->stream = ask->stream && may_stream(ask->endpoint);
    return NULL;
}

int64_t mock_ask_prompt_tokens(const struct mock_ask *ask)
{
    return ask->prompt_bytes > 4 ? (ask->prompt_bytes + 3) / 4 : 1;
}
