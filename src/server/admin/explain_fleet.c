/* explain_fleet.c - what each gateway of a fleet would tell a call. See explain_fleet.h. */
#include "server/admin/explain_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/admin/fleet_heard.h"

#define PREFIX "explain?"

enum { AT_ONCE = 16, QUESTION_MAX = 8192 };

/* A question of a client of this gateway. */
struct explain_round {
    LIST_ENTRY(explain_round) link;
    struct explain_fleet *fleet;
    struct admin_call *call;
    struct fleet_question *question; /* its replies are good until it has ended */
    struct fleet_replies replies;
    struct explanation *explanation; /* for explain_forget() */
    struct json_writer own;          /* what this gateway would tell */
    bool has_own, has_replies;
};

/* A question of another gateway. */
struct explain_answer {
    LIST_ENTRY(explain_answer) link;
    struct explain_fleet *fleet;
    struct fleet_asked asked;
    struct explanation *explanation; /* for explain_forget() */
};

struct explain_fleet {
    struct admin *admin;
    LIST_HEAD(, explain_round) rounds;
    LIST_HEAD(, explain_answer) answers;
    size_t n_rounds, n_answers;
};

static struct fleet *fleet_of(const struct explain_fleet *fleet)
{
    return fleet->admin->options.gateway->fleet;
}

/* ---- one explanation ---- */

static void write_failure(struct json_writer *out, const char *code, const char *message)
{
    json_write_object(out);
    json_write_key(out, "error");
    json_write_object(out);
    json_member_text(out, "code", code);
    json_member_text(out, "message", message);
    json_write_object_end(out);
    json_write_object_end(out);
}

/* An Explanation, or the error that one gateway alone would answer with. */
static void write_outcome(struct json_writer *out, enum explain_outcome outcome,
                          const struct explanation *of)
{
    if (outcome == EXPLAIN_DONE)
        explain_write(out, of);
    else if (outcome == EXPLAIN_NO_TENANT)
        write_failure(out, "not_found", "there is no such tenant");
    else if (outcome == EXPLAIN_NO_KEY)
        write_failure(out, "not_found", "there is no such key");
    else if (outcome == EXPLAIN_NO_MODEL)
        write_failure(out, "not_found", "there is no such model");
    else
        write_failure(out, "busy", "no memory");
}

/* ---- answering ---- */

static void free_answer(struct explain_answer *answer)
{
    LIST_REMOVE(answer, link);
    answer->fleet->n_answers--;
    free(answer);
}

static void send_outcome(struct explain_answer *answer, enum explain_outcome outcome,
                         const struct explanation *of)
{
    struct json_writer out;

    json_writer_init(&out);
    write_outcome(&out, outcome, of);
    if (!out.text.failed)
        fleet_answer(fleet_of(answer->fleet), &answer->asked, text_out_written(&out.text));
    json_writer_fini(&out);
    free_answer(answer);
}

static void explained_for_another(void *context, enum explain_outcome outcome,
                                  const struct explanation *of)
{
    send_outcome(context, outcome, of);
}

static void refuse_question(const struct explain_fleet *fleet, const struct fleet_asked *asked,
                            const char *code, const char *why)
{
    struct json_writer out;

    json_writer_init(&out);
    write_failure(&out, code, why);
    if (!out.text.failed)
        fleet_answer(fleet_of(fleet), asked, text_out_written(&out.text));
    json_writer_fini(&out);
}

/* A parameter that this program does not know is a later one's, and would make it another call. */
void explain_fleet_answer(struct explain_fleet *fleet, const struct fleet_asked *asked,
                          struct slice text)
{
    struct explain_query wanted;
    struct slice query = {NULL, 0};
    char why[160] = "it asks for what this program does not know", wrong[64];

