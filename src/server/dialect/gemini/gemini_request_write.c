/* gemini_request_write.c - the body of generateContent, written from the neutral form.
 *
 * Turns of one role that follow each other are one content here, and the results of a content's
 * calls are as many parts of the next one, in the order of the calls. A result names its tool,
 * which is found by the id of the call.
 *
 * Models of the third generation on refuse a call of the current turn that has not the signature
 * it was made with. One that comes from another model, or through a client that lost it, has the
 * value that the documents give for that.
 */
#include <math.h>

#include "server/dialect/gemini/gemini.h"
#include "server/dialect/neutral/request_write.h"

#define SKIP_VALIDATOR "skip_thought_signature_validator"
#define STOPS_MAX 5

/* ---- Parts ----------------------------------------------------------------------------------- */

static void write_text_part(struct json_writer *out, struct slice text)
{
    if (text.n == 0)
        return;
    json_write_object(out);
    write_text(out, "text", text);
    json_write_object_end(out);
}

/* The type of what stands at an address, by its ending; "": not known. */
static struct slice type_of_address(struct slice address)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".png", "image/png"},   {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"},
        {".webp", "image/webp"}, {".gif", "image/gif"},  {".pdf", "application/pdf"},
    };

    for (size_t i = 0; i < address.n; i++) /* a query is no ending */
        if (address.at[i] == '?' || address.at[i] == '#')
            address.n = i;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t n = strlen(types[i].ending);
        if (address.n > n && memcmp(address.at + address.n - n, types[i].ending, n) == 0)
            return slice_of(types[i].type);
    }
    return (struct slice){"", 0};
}

static void write_media_part(struct request_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->out;
    bool inside = part->source == SOURCE_INLINE;
    struct slice mime = part->mime.n > 0 ? part->mime : type_of_address(part->text);
    bool other = part->media == MEDIA_IMAGE && slice_equal(mime, SLICE("application/pdf"));

    if (mime.n == 0 || other) {
        write_lose(write, FIELD_MEDIA_TYPE);
        return;
    }
    json_write_object(out);
    json_write_key(out, inside ? "inlineData" : "fileData");
    json_write_object(out);
    write_text(out, "mimeType", mime);
    write_text(out, inside ? "data" : "fileUri", part->text);
    json_write_object_end(out);
    json_write_object_end(out);
}

static void write_call_part(struct request_write *write, const struct neutral_part *part,
                            bool first)
{
    struct json_writer *out = write->out;

    json_write_object(out);
    json_write_key(out, "functionCall");
    json_write_object(out);
    write_call_id(write, "id", part->id);
    write_tool_name(write, "name", part->name);
    json_write_key(out, "args");
    write_arguments(write, part);
    json_write_object_end(out);
    if (part_is_own(write, part) && part->opaque_kind == OPAQUE_THOUGHT)
        write_text(out, "thoughtSignature", part->opaque);
    else if (first && write->target->thinking == THINKING_ADAPTIVE)
        write_word(out, "thoughtSignature", SKIP_VALIDATOR);
    json_write_object_end(out);
}

/* The media of a result, within it where the model takes that, and behind it otherwise. */
static void write_result_media(struct request_write *write, size_t i)
{
    const struct neutral_request *request = write->request;

    for (size_t k = i + 1; k <= i + request->parts[i].inner; k++)
        if (request->parts[k].kind == PART_MEDIA)
            write_media_part(write, &request->parts[k]);
}

static void write_result_part(struct request_write *write, size_t i)
{
    const struct neutral_request *request = write->request;
    const struct neutral_part *result = &request->parts[i];
    const struct neutral_part *call = find_call(request, i, result->id);
    struct json_writer *out = write->out;

    json_write_object(out);
    json_write_key(out, "functionResponse");
    json_write_object(out);
    write_call_id(write, "id", result->id);
    write_tool_name(write, "name", call != NULL ? call->name : result->name);
    json_write_key(out, "response");
    json_write_object(out);
    write_text(out, result->error ? "error" : "output", result_text(write, i, false));
    json_write_object_end(out);
    if (write->target->media_results) {
        json_write_key(out, "parts");
        json_write_array(out);
        write_result_media(write, i);
        json_write_array_end(out);
    }
    json_write_object_end(out);
    json_write_object_end(out);
}

