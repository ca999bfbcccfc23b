/* chat_request_write.c - the body of a chat completion, written from the neutral form.
 *
 * Results of tools are messages of their own, one for each call in the order of the calls, directly
 * behind the message that has the calls. They take text alone, so images in them follow in a user
 * message. A stream always asks for its usage: whoever translates it meters by that.
 */
#include <math.h>

#include "server/dialect/neutral/request_write.h"
#include "server/dialect/openai_chat/openai_chat.h"

/* ---- Parts ----------------------------------------------------------------------------------- */

static void write_media(struct request_write *write, const struct neutral_part *part)
{
    struct json_writer *out = write->out;
    bool image = part->media == MEDIA_IMAGE, audio = part->media == MEDIA_AUDIO;

    if (part->media == MEDIA_VIDEO || (!image && part->source == SOURCE_URL)) {
        write_lose(write, part->media == MEDIA_VIDEO ? FIELD_VIDEO_PART : FIELD_DOCUMENT_PART);
        return;
    }
    json_write_object(out);
    write_word(out, "type", image ? "image_url" : audio ? "input_audio" : "file");
    json_write_key(out, image ? "image_url" : audio ? "input_audio" : "file");
    json_write_object(out);
    if (image) {
        write_text(out, "url", write_address(write, part));
        if (part->detail.n > 0)
            write_text(out, "detail", part->detail);
    } else if (audio) {
        write_text(out, "data", part->text);
        write_word(out, "format", write_audio_format(part));
    } else if (part->source == SOURCE_STORED) {
        write_text(out, "file_id", part->text);
    } else {
        write_text(out, "file_data", write_address(write, part));
        write_text(out, "filename", part->name.n > 0 ? part->name : SLICE("document.pdf"));
    }
    json_write_object_end(out);
    json_write_object_end(out);
}

static void write_part(struct request_write *write, const struct neutral_part *part)
{
    if (part->kind == PART_MEDIA) {
        write_media(write, part);
    } else if (part->kind == PART_FOREIGN) {
        write_foreign_part(write, part);
    } else if (part->kind == PART_TEXT && part->text.n > 0) {
        json_write_object(write->out);
        write_word(write->out, "type", "text");
        write_text(write->out, "text", part->text);
        json_write_object_end(write->out);
    }
}

