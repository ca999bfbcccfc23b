/* call_in.c - the client's side of a call: who it is, what it wants, its body.
 *
 * Everything that can be said before the body is read is said then: a wrong key, a wrong path, no
 * memory, too many calls of one tenant. The body is kept whole until the reply begins, for an
 * attempt may have to be made again; what all bodies together may take is bounded.
 *
 * Reading a body must not keep the other calls of the worker waiting. IN_PLACE_BYTES of text full
 * of escapes take 0.4 ms, and IN_PLACE_VALUES values of any kind 0.4 ms: what has no more is read
 * where it is, and what has more on a thread of the gateway's pool, from its beginning, in the turn
 * of its tenant (docs/decisions/0035).
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/dialect/client_timeout.h"
#include "server/dialect/estimate.h"
#include "server/dialect/neutral/opaque_pack.h"
#include "server/dialect/path_pattern.h"
#include "server/dialect/request_head.h"
#include "server/obs/metrics.h"
#include "server/proxy/call.h"
#include "server/proxy/model_list.h"
#include "server/runtime/identity.h"
#include "server/runtime/tenant_share.h"
#include "server/tenancy/trust.h"

enum {
    IN_PLACE_BYTES = 256 << 10,
    IN_PLACE_VALUES = 1 << 13,
    READER_KEEPS = 1 << 20, /* bytes of a document for which a thread of the pool keeps memory */
};

/* ---- who ---- */

/* Sets the tenant, if its key or token is good; else `why` says what is wrong. */
static bool find_tenant(struct call *call, struct refusal *why)
{
    struct identity identity;
    bool found = identity_find(call->worker, call->generation, &call->in->head, call->began_at,
                               &identity, why);

    call->tenant = identity.tenant;
    call->virtual_key = identity.key;
    if (found)
        call->in->client = http_client_id(slice_of(call_tenant(call)->name));
    call->user = (struct slice){call->user_name, strlen(identity.user)};
    call->user_is_signed = call->user.n > 0;
    memcpy(call->user_name, identity.user, call->user.n);
    return found;
}

/* Fills in the call of the gate; `model` empty: not known yet. */
static bool describe(struct call *call, struct slice model)
{
    assert(call->tenant != CONFIG_NONE);
    const struct config_tenant *tenant = call_tenant(call);
    const struct http_head *head = &call->in->head;
    struct scopes_who who = {.tenant = tenant->name,
                             .tenant_bytes = strlen(tenant->name),
                             .model = model.at,
                             .model_bytes = model.n,
                             .key = call->virtual_key,
                             .peer = tenant->name,
                             .peer_bytes = strlen(tenant->name),
                             .priority = (enum tg_priority)tenant->priority};
    struct tg_problem problem;
    struct refusal why;
    double value = -1;

    assert(!tenant->users.present || tenant->users.header != NULL); /* the file has to name it */
    if (tenant->users.present) {
        if (!call->user_is_signed)
            call->user = http_find(head, slice_of(tenant->users.header));
        if (call->user.n > LEDGER_NAME_MAX) {
            refusal_init(&why, REPLY_INVALID_REQUEST, "the user's name has more than %d bytes",
                         LEDGER_NAME_MAX);
            snprintf(why.param, sizeof why.param, "%s", tenant->users.header);
            call->user.n = 0;
            call_refuse(call, &why);
            return false;
        }
        if (call->user.n > 0) { /* a call that is drained outlives its head */
            memmove(call->user_name, call->user.at, call->user.n);
            call->user.at = call->user_name;
        }
        who.user = call->user.n > 0 ? call->user.at : NULL;
        who.user_bytes = call->user.n;
    }
    who.priority = trust_lower_priority(head, who.priority);
    if (trust_covers(&call->generation->config, http_inbound_peer(call->in))) {
        who.priority = trust_priority(head, who.priority);
        struct slice node = trust_node(head);
        if (node.n > 0) {
            who.peer = node.at, who.peer_bytes = node.n;
            snprintf(call->notes.peer, sizeof call->notes.peer, "%.*s", (int)node.n, node.at);
        }
        struct slice worth = http_find(head, SLICE("x-tollgate-value"));
        char text[32];
        if (worth.n > 0 && worth.n < sizeof text) {
            memcpy(text, worth.at, worth.n);
            text[worth.n] = 0;
            value = strtod(text, NULL);
        }
    }
    tg_call_init(&call->gate_call);
    if (scopes_fill(call->generation->scopes, &who, call->scopes, &call->gate_call, &problem)) {
        refusal_init(&why, REPLY_INTERNAL, "%s", problem.text);
        call_refuse(call, &why);
        return false;
    }
    remote_divide_peer(call->gateway->remote, &call->generation->config.gate, &call->gate_call);
    remote_divide_overdrafts(call->gateway->remote, call->scopes, call->gate_call.debit.n_scopes);
    if (value >= 0 && value <= (double)TG_NUMBER_MAX)
        call->gate_call.value = value;
    call->gate_call.waiter = &call->waiter;
    return true;
}

