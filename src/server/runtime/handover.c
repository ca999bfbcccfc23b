/* handover.c - the old process's side of a takeover: see handover.h.
 *
 *     NOBODY --HELLO--> OFFERED --READ--> PREPARING --READY--> COMMITTED
 *        ^                 |                  |                    | |
 *        |<----------------+--- it is gone ---+--------------------' | TAKING
 *        |                                                           v
 *        |<-- RELEASING <------------- it is gone ---------------- HOLDING
 *        |                                                           | all hold: HOLDING is said
 *        |                                                           v
 *        |<-- RELEASING <-------- it is gone, or late -------------- HELD
 *        |                                                           | TAKEN
 *        |                                                           v
 *        '--- RELEASING <-------- it is gone, or late ------------ PASSING --RETIRED--> RETIRED
 *                                                                           is sent
 *
 * Up to RETIRED this process serves, and the other one knows that it must not; from then on the
 * other one does. From HOLDING to PASSING nobody accepts: who connects waits, for TURN_MS at the
 * most, since the other process has done all its work by then and need only answer.
 *
 * While another process starts, nobody may change the configuration, or what the admin API keeps in
 * the ledger: the other one has read it. That is a moment, and whoever asks is told to ask again.
 *
 * What has to be told comes from all threads, and is put into one buffer under a lock. It becomes
 * frames when those before have been sent. If the other process does not take them, and the buffer
 * grows beyond EVENTS_MAX, the link is given up: what this process spends is in its own journal,
 * which the other one reads when this one has ended.
 */
#define _GNU_SOURCE /* accept4 */
#include "server/runtime/handover_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/http/http_client.h"
#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/remote/remote.h"
#include "server/runtime/reload.h"
#include "server/runtime/takeover.h"
#include "server/runtime/takeover_state.h"
#include "server/runtime/worker.h"

enum {
    LATE_MS = 60000,
    TURN_MS = 5000,
    LAST_WORDS_MS = 5000,
    EVENTS_MAX = 64 << 20,
};

/* What the control thread says of it, in the form of the log. */
#define say(handover, ...)                                                                         \
    log_say((handover)->control->generation->config.log_json,                                      \
            &(handover)->control->gateway->clock, "takeover: " __VA_ARGS__)

static void say_of_other(const struct handover *handover, const char *what)
{
    say(handover, "process %ld %s", handover->pid, what);
}

/* ---- sending ---- */

static void handover_lose(struct handover *handover, const char *why);
static void retire(struct handover *handover);

static void flush_out(struct handover *handover)
{
    if (handover_flush(handover))
        retire(handover);
}

static void queue_events(struct handover *handover)
{
    if (handover->fd >= 0 && !handover_queue_events(handover))
        handover_lose(handover, "does not read what it is sent");
}

/* Not before what was to be told earlier has been taken: else frames would grow without a bound. */
static void pass_events(void *arg)
{
    struct handover *handover = arg;

    if (handover->fd < 0)
        return;
    flush_out(handover);
    pthread_mutex_lock(&handover->lock);
    bool full = handover->full;
    pthread_mutex_unlock(&handover->lock);
    if (STAILQ_EMPTY(&handover->out) || full)
        queue_events(handover);
    if (handover->fd >= 0)
        flush_out(handover);
}

/* ---- offering ---- */

static void offer_sockets(struct handover *handover, const char *name, const char *address,
                          const struct http_listener *listener)
{
    struct takeover_sockets what = {.name = ""};
    int fds[TAKEOVER_SOCKETS_MAX];
    size_t n;

    if (listener == NULL)
        return;
    snprintf(what.name, sizeof what.name, "%s", name);
    snprintf(what.address, sizeof what.address, "%s", address);
    n = http_listener_sockets(listener, fds, TAKEOVER_SOCKETS_MAX);
    if (n > 0)
        handover_send(handover, TAKEOVER_SOCKETS, &what, sizeof what, fds, n);
}

