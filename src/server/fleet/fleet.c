/* fleet.c - looks at the head of the store, tells others where this gateway stands. See fleet.h.
 *
 * Reading and storing are in fleet_ask.c.
 */
#include "server/fleet/fleet.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "lib/core/array.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/fleet/fleet_internal.h"

enum { LOOK_MS = 100, SILENT_MS = 1000, REPORT_MS = 1000, POLICY_MS = 5000, AGAIN_MS = 10000 };

/* ---- telling the owner ---- */

static void tell_changed(struct fleet *fleet)
{
    if (fleet->changed != NULL)
        fleet->changed(fleet->context);
}

static void move(struct fleet *fleet, enum fleet_event event)
{
    enum fleet_state after = fleet_state_after(fleet->state, event);
    tg_ms now = net_loop_now(fleet->options.loop);

    if (event < FLEET_LOST)
        fleet->seen = event;
    if (after != FLEET_BEHIND && after != FLEET_AWAY)
        fleet->behind_since = 0;
    else if (fleet->behind_since == 0 && fleet->stored_version > fleet->mark.version)
        fleet->behind_since = now;
    if (after == fleet->state)
        return;
    fleet->state = after;
    fleet->report_at = 0; /* the others are to know at once */
    tell_changed(fleet);
}

/* ---- the head ---- */

static void saw_head(struct fleet *fleet, const struct redisReply *reply)
{
    struct fleet_head head = {.epoch = redis_reply_text(redis_reply_at(reply, 0)),
                              .version = redis_reply_number(redis_reply_at(reply, 1)),
                              .change = redis_reply_text(redis_reply_at(reply, 2)),
                              .schema = redis_reply_number(redis_reply_at(reply, 3)),
                              .lineage = redis_reply_text(redis_reply_at(reply, 4)),
                              .flagged = fleet->flagged};
    tg_ms now = net_loop_now(fleet->options.loop);

    head.present = head.epoch.n > 0;
    if (head.version != fleet->stored_version)
        fleet->failed_at = 0;
    fleet->stored_version = head.version;
    snprintf(fleet->stored_epoch, sizeof fleet->stored_epoch, "%.*s",
             head.present ? (int)head.epoch.n : 1, head.present ? head.epoch.at : "-");
    enum fleet_event event = fleet_state_judge(&fleet->mark, &head);
    if (!fleet->was_read && event == FLEET_SAW_SAME)
        event = FLEET_SAW_NEWER; /* what an older program did to the copy is not known: read it */
    if (event == FLEET_SAW_SAME || event == FLEET_SAW_NEWER)
        snprintf(fleet->lineage, sizeof fleet->lineage, "%.*s", (int)head.lineage.n,
                 head.lineage.n > 0 ? head.lineage.at : "");
    move(fleet, event);
    if (fleet->state == FLEET_BEHIND && fleet->behind != NULL &&
        (fleet->failed_at == 0 || now - fleet->failed_at >= AGAIN_MS))
        fleet->behind(fleet->context);
}

static void head_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct fleet *fleet = container_of(ask, struct fleet, head_ask);

    fleet->head_asked = false;
    if (fleet->ended || redis_reply_is_error(reply) || redis_reply_n(reply) != 6)
        return;
    if (fleet->state == FLEET_AWAY)
        fleet->policy_at = 0; /* it may be another server */
    fleet->met = true;
    fleet->answered_at = net_loop_now(fleet->options.loop);
    saw_head(fleet, reply);
    fleet_saw_asked(fleet, redis_reply_number(redis_reply_at(reply, 5)), fleet->answered_at);
}

static void ask_head(struct fleet *fleet)
{
    const struct slice words[] = {SLICE("HMGET"),   slice_of(fleet->keys[FLEET_HEAD]),
                                  SLICE("epoch"),   SLICE("version"),
                                  SLICE("change"),  SLICE("schema"),
                                  SLICE("lineage"), SLICE("asked")};

    if (fleet->head_asked)
        return;
    fleet->head_asked = true;
    redis_command(fleet->options.redis, &fleet->head_ask, words, 8, 1);
}

