/* cmd_serve.c - `tollgate serve`: the gateway, from its configuration to its last call.
 *
 *     starting --> serving --TERM, INT--> draining ------last call------> done
 *                                             `--time, TERM, INT--> cutting off --> done
 *
 * Signals are blocked in every thread and taken by this one, which does nothing else: no handler,
 * no flag. A second thread waits for the workers and says so by SIGUSR1, so that there is one
 * place that waits for both. A drain that is cut off still settles what runs, because the calls
 * end as if their clients had left; one more signal does what the system does with it.
 *
 * A drain ends after `drain` whoever still listens: who stops us waits for some time only, and what
 * is killed then is charged to nobody. That end is the configuration's wish, and a success; the one
 * by a second signal is not.
 *
 * Secrets are in this process's memory: it leaves no core and cannot be traced by others of its
 * user, unless it is told to.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "lib/core/num.h"
#include "server/obs/log.h"
#include "server/remote/remote.h"
#include "server/runtime/control.h"
#include "server/runtime/handover.h"
#include "server/runtime/inherited.h"
#include "server/runtime/observe.h"
#include "server/runtime/reload.h"
#include "server/runtime/start_gate.h"
#include "server/runtime/takeover.h"
#include "server/runtime/worker.h"
#include "server/serve/services.h"

enum {
    WORKERS_MAX = 256,
    DESCRIPTORS_EACH = 2,
    WAIT_MAX_MS = 3600000,
    STORE_WAIT_MS = 5000,
    STORE_DOWN_MS = 1000, /* when the first attempt has failed */
    TURN_MS = 2,
};

struct serving {
    const struct command *command;
    struct inherited inherited;
    struct takeover *takeover; /* while it takes over; null: it does not */
    bool json;                 /* lines of the log are JSON */
    struct gateway *gateway;
    struct control control;
    struct worker *workers;
    size_t n; /* workers that have been started */
    char addresses[1024];
    sigset_t signals;       /* those that are waited for */
    struct start_gate gate; /* where threads wait until this process serves */
    pthread_t main, joiner;
    bool joins; /* there is a joiner */
    atomic_bool joined;
    atomic_bool replaced; /* another process serves */
    tg_ms drained_at;     /* when a drain is cut off; 0: there is none, or it has been cut off */
};

/* ---- the process ---- */

static void forbid_cores(const struct command *self)
{
    const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) != 0)
        command_say(self, "warning: core dumps could not be turned off");
}

/* Each call has a connection on both sides. */
static void raise_descriptors(const struct command *self, int64_t connections)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max != RLIM_INFINITY &&
        (uint64_t)limit.rlim_max < (uint64_t)connections * DESCRIPTORS_EACH)
        command_say(self,
                    "warning: %llu descriptors are too few for limits.connections: %lld, which may "
                    "need two each",
                    (unsigned long long)limit.rlim_max, (long long)connections);
}

static void take_signals(struct serving *serving)
{
    static const int SIGNALS[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction old;

    /* A signal that our parent wants to be ignored (a shell does, for a job in the background)
     * stays ignored. */
    sigemptyset(&serving->signals);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++)
        if (SIGNALS[i] == SIGUSR1 || SIGNALS[i] == SIGUSR2 ||
            sigaction(SIGNALS[i], NULL, &old) != 0 || old.sa_handler != SIG_IGN)
            sigaddset(&serving->signals, SIGNALS[i]);
    pthread_sigmask(SIG_BLOCK, &serving->signals, NULL);
}

/* ---- the configuration ---- */

/* Returns the number of errors. Files and variables that `check` only warns about are errors. */
static size_t print_problems(const struct config_problems *problems)
{
    size_t errors = problems->errors;

    for (size_t i = 0; i < problems->n; i++) {
        const struct config_problem *at = &problems->list[i];
        const char *kind = at->warning && !at->missing ? "warning: " : "";
        if (at->line > 0)
            fprintf(stderr, "%s:%zu:%zu: %s%s\n", at->file, at->line, at->column, kind, at->text);
        else
            fprintf(stderr, "%s: %s%s\n", at->file, kind, at->text);
        errors += at->warning && at->missing;
    }
    return errors;
}

