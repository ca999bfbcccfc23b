/* mock_script_action.c - what a rule does: one small reader for each key, and the table of them.
 *
 * The table is the one list of actions there is, so that the message about an unknown key can say
 * what is known, and a test can compare it with the documentation.
 */
#include <stdio.h>
#include <string.h>

#include "io/text/json_read.h"
#include "lab/mock/mock_script_internal.h"

static void read_latency(struct script_reading *reading, const struct yaml_node *node,
                         struct mock_action *action)
{
    if (!mock_latency_parse(script_text_of(node), action))
        script_say(
            reading, node,
            "latency must be a duration such as 20ms, exponential(MEAN) or lognormal(MEDIAN, "
            "SIGMA), such as lognormal(20ms, 0.5)");
}

static void read_tokens(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action)
{
    script_read_count(reading, node, MOCK_TOKENS_MAX, &action->tokens);
}

static void read_pace(struct script_reading *reading, const struct yaml_node *node,
                      struct mock_action *action)
{
    if (!script_real(script_text_of(node), 1e6, &action->pace))
        script_say(reading, node, "pace must be tokens a second, from 0 (at once) to 1000000");
}

static void read_tool_call(struct script_reading *reading, const struct yaml_node *node,
                           struct mock_action *action)
{
    const char *text = script_text_of(node);

    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        action->tool_calls = strcmp(text, "true") == 0;
    else if (!script_count(text, MOCK_CALLS_MAX, &action->tool_calls))
        script_say(reading, node, "tool_call must be true, false or a number up to %d",
                   MOCK_CALLS_MAX);
}

static void read_text(struct script_reading *reading, const struct yaml_node *node,
                      struct mock_action *action)
{
    script_read_text(reading, node, &action->text);
}

static void read_arguments(struct script_reading *reading, const struct yaml_node *node,
                           struct mock_action *action)
{
    struct json_reader *json = json_reader_new();
    const char *text = script_text_of(node);
    struct json_value root;

    if (json == NULL || !json_begin(json, text, strlen(text), strlen(text), &root) ||
        root.kind != JSON_OBJECT || !json_end(json))
        script_say(reading, node, "arguments must be the text of a JSON object");
    json_reader_free(json);
    script_read_text(reading, node, &action->arguments);
}

static void read_thinking(struct script_reading *reading, const struct yaml_node *node,
                          struct mock_action *action)
{
    script_read_bool(reading, node, &action->thinking);
}

static void read_refuse(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action)
{
    script_read_bool(reading, node, &action->refuse);
}

static void read_strict(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action)
{
    script_read_bool(reading, node, &action->strict);
}

static void read_status(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action)
{
    int64_t status = 0;

    if (!script_count(script_text_of(node), 599, &status) || status < 200)
        script_say(reading, node, "status must be from 200 to 599");
    action->status = (int)status;
}

static void read_body(struct script_reading *reading, const struct yaml_node *node,
                      struct mock_action *action)
{
    script_read_text(reading, node, &action->body);
}

static void read_content_type(struct script_reading *reading, const struct yaml_node *node,
                              struct mock_action *action)
{
    script_read_text(reading, node, &action->content_type);
}

static void read_error_type(struct script_reading *reading, const struct yaml_node *node,
                            struct mock_action *action)
{
    script_read_text(reading, node, &action->error_type);
}

static void read_error_code(struct script_reading *reading, const struct yaml_node *node,
                            struct mock_action *action)
{
    script_read_text(reading, node, &action->error_code);
}

static void read_message(struct script_reading *reading, const struct yaml_node *node,
                         struct mock_action *action)
{
    script_read_text(reading, node, &action->message);
}

static void read_retry_after_ms(struct script_reading *reading, const struct yaml_node *node,
                                struct mock_action *action)
{
    script_read_count(reading, node, INT64_MAX, &action->retry_after_ms);
}

static void read_retry_after(struct script_reading *reading, const struct yaml_node *node,
                             struct mock_action *action)
{
    script_read_count(reading, node, INT64_MAX, &action->retry_after_s);
}

static void read_retry_after_date(struct script_reading *reading, const struct yaml_node *node,
                                  struct mock_action *action)
{
    script_read_duration(reading, node, &action->retry_after_date_ms);
}

static void read_headers(struct script_reading *reading, const struct yaml_node *node,
                         struct mock_action *action)
{
    struct http_field *fields;

    if (node->kind != YAML_MAP || node->n > MOCK_HEADERS_MAX) {
        script_say(reading, node, "headers must be a map of at most %d names to texts",
                   MOCK_HEADERS_MAX);
        return;
    }
    fields = arena_alloc(reading->script->arena, (node->n + 1) * sizeof *fields);
    if (fields == NULL) {
        script_say(reading, node, "there is no memory");
        return;
    }
    action->headers = fields;
    action->n_headers = 0;
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        const char *value = "";
        const char *name = arena_text(reading->script->arena, child->key->text, child->key->bytes);

        script_read_text(reading, child, &value);
        if (name != NULL && value != NULL)
            fields[action->n_headers++] = (struct http_field){slice_of(name), slice_of(value)};
    }
}

static void read_padding(struct script_reading *reading, const struct yaml_node *node,
                         struct mock_action *action)
{
    int64_t bytes = 0;

    script_read_count(reading, node, MOCK_PADDING_MAX, &bytes);
    action->padding_bytes = (size_t)bytes;
}

static void read_usage(struct script_reading *reading, const struct yaml_node *node,
                       struct mock_action *action)
{
    static const char *const words[] = {"true",     "missing", "null", "zero",
                                        "negative", "absurd",  NULL};

    action->usage = (enum mock_usage)script_read_word(reading, node, words, 0);
}