/* Whether a tenant that knows its users knows this one, or has room for it. */
static bool check_user(struct call *call)
{
    const struct config_users *users = &call_tenant(call)->users;
    struct tenant_share *share = call->generation->shares[call->tenant];
    struct refusal why;

    if (!users->present || (call->user.n == 0 && !users->required))
        return true;
    if (call->user.n == 0) {
        refusal_init(&why, REPLY_INVALID_REQUEST,
                     "no user: calls of tenant %.60s must name theirs in the header %.60s",
                     call_tenant(call)->name, users->header);
    } else if (user_census_take(&share->users, call->user, users->max, call->gateway->seed,
                                call->began_at)) {
        return true;
    } else {
        refusal_init(&why, REPLY_USER_LIMIT,
                     "user limit of tenant %.60s: %" PRId64
                     " users have called today (UTC), and this one is not among them",
                     call_tenant(call)->name, users->max);
        why.reset_at = user_census_until(call->began_at);
    }
    snprintf(why.param, sizeof why.param, "%.63s", users->header);
    call_refuse(call, &why);
    return false;
}

static void refuse_by_rule(struct call *call, const struct ask_problem *problem)
{
    struct refusal why;

    refusal_init(&why, REPLY_FIELD_RULE, "%s", problem->text);
    snprintf(why.param, sizeof why.param, "%s", problem->param);
    call_refuse(call, &why);
}

/* ---- the list of models ---- */

/* `mark`, if it is not empty, says what of it is an estimate. */
static void send_json(struct call *call, const struct json_writer *out, struct slice mark)
{
    struct http_field fields[] = {{SLICE("content-type"), SLICE("application/json")},
                                  {SLICE("x-tollgate-estimated"), mark}};
    struct http_head head = {.status = 200, .fields = fields, .n_fields = mark.n > 0 ? 2 : 1};

    call->status = 200;
    call->bytes_out = (int64_t)out->text.size;
    call_release(call, TG_OUTCOME_CANCELLED);
    http_inbound_send(call->in, &head, (struct slice){out->text.bytes, out->text.size});
    call_move(call, CALL_OVER);
}

static void list_models(struct call *call, const struct endpoint_match *match)
{
    struct json_writer out;
    struct refusal why;

    if (http_find(&call->in->head, SLICE("anthropic-version")).at)
        call->api = WIRE_ANTHROPIC;
    const struct model_list list = {.config = &call->generation->config,
                                    .tenant = call_tenant(call),
                                    .key = call->virtual_key,
                                    .api = call->api};
    json_writer_init(&out);
    if (match->endpoint == ENDPOINT_MODELS)
        model_list_write(&list, &out);
    else
        model_list_write_one(&list, match->model, &out);
    if (out.text.failed || out.text.size == 0) {
        if (out.text.failed)
            refusal_of_memory(&why);
        else
            refusal_init(&why, REPLY_MODEL_NOT_FOUND, NULL);
        call_refuse(call, &why);
    } else {
        send_json(call, &out, (struct slice){NULL, 0});
    }
    json_writer_fini(&out);
}

enum call_verdict call_answer_estimate(struct call *call)
{
    struct json_writer out;
    struct refusal why;

    json_writer_init(&out);
    json_write_object(&out);
    json_member_number(&out, "input_tokens", estimate_prompt(&call->ask, &call->route->estimate));
    json_write_object_end(&out);
    if (out.text.failed) {
        refusal_of_memory(&why);
        call_refuse_admitted(call, &why);
    } else {
        send_json(call, &out, SLICE("input_tokens"));
    }
    json_writer_fini(&out);
    return CALL_ANSWERED;
}

/* ---- the head ---- */

static const struct config_passthrough *find_passthrough(const struct call *call)
{
    const struct config *config = &call->generation->config;
    struct slice path = path_of_target(call->in->head.target);

    for (size_t i = 0; i < config->n_passthrough; i++)
        if (path_pattern_matches(config->passthrough[i].path, path))
            return &config->passthrough[i];
    return NULL;
}

