/* messages_request_write.c - the body of a message, written from the neutral form.
 *
 * Turns of one role that follow each other are one message here. All results of a turn's calls come
 * first in the message behind it, in the order of the calls. Leading instructions become `system`;
 * later ones stay where they stood, because to move one would change the prefix that is cached.
 * Empty texts are refused by this API, so they are left out.
 *
 * The marks of a cache are at most four; the last ones count, which cover the longest prefixes.
 */
#include <math.h>

#include "server/dialect/anthropic/anthropic.h"
#include "server/dialect/neutral/request_write.h"

#define CACHE_MARKS_MAX 4
#define THINKING_LEAST 1024

struct messages_write {
    struct request_write base;
    size_t marks_over; /* marks of a cache that are passed over before the first is written */
};

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void write_cache(struct messages_write *write, bool cache, struct slice ttl)
{
    struct json_writer *out = write->base.out;

    if (!cache)
        return;
    if (write->marks_over > 0) {
        write->marks_over--;
        return;
    }
    json_write_key(out, "cache_control");
    json_write_object(out);
    write_word(out, "type", "ephemeral");
    if (slice_equal(ttl, SLICE("5m")) || slice_equal(ttl, SLICE("1h")))
        write_text(out, "ttl", ttl);
    else if (slice_equal(ttl, SLICE("12h")))
        write_word(out, "ttl", "1h");
    json_write_object_end(out);
}

static void write_text_block(struct messages_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->base.out;

    if (part->text.n == 0)
        return;
    json_write_object(out);
    write_word(out, "type", "text");
    write_text(out, "text", part->text);
    write_cache(write, part->cache, part->ttl);
    json_write_object_end(out);
}

static bool is_image_type(struct slice mime)
{
    return slice_equal(mime, SLICE("image/jpeg")) || slice_equal(mime, SLICE("image/png")) ||
           slice_equal(mime, SLICE("image/gif")) || slice_equal(mime, SLICE("image/webp"));
}

static void write_media_block(struct messages_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->base.out;
    bool image = part->media == MEDIA_IMAGE, inside = part->source == SOURCE_INLINE;
    bool stored = part->source == SOURCE_STORED;

    if (part->media == MEDIA_AUDIO || part->media == MEDIA_VIDEO) {
        write_lose(&write->base, part->media == MEDIA_AUDIO ? FIELD_AUDIO_PART : FIELD_VIDEO_PART);
        return;
    }
    if (inside && image && !is_image_type(part->mime)) {
        write_lose(&write->base, FIELD_MEDIA_TYPE);
        return;
    }
    if (inside && !image && !slice_equal(part->mime, SLICE("application/pdf"))) {
        write_lose(&write->base, FIELD_DOCUMENT_PART);
        return;
    }
    json_write_object(out);
    write_word(out, "type", image ? "image" : "document");
    json_write_key(out, "source");
    json_write_object(out);
    write_word(out, "type", inside ? "base64" : stored ? "file" : "url");
    if (inside)
        write_text(out, "media_type", part->mime);
    write_text(out, inside ? "data" : stored ? "file_id" : "url", part->text);
    json_write_object_end(out);
    if (!image && part->name.n > 0)
        write_text(out, "title", part->name);
    write_cache(write, part->cache, part->ttl);
    json_write_object_end(out);
}

static void write_call_block(struct messages_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->base.out;

    json_write_object(out);
    write_word(out, "type", "tool_use");
    write_call_id(&write->base, "id", part->id);
    write_tool_name(&write->base, "name", part->name);
    json_write_key(out, "input");
    write_arguments(&write->base, part);
    write_cache(write, part->cache, part->ttl);
    json_write_object_end(out);
}

