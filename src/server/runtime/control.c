/* control.c - the control thread: see control.h. */
#include "server/runtime/control.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/core/problem.h"
#include "server/fleet/fleet.h"
#include "server/remote/remote.h"
#include "server/runtime/generation_internal.h"
#include "server/runtime/handover.h"
#include "server/runtime/inherited.h"
#include "server/runtime/jwks.h"
#include "server/runtime/recorder.h"
#include "server/runtime/reload.h"
#include "server/runtime/service.h"
#include "server/runtime/start_gate.h"
#include "server/runtime/takeover.h"
#include "server/runtime/takeover_wire.h"
#include "server/runtime/token_fetch.h"

/* Connections of one listener here. They are not counted with those of calls, which cannot take
 * their place, nor they the place of a call. */
enum { CONNECTIONS_MAX = 256 };

enum { CHORES_MS = 100, FILES_MS = 1000, MEMORY_MS = 500 };

/* ---- chores ---- */

static void record_memory(struct gateway *gateway, uint64_t number, tg_ms now, double used)
{
    struct record_trail trail = {.at = 0};

    recorder_leave(gateway->recorder);
    record_op(&trail, number, now, "memory");
    record_real(&trail, "used", used); /* not known: null */
    record_op_end(&trail);
    recorder_write(gateway, &trail);
}

static void read_memory(struct control *control, tg_ms now)
{
    const struct config_memory *config = &control->generation->config.gate.memory;
    tg_ms poll = config->present ? config->poll : MEMORY_MS; /* it is a metric in any case */
    double used;

    if (control->memory_read_at != 0 && now - control->memory_read_at < poll)
        return;
    control->memory_read_at = now;
    memory_read(&control->memory, now);
    if (!memory_used(&control->memory, now, &used))
        used = NAN;
    uint64_t number = config->present ? recorder_enter(control->gateway->recorder) : 0;
    tg_gate_set_memory(control->gateway->gate, used);
    if (number != 0)
        record_memory(control->gateway, number, now, used);
}

static bool is_tick_due(const struct control *control, tg_ms now)
{
    const struct generation *generation = control->generation;
    bool due = tg_gate_next_deadline(control->gateway->gate) <= now;

    for (size_t i = 0; i < generation->n_slots; i++)
        due |= tg_gate_next_deadline(generation->slots[i].slots->gate) <= now;
    return due;
}

/* With --record, ticks that nobody needs are left out of the recording, and not made either: a gate
 * that is told the time takes it for the time of what comes next. */
static void tick_gates(struct control *control, tg_ms now)
{
    const struct generation *generation = control->generation;
    struct gateway *gateway = control->gateway;
    struct record_trail trail = {.at = 0};

    if (gateway->recorder != NULL && !is_tick_due(control, now))
        return;
    uint64_t number = recorder_enter(gateway->recorder);
    tg_gate_tick(gateway->gate, now);
    for (size_t i = 0; i < generation->n_slots; i++)
        tg_gate_tick(generation->slots[i].slots->gate, now);
    recorder_leave(gateway->recorder);
    if (number != 0 && record_op(&trail, number, now, "tick")) {
        record_number(&trail, "generation", (int64_t)generation->number);
        record_op_end(&trail);
    }
    recorder_write(gateway, &trail);
}

/* Whoever rotates secrets and certificates replaces their files and sends no signal. The files of
 * the configuration itself are read only on request. */
static void check_files(struct control *control, tg_ms now)
{
    const struct config *config = &control->generation->config;

    if (now - control->files_checked_at < FILES_MS || !reload_may_try(control->reload))
        return;
    control->files_checked_at = now;
    if (now >= config->catalogue_until) {
        reload_request(control->reload, "a price of the catalogue has ended", NULL, NULL);
        return;
    }
    for (size_t i = 0; i < config->n_sources; i++)
        if (config->sources[i].kind != CONFIG_SOURCE_FILE &&
            config_source_changed(&config->sources[i])) {
            reload_request(control->reload,
                           "a file with a secret, a certificate or rules has changed", NULL, NULL);
            return;
        }
}

/* When another gateway has come or gone, this one's shares of limits change. Not while a
 * configuration is being read, which changes the same limits. */
