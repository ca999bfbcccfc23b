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

#include "io/http/http_fetch.h"
#include "lib/core/problem.h"
#include "server/upstream/route_origin.h"

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
    struct http_fetch fetch;
    int tries; /* attempts to send the batch; 0: there is no batch */
    bool away; /* the last one was not taken, and that has been told */
    char instance[TRACE_INSTANCE_MAX];
    char target[1024];
    struct trace_batch batch;
};

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
    struct http_head head = {
        .method = SLICE("POST"), .target = slice_of(otlp->target), .fields = fields, .n_fields = 2};

    otlp->tries++;
    if (!http_fetch_send(&otlp->fetch, otlp->client, otlp->origin, &head,
                         (struct slice){otlp->batch.text, otlp->batch.n}, &timeouts))
        not_taken(otlp, true, "no memory");
}

static void otlp_timer_fires(void *arg)
{
    struct otlp *otlp = arg;

    if (otlp->tries > 0 || trace_batch_fill(otlp->trace, otlp->instance, &otlp->batch))
        send_batch(otlp);
    else
        net_timer_set(otlp->loop, &otlp->timer, EACH_MS);
}

/* What the reply's body says is not read: which spans the collector did not like, about which
 * nothing can be done. */
static void otlp_on_done(struct http_fetch *fetch)
{
    struct otlp *otlp = fetch->owner;
    int status = fetch->status;
    char why[32];

    snprintf(why, sizeof why, "status %d", status);
    if (!fetch->answered)
        not_taken(otlp, true, http_why_text(fetch->why));
    else if (status >= 200 && status < 300)
        taken(otlp);
    else
        not_taken(otlp, status == 429 || (status >= 502 && status <= 504), why);
}

/* ---- Life ---------------------------------------------------------------------------------- */

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
    http_fetch_init(&otlp->fetch, otlp_on_done, otlp, NULL, 0);
    if (!route_origin_new(url, (struct route_trust){.ca = "system"}, NULL, HTTP2_NEVER,
                          &otlp->origin, problem)) {
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
    http_fetch_cancel(&otlp->fetch);
    if (otlp->tries > 0)
        trace_batch_lost(otlp->trace, &otlp->batch);
    net_timer_stop(otlp->loop, &otlp->timer);
    http_origin_unref(otlp->origin);
    free(otlp);
}