/* One text is a string; several parts are a list. `shown` counts the parts that are written. */
static void write_content(struct request_write *write, size_t first, size_t end)
{
    const struct neutral_part *parts = write->request->parts;
    const struct neutral_part *only = NULL;
    size_t shown = 0;

    for (size_t i = first; i < end; i = part_next(write->request, i))
        if ((parts[i].kind == PART_TEXT && parts[i].text.n > 0) || parts[i].kind == PART_MEDIA ||
            parts[i].kind == PART_FOREIGN) {
            only = &parts[i];
            shown++;
        }
    json_write_key(write->out, "content");
    if (shown == 0) {
        json_write_string(write->out, "", 0);
    } else if (shown == 1 && only->kind == PART_TEXT) {
        json_write_string(write->out, only->text.at, only->text.n);
    } else {
        json_write_array(write->out);
        for (size_t i = first; i < end; i = part_next(write->request, i))
            write_part(write, &parts[i]);
        json_write_array_end(write->out);
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void write_call_part(struct request_write *write, const struct neutral_part *call)
{
    struct json_writer *out = write->out;

    json_write_object(out);
    write_call_id(write, "id", call->id);
    write_word(out, "type", call->free ? "custom" : "function");
    json_write_key(out, call->free ? "custom" : "function");
    json_write_object(out);
    write_tool_name(write, "name", call->name);
    write_text(out, call->free ? "input" : "arguments",
               call->text.n == 0 && !call->free ? SLICE("{}") : call->text);
    json_write_object_end(out);
    json_write_object_end(out);
}

/* What the model thought goes back only to servers that ask for it by a field of their own. */
static void write_reasoning(struct request_write *write, const struct neutral_turn *turn)
{
    enum neutral_reasoning_field field = write->target->reasoning_field;

    if (field == REASONING_FIELD_NONE)
        return;
    text_out_clear(&write->scratch);
    for (size_t i = turn->first; i < turn->end; i = part_next(write->request, i))
        if (write->request->parts[i].kind == PART_REASONING)
            text_out_slice(&write->scratch, write->request->parts[i].text);
    if (write->scratch.size > 0)
        write_text(write->out, field == REASONING_FIELD_CONTENT ? "reasoning_content" : "reasoning",
                   text_out_written(&write->scratch));
}

static void write_model_turn(struct request_write *write, const struct neutral_turn *turn)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    bool calls = false;

    json_write_object(out);
    write_word(out, "role", "assistant");
    write_content(write, turn->first, turn->end);
    for (size_t i = turn->first; i < turn->end; i = part_next(request, i)) {
        calls |= request->parts[i].kind == PART_CALL;
        if (request->parts[i].kind == PART_REFUSAL)
            write_text(out, "refusal", request->parts[i].text);
    }
    write_reasoning(write, turn);
    if (calls) {
        json_write_key(out, "tool_calls");
        json_write_array(out);
        for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
            if (request->parts[i].kind == PART_CALL)
                write_call_part(write, &request->parts[i]);
        json_write_array_end(out);
    }
    json_write_object_end(out);
}

static bool result_has_media(const struct neutral_request *request, size_t i)
{
    for (size_t k = i + 1; k <= i + request->parts[i].inner; k++)
        if (request->parts[k].kind == PART_MEDIA)
            return true;
    return false;
}

/* The media of results, which a result cannot have, in a message of the user's. */
static void write_result_media(struct request_write *write, const struct neutral_turn *turn)
{
    const struct neutral_request *request = write->request;
    bool any = false;

    for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
        any |= request->parts[i].kind == PART_RESULT && result_has_media(request, i);
    if (!any)
        return;
    json_write_object(write->out);
    write_word(write->out, "role", "user");
    json_write_key(write->out, "content");
    json_write_array(write->out);
    for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
        if (request->parts[i].kind == PART_RESULT)
            for (size_t k = i + 1; k <= i + request->parts[i].inner; k++)
                if (request->parts[k].kind == PART_MEDIA)
                    write_media(write, &request->parts[k]);
    json_write_array_end(write->out);
    json_write_object_end(write->out);
}

/* All results between the turn that called and the model's next, in the order of the calls. */
static void write_results(struct request_write *write, size_t t)
{
    const struct neutral_request *request = write->request;
    struct tool_answer answer = turn_answers(request, t);

    while (next_answer(request, &answer)) {
        json_write_object(write->out);
        write_word(write->out, "role", "tool");
        write_call_id(write, "tool_call_id", request->parts[answer.call].id);
        write_text(write->out, "content", result_text(write, answer.result, true));
        json_write_object_end(write->out);
    }
    for (t++; t < request->n_turns && request->turns[t].role != ROLE_MODEL; t++)
        write_result_media(write, &request->turns[t]);
}

/* Whether a user's turn has more than results. */
static bool says_more(const struct neutral_request *request, const struct neutral_turn *turn)
{
    for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
        if (request->parts[i].kind != PART_RESULT &&
            (request->parts[i].kind != PART_FOREIGN || request->from == DIALECT_CHAT))
            return true;
    return turn->first == turn->end;
}

static void write_turn(struct request_write *write, size_t t)
{
    const struct neutral_turn *turn = &write->request->turns[t];
    bool instruction = turn->role == ROLE_INSTRUCTION;

    if (turn->role == ROLE_MODEL) {
        write_model_turn(write, turn);
        write_results(write, t);
    } else if (instruction || says_more(write->request, turn)) {
        json_write_object(write->out);
        write_word(write->out, "role",
                   !instruction                                  ? "user"
                   : turn->developer && write->target->developer ? "developer"
                                                                 : "system");
        write_content(write, turn->first, turn->end);
        json_write_object_end(write->out);
    }
}

/* ---- Tools and format ------------------------------------------------------------------------ */

static void write_grammar(struct request_write *write, const struct neutral_tool *tool)
{
    struct json_writer *out = write->out;

    json_write_key(out, "format");
    json_write_object(out);
    write_word(out, "type", "grammar");
    json_write_key(out, "grammar");
    json_write_object(out);
    write_text(out, "syntax", tool->syntax);
    write_text(out, "definition", tool->grammar);
    json_write_object_end(out);
    json_write_object_end(out);
}

static void write_tool(struct request_write *write, const struct neutral_tool *tool)
{
    struct json_writer *out = write->out;

    if (write_own_tool(write, tool))
        return;
    json_write_object(out);
    write_word(out, "type", tool->free ? "custom" : "function");
    json_write_key(out, tool->free ? "custom" : "function");
    json_write_object(out);
    write_tool_name(write, "name", tool->name);
    if (tool->description.n > 0)
        write_text(out, "description", tool->description);
    if (tool->free && tool->grammar.n > 0)
        write_grammar(write, tool);
    if (!tool->free && tool->schema.n > 0)
        write_raw(out, "parameters", tool->schema);
    if (tool->strict != TRI_UNSET && !tool->free)
        write_bool(out, "strict", tool->strict == TRI_TRUE);
    json_write_object_end(out);
    json_write_object_end(out);
}

static void write_named_tool(struct request_write *write, struct slice name)
{
    const char *type = tool_is_free(write->request, name) ? "custom" : "function";

    json_write_object(write->out);
    write_word(write->out, "type", type);
    json_write_key(write->out, type);
    json_write_object(write->out);
    write_tool_name(write, "name", name);
    json_write_object_end(write->out);
    json_write_object_end(write->out);
}

static void write_choice(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    enum neutral_choice choice = request->choice;

    if (choice == CHOICE_UNSET || request->n_tools == 0)
        return;
    json_write_key(out, "tool_choice");
    if (choice == CHOICE_ONE) {
        write_named_tool(write, request->names[0]);
    } else if (choice == CHOICE_ALLOWED || choice == CHOICE_ALLOWED_REQUIRED) {
        json_write_object(out);
        write_word(out, "type", "allowed_tools");
        json_write_key(out, "allowed_tools");
        json_write_object(out);
        write_word(out, "mode", choice == CHOICE_ALLOWED ? "auto" : "required");
        json_write_key(out, "tools");
        json_write_array(out);
        for (size_t i = 0; i < request->n_names; i++)
            write_named_tool(write, request->names[i]);
        json_write_array_end(out);
        json_write_object_end(out);
        json_write_object_end(out);
    } else {
        const char *word = choice_word(choice);
        json_write_string(out, word, strlen(word));
    }
}

static void write_tools(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    if (!write_tools_begin(write))
        return;
    for (size_t i = 0; i < request->n_tools; i++)
        write_tool(write, &request->tools[i]);
    write_tools_end(write);
    write_choice(write);
    if (request->parallel != TRI_UNSET &&
        !write_is_refused(write, FIELD_PARALLEL, "parallel_tool_calls",
                          request->parallel == TRI_FALSE))
        write_bool(write->out, "parallel_tool_calls", request->parallel == TRI_TRUE);
}

static void write_format(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    if (request->format == FORMAT_TEXT)
        return;
    json_write_key(out, "response_format");
    json_write_object(out);
    write_word(out, "type", request->format == FORMAT_JSON ? "json_object" : "json_schema");
    if (request->format == FORMAT_SCHEMA) {
        json_write_key(out, "json_schema");
        json_write_object(out);
        write_schema(write);
        json_write_object_end(out);
    }
    json_write_object_end(out);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void write_sampling(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    if (request->bound >= 0)
        write_integer(out, write->target->max_tokens ? "max_tokens" : "max_completion_tokens",
                      request->bound);
    write_temperature(write);
    write_real(out, "presence_penalty", request->presence);
    write_real(out, "frequency_penalty", request->frequency);
    if (request->top_k >= 0)
        write_lose(write, FIELD_TOP_K);
    if (request->has_seed)
        write_integer(out, "seed", request->seed);
    if (request->n >= 0)
        write_integer(out, "n", request->n);
    if (request->from != DIALECT_CHAT) {
        if (request->logprobs == TRI_TRUE || request->top_logprobs > 0)
            write_lose(write, FIELD_LOGPROBS);
    } else {
        if (request->logprobs != TRI_UNSET)
            write_bool(out, "logprobs", request->logprobs == TRI_TRUE);
        if (request->top_logprobs >= 0)
            write_integer(out, "top_logprobs", request->top_logprobs);
    }
    if (request->n_stops > 4)
        write_fail(write, "stop",
                   "A provider that speaks openai-chat takes at most 4 stop sequences.");
    if (request->n_stops > 0) {
        json_write_key(out, "stop");
        json_write_array(out);
        for (size_t i = 0; i < request->n_stops; i++)
            json_write_string(out, request->stops[i].at, request->stops[i].n);
        json_write_array_end(out);
    }
}

static void write_service(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;
    enum neutral_effort effort = write_effort_of(write);

    if (effort != EFFORT_UNSET &&
        !write_is_refused(write, FIELD_REASONING, "reasoning_effort", false))
        write_word(out, "reasoning_effort", neutral_effort_name(effort));
    if (request->verbosity.n > 0 &&
        !write_is_refused(write, FIELD_VERBOSITY, "verbosity",
                          !slice_equal(request->verbosity, SLICE("medium"))))
        write_text(out, "verbosity", request->verbosity);
    write_openai_service(write);
    if (request->store != TRI_UNSET && request->from != DIALECT_RESPONSES &&
        !write_is_refused(write, FIELD_STORE, "store", false))
        write_bool(out, "store", request->store == TRI_TRUE);
    if (request->stream) {
        write_bool(out, "stream", true);
        json_write_key(out, "stream_options");
        json_write_object(out);
        write_bool(out, "include_usage", true);
        json_write_object_end(out);
    }
}

bool chat_write_request(struct json_reader *json, const struct neutral_request *request,
                        const struct neutral_target *target, struct json_writer *out,
                        struct neutral_dropped *dropped, struct ask_problem *problem)
{
    struct request_write write;

    if (write_begin(&write, json, request, target, DIALECT_CHAT, out, dropped, problem)) {
        write_prefill(&write);
        json_write_object(out);
        write_text(out, "model", write_model(&write));
        json_write_key(out, "messages");
        json_write_array(out);
        size_t before = out->text.size;
        for (size_t t = 0; t < request->n_turns; t++)
            write_turn(&write, t);
        if (out->text.size == before)
            write_nothing_said(&write);
        json_write_array_end(out);
        write_tools(&write);
        write_format(&write);
        write_sampling(&write);
        write_service(&write);
        write_extras(&write);
        json_write_object_end(out);
    }
    return write_end(&write);
}
