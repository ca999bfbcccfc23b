/* takeover.c - the new process's side of a takeover: see takeover.h.
 *
 * Until it serves, this process has one thread, and waits for what the other one says. What it is
 * told meanwhile is kept, and done when there is something to do it to. From then on the control
 * thread hears of it: a process that was taken over is a predecessor until its journal is over.
 * However it ends, what it had in flight stays reserved here until the database has it.
 */
#define _GNU_SOURCE
#include "server/runtime/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/net/fd_poll.h"
#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/fleet/fleet.h"
#include "server/ledger/spending.h"
#include "server/obs/log.h"
#include "server/remote/remote.h"
#include "server/runtime/generation_internal.h"
#include "server/runtime/handover.h"
#include "server/runtime/object_owners.h"
#include "server/runtime/reload.h"
#include "server/runtime/takeover_state.h"
#include "server/runtime/takeover_wire.h"

enum { WAIT_MS = 60000, SHARE_MS = 250, AGAIN_MS = 1000, LOCK_CHECK_MS = 20, LOCK_WAIT_MS = 5000 };
enum { ORPHANS_MAX = 64 };

struct takeover {
    int fd;
    long pid;
    uint32_t journal; /* its journal, locked for as long as it lives */
    tg_ms patience;   /* for its lock, when the link has ended */
    bool json;        /* lines of the log are */
    bool died;        /* the other process has, and this one goes on alone */
    struct takeover_state *state;
    char *events; /* those that could not be done yet */
    size_t n_events, max_events;
    struct takeover_frame in;
};

struct predecessor {
    LIST_ENTRY(predecessor) link;
    struct control *control;
    int fd; /* -1: it is gone */
    long pid;
    uint64_t source;  /* what its calls are known by */
    uint32_t journal; /* where they are settled */
    uint32_t leave;   /* how many share budgets with this one: it, and those before it */
    tg_ms failed_at;  /* it was over, and budgets could not be read again; 0: no */
    struct takeover_state *state;
    struct net_poll *poll;
    struct takeover_frame in;
};

/* What the control thread says of it, in the form of the log. */
#define log_step(control, format, ...)                                                             \
    log_say((control)->generation->config.log_json, &(control)->gateway->clock,                    \
            "takeover: " format, __VA_ARGS__)

/* ---- budgets ---- */

/* Processes that this one has taken over from, and theirs, as far as they have not ended. */
static uint32_t count_before(const struct control *control)
{
    const struct predecessor *at;
    uint32_t before = 0;

    LIST_FOREACH(at, &control->predecessors, link)
        before += at->leave;
    return before;
}

/* With a remote store that has the last word on them there is nothing to share. */
uint32_t takeover_share_budgets(struct control *control)
{
    struct gateway *gateway = control->gateway;
    uint32_t before = count_before(control);

    if (gateway->remote == NULL)
        spending_part(gateway->spending, before, handover_has_passed(control->handover));
    return before;
}

/* ---- events ---- */

static void money_told(struct gateway *gateway, uint64_t source, uint32_t kind, const char *bytes,
                       size_t n)
{
    struct takeover_money money;

    if (n < sizeof money)
        return;
    memcpy(&money, bytes, sizeof money);
    if (money.user_bytes != n - sizeof money)
        return;
    const struct spending_event event = {.kind = kind == TAKEOVER_SENT ? SPENDING_SENT
                                                                       : SPENDING_SETTLED,
                                         .call = money.call,
                                         .tenant = money.tenant,
                                         .user = {bytes + sizeof money, money.user_bytes},
                                         .micro = money.micro,
                                         .reserved_at = money.reserved_at,
                                         .journal = money.journal,
                                         .entry = money.entry};
    spending_adopt(gateway->spending, source, &event, clock_now_ms(&gateway->clock));
}