static bool load(const struct command *self, const char *path, struct config *config)
{
    struct config_problems problems;
    enum config_result result = config_load(path, config, &problems);
    size_t errors = print_problems(&problems);
    bool good = result == CONFIG_READ && errors == 0;

    config_problems_free(&problems);
    if (result != CONFIG_UNREADABLE && errors > 0)
        command_say(self, "%zu error%s in the configuration", errors, errors == 1 ? "" : "s");
    if (good && config->listen.gateway == NULL) {
        command_say(self, "%s: listen.gateway is missing; it must be HOST:PORT to serve on", path);
        good = false;
    }
    if (!good)
        config_free(config);
    return good;
}

/* ---- starting ---- */

static size_t count_workers(const struct config *config)
{
    long cores = config->workers > 0 ? (long)config->workers : sysconf(_SC_NPROCESSORS_ONLN);

    return cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : (size_t)cores;
}

/* Appends "127.0.0.1:8080 (gateway)", with the port that the system chose. */
static void write_address(struct serving *serving, const char *name, const char *address,
                          const struct http_listener *listener)
{
    size_t n = strlen(serving->addresses);
    const char *port = strrchr(address, ':');
    char chosen[16] = "";

    if (port == NULL || http_listener_port(listener) == 0)
        port = address + strlen(address);
    else
        snprintf(chosen, sizeof chosen, ":%d", http_listener_port(listener));
    snprintf(serving->addresses + n, sizeof serving->addresses - n, "%s%.*s%s (%s)",
             n > 0 ? ", " : "", (int)(port - address), address, chosen, name);
}

/* Before the first thread runs: the configuration belongs to the control thread then. */
static void write_addresses(struct serving *serving)
{
    const struct config_listen *listen = &gateway_newest(serving->gateway)->config.listen;
    const struct control *control = &serving->control;

    write_address(serving, "gateway", listen->gateway, serving->workers[0].listener);
    for (size_t i = 0; i < control->n_listeners; i++)
        write_address(serving, control->listeners[i].name, control->listeners[i].address,
                      control->listeners[i].listener);
    if (serving->workers[0].grpc != NULL)
        write_address(serving, "grpc", listen->grpc, serving->workers[0].grpc);
}

/* Adds to the first generation what an administrator has made by the API. */
static bool add_extras(struct serving *serving, const char *path)
{
    struct config_problems problems;
    struct tg_problem failure = {""};
    bool good = reload_at_start(serving->gateway, path, &problems, &failure);

    if (!good) {
        print_problems(&problems);
        command_say(serving->command,
                    "what was made by the admin API does not fit the configuration%s%s",
                    failure.text[0] ? ": " : "", failure.text);
    }
    config_problems_free(&problems);
    return good;
}

/* On the control thread: another process serves, which is for the main thread to know. */
static void another_serves(void *arg)
{
    struct serving *serving = arg;

    atomic_store(&serving->replaced, true);
    pthread_kill(serving->main, SIGUSR2);
}

static void predecessor_ended(void *arg)
{
    struct serving *serving = arg;

    pthread_kill(serving->main, SIGUSR1);
}

static void *join_workers(void *arg)
{
    struct serving *serving = arg;

    for (size_t i = 0; i < serving->n; i++)
        worker_join(&serving->workers[i]);
    atomic_store(&serving->joined, true);
    pthread_kill(serving->main, SIGUSR1);
    return NULL;
}

static bool make_workers(struct serving *serving, size_t wanted, const char *path)
{
    struct tg_problem problem;

    serving->workers = calloc(wanted, sizeof *serving->workers);
    if (serving->workers == NULL) {
        command_say(serving->command, "there is no memory for %zu workers", wanted);
        return false;
    }
    while (serving->n < wanted) {
        struct worker *worker = &serving->workers[serving->n];
        if (!worker_init(worker, serving->gateway, serving->n++, &serving->workers[0], &problem)) {
            command_say(serving->command, "%s", problem.text);
            return false;
        }
    }
    if (!control_init(&serving->control, serving->gateway, serving->workers, wanted, path,
                      &problem)) {
        command_say(serving->command, "%s", problem.text);
        return false;
    }
    write_addresses(serving);
    return true;
}

/* All of them, before anybody else stops serving: then there may be none left. They wait. */
static bool make_threads(struct serving *serving)
{
    bool good = control_start(&serving->control);

    for (size_t i = 0; good && i < serving->n; i++)
        good = worker_start(&serving->workers[i]);
    if (good)
        good = serving->joins = pthread_create(&serving->joiner, NULL, join_workers, serving) == 0;
    if (!good)
        command_say(serving->command, "no thread could be started");
    return good;
}

