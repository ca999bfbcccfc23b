/* snapshot_fleet.c - the snapshot of all gateways as one. See snapshot_fleet.h. */
#include "server/admin/snapshot_fleet.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/snapshot_internal.h"
#include "server/fleet/fleet_question.h"
#include "server/fleet/fleet_snapshot.h"
#include "server/remote/remote.h"

#define QUESTION SLICE("snapshot")

enum {
    WINDOWS_MAX = 1024, /* budgets that the store is asked about */
    WINDOWS_MS = 500,   /* for its answers */
};

/* A sum over all gateways is not cut where one gateway's list would be. */
static const struct snapshot_bounds TOLD = {SNAPSHOT_ROUTES_MAX, SNAPSHOT_KEYS_MAX,
                                            SNAPSHOT_BUDGETS_MAX, 5 * SNAPSHOT_TENANTS_MAX,
                                            SNAPSHOT_DENIALS_MAX};

/* What the store has of one budget's window. */
struct round_window {
    struct redis_ask ask;
    struct round *round;
    struct merge_node *row;
};

/* From the answers of gateways to the reply. It outlives whoever waits, until the store has
 * answered: its asks are in it. */
struct round {
    struct snapshot_fleet *fleet; /* null: nobody waits any more */
    struct merge *merge;
    struct json_writer gateways; /* the list, written */
    bool is_complete, is_away;
    struct net_timer timer;
    size_t n, left; /* windows; of them without an answer */
    struct round_window *windows;
};

struct snapshot_fleet {
    struct admin *admin;
    LIST_HEAD(, admin_call) waiting, next; /* for this round; for the one after it */
    struct fleet_question *question;       /* null: none is asked */
    struct round *round;                   /* null: its answers have not come */
    bool is_busy;
};

static struct fleet *fleet_of(const struct snapshot_fleet *fleet)
{
    return fleet->admin->options.gateway->fleet;
}

/* ---- this gateway's own ---- */

/* Followed by JSON_PADDING bytes. As long as it may be to be sent: shorter lists if need be. */
static void write_own(const struct admin *admin, struct json_writer *out)
{
    struct snapshot_bounds bounds = TOLD;

    for (;;) {
        json_writer_clear(out);
        snapshot_write_within(out, &admin->memory, admin_generation(admin), admin_now(admin),
                              &bounds);
        if (out->text.size <= FLEET_ANSWER_MAX || bounds.routes == 0)
            break;
        bounds.routes /= 2;
        bounds.keys /= 2;
        bounds.budgets /= 2;
        bounds.tenants /= 2;
        bounds.denials /= 2;
    }
    if (text_out_reserve(&out->text, JSON_PADDING))
        memset(out->text.bytes + out->text.size, 0, JSON_PADDING);
}

/* Another gateway asks. */
static void asked(void *context, const struct fleet_asked *asked, struct slice text)
{
    const struct snapshot_fleet *fleet = context;
    struct json_writer out;

    if (!slice_equal(text, QUESTION))
        return;
    json_writer_init(&out);
    write_own(fleet->admin, &out);
    if (!out.text.failed)
        fleet_answer(fleet_of(fleet), asked, text_out_written(&out.text));
    json_writer_fini(&out);
}

/* ---- the reply ---- */

static void write_reply(struct json_writer *out, const struct round *round)
{
    struct gateway *gateway = round->fleet->admin->options.gateway;

    json_write_object(out);
    json_member_text(out, "scope", "fleet");
    json_member_flag(out, "complete", round->is_complete);
    json_member_flag(out, "store_away", round->is_away);
    json_write_key(out, "gateways");
    json_write_raw(out, round->gateways.text.bytes, round->gateways.text.size);
    merge_write(round->merge, out);
    snapshot_write_fleet(out, gateway);
    json_write_object_end(out);
}

static void free_round(struct round *round)
{
    assert(round->left == 0 && round->fleet == NULL);
    merge_free(round->merge);
    json_writer_fini(&round->gateways);
    free(round->windows);
    free(round);
}

static void leave_round(struct round *round)
{
    net_timer_stop(round->fleet->admin->options.loop, &round->timer);
    round->fleet->round = NULL;
    round->fleet = NULL;
    if (round->left == 0)
        free_round(round);
}

