/* proxy.h - the service for calls to models: the OpenAI and Anthropic APIs. See call.h. */
#ifndef TG_PROXY_PROXY_H
#define TG_PROXY_PROXY_H

#include <sys/queue.h>

#include "server/runtime/service.h"

struct call;
struct call_scan;

extern const struct service proxy_service;

/* What the service keeps on a worker; of its thread. */
struct proxy_worker {
    LIST_HEAD(, call) calls; /* those under way */
    struct call *spare;      /* structs of calls that have ended */
    size_t n_spare;
    struct call_scan *spare_scans; /* the same of what has read replies */
    size_t n_spare_scans;
};

#endif
