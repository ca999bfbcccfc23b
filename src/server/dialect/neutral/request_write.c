/* request_write.c - what the writers of requests have in common. */
#include "server/dialect/neutral/request_write.h"
#include "io/text/json_member.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Calls of one turn: pairing them with their results is quadratic. */
#define TURN_CALLS_MAX 512

/* ---- Beginning and ending -------------------------------------------------------------------- */

void write_fail(struct request_write *write, const char *param, const char *text)
{
    if (write->failed)
        return;
    write->failed = true;
    *write->problem = (struct ask_problem){.no_memory = false};
    snprintf(write->problem->param, sizeof write->problem->param, "%s", param);
    snprintf(write->problem->text, sizeof write->problem->text, "%s", text);
}

void write_lose(struct request_write *write, enum neutral_field field)
{
    if (!write->failed && !neutral_lose(write->request, write->to, write->target->strict, field,
                                        write->dropped, write->problem))
        write->failed = true;
}

bool write_is_refused(struct request_write *write, enum neutral_field field, const char *name,
                      bool changes)
{
    if ((write->target->refused >> field & 1) == 0)
        return false;
    if (changes && write->target->strict) {
        char text[160];
        snprintf(text, sizeof text, "'%s' is a field that the model's provider refuses.", name);
        write_fail(write, name, text);
    } else if (changes) {
        neutral_dropped_add(write->dropped, name);
    }
    return true;
}

static const char *turns_param(const struct neutral_request *request)
{
    return request->from == DIALECT_RESPONSES ? "input" : "messages";
}

/* How many parts of a kind the turns [from, to) have. */
static size_t count_parts(const struct neutral_request *request, size_t from, size_t to,
                          enum neutral_kind kind)
{
    size_t n = 0;

    for (size_t t = from; t < to; t++)
        for (size_t i = request->turns[t].first; i < request->turns[t].end;
             i = part_next(request, i))
            n += request->parts[i].kind == kind;
    return n;
}

/* Whether a call of the turn has the id of one before it. Both would be given the same result. */
static bool shares_id(const struct neutral_request *request, const struct neutral_turn *turn,
                      size_t call)
{
    for (size_t i = turn->first; i < call; i = part_next(request, i))
        if (request->parts[i].kind == PART_CALL &&
            slice_equal(request->parts[i].id, request->parts[call].id))
            return true;
    return false;
}

void write_nothing_said(struct request_write *write)
{
    if (write->out->text.failed || write->scratch.failed)
        return; /* there was no memory for what the messages say */
    write_fail(write, turns_param(write->request), "There is no message that says anything.");
}

/* Every call of the turn is answered once before the model's next turn. */
static void check_turn(struct request_write *write, size_t t, size_t next)
{
    const struct neutral_request *request = write->request;
    const struct neutral_turn *turn = &request->turns[t];
    size_t calls = count_parts(request, t, t + 1, PART_CALL);
    size_t first = turn->end, end = next > t + 1 ? request->turns[next - 1].end : first;

    if (calls > TURN_CALLS_MAX) {
        write_fail(write, turns_param(request), "A turn has too many tool calls.");
        return;
    }
    if (calls != count_parts(request, t + 1, next, PART_RESULT)) {
        write_fail(write, turns_param(request),
                   "Each tool call must be followed by one result with its id.");
        return;
    }
    for (size_t i = turn->first; i < turn->end; i = part_next(request, i))
        if (request->parts[i].kind == PART_CALL &&
            (find_result(request, first, end, request->parts[i].id) == SIZE_MAX ||
             shares_id(request, turn, i)))
            write_fail(write, turns_param(request),
                       "Each tool call must be followed by one result with its id.");
}

static void check_calls(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    size_t t = 0, next;

    while (t < request->n_turns && request->turns[t].role != ROLE_MODEL)
        t++;
    if (count_parts(request, 0, t, PART_RESULT) > 0)
        write_fail(write, turns_param(request), "A tool's result has no call before it.");
    for (; t < request->n_turns && !write->failed; t = next) {
        next = t + 1;
        /* The model's turns that follow each other are one, with the calls in the last. */
        while (next < request->n_turns && request->turns[next].role != ROLE_MODEL)
            next++;
        check_turn(write, t, next);
    }
}