static void write_result_block(struct messages_write *write, size_t i)
{
    const struct neutral_request *request = write->base.request;
    const struct neutral_part *result = &request->parts[i];
    struct json_writer *out = write->base.out;

    json_write_object(out);
    write_word(out, "type", "tool_result");
    write_call_id(&write->base, "tool_use_id", result->id);
    json_write_key(out, "content");
    json_write_array(out);
    for (size_t k = i + 1; k <= i + result->inner; k++)
        if (request->parts[k].kind == PART_TEXT)
            write_text_block(write, &request->parts[k]);
        else if (request->parts[k].kind == PART_MEDIA)
            write_media_block(write, &request->parts[k]);
    json_write_array_end(out);
    if (result->error)
        write_bool(out, "is_error", true);
    write_cache(write, result->cache, result->ttl);
    json_write_object_end(out);
}

/* Only what the provider signed itself may come back to it. */
static void write_reasoning_block(struct messages_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->base.out;

    if (!part_is_own(&write->base, part))
        return;
    json_write_object(out);
    if (part->opaque_kind == OPAQUE_REDACTED) {
        write_word(out, "type", "redacted_thinking");
        write_text(out, "data", part->opaque);
    } else {
        write_word(out, "type", "thinking");
        write_text(out, "thinking", part->text);
        write_text(out, "signature", part->opaque);
    }
    json_write_object_end(out);
}

static void write_block(struct messages_write *write, const struct neutral_part *part)
{
    switch (part->kind) {
    case PART_TEXT:
    case PART_REFUSAL:
        write_text_block(write, part);
        break;
    case PART_MEDIA:
        write_media_block(write, part);
        break;
    case PART_CALL:
        write_call_block(write, part);
        break;
    case PART_REASONING:
        write_reasoning_block(write, part);
        break;
    case PART_FOREIGN:
        write_foreign_part(&write->base, part);
        break;
    case PART_RESULT:
        break;
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

static bool is_block(const struct messages_write *write, const struct neutral_part *part)
{
    switch (part->kind) {
    case PART_TEXT:
    case PART_REFUSAL:
        return part->text.n > 0;
    case PART_REASONING:
        return part_is_own(&write->base, part);
    case PART_FOREIGN:
        return write->base.request->from == DIALECT_ANTHROPIC;
    default:
        return true;
    }
}

static bool turn_is_empty(const struct messages_write *write, const struct neutral_turn *turn)
{
    const struct neutral_request *request = write->base.request;

    for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
        if (is_block(write, &request->parts[i]))
            return false;
    return true;
}

/* The role of a turn's message: "" for none. */
static const char *role_of(const struct messages_write *write, size_t t)
{
    const struct neutral_turn *turn = &write->base.request->turns[t];

    if (turn_is_empty(write, turn))
        return "";
    return turn->role == ROLE_MODEL                                            ? "assistant"
           : turn->role == ROLE_INSTRUCTION && write->base.target->late_system ? "system"
                                                                               : "user";
}

/* The results of the calls of the turns [from, to), which stand in [to, end). */
static void write_results(struct messages_write *write, size_t from, size_t to, size_t end)
{
    const struct neutral_request *request = write->base.request;

    for (size_t t = from; t < to; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i)) {
            if (request->parts[i].kind != PART_CALL)
                continue;
            size_t result = find_result(request, request->turns[t].end, request->turns[end - 1].end,
                                        request->parts[i].id);
            if (result != SIZE_MAX)
                write_result_block(write, result);
        }
}

/* Thinking must come first in a message of the model's. */
static void write_turn_blocks(struct messages_write *write, size_t from, size_t end, bool reasoning)
{
    const struct neutral_request *request = write->base.request;

    for (size_t t = from; t < end; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i))
            if ((request->parts[i].kind == PART_REASONING) == reasoning)
                write_block(write, &request->parts[i]);
}

/* Writes the message that begins at a turn; the turn behind it. `model` is where the message of the
 * model's before it began. */
static size_t write_message(struct messages_write *write, size_t t, size_t *model)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    const char *role = role_of(write, t);
    size_t end = t + 1;

    while (end < request->n_turns &&
           (strcmp(role_of(write, end), role) == 0 || role_of(write, end)[0] == '\0'))
        end++;
    json_write_object(out);
    write_word(out, "role", role);
    json_write_key(out, "content");
    json_write_array(out);
    if (strcmp(role, "assistant") == 0) {
        write_turn_blocks(write, t, end, true);
        *model = t;
    } else if (*model != SIZE_MAX) {
        write_results(write, *model, t, end);
        *model = SIZE_MAX;
    }
    write_turn_blocks(write, t, end, false);
    json_write_array_end(out);
    json_write_object_end(out);
    return end;
}