static void divide_limits(struct control *control, tg_ms now)
{
    struct gateway *gateway = control->gateway;
    struct tg_problem problem;
    struct tg_problem why;
    char detail[24];

    if (gateway->remote == NULL || !reload_may_try(control->reload))
        return;
    long long nodes = atomic_load_explicit(&gateway->remote->nodes, memory_order_relaxed);
    if (nodes == gateway->remote->divided)
        return;
    uint64_t number = recorder_enter(gateway->recorder);
    bool divided = limit_book_share(gateway->book, nodes, now, &why) == TG_OK &&
                   generation_set_gates(control->generation, now, &problem);
    recorder_leave(gateway->recorder);
    if (divided)
        gateway->remote->divided = nodes;
    snprintf(detail, sizeof detail, "%lld", divided ? nodes : gateway->remote->divided);
    recorder_note_change(gateway, number, now, "gateways", detail);
}

static void tick_jwks(struct control *control)
{
    const struct jwks_surroundings of = {.loop = control->loop,
                                         .client = control->client,
                                         .log = control->gateway->log,
                                         .config = &control->generation->config.callers_jwt};

    jwks_tick(control->gateway->jwks, &of);
}

static void do_chores(void *arg)
{
    struct control *control = arg;
    const struct service_table *table = control->gateway->services;
    tg_ms now = control_now(control);

    assert(control_is_mine(control));
    assert(control->generation == gateway_newest(control->gateway));
    clock_follow(&control->gateway->clock);
    read_memory(control, now);
    tick_gates(control, now);
    key_probe_tick(&control->key_probe, control);
    token_fetch_tick(control);
    tick_jwks(control);
    check_files(control, now);
    divide_limits(control, now);
    takeover_tick(control);
    for (size_t i = 0; i < control->n_started; i++)
        if (table->list[i]->tick != NULL)
            table->list[i]->tick(control, now);
    net_timer_set(control->loop, &control->chores, CHORES_MS);
}

static void sighup_came(void *arg)
{
    struct control *control = arg;

    reload_request(control->reload, "SIGHUP", NULL, NULL);
}

void control_reload(struct control *control)
{
    net_loop_post(control->loop, &control->hangup);
}

/* ---- life ---- */

bool control_listen(struct control *control, const char *name, const char *address,
                    struct tls_context *tls, const struct http_server_ops *ops, void *context,
                    struct tg_problem *problem)
{
    struct control_listener *own = &control->listeners[control->n_listeners];
    struct http_listen_options options;
    int sockets[TAKEOVER_SOCKETS_MAX];

    assert(control->n_listeners < CONTROL_LISTENERS_MAX);
    http_listen_options_init(&options);
    options.ops = ops;
    options.context = context;
    options.alone = true;
    options.tls = tls;
    options.connections = CONNECTIONS_MAX;
    options.sockets = sockets;
    options.n_sockets = inherited_take(control->gateway->inherited, name, address, 0, 1, sockets,
                                       TAKEOVER_SOCKETS_MAX);
    options.borrowed = options.n_sockets > 0;
    options.held = control->gateway->inherited != NULL;
    own->address = strdup(address);
    if (own->address == NULL)
        return problem_fail(problem, "cannot listen on %s: no memory", address);
    if (http_listen(control->loop, address, &options, &own->listener, problem) != TG_OK) {
        free(own->address);
        return false;
    }
    own->is_tls = tls != NULL;
    own->name = name;
    control->n_listeners++;
    return true;
}

void control_renew_tls(struct control *control)
{
    assert(control_is_mine(control));
    for (size_t i = 0; i < control->n_listeners && control->generation->admin_tls != NULL; i++)
        if (control->listeners[i].is_tls)
            http_listener_set_tls(control->listeners[i].listener, control->generation->admin_tls);
}

void control_hold(struct control *control, bool held)
{
    assert(control_is_mine(control));
    for (size_t i = 0; i < control->n_listeners; i++)
        http_listener_hold(control->listeners[i].listener, held);
}

void control_close_listeners(struct control *control)
{
    while (control->n_listeners > 0) {
        const struct control_listener *own = &control->listeners[--control->n_listeners];
        http_listener_free(own->listener);
        free(own->address);
    }
}

static bool start_services(struct control *control, struct tg_problem *problem)
{
    const struct service_table *table = control->gateway->services;

    for (; control->n_started < table->n; control->n_started++) {
        const struct service *service = table->list[control->n_started];
        if (service->start_control != NULL && !service->start_control(control, problem))
            return false;
    }
    return true;
}

