/* messages_request_read.c - the body of a message, read into the neutral form.
 *
 * The keys of a block come in any order, so a block is put together when its object ends, and the
 * content of a tool's result, which was read before, then becomes its own.
 */
#include "server/dialect/anthropic/anthropic.h"
#include "server/dialect/neutral/request_walk.h"

/* ---- Blocks ---------------------------------------------------------------------------------- */

struct block {
    struct slice type, text, thinking, signature, data, id, name, input, title;
    struct slice source_type, media_type, source_data, url, file_id, source;
    struct slice ttl;
    bool cache, error, citations;
};

static void read_content(struct request_walk *walk, const struct json_value *value);

/* {"type": "base64", "media_type", "data"}, or by address, file, text or blocks. */
static void read_source(struct request_walk *walk, struct block *block,
                        const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (value->kind == JSON_STRING) { /* a search result names where it was found */
        block->source = body_text(walk, "source", value);
        return;
    }
    if (!body_enter(walk, "source", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        struct slice *to = json_text_is(key, "type")         ? &block->source_type
                           : json_text_is(key, "media_type") ? &block->media_type
                           : json_text_is(key, "data")       ? &block->source_data
                           : json_text_is(key, "url")        ? &block->url
                           : json_text_is(key, "file_id")    ? &block->file_id
                                                             : NULL;
        if (to != NULL)
            *to = body_text(walk, "source", &inner);
        else if (json_text_is(key, "content"))
            read_content(walk, &inner);
    }
}

static void read_cache(struct request_walk *walk, const struct json_value *value, bool *cache,
                       struct slice *ttl)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "cache_control", value, JSON_OBJECT))
        return;
    *cache = true;
    while (body_next(walk, &key, &inner))
        if (json_text_is(key, "ttl"))
            *ttl = body_text(walk, "cache_control.ttl", &inner);
}

/* {"enabled": true} asks for citations; a list of them is what an earlier reply had. */
static bool read_citations(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;
    bool enabled = false;

    if (value->kind == JSON_OBJECT && json_enter(walk->json))
        while (body_next(walk, &key, &inner))
            enabled |= json_text_is(key, "enabled") && inner.kind == JSON_BOOL && inner.boolean;
    return enabled;
}

static void add_media(struct request_walk *walk, const struct block *block, size_t at, bool image)
{
    struct neutral_part *part = body_part_before(walk, at, PART_MEDIA);

    if (part == NULL)
        return;
    part->inner = 0;
    part->media = image ? MEDIA_IMAGE : MEDIA_DOCUMENT;
    part->mime = block->media_type;
    part->name = block->title;
    part->cache = block->cache;
    part->ttl = block->ttl;
    if (slice_equal(block->source_type, SLICE("base64"))) {
        part->source = SOURCE_INLINE;
        part->text = block->source_data;
    } else if (slice_equal(block->source_type, SLICE("url"))) {
        part->source = SOURCE_URL;
        part->text = block->url;
    } else if (slice_equal(block->source_type, SLICE("text"))) {
        part->kind = PART_TEXT;
        part->text = block->source_data;
    } else {
        part->source = SOURCE_STORED;
        part->text = block->file_id;
        body_foreign(walk, FIELD_STORED_FILE);
    }
}

static void add_reasoning(struct request_walk *walk, const struct block *block, size_t at,
                          bool redacted)
{
    struct neutral_part *part = body_part_before(walk, at, PART_REASONING);

    if (part == NULL)
        return;
    part->inner = 0;
    part->text = block->thinking;
    if (redacted)
        body_opaque(part, OPAQUE_REDACTED, DIALECT_ANTHROPIC, block->data);
    else if (block->signature.n > 0)
        body_opaque(part, OPAQUE_SIGNATURE, DIALECT_ANTHROPIC, block->signature);
}

static void add_text(struct request_walk *walk, const struct block *block, size_t at,
                     struct slice text)
{
    struct neutral_part *part = body_part_before(walk, at, PART_TEXT);

    if (part == NULL)
        return;
    part->inner = 0;
    part->text = text;
    part->cache = block->cache;
    part->ttl = block->ttl;
}

/* Title and place of a search result stand before its text, which was read already. */
static void add_search_result(struct request_walk *walk, const struct block *block, size_t at)
{
    struct slice pieces[] = {block->title, SLICE("\n"), block->source, SLICE("\n")};
    size_t n = 0;

    for (size_t i = 0; i < 4; i++)
        n += pieces[i].n;
    char *room = neutral_room(walk->request, n);
    if (room == NULL) {
        body_no_memory(walk);
        return;
    }
    n = 0;
    for (size_t i = 0; i < 4; i++) {
        if (pieces[i].n > 0)
            memcpy(room + n, pieces[i].at, pieces[i].n);
        n += pieces[i].n;
    }
    add_text(walk, block, at, (struct slice){room, n});
}

