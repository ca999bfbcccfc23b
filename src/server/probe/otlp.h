/* otlp.h - sends spans to a collector: OTLP over HTTP, in JSON. Off unless `otlp.endpoint` is set.
 *
 *     WAITING --- a moment, and there are spans ---> SENDING --- 2xx ---> WAITING
 *        ^                                              |
 *        `--- given up ------ PAUSING <--- not taken ---'
 *
 * One batch is under way at a time, in memory of its own. While a collector is slow or gone nothing
 * else is sent, the lanes of the workers fill up, and what does not fit there is dropped and
 * counted: whatever the collector does, calls do not feel it. Runs on the control thread's loop.
 */
#ifndef TG_PROBE_OTLP_H
#define TG_PROBE_OTLP_H

#include "io/http/http_client.h"
#include "io/net/loop.h"
#include "server/config/config.h"
#include "server/obs/log.h"
#include "server/obs/traces.h"

struct otlp;

struct otlp_options {
    struct net_loop *loop;
    struct http_client *client;
    const struct config_url *endpoint; /* without a path: /v1/traces */
    struct trace *trace;               /* borrowed, as the others */
    struct log *log; /* where it is said that the collector is away or back; null: nowhere */
};

/* `problem` says what is wrong: a certificate store, or no memory. */
bool otlp_new(const struct otlp_options *options, struct otlp **otlp, struct tg_problem *problem);

/* Cuts off what is under way; its spans are lost. */
void otlp_free(struct otlp *otlp);

#endif