/* What it costs has been reserved as an image, and some providers would take it for a video. */
static void check_images(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    const struct slice prefix = SLICE("image/");

    for (size_t i = 0; i < request->n_parts; i++) {
        const struct neutral_part *part = &request->parts[i];
        if (part->kind == PART_MEDIA && part->media == MEDIA_IMAGE &&
            part->source == SOURCE_INLINE &&
            (part->mime.n <= prefix.n || memcmp(part->mime.at, prefix.at, prefix.n) != 0))
            write_fail(write, turns_param(request), "An image must be of a type of images.");
    }
}

bool write_begin(struct request_write *write, struct json_reader *json,
                 const struct neutral_request *request, const struct neutral_target *target,
                 enum dialect to, struct json_writer *out, struct neutral_dropped *dropped,
                 struct ask_problem *problem)
{
    *write = (struct request_write){.json = json,
                                    .request = request,
                                    .target = target,
                                    .to = to,
                                    .out = out,
                                    .dropped = dropped,
                                    .problem = problem};
    for (enum neutral_field field = 0; field < FIELD_COUNT; field++)
        if ((request->foreign >> field & 1) != 0)
            write_lose(write, field);
    check_calls(write);
    check_images(write);
    return !write->failed;
}

bool write_end(struct request_write *write)
{
    bool no_memory = write->out->text.failed || write->scratch.failed;

    text_out_fini(&write->scratch);
    if (write->failed)
        return false;
    if (!no_memory)
        return true;
    write_fail(write, "", "There is no memory to write the request.");
    write->problem->no_memory = true;
    return false;
}

/* ---- Members --------------------------------------------------------------------------------- */

void write_text(struct json_writer *out, const char *key, struct slice text)
{
    json_write_key(out, key);
    json_write_string(out, text.at, text.n);
}

void write_word(struct json_writer *out, const char *key, const char *word)
{
    write_text(out, key, slice_of(word));
}

void write_raw(struct json_writer *out, const char *key, struct slice raw)
{
    json_write_key(out, key);
    json_write_raw(out, raw.at, raw.n);
}

void write_integer(struct json_writer *out, const char *key, int64_t value)
{
    json_member_number(out, key, value);
}

void write_real(struct json_writer *out, const char *key, double value)
{
    if (isnan(value))
        return;
    json_write_key(out, key);
    if (value == floor(value) && fabs(value) < 1e15)
        json_write_integer(out, (int64_t)value);
    else
        json_write_double(out, value);
}

void write_bool(struct json_writer *out, const char *key, bool value)
{
    json_member_flag(out, key, value);
}

struct slice write_model(const struct request_write *write)
{
    return write->target->model.n > 0 ? write->target->model : write->request->model;
}

struct slice write_address(struct request_write *write, const struct neutral_part *part)
{
    if (part->source != SOURCE_INLINE)
        return part->text;
    text_out_clear(&write->scratch);
    text_out_text(&write->scratch, "data:");
    text_out_slice(&write->scratch, part->mime);
    text_out_text(&write->scratch, ";base64,");
    text_out_slice(&write->scratch, part->text);
    if (write->scratch.failed)
        write->out->text.failed = true;
    return text_out_written(&write->scratch);
}

/* ---- Names and ids --------------------------------------------------------------------------- */

void write_tool_name(struct request_write *write, const char *key, struct slice name)
{
    char room[TOOL_NAME_MAX];

    write_text(write->out, key, neutral_tool_name(name, write->to, room));
}

void write_call_id(struct request_write *write, const char *key, struct slice id)
{
    char room[CALL_ID_MAX];

    write_text(write->out, key, neutral_call_id(id, write->to, write->target->ids, room));
}

/* ---- Parts ----------------------------------------------------------------------------------- */

size_t part_next(const struct neutral_request *request, size_t i)
{
    const struct neutral_part *part = &request->parts[i];

    assert(i < request->n_parts);
    return i + 1 + (part->kind == PART_RESULT ? part->inner : 0);
}

bool part_is_own(const struct request_write *write, const struct neutral_part *part)
{
    struct slice provider = write->target->provider;

    return part->opaque_kind != OPAQUE_NONE && part->opaque_dialect == write->to &&
           (part->opaque_provider.n == 0 || provider.n == 0 ||
            slice_equal(part->opaque_provider, provider));
}

size_t find_result(const struct neutral_request *request, size_t first, size_t end, struct slice id)
{
    for (size_t i = first; i < end; i = part_next(request, i))
        if (request->parts[i].kind == PART_RESULT && slice_equal(request->parts[i].id, id))
            return i;
    return SIZE_MAX;
}