static void write_messages(struct messages_write *write, size_t first)
{
    const struct neutral_request *request = write->base.request;
    size_t end = request->n_turns, model = SIZE_MAX;

    while (first < end && role_of(write, first)[0] == '\0')
        first++;
    if (first == end) {
        write_nothing_said(&write->base);
        return;
    }
    if (strcmp(role_of(write, first), "assistant") == 0)
        write_fail(&write->base, "messages",
                   "A provider that speaks anthropic wants the user to speak first.");
    if (request->turns[end - 1].role == ROLE_MODEL && !write->base.target->prefill) {
        write_lose(&write->base, FIELD_PREFILL);
        while (end > first && request->turns[end - 1].role == ROLE_MODEL)
            end--;
    }
    json_write_key(write->base.out, "messages");
    json_write_array(write->base.out);
    while (first < end)
        first = role_of(write, first)[0] == '\0' ? first + 1 : write_message(write, first, &model);
    json_write_array_end(write->base.out);
}

/* The turns of instructions that come first; how many. */
static size_t write_system(struct messages_write *write)
{
    static const char json_only[] = "Answer with one JSON object and nothing else.";
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    size_t leading = 0;
    bool any = request->format == FORMAT_JSON;

    while (leading < request->n_turns && request->turns[leading].role == ROLE_INSTRUCTION)
        any |= !turn_is_empty(write, &request->turns[leading++]);
    if (!any)
        return leading;
    json_write_key(out, "system");
    json_write_array(out);
    for (size_t t = 0; t < leading; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i))
            if (request->parts[i].kind == PART_TEXT)
                write_text_block(write, &request->parts[i]);
    if (request->format == FORMAT_JSON)
        write_text_block(write, &(struct neutral_part){.text = slice_of(json_only)});
    json_write_array_end(out);
    return leading;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

static void write_tool(struct messages_write *write, const struct neutral_tool *tool)
{
    static const char wrapped[] = "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":"
                                  "\"string\"}},\"required\":[\"input\"]}";
    struct json_writer *out = write->base.out;

    if (tool->free && tool->grammar.n > 0)
        write_lose(&write->base, FIELD_GRAMMAR);
    if (write_own_tool(&write->base, tool))
        return;
    json_write_object(out);
    write_tool_name(&write->base, "name", tool->name);
    if (tool->description.n > 0)
        write_text(out, "description", tool->description);
    write_raw(out, "input_schema",
              tool->free           ? slice_of(wrapped)
              : tool->schema.n > 0 ? tool->schema
                                   : SLICE("{\"type\":\"object\"}"));
    if (tool->strict == TRI_TRUE)
        write_bool(out, "strict", true);
    write_cache(write, tool->cache, tool->ttl);
    json_write_object_end(out);
}

static void write_choice(struct messages_write *write)
{
    static const char *const types[] = {
        [CHOICE_UNSET] = "auto",           [CHOICE_AUTO] = "auto", [CHOICE_NONE] = "none",
        [CHOICE_REQUIRED] = "any",         [CHOICE_ONE] = "tool",  [CHOICE_ALLOWED] = "auto",
        [CHOICE_ALLOWED_REQUIRED] = "any",
    };
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    bool alone = request->parallel == TRI_FALSE && request->choice != CHOICE_NONE;

    if (request->choice == CHOICE_UNSET && !alone)
        return;
    json_write_key(out, "tool_choice");
    json_write_object(out);
    write_word(out, "type", types[request->choice]);
    if (request->choice == CHOICE_ONE)
        write_tool_name(&write->base, "name", request->names[0]);
    if (alone)
        write_bool(out, "disable_parallel_tool_use", true);
    json_write_object_end(out);
}

