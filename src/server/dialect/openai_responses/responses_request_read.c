/* responses_request_read.c - the body of a response, read into the neutral form.
 *
 * The input is a text or a list of items. Items of the model's that follow each other (messages,
 * calls, reasoning) are one turn, and so are the results of tools that follow each other. The keys
 * of an item come in any order, so it is put together when its object ends.
 *
 * Items, parts and tools that only this API has are kept as the bytes that they are: they go back
 * to a provider of the same dialect, and to no other.
 */
#include "server/dialect/neutral/request_object.h"
#include "server/dialect/openai_responses/openai_responses.h"

/* ---- Parts of a message ---------------------------------------------------------------------- */

struct content_part {
    struct slice type, text, refusal, image_url, detail;
    struct slice file_id, file_data, file_url, file_name;
    struct slice data, format; /* a sound */
    struct slice ttl;
    bool cache;
};

#define PART(member) offsetof(struct content_part, member)

static const struct body_field audio_fields[] = {
    {KEY("data"), BODY_TEXT, .at = PART(data)},
    {KEY("format"), BODY_TEXT, .at = PART(format)},
    {.form = BODY_PASSED},
};

static const struct body_field breakpoint_fields[] = {
    {KEY("ttl"), BODY_TEXT, .at = PART(ttl)},
    {.form = BODY_PASSED},
};

static void read_breakpoint(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct content_part *part = into;

    part->cache = true;
    body_object(walk, "prompt_cache_breakpoint", value, breakpoint_fields, into);
}

static const struct body_field part_fields[] = {
    {KEY("type"), BODY_TEXT, .at = PART(type)},
    {KEY("text"), BODY_TEXT, .at = PART(text)},
    {KEY("refusal"), BODY_TEXT, .at = PART(refusal)},
    {KEY("image_url"), BODY_TEXT, .at = PART(image_url)},
    {KEY("detail"), BODY_TEXT, .at = PART(detail)},
    {KEY("file_id"), BODY_TEXT, .at = PART(file_id)},
    {KEY("file_data"), BODY_TEXT, .at = PART(file_data)},
    {KEY("file_url"), BODY_TEXT, .at = PART(file_url)},
    {KEY("filename"), BODY_TEXT, .at = PART(file_name)},
    {KEY("input_audio"), BODY_OBJECT, .name = "input_audio", .inner = audio_fields},
    {KEY("prompt_cache_breakpoint"), BODY_READ, .read = read_breakpoint},
    {.form = BODY_PASSED},
};

static void set_file(struct request_walk *walk, struct neutral_part *part,
                     const struct content_part *from)
{
    part->media = MEDIA_DOCUMENT;
    part->name = from->file_name;
    body_address(walk, part, from->file_data.n > 0 ? from->file_data : from->file_url);
    if (part->source == SOURCE_URL && from->file_data.n > 0)
        body_fail(walk, "file_data", "'file_data' must be a 'data:' address.");
}

static void set_media(struct request_walk *walk, struct neutral_part *part,
                      const struct content_part *from)
{
    part->detail = from->detail;
    if (slice_equal(from->type, SLICE("input_audio"))) {
        part->media = MEDIA_AUDIO;
        part->source = SOURCE_INLINE;
        part->text = from->data;
        part->mime =
            slice_equal(from->format, SLICE("mp3")) ? SLICE("audio/mpeg") : SLICE("audio/wav");
    } else if (from->file_id.n > 0) {
        bool image = slice_equal(from->type, SLICE("input_image"));
        part->media = image ? MEDIA_IMAGE : MEDIA_DOCUMENT;
        part->source = SOURCE_STORED;
        part->text = from->file_id;
        body_foreign(walk, FIELD_STORED_FILE);
    } else if (slice_equal(from->type, SLICE("input_image"))) {
        part->media = MEDIA_IMAGE;
        body_address(walk, part, from->image_url);
    } else {
        set_file(walk, part, from);
    }
}