static void begin(struct snapshot_fleet *fleet);

static void reply_all(struct snapshot_fleet *fleet, const struct json_writer *body)
{
    struct admin_call *call;
    struct json_writer out;

    while ((call = LIST_FIRST(&fleet->waiting)) != NULL) {
        snapshot_fleet_gone(call);
        if (body == NULL || body->text.failed) {
            admin_reply_error(call->in, 503, "busy", "no memory");
            continue;
        }
        json_writer_init(&out);
        json_write_raw(&out, body->text.bytes, body->text.size);
        admin_reply(call->in, 200, &out);
    }
    while ((call = LIST_FIRST(&fleet->next)) != NULL) {
        LIST_REMOVE(call, fleet_link);
        LIST_INSERT_HEAD(&fleet->waiting, call, fleet_link);
    }
    fleet->is_busy = false;
    if (!LIST_EMPTY(&fleet->waiting))
        begin(fleet);
}

static void finish(struct round *round)
{
    struct snapshot_fleet *fleet = round->fleet;
    struct json_writer out;

    json_writer_init(&out);
    write_reply(&out, round);
    leave_round(round);
    reply_all(fleet, &out);
    json_writer_fini(&out);
}

/* ---- budgets ---- */

static void put_budget(struct merge_node *row, tg_micro settled, tg_micro held)
{
    tg_micro limit = merge_integer(row, "limit_micro_usd", 0);
    tg_micro reserved = merge_integer(row, "reserved_micro_usd", 0);

    merge_put(row, "used_micro_usd", settled);
    merge_put(row, "held_micro_usd", held);
    merge_put(row, "left_micro_usd", num_less(limit, num_add(settled, held)));
    merge_put_real(row, "used_ratio",
                   limit > 0 ? (double)num_add(settled, reserved) / (double)limit : 1);
}

static int64_t field_of(const struct redisReply *reply, size_t i)
{
    struct slice text = redis_reply_text(redis_reply_at(reply, i));
    char copy[24] = "";

    if (text.n < sizeof copy && text.n > 0)
        memcpy(copy, text.at, text.n);
    int64_t value = strtoll(copy, NULL, 10);
    return value < 0 ? 0 : num_min(value, TG_NUMBER_MAX);
}

static void window_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct round_window *window = container_of(ask, struct round_window, ask);
    struct round *round = window->round;

    round->left--;
    if (round->fleet == NULL) {
        if (round->left == 0)
            free_round(round);
        return;
    }
    if (!redis_reply_is_error(reply) && redis_reply_n(reply) == 3)
        put_budget(window->row, field_of(reply, 0),
                   num_add(field_of(reply, 1), field_of(reply, 2)));
    if (round->left == 0)
        finish(round);
}

static const char *root_of(const struct config *config, const char *name)
{
    const struct config_tenant *tenant = config_tenant(config, name, strlen(name));

    while (tenant != NULL && tenant->parent != CONFIG_NO_PARENT)
        tenant = &config->tenants[tenant->parent];
    return tenant != NULL ? tenant->name : NULL;
}

/* False: its window has no name here, for the tenant is in another gateway's configuration. */
static bool ask_window(struct round_window *window, const struct admin *admin)
{
    const struct gateway *gateway = admin->options.gateway;
    const char *tenant = merge_text(window->row, "tenant");
    const char *root = tenant != NULL ? root_of(&admin_generation(admin)->config, tenant) : NULL;
    char key[REMOTE_MONEY_KEY_MAX];

    if (tenant != NULL && root == NULL)
        return false;
    size_t n = remote_money_window(gateway->remote->money, tenant, root,
                                   merge_integer(window->row, "begins_at", 0),
                                   merge_integer(window->row, "reset_at", TG_NUMBER_MAX), key);
    if (n == 0)
        return false;
    const struct slice words[] = {SLICE("HMGET"), {key, n}, SLICE("s"), SLICE("b"), SLICE("o")};
    redis_ask_init(&window->ask, window_answered, NULL);
    window->round->left++;
    redis_command(fleet_redis(gateway->fleet), &window->ask, words, 5, 1);
    return true;
}

static void time_is_up(void *arg)
{
    finish(arg);
}