/* ---- reports ---- */

enum { PROCESSES_MAX = 64 }; /* a report may say anything */

static void copy_member(char *place, size_t room, struct json_text text)
{
    snprintf(place, room, "%.*s", (int)(text.size < room ? text.size : room - 1), text.bytes);
}

static bool read_report(struct fleet *fleet, struct slice text, struct fleet_report *report)
{
    struct json_value value;
    struct json_text key;

    json_begin(fleet->reader, text.at, text.n, text.n, &value);
    if (value.kind != JSON_OBJECT || !json_enter(fleet->reader))
        return json_end(fleet->reader) && false;
    while (json_next(fleet->reader, &key, &value)) {
        if (value.kind == JSON_STRING && json_text_is(key, "name"))
            copy_member(report->name, sizeof report->name, value.string);
        else if (value.kind == JSON_STRING && json_text_is(key, "program"))
            copy_member(report->program, sizeof report->program, value.string);
        else if (value.kind == JSON_STRING && json_text_is(key, "state"))
            copy_member(report->state, sizeof report->state, value.string);
        else if (value.kind == JSON_STRING && json_text_is(key, "epoch"))
            copy_member(report->epoch, sizeof report->epoch, value.string);
        else if (value.kind == JSON_STRING && json_text_is(key, "problem"))
            copy_member(report->problem, sizeof report->problem, value.string);
        else if (value.kind == JSON_INTEGER && json_text_is(key, "version"))
            report->version = value.integer;
        else if (value.kind == JSON_INTEGER && json_text_is(key, "since"))
            report->since = value.integer;
        else if (value.kind == JSON_INTEGER && json_text_is(key, "processes") && value.integer > 1)
            report->processes = num_min(value.integer, PROCESSES_MAX);
        else if (value.kind == JSON_BOOL && json_text_is(key, "answers"))
            report->answers = value.boolean;
    }
    return json_end(fleet->reader);
}

static void report_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct fleet *fleet = container_of(ask, struct fleet, report_ask);
    size_t n = redis_reply_n(reply);

    fleet->report_asked = false;
    if (fleet->ended || redis_reply_is_error(reply) || n < 2)
        return;
    int64_t now = redis_reply_integer(redis_reply_at(reply, 0), 0);
    /* One that is not followed flags it itself. */
    fleet->flagged = redis_reply_integer(redis_reply_at(reply, 1), 0) == 1;
    if (!array_reserve(&fleet->reports, &fleet->reports_room, n / 3 + 1))
        return;
    fleet->n_reports = 0;
    fleet->reported_at = net_loop_now(fleet->options.loop);
    for (size_t i = 2; i + 2 < n; i += 3) {
        struct fleet_report *report = &fleet->reports[fleet->n_reports];
        struct slice id = redis_reply_text(redis_reply_at(reply, i));
        *report = (struct fleet_report){
            .processes = 1, .silent = now - redis_reply_integer(redis_reply_at(reply, i + 1), now)};
        snprintf(report->id, sizeof report->id, "%.*s", (int)id.n, id.n > 0 ? id.at : "");
        fleet->n_reports +=
            read_report(fleet, redis_reply_text(redis_reply_at(reply, i + 2)), report);
    }
}

static void send_report(struct fleet *fleet, tg_ms now)
{
    bool regressed = fleet->state == FLEET_REGRESSED && fleet->seen != FLEET_SAW_FLAGGED;
    const struct slice keys[] = {slice_of(fleet->keys[FLEET_REPORTS]),
                                 slice_of(fleet->keys[FLEET_REGRESSED_KEY]),
                                 slice_of(fleet->keys[FLEET_HEAD])};
    struct json_writer out;

    if (fleet->report_asked || (fleet->report_at != 0 && now - fleet->report_at < REPORT_MS))
        return;
    json_writer_init(&out);
    json_write_object(&out);
    json_member_text(&out, "name", fleet->name);
    json_member_text(&out, "program", fleet->program);
    json_member_text(&out, "state", fleet_state_name(fleet->state));
    json_member_text(&out, "epoch", fleet->mark.epoch);
    json_member_number(&out, "version", fleet->mark.version);
    json_member_number(&out, "since", fleet->since);
    json_member_text(&out, "problem", fleet->problem);
    json_member_flag(&out, "answers", true);
    json_member_number(&out, "processes", fleet->processes);
    json_write_object_end(&out);
    const struct slice args[] = {slice_of(fleet->id),
                                 {out.text.bytes, out.text.size},
                                 slice_of(regressed ? fleet->stored_epoch : "")};
    if (!out.text.failed) {
        fleet->report_asked = true;
        fleet->report_at = now;
        redis_eval(fleet->options.redis, &fleet->report_ask, &script_fleet_report, keys, 3, args,
                   3);
    }
    json_writer_fini(&out);
}

