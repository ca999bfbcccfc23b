/* fleet_ask.c - reads what is in the store, and stores changes. See fleet.h.
 *
 * A change is sent once more if its connection breaks, for two seconds: the script knows it again
 * by its id. What was never sent is known not to be stored.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/core/container_of.h"
#include "server/fleet/fleet_internal.h"

enum { AGAIN_MS = 50, TRIES = 40 };

enum { FOUND = 6 }; /* what stands before entries in a reply */
enum { SAID = 7 };  /* and before those of a change */

/* ---- reading ---- */

static void copy_id(char id[LEDGER_FLEET_ID + 1], struct slice text)
{
    snprintf(id, LEDGER_FLEET_ID + 1, "%.*s", (int)text.n, text.n > 0 ? text.at : "");
}

/* Whether it is still a store that the copy follows: it may be another one than a moment ago. */
static bool is_followed(const struct fleet *fleet, const struct redisReply *reply)
{
    const struct fleet_head head = {.epoch = redis_reply_text(redis_reply_at(reply, 0)),
                                    .present = redis_reply_text(redis_reply_at(reply, 0)).n > 0,
                                    .version = redis_reply_integer(redis_reply_at(reply, 1), 0),
                                    .change = redis_reply_text(redis_reply_at(reply, 2)),
                                    .schema = redis_reply_integer(redis_reply_at(reply, 3), 0),
                                    .lineage = redis_reply_text(redis_reply_at(reply, 4)),
                                    .flagged = fleet->flagged};
    enum fleet_event event = fleet_state_judge(&fleet->mark, &head);

    return event == FLEET_SAW_SAME || event == FLEET_SAW_NEWER || event == FLEET_SAW_NOTHING;
}

/* False: no memory, or it makes no sense. */
static bool read_reply(const struct fleet *fleet, const struct redisReply *reply,
                       struct fleet_found *found)
{
    struct slice kind = redis_reply_text(redis_reply_at(reply, 5));
    size_t n = redis_reply_n(reply), step;

    copy_id(found->mark.epoch, redis_reply_text(redis_reply_at(reply, 0)));
    found->mark.version = redis_reply_integer(redis_reply_at(reply, 1), 0);
    copy_id(found->mark.change, redis_reply_text(redis_reply_at(reply, 2)));
    if (slice_equal(kind, SLICE("forked")) || !is_followed(fleet, reply)) {
        found->answer = FLEET_GONE;
        return true;
    }
    /* An empty store has given everything, too. */
    found->whole = !slice_equal(kind, SLICE("changes"));
    step = found->whole ? 2 : 3;
    for (size_t i = FOUND; i + step <= n; i += step)
        if (!fleet_entries_add(
                &found->entries, redis_reply_text(redis_reply_at(reply, i)),
                redis_reply_text(redis_reply_at(reply, i + 1)),
                step == 3 &&
                    slice_equal(redis_reply_text(redis_reply_at(reply, i + 2)), SLICE("1"))))
            return false;
    return (n - FOUND) % step == 0;
}

static void read_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct fleet *fleet = container_of(ask, struct fleet, read_ask);
    struct fleet_found found = {.answer = FLEET_OK};
    fleet_read_done *done = fleet->read_done;

    fleet->reading = false;
    fleet->read_done = NULL;
    if (done == NULL)
        return;
    if (redis_reply_is_error(reply) || redis_reply_n(reply) < FOUND ||
        !read_reply(fleet, reply, &found)) {
        fleet_entries_free(&found.entries);
        found = (struct fleet_found){.answer = FLEET_UNREAD};
    }
    done(fleet->read_context, &found);
}

void fleet_read(struct fleet *fleet, fleet_read_done *done, void *context)
{
    const struct slice keys[] = {slice_of(fleet->keys[FLEET_HEAD]),
                                 slice_of(fleet->keys[FLEET_ENTRIES]),
                                 slice_of(fleet->keys[FLEET_LOG])};
    char after[24];

    assert(!fleet->read_done && !fleet->ended);
    fleet->read_done = done;
    fleet->read_context = context;
    if (fleet->reading)
        return; /* what was forgotten is answered to whoever asks now */
    snprintf(after, sizeof after, "%lld",
             fleet->was_read && fleet->mark.epoch[0] != '\0' ? (long long)fleet->mark.version : -1);
    const struct slice args[] = {slice_of(after), slice_of(fleet->mark.change)};
    fleet->reading = true;
    redis_eval(fleet->options.redis, &fleet->read_ask, &script_fleet_read, keys, 3, args, 2);
}

/* ---- storing ---- */

static void send_change(struct fleet *fleet)
{
    const struct slice keys[] = {
        slice_of(fleet->keys[FLEET_HEAD]), slice_of(fleet->keys[FLEET_ENTRIES]),
        slice_of(fleet->keys[FLEET_LOG]), slice_of(fleet->keys[FLEET_REGRESSED_KEY])};
    char version[24], schema[12];

    snprintf(version, sizeof version, "%lld", (long long)fleet->made_for.version);
    snprintf(schema, sizeof schema, "%d", LEDGER_FLEET_SCHEMA);
    fleet->args[0] = slice_of(fleet->mode);
    fleet->args[1] = slice_of(fleet->made.epoch);
    fleet->args[2] = slice_of(version);
    fleet->args[3] = slice_of(fleet->made.change);
    fleet->args[4] = slice_of(schema);
    fleet->args[5] = slice_of(fleet->made_lineage);
    fleet->args[6] = slice_of(fleet->replaced);
    fleet->tries++;
    redis_eval(fleet->options.redis, &fleet->store_ask, &script_fleet_change, keys, 4, fleet->args,
               fleet->n_args);
}