static bool is_text_type(struct slice type)
{
    return slice_equal(type, SLICE("input_text")) || slice_equal(type, SLICE("output_text")) ||
           slice_equal(type, SLICE("text")) || slice_equal(type, SLICE("summary_text")) ||
           slice_equal(type, SLICE("reasoning_text"));
}

static void read_part(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct content_part from = {.cache = false};
    enum neutral_kind kind = PART_FOREIGN;

    (void)into;
    body_object(walk, "input.content", value, part_fields, &from);
    if (is_text_type(from.type))
        kind = PART_TEXT;
    else if (slice_equal(from.type, SLICE("refusal")))
        kind = PART_REFUSAL;
    else if (slice_equal(from.type, SLICE("input_image")) ||
             slice_equal(from.type, SLICE("input_file")) ||
             slice_equal(from.type, SLICE("input_audio")))
        kind = PART_MEDIA;
    struct neutral_part *part = body_part(walk, kind);
    if (part == NULL)
        return;
    part->cache = from.cache;
    part->ttl = from.ttl;
    part->text = kind == PART_REFUSAL ? from.refusal : from.text;
    if (kind == PART_MEDIA)
        set_media(walk, part, &from);
    if (kind == PART_FOREIGN) {
        part->text = body_since(walk, value);
        body_foreign(walk, FIELD_HOSTED_PART);
    }
}

static void read_parts(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_content(walk, "input.content", value, read_part, into);
}

/* ---- Items ----------------------------------------------------------------------------------- */

struct item {
    struct slice type, role, id, call_id, name, phase, encrypted;
    struct slice text;    /* arguments or input of a call */
    struct slice summary; /* what reasoning shows of itself */
    const struct json_value *value;
    size_t at; /* the first of the parts that were read with it */
};

#define ITEM(member) offsetof(struct item, member)

/* The texts of the parts from `at` on as one, a paragraph each; the parts are gone then. */
static struct slice join_texts(struct request_walk *walk, size_t at)
{
    struct neutral_request *request = walk->request;
    size_t n = 0, bytes = 0;

    for (size_t i = at; i < request->n_parts; i++)
        bytes += request->parts[i].text.n + 2;
    if (request->n_parts == at)
        return (struct slice){"", 0};
    if (request->n_parts == at + 1) {
        request->n_parts = at;
        return request->parts[at].text;
    }
    char *room = neutral_room(request, bytes);
    if (room == NULL) {
        body_no_memory(walk);
        return (struct slice){"", 0};
    }
    for (size_t i = at; i < request->n_parts; i++) {
        if (n > 0) {
            memcpy(room + n, "\n\n", 2);
            n += 2;
        }
        if (request->parts[i].text.n > 0)
            memcpy(room + n, request->parts[i].text.at, request->parts[i].text.n);
        n += request->parts[i].text.n;
    }
    request->n_parts = at;
    return (struct slice){room, n};
}

static void read_summary(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct item *item = into;
    size_t at = walk->request->n_parts;

    body_list(walk, "input.summary", value, read_part, NULL);
    if (!walk->failed)
        item->summary = join_texts(walk, at);
}

static const struct body_field item_fields[] = {
    {KEY("type"), BODY_TEXT, .at = ITEM(type)},
    {KEY("role"), BODY_TEXT, .at = ITEM(role)},
    {KEY("content"), BODY_READ, .read = read_parts},
    {KEY("call_id"), BODY_TEXT, .at = ITEM(call_id)},
    {KEY("name"), BODY_TEXT, .at = ITEM(name)},
    {KEY("arguments"), BODY_TEXT, .at = ITEM(text)},
    {KEY("input"), BODY_TEXT, .at = ITEM(text)},
    {KEY("output"), BODY_READ, .read = read_parts},
    {KEY("summary"), BODY_READ, .read = read_summary},
    {KEY("encrypted_content"), BODY_TEXT, .at = ITEM(encrypted)},
    {KEY("id"), BODY_TEXT, .at = ITEM(id)},
    {KEY("phase"), BODY_TEXT, .at = ITEM(phase)},
    {.form = BODY_PASSED},
};

/* Ids that we made mean nothing to any provider. */
static struct slice own_id(struct slice id)
{
    struct slice mark = SLICE(RESPONSES_OWN_ID);

