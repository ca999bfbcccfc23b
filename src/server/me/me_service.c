/* me_service.c - GET /tollgate/v1/me: what a tenant sees of itself with its own key. Read this
 * first.
 *
 *     worker           who asks? how often? ---post---.
 *     control thread   limits and budgets, as explain finds them (explain.h) <--'---job---.
 *     one thread more  what the ledger says of the last 31 days <----------------------'
 *     control thread   the answer is whole ---post---> worker: sent
 *
 * It is no call: nothing is charged, reserved or counted, so a tenant that is over its limits or
 * out of money sees itself all the same. The worker does no more than to find out who asks; the
 * ledger, which waits for a disk, has a thread of its own. Each tenant may ask four times a second,
 * and some tens of questions may be open at once, so that nobody can keep the control thread busy.
 *
 * A tenant is told its own name and those of its parents, which refusals name, too; of other
 * tenants, keys of providers and the budget of everyone together it learns nothing.
 */
#include "server/me/me_service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/container_of.h"
#include "lib/core/problem.h"
#include "server/me/me_internal.h"
#include "server/obs/log.h"
#include "server/runtime/control.h"
#include "server/runtime/identity.h"

enum { ASKS_MAX = 64 };

/* ---- replies, on the worker's thread ---- */

static void send_refusal(struct me_ask *ask, const struct refusal *why)
{
    struct worker *worker = ask->worker;
    struct reply reply;

    reply_write(why, ask->is_anthropic ? WIRE_ANTHROPIC : WIRE_OPENAI, worker_wall(worker),
                random_bits(&worker->random), &reply);
    struct http_head head = {
        .status = reply.status, .fields = reply.fields, .n_fields = reply.n_fields};
    http_inbound_send(ask->in, &head, reply.body);
}

static void send_document(struct me_ask *ask)
{
    struct http_field fields[] = {{SLICE("content-type"), SLICE("application/json")},
                                  {SLICE("cache-control"), SLICE("no-store")},
                                  {SLICE("x-content-type-options"), SLICE("nosniff")}};
    struct http_head head = {.status = 200, .fields = fields, .n_fields = 3};

    http_inbound_send(ask->in, &head, (struct slice){ask->out.text.bytes, ask->out.text.size});
}

/* Whoever tries keys leaves lines in the log here, too. */
static void log_stranger(struct worker *worker, const struct refusal *why)
{
    struct report report;

    if (worker->log == NULL)
        return;
    report_init(&report);
    report.began_at = report.at = worker_wall(worker);
    report.id = random_bits(&worker->random);
    report.generation = worker->generation->number;
    report.kind = "me";
    report.reason = reply_reason_name(why->reason);
    report.status = reply_status(why->reason, WIRE_OPENAI);
    report.ended = "done";
    log_request(worker->log, &report, NULL);
}

static void free_ask(struct me_ask *ask)
{
    LIST_REMOVE(ask, link);
    json_writer_fini(&ask->out);
    free(ask->spend);
    free(ask->tenant);
    free(ask);
}

/* ---- the control thread ---- */

static void go_back(struct me_ask *ask)
{
    struct me *me = ask->worker->gateway->me;

    assert(me->n_asks > 0);
    me->n_asks--;
    net_loop_post(ask->worker->loop, &ask->back);
}

static void me_refuse(struct me_ask *ask, enum reply_reason reason, const char *text)
{
    ask->is_refused = true;
    refusal_init(&ask->why, reason, "%s", text);
    if (reason == REPLY_CONCURRENCY)
        ask->why.retry_after_ms = 1000;
}

/* On a thread of its own. */
static void read_spend(struct net_job *job, void *scratch)
{
    struct me_ask *ask = container_of(job, struct me_ask, job);

    (void)scratch;
    me_spend_read(ask->spend, ask->worker->gateway->ledger, ask->tenant, ask->now);
}

static void spend_read(void *arg)
{
    struct me_ask *ask = arg;

    me_answer_end(ask);
    go_back(ask);
}

/* The limits and budgets are known: they are written, and the ledger is asked. */
static void surveyed(void *context, enum explain_outcome outcome, const struct explanation *of)
{
    struct me_ask *ask = context;
    struct gateway *gateway = ask->worker->gateway;
    struct me *me = gateway->me;

    if (outcome != EXPLAIN_DONE) {
        if (outcome == EXPLAIN_NO_MEMORY) {
            ask->is_refused = true;
            refusal_of_memory(&ask->why);
        } else { /* since it was asked the tenant or the key has gone */
            me_refuse(ask, REPLY_INVALID_API_KEY, "the tenant of this key is gone");
        }
        go_back(ask);
        return;
    }
    me_answer_begin(ask, gateway, of);
    ask->spend = calloc(1, sizeof *ask->spend);
    ask->job.run = read_spend;
    ask->job.loop = me->control->loop;
    net_post_init(&ask->job.done, spend_read, ask);
    if (ask->spend != NULL && gateway->ledger != NULL &&
        net_pool_put(me->pool, &me->lane, &ask->job))
        return;
    free(ask->spend);
    ask->spend = NULL;
    spend_read(ask);
}

