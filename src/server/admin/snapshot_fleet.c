/* snapshot_fleet.c - the snapshot of all gateways as one. See snapshot_fleet.h. */
#include "server/admin/snapshot_fleet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/fleet_heard.h"
#include "server/admin/snapshot_internal.h"
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

    if (!slice_equal(text, QUESTION)) {
        explain_fleet_answer(fleet->admin->explain_fleet, asked, text);
        return;
    }
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
    int64_t value = redis_reply_number(redis_reply_at(reply, i));

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

/* False: its window has no name here, for the tenant is in another gateway's configuration. */
static bool ask_window(struct round_window *window, const struct admin *admin)
{
    const struct gateway *gateway = admin->options.gateway;
    const struct config *config = &admin_generation(admin)->config;
    const char *name = merge_text(window->row, "tenant"), *root = NULL;
    const struct config_tenant *tenant =
        name != NULL ? config_tenant(config, name, strlen(name)) : NULL;
    char key[REMOTE_MONEY_KEY_MAX];

    if (name != NULL && tenant == NULL)
        return false;
    if (tenant != NULL)
        root = snapshot_root(config, tenant);
    size_t n = remote_money_window(gateway->remote->money, name, merge_text(window->row, "key"),
                                   root, merge_integer(window->row, "begins_at", 0),
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

static bool add_snapshot(struct round *round, struct heard *one, struct slice text)
{
    struct json_reader *reader = round->fleet->admin->reader;

    if (!merge_add(round->merge, reader, text, one->name)) {
        one->is_unreadable = one->snapshot == NULL;
        return false;
    }
    if (one->snapshot == NULL)
        one->snapshot = merge_new(fleet_gateway_rules);
    one->is_unreadable = false;
    return one->snapshot != NULL && merge_add(one->snapshot, reader, text, one->name);
}

static void write_gateways(struct round *round, const struct fleet_heard *heard)
{
    struct json_writer *out = &round->gateways;

    json_write_array(out);
    for (size_t i = 0; i < heard->n; i++) {
        const struct heard *one = &heard->list[i];
        json_write_object(out);
        fleet_heard_write(out, heard, one);
        json_write_key(out, "snapshot");
        if (one->snapshot != NULL) {
            json_write_object(out);
            merge_write(one->snapshot, out);
            json_write_object_end(out);
        } else {
            json_write_null(out);
        }
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

/* False: no memory. */
static bool hear_all(struct round *round, const struct fleet_replies *replies)
{
    const struct admin *admin = round->fleet->admin;
    struct fleet_heard heard;
    struct json_writer own;

    if (!fleet_heard_init(&heard, admin->options.gateway, replies, admin_now(admin)))
        return false;
    json_writer_init(&own);
    write_own(admin, &own);
    bool added =
        !own.text.failed && add_snapshot(round, &heard.list[0], text_out_written(&own.text));
    json_writer_fini(&own);
    for (size_t i = 0; i < replies->n; i++)
        add_snapshot(round, fleet_heard_find(&heard, replies->list[i].id), replies->list[i].text);
    round->is_complete = fleet_heard_is_complete(&heard);
    write_gateways(round, &heard);
    for (size_t i = 0; i < heard.n; i++)
        merge_free(heard.list[i].snapshot);
    fleet_heard_fini(&heard);
    return added && !round->gateways.text.failed;
}

/* ---- a round ---- */

static void answered(void *context, const struct fleet_replies *replies)
{
    struct snapshot_fleet *fleet = context;
    struct round *round = calloc(1, sizeof *round);
    bool heard = false;

    if (round != NULL) {
        round->fleet = fleet;
        fleet->round = round;
        round->is_away = replies->away;
        round->merge = merge_new(fleet_snapshot_rules);
        json_writer_init(&round->gateways);
        net_timer_init(&round->timer, time_is_up, round);
        heard = round->merge != NULL && hear_all(round, replies);
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