static void do_events(struct gateway *gateway, struct takeover_state *state, uint64_t source,
                      const char *bytes, size_t n)
{
    struct takeover_record head;

    for (size_t at = 0; at + sizeof head <= n; at += head.bytes) {
        memcpy(&head, bytes + at, sizeof head);
        at += sizeof head;
        if (head.bytes > n - at)
            return;
        if (head.kind == TAKEOVER_SENT || head.kind == TAKEOVER_SETTLED)
            money_told(gateway, source, head.kind, bytes + at, head.bytes);
        else if (head.kind == TAKEOVER_STORE)
            takeover_state_apply(state, gateway, bytes + at, head.bytes);
    }
}

static bool take_state(struct takeover_state *state, const char *bytes, size_t n)
{
    struct takeover_record head;
    bool done = true;

    for (size_t at = 0; done && at + sizeof head <= n; at += head.bytes) {
        memcpy(&head, bytes + at, sizeof head);
        at += sizeof head;
        done =
            head.bytes <= n - at && takeover_state_take(state, head.kind, bytes + at, head.bytes);
    }
    return done;
}

/* ---- before this process serves ---- */

static bool other_refuses(struct takeover *takeover, struct tg_problem *problem)
{
    return problem_fail(problem, "takeover: this process %.*s", (int)takeover->in.n,
                        takeover->in.payload);
}

/* Waits for the next frame that is no event; they are kept. False: `problem` says why, or, if it is
 * empty, the link has ended without a word. */
static bool await_frame(struct takeover *takeover, struct tg_problem *problem)
{
    struct takeover_frame *in = &takeover->in;

    problem->text[0] = '\0';
    for (;;) {
        struct pollfd readable = {.fd = takeover->fd, .events = POLLIN};
        int ready = poll(&readable, 1, WAIT_MS);
        int got = ready > 0 ? takeover_receive(takeover->fd, in) : 0;
        if (got == 0 && ready != 0)
            continue; /* a signal, or nothing after all */
        if (got == 0)
            return problem_fail(problem, "takeover: process %ld does not answer", takeover->pid);
        if (got < 0)
            return false;
        if (in->type == TAKEOVER_REFUSED)
            return other_refuses(takeover, problem);
        if (in->type != TAKEOVER_EVENTS)
            return true;
        takeover_close_fds(in);
        if (!array_reserve(&takeover->events, &takeover->max_events, takeover->n_events + in->n))
            return problem_fail(problem, "takeover: no memory");
        memcpy(takeover->events + takeover->n_events, in->payload, in->n);
        takeover->n_events += in->n;
    }
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

static bool take_sockets(struct takeover *takeover, struct inherited *inherited)
{
    struct takeover_sockets what;
    bool done = true;

    if (takeover->in.n < sizeof what)
        return false;
    memcpy(&what, takeover->in.payload, sizeof what);
    what.name[sizeof what.name - 1] = what.address[sizeof what.address - 1] = '\0';
    for (size_t i = 0; i < takeover->in.n_fds; i++)
        done &= inherited_add(inherited, what.name, what.address, takeover->in.fds[i]);
    takeover->in.n_fds = 0;
    return done;
}

static bool take_offer(struct takeover *takeover, struct inherited *inherited, struct clock *clock,
                       struct tg_problem *problem)
{
    struct takeover_frame *in = &takeover->in;
    struct takeover_offer offer;

    while (await_frame(takeover, problem)) {
        if (in->type == TAKEOVER_OFFERED)
            return true;
        if (in->type == TAKEOVER_OFFER && in->n >= sizeof offer) {
            memcpy(&offer, in->payload, sizeof offer);
            takeover->pid = (long)offer.pid;
            takeover->journal = offer.journal;
            inherited->seed = offer.seed;
            inherited->has_seed = true;
            clock->epoch_ns = offer.epoch_ns;
            clock_follow(clock);
        } else if (in->type == TAKEOVER_SOCKETS && !take_sockets(takeover, inherited)) {
            return problem_fail(problem, "takeover: no memory");
        } else if (in->type == TAKEOVER_LOCK && in->n_fds == 1 && inherited->lock_fd < 0) {
            inherited->lock_fd = in->fds[0];
            in->n_fds = 0;
        }
        takeover_close_fds(in);
    }
    return false;
}

bool takeover_begin(const char *ledger, bool json, struct inherited *inherited, struct clock *clock,
                    struct takeover **made, struct tg_problem *problem)
{
    struct takeover_hello hello = {.version = TAKEOVER_VERSION, .pid = (int64_t)getpid()};
    struct takeover *takeover;
    char path[108];
    int fd;

    *made = NULL;
    if (!takeover_path(ledger, ".takeover", path))
        return problem_fail(problem,
                            "takeover: the ledger is in memory, or its path is too long for a "
                            "socket beside it: nobody can take over");
    fd = connect_to(path);
    if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED)) {
        log_say(json, clock, "takeover: there is no process to take over from");
        return true;
    }
    if (fd < 0)
        return problem_fail(problem, "takeover: %s: %s", path, strerror(errno));
    takeover = calloc(1, sizeof *takeover);
    if (takeover == NULL || (takeover->state = takeover_state_new()) == NULL) {
        free(takeover);
        close(fd);
        return problem_fail(problem, "takeover: no memory");
    }
    takeover->fd = fd;
    takeover->json = json;
    takeover->patience = LOCK_WAIT_MS;
    *made = takeover;
    if (!takeover_is_own(fd))
        return problem_fail(problem, "takeover: %s belongs to a process of another user", path);
    memcpy(hello.magic, "TGTAKE", 7);
    (void)takeover_send(fd, TAKEOVER_HELLO, &hello, sizeof hello, NULL, 0);
    if (!take_offer(takeover, inherited, clock, problem))
        return problem->text[0] != '\0'
                   ? false
                   : problem_fail(problem, "takeover: the other process has ended; start again");
    log_say(json, clock, "takeover: process %ld offers %zu sockets and its ledger", takeover->pid,
            inherited->n);
    return true;
}