struct tool_answer turn_answers(const struct neutral_request *request, size_t t)
{
    const struct neutral_turn *turn = &request->turns[t];
    size_t next = t + 1;

    while (next < request->n_turns && request->turns[next].role != ROLE_MODEL)
        next++;
    return (struct tool_answer){.next = turn->first,
                                .calls_end = turn->end,
                                .results = turn->end,
                                .results_end =
                                    next > t + 1 ? request->turns[next - 1].end : turn->end};
}

bool next_answer(const struct neutral_request *request, struct tool_answer *answer)
{
    while (answer->next < answer->calls_end) {
        size_t call = answer->next;
        answer->next = part_next(request, call);
        if (request->parts[call].kind != PART_CALL)
            continue;
        answer->call = call;
        answer->result =
            find_result(request, answer->results, answer->results_end, request->parts[call].id);
        if (answer->result != SIZE_MAX)
            return true;
    }
    return false;
}

const struct neutral_part *find_call(const struct neutral_request *request, size_t before,
                                     struct slice id)
{
    while (before-- > 0)
        if (request->parts[before].kind == PART_CALL && slice_equal(request->parts[before].id, id))
            return &request->parts[before];
    return NULL;
}

struct slice result_text(struct request_write *write, size_t i, bool marks)
{
    const struct neutral_part *result = &write->request->parts[i];
    bool first = true;

    text_out_clear(&write->scratch);
    if (marks && result->error)
        text_out_text(&write->scratch, "Error: ");
    for (size_t k = i + 1; k <= i + result->inner; k++) {
        const struct neutral_part *part = &write->request->parts[k];
        if (part->kind == PART_FOREIGN)
            continue;
        if (!first)
            text_out_char(&write->scratch, '\n');
        first = false;
        if (part->kind == PART_TEXT)
            text_out_slice(&write->scratch, part->text);
        else
            text_out_text(&write->scratch, "(see the attachment that follows)");
    }
    if (write->scratch.failed)
        write->out->text.failed = true;
    return text_out_written(&write->scratch);
}

static struct slice without_blanks(struct slice text)
{
    while (text.n > 0 && strchr(" \t\r\n", text.at[0]) != NULL && text.at[0] != '\0')
        text = (struct slice){text.at + 1, text.n - 1};
    while (text.n > 0 && strchr(" \t\r\n", text.at[text.n - 1]) != NULL)
        text.n--;
    return text;
}

/* A text that comes out of a string was checked by nobody, and would break the document that it is
 * written into: what is no object is wrapped. */
void write_arguments(struct request_write *write, const struct neutral_part *call)
{
    struct slice text = without_blanks(call->text);

    if (text.n == 0 && !call->free) {
        json_write_raw(write->out, "{}", 2);
    } else if (!call->free && is_json_object(write->json, text)) {
        json_write_raw(write->out, text.at, text.n);
    } else {
        json_write_object(write->out);
        write_text(write->out, call->free ? "input" : "_raw", call->text);
        json_write_object_end(write->out);
    }
}

/* ---- Reasoning and tools --------------------------------------------------------------------- */

enum neutral_effort request_effort(const struct neutral_request *request)
{
    int64_t budget = request->budget;

    if (request->effort != EFFORT_UNSET || budget < 0)
        return request->effort;
    return budget == 0      ? EFFORT_NONE
           : budget < 2048  ? EFFORT_LOW
           : budget < 16384 ? EFFORT_MEDIUM
                            : EFFORT_HIGH;
}

int64_t effort_budget(enum neutral_effort effort)
{
    return effort <= EFFORT_NONE     ? 0
           : effort <= EFFORT_LOW    ? 1024
           : effort == EFFORT_MEDIUM ? 8192
                                     : 24576;
}

bool request_in_loop(const struct neutral_request *request)
{
    size_t t = request->n_turns;

    while (t > 0 && request->turns[t - 1].role != ROLE_MODEL)
        if (count_parts(request, t - 1, t, PART_RESULT) > 0)
            return true;
        else
            t--;
    return false;
}

bool tool_allowed(const struct neutral_request *request, struct slice name)
{
    if (request->choice != CHOICE_ALLOWED && request->choice != CHOICE_ALLOWED_REQUIRED)
        return true;
    for (size_t i = 0; i < request->n_names; i++)
        if (slice_equal(request->names[i], name))
            return true;
    return false;
}

