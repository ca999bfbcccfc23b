/* call_scan.c - what reads the usage of replies that come whole: a few are kept for calls to come.
 *
 * A scan takes more than five kilobytes, so a call has one only when a reply comes whole. Streams,
 * of which many are open, never have one.
 */
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "server/proxy/call.h"
#include "server/proxy/proxy.h"

enum { SPARE_SCANS_MAX = 64 };

struct call_scan {
    struct usage_scan scan;
    struct call_scan *next_spare;
};

void call_take_scan(struct call *call)
{
    struct proxy_worker *proxy = call->worker->proxy;
    struct call_scan *taken = proxy->spare_scans;

    if (call->scan == NULL && taken != NULL) {
        proxy->spare_scans = taken->next_spare;
        proxy->n_spare_scans--;
        call->scan = &taken->scan;
    } else if (call->scan == NULL) {
        taken = malloc(sizeof *taken);
        call->scan = taken != NULL ? &taken->scan : NULL;
    }
    if (call->scan != NULL)
        usage_scan_init(call->scan);
}

void call_give_scan(struct call *call)
{
    struct proxy_worker *proxy = call->worker->proxy;

    if (call->scan == NULL)
        return;
    struct call_scan *given = container_of(call->scan, struct call_scan, scan);
    call->scan = NULL;
    if (proxy->n_spare_scans >= SPARE_SCANS_MAX) {
        free(given);
        return;
    }
    given->next_spare = proxy->spare_scans;
    proxy->spare_scans = given;
    proxy->n_spare_scans++;
}

void call_free_scans(struct proxy_worker *proxy)
{
    struct call_scan *scan;

    while ((scan = proxy->spare_scans) != NULL) {
        proxy->spare_scans = scan->next_spare;
        free(scan);
    }
    proxy->n_spare_scans = 0;
}