static void end_store(struct fleet *fleet, enum fleet_answer answer)
{
    fleet_store_done *done = fleet->store_done;

    free(fleet->args);
    fleet->args = NULL;
    fleet->storing = false;
    fleet->store_done = NULL;
    if (done != NULL)
        done(fleet->store_context, answer, &fleet->made);
}

static enum fleet_answer answer_of(struct slice word)
{
    if (slice_equal(word, SLICE("ok")))
        return FLEET_OK;
    if (slice_equal(word, SLICE("conflict")) || slice_equal(word, SLICE("exists")))
        return FLEET_CONFLICT;
    return FLEET_GONE;
}

static void store_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct fleet *fleet = container_of(ask, struct fleet, store_ask);

    if (fleet->store_done == NULL || fleet->ended) { /* nobody waits any more */
        end_store(fleet, FLEET_UNKNOWN);
        return;
    }
    if (reply == NULL) {
        fleet->was_sent |= ask->lost == REDIS_BROKE;
        if (!fleet->was_sent)
            end_store(fleet, FLEET_UNREAD);
        else if (fleet->tries < TRIES)
            net_timer_set(fleet->options.loop, &fleet->again, AGAIN_MS);
        else
            end_store(fleet, FLEET_UNKNOWN);
        return;
    }
    if (redis_reply_is_error(reply) || redis_reply_n(reply) != 2) {
        end_store(fleet, fleet->was_sent ? FLEET_UNKNOWN : FLEET_UNREAD);
        return;
    }
    fleet->made.version = redis_reply_integer(redis_reply_at(reply, 1), 0);
    end_store(fleet, answer_of(redis_reply_text(redis_reply_at(reply, 0))));
}

static void send_again(void *arg)
{
    send_change(arg);
}

static bool make_id(char id[LEDGER_FLEET_ID + 1])
{
    uint8_t bytes[LEDGER_FLEET_ID / 2];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static void begin_store(struct fleet *fleet, const char *mode,
                        const struct ledger_fleet_mark *made_for,
                        const struct fleet_entries *entries, fleet_store_done *done, void *context)
{
    size_t n = SAID + 3 * entries->n;

    assert(!fleet->store_done && !fleet->ended);
    fleet->mode = mode;
    fleet->made_for = *made_for;
    fleet->made = *made_for;
    fleet->tries = 0;
    fleet->was_sent = false;
    fleet->args = fleet->storing ? NULL : calloc(n, sizeof *fleet->args);
    if (fleet->args == NULL || !make_id(fleet->made.change) ||
        (strcmp(mode, "change") != 0 && !make_id(fleet->made.epoch))) {
        free(fleet->args);
        fleet->args = NULL;
        done(context, FLEET_UNREAD, &fleet->made);
        return;
    }
    fleet->n_args = n;
    for (size_t i = 0; i < entries->n; i++) {
        fleet->args[SAID + 3 * i] = entries->list[i].name;
        fleet->args[SAID + 1 + 3 * i] = entries->list[i].value;
        fleet->args[SAID + 2 + 3 * i] = entries->list[i].gone ? SLICE("1") : SLICE("0");
    }
    fleet->store_done = done;
    fleet->store_context = context;
    fleet->storing = true;
    send_change(fleet);
}

void fleet_store(struct fleet *fleet, const struct ledger_fleet_mark *made_for,
                 const struct fleet_entries *entries, fleet_store_done *done, void *context)
{
    fleet->made_lineage[0] = fleet->replaced[0] = '\0';
    begin_store(fleet, made_for->epoch[0] != '\0' ? "change" : "create", made_for, entries, done,
                context);
}

/* The new epoch goes on from the copy's, and from what that went on from, as far as it is known:
 * as many as there is room for, the latest first. */
void fleet_restore(struct fleet *fleet, const struct fleet_entries *entries, fleet_store_done *done,
                   void *context)
{
    const struct ledger_fleet_mark *mark = &fleet->mark;

    snprintf(fleet->made_lineage, sizeof fleet->made_lineage, "%s:%lld%s%.900s", mark->epoch,
             (long long)mark->version, fleet->lineage[0] != '\0' ? " " : "", fleet->lineage);
    snprintf(fleet->replaced, sizeof fleet->replaced, "%s", fleet->stored_epoch);
    begin_store(fleet, "restore", mark, entries, done, context);
}

void fleet_forget(struct fleet *fleet)
{
    fleet->read_done = NULL;
    fleet->store_done = NULL;
    if (net_timer_is_set(&fleet->again)) {
        net_timer_stop(fleet->options.loop, &fleet->again);
        end_store(fleet, FLEET_UNKNOWN);
    }
}

void fleet_asks_init(struct fleet *fleet)
{
    redis_ask_init(&fleet->read_ask, read_answered, NULL);
    redis_ask_init(&fleet->store_ask, store_answered, NULL);
    net_timer_init(&fleet->again, send_again, fleet);
}
