/* messages_request_read.c - the body of a message, read into the neutral form.
 *
 * The keys of a block come in any order, so a block is put together when its object ends, and the
 * content of a tool's result, which was read before, then becomes its own.
 */
#include "server/dialect/anthropic/anthropic.h"
#include "server/dialect/neutral/request_object.h"

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The prompt may be cached up to here. */
struct cache_mark {
    bool cache;
    struct slice ttl;
};

struct block {
    struct slice type, text, thinking, signature, data, id, name, input, title;
    struct slice source_type, media_type, source_data, url, file_id, source;
    struct cache_mark mark;
    bool error, citations;
};

#define BLOCK(member) offsetof(struct block, member)

static void read_content(struct request_walk *walk, const struct json_value *value, void *into);

/* {"type": "base64", "media_type", "data"}, or by address, file, text or blocks. */
static const struct body_field source_fields[] = {
    {KEY("type"), BODY_TEXT, .at = BLOCK(source_type)},
    {KEY("media_type"), BODY_TEXT, .at = BLOCK(media_type)},
    {KEY("data"), BODY_TEXT, .at = BLOCK(source_data)},
    {KEY("url"), BODY_TEXT, .at = BLOCK(url)},
    {KEY("file_id"), BODY_TEXT, .at = BLOCK(file_id)},
    {KEY("content"), BODY_READ, .read = read_content},
    {.form = BODY_PASSED},
};

static void read_source(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct block *block = into;

    if (value->kind == JSON_STRING) /* a search result names where it was found */
        block->source = body_text(walk, "source", value);
    else
        body_object(walk, "source", value, source_fields, into);
}

static void read_mark(struct request_walk *walk, const struct json_value *value,
                      struct cache_mark *mark)
{
    static const struct body_field mark_fields[] = {
        {KEY("ttl"), BODY_TEXT, .at = offsetof(struct cache_mark, ttl)},
        {.form = BODY_PASSED},
    };

    mark->cache = true;
    body_object(walk, "cache_control", value, mark_fields, mark);
}

static void read_block_mark(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct block *block = into;

    read_mark(walk, value, &block->mark);
}

/* {"enabled": true} asks for citations; a list of them is what an earlier reply had. */
static void read_citations(struct request_walk *walk, const struct json_value *value, void *into)
{
    static const struct body_field citation_fields[] = {
        {KEY("enabled"), BODY_TRUE, .at = BLOCK(citations)},
        {.form = BODY_PASSED},
    };

    if (value->kind == JSON_OBJECT)
        body_object(walk, "citations", value, citation_fields, into);
}

/* type/subtype of RFC 2045, and no parameters: in another API it becomes a part of an address,
 * where a comma or a semicolon would end it. */
static bool is_media_type(struct slice type)
{
    size_t slashes = 0;

    for (size_t i = 0; i < type.n; i++) {
        char c = type.at[i];
        bool token = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '+' || c == '_';
        slashes += c == '/';
        if (!token && (c != '/' || i == 0 || i + 1 == type.n))
            return false;
    }
    return slashes == 1 || type.n == 0;
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
    part->cache = block->mark.cache;
    part->ttl = block->mark.ttl;
    if (!is_media_type(block->media_type))
        body_fail(walk, "media_type", "'media_type' must be a type such as image/png.");
    if (slice_equal(block->source_type, SLICE("base64"))) {
        part->source = SOURCE_INLINE;
        part->text = block->source_data;
    } else if (slice_equal(block->source_type, SLICE("url"))) {
        part->source = SOURCE_URL;
        part->text = block->url;
    } else if (!image && slice_equal(block->source_type, SLICE("text"))) {
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
    part->cache = block->mark.cache;
    part->ttl = block->mark.ttl;
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
    part->cache = block->mark.cache;
    part->ttl = block->mark.ttl;
    body_call_id(walk, part, block->id);
}

/* Blocks that only this API has, such as calls of hosted tools, are kept as bytes. */
static void add_foreign(struct request_walk *walk, const struct json_value *value, size_t at)
{
    walk->request->n_parts = at;
    struct neutral_part *part = body_part(walk, PART_FOREIGN);
    if (part != NULL)
        part->text = body_since(walk, value);
    body_foreign(walk, FIELD_HOSTED_PART);
}

static void add_block(struct request_walk *walk, const struct block *block,
                      const struct json_value *value, size_t at)
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
        add_foreign(walk, value, at);
}

