/* chat_request_read.c - the body of a chat completion, read into the neutral form.
 *
 * Messages of the role `tool` become results in one user turn. The keys of an object come in any
 * order, so a part or message is put together when its object ends.
 */
#include "server/dialect/neutral/request_walk.h"
#include "server/dialect/openai_chat/openai_chat.h"

/* ---- Parts of a message ---------------------------------------------------------------------- */

struct chat_part {
    struct slice type, text, url, detail, data, format, file_data, file_name, file_id;
    bool cache;
    struct slice ttl;
};

static void read_inner(struct request_walk *walk, struct chat_part *part,
                       const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "messages.content", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        struct slice *to = json_text_is(key, "url")         ? &part->url
                           : json_text_is(key, "detail")    ? &part->detail
                           : json_text_is(key, "data")      ? &part->data
                           : json_text_is(key, "format")    ? &part->format
                           : json_text_is(key, "file_data") ? &part->file_data
                           : json_text_is(key, "filename")  ? &part->file_name
                           : json_text_is(key, "file_id")   ? &part->file_id
                           : json_text_is(key, "ttl")       ? &part->ttl
                                                            : NULL;
        if (to != NULL)
            *to = body_text(walk, "messages.content", &inner);
    }
}

static void add_audio(struct request_walk *walk, struct neutral_part *part,
                      const struct chat_part *from)
{
    bool mp3 = slice_equal(from->format, SLICE("mp3"));

    (void)walk;
    part->media = MEDIA_AUDIO;
    part->source = SOURCE_INLINE;
    part->text = from->data;
    part->mime = mp3 ? SLICE("audio/mpeg") : SLICE("audio/wav");
}

static void add_file(struct request_walk *walk, struct neutral_part *part,
                     const struct chat_part *from)
{
    part->media = MEDIA_DOCUMENT;
    part->name = from->file_name;
    if (from->file_id.n > 0) {
        part->source = SOURCE_STORED;
        part->text = from->file_id;
        body_foreign(walk, FIELD_STORED_FILE);
        return;
    }
    body_address(walk, part, from->file_data);
    if (part->source == SOURCE_URL)
        body_fail(walk, "file_data", "'file_data' must be a 'data:' address.");
}

static void add_part(struct request_walk *walk, const struct chat_part *from)
{
    bool text = slice_equal(from->type, SLICE("text"));
    bool refusal = slice_equal(from->type, SLICE("refusal"));
    bool image = slice_equal(from->type, SLICE("image_url"));
    bool audio = slice_equal(from->type, SLICE("input_audio"));
    bool file = slice_equal(from->type, SLICE("file"));

    if (!text && !refusal && !image && !audio && !file) {
        body_foreign(walk, FIELD_HOSTED_PART);
        return;
    }
    struct neutral_part *part = body_part(walk, text      ? PART_TEXT
                                                : refusal ? PART_REFUSAL
                                                          : PART_MEDIA);
    if (part == NULL)
        return;
    part->text = from->text;
    part->cache = from->cache;
    part->ttl = from->ttl;
    if (image) {
        part->detail = from->detail;
        body_address(walk, part, from->url);
    } else if (audio) {
        add_audio(walk, part, from);
    } else if (file) {
        add_file(walk, part, from);
    }
}

static void read_part(struct request_walk *walk, const struct json_value *value)
{
    struct chat_part part = {.cache = false};
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "messages.content", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "type")) {
            part.type = body_text(walk, "messages.content.type", &inner);
        } else if (json_text_is(key, "text") || json_text_is(key, "refusal")) {
            part.text = body_text(walk, "messages.content.text", &inner);
        } else if (json_text_is(key, "image_url") || json_text_is(key, "input_audio") ||
                   json_text_is(key, "file")) {
            read_inner(walk, &part, &inner);
        } else if (json_text_is(key, "prompt_cache_breakpoint")) {
            part.cache = true;
            read_inner(walk, &part, &inner);
        }
    }
    add_part(walk, &part);
}

static void read_content(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value item;

    if (value->kind == JSON_STRING) {
        struct neutral_part *part = body_part(walk, PART_TEXT);
        if (part != NULL)
            part->text = body_text(walk, "messages.content", value);
    } else if (body_enter(walk, "messages.content", value, JSON_ARRAY)) {
        while (body_next(walk, &key, &item))
            read_part(walk, &item);
    }
}

