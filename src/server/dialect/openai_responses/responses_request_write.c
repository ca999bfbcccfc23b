/* responses_request_write.c - the body of a response, written from the neutral form.
 *
 * A turn becomes items: a message, calls, and the results of the calls behind the turn, in the
 * order of the calls. Reasoning goes back only to who encrypted it. The provider is told to keep
 * nothing, because no other API does, and to send what it thought in a form that the next call can
 * bring back.
 *
 * Ids of items pair reasoning with what follows it. They are written as they came where all
 * reasoning goes back, and else none of them is: a half of a pair would be refused.
 */
#include <math.h>

#include "server/dialect/neutral/request_write.h"
#include "server/dialect/openai_responses/openai_responses.h"

struct responses_write {
    struct request_write base;
    bool ids; /* ids of items are written */
};

/* ---- Parts of a message ---------------------------------------------------------------------- */

static void write_file(struct request_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->out;

    write_word(out, "type", "input_file");
    if (part->source == SOURCE_STORED) {
        write_text(out, "file_id", part->text);
        return;
    }
    write_text(out, part->source == SOURCE_INLINE ? "file_data" : "file_url",
               write_address(write, part));
    if (part->source == SOURCE_INLINE || part->name.n > 0)
        write_text(out, "filename", part->name.n > 0 ? part->name : SLICE("document.pdf"));
}

static void write_media(struct request_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->out;

    if (part->media == MEDIA_VIDEO ||
        (part->media == MEDIA_AUDIO && write->request->from != DIALECT_RESPONSES)) {
        write_lose(write, part->media == MEDIA_VIDEO ? FIELD_VIDEO_PART : FIELD_AUDIO_PART);
        return;
    }
    json_write_object(out);
    if (part->media == MEDIA_IMAGE) {
        write_word(out, "type", "input_image");
        write_text(out, part->source == SOURCE_STORED ? "file_id" : "image_url",
                   write_address(write, part));
        write_text(out, "detail", part->detail.n > 0 ? part->detail : SLICE("auto"));
    } else if (part->media == MEDIA_AUDIO) {
        write_word(out, "type", "input_audio");
        json_write_key(out, "input_audio");
        json_write_object(out);
        write_text(out, "data", part->text);
        write_word(out, "format", write_audio_format(part));
        json_write_object_end(out);
    } else {
        write_file(write, part);
    }
    json_write_object_end(out);
}

static void write_part(struct request_write *write, const struct neutral_part *part, bool model)
{
    struct json_writer *out = write->out;

    if (part->kind == PART_MEDIA) {
        write_media(write, part);
    } else if (part->kind == PART_FOREIGN) {
        write_foreign_part(write, part);
    } else if (part->kind == PART_TEXT || part->kind == PART_REFUSAL) {
        bool refusal = part->kind == PART_REFUSAL;
        json_write_object(out);
        write_word(out, "type", refusal ? "refusal" : model ? "output_text" : "input_text");
        write_text(out, refusal ? "refusal" : "text", part->text);
        if (model && !refusal) {
            json_write_key(out, "annotations");
            json_write_array(out);
            json_write_array_end(out);
        }
        json_write_object_end(out);
    }
}

/* ---- Items ----------------------------------------------------------------------------------- */

static void item_begin(struct responses_write *write, const char *type, struct slice id)
{
    json_write_object(write->base.out);
    write_word(write->base.out, "type", type);
    if (write->ids && id.n > 0)
        write_text(write->base.out, "id", id);
}

/* Whether a part is written within a message. */
static bool is_content(const struct neutral_part *part)
{
    return part->kind == PART_TEXT || part->kind == PART_REFUSAL || part->kind == PART_MEDIA ||
           (part->kind == PART_FOREIGN && !part->whole);
}

/* The parts of one message of the model's, from `i` on; the part behind them. */
static size_t write_model_message(struct responses_write *write, size_t i, size_t end)
{
    const struct neutral_part *parts = write->base.request->parts, *first = &parts[i];
    struct json_writer *out = write->base.out;

    item_begin(write, "message", first->item_id);
    write_word(out, "role", "assistant");
    if (first->phase.n > 0)
        write_text(out, "phase", first->phase);
    json_write_key(out, "content");
    json_write_array(out);
    for (; i < end && is_content(&parts[i]) && slice_equal(parts[i].item_id, first->item_id) &&
           slice_equal(parts[i].phase, first->phase);
         i++)
        write_part(&write->base, &parts[i], true);
    json_write_array_end(out);
    json_write_object_end(out);
    return i;
}