/* The listeners' sockets do not change while they run, so that another thread's may be read. */
static void offer_listeners(struct handover *handover)
{
    const struct control *control = handover->control;
    const struct config_listen *listen = &control->generation->config.listen;

    for (size_t i = 0; i < control->n_workers; i++) {
        offer_sockets(handover, "gateway", listen->gateway, control->workers[i].listener);
        if (listen->grpc != NULL)
            offer_sockets(handover, "grpc", listen->grpc, control->workers[i].grpc);
    }
    for (size_t i = 0; i < control->n_listeners; i++)
        offer_sockets(handover, control->listeners[i].name, control->listeners[i].address,
                      control->listeners[i].listener);
}

/* What is in the ledger when the offer is made, and told from then on, is all there is. */
static void prepare(struct handover *handover)
{
    struct gateway *gateway = handover->control->gateway;

    atomic_store(&gateway->handing_over, true);
    spending_follow(gateway->spending, handover_money_moved, handover);
    gateway_keep_policy(gateway);
}

static void offer(struct handover *handover)
{
    const struct gateway *gateway = handover->control->gateway;
    struct takeover_offer what = {.pid = (int64_t)getpid(),
                                  .epoch_ns = gateway->clock.epoch_ns,
                                  .seed = gateway->seed,
                                  .journal = ledger_journal(gateway->ledger)};
    int lock = ledger_lock_fd(gateway->ledger);

    handover_send(handover, TAKEOVER_OFFER, &what, sizeof what, NULL, 0);
    offer_listeners(handover);
    handover_send(handover, TAKEOVER_LOCK, NULL, 0, &lock, 1);
    queue_events(handover);
    if (handover->fd < 0)
        return;
    handover_send(handover, TAKEOVER_OFFERED, NULL, 0, NULL, 0);
    flush_out(handover);
    say_of_other(handover, "is offered what this process has");
}

/* ---- giving up ---- */

static void close_peer(struct handover *handover)
{
    struct handover_frame *frame;

    net_timer_stop(handover->control->loop, &handover->late);
    net_poll_free(handover->peer);
    handover->peer = NULL;
    if (handover->fd >= 0)
        close(handover->fd);
    handover->fd = -1;
    while ((frame = STAILQ_FIRST(&handover->out)) != NULL) {
        STAILQ_REMOVE_HEAD(&handover->out, next);
        free(frame);
    }
}

static void handover_stop_following(struct handover *handover)
{
    struct gateway *gateway = handover->control->gateway;

    spending_follow(gateway->spending, NULL, NULL);
    takeover_state_unfollow(gateway);
    handover_forget_events(handover);
}

static void take_back(struct handover *handover)
{
    struct gateway *gateway = handover->control->gateway;

    handover_stop_following(handover);
    (void)ledger_reread_tenants(gateway->ledger, NULL);
    atomic_store(&gateway->handing_over, false);
    handover->state = NOBODY;
    say(handover, "this process goes on as before");
}

/* ---- accepting ---- */

static void one_holds(void *arg)
{
    struct handover *handover = arg;

    if (atomic_fetch_sub(&handover->n_holding, 1) == 1)
        net_loop_post(handover->control->loop, &handover->held);
}

static void hold_all(struct handover *handover, bool held)
{
    struct control *control = handover->control;

    control_hold(control, held);
    atomic_store(&handover->n_holding, control->n_workers);
    for (size_t i = 0; i < control->n_workers; i++)
        worker_hold(&control->workers[i], held, one_holds, handover);
}

/* The other process has died, or hangs, before it served: this one accepts again. */
static void release_all(struct handover *handover)
{
    struct gateway *gateway = handover->control->gateway;
    struct http_origin *relay = atomic_exchange(&gateway->successor, NULL);
    struct http_origin *grpc_relay = atomic_exchange(&gateway->grpc_successor, NULL);

    if (relay != NULL)
        handover->relay = relay;
    if (grpc_relay != NULL)
        handover->grpc_relay = grpc_relay;
    handover->state = RELEASING;
    (void)takeover_share_budgets(handover->control);
    hold_all(handover, false);
}