/* ---- Tool calls ------------------------------------------------------------------------------ */

struct chat_call {
    struct slice id, name, arguments;
    bool custom;
};

/* {"name", "arguments"} or {"name", "input"} */
static void read_function(struct request_walk *walk, struct chat_call *call,
                          const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "messages.tool_calls", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "name"))
            call->name = body_text(walk, "messages.tool_calls.function.name", &inner);
        else if (json_text_is(key, "arguments") || json_text_is(key, "input"))
            call->arguments = body_text(walk, "messages.tool_calls.function.arguments", &inner);
    }
}

static void add_call(struct request_walk *walk, const struct chat_call *call)
{
    struct neutral_part *part = body_part(walk, PART_CALL);

    if (part == NULL)
        return;
    part->name = call->name;
    part->text = call->arguments;
    part->free = call->custom;
    body_call_id(walk, part, call->id);
}

static void read_calls(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value item, inner;

    if (!body_enter(walk, "messages.tool_calls", value, JSON_ARRAY))
        return;
    while (body_next(walk, &key, &item)) {
        struct chat_call call = {.custom = false};
        if (!body_enter(walk, "messages.tool_calls", &item, JSON_OBJECT))
            return;
        while (body_next(walk, &key, &inner)) {
            if (json_text_is(key, "id")) {
                call.id = body_text(walk, "messages.tool_calls.id", &inner);
            } else if (json_text_is(key, "function") || json_text_is(key, "custom")) {
                call.custom = json_text_is(key, "custom");
                read_function(walk, &call, &inner);
            }
        }
        add_call(walk, &call);
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

struct chat_message {
    struct slice role, call_id, name, refusal, reasoning;
};

/* Results in a row are one user turn. */
static bool follows_results(const struct neutral_request *request)
{
    if (request->n_turns == 0)
        return false;
    const struct neutral_turn *turn = &request->turns[request->n_turns - 1];
    return turn->role == ROLE_USER && turn->end > turn->first &&
           request->parts[turn->first].kind == PART_RESULT;
}

static void end_message(struct request_walk *walk, const struct chat_message *message, size_t first)
{
    struct neutral_request *request = walk->request;
    bool tool =
        slice_equal(message->role, SLICE("tool")) || slice_equal(message->role, SLICE("function"));
    bool model = slice_equal(message->role, SLICE("assistant"));
    bool developer = slice_equal(message->role, SLICE("developer"));
    bool system = developer || slice_equal(message->role, SLICE("system"));

    if (!tool && !model && !system && !slice_equal(message->role, SLICE("user"))) {
        body_fail(walk, "messages.role", "'messages.role' has a value that is not known.");
        return;
    }
    if (message->refusal.n > 0) {
        struct neutral_part *part = body_part(walk, PART_REFUSAL);
        if (part != NULL)
            part->text = message->refusal;
    }
    if (message->reasoning.n > 0 && model) {
        struct neutral_part *part = body_part_before(walk, first, PART_REASONING);
        if (part != NULL) {
            part->inner = 0;
            part->text = message->reasoning;
        }
    }
    if (tool) {
        struct neutral_part *part = body_part_before(walk, first, PART_RESULT);
        if (part != NULL)
            body_call_id(walk, part, message->call_id.n > 0 ? message->call_id : message->name);
    }
    if (walk->failed)
        return;
    if (tool && follows_results(request)) {
        request->turns[request->n_turns - 1].end = request->n_parts;
        return;
    }
    struct neutral_turn *turn = body_turn(walk, model    ? ROLE_MODEL
                                                : system ? ROLE_INSTRUCTION
                                                         : ROLE_USER);
    if (turn != NULL) {
        turn->developer = developer;
        turn->first = first;
    }
}

static void read_message(struct request_walk *walk, const struct json_value *value)
{
    struct chat_message message = {.role = {"", 0}};
    size_t first = walk->request->n_parts;
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "messages", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "role")) {
            message.role = body_text(walk, "messages.role", &inner);
        } else if (json_text_is(key, "content")) {
            read_content(walk, &inner);
        } else if (json_text_is(key, "tool_calls")) {
            read_calls(walk, &inner);
        } else if (json_text_is(key, "function_call")) {
            struct chat_call call = {.custom = false};
            read_function(walk, &call, &inner);
            call.id = call.name; /* a legacy result names the function alone */
            add_call(walk, &call);
        } else if (json_text_is(key, "tool_call_id")) {
            message.call_id = body_text(walk, "messages.tool_call_id", &inner);
        } else if (json_text_is(key, "name")) {
            message.name = body_text(walk, "messages.name", &inner);
            body_foreign(walk, FIELD_MESSAGE_NAME);
        } else if (json_text_is(key, "refusal")) {
            message.refusal = body_text(walk, "messages.refusal", &inner);
        } else if (json_text_is(key, "reasoning_content") || json_text_is(key, "reasoning")) {
            message.reasoning = body_text(walk, "messages.reasoning_content", &inner);
        } else if (json_text_is(key, "audio")) {
            body_foreign(walk, FIELD_STORED_AUDIO);
        }
    }
    end_message(walk, &message, first);
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* {"type": "grammar", "grammar": {"syntax", "definition"}} */
static void read_grammar(struct request_walk *walk, struct neutral_tool *tool,
                         const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "tools.custom.format", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "grammar"))
            read_grammar(walk, tool, &inner);
        else if (json_text_is(key, "syntax"))
            tool->syntax = body_text(walk, "tools.custom.format.syntax", &inner);
        else if (json_text_is(key, "definition"))
            tool->grammar = body_text(walk, "tools.custom.format.definition", &inner);
    }
}

