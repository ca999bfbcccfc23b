/* admin_fleet.c - changes where several gateways share a store: published, followed, kept. See
 * admin_change.h for the way of a change, and server/fleet/ for the store.
 *
 * A change that was published is stored: nothing takes it back. Where this gateway cannot keep a
 * copy of it or put it in force, its answer says that it is stored all the same, and the gateway
 * goes on from its old copy and tries again: fleet_failed().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/config/config_values.h"
#include "server/obs/log.h"
#include "server/runtime/gateway.h"

enum { CONFLICTS_MAX = 40 };

static struct fleet *fleet_of(const struct admin_change *change)
{
    return change->all->fleet;
}

bool admin_fleet_shares(const struct admin_change *change)
{
    switch (change->kind) {
    case ADMIN_LAPSE: /* each gateway has the ends, and a clock */
    case ADMIN_ADD_CREDIT:
    case ADMIN_LIST_CREDITS:
        return false;
    default:
        return fleet_of(change) != NULL;
    }
}

/* ---- whether it may be made ---- */

static void say_away(struct admin_change *change)
{
    admin_change_say(
        change, 503, "store_away",
        "nothing was changed: the store that all gateways share is away; what was made "
        "before still holds");
}

static void say_regressed(struct admin_change *change)
{
    struct fleet_view view;

    fleet_get_view(fleet_of(change), &view);
    admin_change_say(change, 503, "store_regressed",
                     "nothing was changed: the store is not followed, for %s; this gateway serves "
                     "its copy of version %lld. See docs/distributed.md, or POST "
                     "/api/v1/fleet/restore to restore the store from this copy",
                     *fleet_event_text(view.seen) != '\0' ? fleet_event_text(view.seen)
                                                          : "it is another one than a moment ago",
                     (long long)view.mark.version);
}

static bool admin_fleet_may(struct admin_change *change)
{
    struct fleet_view view;

    fleet_get_view(fleet_of(change), &view);
    if (change->kind == ADMIN_RESTORE) {
        if (view.state == FLEET_REGRESSED && view.seen != FLEET_SAW_FLAGGED)
            return true;
        admin_change_say(change, 409, "not_regressed",
                         "the store is %s: only one that has gone back (store_regressed), and not "
                         "for another gateway alone, is restored from a copy",
                         fleet_state_name(view.state));
        return false;
    }
    if (view.evicts)
        admin_change_say(change, 503, "store_evicts",
                         "nothing was changed: the store may forget it, because its "
                         "maxmemory-policy is %s; set it to noeviction",
                         view.policy);
    else if (view.state == FLEET_REGRESSED)
        say_regressed(change);
    else if (view.state == FLEET_INCOMPATIBLE)
        admin_change_say(change, 503, "store_incompatible",
                         "nothing was changed: a later program has written the store; make changes "
                         "at a gateway that runs it");
    else if (!fleet_state_takes_changes(view.state))
        say_away(change);
    else
        return true;
    return false;
}

bool admin_fleet_expects(struct admin_call *call, int64_t *version)
{
    struct slice value = http_find(&call->in->head, SLICE("if-match"));
    char text[24] = "";

    *version = -1;
    if (value.at == NULL)
        return true;
    if (value.n >= 2 && value.at[0] == '"' && value.at[value.n - 1] == '"')
        value = (struct slice){value.at + 1, value.n - 2};
    if (value.n > 0 && value.n < sizeof text)
        memcpy(text, value.at, value.n);
    if (call->admin->changes->fleet == NULL)
        admin_reply_error(call->in, 409, "version_conflict",
                          "if-match names a version, and there is none: this gateway shares no "
                          "store");
    else if (!value_count(text, version))
        admin_reply_invalid(call, "if-match",
                            "if-match must be a version, as in x-tollgate-version: \"7\"");
    else
        return true;
    return false;
}

/* ---- by the thread: entries and rows ---- */

bool admin_fleet_add(struct admin_change *change, const struct ledger_fleet_row *row)
{
    if (fleet_entries_add_row(&change->shared.entries, row))
        return true;
    admin_change_say(change, 503, "busy", "no memory");
    return false;
}

