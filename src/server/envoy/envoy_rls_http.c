/* envoy_rls_http.c - the rate limit service over plain HTTP, beside its RPC.
 *
 *     POST /json           a request as JSON; 200, or 429 if it is over a limit, with the reply
 *     GET /healthcheck     200 while the gateway takes calls; HEAD, too
 *
 * For curl, for tests, and for clients that ask envoyproxy/ratelimit so. They are served by the
 * listener for gRPC, so that whoever may reach one may reach the other, and nobody else.
 *
 *     begin()          end()           decided
 *     ------> READING ------> WAITING ---------> ANSWERED     gone() ends it in every state, once
 *                `---------------------------------'  wrong head, too large, decided at once
 *
 * An exchange belongs to its worker's thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/dialect/replies.h"
#include "server/envoy/envoy_rls_internal.h"
#include "server/envoy/envoy_rls_message.h"
#include "server/runtime/body_buffer.h"
#include "server/runtime/worker.h"

enum { BODY_MAX = 128 << 10 };

enum exchange_state { EXCHANGE_READING, EXCHANGE_WAITING, EXCHANGE_ANSWERED };

struct exchange {
    const struct service *service; /* the first member: see service.h */
    struct worker *worker;
    struct http_inbound *in;
    enum exchange_state state;
    struct envoy_rls_message *message;
    struct envoy_rls_pending *pending; /* EXCHANGE_WAITING; else null */
    struct body_buffer body;
};

/* ---- replies ---- */

static void envoy_rls_http_answer(struct exchange *x, int status, struct slice type,
                                  struct slice body)
{
    struct http_fields fields;

    http_fields_init(&fields);
    http_fields_add(&fields, SLICE("content-type"), type);
    struct http_head head = {.status = status, .fields = fields.list, .n_fields = fields.n};
    assert(x->state != EXCHANGE_ANSWERED && x->pending == NULL);
    x->state = EXCHANGE_ANSWERED;
    http_inbound_send(x->in, &head, body);
}

static void envoy_rls_http_refuse(struct exchange *x, const struct refusal *why)
{
    struct worker *worker = x->worker;
    struct reply reply;

    reply_write(why, WIRE_OPENAI, worker_wall(worker), random_bits(&worker->random), &reply);
    struct http_head head = {
        .status = reply.status, .fields = reply.fields, .n_fields = reply.n_fields};
    assert(x->state != EXCHANGE_ANSWERED && x->pending == NULL);
    x->state = EXCHANGE_ANSWERED;
    http_inbound_send(x->in, &head, reply.body);
}

static void envoy_rls_http_decided(void *context, const struct envoy_rls_reply *reply)
{
    struct exchange *x = context;
    struct json_writer out;
    struct refusal why;

    x->pending = NULL;
    if (reply->result != ENVOY_RLS_DECIDED) {
        refusal_init(&why,
                     reply->result == ENVOY_RLS_INVALID ? REPLY_INVALID_REQUEST
                                                        : REPLY_STORE_UNAVAILABLE,
                     "%s", reply->message);
        envoy_rls_http_refuse(x, &why);
        return;
    }
    json_writer_init(&out);
    envoy_rls_write(&out, reply);
    if (out.text.failed) {
        refusal_init(&why, REPLY_INTERNAL, NULL);
        envoy_rls_http_refuse(x, &why);
    } else {
        envoy_rls_http_answer(x, reply->overall == ENVOY_RLS_OVER_LIMIT ? 429 : 200,
                              SLICE("application/json"),
                              (struct slice){out.text.bytes, out.text.size});
    }
    json_writer_fini(&out);
}

/* ---- the exchange ---- */

static void envoy_rls_http_end(struct http_inbound *in)
{
    struct exchange *x = in->owner;
    char problem[ENVOY_RLS_MESSAGE_MAX];
    struct refusal why;

    if (x->state != EXCHANGE_READING)
        return;
    x->message = envoy_rls_read(x->worker->reader,
                                (struct slice){x->body.n > 0 ? x->body.bytes : "", x->body.n},
                                x->body.room, problem);
    if (x->message != NULL) {
        x->pending = envoy_rls_decide(x->worker, &x->message->request, envoy_rls_http_decided, x);
        if (x->pending != NULL)
            x->state = EXCHANGE_WAITING;
        return;
    }
    refusal_init(&why, problem[0] != '\0' ? REPLY_INVALID_REQUEST : REPLY_INTERNAL, "%s",
                 problem[0] != '\0' ? problem : "there is no memory for the request");
    envoy_rls_http_refuse(x, &why);
}