void fleet_set_processes(struct fleet *fleet, int64_t processes)
{
    assert(processes >= 1);
    if (processes == fleet->processes)
        return;
    fleet->processes = processes;
    fleet->report_at = 0;
}

/* ---- whether it may forget ---- */

static void policy_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    static const char NAME[] = "maxmemory_policy:";
    struct fleet *fleet = container_of(ask, struct fleet, policy_ask);
    struct slice text = redis_reply_text(reply);
    char policy[sizeof fleet->policy] = "";

    fleet->policy_asked = false;
    if (fleet->ended || reply == NULL)
        return;
    fleet->policy_at = net_loop_now(fleet->options.loop);
    if (redis_reply_is_error(reply)) /* denied: nothing is known, and nothing is claimed */
        snprintf(policy, sizeof policy, "unknown");
    for (size_t i = 0; i + sizeof NAME - 1 < text.n; i++)
        if (memcmp(text.at + i, NAME, sizeof NAME - 1) == 0) {
            const char *at = text.at + i + sizeof NAME - 1;
            size_t left = (size_t)(text.at + text.n - at), n = 0;
            while (n < left && n < sizeof policy - 1 && at[n] != '\r' && at[n] != '\n')
                n++;
            memcpy(policy, at, n);
            break;
        }
    bool same = strcmp(policy, fleet->policy) == 0;
    snprintf(fleet->policy, sizeof fleet->policy, "%s", policy);
    if (!same)
        tell_changed(fleet);
}

static void ask_policy(struct fleet *fleet, tg_ms now)
{
    const struct slice words[] = {SLICE("INFO"), SLICE("memory")};

    if (fleet->policy_asked || (fleet->policy_at != 0 && now - fleet->policy_at < POLICY_MS))
        return;
    fleet->policy_asked = true;
    redis_command(fleet->options.redis, &fleet->policy_ask, words, 2, 0);
}

/* ---- life ---- */

static void tick(void *arg)
{
    struct fleet *fleet = arg;
    tg_ms now = net_loop_now(fleet->options.loop);

    net_timer_set(fleet->options.loop, &fleet->timer, LOOK_MS);
    if (now - fleet->answered_at >= SILENT_MS)
        move(fleet, FLEET_LOST);
    ask_head(fleet);
    if (fleet->met)
        send_report(fleet, now);
    ask_policy(fleet, now);
}

static bool write_keys(struct fleet *fleet, const char *prefix)
{
    static const char *const PARTS[] = {"head",    "entries",   "log",
                                        "reports", "regressed", "questions"};
    size_t length = strlen(prefix);
    bool fits = length < sizeof fleet->prefix;

    memcpy(fleet->prefix, prefix, fits ? length + 1 : 0);
    for (int i = 0; i < FLEET_KEYS; i++) {
        int n = snprintf(fleet->keys[i], sizeof fleet->keys[i], "%s:fleet:{fleet}:%s", prefix,
                         PARTS[i]);
        fits &= n > 0 && (size_t)n < sizeof fleet->keys[i];
    }
    return fits;
}

