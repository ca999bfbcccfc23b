/* replay_recording.c - `tollgate replay` of what `serve --record` wrote.
 *
 * One line for each call, when its last operation is done:
 *
 *     {"t":..,"id":"..","tenant":"..","decision":"admitted","recorded":"admitted","same":true}
 *
 * `decision` is "admitted", the reason of a refusal, "error" or "left": the client went away before
 * anything was decided, or its request was wrong. `same` says that every operation of the call had
 * the result that was recorded, field by field; if not, the first that had not follows:
 *
 *     "cause":"lost","difference":{"q":..,"op":"admit","at":"gate","recorded":{..},"replayed":{..}}
 *
 * After the last call of each run of `serve`, its summary.
 */
#include "cli/replay/replay_modes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay/recording_side.h"
#include "io/text/json_member.h"
#include "lib/core/array.h"

/* X(word, what it means) */
#define CAUSES(X)                                                                                  \
    X("configuration", "the configuration is not the one that was in force")                       \
    X("reload", "a configuration was read that is not among --reloaded")                           \
    X("change", "something was changed by the API")                                                \
    X("lost", "operations before it are not in the recording")                                     \
    X("redis", "the store was Redis, and what it would have said is decided in memory")            \
    X("gateways", "other gateways came or went, and limits were divided among them")               \
    X("inherited", "another process handed over what its limits had counted")                      \
    X("policy", "the policy began with prices that it had learned before")                         \
    X("earlier", "it follows from another difference")                                             \
    X("unknown", "no cause is known")

static const struct cause {
    const char *word, *text;
} CAUSE_LIST[] = {
#define CAUSE(word, text) {word, text},
    CAUSES(CAUSE)
#undef CAUSE
};

enum { N_CAUSES = sizeof CAUSE_LIST / sizeof CAUSE_LIST[0] };

/* ---- one configuration ---- */

struct summary {
    struct json_writer *out;
    uint64_t calls, same;
    uint64_t by_cause[N_CAUSES];
};

static void put_text(struct json_writer *out, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_member_text(out, key, text);
}

static void put_number(struct json_writer *out, const char *key, int64_t number)
{
    if (number < 0)
        return;
    json_member_number(out, key, number);
}

static void put_outcome(struct json_writer *out, const char *key,
                        const struct recorded_outcome *came)
{
    json_write_key(out, key);
    json_write_object(out);
    put_text(out, "to", recorded_result_word(came->to));
    put_text(out, "reason", came->reason);
    put_text(out, "key", came->key);
    put_number(out, "charge", came->charge);
    put_number(out, "limit", came->limit);
    put_number(out, "remaining", came->remaining);
    put_number(out, "reset_at", came->reset_at);
    put_number(out, "retry_after", came->retry_after);
    put_number(out, "reserved", came->reserved);
    json_write_object_end(out);
}

static void put_difference(struct json_writer *out, const struct recording_difference *difference)
{
    static const char *const places[] = {NULL, "gate", "slot", "money", "key", "limits"};
    const struct recorded_op *op = difference->op;

    put_text(out, "cause", difference->cause);
    if (op == NULL)
        return;
    json_write_key(out, "difference");
    json_write_object(out);
    put_number(out, "q", (int64_t)op->number);
    put_text(out, "op", recorded_kind_word(op->kind));
    put_text(out, "at", places[op->place]);
    put_outcome(out, "recorded", &op->came);
    put_outcome(out, "replayed", &difference->came);
    json_write_object_end(out);
}

static void write_call(void *context, const struct recorded_call *call,
                       const struct recording_verdict *verdict)
{
    struct summary *summary = context;
    struct json_writer *out = summary->out;

    json_write_object(out);
    put_number(out, "t", call->t);
    put_text(out, "id", call->id);
    put_text(out, "tenant", call->tenant);
    put_text(out, "decision", verdict->replayed);
    put_text(out, "recorded", verdict->recorded);
    json_member_flag(out, "same", !verdict->differs);
    if (verdict->differs)
        put_difference(out, &verdict->first);
    json_write_object_end(out);
    json_write_line_end(out);
    summary->calls++;
    summary->same += !verdict->differs;
    for (int i = 0; verdict->differs && i < N_CAUSES; i++)
        summary->by_cause[i] += strcmp(CAUSE_LIST[i].word, verdict->first.cause) == 0;
}

static void write_summary(const struct summary *summary, const struct recording_side *side)
{
    const struct recording *recording = side->recording;
    struct json_writer *out = summary->out;

    json_write_object(out);
    put_number(out, "calls", (int64_t)summary->calls);
    put_number(out, "operations", (int64_t)recording->n_ops);
    put_number(out, "compared", (int64_t)side->n_ops);
    put_number(out, "same", (int64_t)summary->same);
    put_number(out, "different", (int64_t)(summary->calls - summary->same));
    put_number(out, "missing", (int64_t)recording->missing);
    put_number(out, "cut_lines", (int64_t)recording->cut);
    json_member_flag(out, "ended", recording->ended);
    put_number(out, "unrecorded", (int64_t)recording->unrecorded);
    put_number(out, "reloads", (int64_t)side->reloads);
    json_member_flag(out, "configuration_in_force", side->config_is_its);
    json_write_key(out, "causes");
    json_write_object(out);
    for (int i = 0; i < N_CAUSES; i++)
        if (summary->by_cause[i] > 0)
            put_number(out, CAUSE_LIST[i].word, (int64_t)summary->by_cause[i]);
    json_write_object_end(out);
    json_write_object_end(out);
    json_write_line_end(out);
}