bool tool_is_free(const struct neutral_request *request, struct slice name)
{
    for (size_t i = 0; i < request->n_tools; i++)
        if (slice_equal(request->tools[i].name, name))
            return request->tools[i].free;
    return false;
}

/* ---- For the same dialect -------------------------------------------------------------------- */

void write_foreign_part(struct request_write *write, const struct neutral_part *part)
{
    if (write->request->from == write->to)
        json_write_raw(write->out, part->text.at, part->text.n);
}

bool write_own_tool(struct request_write *write, const struct neutral_tool *tool)
{
    if (write->request->from != write->to || tool->raw.n == 0)
        return false;
    json_write_raw(write->out, tool->raw.at, tool->raw.n);
    return true;
}

void write_extras(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    for (size_t i = 0; i < request->n_extras && request->from == write->to; i++)
        write_raw(write->out, request->extras[i].key, request->extras[i].raw);
}

bool write_tools_begin(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    if (request->n_tools == 0 && (request->n_hosted == 0 || request->from != write->to))
        return false;
    json_write_key(write->out, "tools");
    json_write_array(write->out);
    return true;
}

void write_tools_end(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    for (size_t i = 0; i < request->n_hosted && request->from == write->to; i++)
        json_write_raw(write->out, request->hosted[i].at, request->hosted[i].n);
    json_write_array_end(write->out);
}

/* ---- For both APIs of OpenAI ----------------------------------------------------------------- */

void write_prefill(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    if (request->from == DIALECT_ANTHROPIC && !write->target->prefill &&
        request->turns[request->n_turns - 1].role == ROLE_MODEL)
        write_lose(write, FIELD_PREFILL);
}

const char *choice_word(enum neutral_choice choice)
{
    return choice == CHOICE_AUTO ? "auto" : choice == CHOICE_NONE ? "none" : "required";
}

const char *write_audio_format(const struct neutral_part *part)
{
    bool mp3 =
        slice_equal(part->mime, SLICE("audio/mpeg")) || slice_equal(part->mime, SLICE("audio/mp3"));

    return mp3 ? "mp3" : "wav";
}

void write_schema(struct request_write *write)
{
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    write_text(out, "name", request->format_name.n > 0 ? request->format_name : SLICE("reply"));
    if (request->format_description.n > 0)
        write_text(out, "description", request->format_description);
    if (request->format_schema.n > 0)
        write_raw(out, "schema", request->format_schema);
    if (request->format_strict != TRI_UNSET)
        write_bool(out, "strict", request->format_strict == TRI_TRUE);
}

void write_temperature(struct request_write *write)
{
    const struct neutral_request *request = write->request;

    if (!write->target->fixed_sampling) {
        write_real(write->out, "temperature", request->temperature);
        write_real(write->out, "top_p", request->top_p);
        return;
    }
    if (!isnan(request->temperature) && request->temperature != 1)
        write_lose(write, FIELD_TEMPERATURE);
    if (!isnan(request->top_p) && request->top_p != 1)
        write_lose(write, FIELD_TOP_P);
}

enum neutral_effort write_effort_of(const struct request_write *write)
{
    enum neutral_effort effort = request_effort(write->request);

    if (write->target->thinking == THINKING_NONE)
        return EFFORT_UNSET;
    return effort == EFFORT_MAX ? EFFORT_XHIGH : effort;
}

void write_openai_service(struct request_write *write)
{
    static const char *const tiers[] = {NULL, "auto", "default", "flex", "priority", NULL};
    const struct neutral_request *request = write->request;
    struct json_writer *out = write->out;

    if (request->user.n > 0 && !write_is_refused(write, FIELD_USER, "user", false))
        write_text(out, "user", request->user);
    if (request->metadata.n > 0 && !write_is_refused(write, FIELD_METADATA, "metadata", false))
        write_raw(out, "metadata", request->metadata);
    if (request->cache_key.n > 0 &&
        !write_is_refused(write, FIELD_CACHE_KEY, "prompt_cache_key", false))
        write_text(out, "prompt_cache_key", request->cache_key);
    if (tiers[request->tier] != NULL && !write_is_refused(write, FIELD_TIER, "service_tier", false))
        write_word(out, "service_tier", tiers[request->tier]);
}
