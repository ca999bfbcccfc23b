/* replay_side.c - the gate of one configuration, told the events of a trace. See replay_side.h. */
#include "cli/replay/replay_side.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/gate_config.h"
#include "cli/replay/replay_input.h"
#include "lib/core/problem.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

static struct replay_call *get_call(struct replay_side *side)
{
    struct replay_call *call = side->spare;

    if (call != NULL) {
        side->spare = call->next_spare;
        return call;
    }
    call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    call->next_made = side->made;
    side->made = call;
    return call;
}

static void put_call(struct replay_side *side, struct replay_call *call)
{
    assert(!call->run.waits); /* the gate knows a waiting call by its address */
    free(call->texts);
    call->texts = NULL;
    call->next_spare = side->spare;
    side->spare = call;
}

static bool replay_side_fail(struct replay_side *side, int status, uint64_t line, const char *text)
{
    if (side->status == STATUS_DONE) {
        side->status = status;
        side->line = line;
        snprintf(side->problem.text, sizeof side->problem.text, "%s", text);
    }
    return false;
}

/* There is no decision. A store elsewhere knows more about why. */
static void fail_by(struct replay_side *side, uint64_t line, enum tg_err err)
{
    struct tg_problem problem = {""};

    if (side->remote.store != NULL)
        replay_store_problem(side->remote.store, &problem);
    replay_side_fail(side, STATUS_FAILED, line,
                     problem.text[0] != '\0' ? problem.text : tg_strerror(err));
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* The entry of an id that is in use; null if it is not. */
static struct replay_id *id_in_use(const struct replay_side *side, struct json_text id)
{
    struct replay_id *found = replay_ids_find(&side->ids, id.bytes, id.size);

    if (found != NULL && found->call == NULL && gate_run_expired(&side->run, found->ends_at))
        return NULL;
    return found;
}

/* Writes down who has the id of a call from now on: the call itself while it waits, its lease if
 * it has one, else nobody. */
static void note_id(struct replay_side *side, struct replay_call *call)
{
    struct replay_id *id;

    if (call->id.bytes == NULL)
        return;
    if (call->run.lease != 0) {
        id = replay_ids_put(&side->ids, call->id.bytes, call->id.size, side->run.ticked_at);
        if (id == NULL) {
            replay_side_fail(side, STATUS_FAILED, call->line, tg_strerror(TG_ERR_MEMORY));
            return;
        }
        id->call = call->run.waits ? call : NULL;
        id->lease = call->run.lease;
        id->ends_at = call->run.ends_at;
        return;
    }
    id = replay_ids_find(&side->ids, call->id.bytes, call->id.size);
    if (id != NULL && id->call == call)
        replay_ids_remove(&side->ids, id);
}

/* Whether the id of a call that waited has been taken over by a later call. */
static bool id_is_taken(const struct replay_side *side, const struct replay_call *call)
{
    const struct replay_id *id =
        call->id.bytes != NULL ? replay_ids_find(&side->ids, call->id.bytes, call->id.size) : NULL;

    return call->texts != NULL && (id == NULL || id->call != call);
}

static void on_decided(void *context, struct gate_run_call *run_call, enum tg_err err,
                       const struct tg_answer *answer, tg_ms at)
{
    struct replay_side *side = context;
    struct replay_call *call = (struct replay_call *)run_call;

    if (!id_is_taken(side, call))
        note_id(side, call);
    if (err != TG_OK)
        fail_by(side, call->line, err);
    else if (side->status == STATUS_DONE)
        side->decided(side->context, call, answer, at);
    put_call(side, call);
}

/* ---- Admit ----------------------------------------------------------------------------------- */

/* A text within its line, or in the copy that a waiting call has. */
static const char *replay_side_copy_text(char **to, const char *bytes, size_t size)
{
    char *copy = *to;

    if (bytes == NULL)
        return NULL;
    memcpy(copy, bytes, size);
    *to += size;
    return copy;
}

/* The call waits and will outlive its line. */
static bool keep_texts(struct replay_side *side, struct replay_call *call)
{
    struct scopes_who *who = &call->who;
    char *to = malloc(who->tenant_bytes + who->model_bytes + who->user_bytes + who->peer_bytes +
                      call->id.size + 1);

    if (to == NULL)
        return replay_side_fail(side, STATUS_FAILED, call->line, tg_strerror(TG_ERR_MEMORY));
    assert(call->texts == NULL);
    call->texts = to;
    who->tenant = replay_side_copy_text(&to, who->tenant, who->tenant_bytes);
    who->model = replay_side_copy_text(&to, who->model, who->model_bytes);
    who->user = replay_side_copy_text(&to, who->user, who->user_bytes);
    who->peer = replay_side_copy_text(&to, who->peer, who->peer_bytes);
    call->id.bytes = replay_side_copy_text(&to, call->id.bytes, call->id.size);
    return true;
}

/* What the line and the configuration say of the call. */
static enum tg_err fill_call(struct replay_side *side, const struct trace_event *event,
                             struct replay_call *call, struct tg_problem *problem)
{
    struct tg_call *asked = &call->run.call;
    enum tg_err err;

    call->who = (struct scopes_who){
        .tenant = event->call.key.bytes,
        .tenant_bytes = event->call.key.size,
        .model = event->model.bytes,
        .model_bytes = event->model.size,
        .user = event->user.bytes,
        .user_bytes = event->user.size,
        .peer = event->peer.bytes,
        .peer_bytes = event->peer.size,
        .priority = event->priority,
    };
    call->id = event->id;
    call->id_number = event->id_number;
    call->id_is_number = event->id_is_number;
    tg_call_init(asked);
    err = scopes_fill(side->scopes, &call->who, call->room, asked, problem);
    asked->debit.cost = event->call.cost;
    asked->hold_s = event->hold_s;
    asked->size = event->size;
    if (event->value >= 0)
        asked->value = event->value;
    return err;
}

/* Lets the call point to the copies. It asks for the same as before. */
static bool call_waits(struct replay_side *side, struct replay_call *call)
{
    struct tg_call asked = call->run.call;

    if (!keep_texts(side, call))
        return false;
    if (scopes_fill(side->scopes, &call->who, call->room, &call->run.call, NULL) != TG_OK)
        return replay_side_fail(side, STATUS_FAILED, call->line, tg_strerror(TG_ERR_INVALID));
    call->run.call.debit.cost = asked.debit.cost;
    call->run.call.value = asked.value;
    note_id(side, call);
    return true;
}

static bool id_is_free(struct replay_side *side, const struct trace_event *event, uint64_t line)
{
    char text[96];

    if (event->id.bytes == NULL || side->ids_may_repeat || id_in_use(side, event->id) == NULL)
        return true;
    snprintf(text, sizeof text, "the id is in use: its call from before has not ended");
    return replay_side_fail(side, STATUS_WRONG, line, text);
}

static bool replay_side_admit(struct replay_side *side, const struct trace_event *event,
                              uint64_t line, void *tag)
{
    struct tg_problem problem;

    if (!id_is_free(side, event, line))
        return false;
    struct replay_call *call = get_call(side);
    if (call == NULL)
        return replay_side_fail(side, STATUS_FAILED, line, tg_strerror(TG_ERR_MEMORY));
    call->line = line;
    call->tag = tag;
    if (fill_call(side, event, call, &problem) != TG_OK)
        return replay_side_fail(side, STATUS_WRONG, line, problem.text);
    gate_run_admit(&side->run, &call->run, event->call.t);
    return !call->run.waits || call_waits(side, call);
}

/* ---- Release --------------------------------------------------------------------------------- */

static void withdraw(struct replay_side *side, struct replay_call *call, tg_ms t)
{
    assert(call->run.waits && call->texts != NULL);
    gate_run_withdraw(&side->run, &call->run, t);
    side->decided(side->context, call, NULL, t);
    put_call(side, call);
}

/* Releasing an id that is not in use only lets time pass. */
static void replay_side_release(struct replay_side *side, const struct trace_event *event)
{
    struct replay_id *found = id_in_use(side, event->id);
    struct replay_id id = {.lease = 0};

    if (found != NULL) {
        id = *found;
        replay_ids_remove(&side->ids, found);
    }
    if (id.call != NULL)
        withdraw(side, id.call, event->call.t);
    else
        gate_run_release(&side->run, id.lease, event->call.t, &event->release);
}

/* Tells the gate, if the call holds a slot; otherwise it only lets time pass. */
static void replay_side_first_byte(struct replay_side *side, const struct trace_event *event)
{
    struct replay_id *found = id_in_use(side, event->id);

    gate_run_first_byte(&side->run, found != NULL && found->call == NULL ? found->lease : 0,
                        event->call.t, event->release.sample_ms);
}

/* ---- Events ---------------------------------------------------------------------------------- */

bool replay_side_event(struct replay_side *side, const struct trace_event *event, uint64_t line,
                       void *tag, struct tg_gate_stats *stats)
{
    tg_ms t = event->call.t;

    /* First, so that ids are looked up as they are at t. */
    gate_run_advance(&side->run, t);
    switch (event->op) {
    case TRACE_ADMIT:
        replay_side_admit(side, event, line, tag);
        break;
    case TRACE_RELEASE:
        replay_side_release(side, event);
        break;
    case TRACE_FIRST_BYTE:
        replay_side_first_byte(side, event);
        break;
    case TRACE_MEMORY:
        gate_run_set_memory(&side->run, event->used, t);
        break;
    case TRACE_LIMITS:
        gate_run_stats(&side->run, t, stats);
        break;
    }
    return side->status == STATUS_DONE;
}

bool replay_side_finish(struct replay_side *side)
{
    gate_run_finish(&side->run);
    return side->status == STATUS_DONE;
}

/* ---- Making one ------------------------------------------------------------------------------ */

/* The limits of the configuration, in the store that is here. One that is in Redis knows them by
 * their names, and nothing is counted here. */
static enum tg_err make_scopes(struct replay_side *side, struct replay_store *remote,
                               struct tg_problem *problem)
{
    enum tg_err err = TG_ERR_MEMORY;

    if (remote == NULL)
        return gate_config_scopes(&side->config, side->store, &side->scopes, problem);
    problem_fail(problem, "%s", tg_strerror(TG_ERR_MEMORY));
    side->book = limit_book_new(side->store);
    if (side->book != NULL)
        err = scopes_new(&side->config, side->book, &side->scopes, problem);
    if (err != TG_OK)
        return err;
    side->listing = limit_book_list(side->book);
    if (side->listing == NULL)
        return TG_ERR_MEMORY;
    replay_remote_init(&side->remote, remote, side->listing);
    return TG_OK;
}

static bool make_gate(struct replay_side *side, const struct command *command, const char *path,
                      uint64_t seed, struct replay_store *remote)
{
    struct tg_store_config store;
    struct tg_gate_config gate;
    struct tg_problem problem;

    tg_store_config_init(&store);
    store.memory_bytes = REPLAY_STORE_BYTES;
    store.shards = 1; /* there is one thread */
    enum tg_err err = tg_store_new(&store, &side->store, &problem);
    if (err == TG_OK)
        err = make_scopes(side, remote, &problem);
    if (err == TG_OK && side->config.gate.policy.kind == CONFIG_BID_PRICE)
        err = tg_bid_new(&side->config.gate.policy.bid, &side->policy, &problem);
    if (err == TG_OK) {
        scopes_gate_config(&side->config.gate, &gate);
        gate.policy = side->policy;
        gate.store = side->store;
        gate.seed = seed;
        err = remote != NULL ? gate_run_init_remote(&side->run, &gate, &side->remote.hook,
                                                    on_decided, side, &problem)
                             : gate_run_init(&side->run, &gate, on_decided, side, &problem);
    }
    if (err == TG_OK)
        return true;
    side->status = err == TG_ERR_INVALID ? STATUS_WRONG : STATUS_FAILED;
    command_say(command, "%s: %s", path, problem.text);
    return false;
}

bool replay_side_init(struct replay_side *side, const struct command *command, const char *path,
                      uint64_t seed, struct replay_store *remote, replay_side_decided *decided,
                      void *context)
{
    *side = (struct replay_side){.decided = decided, .context = context, .status = STATUS_DONE};
    if (!gate_config_load(command, path, &side->config)) {
        side->status = STATUS_WRONG;
        return false;
    }
    return make_gate(side, command, path, seed, remote);
}

void replay_side_fini(struct replay_side *side)
{
    while (side->made != NULL) {
        struct replay_call *call = side->made;
        side->made = call->next_made;
        free(call->texts);
        free(call);
    }
    gate_run_fini(&side->run);
    tg_bid_free(side->policy);
    scopes_free(side->scopes);
    replay_remote_fini(&side->remote);
    free(side->listing);
    limit_book_free(side->book);
    tg_store_free(side->store);
    replay_ids_fini(&side->ids);
    config_free(&side->config);
}
