/* admin_change.c - changes of an administrator, one after the other. See admin_change.h. */
#include "server/admin/admin_change.h"

#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_internal.h"
#include "server/runtime/gateway.h"

#define LAPSE_AGAIN_MS ((tg_ms)30000)  /* after one that did not work out */
#define LAPSE_LOOK_MS ((tg_ms)3600000) /* a timer is set for no longer: clocks are set, too */

static void run_next(struct admin_changes *changes);

/* ---- life of one ---- */

struct admin_change *admin_change_new(struct admin_call *call, enum admin_change_kind kind)
{
    struct admin_changes *changes = call->admin->changes;
    struct admin_change *change =
        changes->n_waiting < ADMIN_CHANGES_MAX ? calloc(1, sizeof *change) : NULL;

    if (change == NULL) {
        admin_reply_error(call->in, 503, "busy", "%d changes are waiting; try again in a moment",
                          ADMIN_CHANGES_MAX);
        return NULL;
    }
    change->all = changes;
    change->kind = kind;
    change->call = call;
    change->not_after = CONFIG_NEVER;
    change->shared.expected = -1;
    if (!admin_fleet_expects(call, &change->shared.expected)) {
        free(change);
        return NULL;
    }
    admin_peer(call->in, change->who);
    snprintf(change->tenant, sizeof change->tenant, "%s", call->names[0]);
    json_writer_init(&change->reply);
    return change;
}

/* Whether half of a pair of surrogates stands there, "\ud83d": the high one, or the low one. */
static bool is_surrogate(const char *text, uint32_t first, uint32_t *bits)
{
    char digits[5] = "";
    uint32_t value;

    if (text[0] != '\\' || text[1] != 'u' || strspn(text + 2, "0123456789abcdefABCDEF") < 4)
        return false;
    memcpy(digits, text + 2, 4);
    value = (uint32_t)strtoul(digits, NULL, 16);
    *bits = value & 0x3ff;
    return (value & ~0x3ffu) == first;
}

/* JSON may write what is above U+FFFF as a pair of surrogates, and YAML knows none: each becomes
 * its character. `text` is good JSON with a 0 after it; returns how many bytes it has then. */
static size_t join_surrogates(char *text, size_t n)
{
    uint32_t high, low;
    size_t to = 0, at = 0;

    while (at < n) {
        if (n - at >= 12 && is_surrogate(text + at, 0xd800, &high) &&
            is_surrogate(text + at + 6, 0xdc00, &low)) {
            uint32_t character = 0x10000 + (high << 10 | low);
            text[to++] = (char)(0xf0 | character >> 18);
            text[to++] = (char)(0x80 | (character >> 12 & 0x3f));
            text[to++] = (char)(0x80 | (character >> 6 & 0x3f));
            text[to++] = (char)(0x80 | (character & 0x3f));
            at += 12;
            continue;
        }
        if (text[at] == '\\' && at + 1 < n) /* what follows belongs to it: "\\ud83d" is text */
            text[to++] = text[at++];
        text[to++] = text[at++];
    }
    text[to] = '\0';
    return to;
}

bool admin_change_take_body(struct admin_change *change)
{
    struct admin_call *call = change->call;

    change->text = malloc(call->body_n + 1);
    if (change->text == NULL) {
        admin_change_free(change);
        admin_reply_error(call->in, 503, "busy", "no memory");
        return false;
    }
    memcpy(change->text, call->body, call->body_n);
    change->text[call->body_n] = '\0';
    change->bytes = join_surrogates(change->text, call->body_n);
    return true;
}

void admin_change_free(struct admin_change *change)
{
    if (change == NULL)
        return;
    OPENSSL_cleanse(change->secret, sizeof change->secret);
    admin_extras_free(&change->before);
    admin_extras_free(&change->after);
    fleet_entries_free(&change->shared.entries);
    fleet_entries_free(&change->shared.found);
    config_problems_free(&change->problems);
    json_writer_fini(&change->reply);
    free(change->text);
    free(change);
}

void admin_change_gone(struct admin_call *call)
{
    if (call->change != NULL)
        call->change->call = NULL;
    call->change = NULL;
}

/* ---- answering ---- */

void admin_change_end(struct admin_change *change)
{
    struct admin_changes *changes = change->all;

    if (change->call != NULL)
        change->call->change = NULL;
    changes->running = NULL;
    changes->admin->options.gateway->changing = false;
    admin_change_free(change);
    run_next(changes);
}

static void set_lapse(struct admin_changes *changes)
{
    tg_ms left = changes->known.next_end - admin_wall(changes->admin);

    net_timer_stop(changes->admin->options.loop, &changes->lapse);
    if (changes->known.next_end != TG_NUMBER_MAX)
        net_timer_set(changes->admin->options.loop, &changes->lapse,
                      left < 1               ? 1
                      : left < LAPSE_LOOK_MS ? left
                                             : LAPSE_LOOK_MS);
}