static void add_tool(struct request_walk *walk, const struct block *block, size_t at, bool result)
{
    struct neutral_part *part = body_part_before(walk, at, result ? PART_RESULT : PART_CALL);

    if (part == NULL)
        return;
    if (!result)
        part->inner = 0;
    part->name = block->name;
    part->text = block->input;
    part->error = block->error;
    part->cache = block->cache;
    part->ttl = block->ttl;
    body_call_id(walk, part, block->id);
}

static void add_block(struct request_walk *walk, const struct block *block, size_t at)
{
    if (walk->failed)
        return;
    if (block->citations)
        body_foreign(walk, FIELD_CITATIONS);
    if (slice_equal(block->type, SLICE("text")))
        add_text(walk, block, at, block->text);
    else if (slice_equal(block->type, SLICE("image")))
        add_media(walk, block, at, true);
    else if (slice_equal(block->type, SLICE("document")) &&
             !slice_equal(block->source_type, SLICE("content")))
        add_media(walk, block, at, false);
    else if (slice_equal(block->type, SLICE("tool_use")))
        add_tool(walk, block, at, false);
    else if (slice_equal(block->type, SLICE("tool_result")))
        add_tool(walk, block, at, true);
    else if (slice_equal(block->type, SLICE("thinking")))
        add_reasoning(walk, block, at, false);
    else if (slice_equal(block->type, SLICE("redacted_thinking")))
        add_reasoning(walk, block, at, true);
    else if (slice_equal(block->type, SLICE("search_result")))
        add_search_result(walk, block, at);
    else if (!slice_equal(block->type, SLICE("document")))
        body_foreign(walk, FIELD_HOSTED_PART);
}

static void read_block(struct request_walk *walk, const struct json_value *value)
{
    size_t at = walk->request->n_parts;
    struct block block = {.cache = false};
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "messages.content", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        struct slice *to = json_text_is(key, "type")          ? &block.type
                           : json_text_is(key, "text")        ? &block.text
                           : json_text_is(key, "thinking")    ? &block.thinking
                           : json_text_is(key, "signature")   ? &block.signature
                           : json_text_is(key, "data")        ? &block.data
                           : json_text_is(key, "id")          ? &block.id
                           : json_text_is(key, "tool_use_id") ? &block.id
                           : json_text_is(key, "name")        ? &block.name
                           : json_text_is(key, "title")       ? &block.title
                                                              : NULL;
        if (to != NULL)
            *to = body_text(walk, "messages.content", &inner);
        else if (json_text_is(key, "input"))
            block.input = body_raw(walk, &inner);
        else if (json_text_is(key, "content"))
            read_content(walk, &inner);
        else if (json_text_is(key, "source"))
            read_source(walk, &block, &inner);
        else if (json_text_is(key, "is_error"))
            block.error = body_is_true(walk, "messages.content.is_error", &inner);
        else if (json_text_is(key, "cache_control"))
            read_cache(walk, &inner, &block.cache, &block.ttl);
        else if (json_text_is(key, "citations"))
            block.citations = read_citations(walk, &inner);
    }
    add_block(walk, &block, at);
}

static void read_content(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value item;

    if (value->kind == JSON_STRING) {
        struct neutral_part *part = body_part(walk, PART_TEXT);
        if (part != NULL)
            part->text = body_text(walk, "content", value);
    } else if (value->kind == JSON_OBJECT) { /* results of hosted tools */
        body_foreign(walk, FIELD_HOSTED_PART);
    } else if (body_enter(walk, "content", value, JSON_ARRAY)) {
        while (body_next(walk, &key, &item))
            read_block(walk, &item);
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void read_message(struct request_walk *walk, const struct json_value *value)
{
    static const char *const list[] = {"user", "assistant", "system", NULL};
    static const enum neutral_role roles[] = {ROLE_USER, ROLE_MODEL, ROLE_INSTRUCTION};
    size_t first = walk->request->n_parts, role = SIZE_MAX;
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "messages", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "role"))
            role = body_word(walk, "messages.role", &inner, list);
        else if (json_text_is(key, "content"))
            read_content(walk, &inner);
    }
    if (role == SIZE_MAX) {
        body_fail(walk, "messages.role", "A message must have a role.");
        return;
    }
    struct neutral_turn *turn = body_turn(walk, roles[role]);
    if (turn != NULL)
        turn->first = first;
}