static void write_call(struct responses_write *write, const struct neutral_part *call)
{
    struct json_writer *out = write->base.out;

    item_begin(write, call->free ? "custom_tool_call" : "function_call", call->item_id);
    write_call_id(&write->base, "call_id", call->id);
    write_tool_name(&write->base, "name", call->name);
    write_text(out, call->free ? "input" : "arguments",
               call->text.n == 0 && !call->free ? SLICE("{}") : call->text);
    json_write_object_end(out);
}

/* What a model shows of its thoughts itself goes back as it is; else only what is encrypted. */
static bool reasoning_goes_back(const struct request_write *write, const struct neutral_part *part)
{
    return part_is_own(write, part) || (part->whole && part->opaque_kind == OPAQUE_NONE &&
                                        write->request->from == DIALECT_RESPONSES);
}

static void write_reasoning(struct responses_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->base.out;

    if (!reasoning_goes_back(&write->base, part))
        return;
    item_begin(write, "reasoning", part->item_id);
    json_write_key(out, "summary");
    json_write_array(out);
    if (!part->whole && part->text.n > 0) {
        json_write_object(out);
        write_word(out, "type", "summary_text");
        write_text(out, "text", part->text);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    if (part->whole) {
        json_write_key(out, "content");
        json_write_array(out);
        json_write_object(out);
        write_word(out, "type", "reasoning_text");
        write_text(out, "text", part->text);
        json_write_object_end(out);
        json_write_array_end(out);
    }
    if (part->opaque.n > 0)
        write_text(out, "encrypted_content", part->opaque);
    json_write_object_end(out);
}

/* A result is a text, or parts where it has more than texts. */
static void write_output(struct responses_write *write, size_t result)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    size_t end = result + 1 + request->parts[result].inner;
    bool texts = true;

    for (size_t i = result + 1; i < end; i++)
        texts &= request->parts[i].kind == PART_TEXT;
    if (texts) {
        write_text(out, "output", result_text(&write->base, result, true));
        return;
    }
    json_write_key(out, "output");
    json_write_array(out);
    if (request->parts[result].error)
        write_part(&write->base, &(struct neutral_part){.text = SLICE("Error:")}, false);
    for (size_t i = result + 1; i < end; i++)
        write_part(&write->base, &request->parts[i], false);
    json_write_array_end(out);
}

static void write_results(struct responses_write *write, size_t t)
{
    const struct neutral_request *request = write->base.request;
    struct tool_answer answer = turn_answers(request, t);

    while (next_answer(request, &answer)) {
        const struct neutral_part *call = &request->parts[answer.call];
        json_write_object(write->base.out);
        write_word(write->base.out, "type",
                   call->free ? "custom_tool_call_output" : "function_call_output");
        write_call_id(&write->base, "call_id", call->id);
        write_output(write, answer.result);
        json_write_object_end(write->base.out);
    }
}

static void write_model_turn(struct responses_write *write, const struct neutral_turn *turn)
{
    const struct neutral_part *parts = write->base.request->parts;

    for (size_t i = turn->first; i < turn->end;) {
        if (is_content(&parts[i])) {
            i = write_model_message(write, i, turn->end);
            continue;
        }
        if (parts[i].kind == PART_CALL)
            write_call(write, &parts[i]);
        else if (parts[i].kind == PART_REASONING)
            write_reasoning(write, &parts[i]);
        else if (parts[i].kind == PART_FOREIGN)
            write_foreign_part(&write->base, &parts[i]);
        i = part_next(write->base.request, i);
    }
}

static void write_message(struct responses_write *write, const struct neutral_turn *turn)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;

    json_write_object(out);
    write_word(out, "type", "message");
    write_word(out, "role",
               turn->role == ROLE_USER ? "user"
               : turn->developer       ? "developer"
                                       : "system");
    json_write_key(out, "content");
    json_write_array(out);
    for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
        if (is_content(&request->parts[i]))
            write_part(&write->base, &request->parts[i], false);
    json_write_array_end(out);
    json_write_object_end(out);
}