/* The other process is gone, or has to go, which it is told. */
static void handover_lose(struct handover *handover, const char *why)
{
    if (handover->state != NOBODY) /* else who came has said nothing */
        say_of_other(handover, why);
    if (handover->state != RETIRED)
        (void)takeover_send(handover->fd, TAKEOVER_REFUSED, why, strlen(why), NULL, 0);
    close_peer(handover);
    if (handover->state == NOBODY)
        return;
    if (handover->state == RETIRED) {
        say(handover, "what is still settled here is in the journal of this process");
        handover_stop_following(handover);
    } else if (handover->state == HELD || handover->state == PASSING) {
        release_all(handover);
    } else if (handover->state != HOLDING) { /* else when all hold */
        take_back(handover);
    }
}

static void handover_refuse(struct handover *handover, const char *why)
{
    say_of_other(handover, why);
    (void)takeover_send(handover->fd, TAKEOVER_REFUSED, why, strlen(why), NULL, 0);
    close_peer(handover);
}

static void took_too_long(void *arg)
{
    handover_lose(arg, "has not begun to serve in time");
}

/* ---- what the other process says ---- */

static bool is_hello(const struct takeover_frame *in, struct takeover_hello *hello)
{
    if (in->type != TAKEOVER_HELLO || in->n < sizeof *hello)
        return false;
    memcpy(hello, in->payload, sizeof *hello);
    return memcmp(hello->magic, "TGTAKE", 7) == 0;
}

static void greet(struct handover *handover)
{
    struct takeover_hello hello;
    char why[300];

    if (!is_hello(&handover->in, &hello)) {
        handover_refuse(handover, "is refused: it does not speak the protocol of Tollgate");
        return;
    }
    handover->pid = (long)hello.pid;
    if (hello.version != TAKEOVER_VERSION) {
        snprintf(why, sizeof why,
                 "is refused: it hands over by version %u of the protocol, and this process by "
                 "version %d; end this one with SIGTERM and start the other",
                 (unsigned)hello.version, TAKEOVER_VERSION);
        handover_refuse(handover, why);
        return;
    }
    if (atomic_load(&handover->control->gateway->draining)) {
        handover_refuse(handover, "is refused: this process is about to end");
        return;
    }
    if (!reload_may_try(handover->control->reload)) {
        handover_refuse(handover, "is refused: a configuration is being read; try again");
        return;
    }
    if (handover->control->gateway->changing) {
        handover_refuse(handover, "is refused: an administrator's change is being made; try again");
        return;
    }
    prepare(handover);
    handover->state = OFFERED;
    offer(handover);
}

/* All that limits and keys have counted, and from now on what changes. */
static void commit(struct handover *handover)
{
    char *state;
    size_t n;

    if (!takeover_state_save(handover->control, handover_limits_moved, handover, &state, &n)) {
        handover_lose(handover, "cannot be told the state of limits: there is no memory");
        return;
    }
    handover_send_records(handover, TAKEOVER_STATE, state, n);
    free(state);
    handover_send(handover, TAKEOVER_COMMIT, NULL, 0, NULL, 0);
    flush_out(handover);
    handover->state = COMMITTED;
}

static void forget_relay(struct handover *handover)
{
    http_origin_unref(handover->relay);
    http_origin_unref(handover->grpc_relay);
    handover->relay = handover->grpc_relay = NULL;
}

static struct http_origin *origin_of(const char *path, enum http2_use http2)
{
    struct http_origin_options options;
    struct http_origin *origin = NULL;
    char host[120];

    http_origin_options_init(&options);
    snprintf(host, sizeof host, "unix:%.107s", path);
    options.host = host;
    options.host_field = "relayed";
    options.http2 = http2;
    if (http_origin_new(&options, &origin, NULL) != TG_OK)
        return NULL;
    return origin;
}

/* All that is to be told, and then what it is to be followed by. */
static void tell_up_to(struct handover *handover, enum takeover_type type, const void *payload,
                       size_t n)
{
    queue_events(handover);
    if (handover->fd < 0)
        return;
    handover_send(handover, type, payload, n, NULL, 0);
    flush_out(handover);
}

/* Nobody accepts from here on, until the other process is told to. */
static void ask_to_take(struct handover *handover)
{
    handover->state = HELD;
    net_timer_set(handover->control->loop, &handover->late, handover->turn_ms);
    tell_up_to(handover, TAKEOVER_HOLDING, NULL, 0);
}