    if (text.n > strlen(PREFIX) && memcmp(text.at, PREFIX, strlen(PREFIX)) == 0)
        query = (struct slice){text.at + strlen(PREFIX), text.n - strlen(PREFIX)};
    if (query.n == 0 ||
        !admin_query_check(query, EXPLAIN_PARAMETERS " scope", EXPLAIN_NAME_MAX + 1, wrong) ||
        !explain_query_read(query, &wanted, why)) {
        refuse_question(fleet, asked, "invalid", why);
        return;
    }
    struct explain_answer *answer = fleet->n_answers < AT_ONCE ? calloc(1, sizeof *answer) : NULL;
    if (answer == NULL) {
        refuse_question(fleet, asked, "busy", "too many questions at once");
        return;
    }
    answer->fleet = fleet;
    answer->asked = *asked;
    LIST_INSERT_HEAD(&fleet->answers, answer, link);
    fleet->n_answers++;
    explain_start(fleet->admin->options.explainer, admin_generation(fleet->admin), &wanted.call,
                  &answer->explanation, explained_for_another, answer);
}

/* ---- asking ---- */

static void free_round(struct explain_round *round)
{
    LIST_REMOVE(round, link);
    round->fleet->n_rounds--;
    round->call->round = NULL;
    explain_forget(round->explanation);
    fleet_question_end(round->question);
    json_writer_fini(&round->own);
    free(round);
}

/* What one gateway has said. */
struct verdict {
    bool is_explained, admitted;
    char error[200]; /* why there is none */
};

static void read_error(struct json_reader *reader, struct verdict *verdict)
{
    struct json_text name;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &name, &value))
        if (value.kind == JSON_STRING && json_text_is(name, "message"))
            snprintf(verdict->error, sizeof verdict->error, "%.*s",
                     (int)(value.string.size < 199 ? value.string.size : 199), value.string.bytes);
}

/* False: it is neither an explanation nor an error. JSON_PADDING bytes after the text may be
 * read. */
static bool read_verdict(struct json_reader *reader, struct slice text, struct verdict *verdict)
{
    struct json_text name;
    struct json_value value;

    *verdict = (struct verdict){.error = ""};
    if (!json_begin(reader, text.at, text.n, text.n + JSON_PADDING, &value) ||
        value.kind != JSON_OBJECT || !json_enter(reader))
        return json_end(reader) && false;
    while (json_next(reader, &name, &value))
        if (value.kind == JSON_BOOL && json_text_is(name, "admitted")) {
            verdict->is_explained = true;
            verdict->admitted = value.boolean;
        } else if (value.kind == JSON_OBJECT && json_text_is(name, "error")) {
            read_error(reader, verdict);
        }
    return json_end(reader) && (verdict->is_explained || verdict->error[0] != '\0');
}

static void write_explained(struct json_writer *out, const struct fleet_heard *heard,
                            const struct heard *one, const struct verdict *verdict)
{
    json_write_object(out);
    fleet_heard_write(out, heard, one);
    json_write_key(out, "explanation");
    if (verdict->is_explained)
        json_write_raw(out, one->text.at, one->text.n);
    else
        json_write_null(out);
    json_member_text(out, "error", verdict->error[0] != '\0' ? verdict->error : NULL);
    json_write_object_end(out);
}

static void write_round(struct json_writer *out, const struct fleet_heard *heard,
                        struct json_reader *reader)
{
    struct json_writer rows;
    int64_t explained = 0, admitting = 0;

    json_writer_init(&rows);
    json_write_array(&rows);
    for (size_t i = 0; i < heard->n; i++) {
        struct heard *one = &heard->list[i];
        struct verdict verdict = {.error = ""};
        if (one->has_answered || one->is_self)
            one->is_unreadable = !read_verdict(reader, one->text, &verdict);
        explained += verdict.is_explained;
        admitting += verdict.admitted;
        write_explained(&rows, heard, one, &verdict);
    }
    json_write_array_end(&rows);
    json_write_object(out);
    json_member_text(out, "scope", "fleet");
    json_member_flag(out, "complete", fleet_heard_is_complete(heard));
    json_member_flag(out, "store_away", heard->away);
    json_member_number(out, "explained", explained);
    json_member_number(out, "admitting", admitting);
    json_write_key(out, "gateways");
    json_write_raw(out, rows.text.bytes, rows.text.size);
    json_write_object_end(out);
    out->text.failed |= rows.text.failed;
    json_writer_fini(&rows);
}

