/* mock.c - an upstream that speaks the APIs of OpenAI, Anthropic and Gemini: its workers.
 *
 * Each worker has a thread, a loop and a listener on the same port; the kernel deals connections
 * out. Scripts are never freed before the end: a request keeps the one it began with, and a count
 * of users in every request would cost more than the few scripts of a test.
 */
#include "lab/mock/mock.h"

#include <signal.h>
#include <stdlib.h>

#include "lab/mock/mock_internal.h"
#include "lib/core/problem.h"

struct mock_scripts {
    struct mock_scripts *next;
    struct mock_script *script;
};

void mock_options_init(struct mock_options *options)
{
    *options = (struct mock_options){.workers = 1,
                                     .models = "demo-small,demo-large,demo-tiny",
                                     .auth = {.token_life_s = 3600},
                                     .keep = 10000};
    mock_base_init(&options->base);
}

/* ---- Scripts --------------------------------------------------------------------------------- */

bool mock_set_script(struct mock *mock, struct mock_script *script)
{
    struct mock_scripts *entry = malloc(sizeof *entry);

    if (entry == NULL)
        return false;
    pthread_mutex_lock(&mock->scripts_lock);
    *entry = (struct mock_scripts){mock->scripts, script};
    mock->scripts = entry;
    /* Release: who sees the pointer sees what it points to. */
    atomic_store_explicit(&mock->script, script, memory_order_release);
    pthread_mutex_unlock(&mock->scripts_lock);
    return true;
}

static void free_scripts(struct mock_scripts *entry)
{
    while (entry != NULL) {
        struct mock_scripts *next = entry->next;
        mock_script_free(entry->script);
        free(entry);
        entry = next;
    }
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void *run_worker(void *arg)
{
    struct mock_worker *worker = arg;

    net_loop_run(worker->loop);
    return NULL;
}

static enum tg_err open_worker(struct mock *mock, struct mock_worker *worker,
                               struct tg_problem *problem)
{
    struct http_listen_options listen;
    char address[32];

    worker->mock = mock;
    json_writer_init(&worker->line);
    worker->reader = json_reader_new();
    if (worker->reader == NULL || net_loop_new(&mock->clock, &worker->loop) != TG_OK)
        return problem_say(problem, TG_ERR_MEMORY, "there is no memory for a worker");
    http_listen_options_init(&listen);
    listen.ops = &mock_server_ops;
    listen.context = worker;
    /* Patient: a script may want a client that takes its time, or one that is made to. */
    listen.limits.body_ms = listen.limits.idle_ms = listen.limits.write_ms = 600000;
    snprintf(address, sizeof address, "127.0.0.1:%d", mock->port);
    /* If two mocks had one port, each would have a part of the connections: a forgotten one would
     * spoil a test in ways that are hard to see. */
    listen.alone = worker == mock->workers;
    enum tg_err err = http_listen(worker->loop, address, &listen, &worker->listener, problem);
    if (err == TG_OK)
        mock->port = http_listener_port(worker->listener);
    return err;
}

static void close_worker(struct mock_worker *worker)
{
    struct mock_exchange *x;

    if (worker->running) {
        net_loop_stop(worker->loop);
        pthread_join(worker->thread, NULL);
    }
    http_listener_free(worker->listener);
    while ((x = SLIST_FIRST(&worker->spare)) != NULL) {
        SLIST_REMOVE_HEAD(&worker->spare, next);
        mock_exchange_free(x);
    }
    if (worker->loop != NULL)
        net_loop_free(worker->loop);
    if (worker->reader != NULL)
        json_reader_free(worker->reader);
    json_writer_fini(&worker->line);
    text_out_fini(&worker->scratch);
    text_out_fini(&worker->padding);
}

/* Signals are for the thread that started the mock. */
static enum tg_err start_threads(struct mock *mock, struct tg_problem *problem)
{
    sigset_t all, before;
    enum tg_err err = TG_OK;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (int i = 0; i < mock->options.workers && err == TG_OK; i++) {
        struct mock_worker *worker = &mock->workers[i];

        worker->running = pthread_create(&worker->thread, NULL, run_worker, worker) == 0;
        if (!worker->running)
            err = problem_say(problem, TG_ERR_STORE, "cannot start a thread");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static struct mock *mock_new(const struct mock_options *options, struct mock_script *script)
{
    struct mock *mock = calloc(1, sizeof *mock);

    if (mock == NULL)
        return NULL;
    mock->options = *options;
    mock->port = options->port;
    mock->workers = calloc((size_t)options->workers, sizeof *mock->workers);
    if (mock->workers == NULL)
        goto free_mock;
    if (!mock_records_init(&mock->records, options->keep, options->record))
        goto free_workers;
    pthread_mutex_init(&mock->scripts_lock, NULL);
    if (!mock_auth_init(&mock->auth, &mock->options.auth) || !mock_set_script(mock, script))
        goto free_records;
    mock_quota_init(&mock->quota, options->rpm);
    clock_init(&mock->clock);
    mock->started_at = clock_now_ms(&mock->clock);
    return mock;

free_records:
    mock_auth_fini(&mock->auth);
    pthread_mutex_destroy(&mock->scripts_lock);
    mock_records_fini(&mock->records);
free_workers:
    free(mock->workers);
free_mock:
    free(mock);
    return NULL;
}

enum tg_err mock_start(const struct mock_options *options, struct mock_script *script,
                       struct mock **made, struct tg_problem *problem)
{
    struct mock *mock = mock_new(options, script);
    enum tg_err err = TG_OK;

    if (mock == NULL) {
        mock_script_free(script);
        return problem_say(problem, TG_ERR_MEMORY,
                           options->auth.account != NULL
                               ? "there is no memory, or the service account is none"
                               : "there is no memory");
    }
    for (int i = 0; i < options->workers && err == TG_OK; i++)
        err = open_worker(mock, &mock->workers[i], problem);
    if (err == TG_OK)
        err = start_threads(mock, problem);
    if (err == TG_OK)
        *made = mock;
    else
        mock_stop(mock);
    return err;
}

int mock_port(const struct mock *mock)
{
    return mock->port;
}

bool mock_stop(struct mock *mock)
{
    bool good;

    for (int i = 0; i < mock->options.workers; i++)
        close_worker(&mock->workers[i]);
    good = !mock->records.failed;
    free_scripts(mock->scripts);
    mock_auth_fini(&mock->auth);
    pthread_mutex_destroy(&mock->scripts_lock);
    mock_quota_fini(&mock->quota);
    mock_records_fini(&mock->records);
    free(mock->workers);
    free(mock);
    return good;
}