/* ---- Contents -------------------------------------------------------------------------------- */

static bool is_part(const struct neutral_part *part)
{
    if (part->kind == PART_REASONING || part->kind == PART_FOREIGN)
        return false;
    return (part->kind != PART_TEXT && part->kind != PART_REFUSAL) || part->text.n > 0;
}

static bool turn_says_nothing(const struct neutral_request *request, size_t t)
{
    for (size_t i = request->turns[t].first; i < request->turns[t].end; i = part_next(request, i))
        if (is_part(&request->parts[i]))
            return false;
    return true;
}

/* The turn behind the last words of the user's: signatures before it are not looked at. */
static size_t current_turn(const struct neutral_request *request)
{
    for (size_t t = request->n_turns; t-- > 0;)
        if (request->turns[t].role == ROLE_USER)
            for (size_t i = request->turns[t].first; i < request->turns[t].end;
                 i = part_next(request, i))
                if (request->parts[i].kind != PART_RESULT)
                    return t;
    return 0;
}

static void write_model_parts(struct request_write *write, size_t from, size_t end, bool current)
{
    const struct neutral_request *request = write->request;
    bool first = true;

    for (size_t t = from; t < end; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i)) {
            const struct neutral_part *part = &request->parts[i];
            if (part->kind == PART_CALL) {
                write_call_part(write, part, first && current);
                first = false;
            } else if (part->kind == PART_MEDIA) {
                write_media_part(write, part);
            } else if (part->kind == PART_TEXT || part->kind == PART_REFUSAL) {
                write_text_part(write->out, part->text);
            }
        }
}

/* Results of the calls of the turns [from, to) come first, then what the user says. */
static void write_user_parts(struct request_write *write, size_t from, size_t to, size_t end)
{
    const struct neutral_request *request = write->request;

    for (int media = 0; media < 2; media++)
        for (size_t t = from; t < to; t++)
            for (size_t i = request->turns[t].first; i < request->turns[t].end;
                 i = part_next(request, i)) {
                if (request->parts[i].kind != PART_CALL)
                    continue;
                size_t result = find_result(request, request->turns[t].end,
                                            request->turns[end - 1].end, request->parts[i].id);
                if (result != SIZE_MAX && media == 0)
                    write_result_part(write, result);
                else if (result != SIZE_MAX && !write->target->media_results)
                    write_result_media(write, result);
            }
    for (size_t t = to; t < end; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i)) {
            if (request->parts[i].kind == PART_MEDIA)
                write_media_part(write, &request->parts[i]);
            else if (request->parts[i].kind == PART_TEXT)
                write_text_part(write->out, request->parts[i].text);
        }
}

static void write_contents(struct request_write *write, size_t t)
{
    const struct neutral_request *request = write->request;
    size_t calls = SIZE_MAX, end, last = request->n_turns, current = current_turn(request);

    while (t < last && turn_says_nothing(request, t))
        t++;
    if (t == last || request->turns[t].role == ROLE_MODEL)
        write_fail(write, "messages",
                   "A provider that speaks gemini wants the user to speak first.");
    if (request->turns[last - 1].role == ROLE_MODEL) {
        write_lose(write, FIELD_PREFILL);
        while (last > t && request->turns[last - 1].role == ROLE_MODEL)
            last--;
    }
    json_write_key(write->out, "contents");
    json_write_array(write->out);
    for (; t < last; t = end) {
        bool model = request->turns[t].role == ROLE_MODEL;
        end = t + 1;
        while (end < last && ((request->turns[end].role == ROLE_MODEL) == model ||
                              turn_says_nothing(request, end)))
            end++;
        if (turn_says_nothing(request, t)) {
            end = t + 1;
            continue;
        }
        json_write_object(write->out);
        write_word(write->out, "role", model ? "model" : "user");
        json_write_key(write->out, "parts");
        json_write_array(write->out);
        if (model)
            write_model_parts(write, t, end, t > current);
        else
            write_user_parts(write, calls < t ? calls : t, t, end);
        json_write_array_end(write->out);
        json_write_object_end(write->out);
        calls = model ? t : SIZE_MAX;
    }
    json_write_array_end(write->out);
}