enum tg_err fleet_new(const struct fleet_options *options, struct fleet **made)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);

    if (fleet == NULL)
        return TG_ERR_MEMORY;
    fleet->options = *options;
    fleet->mark = options->mark;
    fleet->stored_version = -1;
    fleet->seen = FLEET_LOST;
    fleet->answered_at = net_loop_now(options->loop);
    fleet->reader = json_reader_new();
    snprintf(fleet->id, sizeof fleet->id, "%s", options->id);
    fleet->processes = 1;
    snprintf(fleet->process, sizeof fleet->process, "%s.%.20s", options->id, options->process);
    snprintf(fleet->name, sizeof fleet->name, "%s", options->name);
    snprintf(fleet->program, sizeof fleet->program, "%s", options->program);
    if (fleet->reader == NULL || !write_keys(fleet, options->prefix)) {
        enum tg_err err = fleet->reader == NULL ? TG_ERR_MEMORY : TG_ERR_INVALID;
        json_reader_free(fleet->reader);
        free(fleet);
        return err;
    }
    redis_ask_init(&fleet->head_ask, head_answered, NULL);
    redis_ask_init(&fleet->report_ask, report_answered, NULL);
    redis_ask_init(&fleet->policy_ask, policy_answered, NULL);
    fleet_asks_init(fleet);
    fleet_questions_init(fleet);
    net_timer_init(&fleet->timer, tick, fleet);
    net_timer_set(options->loop, &fleet->timer, 1);
    *made = fleet;
    return TG_OK;
}

void fleet_stop(struct fleet *fleet)
{
    if (fleet == NULL || fleet->ended)
        return;
    fleet->ended = true;
    fleet_own(fleet, NULL, NULL, NULL);
    fleet_on_question(fleet, NULL, NULL);
    fleet_forget(fleet);
    net_timer_stop(fleet->options.loop, &fleet->timer);
    net_timer_stop(fleet->options.loop, &fleet->again);
}

void fleet_free(struct fleet *fleet)
{
    if (fleet == NULL)
        return;
    assert(fleet->ended);
    fleet_questions_free(fleet);
    free(fleet->reports);
    json_reader_free(fleet->reader);
    free(fleet);
}

void fleet_own(struct fleet *fleet, void (*behind)(void *context), void (*changed)(void *context),
               void *context)
{
    fleet->behind = behind;
    fleet->changed = changed;
    fleet->context = context;
}

struct redis *fleet_redis(const struct fleet *fleet)
{
    return fleet->options.redis;
}

void fleet_get_view(const struct fleet *fleet, struct fleet_view *view)
{
    *view = (struct fleet_view){.id = fleet->id,
                                .name = fleet->name,
                                .state = fleet->state,
                                .seen = fleet->seen,
                                .mark = fleet->mark,
                                .stored_version = fleet->stored_version,
                                .behind_since = fleet->behind_since,
                                .since = fleet->since,
                                .evicts = fleet->policy[0] != '\0' &&
                                          strcmp(fleet->policy, "noeviction") != 0 &&
                                          strcmp(fleet->policy, "unknown") != 0,
                                .problem = fleet->problem,
                                .reports = fleet->reports,
                                .n_reports = fleet->n_reports,
                                .reported_at = fleet->reported_at};
    memcpy(view->policy, fleet->policy, sizeof view->policy);
}

void fleet_applied(struct fleet *fleet, const struct ledger_fleet_mark *mark, tg_ms wall)
{
    fleet->mark = *mark;
    fleet->since = wall;
    fleet->was_read = true;
    fleet->failed_at = 0;
    fleet->problem[0] = '\0';
    if (mark->version > fleet->stored_version)
        fleet->stored_version = mark->version;
    fleet->report_at = 0;
    if (mark->version >= fleet->stored_version) {
        move(fleet, FLEET_APPLIED);
        fleet->behind_since = 0;
    }
}

void fleet_failed(struct fleet *fleet, const char *why)
{
    bool same = strncmp(fleet->problem, why, sizeof fleet->problem - 1) == 0;

    snprintf(fleet->problem, sizeof fleet->problem, "%s", why);
    fleet->failed_at = net_loop_now(fleet->options.loop);
    fleet->report_at = 0;
    move(fleet, FLEET_FAILED);
    if (!same)
        tell_changed(fleet);
}