/* For people. */
static void say_summary(const struct summary *summary, const struct recording_side *side)
{
    const struct command *command = side->command;

    if (!side->config_is_its)
        command_say(command, "%s is not the configuration that was recorded with", side->path);
    if (side->recording->missing > 0)
        command_say(command,
                    "%" PRIu64 " operations are missing: lines were lost, or calls had not ended",
                    side->recording->missing);
    if (side->recording->cut > 0)
        command_say(command,
                    "%" PRIu64
                    " lines are cut and left out: serve was killed, or its disk was full",
                    side->recording->cut);
    if (!side->recording->ended)
        command_say(command, "its end is missing: serve was killed, runs yet, or had a full disk");
    if (side->recording->unrecorded > 0)
        command_say(command,
                    "%" PRIu64 " questions of Envoy's rate limit service are not in it; their "
                    "limits are their own",
                    side->recording->unrecorded);
    command_say(command, "%" PRIu64 " of %" PRIu64 " calls are decided as they were recorded",
                summary->same, summary->calls);
    for (int i = 0; i < N_CAUSES; i++)
        if (summary->by_cause[i] > 0)
            command_say(command, "%" PRIu64 " differ: %s (%s)", summary->by_cause[i],
                        CAUSE_LIST[i].text, CAUSE_LIST[i].word);
}

static int replay_once(struct replay_input *input, const char *path, const char *reloaded,
                       const struct recording *recording)
{
    struct summary summary = {.out = &input->out};
    struct recording_side side;
    int status;

    if (recording_side_init(&side, input->command, path, recording, true, write_call, &summary,
                            &status)) {
        side.reloaded = reloaded;
        if (recording_side_run(&side)) {
            write_summary(&summary, &side);
            say_summary(&summary, &side);
        } else {
            command_say(input->command, "%s", tg_strerror(TG_ERR_MEMORY));
            status = STATUS_FAILED;
        }
    }
    recording_side_fini(&side);
    return status;
}

/* ---- two configurations ---- */

enum { EXAMPLES_MAX = 3 };

struct tenant_row {
    const char *name;                       /* the recording's */
    uint64_t calls, admitted[2], otherwise; /* `otherwise`: refused by both, for other reasons */
    uint64_t refused, allowed;              /* by the second, unlike the first */
    struct {
        const struct recorded_call *call;
        const char *decisions[2];
    } examples[EXAMPLES_MAX];
    size_t n_examples;
};

struct recording_comparison {
    const char **decisions; /* what the first decided, by the number of the call */
    struct tenant_row *rows;
    size_t n_rows, rows_room;
    bool no_memory;
    uint64_t different;
};

static void keep_decision(void *context, const struct recorded_call *call,
                          const struct recording_verdict *verdict)
{
    struct recording_comparison *comparison = context;

    comparison->decisions[call->number] = verdict->replayed;
}

static struct tenant_row *tenant_row_of(struct recording_comparison *comparison, const char *tenant)
{
    const char *name = tenant != NULL ? tenant : "(no tenant)";

    for (size_t i = 0; i < comparison->n_rows; i++)
        if (strcmp(comparison->rows[i].name, name) == 0)
            return &comparison->rows[i];
    if (!array_reserve(&comparison->rows, &comparison->rows_room, comparison->n_rows + 1))
        return NULL;
    comparison->rows[comparison->n_rows] = (struct tenant_row){.name = name};
    return &comparison->rows[comparison->n_rows++];
}

static void compare_decision(void *context, const struct recorded_call *call,
                             const struct recording_verdict *verdict)
{
    struct recording_comparison *comparison = context;
    const char *decisions[2] = {comparison->decisions[call->number], verdict->replayed};
    struct tenant_row *row = tenant_row_of(comparison, call->tenant);

    if (row == NULL) {
        comparison->no_memory = true;
        return;
    }
    bool first = strcmp(decisions[0], "admitted") == 0;
    bool second = strcmp(decisions[1], "admitted") == 0;
    bool differ = strcmp(decisions[0], decisions[1]) != 0;
    row->calls++;
    row->admitted[0] += first;
    row->admitted[1] += second;
    row->refused += first && !second;
    row->allowed += !first && second;
    row->otherwise += differ && first == second;
    comparison->different += differ;
    if (differ && row->n_examples < EXAMPLES_MAX) {
        row->examples[row->n_examples].call = call;
        memcpy(row->examples[row->n_examples++].decisions, decisions, sizeof decisions);
    }
}