static void write_tools(struct messages_write *write)
{
    const struct neutral_request *request = write->base.request;

    if (!write_tools_begin(&write->base))
        return;
    for (size_t i = 0; i < request->n_tools; i++)
        if (tool_allowed(request, request->tools[i].name))
            write_tool(write, &request->tools[i]);
    write_tools_end(&write->base);
    write_choice(write);
}

/* ---- Reasoning and sampling ------------------------------------------------------------------ */

static bool is_forced(const struct neutral_request *request)
{
    return request->n_tools > 0 &&
           (request->choice == CHOICE_REQUIRED || request->choice == CHOICE_ONE ||
            request->choice == CHOICE_ALLOWED_REQUIRED);
}

/* Within a loop of tool calls the last turn's thinking must come back as it was signed. If it
 * cannot, because the client does not keep it or another provider wrote it, thinking is left off
 * for this call. */
static bool thinking_is_lost(const struct messages_write *write)
{
    const struct neutral_request *request = write->base.request;
    size_t t = request->n_turns;

    if (!request_in_loop(request))
        return false;
    while (t > 0 && request->turns[t - 1].role != ROLE_MODEL)
        t--;
    for (; t > 0 && request->turns[t - 1].role == ROLE_MODEL; t--)
        for (size_t i = request->turns[t - 1].first; i < request->turns[t - 1].end; i++)
            if (request->parts[i].kind == PART_REASONING &&
                part_is_own(&write->base, &request->parts[i]))
                return false;
    return true;
}

static void write_thinking_object(struct messages_write *write, const char *type, int64_t budget)
{
    struct json_writer *out = write->base.out;
    enum neutral_tri show = write->base.request->show_reasoning;

    json_write_key(out, "thinking");
    json_write_object(out);
    write_word(out, "type", type);
    if (budget > 0)
        write_integer(out, "budget_tokens", budget);
    if (show != TRI_UNSET && strcmp(type, "disabled") != 0)
        write_word(out, "display", show == TRI_TRUE ? "summarized" : "omitted");
    json_write_object_end(out);
}

/* True: the model will think. */
static bool write_thinking(struct messages_write *write, int64_t bound)
{
    const struct neutral_request *request = write->base.request;
    enum neutral_thinking kind = write->base.target->thinking;
    bool asked = request->budget != BUDGET_UNSET ||
                 (request->effort != EFFORT_UNSET && request->effort != EFFORT_NONE);
    bool off = request->budget == 0 || request->effort == EFFORT_NONE;
    int64_t budget = request->budget > 0 ? request->budget : effort_budget(request->effort);

    if (kind == THINKING_NONE || (!asked && !off))
        return false;
    if (off || is_forced(request) || thinking_is_lost(write)) {
        if (off || kind == THINKING_ADAPTIVE)
            write_thinking_object(write, "disabled", 0);
        return false;
    }
    if (kind == THINKING_ADAPTIVE) {
        write_thinking_object(write, "adaptive", 0);
        return true;
    }
    if (budget < THINKING_LEAST)
        budget = THINKING_LEAST;
    if (budget >= bound)
        budget = bound - 1;
    if (budget < THINKING_LEAST)
        return false; /* the answer would have no room */
    write_thinking_object(write, "enabled", budget);
    return true;
}

static void write_output_config(struct messages_write *write)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    enum neutral_effort effort = request_effort(request);
    bool efforts = write->base.target->thinking == THINKING_ADAPTIVE && effort > EFFORT_NONE;

    if (!efforts && request->format != FORMAT_SCHEMA)
        return;
    json_write_key(out, "output_config");
    json_write_object(out);
    if (efforts)
        write_word(out, "effort",
                   neutral_effort_name(effort == EFFORT_MINIMAL ? EFFORT_LOW : effort));
    if (request->format == FORMAT_SCHEMA) {
        json_write_key(out, "format");
        json_write_object(out);
        write_word(out, "type", "json_schema");
        write_raw(out, "schema",
                  request->format_schema.n > 0 ? request->format_schema
                                               : SLICE("{\"type\":\"object\"}"));
        json_write_object_end(out);
    }
    json_write_object_end(out);
}