bool admin_change_say(struct admin_change *change, int status, const char *code, const char *format,
                      ...)
{
    va_list args;

    change->status = status;
    change->code = code;
    va_start(args, format);
    vsnprintf(change->message, sizeof change->message, format, args);
    va_end(args);
    return false;
}

void admin_change_refuse(struct admin_change *change)
{
    char outcome[600];

    snprintf(outcome, sizeof outcome, "refused: %.580s", change->message);
    admin_change_audit(change, outcome);
    if (change->call != NULL && change->status == 400 && change->problems.n > 0)
        admin_reply_problems(change->call->in, &change->problems);
    else if (change->call != NULL && change->status == 400)
        admin_reply_problem(change->call->in,
                            &(struct admin_problem){"body", 0, 0, change->message});
    else if (change->call != NULL)
        admin_reply_error(change->call->in, change->status, change->code, "%s", change->message);
    admin_change_end(change);
}

/* ---- putting in force ---- */

static void undone(struct admin_change *change)
{
    if (change->status != 0) {
        admin_change_refuse(
            change); /* it is kept, and does not hold: that is worse than the reason */
        return;
    }
    admin_change_audit(change, "refused: the configuration would be invalid with it");
    if (change->call != NULL)
        admin_reply(change->call->in, 400, &change->reply);
    admin_change_end(change);
}

static void *undo(void *arg)
{
    struct admin_change *change = arg;

    admin_change_undo(change);
    net_loop_post(change->all->admin->options.loop, &change->stored);
    return NULL;
}

void admin_change_joined(struct admin_change *change)
{
    if (change->has_thread)
        pthread_join(change->thread, NULL);
    change->has_thread = false;
}

static void has_undone(void *arg)
{
    admin_change_joined(arg);
    undone(arg);
}

/* What a thread would do: by one, or at once where there is none. */
void admin_change_work(struct admin_change *change, void *(*job)(void *), net_post_run *then)
{
    net_post_init(&change->stored, then, change);
    change->has_thread = !change->all->admin->options.in_place &&
                         pthread_create(&change->thread, NULL, job, change) == 0;
    if (!change->has_thread)
        job(change);
}

static void holds(struct admin_change *change, const struct reload_result *result)
{
    struct admin_changes *changes = change->all;
    char outcome[64];

    admin_extras_free(&changes->known);
    changes->known = change->after;
    memset(&change->after, 0, sizeof change->after);
    set_lapse(changes);
    admin_fleet_holds(change);
    snprintf(outcome, sizeof outcome, "done, generation %llu",
             (unsigned long long)result->generation);
    admin_change_audit(change, outcome);
    if (change->call != NULL) {
        struct json_writer out;
        json_writer_init(&out);
        admin_change_write(change, result, &out);
        /* The reply may hold a secret, and freed memory is read by who comes next. */
        admin_reply_secret(change->call->in, admin_change_status(change), &out);
    }
    admin_change_end(change);
}

static void reloaded(void *context, const struct reload_result *result)
{
    struct admin_change *change = context;

    if (result->ok) {
        holds(change, result);
        return;
    }
    if (admin_fleet_shares(change)) {
        admin_fleet_failed(change, result);
        return;
    }
    if (change->kind == ADMIN_LAPSE) {
        admin_change_audit(change, "not in force: the configuration is invalid");
        net_timer_set(change->all->admin->options.loop, &change->all->lapse, LAPSE_AGAIN_MS);
        admin_change_end(change);
        return;
    }
    admin_write_problems(&change->reply, result->problems, result->failure);
    admin_change_work(change, undo, has_undone);
}

/* Whether a change of this kind is one of the configuration. */
static bool is_reloaded(enum admin_change_kind kind)
{
    return kind != ADMIN_ADD_CREDIT && kind != ADMIN_LIST_CREDITS && kind != ADMIN_DISABLE_KEY &&
           kind != ADMIN_ENABLE_KEY && kind != ADMIN_RESTORE;
}

void admin_change_put_in_force(struct admin_change *change)
{
    const struct admin_options *options = &change->all->admin->options;

    if (change->kind == ADMIN_DISABLE_KEY || change->kind == ADMIN_ENABLE_KEY)
        admin_key_apply(change);
    if (!is_reloaded(change->kind)) {
        admin_fleet_holds(change);
        if (change->kind != ADMIN_LIST_CREDITS)
            admin_change_audit(change, "done");
        if (change->call != NULL)
            admin_reply(change->call->in, admin_change_status(change), &change->reply);
        admin_change_end(change);
        return;
    }
    if (options->reload(options->host,
                        change->kind == ADMIN_LAPSE    ? "a top-up or an override has ended"
                        : change->kind == ADMIN_FOLLOW ? "another gateway has changed something"
                                                       : "api",
                        reloaded, change))
        return;
    admin_change_say(change, 503, "busy",
                     "no memory: it is stored, and takes effect with the next reload");
    admin_change_refuse(change);
}

static void has_stored(void *arg)
{
    struct admin_change *change = arg;

    admin_change_joined(change);
    if (change->status != 0)
        admin_change_refuse(change);
    else if (admin_fleet_shares(change))
        admin_fleet_publish(change);
    else
        admin_change_put_in_force(change);
}