    for (size_t i = 0; i + mark.n <= id.n; i++)
        if (memcmp(id.at + i, mark.at, mark.n) == 0)
            return (struct slice){"", 0};
    return id;
}

static void end_message(struct request_walk *walk, const struct item *item)
{
    bool model = slice_equal(item->role, SLICE("assistant"));
    bool developer = slice_equal(item->role, SLICE("developer"));
    bool system = developer || slice_equal(item->role, SLICE("system"));

    if (!model && !system && !slice_equal(item->role, SLICE("user"))) {
        body_fail(walk, "input.role", "'input.role' must be user, assistant, system or developer.");
        return;
    }
    if (model) {
        for (size_t i = item->at; i < walk->request->n_parts; i++) {
            walk->request->parts[i].item_id = own_id(item->id);
            walk->request->parts[i].phase = item->phase;
        }
        body_model_turn(walk, item->at);
        return;
    }
    struct neutral_turn *turn = body_turn(walk, system ? ROLE_INSTRUCTION : ROLE_USER);
    if (turn != NULL) {
        turn->developer = developer;
        turn->first = item->at;
    }
}

static void end_call(struct request_walk *walk, const struct item *item, bool free)
{
    walk->request->n_parts = item->at;
    struct neutral_part *part = body_part(walk, PART_CALL);
    if (part == NULL)
        return;
    part->name = item->name;
    part->text = item->text;
    part->free = free;
    part->item_id = own_id(item->id);
    body_call_id(walk, part, item->call_id);
    body_model_turn(walk, item->at);
}

static void end_result(struct request_walk *walk, const struct item *item)
{
    struct neutral_part *part = body_part_before(walk, item->at, PART_RESULT);

    if (part == NULL)
        return;
    body_call_id(walk, part, item->call_id);
    body_result_turn(walk, item->at);
}

static void end_reasoning(struct request_walk *walk, const struct item *item)
{
    struct slice whole = join_texts(walk, item->at);

    if (walk->failed)
        return;
    struct neutral_part *part = body_part(walk, PART_REASONING);
    if (part == NULL)
        return;
    part->whole = item->summary.n == 0 && whole.n > 0;
    part->text = part->whole ? whole : item->summary;
    part->item_id = own_id(item->id);
    if (item->encrypted.n > 0)
        body_opaque(part, OPAQUE_ENCRYPTED, DIALECT_RESPONSES, item->encrypted);
    body_model_turn(walk, item->at);
}

static bool ends_with(struct slice text, struct slice end)
{
    return text.n >= end.n && memcmp(text.at + text.n - end.n, end.at, end.n) == 0;
}

/* What only this API has: calls of hosted tools, references, compactions. */
static void end_foreign(struct request_walk *walk, const struct item *item,
                        enum neutral_field field)
{
    bool user =
        ends_with(item->type, SLICE("_output")) || ends_with(item->type, SLICE("_response"));

    walk->request->n_parts = item->at;
    body_foreign(walk, field);
    struct neutral_part *part = body_part(walk, PART_FOREIGN);
    if (part == NULL)
        return;
    part->text = body_since(walk, item->value);
    part->whole = true;
    if (!user) {
        body_model_turn(walk, item->at);
        return;
    }
    struct neutral_turn *turn = body_turn(walk, ROLE_USER);
    if (turn != NULL)
        turn->first = item->at;
}

static void read_item(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct item item = {.value = value, .at = walk->request->n_parts};

    (void)into;
    body_object(walk, "input", value, item_fields, &item);
    if (walk->failed)
        return;
    if (slice_equal(item.type, SLICE("message")) || (item.type.n == 0 && item.role.n > 0))
        end_message(walk, &item);
    else if (slice_equal(item.type, SLICE("function_call")))
        end_call(walk, &item, false);
    else if (slice_equal(item.type, SLICE("custom_tool_call")))
        end_call(walk, &item, true);
    else if (slice_equal(item.type, SLICE("function_call_output")) ||
             slice_equal(item.type, SLICE("custom_tool_call_output")))
        end_result(walk, &item);
    else if (slice_equal(item.type, SLICE("reasoning")))
        end_reasoning(walk, &item);
    else if (slice_equal(item.type, SLICE("item_reference")) || item.type.n == 0)
        end_foreign(walk, &item, FIELD_ITEM_REFERENCE);
    else
        end_foreign(walk, &item, FIELD_HOSTED_PART);
}

