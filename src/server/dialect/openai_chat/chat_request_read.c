/* chat_request_read.c - the body of a chat completion, read into the neutral form.
 *
 * Messages of the role `tool` become results in one user turn. The keys of an object come in any
 * order, so a part or message is put together when its object ends.
 */
#include "server/dialect/neutral/request_object.h"
#include "server/dialect/openai_chat/openai_chat.h"

/* ---- Parts of a message ---------------------------------------------------------------------- */

struct chat_part {
    struct slice type, text, url, detail, data, format, file_data, file_name, file_id;
    bool cache;
    struct slice ttl;
};

#define PART(member) offsetof(struct chat_part, member)

/* The members of image_url, input_audio, file and prompt_cache_breakpoint. */
static const struct body_field inner_fields[] = {
    {KEY("url"), BODY_TEXT, .at = PART(url)},
    {KEY("detail"), BODY_TEXT, .at = PART(detail)},
    {KEY("data"), BODY_TEXT, .at = PART(data)},
    {KEY("format"), BODY_TEXT, .at = PART(format)},
    {KEY("file_data"), BODY_TEXT, .at = PART(file_data)},
    {KEY("filename"), BODY_TEXT, .at = PART(file_name)},
    {KEY("file_id"), BODY_TEXT, .at = PART(file_id)},
    {KEY("ttl"), BODY_TEXT, .at = PART(ttl)},
    {.form = BODY_PASSED},
};

static void read_inner(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_object(walk, "messages.content", value, inner_fields, into);
}

static void read_breakpoint(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_part *part = into;

    part->cache = true;
    read_inner(walk, value, into);
}

static const struct body_field part_fields[] = {
    {KEY("type"), BODY_TEXT, .at = PART(type)},
    {KEY("text"), BODY_TEXT, .at = PART(text)},
    {KEY("refusal"), BODY_TEXT, .at = PART(text)},
    {KEY("image_url"), BODY_READ, .read = read_inner},
    {KEY("input_audio"), BODY_READ, .read = read_inner},
    {KEY("file"), BODY_READ, .read = read_inner},
    {KEY("prompt_cache_breakpoint"), BODY_READ, .read = read_breakpoint},
    {.form = BODY_PASSED},
};

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

static void add_part(struct request_walk *walk, const struct chat_part *from,
                     const struct json_value *value)
{
    bool text = slice_equal(from->type, SLICE("text"));
    bool refusal = slice_equal(from->type, SLICE("refusal"));
    bool image = slice_equal(from->type, SLICE("image_url"));
    bool audio = slice_equal(from->type, SLICE("input_audio"));
    bool file = slice_equal(from->type, SLICE("file"));

    struct neutral_part *part = body_part(walk, text                     ? PART_TEXT
                                                : refusal                ? PART_REFUSAL
                                                : image || audio || file ? PART_MEDIA
                                                                         : PART_FOREIGN);
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
    } else if (part->kind == PART_FOREIGN) {
        part->text = body_since(walk, value);
        body_foreign(walk, FIELD_HOSTED_PART);
    }
}

static void read_part(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_part part = {.cache = false};

    (void)into;
    body_object(walk, "messages.content", value, part_fields, &part);
    add_part(walk, &part, value);
}

/* Beside calls of tools, an empty text says as much as none. */
static void read_content(struct request_walk *walk, const struct json_value *value, void *into)
{
    if (value->kind != JSON_STRING || value->string.size > 0)
        body_content(walk, "messages.content", value, read_part, into);
}

/* ---- Tool calls ------------------------------------------------------------------------------ */

struct chat_call {
    struct slice id, name, arguments;
    bool custom;
};

#define CALL(member) offsetof(struct chat_call, member)

static const struct body_field function_fields[] = {
    {KEY("name"), BODY_TEXT, .at = CALL(name)},
    {KEY("arguments"), BODY_TEXT, .at = CALL(arguments)},
    {KEY("input"), BODY_TEXT, .at = CALL(arguments)},
    {.form = BODY_PASSED},
};

static void read_function(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_object(walk, "messages.tool_calls.function", value, function_fields, into);
}

static void read_custom(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_call *call = into;

    call->custom = true;
    read_function(walk, value, into);
}

static const struct body_field call_fields[] = {
    {KEY("id"), BODY_TEXT, .at = CALL(id)},
    {KEY("function"), BODY_READ, .read = read_function},
    {KEY("custom"), BODY_READ, .read = read_custom},
    {.form = BODY_PASSED},
};

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