/* Whoever takes calls from another process, or from a queue that systemd keeps, has reached the
 * store first: else it would refuse for a moment what could be served. Where the store is away, it
 * is soon known. */
static void await_store(struct serving *serving)
{
    struct remote *remote = serving->gateway->remote;
    char why[240] = "";

    for (int ms = 0; ms < STORE_WAIT_MS && remote_health_of(remote) != REMOTE_WELL; ms += TURN_MS) {
        for (size_t i = 0; i < serving->n; i++)
            net_loop_turn(serving->workers[i].loop, false);
        net_loop_turn(serving->control.loop, false);
        remote_problem(remote, why, sizeof why);
        if (why[0] != '\0' && ms >= STORE_DOWN_MS)
            break;
        (void)poll(NULL, 0, TURN_MS);
    }
    if (remote_health_of(remote) != REMOTE_WELL)
        log_say(serving->json, &serving->gateway->clock,
                "the store is %s%s%s; store_failure decides",
                remote_health_name(remote_health_of(remote)), why[0] != '\0' ? ": " : "", why);
}

static bool start_workers(struct serving *serving, size_t wanted, const char *path)
{
    struct tg_problem problem;

    takeover_read(serving->takeover);
    serving->main = pthread_self();
    if (!make_workers(serving, wanted, path) || !make_threads(serving))
        return false;
    if (serving->inherited.n > 0)
        await_store(serving);
    if (!takeover_serve(serving->takeover, &serving->control, &problem)) {
        command_say(serving->command, "%s", problem.text);
        return false;
    }
    serving->control.predecessor_ended = predecessor_ended;
    serving->control.predecessor_arg = serving;
    serving->control.handover = handover_new(&serving->control, another_serves, serving);
    for (size_t i = 0; i < wanted; i++)
        worker_release(&serving->workers[i]);
    control_hold(&serving->control, false);
    return true;
}

/* ---- ending ---- */

static void cmd_serve_drain(struct serving *serving)
{
    tg_ms most = atomic_load(&serving->gateway->drain_ms);

    log_say(serving->json, &serving->gateway->clock,
            "draining, calls that are open: %lld; cut off in %.15g s, or by a second signal",
            atomic_load(&serving->gateway->counts.open), (double)most / 1000);
    serving->drained_at = num_add(clock_now_ms(&serving->gateway->clock), most);
    atomic_store(&serving->gateway->draining, true);
    for (size_t i = 0; i < serving->n; i++)
        worker_drain(&serving->workers[i]);
}

static void cmd_serve_retire(struct serving *serving)
{
    tg_ms most = atomic_load(&serving->gateway->drain_ms);

    fprintf(
        stderr,
        "tollgate: retiring, calls that are open: %lld; cut off in %.15g s, or by two signals\n",
        atomic_load(&serving->gateway->counts.open), (double)most / 1000);
    serving->drained_at = num_add(clock_now_ms(&serving->gateway->clock), most);
    for (size_t i = 0; i < serving->n; i++)
        worker_retire(&serving->workers[i]);
}

static void cut_off(struct serving *serving, const char *why)
{
    log_say(serving->json, &serving->gateway->clock, "%s: cutting off, calls that are open: %lld",
            why, atomic_load(&serving->gateway->counts.open));
    serving->drained_at = 0;
    for (size_t i = 0; i < serving->n; i++)
        net_loop_stop(serving->workers[i].loop);
}

/* The next signal is not waited for any more: it ends the process as it would any other. */
static void unblock_signals(struct serving *serving)
{
    sigset_t deadly;

    sigemptyset(&deadly);
    sigaddset(&deadly, SIGTERM);
    sigaddset(&deadly, SIGINT);
    sigdelset(&serving->signals, SIGTERM);
    sigdelset(&serving->signals, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &deadly, NULL);
}