/* The system prompt may stand behind the messages in the body, and still comes first. */
static void read_system(struct request_walk *walk, const struct json_value *value)
{
    struct neutral_request *request = walk->request;
    size_t first = request->n_parts;

    read_content(walk, value);
    struct neutral_turn *turn = body_turn(walk, ROLE_INSTRUCTION);
    if (turn == NULL)
        return;
    struct neutral_turn system = *turn;
    system.first = first;
    memmove(request->turns + 1, request->turns, (request->n_turns - 1) * sizeof system);
    request->turns[0] = system;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* Tools with a type of their own have schemas that only Anthropic's models know. */
static void read_tool(struct request_walk *walk, const struct json_value *value)
{
    struct neutral_tool *tool = body_tool(walk);
    struct json_text key;
    struct json_value inner;
    bool hosted = false;

    if (tool == NULL || !body_enter(walk, "tools", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "name"))
            tool->name = body_text(walk, "tools.name", &inner);
        else if (json_text_is(key, "description"))
            tool->description = body_text(walk, "tools.description", &inner);
        else if (json_text_is(key, "input_schema"))
            tool->schema = body_raw(walk, &inner);
        else if (json_text_is(key, "strict"))
            tool->strict = body_tri(walk, "tools.strict", &inner);
        else if (json_text_is(key, "cache_control"))
            read_cache(walk, &inner, &tool->cache, &tool->ttl);
        else if (json_text_is(key, "type"))
            hosted = inner.kind != JSON_STRING || !json_text_is(inner.string, "custom");
        else if (json_text_is(key, "defer_loading") && inner.kind == JSON_BOOL && inner.boolean)
            body_foreign(walk, FIELD_TOOL_DEFERRED);
        else
            body_foreign(walk, FIELD_TOOL_HINT);
    }
    if (hosted) {
        body_foreign(walk, FIELD_HOSTED_TOOL);
        walk->request->n_tools--;
    } else if (tool->name.n == 0) {
        body_fail(walk, "tools.name", "A tool must have a name.");
    }
}

static void read_choice(struct request_walk *walk, const struct json_value *value)
{
    static const char *const list[] = {"auto", "none", "any", "tool", NULL};
    static const enum neutral_choice choices[] = {CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED,
                                                  CHOICE_ONE};
    struct neutral_request *request = walk->request;
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "tool_choice", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "type"))
            request->choice = choices[body_word(walk, "tool_choice.type", &inner, list)];
        else if (json_text_is(key, "name"))
            body_name(walk, body_text(walk, "tool_choice.name", &inner));
        else if (json_text_is(key, "disable_parallel_tool_use"))
            request->parallel = body_is_true(walk, "tool_choice.disable_parallel_tool_use", &inner)
                                    ? TRI_FALSE
                                    : TRI_TRUE;
    }
    if (request->choice == CHOICE_ONE && request->n_names == 0)
        body_fail(walk, "tool_choice.name", "'tool_choice' names no tool.");
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void read_thinking(struct request_walk *walk, const struct json_value *value)
{
    static const char *const list[] = {"disabled", "enabled", "adaptive", NULL};
    struct neutral_request *request = walk->request;
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "thinking", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "type")) {
            size_t type = body_word(walk, "thinking.type", &inner, list);
            if (type == 0)
                request->budget = 0;
            else if (request->budget == BUDGET_UNSET)
                request->budget = BUDGET_DYNAMIC;
        } else if (json_text_is(key, "budget_tokens")) {
            request->budget = body_integer(walk, "thinking.budget_tokens", &inner, 1, INT32_MAX);
        } else if (json_text_is(key, "display")) {
            request->show_reasoning =
                inner.kind == JSON_STRING && json_text_is(inner.string, "omitted") ? TRI_FALSE
                                                                                   : TRI_TRUE;
        }
    }
}

/* {"type": "json_schema", "schema": {...}} */
static void read_format(struct request_walk *walk, const struct json_value *value)
{
    struct neutral_request *request = walk->request;
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "output_config.format", value, JSON_OBJECT))
        return;
    request->format = FORMAT_SCHEMA;
    request->format_strict = TRI_TRUE;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "schema"))
            request->format_schema = body_raw(walk, &inner);
        else if (json_text_is(key, "name"))
            request->format_name = body_text(walk, "output_config.format.name", &inner);
    }
}

