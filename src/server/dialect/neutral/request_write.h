/* request_write.h - what the writers of requests have in common. */
#ifndef TG_NEUTRAL_REQUEST_WRITE_H
#define TG_NEUTRAL_REQUEST_WRITE_H

#include "io/text/json_write.h"
#include "server/dialect/neutral/losses.h"
#include "server/dialect/neutral/tool_calls.h"

struct request_write {
    struct json_reader *json; /* checks arguments that a model wrote */
    const struct neutral_request *request;
    const struct neutral_target *target;
    enum dialect to;
    struct json_writer *out;
    struct neutral_dropped *dropped;
    struct ask_problem *problem;
    struct text_out scratch; /* a text that is put together, such as a "data:" address */
    bool failed;
};

/* Begins: what the request has that no dialect but its own knows is dropped, or refused; and calls
 * of tools must be answered, each once, behind the turn that has them. False: refused. */
bool write_begin(struct request_write *write, struct json_reader *json,
                 const struct neutral_request *request, const struct neutral_target *target,
                 enum dialect to, struct json_writer *out, struct neutral_dropped *dropped,
                 struct ask_problem *problem);

/* Ends. False: refused, or no memory; `problem` says which. */
bool write_end(struct request_write *write);

void write_fail(struct request_write *write, const char *param, const char *text);

/* Fails: of all turns, nothing is left that can be written. */
void write_nothing_said(struct request_write *write);

/* Whether the provider does not take a field that its dialect has. `changes`: the answer is another
 * without it, so that it is refused under strict, else left out and named; others are left out. */
bool write_is_refused(struct request_write *write, enum neutral_field field, const char *name,
                      bool changes);

/* What cannot be written. */
void write_lose(struct request_write *write, enum neutral_field field);

/* ---- Members --------------------------------------------------------------------------------- */

void write_text(struct json_writer *out, const char *key, struct slice text);
void write_word(struct json_writer *out, const char *key, const char *word);
void write_raw(struct json_writer *out, const char *key, struct slice raw);
void write_integer(struct json_writer *out, const char *key, int64_t value);
void write_real(struct json_writer *out, const char *key, double value);
void write_bool(struct json_writer *out, const char *key, bool value);

/* The model that is asked. */
struct slice write_model(const struct request_write *write);

/* "data:image/png;base64,..." or the address itself. */
struct slice write_address(struct request_write *write, const struct neutral_part *part);

/* ---- Names and ids --------------------------------------------------------------------------- */

void write_tool_name(struct request_write *write, const char *key, struct slice name);
void write_call_id(struct request_write *write, const char *key, struct slice id);

/* ---- Parts ----------------------------------------------------------------------------------- */

/* The part behind this one, its content passed over. */
size_t part_next(const struct neutral_request *request, size_t i);

/* Whether what is opaque in it may be shown to the provider that is written to. */
bool part_is_own(const struct request_write *write, const struct neutral_part *part);

/* The result of a call among the parts [first, end); SIZE_MAX: there is none. */
size_t find_result(const struct neutral_request *request, size_t first, size_t end,
                   struct slice id);

/* The calls of a turn, each with its result, in the order of the calls:
 *
 *     struct tool_answer answer = turn_answers(request, t);
 *     while (next_answer(request, &answer))
 */
struct tool_answer {
    size_t next, calls_end;      /* the calls that are left */
    size_t results, results_end; /* the parts among which the results are */
    size_t call, result;
};
struct tool_answer turn_answers(const struct neutral_request *request, size_t t);
bool next_answer(const struct neutral_request *request, struct tool_answer *answer);

/* The call with that id before the part `before`; null: there is none. */
const struct neutral_part *find_call(const struct neutral_request *request, size_t before,
                                     struct slice id);

/* The text of a result, its parts joined by a newline, "Error: " before it if it failed and `marks`
 * asks for that. Media leave a word. In `scratch`. */
struct slice result_text(struct request_write *write, size_t i, bool marks);

/* The arguments of a call as a JSON object: empty ones are {}, what is none is wrapped in one. */
void write_arguments(struct request_write *write, const struct neutral_part *call);

/* ---- Reasoning ------------------------------------------------------------------------------- */

/* The effort that is asked for, by its name or by a budget of tokens. */
enum neutral_effort request_effort(const struct neutral_request *request);

/* Tokens for an effort. */
int64_t effort_budget(enum neutral_effort effort);

/* Whether the last turns are results of tools that wait for the model. */
bool request_in_loop(const struct neutral_request *request);

/* The tool is to be written: all are, unless some are allowed. */
bool tool_allowed(const struct neutral_request *request, struct slice name);
bool tool_is_free(const struct neutral_request *request, struct slice name);

/* ---- For the same dialect -------------------------------------------------------------------- */

/* What only the dialect of the client knows is written where the provider speaks it, too: a part, a
 * tool (false: there is nothing that only it knows), and members of the body. */
void write_foreign_part(struct request_write *write, const struct neutral_part *part);
bool write_own_tool(struct request_write *write, const struct neutral_tool *tool);
void write_extras(struct request_write *write);

/* Begins `tools`. False: there are none. The end adds those that run at the provider. */
bool write_tools_begin(struct request_write *write);
void write_tools_end(struct request_write *write);

/* ---- For both APIs of OpenAI ----------------------------------------------------------------- */

/* Calls of other dialects that end with the model's turn want it continued, which is not done. */
void write_prefill(struct request_write *write);

const char *choice_word(enum neutral_choice choice); /* auto, none, required */
const char *write_audio_format(const struct neutral_part *part);

/* The members name, description, schema and strict of an output's schema. */
void write_schema(struct request_write *write);
void write_temperature(struct request_write *write); /* and top_p */

/* The effort that is to be written, or EFFORT_UNSET. */
enum neutral_effort write_effort_of(const struct request_write *write);

/* user, metadata, prompt_cache_key, service_tier */
void write_openai_service(struct request_write *write);

#endif