static void envoy_rls_http_data(struct http_inbound *in, struct slice bytes)
{
    struct exchange *x = in->owner;
    enum body_room room;
    struct refusal why;

    if (x->state != EXCHANGE_READING)
        return;
    if (x->body.n + bytes.n > BODY_MAX) {
        refusal_init(&why, REPLY_PAYLOAD_TOO_LARGE, "the body has more than %d bytes", BODY_MAX);
        envoy_rls_http_refuse(x, &why);
        return;
    }
    room = body_buffer_add(&x->body, x->worker->gateway, x->worker->generation,
                           &x->worker->gateway->callers, in->head.length, bytes);
    if (room != BODY_FITS) {
        body_buffer_refusal(room, "callers", &why);
        envoy_rls_http_refuse(x, &why);
    }
}

static void envoy_rls_http_gone(struct http_inbound *in, enum http_why why)
{
    struct exchange *x = in->owner;

    (void)why;
    assert((x->pending != NULL) == (x->state == EXCHANGE_WAITING));
    if (x->pending != NULL)
        envoy_rls_cancel(x->pending);
    in->owner = NULL;
    free(x->message);
    body_buffer_free(&x->body, x->worker->gateway);
    free(x);
}

/* ---- the head ---- */

/* Answers at once where no body is wanted. */
static void take_head(struct exchange *x, bool json)
{
    const struct http_head *head = &x->in->head;
    bool right =
        json ? slice_equal(head->method, SLICE("POST"))
             : slice_equal(head->method, SLICE("GET")) || slice_equal(head->method, SLICE("HEAD"));
    struct refusal why;

    if (!right) {
        refusal_init(&why, REPLY_METHOD_NOT_ALLOWED, NULL);
        why.allow = json ? "POST" : "GET, HEAD";
        envoy_rls_http_refuse(x, &why);
    } else if (!json && atomic_load_explicit(&x->worker->gateway->draining, memory_order_relaxed)) {
        envoy_rls_http_answer(x, 503, SLICE("text/plain"), SLICE("the gateway is shutting down\n"));
    } else if (!json) {
        envoy_rls_http_answer(x, 200, SLICE("text/plain"), SLICE("OK"));
    } else if (!envoy_rls_may_ask(x->worker, head)) {
        refusal_init(
            &why, REPLY_INVALID_API_KEY,
            "envoy_rls.auth is callers: send a caller's token as 'Authorization: Bearer TOKEN'");
        envoy_rls_http_refuse(x, &why);
    }
}

/* The path without the query, which a load balancer may add and nobody reads. */
static struct slice path_of(struct slice target)
{
    const char *query = memchr(target.at, '?', target.n);

    return query != NULL ? (struct slice){target.at, (size_t)(query - target.at)} : target;
}

static bool envoy_rls_http_begin(struct worker *worker, struct http_inbound *in)
{
    struct slice path = path_of(in->head.target);
    bool json = slice_equal(path, SLICE("/json"));

    if (!worker->generation->config.envoy.present ||
        (!json && !slice_equal(path, SLICE("/healthcheck"))))
        return false;
    struct exchange *x = calloc(1, sizeof *x);
    if (x == NULL) {
        http_inbound_abort(in);
        return true;
    }
    x->service = &envoy_service;
    x->worker = worker;
    x->in = in;
    in->owner = x;
    take_head(x, json);
    return true;
}

/* ---- the service ---- */

static bool envoy_service_read(struct generation *generation, const struct generation *before,
                               struct tg_problem *problem)
{
    struct tg_problem why;

    return envoy_rls_new(&generation->config, generation->gateway->book,
                         before ? before->envoy : NULL, &generation->envoy, &why) == TG_OK ||
           problem_fail(problem, "envoy_rls: %s", why.text);
}

static bool envoy_service_want_limits(struct generation *generation)
{
    struct tg_problem ignored;
    struct envoy_rls *again;

    if (envoy_rls_new(&generation->config, generation->gateway->book, generation->envoy, &again,
                      &ignored) != TG_OK)
        return false;
    envoy_rls_free(again);
    return true;
}

static void envoy_service_forget(struct generation *generation)
{
    envoy_rls_free(generation->envoy);
    generation->envoy = NULL;
}

static const struct grpc_service *const RPCS[] = {&rpc_envoy};

const struct service envoy_service = {.name = "envoy",
                                      .listeners = SERVICE_ON_GRPC,
                                      .begin = envoy_rls_http_begin,
                                      .data = envoy_rls_http_data,
                                      .end = envoy_rls_http_end,
                                      .gone = envoy_rls_http_gone,
                                      .rpcs = RPCS,
                                      .n_rpcs = 1,
                                      .read = envoy_service_read,
                                      .want_limits = envoy_service_want_limits,
                                      .forget = envoy_service_forget,
                                      .write_metrics = envoy_metrics_write};