static void read_cached(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action)
{
    script_read_count(reading, node, MOCK_TOKENS_MAX, &action->cached);
}

static void read_cache_write(struct script_reading *reading, const struct yaml_node *node,
                             struct mock_action *action)
{
    script_read_count(reading, node, MOCK_TOKENS_MAX, &action->cache_write);
}

static void read_reasoning(struct script_reading *reading, const struct yaml_node *node,
                           struct mock_action *action)
{
    script_read_count(reading, node, MOCK_TOKENS_MAX, &action->reasoning);
}

static void read_fault(struct script_reading *reading, const struct yaml_node *node,
                       struct mock_action *action)
{
    static const char *const words[] = {"none",      "hang",  "close",  "reset", "garbage",
                                        "bad_chunk", "error", "failed", NULL};

    action->fault = (enum mock_fault)script_read_word(reading, node, words, 0);
}

static void read_at(struct script_reading *reading, const struct yaml_node *node,
                    struct mock_action *action)
{
    const char *text = script_text_of(node);

    action->at = 0;
    if (strcmp(text, "start") == 0)
        action->place = MOCK_AT_START;
    else if (strcmp(text, "head") == 0)
        action->place = MOCK_AT_EVENT;
    else if (strncmp(text, "event ", 6) == 0 && script_count(text + 6, INT64_MAX, &action->at))
        action->place = MOCK_AT_EVENT;
    else if (strncmp(text, "byte ", 5) == 0 && script_count(text + 5, INT64_MAX, &action->at))
        action->place = MOCK_AT_BYTE;
    else
        script_say(reading, node, "at must be start, head, event N or byte N");
}

static void read_split_size(struct script_reading *reading, const struct yaml_node *node,
                            struct mock_action *action)
{
    int64_t size;

    if (action->n_split == MOCK_SPLITS_MAX || !script_count(script_text_of(node), 1 << 20, &size) ||
        size == 0)
        script_say(reading, node, "split must be a size from 1 to 1048576, or a list of at most %d",
                   MOCK_SPLITS_MAX);
    else
        action->split[action->n_split++] = (size_t)size;
}

static void read_split(struct script_reading *reading, const struct yaml_node *node,
                       struct mock_action *action)
{
    action->n_split = 0;
    if (node->kind != YAML_LIST)
        read_split_size(reading, node, action);
    else
        for (const struct yaml_node *child = node->first; child != NULL; child = child->next)
            read_split_size(reading, child, action);
}

static void read_split_wait(struct script_reading *reading, const struct yaml_node *node,
                            struct mock_action *action)
{
    script_read_duration(reading, node, &action->split_wait_ms);
}

static void read_read_pause(struct script_reading *reading, const struct yaml_node *node,
                            struct mock_action *action)
{
    script_read_duration(reading, node, &action->read_pause_ms);
}

static void read_early(struct script_reading *reading, const struct yaml_node *node,
                       struct mock_action *action)
{
    script_read_bool(reading, node, &action->early);
}

static const struct action_key {
    const char *name;
    void (*read)(struct script_reading *, const struct yaml_node *, struct mock_action *);
} action_keys[] = {
    {"latency", read_latency},
    {"tokens", read_tokens},
    {"pace", read_pace},
    {"text", read_text},
    {"tool_call", read_tool_call},
    {"arguments", read_arguments},
    {"thinking", read_thinking},
    {"refuse", read_refuse},
    {"strict", read_strict},
    {"status", read_status},
    {"body", read_body},
    {"content_type", read_content_type},
    {"error_type", read_error_type},
    {"error_code", read_error_code},
    {"message", read_message},
    {"retry_after_ms", read_retry_after_ms},
    {"retry_after", read_retry_after},
    {"retry_after_date", read_retry_after_date},
    {"headers", read_headers},
    {"header_padding", read_padding},
    {"usage", read_usage},
    {"cached", read_cached},
    {"cache_write", read_cache_write},
    {"reasoning", read_reasoning},
    {"fault", read_fault},
    {"at", read_at},
    {"split", read_split},
    {"split_wait", read_split_wait},
    {"read_pause", read_read_pause},
    {"early", read_early},
};

#define N_ACTION_KEYS (sizeof action_keys / sizeof action_keys[0])

static void unknown_action(struct script_reading *reading, const struct yaml_node *key)
{
    char all[384];
    size_t n = 0;

    for (size_t i = 0; i < N_ACTION_KEYS && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i > 0 ? ", " : "",
                              action_keys[i].name);
    script_say(reading, key, "'%s' is not an action; there are %s", key->text, all);
}

/* What cannot come together. A fault inside a reply needs one; before one, there is none. */
static void check_action(struct script_reading *reading, const struct yaml_node *node,
                         const struct mock_action *action)
{
    bool in_stream = action->fault == MOCK_ERROR || action->fault == MOCK_FAILED ||
                     action->fault == MOCK_BAD_CHUNK;

    if (in_stream && action->place == MOCK_AT_START)
        script_say(reading, node,
                   "this fault stands inside a stream: it needs at: head, event N or byte N");
    if (action->fault == MOCK_NO_FAULT && action->place != MOCK_AT_START)
        script_say(reading, node, "at needs a fault");
}

void script_read_action(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action)
{
    if (node->kind != YAML_MAP) {
        script_say(reading, node, "%s must be a map of actions", node->key->text);
        return;
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t i = 0;

        while (i < N_ACTION_KEYS && strcmp(action_keys[i].name, child->key->text) != 0)
            i++;
        if (i < N_ACTION_KEYS)
            action_keys[i].read(reading, child, action);
        else
            unknown_action(reading, child->key);
    }
    check_action(reading, node, action);
}