/* Whether it could be sent is known when the answer is waited for. */
static void takeover_say(struct takeover *takeover, enum takeover_type type, const void *payload,
                         size_t n)
{
    (void)takeover_send(takeover->fd, type, payload, n, NULL, 0);
}

void takeover_read(struct takeover *takeover)
{
    if (takeover != NULL)
        takeover_say(takeover, TAKEOVER_READ, NULL, 0);
}

/* ---- predecessors ---- */

static void predecessor_free(struct predecessor *predecessor)
{
    struct control *control = predecessor->control;

    LIST_REMOVE(predecessor, link);
    net_poll_free(predecessor->poll);
    if (predecessor->fd >= 0)
        close(predecessor->fd);
    takeover_state_free(predecessor->state);
    free(predecessor);
    atomic_fetch_sub(&control->gateway->predecessors, 1);
    if (control->predecessor_ended != NULL)
        control->predecessor_ended(control->predecessor_arg);
}

static bool read_budgets_again(struct control *control)
{
    uint64_t left = ledger_left_behind(control->gateway->ledger);
    struct tg_problem problem;

    if (generation_read_budgets(control->generation, control_now(control), &problem)) {
        control->gateway->left_behind = left;
        return true;
    }
    log_step(control, "budgets could not be read again: %s", problem.text);
    return false;
}

static void adopt_open(void *context, const struct ledger_entry *entry)
{
    const struct predecessor *orphan = context;
    struct gateway *gateway = orphan->control->gateway;
    const struct spending_event event = {.kind = SPENDING_SENT,
                                         .call = entry->call,
                                         .tenant = entry->tenant,
                                         .user = entry->user,
                                         .micro = entry->micro,
                                         .reserved_at = entry->reserved_at};

    spending_adopt(gateway->spending, orphan->source, &event, clock_now_ms(&gateway->clock));
}