/* What is spent of each, by all gateways. Where the store does not say it, nobody knows what is
 * left for all. */
static void ask_windows(struct round *round)
{
    const struct admin *admin = round->fleet->admin;
    const struct merge_node *rows = merge_rows(round->merge, "budgets");
    size_t n = merge_rows_n(rows);

    round->windows = calloc(n + 1, sizeof *round->windows);
    for (size_t i = 0; i < n; i++) {
        struct merge_node *row = merge_row(rows, i);
        if (admin->options.gateway->fleet == NULL) {
            put_budget(row, merge_integer(row, "used_micro_usd", 0),
                       merge_integer(row, "reserved_micro_usd", 0));
            continue;
        }
        merge_put_null(row, "held_micro_usd");
        merge_put_null(row, "left_micro_usd");
        if (round->windows == NULL || round->is_away || round->n == WINDOWS_MAX)
            continue;
        struct round_window *window = &round->windows[round->n];
        *window = (struct round_window){.round = round, .row = row};
        round->n += ask_window(window, admin);
    }
    if (round->left > 0)
        net_timer_set(admin->options.loop, &round->timer, WINDOWS_MS);
    else
        finish(round);
}

/* ---- gateways ---- */

/* What became of one of them. */
struct heard {
    const struct fleet_report *report; /* null: it has answered, and has said nothing else yet */
    const char *id;
    bool is_self;
    struct merge *snapshot; /* what is shown of it; null: it has not answered */
    bool is_unreadable;
};

static const char *heard_name(const struct heard *heard, const struct fleet_view *view)
{
    if (heard->is_self)
        return view->name != NULL ? view->name : "";
    return heard->report != NULL && *heard->report->name != '\0' ? heard->report->name : heard->id;
}

static const char *answer_of(const struct heard *heard, tg_ms silent, bool asked)
{
    if (heard->is_self)
        return "self";
    if (heard->snapshot != NULL)
        return "answered";
    if (heard->is_unreadable)
        return "unreadable";
    if (silent > FLEET_SILENT_MS)
        return "silent";
    if (!heard->report->answers)
        return "unable";
    return asked ? "late" : "unasked";
}

static void write_heard(struct round *round, const struct heard *heard,
                        const struct fleet_view *view, tg_ms since)
{
    struct json_writer *out = &round->gateways;
    const struct fleet_report *report = heard->report;
    tg_ms silent = heard->is_self || report == NULL ? 0 : report->silent + since;
    const char *answer = answer_of(heard, silent, !round->is_away);

    round->is_complete &=
        heard->is_self || heard->snapshot != NULL || strcmp(answer, "silent") == 0;
    json_write_object(out);
    json_member_text(out, "id", heard->id);
    json_member_text(out, "name", heard_name(heard, view));
    json_member_text(out, "program",
                     heard->is_self   ? tg_version()
                     : report != NULL ? report->program
                                      : NULL);
    json_member_text(out, "answer", answer);
    json_member_number(out, "silent_ms", silent);
    json_write_key(out, "snapshot");
    if (heard->snapshot != NULL) {
        json_write_object(out);
        merge_write(heard->snapshot, out);
        json_write_object_end(out);
    } else {
        json_write_null(out);
    }
    json_write_object_end(out);
}

static bool add_snapshot(struct round *round, struct heard *heard, struct slice text,
                         const struct fleet_view *view)
{
    struct json_reader *reader = round->fleet->admin->reader;

    if (!merge_add(round->merge, reader, text, heard_name(heard, view))) {
        heard->is_unreadable = heard->snapshot == NULL;
        return false;
    }
    if (heard->snapshot == NULL)
        heard->snapshot = merge_new(fleet_gateway_rules);
    return heard->snapshot != NULL &&
           merge_add(heard->snapshot, reader, text, heard_name(heard, view));
}

/* The one of that id; the first that is free becomes it. */
static struct heard *find_heard(struct heard *list, size_t *n, const char *id)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i].id, id) == 0)
            return &list[i];
    list[*n] = (struct heard){.id = id};
    return &list[(*n)++];
}