static void read_input(struct request_walk *walk, const struct json_value *value, void *into)
{
    if (value->kind != JSON_STRING) {
        body_list(walk, "input", value, read_item, into);
        return;
    }
    size_t first = walk->request->n_parts;
    struct neutral_part *part = body_part(walk, PART_TEXT);
    struct neutral_turn *turn = part != NULL ? body_turn(walk, ROLE_USER) : NULL;
    if (turn == NULL)
        return;
    turn->first = first;
    walk->request->parts[first].text = body_text(walk, "input", value);
}

static void read_instructions(struct request_walk *walk, const struct json_value *value, void *into)
{
    size_t first = walk->request->n_parts;
    struct slice text = body_text(walk, "instructions", value);
    struct neutral_part *part = body_part(walk, PART_TEXT);

    (void)into;
    if (part == NULL)
        return;
    part->text = text;
    body_first_turn(walk, first);
}

/* ---- Tools ----------------------------------------------------------------------------------- */

struct tool_from {
    struct slice type, name, description, parameters, syntax, grammar;
    enum neutral_tri strict, deferred;
    bool more;
};

#define TOOL(member) offsetof(struct tool_from, member)

static void note_more(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct tool_from *tool = into;

    (void)walk;
    (void)value;
    tool->more = true;
}

static const struct body_field grammar_fields[] = {
    {KEY("syntax"), BODY_TEXT, .at = TOOL(syntax)},
    {KEY("definition"), BODY_TEXT, .at = TOOL(grammar)},
    {.form = BODY_PASSED},
};

static const struct body_field tool_fields[] = {
    {KEY("type"), BODY_TEXT, .at = TOOL(type)},
    {KEY("name"), BODY_TEXT, .at = TOOL(name)},
    {KEY("description"), BODY_TEXT, .at = TOOL(description)},
    {KEY("parameters"), BODY_RAW, .at = TOOL(parameters)},
    {KEY("format"), BODY_OBJECT, .name = "tools.format", .inner = grammar_fields},
    {KEY("strict"), BODY_TRI, .at = TOOL(strict)},
    {KEY("defer_loading"), BODY_TRI, .at = TOOL(deferred)},
    {.form = BODY_READ, .read = note_more},
};

static void read_tool(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct tool_from from = {.more = false};

    (void)into;
    body_object(walk, "tools", value, tool_fields, &from);
    bool free = slice_equal(from.type, SLICE("custom"));
    if (!free && !slice_equal(from.type, SLICE("function"))) {
        body_hosted_tool(walk, value);
        return;
    }
    struct neutral_tool *tool = body_tool(walk);
    if (tool == NULL)
        return;
    *tool = (struct neutral_tool){.name = from.name,
                                  .description = from.description,
                                  .schema = from.parameters,
                                  .syntax = from.syntax,
                                  .grammar = from.grammar,
                                  .strict = from.strict,
                                  .free = free};
    if (from.deferred == TRI_TRUE)
        body_foreign(walk, FIELD_TOOL_DEFERRED);
    if (from.more)
        body_foreign(walk, FIELD_TOOL_HINT);
    if (from.more || from.deferred != TRI_UNSET)
        tool->raw = body_since(walk, value);
    if (tool->name.n == 0)
        body_fail(walk, "tools.name", "A tool must have a name.");
}

struct choice_from {
    struct slice type, mode;
};

static void read_choice_name(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    body_name(walk, body_text(walk, "tool_choice.name", value));
}

static const struct body_field choice_tool_fields[] = {
    {KEY("name"), BODY_READ, .read = read_choice_name},
    {.form = BODY_PASSED},
};