/* The turns of instructions that come first; how many. */
static size_t write_system(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    size_t leading = 0;
    bool any = false;

    while (leading < request->n_turns && request->turns[leading].role == ROLE_INSTRUCTION)
        any |= !turn_says_nothing(request, leading++);
    if (!any)
        return leading;
    json_write_key(write->out, "systemInstruction");
    json_write_object(write->out);
    json_write_key(write->out, "parts");
    json_write_array(write->out);
    for (size_t t = 0; t < leading; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i))
            if (request->parts[i].kind == PART_TEXT)
                write_text_part(write->out, request->parts[i].text);
    json_write_array_end(write->out);
    json_write_object_end(write->out);
    return leading;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* The schema goes into the field that takes JSON schemas: the older one refuses half of them. */
static void write_declaration(struct request_write *write, const struct neutral_tool *tool)
{
    struct json_writer *out = write->out;

    if (tool->free && tool->grammar.n > 0)
        write_lose(write, FIELD_GRAMMAR);
    json_write_object(out);
    write_tool_name(write, "name", tool->name);
    if (tool->description.n > 0)
        write_text(out, "description", tool->description);
    if (tool->free)
        write_raw(out, "parametersJsonSchema",
                  SLICE("{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
                        "\"required\":[\"input\"]}"));
    else if (tool->schema.n > 0)
        write_raw(out, "parametersJsonSchema", tool->schema);
    json_write_object_end(out);
}

static void write_tool_config(struct request_write *write)
{
    static const char *const modes[] = {
        [CHOICE_AUTO] = "AUTO", [CHOICE_NONE] = "NONE",         [CHOICE_REQUIRED] = "ANY",
        [CHOICE_ONE] = "ANY",   [CHOICE_ALLOWED] = "VALIDATED", [CHOICE_ALLOWED_REQUIRED] = "ANY",
    };
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    char room[TOOL_NAME_MAX];

    if (request->parallel == TRI_FALSE)
        write_lose(write, FIELD_PARALLEL);
    if (request->choice == CHOICE_UNSET)
        return;
    json_write_key(out, "toolConfig");
    json_write_object(out);
    json_write_key(out, "functionCallingConfig");
    json_write_object(out);
    write_word(out, "mode", modes[request->choice]);
    if (request->choice >= CHOICE_ONE) {
        json_write_key(out, "allowedFunctionNames");
        json_write_array(out);
        for (size_t i = 0; i < request->n_names; i++) {
            struct slice name = neutral_tool_name(request->names[i], DIALECT_GEMINI, room);
            json_write_string(out, name.at, name.n);
        }
        json_write_array_end(out);
    }
    json_write_object_end(out);
    json_write_object_end(out);
}

static void write_declarations(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    if (request->n_tools == 0)
        return;
    json_write_key(out, "tools");
    json_write_array(out);
    json_write_object(out);
    json_write_key(out, "functionDeclarations");
    json_write_array(out);
    for (size_t i = 0; i < request->n_tools; i++)
        write_declaration(write, &request->tools[i]);
    json_write_array_end(out);
    json_write_object_end(out);
    json_write_array_end(out);
}

static void write_tools(struct request_write *write)
{
    write_declarations(write);
    if (write->request->n_tools > 0)
        write_tool_config(write);
}

/* ---- generationConfig ------------------------------------------------------------------------ */