/* The other process serves from the moment that RETIRED is sent. */
static void pass_on(struct handover *handover)
{
    struct gateway *gateway = handover->control->gateway;

    atomic_store(&gateway->successor, handover->relay);
    atomic_store(&gateway->grpc_successor, handover->grpc_relay);
    handover->relay = handover->grpc_relay = NULL;
    handover->state = PASSING;
    uint32_t before = takeover_share_budgets(handover->control);
    tell_up_to(handover, TAKEOVER_RETIRED, &before, sizeof before);
}

static void all_hold(void *arg)
{
    struct handover *handover = arg;

    if (handover->state == RELEASING) {
        forget_relay(handover);
        take_back(handover);
    } else if (handover->state == HOLDING && handover->fd >= 0) {
        ask_to_take(handover);
    } else if (handover->state == HOLDING) {
        release_all(handover);
    }
}

static void retire(struct handover *handover)
{
    struct control *control = handover->control;
    struct gateway *gateway = control->gateway;

    handover->state = RETIRED;
    net_timer_stop(control->loop, &handover->late);
    net_poll_free(handover->coming);
    handover->coming = NULL;
    close(handover->listening);
    handover->listening = -1;
    ledger_leave_lock(gateway->ledger);
    remote_retire(gateway->remote);
    for (size_t i = 0; i < control->n_listeners; i++) {
        http_listener_retire(control->listeners[i].listener);
        http_listener_drain(control->listeners[i].listener);
    }
    say_of_other(handover, "serves from now on; this process finishes what it has begun");
    handover->retire(handover->arg);
}

static void remember_ready(struct handover *handover)
{
    struct takeover_ready ready;

    if (handover->in.n < sizeof ready)
        return;
    memcpy(&ready, handover->in.payload, sizeof ready);
    ready.gateway[sizeof ready.gateway - 1] = ready.grpc[sizeof ready.grpc - 1] = '\0';
    forget_relay(handover);
    if (ready.gateway[0] != '\0')
        handover->relay = origin_of(ready.gateway, HTTP2_NEVER);
    if (ready.grpc[0] != '\0')
        handover->grpc_relay = origin_of(ready.grpc, HTTP2_PRIOR);
}

static void hear(struct handover *handover)
{
    enum takeover_type type = handover->in.type;

    takeover_close_fds(&handover->in);
    if (handover->state < HOLDING)
        net_timer_set(handover->control->loop, &handover->late, handover->late_ms);
    if (handover->state == NOBODY) {
        greet(handover);
    } else if (handover->state == OFFERED && type == TAKEOVER_READ) {
        handover->state = PREPARING;
        say_of_other(handover, "has read the ledger");
    } else if (handover->state == PREPARING && type == TAKEOVER_READY) {
        remember_ready(handover);
        say_of_other(handover, "is ready to serve");
        commit(handover);
    } else if (handover->state == COMMITTED && type == TAKEOVER_TAKING) {
        net_timer_stop(handover->control->loop, &handover->late);
        handover->state = HOLDING;
        hold_all(handover, true);
    } else if (handover->state == HELD && type == TAKEOVER_TAKEN) {
        pass_on(handover);
    } else if (type == TAKEOVER_REFUSED) {
        handover_lose(handover, "could not start");
    } else {
        handover_lose(handover, "sent a message that was not expected");
    }
}

static void peer_moves(void *arg, unsigned events)
{
    struct handover *handover = arg;
    int got = 1;

    if (events & NET_POLL_WRITE)
        pass_events(handover);
    while (handover->fd >= 0 && (events & NET_POLL_READ) && got > 0) {
        got = takeover_receive(handover->fd, &handover->in);
        if (got > 0)
            hear(handover);
        else if (got < 0)
            handover_lose(handover, handover->state == RETIRED ? "has ended" : "is gone");
    }
}

