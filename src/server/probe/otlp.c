/* otlp.c - sends spans to a collector. See otlp.h.
 *
 * A collector that says 429, 502, 503 or 504, or nothing at all, is asked again with the same batch
 * after a pause that doubles; what else it says it would say again. After TRIES attempts the batch
 * is lost: newer spans tell more about what is going on.
 */
#include "server/probe/otlp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/net/tls.h"
#include "lib/core/problem.h"

enum {
    EACH_MS = 250,
    AT_ONCE_MS = 1, /* there is more than fitted into a batch */
    PAUSE_MS = 1000,
    PAUSE_MAX_MS = 30000,
    TRIES = 5,
    CONNECT_MS = 5000,
    TOTAL_MS = 10000
};

struct otlp {
    struct net_loop *loop;
    struct http_client *client;
    struct http_origin *origin;
    struct trace *trace;
    struct log *log;
    struct net_timer timer;
    struct http_outbound *out; /* null: none is under way */
    int status;                /* the status of the collector's reply */
    int tries;                 /* attempts to send the batch; 0: there is no batch */
    bool away;                 /* the last one was not taken, and that has been told */
    char instance[TRACE_INSTANCE_MAX];
    char target[1024];
    struct trace_batch batch;
};

static const struct http_client_ops otlp_ops;

/* ---- What becomes of a batch --------------------------------------------------------------- */

static void otlp_tell(struct otlp *otlp, bool away, const char *why)
{
    const struct log_field fields[] = {LOG_TEXT("why", why)};

    if (otlp->log != NULL && otlp->away != away)
        log_event(otlp->log, away ? LOG_WARN : LOG_INFO,
                  away ? "the collector does not accept traces"
                       : "the collector accepts traces again",
                  fields, away);
    otlp->away = away;
}

static void taken(struct otlp *otlp)
{
    bool full = otlp->batch.n > TRACE_BATCH_BYTES / 2;

    otlp->tries = 0;
    otlp_tell(otlp, false, "");
    net_timer_set(otlp->loop, &otlp->timer, full ? AT_ONCE_MS : EACH_MS);
}

static void not_taken(struct otlp *otlp, bool again, const char *why)
{
    tg_ms pause = EACH_MS;

    otlp_tell(otlp, true, why);
    if (again && otlp->tries < TRIES) {
        pause = (tg_ms)PAUSE_MS << (otlp->tries - 1);
    } else {
        trace_batch_lost(otlp->trace, &otlp->batch);
        otlp->tries = 0;
    }
    net_timer_set(otlp->loop, &otlp->timer, pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS);
}

/* ---- One exchange -------------------------------------------------------------------------- */

static void send_batch(struct otlp *otlp)
{
    const struct http_timeouts timeouts = {.connect = CONNECT_MS, .total = TOTAL_MS};
    struct http_field fields[] = {{SLICE("content-type"), SLICE("application/json")},
                                  {SLICE("user-agent"), SLICE("tollgate")}};
    struct http_head head = {.method = SLICE("POST"),
                             .target = slice_of(otlp->target),
                             .fields = fields,
                             .n_fields = 2,
                             .length = (int64_t)otlp->batch.n};

    otlp->tries++;
    otlp->status = 0;
    otlp->out = http_send(otlp->client, otlp->origin, &head, &timeouts, &otlp_ops, otlp);
    if (otlp->out == NULL) {
        not_taken(otlp, true, "no memory");
        return;
    }
    http_outbound_write(otlp->out, (struct slice){otlp->batch.text, otlp->batch.n});
    http_outbound_finish(otlp->out);
}

static void otlp_timer_fires(void *arg)
{
    struct otlp *otlp = arg;

    if (otlp->tries > 0 || trace_batch_fill(otlp->trace, otlp->instance, &otlp->batch))
        send_batch(otlp);
    else
        net_timer_set(otlp->loop, &otlp->timer, EACH_MS);
}

static void out_head(struct http_outbound *out, const struct http_head *head)
{
    struct otlp *otlp = out->owner;

    otlp->status = head->status;
}

static void out_data(struct http_outbound *out, struct slice bytes)
{
    (void)out; /* which spans it did not like: there is nothing to be done about them */
    (void)bytes;
}

static void out_end(struct http_outbound *out)
{
    struct otlp *otlp = out->owner;
    int status = otlp->status;
    char why[32];

    otlp->out = NULL;
    snprintf(why, sizeof why, "status %d", status);
    if (status >= 200 && status < 300)
        taken(otlp);
    else
        not_taken(otlp, status == 429 || (status >= 502 && status <= 504), why);
}

static void out_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    struct otlp *otlp = out->owner;

    (void)text;
    otlp->out = NULL;
    not_taken(otlp, true, http_why_text(why));
}

static const struct http_client_ops otlp_ops = {
    .head = out_head, .data = out_data, .end = out_end, .failed = out_failed};

/* ---- Life ---------------------------------------------------------------------------------- */

static bool make_origin(struct otlp *otlp, const struct config_url *url, struct tg_problem *problem)
{
    struct http_origin_options options;
    struct tls_context *tls = NULL;

    http_origin_options_init(&options);
    options.host = url->host;
    options.port = url->port;
    if (url->tls && tls_client_new("system", NULL, NULL, &tls, problem))
        return false;
    options.tls = tls;
    enum tg_err err = http_origin_new(&options, &otlp->origin, problem);
    tls_context_unref(tls);
    return err == TG_OK;
}

/* Tells processes apart that send to one collector; of the host's name, what needs no escaping. */
static void name_instance(char name[TRACE_INSTANCE_MAX])
{
    char host[40] = "";
    size_t n = 0;

    gethostname(host, sizeof host - 1);
    for (size_t i = 0; host[i]; i++)
        if (host[i] > ' ' && host[i] < 127 && host[i] != '"' && host[i] != '\\')
            host[n++] = host[i];
    host[n] = 0;
    snprintf(name, TRACE_INSTANCE_MAX, "%s-%ld", host, (long)getpid());
}

bool otlp_new(const struct otlp_options *options, struct otlp **made, struct tg_problem *problem)
{
    const struct config_url *url = options->endpoint;
    bool bare = url->path == NULL || url->path[0] == 0 || strcmp(url->path, "/") == 0;
    struct otlp *otlp = calloc(1, sizeof *otlp);

    problem_fail(problem, "no memory for traces");
    if (otlp == NULL)
        return false;
    otlp->loop = options->loop;
    otlp->client = options->client;
    otlp->trace = options->trace;
    otlp->log = options->log;
    name_instance(otlp->instance);
    snprintf(otlp->target, sizeof otlp->target, "%s", bare ? "/v1/traces" : url->path);
    net_timer_init(&otlp->timer, otlp_timer_fires, otlp);
    if (!make_origin(otlp, url, problem)) {
        free(otlp);
        return false;
    }
    net_timer_set(otlp->loop, &otlp->timer, EACH_MS);
    *made = otlp;
    return true;
}

void otlp_free(struct otlp *otlp)
{
    if (otlp == NULL)
        return;
    if (otlp->out != NULL)
        http_outbound_cancel(otlp->out);
    if (otlp->tries > 0)
        trace_batch_lost(otlp->trace, &otlp->batch);
    net_timer_stop(otlp->loop, &otlp->timer);
    http_origin_unref(otlp->origin);
    free(otlp);
}
