/* reload.c - a new configuration for a gateway that runs. See reload.h. */
#include "server/runtime/reload.h"
#include "server/runtime/recorder.h"

#define XXH_INLINE_ALL
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <xxhash.h>

#include "server/obs/log.h"
#include "server/runtime/admin_extras.h"
#include "server/runtime/control.h"
#include "server/runtime/observe.h"
#include "server/runtime/worker.h"

enum state { IDLE, READING, TELLING };

enum { AGAIN_MS = 30000 }; /* after a reading that failed, without being asked */

struct request {
    reload_done *done; /* null: nobody waits */
    void *context;
    const char *why;
    STAILQ_ENTRY(request) link;
};

STAILQ_HEAD(requests, request);

struct reload {
    struct control *control;
    char *path;
    enum state state;
    struct requests asked;   /* answered by the reading that is under way; empty: none is */
    struct requests waiting; /* answered by the next one */
    struct net_post read, taken;
    tg_ms failed_at;                      /* when the last reading failed; 0: it did not */
    uint64_t started[RELOAD_RESTART_MAX]; /* what the process was started with: see STARTED */

    /* These belong to the thread that reads, until it posts `read`. */
    pthread_t thread;
    bool has_thread;
    struct generation *before, *made;
    struct config_problems problems;
    struct tg_problem failure; /* empty: none */

    atomic_size_t telling; /* workers that have not taken the new generation */
    struct reload_result result;
};

/* ---- reading ---- */

/* Files and variables that `check` only warns about have to be there now. */
static bool is_whole(const struct config_problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        if (problems->list[i].warning && problems->list[i].missing)
            return false;
    return true;
}

/* A generation that is in force; null: there is none, and `problems` or `failure` say why. */
static struct generation *make(struct gateway *gateway, struct config *config,
                               struct generation *before, struct tg_problem *failure)
{
    struct generation *made;

    if (!generation_new(gateway, config, before, &made, failure))
        return NULL;
    /* Where it is recorded it is one operation, with none of the workers' beside it. */
    uint64_t number = recorder_enter(gateway->recorder);
    tg_ms now = clock_now_ms(&gateway->clock);
    bool applied = generation_apply(made, before, now, failure);
    if (number != 0 && applied)
        gateway->recorder->ring = made;
    recorder_leave(gateway->recorder);
    recorder_note_change(gateway, number, now, applied ? "reload" : "reload_failed",
                         made->config.hash);
    if (applied)
        return made;
    generation_free(made);
    return NULL;
}

/* The files, and with them what an administrator made. */
static struct generation *read_with(struct gateway *gateway, const char *path,
                                    const struct admin_extras *extras, struct generation *before,
                                    struct config_problems *problems, struct tg_problem *failure)
{
    struct config config;

    failure->text[0] = '\0';
    if (config_load_with(path, extras->list, extras->n, &config, problems) == CONFIG_READ &&
        is_whole(problems))
        return make(gateway, &config, before, failure);
    config_free(&config);
    return NULL;
}

static void *reload_read_all(void *arg)
{
    struct reload *reload = arg;
    struct gateway *gateway = reload->control->gateway;
    struct admin_extras extras;

    reload->made = NULL;
    if (admin_extras_read(gateway->ledger, clock_wall_ms(&gateway->clock), &extras,
                          &reload->failure)) {
        reload->made = read_with(gateway, reload->path, &extras, reload->before, &reload->problems,
                                 &reload->failure);
        admin_extras_free(&extras);
    }
    net_loop_post(reload->control->loop, &reload->read);
    return NULL;
}

bool reload_at_start(struct gateway *gateway, const char *path, struct config_problems *problems,
                     struct tg_problem *failure)
{
    struct generation *files = gateway_newest(gateway), *all = NULL;
    struct admin_extras extras;