/* The next signal; 0: none, and the time to drain is up. */
static int next_signal(struct serving *serving)
{
    for (int number = 0;;) {
        if (serving->drained_at > 0) {
            tg_ms left = serving->drained_at - clock_now_ms(&serving->gateway->clock);
            if (left <= 0)
                return 0;
            left = num_min(left, WAIT_MAX_MS); /* a time_t may have 32 bits */
            const struct timespec most = {.tv_sec = (time_t)(left / 1000),
                                          .tv_nsec = (long)(left % 1000) * 1000000};
            number = sigtimedwait(&serving->signals, NULL, &most);
        } else {
            number = sigwaitinfo(&serving->signals, NULL);
        }
        if (number > 0)
            return number;
    }
}

/* Until the last worker has ended. False: a second signal cut calls off. */
static bool wait_for_end(struct serving *serving)
{
    int endings = 0;
    bool retired = false, is_cut = false;

    for (;;) {
        int number = next_signal(serving);
        /* Who was taken over from may still have something to tell, which is told on. */
        if (atomic_load(&serving->joined) &&
            (!atomic_load(&serving->replaced) || endings > 0 || is_cut || number == 0 ||
             atomic_load(&serving->gateway->predecessors) == 0))
            return endings < 2;
        if (number == SIGUSR2 && atomic_load(&serving->replaced) && !retired) {
            retired = true;
            cmd_serve_retire(serving);
        }
        if (number == 0) {
            is_cut = true;
            cut_off(serving, "the time to drain is up");
        }
        if (number == SIGHUP)
            control_reload(&serving->control);
        if (number != SIGTERM && number != SIGINT)
            continue;
        if (++endings == 1)
            cmd_serve_drain(serving);
        if (endings == 2) {
            cut_off(serving, "a second signal came");
            unblock_signals(serving);
        }
    }
}

/* Threads run from here on. */
static bool serve_until_told(struct serving *serving)
{
    start_gate_open(&serving->gate);
    bool whole = wait_for_end(serving);
    pthread_join(serving->joiner, NULL);
    serving->joins = false;
    return whole;
}

/* The control thread is there until the last call has ended. */
static void stop_workers(struct serving *serving)
{
    start_gate_abandon(&serving->gate);
    if (serving->joins)
        pthread_join(serving->joiner, NULL);
    for (size_t i = 0; i < serving->n; i++)
        if (serving->workers[i].started)
            net_loop_stop(serving->workers[i].loop);
    for (size_t i = 0; i < serving->n; i++)
        worker_join(&serving->workers[i]);
    control_stop(&serving->control);
    for (size_t i = 0; i < serving->n; i++)
        worker_fini(&serving->workers[i]);
    control_fini(&serving->control);
    free(serving->workers);
    start_gate_fini(&serving->gate);
}

/* ---- the command ---- */

/* What there is before this process: sockets of the system's, or a process to take over from. */
static bool inherit(struct serving *serving, const struct config *config, bool takes_over,
                    struct clock *clock)
{
    struct tg_problem problem;

    inherited_init(&serving->inherited);
    if (inherited_from_system(&serving->inherited, &problem) &&
        (!takes_over || takeover_begin(config->ledger.path, config->log_json, &serving->inherited,
                                       clock, &serving->takeover, &problem)))
        return true;
    command_say(serving->command, "%s", problem.text);
    return false;
}

static int serve(const struct command *self, const char *path, const char *record, bool takes_over)
{
    struct serving serving = {.command = self};
    struct tg_problem problem;
    struct tg_problem why;
    struct config config;
    struct clock clock;
    int record_fd = -1;

    if (!load(self, path, &config))
        return STATUS_WRONG;
    if (record != NULL && (record_fd = observe_record_open(record, &why)) < 0) {
        command_say(self, "--record %s", why.text);
        config_free(&config);
        return STATUS_WRONG;
    }
    size_t workers = count_workers(&config);
    serving.json = config.log_json;
    raise_descriptors(self, config.limits.connections);
    take_signals(&serving); /* before the first thread, which inherits it */
    clock_init(&clock);
    bool good = inherit(&serving, &config, takes_over, &clock);
    if (!good) {
        config_free(&config);
    } else if (!gateway_new_from(&services, &config, &clock, workers + 1, &serving.inherited,
                                 &serving.gateway, &problem)) {
        command_say(self, "%s", problem.text);
        good = false;
    }
    if (!good) {
        takeover_free(serving.takeover);
        inherited_fini(&serving.inherited);
        if (record_fd >= 0)
            close(record_fd);
        return STATUS_FAILED;
    }
    start_gate_init(&serving.gate);
    serving.gateway->start_gate = &serving.gate;
    /* A recording begins with all that holds, and with what was spent by all who may spend. */
    good = add_extras(&serving, path);
    if (!good && record_fd >= 0)
        close(record_fd);
    if (good && !gateway_observe(serving.gateway, record_fd, &why)) {
        command_say(self, "%s", why.text);
        good = false;
    }
    good = good && start_workers(&serving, workers, path);
    serving.gateway->inherited = NULL;
    inherited_fini(&serving.inherited);
    takeover_free(serving.takeover);
    serving.takeover = NULL;
    if (good) {
        log_say(serving.json, &serving.gateway->clock, "listening on %s", serving.addresses);
        good = serve_until_told(&serving);
    }
    stop_workers(&serving);
    gateway_observe_end(serving.gateway);
    gateway_free(serving.gateway);
    return good ? STATUS_DONE : STATUS_FAILED;
}