static void write_turn(struct responses_write *write, size_t t)
{
    const struct neutral_request *request = write->base.request;
    const struct neutral_turn *turn = &request->turns[t];
    bool content = turn->first == turn->end;

    if (turn->role == ROLE_MODEL) {
        write_model_turn(write, turn);
        write_results(write, t);
        return;
    }
    for (size_t i = turn->first; i < turn->end; i = part_next(request, i)) {
        content |= is_content(&request->parts[i]);
        if (request->parts[i].kind == PART_FOREIGN && request->parts[i].whole)
            write_foreign_part(&write->base, &request->parts[i]);
    }
    if (content)
        write_message(write, turn);
}

/* One plain text at the beginning is `instructions`. */
static size_t write_instructions(struct responses_write *write)
{
    const struct neutral_request *request = write->base.request;
    const struct neutral_turn *turn = &request->turns[0];

    if (request->n_turns < 2 || turn->role != ROLE_INSTRUCTION || turn->developer ||
        turn->end - turn->first != 1 || request->parts[turn->first].kind != PART_TEXT ||
        request->turns[1].role == ROLE_INSTRUCTION)
        return 0;
    write_text(write->base.out, "instructions", request->parts[turn->first].text);
    return 1;
}

static void write_input(struct responses_write *write)
{
    const struct neutral_request *request = write->base.request;
    struct json_writer *out = write->base.out;
    size_t first = write_instructions(write);

    json_write_key(out, "input");
    json_write_array(out);
    size_t before = out->text.size;
    for (size_t t = first; t < request->n_turns; t++)
        write_turn(write, t);
    if (out->text.size == before)
        write_nothing_said(&write->base);
    json_write_array_end(out);
}

/* ---- Tools and format ------------------------------------------------------------------------ */

static void write_grammar(struct request_write *write, const struct neutral_tool *tool)
{
    struct json_writer *out = write->out;

    if (tool->grammar.n == 0)
        return;
    json_write_key(out, "format");
    json_write_object(out);
    write_word(out, "type", "grammar");
    write_text(out, "syntax", tool->syntax);
    write_text(out, "definition", tool->grammar);
    json_write_object_end(out);
}

static void write_tool(struct request_write *write, const struct neutral_tool *tool)
{
    struct json_writer *out = write->out;

    if (write_own_tool(write, tool))
        return;
    json_write_object(out);
    write_word(out, "type", tool->free ? "custom" : "function");
    write_tool_name(write, "name", tool->name);
    if (tool->description.n > 0)
        write_text(out, "description", tool->description);
    if (tool->free) {
        write_grammar(write, tool);
    } else {
        write_raw(out, "parameters",
                  tool->schema.n > 0 ? tool->schema
                                     : SLICE("{\"type\":\"object\",\"properties\":{}}"));
        /* Absent means true here, and false elsewhere. */
        if (tool->strict != TRI_UNSET || write->request->from != DIALECT_RESPONSES)
            write_bool(out, "strict", tool->strict == TRI_TRUE);
    }
    json_write_object_end(out);
}

static void write_named_tool(struct request_write *write, struct slice name)
{
    json_write_object(write->out);
    write_word(write->out, "type", tool_is_free(write->request, name) ? "custom" : "function");
    write_tool_name(write, "name", name);
    json_write_object_end(write->out);
}

static void write_response_choice(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    enum neutral_choice choice = request->choice;

    if (choice == CHOICE_UNSET)
        return;
    json_write_key(out, "tool_choice");
    if (choice == CHOICE_ONE) {
        write_named_tool(write, request->names[0]);
    } else if (choice == CHOICE_ALLOWED || choice == CHOICE_ALLOWED_REQUIRED) {
        json_write_object(out);
        write_word(out, "type", "allowed_tools");
        write_word(out, "mode", choice == CHOICE_ALLOWED ? "auto" : "required");
        json_write_key(out, "tools");
        json_write_array(out);
        for (size_t i = 0; i < request->n_names; i++)
            write_named_tool(write, request->names[i]);
        json_write_array_end(out);
        json_write_object_end(out);
    } else {
        const char *word = choice_word(choice);
        json_write_string(out, word, strlen(word));
    }
}

static void write_response_tools(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    if (write_tools_begin(write)) {
        for (size_t i = 0; i < request->n_tools; i++)
            write_tool(write, &request->tools[i]);
        write_tools_end(write);
        write_response_choice(write);
        if (request->parallel != TRI_UNSET)
            write_bool(write->out, "parallel_tool_calls", request->parallel == TRI_TRUE);
    }
}