    memset(problems, 0, sizeof *problems);
    if (!admin_extras_read(gateway->ledger, clock_wall_ms(&gateway->clock), &extras, failure))
        return false;
    bool none = extras.n == 0;
    if (!none)
        all = read_with(gateway, path, &extras, files, problems, failure);
    admin_extras_free(&extras);
    if (all == NULL)
        return none;
    LIST_REMOVE(files, link);
    LIST_INSERT_HEAD(&gateway->generations, all, link);
    generation_free(files);
    return true;
}

static void reload_begin(struct reload *reload)
{
    assert(reload->state == IDLE && STAILQ_EMPTY(&reload->asked));
    assert(!STAILQ_EMPTY(&reload->waiting) && !reload->has_thread && reload->made == NULL);
    STAILQ_CONCAT(&reload->asked, &reload->waiting);
    reload->before = reload->control->generation;
    reload->state = READING;
    reload->has_thread =
        reload->path != NULL &&
        !atomic_load_explicit(&reload->control->gateway->draining, memory_order_relaxed) &&
        !atomic_load_explicit(&reload->control->gateway->handing_over, memory_order_relaxed) &&
        pthread_create(&reload->thread, NULL, reload_read_all, reload) == 0;
    if (reload->has_thread)
        return;
    snprintf(
        reload->failure.text, sizeof reload->failure.text, "%s",
        reload->path == NULL
            ? "there is no file that it could be read from"
            : "the gateway is about to end or being taken over, or no thread could be started");
    reload->made = NULL;
    net_loop_post(reload->control->loop, &reload->read);
}

/* ---- answering ---- */

static void log_problems(struct log *log, const struct config_problems *problems)
{
    for (size_t i = 0; i < problems->n; i++) {
        const struct config_problem *at = &problems->list[i];
        const struct log_field fields[] = {
            LOG_TEXT("file", at->file), LOG_NUMBER("line", (int64_t)at->line),
            LOG_NUMBER("column", (int64_t)at->column), LOG_TEXT("text", at->text)};
        bool warning = at->warning && !at->missing;
        log_event(log, warning ? LOG_WARN : LOG_ERROR,
                  warning ? "warning of the configuration" : "error in the configuration", fields,
                  4);
    }
}

static void log_result(struct log *log, const struct reload_result *result, const char *why)
{
    const struct log_field fields[] = {LOG_TEXT("why", why),
                                       LOG_NUMBER("generation", (int64_t)result->generation),
                                       LOG_TEXT("hash", result->hash),
                                       LOG_TEXT("failure", result->failure ? result->failure : "")};

    log_problems(log, result->problems);
    log_event(log, result->ok ? LOG_INFO : LOG_ERROR,
              result->ok ? "the configuration was read again" : "the configuration stays as it is",
              fields, 4);
    for (size_t i = 0; i < result->n_restart; i++) {
        const struct log_field what[] = {LOG_TEXT("what", result->restart[i])};
        log_event(log, LOG_WARN, "this change needs a restart", what, 1);
    }
}

static void reload_say(const struct reload *reload)
{
    const struct reload_result *result = &reload->result;
    struct log *log = reload->control->gateway->log;

    if (log != NULL) {
        log_result(log, result, STAILQ_FIRST(&reload->asked)->why);
        return;
    }
    for (size_t i = 0; i < reload->problems.n; i++) {
        const struct config_problem *at = &reload->problems.list[i];
        fprintf(stderr, "%s:%zu:%zu: %s%s\n", at->file, at->line, at->column,
                at->warning && !at->missing ? "warning: " : "", at->text);
    }
    if (!result->ok)
        fprintf(stderr, "tollgate: the configuration stays as it is%s%s (%s)\n",
                result->failure ? ": " : "", result->failure ? result->failure : "",
                STAILQ_FIRST(&reload->asked)->why);
    else
        fprintf(stderr, "tollgate: generation %llu of the configuration, %.12s (%s)\n",
                (unsigned long long)result->generation, result->hash,
                STAILQ_FIRST(&reload->asked)->why);
    for (size_t i = 0; i < result->n_restart; i++)
        fprintf(stderr, "tollgate: warning: %s has changed, which needs a restart\n",
                result->restart[i]);
}