/* The copy, and all that is there after it. */
static void admin_fleet_keep(struct admin_change *change)
{
    struct admin_shared *shared = &change->shared;
    struct ledger *ledger = change->all->admin->options.gateway->ledger;
    struct ledger_fleet_row *found = NULL, *own = NULL;
    size_t n_found = 0, n_own = 0, strange;
    struct tg_problem problem = {"no memory"};

    bool kept = fleet_entries_rows(&shared->found, &found, &n_found, &strange) &&
                fleet_entries_rows(&shared->entries, &own, &n_own, &strange);
    struct ledger_fleet_row *all = kept ? calloc(n_found + n_own + 1, sizeof *all) : NULL;
    if (all != NULL && n_found > 0)
        memcpy(all, found, n_found * sizeof *all);
    if (all != NULL && n_own > 0)
        memcpy(all + n_found, own, n_own * sizeof *all);
    /* What a restored store has is what the copy has. */
    kept = all != NULL &&
           ledger_fleet_write(ledger, all, change->kind == ADMIN_RESTORE ? 0 : n_found + n_own,
                              shared->whole, &shared->made, &problem) &&
           admin_extras_read(ledger, change->now, &change->after, &problem);
    free(all);
    free(found);
    free(own);
    if (!kept)
        admin_change_say(change, 503, "ledger",
                         "version %lld is stored for all gateways, but this one has no copy of it: "
                         "%s",
                         (long long)shared->made.version, problem.text);
}

/* The copy as it was. */
static void admin_fleet_undo(struct admin_change *change)
{
    struct ledger *ledger = change->all->admin->options.gateway->ledger;
    struct ledger_fleet_row *rows;
    struct tg_problem problem = {"no memory"};
    size_t n;

    if (!fleet_rows_of(&change->before.all, &rows, &n) ||
        !ledger_fleet_write(ledger, rows, n, true, &change->shared.made_for, &problem)) {
        size_t used = strlen(change->message);
        snprintf(change->message + used, sizeof change->message - used,
                 "; and the copy could not be made what it was: %.200s", problem.text);
        return;
    }
    free(rows);
}

/* ---- following: by the thread ---- */

/* Whether the configuration would be valid with what is in the store and what is only here. */
static bool is_valid_with(struct admin_change *change, const struct ledger_fleet_row *rows,
                          size_t n)
{
    struct admin_extras extras = {.next_end = TG_NUMBER_MAX};
    struct config_problems problems = {0};
    struct config config;
    size_t wrong = 0;
    bool added = true;

    for (size_t i = 0; added && i < n; i++)
        added = admin_extras_add(&extras, &rows[i]);
    if (!added || !admin_extras_list(&extras, change->now)) {
        admin_extras_free(&extras);
        admin_change_say(change, 503, "busy", "no memory");
        return false;
    }
    enum config_result result = config_load_with(change->all->admin->options.config_path,
                                                 extras.list, extras.n, &config, &problems);
    for (size_t i = 0; i < problems.n; i++)
        if (!problems.list[i].warning && ++wrong == 1)
            admin_change_say(change, 503, "unmoved",
                             "what was made here before there was a store does not go with what is "
                             "in the store: %.200s: %.300s",
                             problems.list[i].file, problems.list[i].text);
    if (result != CONFIG_READ && wrong == 0)
        admin_change_say(change, 503, "unmoved", "the configuration cannot be read");
    config_free(&config);
    config_problems_free(&problems);
    admin_extras_free(&extras);
    return change->status == 0;
}

/* What this ledger had before it knew a store goes into it, once. */
static bool move_in(struct admin_change *change, struct ledger_fleet_row *found, size_t n_found)
{
    struct admin_shared *shared = &change->shared;
    const struct ledger_admin *own = &change->before.all;
    uint64_t ledger = ledger_id(change->all->admin->options.gateway->ledger);
    bool has_rows =
        own->n_tenants + own->n_keys + own->n_topups + own->n_disabled + own->n_overrides > 0;
    struct ledger_fleet_row *rows = NULL, *all;
    size_t n = 0, strange;

    if (has_rows &&
        !fleet_entries_unmoved(&shared->entries, &shared->found, own, ledger, change->now))
        goto no_memory;
    if (shared->entries.n <= 1) /* nothing, or that it was done */
        return true;
    if (!fleet_entries_rows(&shared->entries, &rows, &n, &strange))
        goto no_memory;
    all = calloc(n_found + n + 1, sizeof *all);
    if (all == NULL) {
        free(rows);
        goto no_memory;
    }
    if (n_found > 0)
        memcpy(all, found, n_found * sizeof *all);
    memcpy(all + n_found, rows, n * sizeof *all);
    bool right = is_valid_with(change, all, n_found + n);
    free(all);
    free(rows);
    return right;
no_memory:
    admin_change_say(change, 503, "busy", "no memory");
    return false;
}