static void write_format(struct request_write *write)
{
    static const char *const types[] = {
        [FORMAT_TEXT] = "text", [FORMAT_JSON] = "json_object", [FORMAT_SCHEMA] = "json_schema"};
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    if (request->format == FORMAT_TEXT && request->verbosity.n == 0)
        return;
    json_write_key(out, "text");
    json_write_object(out);
    if (request->format != FORMAT_TEXT) {
        json_write_key(out, "format");
        json_write_object(out);
        write_word(out, "type", types[request->format]);
        if (request->format == FORMAT_SCHEMA)
            write_schema(write);
        json_write_object_end(out);
    }
    if (request->verbosity.n > 0)
        write_text(out, "verbosity", request->verbosity);
    json_write_object_end(out);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void write_response_sampling(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    if (request->bound >= 0)
        write_integer(write->out, "max_output_tokens", request->bound);
    write_temperature(write);
    if (request->n_stops > 0)
        write_lose(write, FIELD_STOP);
    if (request->presence != 0 && !isnan(request->presence))
        write_lose(write, FIELD_PRESENCE);
    if (request->frequency != 0 && !isnan(request->frequency))
        write_lose(write, FIELD_FREQUENCY);
    if (request->top_k >= 0)
        write_lose(write, FIELD_TOP_K);
    if (request->has_seed)
        write_lose(write, FIELD_SEED);
    if (request->n > 1)
        write_lose(write, FIELD_N);
    if (request->from == DIALECT_RESPONSES && request->top_logprobs >= 0)
        write_integer(write->out, "top_logprobs", request->top_logprobs);
    else if (request->logprobs == TRI_TRUE)
        write_lose(write, FIELD_LOGPROBS);
}

/* What was thought comes back encrypted, unless the provider keeps it itself. */
static void write_include(struct request_write *write, bool stores)
{
    struct json_writer *out = write->out;
    bool logprobs =
        write->request->from == DIALECT_RESPONSES && write->request->logprobs == TRI_TRUE;
    bool encrypted = !stores && write->target->thinking != THINKING_NONE;

    if (!logprobs && !encrypted)
        return;
    json_write_key(out, "include");
    json_write_array(out);
    if (encrypted)
        json_write_string(out, "reasoning.encrypted_content", 27);
    if (logprobs)
        json_write_string(out, "message.output_text.logprobs", 28);
    json_write_array_end(out);
}

static void write_reasoning_options(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    enum neutral_effort effort = write_effort_of(write);

    if (effort == EFFORT_UNSET && request->show_reasoning != TRI_TRUE)
        return;
    if (write->target->thinking == THINKING_NONE)
        return;
    json_write_key(out, "reasoning");
    json_write_object(out);
    if (effort != EFFORT_UNSET)
        write_word(out, "effort", neutral_effort_name(effort));
    if (request->show_reasoning == TRI_TRUE)
        write_word(out, "summary", "auto");
    json_write_object_end(out);
}

/* Nothing is stored but for a client that knows that it is, and can ask for it later. */
static void write_service(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    bool own = request->from == DIALECT_RESPONSES;
    bool stores = own ? request->store != TRI_FALSE
                      : request->from == DIALECT_CHAT && request->store == TRI_TRUE;

    if (!own || request->store != TRI_UNSET)
        write_bool(write->out, "store", stores);
    write_include(write, stores);
    write_reasoning_options(write);
    write_openai_service(write);
    if (request->stream)
        write_bool(write->out, "stream", true);
}

static bool all_reasoning_goes_back(const struct request_write *write)
{
    const struct neutral_request *request = write->request;

    for (size_t i = 0; i < request->n_parts; i++)
        if (request->parts[i].kind == PART_REASONING &&
            !reasoning_goes_back(write, &request->parts[i]))
            return false;
    return true;
}

bool responses_write_request(struct json_reader *json, const struct neutral_request *request,
                             const struct neutral_target *target, struct json_writer *out,
                             struct neutral_dropped *dropped, struct ask_problem *problem)
{
    struct responses_write write = {.ids = false};

    if (write_begin(&write.base, json, request, target, DIALECT_RESPONSES, out, dropped, problem)) {
        write.ids = all_reasoning_goes_back(&write.base);
        write_prefill(&write.base);
        json_write_object(out);
        write_text(out, "model", write_model(&write.base));
        write_input(&write);
        write_response_tools(&write.base);
        write_format(&write.base);
        write_response_sampling(&write.base);
        write_service(&write.base);
        write_extras(&write.base);
        json_write_object_end(out);
    }
    return write_end(&write.base);
}