static void reload_count(struct reload *reload, bool ok)
{
    struct gateway_counts *counts = &reload->control->gateway->counts;

    atomic_fetch_add_explicit(ok ? &counts->reloads : &counts->reloads_failed, 1,
                              memory_order_relaxed);
    atomic_store_explicit(&counts->reload_failed, !ok, memory_order_relaxed);
    reload->control->gateway->last_reload = (struct last_reload){
        .at = clock_wall_ms(&reload->control->gateway->clock),
        .ok = ok,
        .why = STAILQ_FIRST(&reload->asked)->why,
        .errors = ok ? 0 : reload->problems.errors + (reload->failure.text[0] != '\0')};
}

static void reload_finish(struct reload *reload, bool ok)
{
    struct reload_result *result = &reload->result;
    const struct generation *now = reload->control->generation;
    struct request *request;

    assert(reload->state == (ok ? TELLING : READING) && reload->made == NULL);
    result->ok = ok;
    result->generation = now->number;
    memcpy(result->hash, now->config.hash, sizeof result->hash);
    result->problems = &reload->problems;
    result->failure = reload->failure.text[0] != '\0' ? reload->failure.text : NULL;
    reload->failed_at = ok ? 0 : control_now(reload->control);
    reload_count(reload, ok);
    reload_say(reload);
    while ((request = STAILQ_FIRST(&reload->asked)) != NULL) {
        STAILQ_REMOVE_HEAD(&reload->asked, link);
        if (request->done)
            request->done(request->context, result);
        free(request);
    }
    config_problems_free(&reload->problems);
    memset(&reload->problems, 0, sizeof reload->problems);
    memset(result, 0, sizeof *result);
    reload->state = IDLE;
    if (!STAILQ_EMPTY(&reload->waiting))
        reload_begin(reload);
}

/* ---- what a running process cannot change ---- */

/* What stands for a setting: two that differ have the same once in 2^64. */
static uint64_t of_text(const char *text)
{
    return text != NULL ? XXH3_64bits(text, strlen(text)) : 0;
}

static uint64_t of_number(int64_t number)
{
    return (uint64_t)number;
}

static const char *const STARTED[] = {
    "listen.gateway",   "listen.admin",  "listen.probe", "listen.grpc",   "listen.tls",
    "listen.admin_tls", "limits.header", "workers",      "otlp.endpoint", "ledger.path",
    "ledger.failure",   "store",         "store_prefix", "store_timeout", "store_tls",
    "two_tier.block",   "ledger.export"};

enum { N_STARTED = sizeof STARTED / sizeof STARTED[0] };

_Static_assert(N_STARTED <= RELOAD_RESTART_MAX, "each has its place");

/* In the order of their names. */
static void read_started(const struct config *config, uint64_t values[N_STARTED])
{
    const uint64_t all[] = {of_text(config->listen.gateway),
                            of_text(config->listen.admin),
                            of_text(config->listen.probe),
                            of_text(config->listen.grpc),
                            config->listen.tls.cert != NULL,
                            config->listen.admin_tls.cert != NULL,
                            of_number(config->limits.header),
                            of_number(config->workers),
                            of_text(config->otlp.host) + of_number(config->otlp.port),
                            of_text(config->ledger.path),
                            config->ledger.failure,
                            of_text(config->store.url),
                            of_text(config->store.prefix),
                            of_number(config->store.timeout),
                            of_text(config->store.ca) + 3 * of_text(config->store.cert) +
                                5 * of_text(config->store.key),
                            of_number(config->store.block),
                            of_text(config->ledger.export)};

    _Static_assert(sizeof all / sizeof all[0] == N_STARTED, "each has its name");
    memcpy(values, all, sizeof all);
}

/* What differs from what the process was started with: that is what runs, whatever was read since.
 */
static void find_restarts(struct reload_result *result, const uint64_t started[N_STARTED],
                          const struct config *config)
{
    uint64_t now[N_STARTED];

    read_started(config, now);
    result->n_restart = 0;
    for (size_t i = 0; i < N_STARTED; i++)
        if (now[i] != started[i])
            result->restart[result->n_restart++] = STARTED[i];
}