static void read_tool_fields(struct request_walk *walk, struct neutral_tool *tool,
                             const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "tools", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "name"))
            tool->name = body_text(walk, "tools.function.name", &inner);
        else if (json_text_is(key, "description"))
            tool->description = body_text(walk, "tools.function.description", &inner);
        else if (json_text_is(key, "parameters"))
            tool->schema = body_raw(walk, &inner);
        else if (json_text_is(key, "strict"))
            tool->strict = body_tri(walk, "tools.function.strict", &inner);
        else if (json_text_is(key, "format"))
            read_grammar(walk, tool, &inner);
    }
}

static void read_tools(struct request_walk *walk, const struct json_value *value, bool legacy)
{
    struct json_text key;
    struct json_value item, inner;

    if (!body_enter(walk, "tools", value, JSON_ARRAY))
        return;
    while (body_next(walk, &key, &item)) {
        struct neutral_tool *tool = body_tool(walk);
        if (tool == NULL)
            return;
        if (legacy) {
            read_tool_fields(walk, tool, &item);
            continue;
        }
        if (!body_enter(walk, "tools", &item, JSON_OBJECT))
            return;
        bool known = false;
        while (body_next(walk, &key, &inner)) {
            if (json_text_is(key, "function") || json_text_is(key, "custom")) {
                tool->free = json_text_is(key, "custom");
                known = true;
                read_tool_fields(walk, tool, &inner);
            }
        }
        if (!known) {
            body_foreign(walk, FIELD_HOSTED_TOOL);
            walk->request->n_tools--;
        } else if (tool->name.n == 0) {
            body_fail(walk, "tools.function.name", "A tool must have a name.");
        }
    }
}

/* The names in tool_choice: {"function": {"name"}}, or {"allowed_tools": {"mode", "tools": [...]}}.
 * All names below it count, wherever they stand. */
static void read_choice_names(struct request_walk *walk, const struct json_value *value, bool *all)
{
    struct json_text key;
    struct json_value inner;

    if ((value->kind != JSON_OBJECT && value->kind != JSON_ARRAY) || !json_enter(walk->json))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "name"))
            body_name(walk, body_text(walk, "tool_choice", &inner));
        else if (json_text_is(key, "mode"))
            *all = inner.kind == JSON_STRING && json_text_is(inner.string, "required");
        else
            read_choice_names(walk, &inner, all);
    }
}