static void read_output_config(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "output_config", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner)) {
        if (json_text_is(key, "effort"))
            walk->request->effort =
                neutral_effort_of(body_text(walk, "output_config.effort", &inner));
        else if (json_text_is(key, "format"))
            read_format(walk, &inner);
    }
}

static void read_metadata(struct request_walk *walk, const struct json_value *value)
{
    struct json_text key;
    struct json_value inner;

    if (!body_enter(walk, "metadata", value, JSON_OBJECT))
        return;
    while (body_next(walk, &key, &inner))
        if (json_text_is(key, "user_id"))
            walk->request->user = body_text(walk, "metadata.user_id", &inner);
}

/* What no other dialect knows. False: another key. */
static bool read_foreign_key(struct request_walk *walk, struct json_text key)
{
    static const struct {
        const char *key;
        enum neutral_field field;
    } fields[] = {
        {"inference_geo", FIELD_GEO},       {"container", FIELD_CONTAINER},
        {"diagnostics", FIELD_DIAGNOSTICS}, {"speed", FIELD_SPEED},
        {"mcp_servers", FIELD_SERVERS},     {"context_management", FIELD_CONTEXT},
        {"fallbacks", FIELD_FALLBACKS},     {"thread", FIELD_THREAD},
        {"cache_control", FIELD_CACHE},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (json_text_is(key, fields[i].key)) {
            body_foreign(walk, fields[i].field);
            return true;
        }
    return false;
}

static void read_list(struct request_walk *walk, const char *param, const struct json_value *value,
                      void (*each)(struct request_walk *, const struct json_value *))
{
    struct json_text key;
    struct json_value item;

    if (body_enter(walk, param, value, JSON_ARRAY))
        while (body_next(walk, &key, &item))
            each(walk, &item);
}

static void read_key(struct request_walk *walk, struct json_text key,
                     const struct json_value *value)
{
    struct neutral_request *request = walk->request;

    if (json_text_is(key, "model")) {
        request->model = body_text(walk, "model", value);
    } else if (json_text_is(key, "messages")) {
        read_list(walk, "messages", value, read_message);
    } else if (json_text_is(key, "system")) {
        read_system(walk, value);
    } else if (json_text_is(key, "max_tokens")) {
        request->bound = body_integer(walk, "max_tokens", value, 0, INT32_MAX);
        if (request->bound == 0)
            body_foreign(walk, FIELD_WARMING);
    } else if (json_text_is(key, "stop_sequences")) {
        body_stops(walk, "stop_sequences", value);
    } else if (json_text_is(key, "temperature")) {
        request->temperature = body_real(walk, "temperature", value, 0, 1);
    } else if (json_text_is(key, "top_p")) {
        request->top_p = body_real(walk, "top_p", value, 0, 1);
    } else if (json_text_is(key, "top_k")) {
        request->top_k = body_integer(walk, "top_k", value, 0, INT32_MAX);
    } else if (json_text_is(key, "tools")) {
        read_list(walk, "tools", value, read_tool);
    } else if (json_text_is(key, "tool_choice")) {
        read_choice(walk, value);
    } else if (json_text_is(key, "thinking")) {
        read_thinking(walk, value);
    } else if (json_text_is(key, "output_config")) {
        read_output_config(walk, value);
    } else if (json_text_is(key, "output_format")) {
        read_format(walk, value);
    } else if (json_text_is(key, "metadata")) {
        read_metadata(walk, value);
    } else if (json_text_is(key, "service_tier")) {
        request->tier = value->kind == JSON_STRING && json_text_is(value->string, "auto")
                            ? TIER_AUTO
                            : TIER_STANDARD;
    } else if (json_text_is(key, "stream")) {
        request->stream = body_is_true(walk, "stream", value);
    } else if (!read_foreign_key(walk, key)) {
        body_unknown(walk, key, value);
    }
}

bool messages_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                           struct neutral_request *request, struct ask_problem *problem)
{
    struct request_walk walk;
    struct json_text key;
    struct json_value value;

    request->want_usage = true;
    if (body_begin(&walk, json, DIALECT_ANTHROPIC, body, n, readable, request, problem))
        while (body_next(&walk, &key, &value))
            read_key(&walk, key, &value);
    if (!body_end(&walk))
        return false;
    if (request->n_turns == 0 ||
        (request->n_turns == 1 && request->turns[0].role == ROLE_INSTRUCTION))
        body_fail(&walk, "messages", "'messages' must have a message.");
    return !walk.failed;
}