static bool is_predecessor(const struct control *control, uint32_t journal)
{
    const struct predecessor *at;

    LIST_FOREACH(at, &control->predecessors, link)
        if (at->journal == journal)
            return true;
    return false;
}

/* Processes whose successor has died, as the ledger was when budgets were read last: nobody tells
 * of what they settle, so what they have in flight is held until they have ended. */
static bool join_orphans(struct control *control)
{
    uint32_t journals[ORPHANS_MAX];
    struct ledger *ledger = control->gateway->ledger;
    size_t n = ledger != NULL ? ledger_get_others(ledger, journals, ORPHANS_MAX) : 0;

    for (size_t i = 0; i < n; i++) {
        if (is_predecessor(control, journals[i]))
            continue;
        struct predecessor *orphan = calloc(1, sizeof *orphan);
        if (orphan == NULL)
            return false;
        *orphan = (struct predecessor){.control = control,
                                       .fd = -1,
                                       .journal = journals[i],
                                       .source = UINT64_MAX - journals[i],
                                       .leave = 1};
        ledger_each_open_of(ledger, journals[i], adopt_open, orphan);
        LIST_INSERT_HEAD(&control->predecessors, orphan, link);
        atomic_fetch_add(&control->gateway->predecessors, 1);
    }
    (void)takeover_share_budgets(control);
    return true;
}

/* What it had in flight is settled, or in the ledger as it was reserved; what it held for those
 * that it had taken over from, and that still live, is held for them. Who serves in the place of
 * this one holds all that until this one has ended. */
static void predecessor_over(struct predecessor *predecessor)
{
    struct control *control = predecessor->control;
    struct tg_problem problem;

    if (!handover_is_retired(control->handover) &&
        !(read_budgets_again(control) && join_orphans(control))) {
        predecessor->failed_at = control_now(control);
        return;
    }
    /* What it made at providers in the meantime belongs to the same tenants here. */
    if (!object_owners_load(control->gateway->owners, control->gateway->ledger,
                            clock_wall_of(&control->gateway->clock, control_now(control)),
                            &problem))
        log_step(control, "owners of objects could not be read again: %s", problem.text);
    (void)spending_disown(control->gateway->spending, predecessor->source);
    predecessor_free(predecessor);
    (void)takeover_share_budgets(control);
}

/* It will say no more. Its journal is closed when it has ended, or moved when it has died. */
static void predecessor_hang_up(struct predecessor *predecessor)
{
    net_poll_free(predecessor->poll);
    predecessor->poll = NULL;
    close(predecessor->fd);
    predecessor->fd = -1;
}

static void predecessor_gone(struct predecessor *predecessor)
{
    log_step(predecessor->control,
             "process %ld is gone; what it had in flight is settled as reserved from its "
             "journal",
             predecessor->pid);
    predecessor_hang_up(predecessor);
}

static void predecessor_speaks(void *arg, unsigned events)
{
    struct predecessor *predecessor = arg;
    struct gateway *gateway = predecessor->control->gateway;
    struct takeover_frame *in = &predecessor->in;
    int got;

    (void)events;
    while ((got = takeover_receive(predecessor->fd, in)) > 0) {
        takeover_close_fds(in);
        if (in->type == TAKEOVER_EVENTS)
            do_events(gateway, predecessor->state, predecessor->source, in->payload, in->n);
        if (in->type == TAKEOVER_BYE) {
            log_step(predecessor->control, "process %ld has finished its calls", predecessor->pid);
            predecessor_hang_up(predecessor);
            return;
        }
    }
    if (got < 0)
        predecessor_gone(predecessor);
}

/* Predecessors settle through the same ledger, and hold blocks of their own. */
static void share_ledger(struct control *control, tg_ms now)
{
    bool shared = !LIST_EMPTY(&control->predecessors);
    bool told = remote_share_ledger(control->gateway->remote, shared, now);

    control->shares_ledger = shared || !told;
    control->shared_at = now;
}

