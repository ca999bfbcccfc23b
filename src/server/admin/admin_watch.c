/* admin_watch.c - denials as they happen. See admin_watch.h. */
#include "server/admin/admin_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/obs/watch.h"

struct admin_watcher {
    struct admin_watchers *all;
    struct admin_watcher *next, **from;
    struct http_inbound *in;
    watch_place place;
    uint64_t lost;   /* not told yet */
    uint64_t missed; /* how many of the dropped events were reported to this watcher */
    uint64_t number; /* the sequence number of the next event */
    tg_ms wrote_at;
    uint64_t generation;         /* in which its token was good */
    bool over;                   /* it is good no more */
    char tenant[WATCH_NAME_MAX]; /* "": all; cut as the entries are */
};

/* ---- events ---- */

static void write_event(struct admin_watcher *watcher, struct slice text)
{
    http_inbound_write(watcher->in, text);
    watcher->wrote_at = admin_now(watcher->all->admin);
}

static void write_denial(struct admin_watcher *watcher, const struct watch_entry *entry)
{
    struct json_writer json;
    char head[64];

    int n = snprintf(head, sizeof head,
                     "event: denial\nid: %llu\ndata: ", (unsigned long long)watcher->number++);
    json_writer_init(&json);
    snapshot_write_denial(&json, entry);
    if (!json.text.failed) {
        write_event(watcher, (struct slice){head, (size_t)n});
        write_event(watcher, (struct slice){json.text.bytes, json.text.size});
        write_event(watcher, SLICE("\n\n"));
    } else {
        watcher->lost++;
    }
    json_writer_fini(&json);
}

static void tell_lost(struct admin_watcher *watcher)
{
    char text[96];

    if (watcher->lost == 0)
        return;
    int n = snprintf(text, sizeof text, "event: dropped\ndata: {\"dropped\":%llu}\n\n",
                     (unsigned long long)watcher->lost);
    watcher->lost = 0;
    write_event(watcher, (struct slice){text, (size_t)n});
}

static bool admin_watch_has_room(const struct admin_watcher *watcher)
{
    return http_inbound_queued(watcher->in) < ADMIN_WATCH_OUT_MAX;
}

static void admin_watch_poll(struct admin_watcher *watcher, const struct watch *watch)
{
    struct watch_entry entry;
    uint64_t missed = watch_missed(watch);

    watcher->lost += missed - watcher->missed;
    watcher->missed = missed;
    for (int i = 0; i < ADMIN_WATCH_AT_ONCE && admin_watch_has_room(watcher); i++) {
        bool more = watch_take(watch, &watcher->place, &entry, &watcher->lost);
        tell_lost(watcher);
        if (!more)
            break;
        if (watcher->tenant[0] == '\0' || strcmp(watcher->tenant, entry.tenant) == 0)
            write_denial(watcher, &entry);
    }
    if (admin_now(watcher->all->admin) - watcher->wrote_at >= ADMIN_WATCH_ALIVE &&
        admin_watch_has_room(watcher))
        write_event(watcher, SLICE(": alive\n\n"));
}

/* After a reload it is asked again who it is. False: it has been answered. */
static bool is_granted(struct admin_watcher *watcher)
{
    const struct generation *generation = admin_generation(watcher->all->admin);

    if (watcher->over || watcher->generation == generation->number)
        return !watcher->over;
    watcher->generation = generation->number;
    watcher->over = admin_access(&generation->config, &watcher->in->head) != ADMIN_MAY;
    if (!watcher->over)
        return true;
    http_inbound_finish(watcher->in);
    return false;
}

/* ---- all of them ---- */

void admin_watchers_turn(struct admin_watchers *watchers)
{
    const struct watch *watch = watchers->admin->options.watch;
    struct admin_watcher *next;

    for (struct admin_watcher *at = watchers->first; at != NULL; at = next) {
        next = at->next; /* it may be its last turn */
        if (is_granted(at))
            admin_watch_poll(at, watch);
    }
    if (watchers->n > 0)
        net_timer_set(watchers->admin->options.loop, &watchers->timer, ADMIN_WATCH_EVERY);
}

static void turn(void *arg)
{
    admin_watchers_turn(arg);
}

void admin_watchers_init(struct admin_watchers *watchers, struct admin *admin)
{
    *watchers = (struct admin_watchers){.admin = admin};
    net_timer_init(&watchers->timer, turn, watchers);
}

void admin_watchers_fini(struct admin_watchers *watchers)
{
    net_timer_stop(watchers->admin->options.loop, &watchers->timer);
}

/* ---- one ---- */

static void admin_watch_add(struct admin_watchers *watchers, struct admin_watcher *watcher)
{
    watcher->all = watchers;
    watcher->next = watchers->first;
    watcher->from = &watchers->first;
    if (watcher->next != NULL)
        watcher->next->from = &watcher->next;
    watchers->first = watcher;
    watchers->n++;
    if (!net_timer_is_set(&watchers->timer))
        net_timer_set(watchers->admin->options.loop, &watchers->timer, ADMIN_WATCH_EVERY);
}

void admin_watch_gone(struct admin_call *call)
{
    struct admin_watcher *watcher = call->watcher;

    if (watcher == NULL)
        return;
    *watcher->from = watcher->next;
    if (watcher->next != NULL)
        watcher->next->from = watcher->from;
    watcher->all->n--;
    free(watcher);
}

static void reply_head(struct admin_watcher *watcher)
{
    struct http_field fields[] = {
        {SLICE("content-type"), SLICE("text/event-stream")},
        {SLICE("cache-control"), SLICE("no-store")},
        {SLICE("x-accel-buffering"), SLICE("no")},
    };
    struct http_head head = {.status = 200,
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof fields[0],
                             .length = -1};
    char hello[96];

    http_inbound_reply(watcher->in, &head);
    int n = snprintf(hello, sizeof hello, "event: hello\ndata: {\"generation\":%llu}\n\n",
                     (unsigned long long)admin_generation(watcher->all->admin)->number);
    write_event(watcher, (struct slice){hello, (size_t)n});
}

void admin_watch(struct admin_call *call)
{
    struct admin_watchers *watchers = &call->admin->watchers;
    char tenant[WATCH_NAME_MAX] = "", name[ADMIN_NAME_MAX + 1];

    if (admin_query_get(call->query, "tenant", name, sizeof name))
        watch_text(tenant, WATCH_NAME_MAX, slice_of(name));
    struct admin_watcher *watcher =
        watchers->n < ADMIN_WATCHERS_MAX && call->admin->options.watch != NULL
            ? calloc(1, sizeof *watcher)
            : NULL;
    if (watcher == NULL) {
        admin_reply_error(call->in, 503, "busy", "there are %d watchers already, the most allowed",
                          ADMIN_WATCHERS_MAX);
        return;
    }
    watcher->in = call->in;
    watcher->generation = admin_generation(call->admin)->number;
    watcher->place = watch_end(call->admin->options.watch);
    watcher->missed = watch_missed(call->admin->options.watch);
    memcpy(watcher->tenant, tenant, sizeof tenant);
    call->watcher = watcher;
    admin_watch_add(watchers, watcher);
    reply_head(watcher);
    if (slice_equal(call->in->head.method, SLICE("HEAD")))
        http_inbound_finish(call->in);
}