static void survey(void *arg)
{
    struct me_ask *ask = arg;
    struct me *me = ask->worker->gateway->me;
    struct control *control = me->control;
    const struct explain_call asked = {.tenant = ask->tenant,
                                       .user = ask->user[0] != 0 ? ask->user : NULL,
                                       .key = !ask->by_token && ask->key[0] != 0 ? ask->key : NULL,
                                       .max_tokens = -1,
                                       .tokens = -1,
                                       .micro = -1,
                                       .priority = TG_PRIORITY_HIGH,
                                       .worker = ask->worker->number};

    if (++me->n_asks > ASKS_MAX) {
        me_refuse(ask, REPLY_CONCURRENCY, "too many tenants ask about themselves at this moment");
        go_back(ask);
        return;
    }
    ask->now = clock_wall_of(&control->gateway->clock, control_now(control));
    explain_start(control->explain, control->generation, &asked, &ask->explanation, surveyed, ask);
}

/* ---- a question, on the worker's thread ---- */

static void come_back(void *arg)
{
    struct me_ask *ask = arg;

    ask->is_away = false;
    if (ask->in == NULL) {
        free_ask(ask);
        return;
    }
    if (!ask->is_refused && ask->out.text.failed) {
        ask->is_refused = true;
        refusal_of_memory(&ask->why);
    }
    if (ask->is_refused)
        send_refusal(ask, &ask->why);
    else
        send_document(ask);
}

/* Whom the header names, as for a call; a token has the last word. */
static bool find_user(struct me_ask *ask, const struct config_tenant *tenant,
                      const struct identity *identity, struct refusal *why)
{
    struct slice user = slice_of(identity->user);

    ask->is_user_signed = user.n > 0;
    if (user.n == 0 && tenant->users.present)
        user = http_find(&ask->in->head, slice_of(tenant->users.header));
    if (user.n > LEDGER_NAME_MAX) {
        refusal_init(why, REPLY_INVALID_REQUEST, "the user's name has more than %d bytes",
                     LEDGER_NAME_MAX);
        return false;
    }
    if (user.n > 0)
        memcpy(ask->user, user.at, user.n);
    ask->user[user.n] = 0;
    return true;
}

static bool is_own_key(const struct config_tenant *tenant, const struct config_key *key)
{
    for (size_t i = 0; i < tenant->n_keys; i++)
        if (key == &tenant->keys[i])
            return true;
    return false;
}

/* Who asks; and whether he may now. */
static bool find_asker(struct me_ask *ask, struct refusal *why)
{
    struct worker *worker = ask->worker;
    const struct generation *generation = worker->generation;
    struct identity identity;
    tg_ms now = worker_now(worker);

    if (!identity_find(worker, generation, &ask->in->head, now, &identity, why)) {
        log_stranger(worker, why);
        return false;
    }
    const struct config_tenant *tenant = &generation->config.tenants[identity.tenant];
    ask->in->client = http_client_id(slice_of(tenant->name));
    tg_ms wait = tenant_may_ask(generation->shares[identity.tenant], now);
    if (wait > 0) {
        refusal_init(why, REPLY_RATE, "a tenant may ask about itself 4 times a second, 8 at once");
        why->retry_after_ms = wait;
        return false;
    }
    ask->by_token = !is_own_key(tenant, identity.key);
    ask->not_after = ask->by_token ? CONFIG_NEVER : identity.key->not_after;
    snprintf(ask->key, sizeof ask->key, "%s",
             !ask->by_token && identity.key->name != NULL ? identity.key->name : "");
    ask->tenant = strdup(tenant->name);
    if (ask->tenant == NULL)
        refusal_of_memory(why);
    return ask->tenant != NULL && find_user(ask, tenant, &identity, why);
}