/* Whether the tenant names the path among its endpoints. To others there is nothing. */
static bool check_endpoint(struct call *call, struct refusal *why)
{
    if (call->passthrough == NULL || config_may_call(call_tenant(call), call->virtual_key,
                                                     path_of_target(call->in->head.target)))
        return true;
    refusal_init(why, REPLY_NOT_FOUND, "there is nothing at this path for this key");
    return false;
}

/* What a passthrough costs its provider is known to the file alone. Under a budget it has to say
 * so, and more than nothing where a call starts work that goes on after its reply. */
static bool check_unpriced(struct call *call, struct refusal *why)
{
    const struct config_passthrough *row = call->passthrough;

    if (row == NULL || !config_is_hard(call_tenant(call), call->virtual_key) || !call_costs(call))
        return true;
    bool starts = endpoint_starts_work(path_of_target(call->in->head.target));
    if (starts ? row->per_call > 0 : row->priced)
        return true;
    if (starts)
        refusal_init(why, REPLY_ENDPOINT_UNPRICED,
                     "calls of this path start work that goes on after their reply, outside of "
                     "every reservation: under a budget its passthrough needs per_call above 0");
    else
        refusal_init(why, REPLY_ENDPOINT_UNPRICED, NULL);
    return false;
}

static bool call_in_check_head(struct call *call, struct refusal *why)
{
    const struct http_head *head = &call->in->head;
    struct slice count = http_find(head, SLICE("x-stainless-retry-count"));

    call->is_retry = count.n > 0 && !slice_equal(count, SLICE("0"));
    if (head->length > call->generation->config.limits.body) {
        refusal_init(why, REPLY_PAYLOAD_TOO_LARGE,
                     "the body has %" PRId64 " bytes; at most %" PRId64 " are taken", head->length,
                     call->generation->config.limits.body);
        return false;
    }
    if (call->passthrough == NULL ? !request_head_is_json(head)
                                  : !call->passthrough->shared && !request_head_is_single(head)) {
        refusal_init(why, REPLY_UNSUPPORTED_MEDIA_TYPE, NULL);
        return false;
    }
    const struct config_users *users = &call_tenant(call)->users;
    struct slice twice =
        request_head_twice(head, users->present ? slice_of(users->header) : (struct slice){0});
    if (twice.n > 0) {
        refusal_init(why, REPLY_INVALID_REQUEST, "the header %.*s is there twice; send it once",
                     (int)twice.n, twice.at);
        snprintf(why->param, sizeof why->param, "%.*s", (int)twice.n, twice.at);
        return false;
    }
    return true;
}

/* Who wanted what there is not: for the log. The query may hold anything, and is left out. */
static void note_nothing_there(struct call *call)
{
    struct slice path = path_of_target(call->in->head.target);
    struct refusal unused;

    snprintf(call->missed_path, sizeof call->missed_path, "%.*s", (int)path.n, path.at);
    (void)find_tenant(call, &unused);
}

/* Whether there is anything at that path and method, and whoever comes now is served. */
static bool check_path(struct call *call, const struct endpoint_match *match, struct refusal *why)
{
    if (match->endpoint == ENDPOINT_NONE && call->passthrough == NULL) {
        note_nothing_there(call);
        refusal_init(why, REPLY_NOT_FOUND, NULL);
        return false;
    }
    if (call->passthrough == NULL && !match->method_ok) {
        refusal_init(why, REPLY_METHOD_NOT_ALLOWED, NULL);
        why->allow = match->allow;
        return false;
    }
    if (atomic_load_explicit(&call->gateway->draining, memory_order_relaxed)) {
        refusal_init(why, REPLY_SHUTTING_DOWN, NULL);
        return false;
    }
    return true;
}

/* Everything that can be said before the body is read. */
void call_in_head(struct call *call)
{
    const struct http_head *head = &call->in->head;
    struct endpoint_match match = endpoint_of(head->method, head->target);
    struct refusal why;

    call->endpoint = match.endpoint;
    call->api = slice_begins(path_of_target(head->target), SLICE("/v1/messages/"))
                    ? WIRE_ANTHROPIC /* be it one of our paths or not */
                    : endpoint_api(match.endpoint);
    if (match.endpoint == ENDPOINT_NONE)
        call->passthrough = find_passthrough(call);
    if (!check_path(call, &match, &why) || !find_tenant(call, &why)) {
        call_refuse(call, &why);
        return;
    }
    if (match.endpoint == ENDPOINT_MODELS || match.endpoint == ENDPOINT_MODEL) {
        list_models(call, &match);
        return;
    }
    if (!check_endpoint(call, &why) || !check_unpriced(call, &why) ||
        !call_in_check_head(call, &why) || !call_objects_head(call, &why)) {
        call_refuse(call, &why);
        return;
    }
    if (!describe(call, (struct slice){NULL, 0}) || !check_user(call) || !call_precheck(call))
        return; /* it has been refused */
    metrics_note_peer(metrics_shard(call->gateway->metrics, call->worker->number),
                      slice_of(call->notes.peer));
    call_move(call, CALL_READING);
}