/* False: no memory. */
static bool hear_all(struct round *round, const struct fleet_replies *replies,
                     const struct fleet_view *view)
{
    const struct admin *admin = round->fleet->admin;
    struct heard *list = calloc(view->n_reports + replies->n + 1, sizeof *list);
    struct json_writer own;
    size_t n = 0;

    if (list == NULL)
        return false;
    find_heard(list, &n, view->id)->is_self = true;
    for (size_t i = 0; i < view->n_reports; i++)
        find_heard(list, &n, view->reports[i].id)->report = &view->reports[i];
    json_writer_init(&own);
    write_own(admin, &own);
    bool added =
        !own.text.failed && add_snapshot(round, &list[0], text_out_written(&own.text), view);
    json_writer_fini(&own);
    for (size_t i = 0; i < replies->n; i++)
        add_snapshot(round, find_heard(list, &n, replies->list[i].id), replies->list[i].text, view);
    json_write_array(&round->gateways);
    for (size_t i = 0; i < n; i++) {
        write_heard(round, &list[i], view, admin_now(admin) - view->reported_at);
        merge_free(list[i].snapshot);
    }
    json_write_array_end(&round->gateways);
    free(list);
    return added && !round->gateways.text.failed;
}

/* ---- a round ---- */

static void answered(void *context, const struct fleet_replies *replies)
{
    struct snapshot_fleet *fleet = context;
    const struct gateway *gateway = fleet->admin->options.gateway;
    struct round *round = calloc(1, sizeof *round);
    struct fleet_view view = {.reports = NULL};
    char alone[40];
    bool heard = false;

    snprintf(alone, sizeof alone, "%016" PRIx64,
             gateway->ledger != NULL ? ledger_id(gateway->ledger) : 0);
    view.id = alone;
    if (gateway->fleet != NULL)
        fleet_get_view(gateway->fleet, &view);
    if (round != NULL) {
        round->fleet = fleet;
        fleet->round = round;
        round->is_complete = !replies->away && !replies->busy;
        round->is_away = replies->away;
        round->merge = merge_new(fleet_snapshot_rules);
        json_writer_init(&round->gateways);
        net_timer_init(&round->timer, time_is_up, round);
        heard = round->merge != NULL && hear_all(round, replies, &view);
    }
    fleet_question_end(fleet->question);
    fleet->question = NULL;
    if (heard) {
        ask_windows(round);
        return;
    }
    if (round != NULL)
        leave_round(round);
    reply_all(fleet, NULL);
}

static void begin(struct snapshot_fleet *fleet)
{
    const struct fleet_replies nobody = {.list = NULL};

    fleet->is_busy = true;
    if (fleet_of(fleet) == NULL) {
        answered(fleet, &nobody);
        return;
    }
    fleet->question = fleet_question_new(fleet_of(fleet), QUESTION, answered, fleet);
    if (fleet->question == NULL)
        reply_all(fleet, NULL);
}

void snapshot_fleet_start(struct admin_call *call)
{
    struct snapshot_fleet *fleet = call->admin->fleet;

    call->waits_for_fleet = true;
    if (fleet->is_busy) {
        LIST_INSERT_HEAD(&fleet->next, call, fleet_link);
        return;
    }
    LIST_INSERT_HEAD(&fleet->waiting, call, fleet_link);
    begin(fleet);
}

void snapshot_fleet_gone(struct admin_call *call)
{
    if (call->waits_for_fleet)
        LIST_REMOVE(call, fleet_link);
    call->waits_for_fleet = false;
}

struct snapshot_fleet *snapshot_fleet_new(struct admin *admin)
{
    struct snapshot_fleet *fleet = calloc(1, sizeof *fleet);

    if (fleet == NULL)
        return NULL;
    fleet->admin = admin;
    LIST_INIT(&fleet->waiting);
    LIST_INIT(&fleet->next);
    if (fleet_of(fleet) != NULL)
        fleet_on_question(fleet_of(fleet), asked, fleet);
    return fleet;
}

void snapshot_fleet_free(struct snapshot_fleet *fleet)
{
    if (fleet == NULL)
        return;
    if (fleet_of(fleet) != NULL)
        fleet_on_question(fleet_of(fleet), NULL, NULL);
    fleet_question_end(fleet->question);
    if (fleet->round != NULL)
        leave_round(fleet->round);
    free(fleet);
}