static bool me_check_head(struct me_ask *ask, struct refusal *why)
{
    const struct http_head *head = &ask->in->head;

    if (!slice_equal(head->method, SLICE("GET"))) {
        refusal_init(why, REPLY_METHOD_NOT_ALLOWED, NULL);
        why->allow = "GET";
        return false;
    }
    if (!find_asker(ask, why))
        return false;
    if (head->length == 0 && memchr(head->target.at, '?', head->target.n) == NULL)
        return true;
    refusal_init(why, REPLY_INVALID_REQUEST, "this path takes no query and no body");
    return false;
}

static bool is_me(struct slice path)
{
    const char *query = memchr(path.at, '?', path.n);

    if (query != NULL)
        path.n = (size_t)(query - path.at);
    return slice_equal(path, SLICE("/tollgate/v1/me"));
}

static bool me_begin(struct worker *worker, struct http_inbound *in)
{
    struct gateway *gateway = worker->gateway;
    struct me_ask *ask;
    struct refusal why;

    if (!is_me(in->head.target))
        return false;
    ask = calloc(1, sizeof *ask);
    if (ask == NULL) {
        http_inbound_abort(in);
        return true;
    }
    ask->service = &me_service;
    ask->worker = worker;
    ask->in = in;
    ask->is_anthropic = http_find(&in->head, SLICE("anthropic-version")).at != NULL;
    json_writer_init(&ask->out);
    net_post_init(&ask->going, survey, ask);
    net_post_init(&ask->back, come_back, ask);
    LIST_INSERT_HEAD(&worker->me->asks, ask, link);
    in->owner = ask;
    atomic_fetch_add_explicit(&gateway->counts.open, 1, memory_order_relaxed);
    if (!me_check_head(ask, &why)) {
        send_refusal(ask, &why);
        return true;
    }
    if (gateway->control == NULL) {
        refusal_init(&why, REPLY_SHUTTING_DOWN, NULL);
        send_refusal(ask, &why);
        return true;
    }
    ask->is_away = true;
    net_loop_post(gateway->control, &ask->going);
    return true;
}

static void me_data(struct http_inbound *in, struct slice bytes)
{
    (void)in, (void)bytes; /* it is refused, and has no effect */
}

static void me_end(struct http_inbound *in)
{
    (void)in; /* the head says everything */
}

static void me_gone(struct http_inbound *in, enum http_why why)
{
    struct me_ask *ask = in->owner;

    (void)why;
    atomic_fetch_sub_explicit(&ask->worker->gateway->counts.open, 1, memory_order_relaxed);
    in->owner = NULL;
    ask->in = NULL;
    if (!ask->is_away)
        free_ask(ask);
}

/* ---- the service ---- */

static bool me_start(struct worker *worker, struct tg_problem *problem)
{
    worker->me = calloc(1, sizeof *worker->me);
    if (worker->me == NULL)
        return problem_fail(problem, "no memory for a worker");
    LIST_INIT(&worker->me->asks);
    return true;
}

/* No thread runs any more but that of the pool. */
static void me_stop(struct worker *worker)
{
    struct me *me = worker->gateway->me;
    struct net_loop *control = worker->gateway->control;
    struct me_ask *ask;

    while ((ask = LIST_FIRST(&worker->me->asks)) != NULL) {
        if (control != NULL)
            net_loop_unpost(control, &ask->going);
        net_loop_unpost(worker->loop, &ask->back);
        explain_forget(ask->explanation);
        if (ask->job.loop != NULL) /* it was put */
            net_pool_end(me->pool, &ask->job);
        free_ask(ask);
    }
    free(worker->me);
    worker->me = NULL;
}

static bool me_start_control(struct control *control, struct tg_problem *problem)
{
    (void)problem;
    control->gateway->me->control = control;
    return true;
}

static void me_stop_control(struct control *control)
{
    control->gateway->me->control = NULL;
}

static bool me_open(struct gateway *gateway, struct tg_problem *problem)
{
    struct me *me = calloc(1, sizeof *me);

    problem_fail(problem, "no memory for the gateway");
    if (me != NULL && (me->pool = net_pool_new(1, NULL)) != NULL) {
        gateway->me = me;
        return true;
    }
    free(me);
    return false;
}

static void me_close(struct gateway *gateway)
{
    net_pool_free(gateway->me->pool);
    free(gateway->me);
    gateway->me = NULL;
}

const struct service me_service = {.name = "me",
                                   .listeners = SERVICE_ON_GATEWAY,
                                   .begin = me_begin,
                                   .data = me_data,
                                   .end = me_end,
                                   .gone = me_gone,
                                   .start = me_start,
                                   .stop = me_stop,
                                   .start_control = me_start_control,
                                   .stop_control = me_stop_control,
                                   .open = me_open,
                                   .close = me_close};