static void read_choice(struct request_walk *walk, const struct json_value *value)
{
    static const char *const list[] = {"auto", "none", "required", NULL};
    static const enum neutral_choice choices[] = {CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED};
    struct neutral_request *request = walk->request;
    struct json_text key;
    struct json_value inner;
    bool allowed = false, all = false;

    if (value->kind == JSON_STRING) {
        request->choice = choices[body_word(walk, "tool_choice", value, list)];
        return;
    }
    if (!body_enter(walk, "tool_choice", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        allowed |= json_text_is(key, "allowed_tools");
        if (json_text_is(key, "name"))
            body_name(walk, body_text(walk, "tool_choice", &inner));
        else
            read_choice_names(walk, &inner, &all);
    }
    if (request->n_names == 0)
        body_fail(walk, "tool_choice", "'tool_choice' names no tool.");
    request->choice = !allowed ? CHOICE_ONE : all ? CHOICE_ALLOWED_REQUIRED : CHOICE_ALLOWED;
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void read_schema(struct request_walk *walk, const struct json_value *value)
{
    struct neutral_request *request = walk->request;
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "response_format.json_schema", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "name"))
            request->format_name = body_text(walk, "response_format.json_schema.name", &inner);
        else if (json_text_is(key, "description"))
            request->format_description =
                body_text(walk, "response_format.json_schema.description", &inner);
        else if (json_text_is(key, "schema"))
            request->format_schema = body_raw(walk, &inner);
        else if (json_text_is(key, "strict"))
            request->format_strict = body_tri(walk, "response_format.json_schema.strict", &inner);
    }
}

static void read_format(struct request_walk *walk, const struct json_value *value)
{
    static const char *const list[] = {"text", "json_object", "json_schema", NULL};
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "response_format", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "type"))
            walk->request->format =
                (enum neutral_format)body_word(walk, "response_format.type", &inner, list);
        else if (json_text_is(key, "json_schema"))
            read_schema(walk, &inner);
    }
}

static void read_stream_options(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "stream_options", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "include_usage"))
            walk->request->want_usage = body_is_true(walk, "stream_options.include_usage", &inner);
        else
            body_foreign(walk, FIELD_OBFUSCATION);
    }
}

/* ["text"] is the default; anything else makes sounds. */
static void read_modalities(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value item;

    if (!body_enter(walk, "modalities", value, JSON_ARRAY))
        return;
    while (body_next(walk, &key, &item))
        if (item.kind != JSON_STRING || !json_text_is(item.string, "text"))
            body_foreign(walk, FIELD_MODALITIES);
}

static void read_messages(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value item;

    if (body_enter(walk, "messages", value, JSON_ARRAY))
        while (body_next(walk, &key, &item))
            read_message(walk, &item);
}

/* Sampling and bounds. False: another key. */
static bool read_number_key(struct request_walk *walk, struct json_text key,
                            const struct json_value *value, bool *newer_bound)
{
    struct neutral_request *request = walk->request;

    if (json_text_is(key, "temperature")) {
        request->temperature = body_real(walk, "temperature", value, 0, 2);
    } else if (json_text_is(key, "top_p")) {
        request->top_p = body_real(walk, "top_p", value, 0, 1);
    } else if (json_text_is(key, "presence_penalty")) {
        request->presence = body_real(walk, "presence_penalty", value, -2, 2);
    } else if (json_text_is(key, "frequency_penalty")) {
        request->frequency = body_real(walk, "frequency_penalty", value, -2, 2);
    } else if (json_text_is(key, "max_completion_tokens")) {
        request->bound = body_integer(walk, "max_completion_tokens", value, 0, INT32_MAX);
        *newer_bound = true;
    } else if (json_text_is(key, "max_tokens")) {
        int64_t bound = body_integer(walk, "max_tokens", value, 0, INT32_MAX);
        if (!*newer_bound)
            request->bound = bound;
    } else if (json_text_is(key, "seed")) {
        request->seed = body_integer(walk, "seed", value, INT64_MIN + 1, INT64_MAX);
        request->has_seed = true;
    } else if (json_text_is(key, "n")) {
        request->n = body_integer(walk, "n", value, 1, 128);
    } else if (json_text_is(key, "top_logprobs")) {
        request->top_logprobs = body_integer(walk, "top_logprobs", value, 0, 20);
    } else {
        return false;
    }
    return true;
}