static void prepare_follow(struct admin_change *change)
{
    struct admin_shared *shared = &change->shared;
    struct ledger *ledger = change->all->admin->options.gateway->ledger;
    struct ledger_fleet_row *rows;
    struct tg_problem problem;
    size_t n, strange;

    if (!ledger_fleet_read(ledger, &shared->made_for, &problem) ||
        !admin_extras_read(ledger, change->now, &change->before, &problem)) {
        admin_change_say(change, 503, "ledger", "%s", problem.text);
        return;
    }
    if (!fleet_entries_rows(&shared->found, &rows, &n, &strange)) {
        admin_change_say(change, 503, "busy", "no memory");
        return;
    }
    if (strange > 0 && change->all->admin->options.log != NULL)
        log_event(change->all->admin->options.log, LOG_WARN,
                  "the store has entries that this program cannot read",
                  &LOG_NUMBER("entries", (int64_t)strange), 1);
    if (shared->made_for.epoch[0] == '\0' && !move_in(change, rows, n)) {
        free(rows);
        return;
    }
    shared->same =
        shared->entries.n <= 1 && (shared->whole || shared->made.epoch[0] == '\0') &&
        (shared->made.epoch[0] == '\0' || fleet_rows_equal(rows, n, &change->before.all));
    free(rows);
}

/* ---- following: on the loop ---- */

static void end_follow(struct admin_change *change)
{
    if (change->status != 0)
        fleet_failed(fleet_of(change), change->message);
    admin_change_end(change);
}

static void follow_kept(void *arg)
{
    struct admin_change *change = arg;

    admin_change_joined(change);
    if (change->status != 0) {
        end_follow(change);
        return;
    }
    if (!change->shared.same) {
        admin_change_put_in_force(change);
        return;
    }
    admin_extras_free(&change->all->known);
    change->all->known = change->after;
    memset(&change->after, 0, sizeof change->after);
    admin_fleet_holds(change);
    admin_change_end(change);
}

static void *admin_fleet_keep_job(void *arg)
{
    struct admin_change *change = arg;

    admin_fleet_keep(change);
    net_loop_post(change->all->admin->options.loop, &change->stored);
    return NULL;
}

static void moved_in(void *context, enum fleet_answer answer, const struct ledger_fleet_mark *made)
{
    struct admin_change *change = context;

    if (answer != FLEET_OK) { /* it comes again as long as there is something to follow */
        admin_change_end(change);
        return;
    }
    change->shared.made = *made;
    admin_change_work(change, admin_fleet_keep_job, follow_kept);
}

static void follow_prepared(void *arg)
{
    struct admin_change *change = arg;
    struct admin_shared *shared = &change->shared;

    admin_change_joined(change);
    if (change->status != 0)
        end_follow(change);
    else if (shared->made.epoch[0] == '\0' && shared->made_for.epoch[0] != '\0')
        admin_change_end(change); /* emptied meanwhile */
    else if (shared->entries.n > 0 || shared->made.epoch[0] == '\0')
        fleet_store(fleet_of(change), &shared->made, &shared->entries, moved_in, change);
    else
        admin_change_work(change, admin_fleet_keep_job, follow_kept);
}

static void *prepare_job(void *arg)
{
    struct admin_change *change = arg;

    prepare_follow(change);
    net_loop_post(change->all->admin->options.loop, &change->stored);
    return NULL;
}

/* Whether others have changed something that this gateway has not followed yet: a change is judged
 * by what was there when it came, wherever that was made. */
static void has_looked(void *context, struct fleet_found *found)
{
    struct admin_change *change = context;
    bool same = !found->whole && found->entries.n == 0;

    fleet_entries_free(&found->entries);
    change->shared.looked = true;
    if (found->answer == FLEET_GONE)
        say_regressed(change);
    else if (found->answer != FLEET_OK)
        say_away(change);
    if (change->status != 0)
        admin_change_refuse(change);
    else if (same)
        admin_change_try(change);
    else
        admin_change_again(change);
}

void admin_fleet_begin(struct admin_change *change)
{
    if (!admin_fleet_may(change))
        admin_change_refuse(change);
    else if (change->shared.looked || change->kind == ADMIN_RESTORE)
        admin_change_try(change);
    else
        fleet_read(fleet_of(change), has_looked, change);
}