static void *store(void *arg)
{
    struct admin_change *change = arg;

    admin_change_store(change);
    net_loop_post(change->all->admin->options.loop, &change->stored);
    return NULL;
}

/* ---- one after the other ---- */

/* It has waited while another process began to take over. */
static void refuse_in_takeover(struct admin_change *change)
{
    if (change->kind == ADMIN_FOLLOW) { /* the other one follows */
        admin_change_end(change);
        return;
    }
    if (change->kind == ADMIN_LAPSE)
        net_timer_set(change->all->admin->options.loop, &change->all->lapse, LAPSE_AGAIN_MS);
    admin_change_say(change, 503, "busy", "%s", ADMIN_TAKEN_OVER);
    admin_change_refuse(change);
}

static void run_next(struct admin_changes *changes)
{
    struct gateway *gateway = changes->admin->options.gateway;
    struct admin_change *change = changes->waiting;

    if (changes->running != NULL || change == NULL)
        return;
    changes->waiting = change->next;
    changes->n_waiting--;
    changes->running = change;
    if (change->kind != ADMIN_LIST_CREDITS && atomic_load(&gateway->handing_over)) {
        refuse_in_takeover(change);
        return;
    }
    gateway->changing = true;
    change->now = admin_wall(changes->admin);
    if (change->kind == ADMIN_FOLLOW)
        admin_fleet_follow(change);
    else if (admin_fleet_shares(change))
        admin_fleet_begin(change);
    else
        admin_change_try(change);
}

void admin_change_try(struct admin_change *change)
{
    admin_change_work(change, store, has_stored);
}

void admin_change_again(struct admin_change *change)
{
    struct admin_changes *changes = change->all;
    struct admin_change *follow = admin_change_by_itself(changes, ADMIN_FOLLOW, "fleet");

    admin_extras_free(&change->before);
    admin_extras_free(&change->after);
    fleet_entries_free(&change->shared.entries);
    config_problems_free(&change->problems);
    memset(&change->problems, 0, sizeof change->problems);
    change->next = changes->waiting;
    changes->waiting = change;
    changes->n_waiting++;
    if (follow != NULL) {
        follow->next = change;
        changes->waiting = follow;
        changes->n_waiting++;
    }
    changes->running = NULL;
    changes->admin->options.gateway->changing = false;
    run_next(changes);
}

void admin_change_start(struct admin_change *change)
{
    struct admin_change **last = &change->all->waiting;

    if (change->call != NULL)
        change->call->change = change;
    while (*last != NULL)
        last = &(*last)->next;
    *last = change;
    change->all->n_waiting++;
    run_next(change->all);
}

/* ---- top-ups and overrides that end ---- */

struct admin_change *admin_change_by_itself(struct admin_changes *changes,
                                            enum admin_change_kind kind, const char *who)
{
    struct admin_change *change = calloc(1, sizeof *change);

    if (change == NULL)
        return NULL;
    change->all = changes;
    change->kind = kind;
    change->shared.expected = -1;
    snprintf(change->who, sizeof change->who, "%s", who);
    json_writer_init(&change->reply);
    return change;
}

static void lapse(void *arg)
{
    struct admin_changes *changes = arg;
    struct admin_change *change;

    if (admin_wall(changes->admin) < changes->known.next_end) {
        set_lapse(changes);
        return;
    }
    change = admin_change_by_itself(changes, ADMIN_LAPSE, "clock");
    if (change == NULL)
        net_timer_set(changes->admin->options.loop, &changes->lapse, LAPSE_AGAIN_MS);
    else
        admin_change_start(change);
}

/* ---- all of them ---- */

enum tg_err admin_changes_new(struct admin *admin, struct admin_changes **made,
                              struct tg_problem *problem)
{
    struct admin_changes *changes = calloc(1, sizeof *changes);

    if (changes == NULL)
        return TG_ERR_MEMORY;
    changes->admin = admin;
    net_timer_init(&changes->lapse, lapse, changes);
    if (!admin_extras_read(admin->options.gateway->ledger, admin_wall(admin), &changes->known,
                           problem)) {
        free(changes);
        return TG_ERR_STORE;
    }
    set_lapse(changes);
    admin_fleet_start(changes);
    *made = changes;
    return TG_OK;
}

void admin_changes_free(struct admin_changes *changes)
{
    struct admin_change *next;

    if (changes == NULL)
        return;
    admin_fleet_end(changes);
    if (changes->running != NULL) {
        admin_change_joined(changes->running);
        net_loop_unpost(changes->admin->options.loop, &changes->running->stored);
        admin_change_free(changes->running);
    }
    for (struct admin_change *change = changes->waiting; change != NULL; change = next) {
        next = change->next;
        admin_change_free(change);
    }
    net_timer_stop(changes->admin->options.loop, &changes->lapse);
    admin_extras_free(&changes->known);
    free(changes);
}