/* What the service shall do with the call. False: another key. */
static bool read_service_key(struct request_walk *walk, struct json_text key,
                             const struct json_value *value)
{
    struct neutral_request *request = walk->request;

    if (json_text_is(key, "safety_identifier")) {
        request->user = body_text(walk, "safety_identifier", value);
    } else if (json_text_is(key, "user")) {
        struct slice user = body_text(walk, "user", value);
        if (request->user.n == 0)
            request->user = user;
    } else if (json_text_is(key, "metadata")) {
        request->metadata = body_raw(walk, value);
    } else if (json_text_is(key, "prompt_cache_key")) {
        request->cache_key = body_text(walk, "prompt_cache_key", value);
    } else if (json_text_is(key, "prompt_cache_options") ||
               json_text_is(key, "prompt_cache_retention")) {
        body_foreign(walk, FIELD_CACHE);
    } else if (json_text_is(key, "store")) {
        request->store = body_tri(walk, "store", value);
    } else if (json_text_is(key, "service_tier")) {
        request->tier = neutral_tier_of(body_text(walk, "service_tier", value));
    } else if (json_text_is(key, "stream")) {
        request->stream = body_is_true(walk, "stream", value);
    } else if (json_text_is(key, "stream_options")) {
        read_stream_options(walk, value);
    } else {
        return false;
    }
    return true;
}

/* What no other dialect knows. False: another key. */
static bool read_foreign_key(struct request_walk *walk, struct json_text key,
                             const struct json_value *value)
{
    static const struct {
        const char *key;
        enum neutral_field field;
    } fields[] = {
        {"logit_bias", FIELD_LOGIT_BIAS},
        {"prediction", FIELD_PREDICTION},
        {"web_search_options", FIELD_SEARCH_OPTIONS},
        {"moderation", FIELD_MODERATION},
    };

    if (json_text_is(key, "modalities")) {
        read_modalities(walk, value);
        return true;
    }
    if (json_text_is(key, "audio")) /* the voice; `modalities` says whether it speaks */
        return true;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (json_text_is(key, fields[i].key)) {
            body_foreign(walk, fields[i].field);
            return true;
        }
    return false;
}

static void read_key(struct request_walk *walk, struct json_text key,
                     const struct json_value *value, bool *newer_bound)
{
    struct neutral_request *request = walk->request;

    if (json_text_is(key, "model")) {
        request->model = body_text(walk, "model", value);
    } else if (json_text_is(key, "messages")) {
        read_messages(walk, value);
    } else if (json_text_is(key, "tools") || json_text_is(key, "functions")) {
        request->legacy_functions |= json_text_is(key, "functions");
        read_tools(walk, value, json_text_is(key, "functions"));
    } else if (json_text_is(key, "tool_choice") || json_text_is(key, "function_call")) {
        read_choice(walk, value);
    } else if (json_text_is(key, "parallel_tool_calls")) {
        request->parallel = body_tri(walk, "parallel_tool_calls", value);
    } else if (json_text_is(key, "response_format")) {
        read_format(walk, value);
    } else if (json_text_is(key, "stop")) {
        body_stops(walk, "stop", value);
    } else if (json_text_is(key, "logprobs")) {
        request->logprobs = body_tri(walk, "logprobs", value);
    } else if (json_text_is(key, "reasoning_effort")) {
        request->effort = neutral_effort_of(body_text(walk, "reasoning_effort", value));
    } else if (json_text_is(key, "verbosity")) {
        request->verbosity = body_text(walk, "verbosity", value);
    } else if (!read_number_key(walk, key, value, newer_bound) &&
               !read_service_key(walk, key, value) && !read_foreign_key(walk, key, value)) {
        body_unknown(walk, key, value);
    }
}

bool chat_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                       struct neutral_request *request, struct ask_problem *problem)
{
    struct request_walk walk;
    struct json_text key;
    struct json_value value;
    bool newer_bound = false;

    if (body_begin(&walk, json, DIALECT_CHAT, body, n, readable, request, problem))
        while (body_next(&walk, &key, &value))
            read_key(&walk, key, &value, &newer_bound);
    if (!body_end(&walk))
        return false;
    if (request->n_turns == 0)
        body_fail(&walk, "messages", "'messages' must have a message.");
    return !walk.failed;
}