static void print_tenant(const struct tenant_row *row, int width)
{
    printf("%-*s  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64
           "  %10" PRIu64 "\n",
           width, row->name, row->calls, row->admitted[0], row->admitted[1], row->refused,
           row->allowed, row->otherwise);
}

static void print_comparison(const struct recording_comparison *comparison, const char *first,
                             const char *second)
{
    struct tenant_row all = {.name = "all"};
    int width = (int)strlen("tenant");

    for (size_t i = 0; i < comparison->n_rows; i++)
        if ((int)strlen(comparison->rows[i].name) > width)
            width = (int)strlen(comparison->rows[i].name);
    printf("first:  %s\nsecond: %s\n\n%-*s  %10s  %10s  %10s  %10s  %10s  %10s\n", first, second,
           width, "tenant", "calls", "first", "second", "refused", "admitted", "otherwise");
    for (size_t i = 0; i < comparison->n_rows; i++) {
        const struct tenant_row *row = &comparison->rows[i];
        print_tenant(row, width);
        all.calls += row->calls;
        for (int k = 0; k < 2; k++)
            all.admitted[k] += row->admitted[k];
        all.refused += row->refused;
        all.allowed += row->allowed;
        all.otherwise += row->otherwise;
    }
    print_tenant(&all, width);
    for (size_t i = 0; i < comparison->n_rows; i++) {
        const struct tenant_row *row = &comparison->rows[i];
        uint64_t n = row->refused + row->allowed + row->otherwise;
        if (n == 0)
            continue;
        printf("\n%s: %" PRIu64 " decided differently\n", row->name, n);
        for (size_t k = 0; k < row->n_examples; k++)
            printf("  line %" PRIu64 ", t %lld: %s -> %s\n", row->examples[k].call->line,
                   (long long)row->examples[k].call->t, row->examples[k].decisions[0],
                   row->examples[k].decisions[1]);
        if (n > row->n_examples)
            printf("  ...\n");
    }
}

static int run_side(struct replay_input *input, const char *path, const char *reloaded,
                    const struct recording *recording, bool exact, bool as_told,
                    void (*ended)(void *, const struct recorded_call *,
                                  const struct recording_verdict *),
                    void *context)
{
    struct recording_side side;
    int status;

    if (recording_side_init(&side, input->command, path, recording, as_told, ended, context,
                            &status)) {
        side.reloaded = reloaded;
        side.exact = exact || side.config_is_its;
        if (exact && !side.config_is_its)
            command_say(input->command, "%s is not the configuration that was recorded with", path);
        if (!recording_side_run(&side)) {
            command_say(input->command, "%s", tg_strerror(TG_ERR_MEMORY));
            status = STATUS_FAILED;
        }
    }
    recording_side_fini(&side);
    return status;
}

static int compare_recording(struct replay_input *input, const char *first, const char *reloaded,
                             const char *second, const struct recording *recording, bool *differs)
{
    struct recording_comparison comparison = {
        .decisions = calloc(recording->n_calls + 1, sizeof *comparison.decisions)};
    int status = STATUS_FAILED;

    if (comparison.decisions != NULL) {
        for (size_t i = 0; i < recording->n_calls; i++)
            comparison.decisions[i] = "left";
        /* What Redis said counts for the configuration in force alone. Next to another one, both
         * are decided in memory: then what differs is the configuration. */
        bool as_told = recording_is_of(recording, input->command, first) &&
                       recording_is_of(recording, input->command, second);
        status =
            run_side(input, first, reloaded, recording, true, as_told, keep_decision, &comparison);
        if (status == STATUS_DONE)
            status = run_side(input, second, reloaded, recording, false, as_told, compare_decision,
                              &comparison);
        if (status == STATUS_DONE && !as_told && strcmp(recording->store, "memory") != 0)
            command_say(input->command, "the store was Redis: both are decided in memory");
    }
    if (comparison.decisions == NULL || comparison.no_memory) {
        command_say(input->command, "%s", tg_strerror(TG_ERR_MEMORY));
        status = STATUS_FAILED;
    }
    if (status == STATUS_DONE)
        print_comparison(&comparison, first, second);
    *differs |= comparison.different > 0;
    free(comparison.decisions);
    free(comparison.rows);
    return status;
}

/* ---- all runs of a file ---- */

int replay_recording(struct replay_input *input, const char *first, const char *reloaded,
                     const char *second)
{
    struct recording recording;
    struct line line;
    bool more = true, differs = false;
    int status = STATUS_DONE;

    if (!replay_input_next(input, &line, &status))
        return status;
    while (more && status == STATUS_DONE) {
        if (recording_read(input, &line, &recording, &more, &status)) {
            status = second != NULL
                         ? compare_recording(input, first, reloaded, second, &recording, &differs)
                         : replay_once(input, first, reloaded, &recording);
        }
        recording_free(&recording);
    }
    if (status != STATUS_DONE)
        return status;
    status = replay_input_finish(input);
    return status == STATUS_DONE && differs ? STATUS_FAILED : status;
}
