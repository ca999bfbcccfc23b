/* state_log.c - what changes by itself, as lines of the log. See state_log.h. */
#include "server/admin/state_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/runtime/gateway.h"

/* Ten a second. */
enum { LOOKS_TO_CONNECT = 10 };

void state_log_init(struct state_log *state_log)
{
    memset(state_log, 0, sizeof *state_log);
}

void state_log_fini(struct state_log *state_log)
{
    free(state_log->limits);
    key_log_fini(&state_log->keys);
    state_log_init(state_log);
}

/* ---- Laws and the ledger -------------------------------------------------------------------- */

/* The limit now; where it is not what it was, that is said. */
static int64_t log_law(struct tg_gate *gate, const char *name, int64_t before, struct log *log)
{
    struct tg_law_metrics law;

    tg_gate_get_law(gate, &law);
    if (law.law != TG_LAW_VEGAS)
        return 0;
    if (before > 0 && law.limit != before) {
        const struct log_adjustment adjustment = {.gate = name,
                                                  .old_limit = before,
                                                  .new_limit = law.limit,
                                                  .queue_estimate = law.queue_estimate,
                                                  .avg_latency_ms = law.mean_ms,
                                                  .min_latency_ms = law.baseline_ms};
        log_vegas_adjustment(log, &adjustment);
    }
    return law.limit;
}

/* Another generation may have other slots: what they begin with is no step. */
static bool state_log_begin(struct state_log *state_log, const struct generation *generation)
{
    size_t n = generation->n_slots;
    int64_t *limits = calloc(n + 1, sizeof *limits);

    if (limits == NULL)
        return false;
    free(state_log->limits);
    state_log->limits = limits;
    state_log->n = n;
    state_log->generation = generation->number;
    return true;
}

static void log_laws(struct state_log *state_log, struct gateway *gateway,
                     const struct generation *generation)
{
    struct log *log = gateway->log;
    char name[SLOTS_NAME_MAX];

    if (!log_is_on(log, LOG_DEBUG) ||
        (state_log->generation != generation->number && !state_log_begin(state_log, generation)))
        return;
    state_log->gate = log_law(gateway->gate, "all", state_log->gate, log);
    for (size_t i = 0; i < state_log->n; i++) {
        const struct slots_entry *entry = &generation->slots[i];
        slots_name(entry, name);
        state_log->limits[i] = log_law(entry->slots->gate, name, state_log->limits[i], log);
    }
}

static void log_ledger(struct state_log *state_log, struct gateway *gateway)
{
    static const char *const NAMES[] = {"well", "late", "full"};
    struct ledger_state state;

    ledger_get_state(gateway->ledger, &state);
    if (state.interrupted > 0 && !state_log->interrupted) {
        const struct log_field lost[] = {
            LOG_NUMBER("calls", (int64_t)state.interrupted),
            LOG_NUMBER("uncertain_micro_usd", state.interrupted_micro)};
        log_event(gateway->log, LOG_WARN,
                  "calls were in flight when the last process died: settled as reserved", lost, 2);
        state_log->interrupted = true;
    }
    bool failed = state.export_problem[0] != '\0';
    if (failed != state_log->export_failed)
        log_event(gateway->log, failed ? LOG_ERROR : LOG_INFO,
                  failed ? "a day of the ledger could not be exported"
                         : "days of the ledger are exported again",
                  &LOG_TEXT("why", state.export_problem), 1);
    state_log->export_failed = failed;
    if (state.health == state_log->ledger)
        return;
    const struct log_field fields[] = {
        LOG_TEXT("old_state", NAMES[state_log->ledger]), LOG_TEXT("new_state", NAMES[state.health]),
        LOG_TEXT("why", state.reason), LOG_NUMBER("waiting", (int64_t)state.waiting),
        LOG_NUMBER("room", (int64_t)state.room)};
    log_event(gateway->log,
              state.health == LEDGER_WELL   ? LOG_INFO
              : state.health == LEDGER_LATE ? LOG_WARN
                                            : LOG_ERROR,
              "the ledger's state has changed", fields, 5);
    state_log->ledger = state.health;
}

/* One line when it goes and one when it is back, however many connections there are. */
static void log_remote(struct state_log *state_log, struct gateway *gateway,
                       const struct config_store *config)
{
    enum remote_health now = remote_health_of(gateway->remote);
    bool lost = now == REMOTE_DOWN && atomic_load(&gateway->remote->met);
    char why[240];

    if (now != REMOTE_WELL && !lost && state_log->store_views < LOOKS_TO_CONNECT) {
        state_log->store_views++;
        return;
    }
    state_log->store_views = LOOKS_TO_CONNECT;
    if ((now == REMOTE_WELL) == (state_log->store == REMOTE_WELL))
        return;
    remote_problem(gateway->remote, why, sizeof why);
    const struct log_field fields[] = {
        LOG_TEXT("new_state", remote_health_name(now)), LOG_TEXT("why", why),
        LOG_TEXT("limits", remote_mode_name(remote_mode_of(config->limits))),
        LOG_TEXT("budget", remote_mode_name(remote_mode_of(config->budget))),
        LOG_NUMBER("nodes", (int64_t)atomic_load(&gateway->remote->nodes))};
    log_event(gateway->log, now == REMOTE_WELL ? LOG_INFO : LOG_ERROR,
              now == REMOTE_WELL ? "the store is back"
                                 : "the store is away, and decisions are made without it",
              fields, now == REMOTE_WELL ? 1 : 5);
    state_log->store = now;
}

void state_log_update(struct state_log *state_log, struct gateway *gateway,
                      const struct generation *generation)
{
    if (gateway->log == NULL)
        return;
    log_laws(state_log, gateway, generation);
    key_log_update(&state_log->keys, gateway, generation, clock_now_ms(&gateway->clock));
    if (gateway->ledger != NULL)
        log_ledger(state_log, gateway);
    if (gateway->remote != NULL)
        log_remote(state_log, gateway, &generation->config.store);
}