static const struct body_field block_fields[] = {
    {KEY("type"), BODY_TEXT, .at = BLOCK(type)},
    {KEY("text"), BODY_TEXT, .at = BLOCK(text)},
    {KEY("thinking"), BODY_TEXT, .at = BLOCK(thinking)},
    {KEY("signature"), BODY_TEXT, .at = BLOCK(signature)},
    {KEY("data"), BODY_TEXT, .at = BLOCK(data)},
    {KEY("id"), BODY_TEXT, .at = BLOCK(id)},
    {KEY("tool_use_id"), BODY_TEXT, .at = BLOCK(id)},
    {KEY("name"), BODY_TEXT, .at = BLOCK(name)},
    {KEY("title"), BODY_TEXT, .at = BLOCK(title)},
    {KEY("input"), BODY_RAW, .at = BLOCK(input)},
    {KEY("content"), BODY_READ, .read = read_content},
    {KEY("source"), BODY_READ, .read = read_source},
    {KEY("is_error"), BODY_TRUE, .at = BLOCK(error)},
    {KEY("cache_control"), BODY_READ, .read = read_block_mark},
    {KEY("citations"), BODY_READ, .read = read_citations},
    {.form = BODY_PASSED},
};

static void read_block(struct request_walk *walk, const struct json_value *value, void *into)
{
    size_t at = walk->request->n_parts;
    struct block block = {.error = false};

    (void)into;
    body_object(walk, "messages.content", value, block_fields, &block);
    add_block(walk, &block, value, at);
}