/* ---- telling ---- */

static void all_taken(void *arg)
{
    struct reload *reload = arg;

    if (reload->state == TELLING && atomic_load(&reload->telling) == 0)
        reload_finish(reload, true);
}

/* On a worker's thread: it has taken the new generation. */
static void reload_taken(void *arg)
{
    struct reload *reload = arg;

    size_t telling = atomic_fetch_sub(&reload->telling, 1);

    assert(telling > 0);
    if (telling == 1)
        net_loop_post(reload->control->loop, &reload->taken);
}

static void reload_tell(struct reload *reload)
{
    struct control *control = reload->control;
    struct generation *made = reload->made;
    struct gateway *gateway = control->gateway;

    find_restarts(&reload->result, reload->started, &made->config);
    reload->made = NULL;
    LIST_INSERT_HEAD(&gateway->generations, made, link);
    gateway_set_census(gateway, &made->config);
    atomic_store(&gateway->drain_ms, made->config.drain);
    control->generation = made;
    control_renew_tls(control);
    gateway_observe_change(gateway, &made->config);
    generation_leave(reload->before, control->number);
    reload->state = TELLING;
    atomic_store(&reload->telling, control->n_workers);
    for (size_t i = 0; i < control->n_workers; i++)
        worker_take(&control->workers[i], made, reload_taken, reload);
}

static void has_read(void *arg)
{
    struct reload *reload = arg;

    if (reload->state != READING)
        return;
    if (reload->has_thread)
        pthread_join(reload->thread, NULL);
    reload->has_thread = false;
    if (reload->made)
        reload_tell(reload);
    else
        reload_finish(reload, false);
}

/* ---- asking ---- */

bool reload_request(struct reload *reload, const char *why, reload_done *done, void *context)
{
    struct request *request = calloc(1, sizeof *request);

    assert(control_is_mine(reload->control));
    if (request == NULL)
        return false;
    *request = (struct request){.done = done, .context = context, .why = why};
    STAILQ_INSERT_TAIL(&reload->waiting, request, link);
    if (reload->state == IDLE)
        reload_begin(reload);
    return true;
}

void reload_forget(struct reload *reload, const void *context)
{
    struct request *request;

    STAILQ_FOREACH(request, &reload->asked, link)
        if (request->context == context)
            request->done = NULL;
    STAILQ_FOREACH(request, &reload->waiting, link)
        if (request->context == context)
            request->done = NULL;
}

bool reload_may_try(const struct reload *reload)
{
    return reload->state == IDLE &&
           (reload->failed_at == 0 || control_now(reload->control) - reload->failed_at >= AGAIN_MS);
}

/* ---- life ---- */

struct reload *reload_new(struct control *control, const char *path)
{
    struct reload *reload = calloc(1, sizeof *reload);

    if (reload == NULL)
        return NULL;
    reload->control = control;
    reload->path = path ? strdup(path) : NULL;
    read_started(&control->generation->config, reload->started);
    STAILQ_INIT(&reload->asked);
    STAILQ_INIT(&reload->waiting);
    net_post_init(&reload->read, has_read, reload);
    net_post_init(&reload->taken, all_taken, reload);
    if (path == NULL || reload->path != NULL)
        return reload;
    free(reload);
    return NULL;
}

static void free_requests(struct requests *list)
{
    struct request *request;

    while ((request = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        free(request);
    }
}

void reload_free(struct reload *reload)
{
    if (reload == NULL)
        return;
    if (reload->has_thread)
        pthread_join(reload->thread, NULL);
    net_loop_unpost(reload->control->loop, &reload->read);
    net_loop_unpost(reload->control->loop, &reload->taken);
    if (reload->made) /* it is in force already: keys belong to it */
        LIST_INSERT_HEAD(&reload->control->gateway->generations, reload->made, link);
    free_requests(&reload->asked);
    free_requests(&reload->waiting);
    config_problems_free(&reload->problems);
    free(reload->path);
    free(reload);
}