/* ---- the body ---- */

/* Keeps the bytes. False: there is no room for them, and the call has been refused. */
static bool call_in_hold(struct call *call, struct slice bytes)
{
    enum body_room room =
        body_buffer_add(&call->body, call->gateway, call->generation,
                        call->generation->shares[call->tenant], call->in->head.length, bytes);
    struct refusal why;
    char whose[64];

    if (room == BODY_FITS)
        return true;
    snprintf(whose, sizeof whose, "tenant %s", call_tenant(call)->name);
    body_buffer_refusal(room, whose, &why);
    call_refuse(call, &why);
    return false;
}

void call_in_body(struct call *call, struct slice bytes)
{
    struct refusal why;

    assert(call->state == CALL_READING && call->body.n <= call->body.room);
    if (call->body.n + bytes.n > (size_t)call->generation->config.limits.body) {
        refusal_init(&why, REPLY_PAYLOAD_TOO_LARGE, "the body has more than %" PRId64 " bytes",
                     call->generation->config.limits.body);
        call_refuse(call, &why);
    } else if (call_in_hold(call, bytes)) {
        call->bytes_in += (int64_t)bytes.n;
    }
}

static bool may_use(const struct call *call, const struct config_model *model)
{
    return config_may_use(&call->generation->config, call_tenant(call), call->virtual_key, model);
}

/* Below its tenant's share of what is left, a cheaper model may serve. */
static size_t maybe_cheaper(const struct call *call, size_t model)
{
    const struct config_model *config = &call->generation->config.models[model];
    const struct config_tenant *tenant = call_tenant(call);
    tg_micro left;
    double part;

    if (config->cheaper == CONFIG_NONE || tenant->allow_cheaper <= 0 ||
        !may_use(call, &call->generation->config.models[config->cheaper]) ||
        !call_is_reached(call, &call->generation->routes[config->cheaper]))
        return model;
    return call_money_left(call, (struct slice){0}, &left, &part) && part < tenant->allow_cheaper
               ? config->cheaper
               : model;
}

static bool find_route(struct call *call)
{
    const struct config *config = &call->generation->config;
    struct slice name = ask_slice(&call->ask.model);
    struct refusal why;

    call->model = config_model(config, name.at, name.n);
    if (call->model == CONFIG_NONE && call->generation->unknown[call->api].provider &&
        config_patterns_match(&call_tenant(call)->models, name.at, name.n)) {
        call->route = &call->generation->unknown[call->api];
        return true;
    }
    if (call->model == CONFIG_NONE) {
        refusal_init(&why, REPLY_MODEL_NOT_FOUND, "there is no model '%.*s' here", (int)name.n,
                     name.at);
    } else if (!may_use(call, &config->models[call->model])) {
        refusal_init(&why, REPLY_MODEL_NOT_ALLOWED, "this key may not use the model '%.*s'",
                     (int)name.n, name.at);
    } else if (!call_is_reached(call, &call->generation->routes[call->model])) {
        refusal_init(&why, REPLY_WRONG_API_FOR_MODEL,
                     "model '%.*s' cannot be called at this path: the API of its provider has no "
                     "counterpart of it",
                     (int)name.n, name.at);
    } else {
        call->route = &call->generation->routes[maybe_cheaper(call, call->model)];
        return true;
    }
    snprintf(why.param, sizeof why.param, "model");
    call_refuse(call, &why);
    return false;
}

