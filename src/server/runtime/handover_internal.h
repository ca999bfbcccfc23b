/* handover_internal.h - what handover.c and handover_send.c share. */
#ifndef TG_RUNTIME_HANDOVER_INTERNAL_H
#define TG_RUNTIME_HANDOVER_INTERNAL_H

#include <sys/types.h>

#include "io/net/fd_poll.h"
#include "server/ledger/spending.h"
#include "server/runtime/control.h"
#include "server/runtime/handover.h"
#include "server/runtime/takeover_wire.h"

enum handover_state {
    NOBODY,
    OFFERED,
    PREPARING,
    COMMITTED,
    HOLDING,   /* workers stop accepting; without a link: to go on then */
    HELD,      /* nobody accepts */
    PASSING,   /* the other one serves as soon as it is told */
    RELEASING, /* workers accept again */
    RETIRED,
};

/* A frame that the other process has not taken yet. */
struct handover_frame {
    STAILQ_ENTRY(handover_frame) next;
    enum takeover_type type;
    size_t n, n_fds;
    int fds[TAKEOVER_SOCKETS_MAX]; /* borrowed: they are open for as long as it is offered */
    char payload[];
};

struct handover {
    struct control *control;
    void (*retire)(void *arg);
    void *arg;
    char path[108];
    int listening;
    ino_t inode; /* the socket's, to know whether its name is still this process's */
    struct net_poll *coming;

    enum handover_state state;
    int fd; /* to the other process; -1: there is none */
    long pid;
    struct net_poll *peer;
    tg_ms late_ms, turn_ms;
    struct net_timer late;                  /* it has taken too long */
    atomic_size_t n_holding;                /* workers that have not done it yet */
    struct net_post held;                   /* all have */
    struct http_origin *relay, *grpc_relay; /* where it takes requests; null: not known */
    STAILQ_HEAD(, handover_frame) out;
    struct takeover_frame in;

    pthread_mutex_t lock; /* guards the events, which come from any thread */
    char *events;
    size_t n_events, max_events, most_events;
    bool full;
    struct net_post told;
};

/* ---- handover_send.c ---- */

/* Sends as many frames as the other process takes. True: RETIRED was among them. */
bool handover_flush(struct handover *handover);

/* Puts a frame behind the others; `fds` are borrowed. */
void handover_send(struct handover *handover, enum takeover_type type, const void *payload,
                   size_t n, const int *fds, size_t n_fds);
void handover_send_records(struct handover *handover, enum takeover_type type, const char *bytes,
                           size_t n);

/* From any thread: what money and limits tell. */
void handover_money_moved(void *context, const struct spending_event *event);
void handover_limits_moved(void *context, const void *bytes, size_t n);

/* All that is to be told becomes frames. False: it has become too much to be told. */
bool handover_queue_events(struct handover *handover);
void handover_forget_events(struct handover *handover);

#endif