static int run_serve(const struct command *self, int argc, char **argv)
{
    const char *path = NULL, *record = NULL;
    bool allow_core = false, takes_over = false;
    const struct cli_option options[] = {{"-c", "FILE", &path, NULL},
                                         {"--record", "FILE", &record, NULL},
                                         {"--takeover", NULL, NULL, &takes_over},
                                         {"--allow-core", NULL, NULL, &allow_core}};
    int rest = options_read(self, options, 4, argc, argv);

    if (rest < 0)
        return STATUS_WRONG;
    if (rest > 0) {
        command_say(self,
                    "unexpected argument '%s'; it takes -c FILE, --record FILE, --takeover and "
                    "--allow-core",
                    argv[1]);
        return STATUS_WRONG;
    }
    if (path == NULL) {
        command_say(self, "-c FILE is missing");
        return STATUS_WRONG;
    }
    if (!allow_core)
        forbid_cores(self);
    return serve(self, path, record, takes_over);
}

const struct command cmd_serve = {
    .name = "serve",
    .arguments = "-c FILE [--record FILE] [--takeover] [--allow-core]",
    .summary = "run the gateway",
    .help =
        "Serves the OpenAI and Anthropic APIs by the configuration in FILE: on listen.gateway for\n"
        "clients, on listen.grpc for those who ask for decisions, on listen.probe /healthz, "
        "/readyz\n"
        "and /metrics. When it listens it says so on stderr, with the ports; there goes a line "
        "for\n"
        "each call, too, unless log.level is above info. A stderr that nobody reads delays no "
        "call:\n"
        "lines are dropped then, and counted.\n"
        "\n"
        "--record appends a line of JSON to FILE for each call that has ended: when it came, who\n"
        "asked for what, how large it was and what became of it, without its contents. It is for\n"
        "`tollgate sim --trace` and `tollgate replay`. While another process records to FILE, it "
        "is\n"
        "FILE.1, or the next that is free.\n"
        "\n"
        "Files and environment variables that the configuration names have to be there. Core "
        "dumps\n"
        "are off, because secrets would be in them; --allow-core leaves them as the system has "
        "it.\n"
        "\n"
        "SIGTERM and SIGINT let it take no more calls, finish those that run and end; what runs "
        "after\n"
        "the time that `drain` gives is cut off, and by a second signal at once, and what it used "
        "is\n"
        "charged. SIGHUP reads the configuration again: if it is wrong, all stays as it is; if "
        "not, "
        "new\n"
        "calls run under it and old ones under the old.\n"
        "\n"
        "--takeover takes the place of the process that serves with the same ledger: its sockets, "
        "its\n"
        "ledger and what its limits have counted. No connection is refused. The old process "
        "finishes its\n"
        "calls and ends; if this one cannot start, the old one goes on as if nothing had happened. "
        "Where\n"
        "there is no such process, it starts as ever. Both must be of the same user. Sockets that "
        "systemd\n"
        "has opened (LISTEN_FDS), named gateway, grpc, admin or probe, are used in any case.\n"
        "\n"
        "Exit status: 0 it was told to end, and did within the time for it, or another took over; "
        "1 it could not start "
        "(an\n"
        "address or a ledger that is in use, a certificate that is none) or a second signal cut "
        "calls\n"
        "off; 2 the command line or the configuration is wrong.\n",
    .run = run_serve,
};
