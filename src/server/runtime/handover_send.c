/* handover_send.c - what the other process is sent while it takes over: frames, and what has moved
 * since they were made. See handover.h.
 */
#include "server/runtime/handover_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

/* ---- sending ---- */

bool handover_flush(struct handover *handover)
{
    struct handover_frame *frame;
    bool retires = false;
    int sent = 1;

    while (sent > 0 && (frame = STAILQ_FIRST(&handover->out)) != NULL) {
        sent = takeover_send(handover->fd, frame->type, frame->payload, frame->n, frame->fds,
                             frame->n_fds);
        if (sent > 0) {
            STAILQ_REMOVE_HEAD(&handover->out, next);
            retires |= frame->type == TAKEOVER_RETIRED;
            free(frame);
        }
    }
    if (sent < 0 && !retires)
        return false; /* it is gone, which reading finds out */
    net_poll_watch(handover->peer, NET_POLL_READ | (sent == 0 ? NET_POLL_WRITE : 0u));
    return retires;
}

void handover_send(struct handover *handover, enum takeover_type type, const void *payload,
                   size_t n, const int *fds, size_t n_fds)
{
    struct handover_frame *frame = calloc(1, sizeof *frame + n);

    if (frame == NULL) {
        pthread_mutex_lock(&handover->lock);
        handover->full = true;
        pthread_mutex_unlock(&handover->lock);
        return;
    }
    frame->type = type;
    frame->n = n;
    frame->n_fds = n_fds;
    if (n > 0)
        memcpy(frame->payload, payload, n);
    if (n_fds > 0)
        memcpy(frame->fds, fds, n_fds * sizeof *fds);
    STAILQ_INSERT_TAIL(&handover->out, frame, next);
}

/* Records into frames, none of which is cut. */
void handover_send_records(struct handover *handover, enum takeover_type type, const char *bytes,
                           size_t n)
{
    size_t from = 0, to = 0;

    while (from < n) {
        struct takeover_record head;
        memcpy(&head, bytes + to, sizeof head);
        size_t next = to + sizeof head + head.bytes;
        if (next - from > TAKEOVER_FRAME_MAX) {
            handover_send(handover, type, bytes + from, to - from, NULL, 0);
            from = to;
        }
        to = next;
        if (to == n) {
            handover_send(handover, type, bytes + from, to - from, NULL, 0);
            from = to;
        }
    }
}

/* ---- events, from any thread ---- */

static void handover_tell(struct handover *handover, enum takeover_record_kind kind,
                          const void *first, size_t n_first, const void *second, size_t n_second)
{
    struct takeover_record head = {(uint32_t)kind, (uint32_t)(n_first + n_second)};
    size_t n = sizeof head + n_first + n_second;

    pthread_mutex_lock(&handover->lock);
    if (handover->n_events + n > handover->most_events ||
        !array_reserve(&handover->events, &handover->max_events, handover->n_events + n)) {
        handover->full = true;
    } else if (!handover->full) {
        char *at = handover->events + handover->n_events;
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, first, n_first);
        if (n_second > 0)
            memcpy(at + sizeof head + n_first, second, n_second);
        handover->n_events += n;
    }
    pthread_mutex_unlock(&handover->lock);
    net_loop_post(handover->control->loop, &handover->told);
}

void handover_money_moved(void *context, const struct spending_event *event)
{
    struct takeover_money money = {.call = event->call,
                                   .micro = event->micro,
                                   .reserved_at = event->reserved_at,
                                   .entry = event->entry,
                                   .journal = event->journal,
                                   .tenant = event->tenant,
                                   .user_bytes = (uint32_t)event->user.size};

    handover_tell(context, event->kind == SPENDING_SETTLED ? TAKEOVER_SETTLED : TAKEOVER_SENT,
                  &money, sizeof money, event->user.bytes, event->user.size);
}

void handover_limits_moved(void *context, const void *bytes, size_t n)
{
    handover_tell(context, TAKEOVER_STORE, bytes, n, NULL, 0);
}

bool handover_queue_events(struct handover *handover)
{
    char *events;
    size_t n;
    bool full;

    pthread_mutex_lock(&handover->lock);
    events = handover->events;
    n = handover->n_events;
    full = handover->full;
    handover->events = NULL;
    handover->n_events = handover->max_events = 0;
    pthread_mutex_unlock(&handover->lock);
    if (!full)
        handover_send_records(handover, TAKEOVER_EVENTS, events, n);
    free(events);
    return !full;
}

void handover_forget_events(struct handover *handover)
{
    pthread_mutex_lock(&handover->lock);
    free(handover->events);
    handover->events = NULL;
    handover->n_events = handover->max_events = 0;
    handover->full = false;
    pthread_mutex_unlock(&handover->lock);
}