static void write_sampling(struct messages_write *write, bool thinks)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    bool fixed = write->base.target->fixed_sampling || thinks;

    if (!isnan(request->temperature) && request->temperature != 1) {
        if (fixed || request->temperature > 1)
            write_lose(&write->base, FIELD_TEMPERATURE);
        else
            write_real(out, "temperature", request->temperature);
    }
    if (!isnan(request->top_p) && request->top_p != 1) {
        if (fixed)
            write_lose(&write->base, FIELD_TOP_P);
        else
            write_real(out, "top_p", request->top_p);
    }
    if (request->top_k >= 0) {
        if (fixed)
            write_lose(&write->base, FIELD_TOP_K);
        else
            write_integer(out, "top_k", request->top_k);
    }
    if (request->presence != 0 && !isnan(request->presence))
        write_lose(&write->base, FIELD_PRESENCE);
    if (request->frequency != 0 && !isnan(request->frequency))
        write_lose(&write->base, FIELD_FREQUENCY);
    if (request->n > 1)
        write_lose(&write->base, FIELD_N);
    if (request->logprobs == TRI_TRUE || request->top_logprobs > 0)
        write_lose(&write->base, FIELD_LOGPROBS);
    if (request->verbosity.n > 0 && !slice_equal(request->verbosity, SLICE("medium")))
        write_lose(&write->base, FIELD_VERBOSITY);
    if (request->n_stops == 0)
        return;
    json_write_key(out, "stop_sequences");
    json_write_array(out);
    for (size_t i = 0; i < request->n_stops; i++)
        json_write_string(out, request->stops[i].at, request->stops[i].n);
    json_write_array_end(out);
}

static void write_service(struct messages_write *write)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;

    if (request->user.n > 0) {
        json_write_key(out, "metadata");
        json_write_object(out);
        write_text(out, "user_id", request->user);
        json_write_object_end(out);
    }
    if (request->from == DIALECT_ANTHROPIC && request->tier != TIER_UNSET)
        write_word(out, "service_tier", request->tier == TIER_AUTO ? "auto" : "standard_only");
    if (request->stream)
        write_bool(out, "stream", true);
}

/* Marks beyond the last four are passed over. */
static size_t count_marks(const struct neutral_request *request)
{
    size_t marks = 0;

    for (size_t i = 0; i < request->n_parts; i++)
        marks += request->parts[i].cache;
    for (size_t i = 0; i < request->n_tools; i++)
        marks += request->tools[i].cache;
    return marks;
}

bool messages_write_request(struct json_reader *json, const struct neutral_request *request,
                            const struct neutral_target *target, struct json_writer *out,
                            struct neutral_dropped *dropped, struct ask_problem *problem)
{
    struct messages_write write = {.marks_over = 0};
    size_t marks = count_marks(request);
    int64_t bound = request->bound >= 0 ? request->bound : target->max_output;

    write.marks_over = marks > CACHE_MARKS_MAX ? marks - CACHE_MARKS_MAX : 0;
    if (target->max_output > 0 && bound > target->max_output)
        bound = target->max_output;
    if (write_begin(&write.base, json, request, target, DIALECT_ANTHROPIC, out, dropped, problem)) {
        json_write_object(out);
        if (target->vertex) /* the model stands in the path there */
            write_word(out, "anthropic_version", VERTEX_ANTHROPIC_VERSION);
        else
            write_text(out, "model", write_model(&write.base));
        write_integer(out, "max_tokens", bound);
        /* In the order of the prefix that is cached: tools, system, messages. */
        write_tools(&write);
        size_t leading = write_system(&write);
        write_messages(&write, leading);
        bool thinks = write_thinking(&write, bound);
        write_output_config(&write);
        write_sampling(&write, thinks);
        write_service(&write);
        write_extras(&write.base);
        json_write_object_end(out);
    }
    return write_end(&write.base);
}
