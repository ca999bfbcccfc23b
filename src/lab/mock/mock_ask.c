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
};

static void set_endpoint(struct mock_ask *ask, struct slice method, struct slice path)
{
    static const char models[] = "/v1/models/";

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

void mock_ask_head(struct mock_ask *ask, const struct http_head *head)
{
    const char *query = memchr(head->target.at, '?', head->target.n);
    struct slice path = head->target;

    if (query != NULL)
        path.n = (size_t)(query - head->target.at);
    *ask = (struct mock_ask){.max_tokens = -1, .choices = 1, .dimensions = DIMENSIONS};
    set_endpoint(ask, head->method, path);
    if (ask->endpoint == MOCK_MESSAGES || ask->endpoint == MOCK_COUNT_TOKENS ||
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

/* Adds up the text in a value, whatever its shape. */
static void count_text(struct walk *walk, bool tools, struct json_text key,
                       const struct json_value *value)
{
    struct mock_ask *ask = walk->ask;
    struct json_text name;
    struct json_value child;

    if (value->kind == JSON_STRING && !is_payload(key, value->string)) {
        ask->prompt_bytes += (int64_t)value->string.size;
        if (tools && ask->tool[0] == '\0' && json_text_is(key, "name"))
            copy_name(value->string, ask->tool);
    }
    if (value->kind == JSON_INTEGER && key.size == 0)
        ask->prompt_bytes += 4; /* a prompt can be given as numbers of tokens */
    if ((value->kind == JSON_OBJECT || value->kind == JSON_ARRAY) && json_enter(walk->reader))
        while (json_next(walk->reader, &name, &child))
            count_text(walk, tools, name, &child);
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

static void read_model(struct walk *walk, const struct json_value *value)
{
    if (value->kind != JSON_STRING || value->string.size == 0 || value->string.size > MOCK_NAME_MAX)
        walk->problem = "model must be a string of 1 to 128 bytes";
    else
        copy_name(value->string, walk->ask->model);
}

static bool is_prompt(struct json_text key)
{
    static const char *const keys[] = {"messages",        "prompt",       "input",
                                       "system",          "instructions", "tools",
                                       "response_format", "functions",    "text"};

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
                                const struct json_value *value)
{
    struct mock_ask *ask = walk->ask;

    if (json_text_is(key, "model"))
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
           endpoint == MOCK_MESSAGES;
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
    if (ask->inputs > MOCK_INPUTS_MAX)
        return "input must have 2048 items at most";
    ask->stream = ask->stream && may_stream(ask->endpoint);
    return NULL;
}

int64_t mock_ask_prompt_tokens(const struct mock_ask *ask)
{
    return ask->prompt_bytes > 4 ? (ask->prompt_bytes + 3) / 4 : 1;
}