static void read_choice_tool(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_object(walk, "tool_choice.tools", value, choice_tool_fields, into);
}

static const struct body_field choice_fields[] = {
    {KEY("type"), BODY_TEXT, .at = offsetof(struct choice_from, type)},
    {KEY("mode"), BODY_TEXT, .at = offsetof(struct choice_from, mode)},
    {KEY("name"), BODY_READ, .read = read_choice_name},
    {KEY("tools"), BODY_LIST, .name = "tool_choice.tools", .read = read_choice_tool},
    {.form = BODY_PASSED},
};

static void read_choice(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct choice_from from = {.type = {"", 0}};
    struct neutral_request *request = walk->request;

    (void)into;
    if (value->kind == JSON_STRING) {
        request->choice = body_choice_word(walk, value);
        return;
    }
    body_object(walk, "tool_choice", value, choice_fields, &from);
    bool allowed = slice_equal(from.type, SLICE("allowed_tools"));
    bool one = slice_equal(from.type, SLICE("function")) || slice_equal(from.type, SLICE("custom"));
    if ((allowed || one) && request->n_names == 0)
        body_fail(walk, "tool_choice.name", "'tool_choice' names no tool.");
    if (allowed) {
        request->choice =
            slice_equal(from.mode, SLICE("required")) ? CHOICE_ALLOWED_REQUIRED : CHOICE_ALLOWED;
    } else if (one) {
        request->choice = CHOICE_ONE;
    } else { /* a hosted tool */
        request->n_names = 0;
        body_foreign(walk, FIELD_HOSTED_TOOL);
        body_extra(walk, SLICE("tool_choice"), body_since(walk, value));
    }
}

/* ---- Output and reasoning -------------------------------------------------------------------- */

#define REQUEST(member) offsetof(struct neutral_request, member)

static void read_format_type(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->format = body_format_type(walk, "text.format.type", value);
}

static const struct body_field format_fields[] = {
    {KEY("type"), BODY_READ, .read = read_format_type},
    {KEY("name"), BODY_TEXT, .at = REQUEST(format_name)},
    {KEY("description"), BODY_TEXT, .at = REQUEST(format_description)},
    {KEY("schema"), BODY_RAW, .at = REQUEST(format_schema)},
    {KEY("strict"), BODY_TRI, .at = REQUEST(format_strict)},
    {.form = BODY_PASSED},
};

static const struct body_field text_fields[] = {
    {KEY("format"), BODY_OBJECT, .name = "text.format", .inner = format_fields},
    {KEY("verbosity"), BODY_TEXT, .at = REQUEST(verbosity)},
    {.form = BODY_PASSED},
};

static void read_effort(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->effort = neutral_effort_of(body_text(walk, "reasoning.effort", value));
}

/* "auto", "concise" or "detailed": any of them shows what was thought. */
static void read_show(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)value;
    (void)into;
    walk->request->show_reasoning = TRI_TRUE;
}

static void read_mode(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    if (value->kind == JSON_STRING && json_text_is(value->string, "pro"))
        body_foreign(walk, FIELD_REASONING_MODE);
}

static const struct body_field reasoning_fields[] = {
    {KEY("effort"), BODY_READ, .read = read_effort},
    {KEY("summary"), BODY_READ, .read = read_show},
    {KEY("generate_summary"), BODY_READ, .read = read_show},
    {KEY("mode"), BODY_READ, .read = read_mode},
    {.form = BODY_PASSED},
};