static void finish_if_over(struct explain_round *round)
{
    struct admin *admin = round->fleet->admin;
    struct http_inbound *in = round->call->in;
    struct fleet_heard heard;
    struct json_writer out;

    if (!round->has_own || !round->has_replies)
        return;
    bool made = text_out_reserve(&round->own.text, JSON_PADDING) &&
                fleet_heard_init(&heard, admin->options.gateway, &round->replies, admin_now(admin));
    if (!made) {
        free_round(round);
        admin_reply_error(in, 503, "busy", "no memory");
        return;
    }
    memset(round->own.text.bytes + round->own.text.size, 0, JSON_PADDING);
    heard.list[0].text = text_out_written(&round->own.text);
    json_writer_init(&out);
    write_round(&out, &heard, admin->reader);
    fleet_heard_fini(&heard);
    free_round(round);
    admin_reply(in, 200, &out);
}

static void explained_here(void *context, enum explain_outcome outcome,
                           const struct explanation *of)
{
    struct explain_round *round = context;

    write_outcome(&round->own, outcome, of);
    round->has_own = true;
    finish_if_over(round);
}

static void others_answered(void *context, const struct fleet_replies *replies)
{
    struct explain_round *round = context;

    round->replies = *replies;
    round->has_replies = true;
    finish_if_over(round);
}

void explain_fleet_start(struct admin_call *call, const struct explain_query *asked)
{
    struct explain_fleet *fleet = call->admin->explain_fleet;
    char text[QUESTION_MAX];
    int n = snprintf(text, sizeof text, PREFIX "%.*s", (int)call->query.n, call->query.at);
    struct explain_round *round =
        fleet->n_rounds < AT_ONCE && n < QUESTION_MAX ? calloc(1, sizeof *round) : NULL;

    if (round == NULL) {
        admin_reply_error(call->in, 503, "busy", "too many such questions, or too long a one");
        return;
    }
    round->fleet = fleet;
    round->call = call;
    call->round = round;
    json_writer_init(&round->own);
    LIST_INSERT_HEAD(&fleet->rounds, round, link);
    fleet->n_rounds++;
    round->has_replies = fleet_of(fleet) == NULL;
    if (fleet_of(fleet) != NULL)
        round->question = fleet_question_new(fleet_of(fleet), (struct slice){text, (size_t)n},
                                             others_answered, round);
    if (fleet_of(fleet) != NULL && round->question == NULL) {
        free_round(round);
        admin_reply_error(call->in, 503, "busy", "no memory");
        return;
    }
    explain_start(fleet->admin->options.explainer, admin_generation(fleet->admin), &asked->call,
                  &round->explanation, explained_here, round);
}

void explain_fleet_gone(struct admin_call *call)
{
    if (call->round != NULL)
        free_round(call->round);
}

/* ---- life ---- */

struct explain_fleet *explain_fleet_new(struct admin *admin)
{
    struct explain_fleet *fleet = calloc(1, sizeof *fleet);

    if (fleet == NULL)
        return NULL;
    fleet->admin = admin;
    LIST_INIT(&fleet->rounds);
    LIST_INIT(&fleet->answers);
    return fleet;
}

void explain_fleet_free(struct explain_fleet *fleet)
{
    if (fleet == NULL)
        return;
    while (!LIST_EMPTY(&fleet->rounds))
        free_round(LIST_FIRST(&fleet->rounds));
    while (!LIST_EMPTY(&fleet->answers)) {
        explain_forget(LIST_FIRST(&fleet->answers)->explanation);
        free_answer(LIST_FIRST(&fleet->answers));
    }
    free(fleet);
}