/* Whoever has this process's place looks after what others have left in the ledger. */
static bool is_over(const struct predecessor *predecessor)
{
    const struct control *control = predecessor->control;

    return predecessor->fd < 0 &&
           (handover_is_retired(control->handover) ||
            ledger_journal_is_over(control->gateway->ledger, predecessor->journal));
}

/* What a dead process had in flight is in the ledger now, and was in no budget here: a new process
 * that died before it served, or one whose calls nobody has reported. */
static void read_what_was_left(struct control *control, tg_ms now)
{
    struct gateway *gateway = control->gateway;

    if (ledger_left_behind(gateway->ledger) == gateway->left_behind ||
        now - gateway->left_tried_at < AGAIN_MS || !reload_may_try(control->reload))
        return;
    gateway->left_tried_at = now;
    (void)read_budgets_again(control);
}

void takeover_tick(struct control *control)
{
    struct predecessor *at, *next;
    tg_ms now = control_now(control);

    for (at = LIST_FIRST(&control->predecessors); at != NULL; at = next) {
        next = LIST_NEXT(at, link);
        if ((at->failed_at == 0 || now - at->failed_at >= AGAIN_MS) && is_over(at))
            predecessor_over(at);
    }
    read_what_was_left(control, now);
    if (control->gateway->fleet != NULL)
        fleet_set_processes(control->gateway->fleet,
                            1 + count_before(control) + handover_has_passed(control->handover));
    if (control->shares_ledger && now - control->shared_at >= SHARE_MS)
        share_ledger(control, now);
}

void takeover_forget_all(struct control *control)
{
    struct predecessor *at;

    while ((at = LIST_FIRST(&control->predecessors)) != NULL)
        predecessor_free(at);
}

/* ---- serving ---- */

static struct predecessor *predecessor_new(struct takeover *takeover, struct control *control)
{
    struct predecessor *made = calloc(1, sizeof *made);

    if (made == NULL)
        return NULL;
    made->control = control;
    made->fd = takeover->fd;
    made->pid = takeover->pid;
    made->source = (uint64_t)takeover->pid;
    made->journal = takeover->journal;
    if (net_poll_new(control->loop, made->fd, predecessor_speaks, made, &made->poll) != TG_OK) {
        free(made);
        return NULL;
    }
    return made;
}

/* From here on the link is the control thread's. */
static void predecessor_join(struct predecessor *predecessor, struct takeover *takeover)
{
    struct control *control = predecessor->control;

    predecessor->state = takeover->state;
    takeover->state = NULL;
    takeover->fd = -1;
    net_poll_watch(predecessor->poll, NET_POLL_READ);
    LIST_INSERT_HEAD(&control->predecessors, predecessor, link);
    atomic_fetch_add(&control->gateway->predecessors, 1);
}

static bool take_states(struct takeover *takeover, struct tg_problem *problem)
{
    while (await_frame(takeover, problem)) {
        takeover_close_fds(&takeover->in);
        if (takeover->in.type == TAKEOVER_COMMIT)
            return true;
        if (takeover->in.type == TAKEOVER_STATE &&
            !take_state(takeover->state, takeover->in.payload, takeover->in.n))
            return problem_fail(problem, "takeover: the state of limits cannot be read");
    }
    return false;
}

static void do_kept_events(struct takeover *takeover, struct gateway *gateway)
{
    do_events(gateway, takeover->state, (uint64_t)takeover->pid, takeover->events,
              takeover->n_events);
    takeover->n_events = 0;
}

/* Waits until the other process has said that much, and does what it has told before. */
static bool await_step(struct takeover *takeover, struct gateway *gateway, enum takeover_type type,
                       struct tg_problem *problem)
{
    do
        if (!await_frame(takeover, problem))
            return false;
    while (takeover->in.type != type);
    do_kept_events(takeover, gateway);
    return true;
}