static void read_include_word(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct slice word = body_text(walk, "include", value);

    (void)into;
    if (slice_equal(word, SLICE("message.output_text.logprobs")))
        walk->request->logprobs = TRI_TRUE;
    else if (!slice_equal(word, SLICE("reasoning.encrypted_content")))
        body_foreign(walk, FIELD_INCLUDE);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void read_background(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    if (body_is_true(walk, "background", value)) {
        body_foreign(walk, FIELD_BACKGROUND);
        body_extra(walk, SLICE("background"), SLICE("true"));
    }
}

static void read_truncation(struct request_walk *walk, const struct json_value *value, void *into)
{
    static const char *const list[] = {"disabled", "auto", NULL};

    (void)into;
    if (body_word(walk, "truncation", value, list) == 1) {
        body_foreign(walk, FIELD_TRUNCATION);
        body_extra(walk, SLICE("truncation"), SLICE("\"auto\""));
    }
}

static const struct body_field fields[] = {
    {KEY("model"), BODY_TEXT, .at = REQUEST(model)},
    {KEY("input"), BODY_READ, .read = read_input},
    {KEY("instructions"), BODY_READ, .read = read_instructions},
    {KEY("tools"), BODY_LIST, .name = "tools", .read = read_tool},
    {KEY("tool_choice"), BODY_READ, .read = read_choice},
    {KEY("parallel_tool_calls"), BODY_TRI, .at = REQUEST(parallel)},
    {KEY("text"), BODY_OBJECT, .name = "text", .inner = text_fields},
    {KEY("reasoning"), BODY_OBJECT, .name = "reasoning", .inner = reasoning_fields},
    {KEY("max_output_tokens"), BODY_WHOLE, .at = REQUEST(bound), .most = INT32_MAX},
    {KEY("temperature"), BODY_REAL, .at = REQUEST(temperature), .most = 2},
    {KEY("top_p"), BODY_REAL, .at = REQUEST(top_p), .most = 1},
    {KEY("top_logprobs"), BODY_WHOLE, .at = REQUEST(top_logprobs), .most = 20},
    {KEY("safety_identifier"), BODY_TEXT, .at = REQUEST(user)},
    {KEY("user"), BODY_READ, .read = body_user},
    {KEY("metadata"), BODY_RAW, .at = REQUEST(metadata)},
    {KEY("prompt_cache_key"), BODY_TEXT, .at = REQUEST(cache_key)},
    {KEY("store"), BODY_TRI, .at = REQUEST(store)},
    {KEY("service_tier"), BODY_READ, .read = body_tier},
    {KEY("stream"), BODY_TRUE, .at = REQUEST(stream)},
    {KEY("include"), BODY_LIST, .name = "include", .read = read_include_word},
    {KEY("background"), BODY_READ, .read = read_background},
    {KEY("truncation"), BODY_READ, .read = read_truncation},
    {KEY("stream_options"), BODY_FOREIGN, .foreign = FIELD_OBFUSCATION},
    {KEY("prompt_cache_options"), BODY_FOREIGN, .foreign = FIELD_CACHE},
    {KEY("prompt_cache_retention"), BODY_FOREIGN, .foreign = FIELD_CACHE},
    {KEY("previous_response_id"), BODY_FOREIGN, .foreign = FIELD_PREVIOUS},
    {KEY("conversation"), BODY_FOREIGN, .foreign = FIELD_CONVERSATION},
    {KEY("prompt"), BODY_FOREIGN, .foreign = FIELD_TEMPLATE},
    {KEY("max_tool_calls"), BODY_FOREIGN, .foreign = FIELD_TOOL_CALLS_MAX},
    {KEY("context_management"), BODY_FOREIGN, .foreign = FIELD_CONTEXT},
    {KEY("moderation"), BODY_FOREIGN, .foreign = FIELD_MODERATION},
    {.form = BODY_UNKNOWN},
};

/* What says elsewhere what the model is asked. */
static bool has_stored_input(const struct neutral_request *request)
{
    uint64_t stored = UINT64_C(1) << FIELD_PREVIOUS | UINT64_C(1) << FIELD_CONVERSATION |
                      UINT64_C(1) << FIELD_TEMPLATE;

    return (request->foreign & stored) != 0;
}

bool responses_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                            struct neutral_request *request, struct ask_problem *problem)
{
    struct request_walk walk;

    request->want_usage = true;
    if (body_begin(&walk, json, DIALECT_RESPONSES, body, n, readable, request, problem))
        body_members(&walk, "", fields, request);
    if (!body_end(&walk))
        return false;
    if (!has_stored_input(request) && request->n_turns == 0)
        body_fail(&walk, "input", "'input' must be a text or have an item.");
    return !walk.failed;
}