/* An object is what a hosted tool gave; its block says so, and is kept as bytes. */
static void read_content(struct request_walk *walk, const struct json_value *value, void *into)
{
    if (value->kind == JSON_OBJECT)
        body_foreign(walk, FIELD_HOSTED_PART);
    else
        body_content(walk, "content", value, read_block, into);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void read_role(struct request_walk *walk, const struct json_value *value, void *into)
{
    static const char *const list[] = {"user", "assistant", "system", NULL};
    size_t *role = into;

    *role = body_word(walk, "messages.role", value, list);
}

static const struct body_field message_fields[] = {
    {KEY("role"), BODY_READ, .read = read_role},
    {KEY("content"), BODY_READ, .read = read_content},
    {.form = BODY_PASSED},
};

static void read_message(struct request_walk *walk, const struct json_value *value, void *into)
{
    static const enum neutral_role roles[] = {ROLE_USER, ROLE_MODEL, ROLE_INSTRUCTION};
    size_t first = walk->request->n_parts, role = SIZE_MAX;

    (void)into;
    body_object(walk, "messages", value, message_fields, &role);
    if (role == SIZE_MAX) {
        body_fail(walk, "messages.role", "A message must have a role.");
        return;
    }
    struct neutral_turn *turn = body_turn(walk, roles[role]);
    if (turn != NULL)
        turn->first = first;
}

/* The system prompt may stand behind the messages in the body, and still comes first. */
static void read_system(struct request_walk *walk, const struct json_value *value, void *into)
{
    size_t first = walk->request->n_parts;

    read_content(walk, value, into);
    body_first_turn(walk, first);
}

/* ---- Tools ----------------------------------------------------------------------------------- */

struct tool_from {
    struct neutral_tool tool;
    struct slice type;
    struct cache_mark mark;
    enum neutral_tri deferred;
    bool more;
};

#define TOOL(member) offsetof(struct tool_from, member)

static void read_tool_mark(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct tool_from *from = into;

    read_mark(walk, value, &from->mark);
}

static void note_more(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct tool_from *from = into;

    (void)walk;
    (void)value;
    from->more = true;
}

static const struct body_field tool_fields[] = {
    {KEY("name"), BODY_TEXT, .at = TOOL(tool.name)},
    {KEY("description"), BODY_TEXT, .at = TOOL(tool.description)},
    {KEY("input_schema"), BODY_RAW, .at = TOOL(tool.schema)},
    {KEY("strict"), BODY_TRI, .at = TOOL(tool.strict)},
    {KEY("cache_control"), BODY_READ, .read = read_tool_mark},
    {KEY("type"), BODY_TEXT, .at = TOOL(type)},
    {KEY("defer_loading"), BODY_TRI, .at = TOOL(deferred)},
    {.form = BODY_READ, .read = note_more},
};

/* Tools with a type of their own have schemas that only Anthropic's models know. */
static void read_tool(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct tool_from from = {.more = false};

    (void)into;
    body_object(walk, "tools", value, tool_fields, &from);
    if (walk->failed)
        return;
    if (from.type.n > 0 && !slice_equal(from.type, SLICE("custom"))) {
        body_hosted_tool(walk, value);
        return;
    }
    struct neutral_tool *tool = body_tool(walk);
    if (tool == NULL)
        return;
    *tool = from.tool;
    tool->cache = from.mark.cache;
    tool->ttl = from.mark.ttl;
    if (from.deferred == TRI_TRUE)
        body_foreign(walk, FIELD_TOOL_DEFERRED);
    if (from.more)
        body_foreign(walk, FIELD_TOOL_HINT);
    if (from.more || from.deferred != TRI_UNSET)
        tool->raw = body_since(walk, value);
    if (tool->name.n == 0)
        body_fail(walk, "tools.name", "A tool must have a name.");
}

static void read_choice_type(struct request_walk *walk, const struct json_value *value, void *into)
{
    static const char *const list[] = {"auto", "none", "any", "tool", NULL};
    static const enum neutral_choice choices[] = {CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED,
                                                  CHOICE_ONE};

    (void)into;
    walk->request->choice = choices[body_word(walk, "tool_choice.type", value, list)];
}

static void read_choice_name(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    body_name(walk, body_text(walk, "tool_choice.name", value));
}

static void read_alone(struct request_walk *walk, const struct json_value *value, void *into)
{
    bool alone = body_is_true(walk, "tool_choice.disable_parallel_tool_use", value);

    (void)into;
    walk->request->parallel = alone ? TRI_FALSE : TRI_TRUE;
}

static const struct body_field choice_fields[] = {
    {KEY("type"), BODY_READ, .read = read_choice_type},
    {KEY("name"), BODY_READ, .read = read_choice_name},
    {KEY("disable_parallel_tool_use"), BODY_READ, .read = read_alone},
    {.form = BODY_PASSED},
};

static void read_choice(struct request_walk *walk, const struct json_value *value, void *into)
{
    body_object(walk, "tool_choice", value, choice_fields, into);
    if (walk->request->choice == CHOICE_ONE && walk->request->n_names == 0)
        body_fail(walk, "tool_choice.name", "'tool_choice' names no tool.");
}

/* ---- The rest -------------------------------------------------------------------------------- */

#define REQUEST(member) offsetof(struct neutral_request, member)

static void read_thinking_type(struct request_walk *walk, const struct json_value *value,
                               void *into)
{
    static const char *const list[] = {"disabled", "enabled", "adaptive", NULL};
    struct neutral_request *request = walk->request;
    size_t type = body_word(walk, "thinking.type", value, list);

    (void)into;
    if (type == 0)
        request->budget = 0;
    else if (request->budget == BUDGET_UNSET)
        request->budget = BUDGET_DYNAMIC;
}

static void read_display(struct request_walk *walk, const struct json_value *value, void *into)
{
    bool omitted = value->kind == JSON_STRING && json_text_is(value->string, "omitted");

    (void)into;
    walk->request->show_reasoning = omitted ? TRI_FALSE : TRI_TRUE;
}

static const struct body_field thinking_fields[] = {
    {KEY("type"), BODY_READ, .read = read_thinking_type},
    {KEY("budget_tokens"), BODY_WHOLE, .at = REQUEST(budget), .least = 1, .most = INT32_MAX},
    {KEY("display"), BODY_READ, .read = read_display},
    {.form = BODY_PASSED},
};

/* {"type": "json_schema", "schema": {...}} */
static const struct body_field format_fields[] = {
    {KEY("schema"), BODY_RAW, .at = REQUEST(format_schema)},
    {KEY("name"), BODY_TEXT, .at = REQUEST(format_name)},
    {.form = BODY_PASSED},
};

static void read_format(struct request_walk *walk, const struct json_value *value, void *into)
{
    walk->request->format = FORMAT_SCHEMA;
    walk->request->format_strict = TRI_TRUE;
    body_object(walk, "output_config.format", value, format_fields, into);
}

static void read_effort(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->effort = neutral_effort_of(body_text(walk, "output_config.effort", value));
}

static const struct body_field output_fields[] = {
    {KEY("effort"), BODY_READ, .read = read_effort},
    {KEY("format"), BODY_READ, .read = read_format},
    {.form = BODY_PASSED},
};

static const struct body_field metadata_fields[] = {
    {KEY("user_id"), BODY_TEXT, .at = REQUEST(user)},
    {.form = BODY_PASSED},
};

static void read_bound(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->bound = body_integer(walk, "max_tokens", value, 0, INT32_MAX);
    if (walk->request->bound == 0)
        body_foreign(walk, FIELD_WARMING);
}

static void read_stops(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    body_stops(walk, "stop_sequences", value);
}

static void read_tier(struct request_walk *walk, const struct json_value *value, void *into)
{
    bool is_auto = value->kind == JSON_STRING && json_text_is(value->string, "auto");

    (void)into;
    walk->request->tier = is_auto ? TIER_AUTO : TIER_STANDARD;
}

static const struct body_field fields[] = {
    {KEY("model"), BODY_TEXT, .at = REQUEST(model)},
    {KEY("messages"), BODY_LIST, .name = "messages", .read = read_message},
    {KEY("system"), BODY_READ, .read = read_system},
    {KEY("max_tokens"), BODY_READ, .read = read_bound},
    {KEY("stop_sequences"), BODY_READ, .read = read_stops},
    {KEY("temperature"), BODY_REAL, .at = REQUEST(temperature), .most = 1},
    {KEY("top_p"), BODY_REAL, .at = REQUEST(top_p), .most = 1},
    {KEY("top_k"), BODY_WHOLE, .at = REQUEST(top_k), .most = INT32_MAX},
    {KEY("tools"), BODY_LIST, .name = "tools", .read = read_tool},
    {KEY("tool_choice"), BODY_READ, .read = read_choice},
    {KEY("thinking"), BODY_OBJECT, .name = "thinking", .inner = thinking_fields},
    {KEY("output_config"), BODY_OBJECT, .name = "output_config", .inner = output_fields},
    {KEY("output_format"), BODY_READ, .read = read_format},
    {KEY("metadata"), BODY_OBJECT, .name = "metadata", .inner = metadata_fields},
    {KEY("service_tier"), BODY_READ, .read = read_tier},
    {KEY("stream"), BODY_TRUE, .at = REQUEST(stream)},
    {KEY("inference_geo"), BODY_FOREIGN, .foreign = FIELD_GEO},
    {KEY("container"), BODY_FOREIGN, .foreign = FIELD_CONTAINER},
    {KEY("diagnostics"), BODY_FOREIGN, .foreign = FIELD_DIAGNOSTICS},
    {KEY("speed"), BODY_FOREIGN, .foreign = FIELD_SPEED},
    {KEY("mcp_servers"), BODY_FOREIGN, .foreign = FIELD_SERVERS},
    {KEY("context_management"), BODY_FOREIGN, .foreign = FIELD_CONTEXT},
    {KEY("fallbacks"), BODY_FOREIGN, .foreign = FIELD_FALLBACKS},
    {KEY("thread"), BODY_FOREIGN, .foreign = FIELD_THREAD},
    {KEY("cache_control"), BODY_FOREIGN, .foreign = FIELD_CACHE},
    {.form = BODY_UNKNOWN},
};

bool messages_read_request(struct json_reader *json, const char *body, size_t n, size_t readable,
                           struct neutral_request *request, struct ask_problem *problem)
{
    struct request_walk walk;

    request->want_usage = true;
    if (body_begin(&walk, json, DIALECT_ANTHROPIC, body, n, readable, request, problem))
        body_members(&walk, "", fields, request);
    if (!body_end(&walk))
        return false;
    if (request->n_turns == 0 ||
        (request->n_turns == 1 && request->turns[0].role == ROLE_INSTRUCTION))
        body_fail(&walk, "messages", "'messages' must have a message.");
    return !walk.failed;
}