static void read_call(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_call call = {.custom = false};

    (void)into;
    body_object(walk, "messages.tool_calls", value, call_fields, &call);
    add_call(walk, &call);
}

/* A legacy result names the function alone, so the name is the id. */
static void read_legacy_call(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_call call = {.custom = false};

    (void)into;
    read_function(walk, value, &call);
    call.id = call.name;
    add_call(walk, &call);
}

/* ---- Messages -------------------------------------------------------------------------------- */

struct chat_message {
    struct slice role, call_id, name, refusal, reasoning;
};

static void end_message(struct request_walk *walk, const struct chat_message *message, size_t first)
{
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
    if (tool) {
        body_result_turn(walk, first);
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

#define MESSAGE(member) offsetof(struct chat_message, member)

static void read_name(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_message *message = into;

    message->name = body_text(walk, "messages.name", value);
    body_foreign(walk, FIELD_MESSAGE_NAME);
}

static const struct body_field message_fields[] = {
    {KEY("role"), BODY_TEXT, .at = MESSAGE(role)},
    {KEY("content"), BODY_READ, .read = read_content},
    {KEY("tool_calls"), BODY_LIST, .name = "messages.tool_calls", .read = read_call},
    {KEY("function_call"), BODY_READ, .read = read_legacy_call},
    {KEY("tool_call_id"), BODY_TEXT, .at = MESSAGE(call_id)},
    {KEY("name"), BODY_READ, .read = read_name},
    {KEY("refusal"), BODY_TEXT, .at = MESSAGE(refusal)},
    {KEY("reasoning_content"), BODY_TEXT, .at = MESSAGE(reasoning)},
    {KEY("reasoning"), BODY_TEXT, .at = MESSAGE(reasoning)},
    {KEY("audio"), BODY_FOREIGN, .foreign = FIELD_STORED_AUDIO},
    {.form = BODY_PASSED},
};

static void read_message(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_message message = {.role = {"", 0}};
    size_t first = walk->request->n_parts;

    (void)into;
    body_object(walk, "messages", value, message_fields, &message);
    end_message(walk, &message, first);
}

/* ---- Tools ----------------------------------------------------------------------------------- */

struct chat_tool {
    struct neutral_tool tool;
    bool known;
};

#define TOOL(member) offsetof(struct chat_tool, tool.member)

/* {"type": "grammar", "grammar": {"syntax", "definition"}} */
static void read_grammar(struct request_walk *walk, const struct json_value *value, void *into);

static const struct body_field grammar_fields[] = {
    {KEY("syntax"), BODY_TEXT, .at = TOOL(syntax)},
    {KEY("definition"), BODY_TEXT, .at = TOOL(grammar)},
    {KEY("grammar"), BODY_READ, .read = read_grammar},
    {.form = BODY_PASSED},
};

static void read_grammar(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_object(walk, "tools.custom.format", value, grammar_fields, into);
}

static const struct body_field tool_fields[] = {
    {KEY("name"), BODY_TEXT, .at = TOOL(name)},
    {KEY("description"), BODY_TEXT, .at = TOOL(description)},
    {KEY("parameters"), BODY_RAW, .at = TOOL(schema)},
    {KEY("strict"), BODY_TRI, .at = TOOL(strict)},
    {KEY("format"), BODY_READ, .read = read_grammar},
    {.form = BODY_PASSED},
};

static void read_tool_function(struct request_walk *walk, const struct json_value *value,
                               void *into)
{
    struct chat_tool *tool = into;

    tool->known = true;
    body_object(walk, "tools.function", value, tool_fields, into);
}

static void read_tool_custom(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_tool *tool = into;

    tool->tool.free = true;
    read_tool_function(walk, value, into);
}

static const struct body_field outer_tool_fields[] = {
    {KEY("function"), BODY_READ, .read = read_tool_function},
    {KEY("custom"), BODY_READ, .read = read_tool_custom},
    {.form = BODY_PASSED},
};

static void add_tool(struct request_walk *walk, const struct neutral_tool *from)
{
    struct neutral_tool *tool = body_tool(walk);

    if (tool == NULL)
        return;
    *tool = *from;
    if (tool->name.n == 0)
        body_fail(walk, "tools.function.name", "A tool must have a name.");
}

static void read_tool(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_tool tool = {.known = false};

    (void)into;
    body_object(walk, "tools", value, outer_tool_fields, &tool);
    if (walk->failed)
        return;
    if (tool.known)
        add_tool(walk, &tool.tool);
    else
        body_hosted_tool(walk, value);
}

static void read_legacy_tool(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_tool tool = {.known = true};

    (void)into;
    body_object(walk, "functions", value, tool_fields, &tool);
    if (!walk->failed)
        add_tool(walk, &tool.tool);
}

static void read_legacy_tools(struct request_walk *walk, const struct json_value *value, void *into)
{
    walk->request->legacy_functions = true;
    body_list(walk, "functions", value, read_legacy_tool, into);
}

/* {"function": {"name"}}, or {"allowed_tools": {"mode", "tools": [...]}}. All names below it
 * count, wherever they stand. */
struct chat_choice {
    struct slice mode;
    bool allowed;
};

static void read_choice_object(struct request_walk *walk, const struct json_value *value,
                               void *into);

static void read_choice_name(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    body_name(walk, body_text(walk, "tool_choice", value));
}

static void read_allowed(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct chat_choice *choice = into;

    choice->allowed = true;
    read_choice_object(walk, value, into);
}

static const struct body_field choice_fields[] = {
    {KEY("name"), BODY_READ, .read = read_choice_name},
    {KEY("mode"), BODY_TEXT, .at = offsetof(struct chat_choice, mode)},
    {KEY("function"), BODY_READ, .read = read_choice_object},
    {KEY("custom"), BODY_READ, .read = read_choice_object},
    {KEY("allowed_tools"), BODY_READ, .read = read_allowed},
    {KEY("tools"), BODY_LIST, .name = "tool_choice", .read = read_choice_object},
    {.form = BODY_PASSED},
};

static void read_choice_object(struct request_walk *walk, const struct json_value *value,
                               void *into)
{
    body_object(walk, "tool_choice", value, choice_fields, into);
}

static void read_choice(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct neutral_request *request = walk->request;
    struct chat_choice choice = {.allowed = false};

    (void)into;
    if (value->kind == JSON_STRING) {
        request->choice = body_choice_word(walk, value);
        return;
    }
    read_choice_object(walk, value, &choice);
    if (request->n_names == 0)
        body_fail(walk, "tool_choice", "'tool_choice' names no tool.");
    request->choice = !choice.allowed                               ? CHOICE_ONE
                      : slice_equal(choice.mode, SLICE("required")) ? CHOICE_ALLOWED_REQUIRED
                                                                    : CHOICE_ALLOWED;
}

/* ---- The rest -------------------------------------------------------------------------------- */

#define REQUEST(member) offsetof(struct neutral_request, member)

static const struct body_field schema_fields[] = {
    {KEY("name"), BODY_TEXT, .at = REQUEST(format_name)},
    {KEY("description"), BODY_TEXT, .at = REQUEST(format_description)},
    {KEY("schema"), BODY_RAW, .at = REQUEST(format_schema)},
    {KEY("strict"), BODY_TRI, .at = REQUEST(format_strict)},
    {.form = BODY_PASSED},
};

static void read_format_type(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->format = body_format_type(walk, "response_format.type", value);
}

static const struct body_field format_fields[] = {
    {KEY("type"), BODY_READ, .read = read_format_type},
    {KEY("json_schema"), BODY_OBJECT, .name = "response_format.json_schema",
     .inner = schema_fields},
    {.form = BODY_PASSED},
};

static const struct body_field stream_fields[] = {
    {KEY("include_usage"), BODY_TRUE, .at = REQUEST(want_usage)},
    {.form = BODY_FOREIGN, .foreign = FIELD_OBFUSCATION},
};

/* ["text"] is the default; anything else makes sounds. */
static void read_modality(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    if (value->kind != JSON_STRING || !json_text_is(value->string, "text"))
        body_foreign(walk, FIELD_MODALITIES);
}

static void read_modalities(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_list(walk, "modalities", value, read_modality, into);
    if (!walk->failed)
        body_extra(walk, SLICE("modalities"), body_since(walk, value));
}

/* The voice; `modalities` says whether it speaks. */
static void read_voice(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    body_extra(walk, SLICE("audio"), body_raw(walk, value));
}

/* The newer bound goes before the older, whichever comes first. */
static void read_older_bound(struct request_walk *walk, const struct json_value *value, void *into)
{
    int64_t bound = body_integer(walk, "max_tokens", value, 0, INT32_MAX);

    (void)into;
    if (walk->request->bound < 0)
        walk->request->bound = bound;
}

static void read_seed(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->seed = body_integer(walk, "seed", value, INT64_MIN + 1, INT64_MAX);
    walk->request->has_seed = true;
}

static void read_effort(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->effort = neutral_effort_of(body_text(walk, "reasoning_effort", value));
}

static void read_stop(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    body_stops(walk, "stop", value);
}

static const struct body_field fields[] = {
    {KEY("model"), BODY_TEXT, .at = REQUEST(model)},
    {KEY("messages"), BODY_LIST, .name = "messages", .read = read_message},
    {KEY("tools"), BODY_LIST, .name = "tools", .read = read_tool},
    {KEY("functions"), BODY_READ, .read = read_legacy_tools},
    {KEY("tool_choice"), BODY_READ, .read = read_choice},
    {KEY("function_call"), BODY_READ, .read = read_choice},
    {KEY("parallel_tool_calls"), BODY_TRI, .at = REQUEST(parallel)},
    {KEY("response_format"), BODY_OBJECT, .name = "response_format", .inner = format_fields},
    {KEY("stop"), BODY_READ, .read = read_stop},
    {KEY("temperature"), BODY_REAL, .at = REQUEST(temperature), .most = 2},
    {KEY("top_p"), BODY_REAL, .at = REQUEST(top_p), .most = 1},
    {KEY("presence_penalty"), BODY_REAL, .at = REQUEST(presence), .least = -2, .most = 2},
    {KEY("frequency_penalty"), BODY_REAL, .at = REQUEST(frequency), .least = -2, .most = 2},
    {KEY("max_completion_tokens"), BODY_WHOLE, .at = REQUEST(bound), .most = INT32_MAX},
    {KEY("max_tokens"), BODY_READ, .read = read_older_bound},
    {KEY("seed"), BODY_READ, .read = read_seed},
    {KEY("n"), BODY_WHOLE, .at = REQUEST(n), .least = 1, .most = 128},
    {KEY("logprobs"), BODY_TRI, .at = REQUEST(logprobs)},
    {KEY("top_logprobs"), BODY_WHOLE, .at = REQUEST(top_logprobs), .most = 20},
    {KEY("reasoning_effort"), BODY_READ, .read = read_effort},
    {KEY("verbosity"), BODY_TEXT, .at = REQUEST(verbosity)},
    {KEY("safety_identifier"), BODY_TEXT, .at = REQUEST(user)},
    {KEY("user"), BODY_READ, .read = body_user},
    {KEY("metadata"), BODY_RAW, .at = REQUEST(metadata)},
    {KEY("prompt_cache_key"), BODY_TEXT, .at = REQUEST(cache_key)},
    {KEY("store"), BODY_TRI, .at = REQUEST(store)},
    {KEY("service_tier"), BODY_READ, .read = body_tier},
    {KEY("stream"), BODY_TRUE, .at = REQUEST(stream)},
    {KEY("stream_options"), BODY_OBJECT, .name = "stream_options", .inner = stream_fields},
    {KEY("modalities"), BODY_READ, .read = read_modalities},
    {KEY("audio"), BODY_READ, .read = read_voice},
    {KEY("prompt_cache_options"), BODY_FOREIGN, .foreign = FIELD_CACHE},
    {KEY("prompt_cache_retention"), BODY_FOREIGN, .foreign = FIELD_CACHE},
    {KEY("logit_bias"), BODY_FOREIGN, .foreign = FIELD_LOGIT_BIAS},
    {KEY("prediction"), BODY_FOREIGN, .foreign = FIELD_PREDICTION},
    {KEY("web_search_options"), BODY_FOREIGN, .foreign = FIELD_SEARCH_OPTIONS},
    {KEY("moderation"), BODY_FOREIGN, .foreign = FIELD_MODERATION},
    {.form = BODY_UNKNOWN},
};

bool chat_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                       struct neutral_request *request, struct ask_problem *problem)
{
    struct request_walk walk;

    if (body_begin(&walk, json, DIALECT_CHAT, body, n, readable, request, problem))
        body_members(&walk, "", fields, request);
    if (!body_end(&walk))
        return false;
    if (request->n_turns == 0)
        body_fail(&walk, "messages", "'messages' must have a message.");
    return !walk.failed;
}