/* Up to where the other process has retired. False: see await_frame(). */
static bool take_all(struct takeover *takeover, struct gateway *gateway, struct tg_problem *problem)
{
    struct takeover_ready ready = {.gateway = ""};

    snprintf(ready.gateway, sizeof ready.gateway, "%s", gateway->relay_path);
    snprintf(ready.grpc, sizeof ready.grpc, "%s", gateway->grpc_relay_path);
    takeover_say(takeover, TAKEOVER_READY, &ready, sizeof ready);
    if (!take_states(takeover, problem))
        return false;
    takeover_state_load(takeover->state, gateway, takeover->json);
    do_kept_events(takeover, gateway);
    takeover_say(takeover, TAKEOVER_TAKING, NULL, 0);
    if (!await_step(takeover, gateway, TAKEOVER_HOLDING, problem))
        return false;
    takeover_say(takeover, TAKEOVER_TAKEN, NULL, 0);
    return await_step(takeover, gateway, TAKEOVER_RETIRED, problem);
}

/* The link has ended without a word: the other process has died, or goes on. A process that ends
 * gives its locks back a moment before or after it closes the link. */
static bool has_died(struct takeover *takeover, const struct control *control,
                     struct tg_problem *problem)
{
    struct ledger *ledger = control->gateway->ledger;

    for (tg_ms waited = 0; waited <= takeover->patience; waited += LOCK_CHECK_MS) {
        if (!ledger_journal_is_used(ledger, takeover->journal)) {
            log_step(control,
                     "process %ld has died; this one goes on with its sockets and its ledger",
                     takeover->pid);
            takeover->died = true;
            return true;
        }
        (void)poll(NULL, 0, LOCK_CHECK_MS);
    }
    return problem_fail(problem, "takeover: process %ld goes on, and this one ends", takeover->pid);
}

/* What it had in flight counts before this process serves. */
static void take_from_the_dead(struct predecessor *predecessor)
{
    struct tg_problem problem;

    predecessor_hang_up(predecessor);
    if (!ledger_move_left(predecessor->control->gateway->ledger, &problem))
        log_step(predecessor->control, "the ledger: %s", problem.text);
    if (is_over(predecessor))
        predecessor_over(predecessor);
}

/* What the other process said with its last word before this one serves. */
static uint32_t told_before(const struct takeover_frame *retired)
{
    uint32_t before = 0;

    if (retired->n >= sizeof before)
        memcpy(&before, retired->payload, sizeof before);
    return before;
}

bool takeover_serve(struct takeover *takeover, struct control *control, struct tg_problem *problem)
{
    struct gateway *gateway = control->gateway;

    if (takeover == NULL) {
        if (!join_orphans(control))
            return problem_fail(problem, "takeover: no memory");
        share_ledger(control, clock_now_ms(&gateway->clock)); /* with nobody */
        return true;
    }
    struct predecessor *predecessor = predecessor_new(takeover, control);
    if (predecessor == NULL)
        return problem_fail(problem, "takeover: no memory");
    if (!take_all(takeover, gateway, problem) &&
        (problem->text[0] != '\0' || !has_died(takeover, control, problem))) {
        net_poll_free(predecessor->poll);
        free(predecessor);
        return false;
    }
    if (!takeover->died)
        predecessor->leave = 1 + told_before(&takeover->in);
    predecessor_join(predecessor, takeover);
    (void)takeover_share_budgets(control);
    if (takeover->died)
        take_from_the_dead(predecessor);
    ledger_own_lock(gateway->ledger);
    share_ledger(control, clock_now_ms(&gateway->clock));
    log_step(control, "this process serves in the place of process %ld", takeover->pid);
    return true;
}

void takeover_set_patience(struct takeover *takeover, tg_ms patience)
{
    takeover->patience = patience;
}

void takeover_free(struct takeover *takeover)
{
    if (takeover == NULL)
        return;
    if (takeover->fd >= 0)
        close(takeover->fd);
    takeover_state_free(takeover->state);
    free(takeover->events);
    free(takeover);
}