static void stop_services(struct control *control)
{
    const struct service_table *table = control->gateway->services;

    while (control->n_started > 0) {
        const struct service *service = table->list[--control->n_started];
        if (service->stop_control != NULL)
            service->stop_control(control);
    }
}

/* One of the gateways that share the store, if they do. */
static bool join_fleet(struct control *control, struct tg_problem *problem)
{
    struct gateway *gateway = control->gateway;
    const char *address = control->generation->config.listen.gateway;
    char host[64] = "", name[FLEET_NAME_MAX], id[40];
    struct fleet_options options = {
        .loop = control->loop, .id = id, .process = gateway->node_id, .name = name};

    if (control->port == NULL || gateway->ledger == NULL)
        return true;
    (void)gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s %.60s", host, address != NULL ? address : "");
    snprintf(id, sizeof id, "%016llx", (unsigned long long)ledger_id(gateway->ledger));
    options.redis = control->port->redis;
    options.prefix = gateway->remote->prefix;
    options.program = TG_VERSION;
    if (!ledger_fleet_read(gateway->ledger, &options.mark, problem))
        return false;
    atomic_store(&gateway->fleet_unread, true);
    return fleet_new(&options, &gateway->fleet) == TG_OK ||
           problem_fail(problem, "no memory for the control thread");
}

bool control_init(struct control *control, struct gateway *gateway, struct worker *workers,
                  size_t n_workers, const char *path, struct tg_problem *problem)
{
    struct http_client_options options;

    memset(control, 0, sizeof *control);
    control->gateway = gateway;
    control->number = n_workers;
    control->generation = gateway_newest(gateway);
    control->workers = workers;
    control->n_workers = n_workers;
    control->path = path;
    net_post_init(&control->hangup, sighup_came, control);
    net_timer_init(&control->chores, do_chores, control);
    key_probe_init(&control->key_probe);
    const struct config *config = &control->generation->config;
    memory_init(&control->memory, "", config->gate.memory.present ? config->gate.memory.poll : 500);
    http_client_options_init(&options);
    problem_fail(problem, "no memory for the control thread");
    if (net_loop_new(&gateway->clock, &control->loop) ||
        http_client_new(control->loop, &options, &control->client) ||
        (control->reload = reload_new(control, path)) == NULL)
        return false;
    gateway->control = control->loop;
    if (!remote_port_new(gateway->remote, control->loop, true, &control->port, problem))
        return false;
    if (!join_fleet(control, problem))
        return false;
    net_timer_set(control->loop, &control->chores, 1);
    return start_services(control, problem);
}

static void *control_run(void *arg)
{
    struct control *control = arg;

    if (!start_gate_wait(control->gateway->start_gate))
        return NULL;
    control->self = pthread_self();
    control->runs = true;
    net_loop_run(control->loop);
    control->runs = false;
    return NULL;
}

bool control_start(struct control *control)
{
    control->started = pthread_create(&control->thread, NULL, control_run, control) == 0;
    return control->started;
}

void control_stop(struct control *control)
{
    if (!control->started)
        return;
    net_loop_stop(control->loop);
    pthread_join(control->thread, NULL);
    control->started = false;
}

void control_fini(struct control *control)
{
    if (control->gateway == NULL)
        return;
    control_stop(control);
    /* remote_port_free() turns the loop once more for what Redis is to be told: nothing of this
     * thread may run then. */
    if (control->loop) {
        net_timer_stop(control->loop, &control->chores);
        net_loop_unpost(control->loop, &control->hangup);
    }
    control->gateway->control = NULL;
    handover_free(control->handover);
    control->handover = NULL;
    takeover_forget_all(control);
    key_probe_fini(&control->key_probe);
    token_fetch_stop(control);
    jwks_stop(control->gateway->jwks);
    memory_fini(&control->memory);
    control_close_listeners(control);
    stop_services(control);
    reload_free(control->reload);
    if (control->client)
        http_client_free(control->client);
    fleet_stop(control->gateway->fleet);
    remote_port_free(control->port);
    fleet_free(control->gateway->fleet);
    control->gateway->fleet = NULL;
    if (control->loop)
        net_loop_free(control->loop);
    memset(control, 0, sizeof *control);
}