static void has_found(void *context, struct fleet_found *found)
{
    struct admin_change *change = context;

    change->shared.found = found->entries;
    change->shared.whole = found->whole;
    change->shared.made = found->mark;
    if (found->answer != FLEET_OK)
        admin_change_end(change);
    else
        admin_change_work(change, prepare_job, follow_prepared);
}

void admin_fleet_follow(struct admin_change *change)
{
    fleet_read(fleet_of(change), has_found, change);
}

/* ---- publishing ---- */

static void kept(void *arg)
{
    struct admin_change *change = arg;

    admin_change_joined(change);
    if (change->status != 0)
        admin_change_refuse(change);
    else
        admin_change_put_in_force(change);
}

static void say_conflict(struct admin_change *change)
{
    admin_change_say(change, 409, "version_conflict",
                     "nothing was changed: it was made for version %lld, and another change was "
                     "first; look at what it did, and send yours again",
                     (long long)change->shared.expected);
}

static void published(void *context, enum fleet_answer answer, const struct ledger_fleet_mark *made)
{
    struct admin_change *change = context;
    struct fleet_view view;

    switch (answer) {
    case FLEET_OK:
        change->shared.made = *made;
        admin_change_work(change, admin_fleet_keep_job, kept);
        return;
    case FLEET_CONFLICT:
        if (change->kind == ADMIN_RESTORE) {
            admin_change_say(change, 409, "version_conflict",
                             "nothing was changed: the store is not the one any more that this "
                             "gateway has looked at; another one may have restored it. Look at "
                             "GET /api/v1/fleet first");
            break;
        }
        if (change->shared.expected < 0 && change->shared.tries++ < CONFLICTS_MAX) {
            admin_change_again(change);
            return;
        }
        fleet_get_view(fleet_of(change), &view);
        if (change->shared.expected >= 0)
            say_conflict(change);
        else
            admin_change_say(change, 503, "busy",
                             "nothing was changed: other gateways' changes were first, again and "
                             "again%s%.300s",
                             *view.problem != '\0' ? ", and this one cannot follow them: " : "",
                             view.problem);
        break;
    case FLEET_GONE:
        say_regressed(change);
        break;
    case FLEET_UNREAD:
        say_away(change);
        break;
    case FLEET_UNKNOWN:
        admin_change_say(change, 503, "store_unknown",
                         "the store was lost before it answered: nobody knows whether this was "
                         "stored; look before you send it again");
        break;
    }
    admin_change_refuse(change);
}

void admin_fleet_publish(struct admin_change *change)
{
    const struct admin_shared *shared = &change->shared;

    if (change->kind == ADMIN_RESTORE)
        fleet_restore(fleet_of(change), &shared->entries, published, change);
    else if (shared->expected >= 0 && shared->expected != shared->made_for.version)
        published(change, FLEET_CONFLICT, NULL);
    else if (shared->made_for.epoch[0] == '\0') /* the others' come first */
        published(change, FLEET_CONFLICT, NULL);
    else
        fleet_store(fleet_of(change), &shared->made_for, &shared->entries, published, change);
}

/* ---- in force, or not ---- */

static bool has_disabled(const struct ledger_admin *all, const struct ledger_admin_disabled *key)
{
    for (size_t i = 0; i < all->n_disabled; i++)
        if (strcmp(all->disabled[i].provider, key->provider) == 0 &&
            strcmp(all->disabled[i].name, key->name) == 0)
            return true;
    return false;
}

/* Keys of providers that another gateway has taken out of use, or put back. */
static void switch_keys(struct admin *admin, const struct ledger_admin *from,
                        const struct ledger_admin *to, bool disabled)
{
    for (size_t i = 0; i < from->n_disabled; i++)
        if (!has_disabled(to, &from->disabled[i]))
            admin_key_switch(admin, from->disabled[i].provider, from->disabled[i].name, disabled);
}

void admin_fleet_holds(struct admin_change *change)
{
    if (!admin_fleet_shares(change))
        return;
    if (change->kind == ADMIN_FOLLOW) {
        switch_keys(change->all->admin, &change->all->known.all, &change->before.all, true);
        switch_keys(change->all->admin, &change->before.all, &change->all->known.all, false);
    }
    fleet_applied(fleet_of(change), &change->shared.made, admin_wall(change->all->admin));
}