static void somebody_comes(void *arg, unsigned events)
{
    struct handover *handover = arg;
    int fd = accept4(handover->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    static const char busy[] = "another process is taking over already";

    (void)events;
    if (fd < 0)
        return;
    if (!takeover_is_own(fd)) {
        say(handover, "a process of another user is refused");
        close(fd);
        return;
    }
    if (handover->fd >= 0 || handover->state != NOBODY) {
        (void)takeover_send(fd, TAKEOVER_REFUSED, busy, strlen(busy), NULL, 0);
        close(fd);
        return;
    }
    handover->fd = fd;
    handover->pid = 0;
    if (net_poll_new(handover->control->loop, fd, peer_moves, handover, &handover->peer) != TG_OK) {
        close_peer(handover);
        return;
    }
    net_poll_watch(handover->peer, NET_POLL_READ);
    net_timer_set(handover->control->loop, &handover->late, handover->late_ms);
}

/* ---- life ---- */

struct handover *handover_new(struct control *control, void (*retire_with)(void *arg), void *arg)
{
    const char *ledger = control->generation->config.ledger.path;
    struct handover *handover = calloc(1, sizeof *handover);
    struct tg_problem problem = {"no memory"};
    struct stat stat_of;

    if (handover == NULL)
        return NULL;
    handover->control = control;
    handover->retire = retire_with;
    handover->arg = arg;
    handover->fd = handover->listening = -1;
    STAILQ_INIT(&handover->out);
    pthread_mutex_init(&handover->lock, NULL);
    handover->late_ms = LATE_MS;
    handover->turn_ms = TURN_MS;
    handover->most_events = EVENTS_MAX;
    net_post_init(&handover->told, pass_events, handover);
    net_post_init(&handover->held, all_hold, handover);
    net_timer_init(&handover->late, took_too_long, handover);
    if (strcmp(ledger, ":memory:") == 0)
        return handover; /* there is nothing that could be handed over */
    if (!takeover_path(ledger, ".takeover", handover->path))
        problem_fail(&problem, "the path of the ledger is too long for a socket beside it");
    else
        handover->listening = takeover_listen(handover->path, SOCK_SEQPACKET, &problem);
    if (handover->listening >= 0 && net_poll_new(control->loop, handover->listening, somebody_comes,
                                                 handover, &handover->coming) == TG_OK)
        net_poll_watch(handover->coming, NET_POLL_READ);
    else
        say(handover, "nobody can take over from this process: %s", problem.text);
    if (handover->listening >= 0 && stat(handover->path, &stat_of) == 0)
        handover->inode = stat_of.st_ino;
    return handover;
}

bool handover_is_retired(const struct handover *handover)
{
    return handover != NULL && handover->state == RETIRED;
}

bool handover_has_passed(const struct handover *handover)
{
    return handover != NULL && (handover->state == PASSING || handover->state == RETIRED);
}

void handover_set_bounds(struct handover *handover, tg_ms late_ms, tg_ms turn_ms, size_t events_max)
{
    handover->late_ms = late_ms;
    handover->turn_ms = turn_ms;
    handover->most_events = events_max;
}

/* The control thread has ended: what is left is sent by whoever ends the process. */
static void send_rest(struct handover *handover)
{
    struct pollfd writable = {.fd = handover->fd, .events = POLLOUT};

    queue_events(handover);
    if (handover->fd < 0)
        return;
    handover_send(handover, TAKEOVER_BYE, NULL, 0, NULL, 0);
    flush_out(handover);
    while (!STAILQ_EMPTY(&handover->out) && poll(&writable, 1, LAST_WORDS_MS) > 0 &&
           !(writable.revents & (POLLERR | POLLHUP)))
        flush_out(handover);
}

void handover_free(struct handover *handover)
{
    struct stat stat_of;

    if (handover == NULL)
        return;
    if (handover->state == RETIRED && handover->fd >= 0)
        send_rest(handover);
    close_peer(handover);
    forget_relay(handover);
    if (handover->control->gateway->spending != NULL)
        handover_stop_following(handover);
    net_poll_free(handover->coming);
    if (handover->listening >= 0) {
        close(handover->listening);
        if (stat(handover->path, &stat_of) == 0 && stat_of.st_ino == handover->inode)
            unlink(handover->path);
    }
    net_loop_unpost(handover->control->loop, &handover->told);
    net_loop_unpost(handover->control->loop, &handover->held);
    pthread_mutex_destroy(&handover->lock);
    free(handover->events);
    free(handover);
}