static void write_thinking(struct request_write *write)
{
    static const char *const levels[EFFORT_COUNT] = {NULL,     "MINIMAL", "MINIMAL", "LOW",
                                                     "MEDIUM", "HIGH",    "HIGH",    "HIGH"};
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    enum neutral_effort effort = request_effort(request);
    bool budgets = write->target->thinking == THINKING_BUDGET;
    bool asked = effort != EFFORT_UNSET || (budgets && request->budget != BUDGET_UNSET);

    if (write->target->thinking == THINKING_NONE ||
        (!asked && request->show_reasoning == TRI_UNSET))
        return;
    json_write_key(out, "thinkingConfig");
    json_write_object(out);
    if (asked && budgets)
        write_integer(out, "thinkingBudget",
                      request->budget != BUDGET_UNSET ? request->budget : effort_budget(effort));
    else if (asked)
        write_word(out, "thinkingLevel", levels[effort]);
    if (request->show_reasoning != TRI_UNSET)
        write_bool(out, "includeThoughts", request->show_reasoning == TRI_TRUE);
    json_write_object_end(out);
}

static void write_sampling(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    if (request->bound >= 0)
        write_integer(out, "maxOutputTokens", request->bound);
    write_real(out, "temperature", request->temperature);
    write_real(out, "topP", request->top_p);
    if (request->top_k >= 0)
        write_integer(out, "topK", request->top_k);
    write_real(out, "presencePenalty", request->presence);
    write_real(out, "frequencyPenalty", request->frequency);
    if (request->has_seed)
        write_integer(out, "seed", request->seed);
    if (request->n >= 0)
        write_integer(out, "candidateCount", request->n);
    if (request->logprobs == TRI_TRUE || request->top_logprobs > 0)
        write_lose(write, FIELD_LOGPROBS);
    if (request->verbosity.n > 0 && !slice_equal(request->verbosity, SLICE("medium")))
        write_lose(write, FIELD_VERBOSITY);
    if (request->n_stops > STOPS_MAX)
        write_fail(write, "stop", "A provider that speaks gemini takes at most 5 stop sequences.");
    if (request->n_stops == 0)
        return;
    json_write_key(out, "stopSequences");
    json_write_array(out);
    for (size_t i = 0; i < request->n_stops; i++)
        json_write_string(out, request->stops[i].at, request->stops[i].n);
    json_write_array_end(out);
}

static void write_config(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    json_write_key(out, "generationConfig");
    json_write_object(out);
    write_sampling(write);
    if (request->format != FORMAT_TEXT)
        write_word(out, "responseMimeType", "application/json");
    if (request->format == FORMAT_SCHEMA && request->format_schema.n > 0)
        write_raw(out, "responseJsonSchema", request->format_schema);
    write_thinking(write);
    json_write_object_end(out);
}

/* What is counted. The Gemini API wants it as a request to generate, for the model; Vertex AI as it
 * is. Nothing else of a request is known to either. */
static void write_counted(struct request_write *write)
{
    struct json_writer *out = write->out;
    bool wrapped = !write->target->vertex;

    json_write_object(out);
    if (wrapped) {
        struct slice model = write_model(write);
        json_write_key(out, "generateContentRequest");
        json_write_object(out);
        text_out_clear(&write->scratch);
        text_out_text(&write->scratch, "models/");
        text_out_slice(&write->scratch, model);
        write_text(out, "model", text_out_written(&write->scratch));
    }
    size_t leading = write_system(write);
    write_contents(write, leading);
    write_declarations(write);
    if (wrapped)
        json_write_object_end(out);
    json_write_object_end(out);
}

bool gemini_write_request(struct json_reader *json, const struct neutral_request *request,
                          const struct neutral_target *target, struct json_writer *out,
                          struct neutral_dropped *dropped, struct ask_problem *problem)
{
    struct request_write write;

    if (write_begin(&write, json, request, target, DIALECT_GEMINI, out, dropped, problem)) {
        if (target->counts) {
            write_counted(&write);
            return write_end(&write);
        }
        json_write_object(out);
        size_t leading = write_system(&write);
        write_contents(&write, leading);
        write_tools(&write);
        write_config(&write);
        if (request->tier == TIER_FLEX || request->tier == TIER_PRIORITY)
            write_word(out, "serviceTier", request->tier == TIER_FLEX ? "flex" : "priority");
        json_write_object_end(out);
    }
    return write_end(&write);
}