static void admin_fleet_undone(void *arg)
{
    struct admin_change *change = arg;

    admin_change_joined(change);
    fleet_failed(fleet_of(change), change->message);
    if (change->kind == ADMIN_FOLLOW) {
        admin_change_audit(change, "not in force: the configuration is invalid with it");
        admin_change_end(change);
    } else {
        admin_change_refuse(change);
    }
}

static void *undo_job(void *arg)
{
    struct admin_change *change = arg;

    admin_fleet_undo(change);
    net_loop_post(change->all->admin->options.loop, &change->stored);
    return NULL;
}

/* What the first problem is, for who has to mend it. */
void admin_fleet_failed(struct admin_change *change, const struct reload_result *result)
{
    const char *why = result->failure != NULL ? result->failure : "no memory";

    for (size_t i = 0; result->problems != NULL && i < result->problems->n; i++)
        if (!result->problems->list[i].warning || result->problems->list[i].missing) {
            why = result->problems->list[i].text;
            break;
        }
    admin_change_say(
        change, 503, "not_in_force",
        "version %lld is stored for all gateways, but does not hold at this one: %.500s",
        (long long)change->shared.made.version, why);
    admin_change_work(change, undo_job, admin_fleet_undone);
}

/* ---- what the store is, and the log ---- */

static void log_state(struct admin_changes *changes, const struct fleet_view *view)
{
    struct log *log = changes->admin->options.log;
    const struct log_field fields[] = {
        LOG_TEXT("old_state", fleet_state_name(changes->said)),
        LOG_TEXT("new_state", fleet_state_name(view->state)),
        LOG_TEXT("why", view->problem[0] != '\0' ? view->problem : fleet_event_text(view->seen)),
        LOG_NUMBER("version", view->mark.version),
        LOG_NUMBER("stored_version", view->stored_version)};
    bool bad = view->state == FLEET_REGRESSED || view->state == FLEET_INCOMPATIBLE;

    if (log == NULL)
        return;
    if (view->evicts && !changes->said_evicts)
        log_event(log, LOG_ERROR,
                  "the store may forget keys: set its maxmemory-policy to noeviction",
                  &LOG_TEXT("policy", view->policy), 1);
    if (view->state != changes->said || view->problem[0] != '\0')
        log_event(log,
                  bad                        ? LOG_ERROR
                  : view->problem[0] != '\0' ? LOG_WARN
                                             : LOG_INFO,
                  bad ? "the store is not followed: the copy of it is served, and nothing can be "
                        "changed"
                      : "the state of the fleet has changed",
                  fields, 5);
}

static void fleet_changed(void *context)
{
    struct admin_changes *changes = context;
    struct gateway *gateway = changes->admin->options.gateway;
    struct fleet_view view;

    fleet_get_view(changes->fleet, &view);
    log_state(changes, &view);
    changes->said = view.state;
    changes->said_evicts = view.evicts;
    atomic_store(&gateway->fleet_state, (int)view.state);
    atomic_store(&gateway->fleet_evicts, view.evicts);
    if (view.policy[0] == '\0' && view.state != FLEET_AWAY)
        return; /* whether it evicts comes in a moment */
    /* One that has what it made before there was a store can serve, though it cannot go on. */
    bool has_some = view.mark.epoch[0] != '\0' || (view.problem[0] != '\0' && changes->known.n > 0);
    if (!view.evicts && (view.state != FLEET_BEHIND || has_some))
        atomic_store(&gateway->fleet_unread, false);
}

static void fleet_behind(void *context)
{
    struct admin_changes *changes = context;
    struct admin_change *change;

    for (change = changes->waiting; change != NULL; change = change->next)
        if (change->kind == ADMIN_FOLLOW)
            return;
    if (changes->running != NULL && changes->running->kind == ADMIN_FOLLOW)
        return;
    change = admin_change_by_itself(changes, ADMIN_FOLLOW, "fleet");
    if (change != NULL)
        admin_change_start(change);
}

void admin_fleet_start(struct admin_changes *changes)
{
    changes->fleet = changes->admin->options.gateway->fleet;
    if (changes->fleet != NULL)
        fleet_own(changes->fleet, fleet_behind, fleet_changed, changes);
}

void admin_fleet_end(struct admin_changes *changes)
{
    if (changes->fleet == NULL)
        return;
    fleet_own(changes->fleet, NULL, NULL, NULL);
    fleet_forget(changes->fleet);
}