/* The lesser of two times, of which 0 is none. */
static tg_ms sooner(tg_ms a, tg_ms b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* How long the client is going to wait, as far as it says. The SDKs' own header is of the time to
 * the head of a reply: a stream may take longer than that. */
static void set_deadlines(struct call *call, tg_ms total)
{
    struct client_timeout said;

    client_timeout_read(&call->in->head, &said);
    tg_ms whole = sooner(total, said.whole), first = sooner(whole, said.first);

    call->deadline = first > 0 ? num_add(call->began_at, first) : 0;
    call->ends_at = whole > 0 ? num_add(call->began_at, whole) : 0;
    call->total_at = total > 0 ? num_add(call->began_at, total) : 0;
}

/* The body has been read, or cannot be. */
static enum call_verdict call_in_route(struct call *call, bool good, struct ask_problem *problem)
{
    struct refusal why;

    if (!good) {
        refusal_of_ask(problem, &why);
        call_refuse(call, &why);
        return CALL_ANSWERED;
    }
    if (call->passthrough != NULL) {
        if (!call_objects_at(call, call_provider(call))) {
            refusal_init(&why, REPLY_OBJECT_NOT_FOUND,
                         "the object that this call names is at provider %s",
                         call->objects.provider);
            call_refuse(call, &why);
            return CALL_ANSWERED;
        }
        set_deadlines(call, 0);
        if (call_rules_apply(call, NULL, problem))
            return CALL_PASSES;
        refuse_by_rule(call, problem);
        return CALL_ANSWERED;
    }
    if (!find_route(call))
        return CALL_ANSWERED;
    if (!call_objects_at(call, call->route->provider)) {
        refusal_init(&why, REPLY_OBJECT_NOT_FOUND,
                     "the object that this call names is at provider %s, and its model is not",
                     call->objects.provider);
        call_refuse(call, &why);
        return CALL_ANSWERED;
    }
    if (!call_rules_apply(call, call->route, problem)) {
        refuse_by_rule(call, problem);
        return CALL_ANSWERED;
    }
    set_deadlines(call, call->route->config->timeouts.total);
    if (!describe(call, call->model == CONFIG_NONE
                            ? ask_slice(&call->ask.model)
                            : slice_of(call->generation->config.models[call->model].name)))
        return CALL_ANSWERED;
    call_estimate(call);
    return CALL_PASSES;
}

/* By a thread of the pool, or the worker's own. */
static bool call_in_ask(struct call *call, struct json_reader *reader, size_t values,
                        struct ask_problem *problem)
{
    *problem = (struct ask_problem){.param = ""};
    if (call->passthrough != NULL)
        return call_objects_body(call, reader, values, problem);
    call->carries = opaque_is_in((struct slice){call->body.bytes, call->body.n});
    return ask_read_watching(reader, values, call->endpoint, call->body.bytes, call->body.n,
                             call->body.room, call->generation->config.watch, call->seen,
                             &call->ask, problem) &&
           call_objects_body(call, reader, values, problem);
}

/* On a thread of the pool. */
static void call_in_parse(struct net_job *job, void *reader)
{
    struct call *call = container_of(job, struct call, parse.job);
    struct call_parse *parse = &call->parse;

    if (reader == NULL) {
        parse->problem = (struct ask_problem){.no_memory = true};
        parse->good = false;
        return;
    }
    parse->good = call_in_ask(call, reader, ASK_VALUES_MAX, &parse->problem);
    json_reader_trim(reader, READER_KEEPS);
}

static bool call_in_put_job(struct call *call)
{
    struct net_job *job = &call->parse.job;

    job->run = call_in_parse;
    job->loop = call->worker->loop;
    job->takes = call->body.n * JSON_READER_FACTOR;
    job->room = (size_t)(call->generation->config.limits.buffered_total / CALL_READING_SHARE);
    net_post_init(&job->done, call_parsed, call);
    call->parse.out =
        call->env->job_put(call->gateway->pool, &call->generation->shares[call->tenant]->lane, job);
    return call->parse.out;
}

enum call_verdict call_in_parsed(struct call *call)
{
    return call_in_route(call, call->parse.good, &call->parse.problem);
}

enum call_verdict call_in_read(struct call *call)
{
    struct ask_problem problem;
    bool good;

    assert(call->state == CALL_READING && call->route == NULL);
    assert(call->bytes_in == (int64_t)call->body.n);
    report_notes_ready(&call->notes);
    if (call->passthrough != NULL && (call->passthrough->shared || call->body.n == 0))
        return call_in_route(call, true, &problem);
    if (!call_in_hold(call, (struct slice){NULL, 0}))
        return CALL_ANSWERED;
    if (call->body.n > IN_PLACE_BYTES && call_in_put_job(call))
        return CALL_WAITS;
    good = call_in_ask(call, call->worker->reader, IN_PLACE_VALUES, &problem);
    if (!good && problem.too_many) {
        if (call_in_put_job(call))
            return CALL_WAITS;
        /* There is no thread: better slowly than not at all. */
        good = call_in_ask(call, call->worker->reader, ASK_VALUES_MAX, &problem);
    }
    return call_in_route(call, good, &problem);
}
