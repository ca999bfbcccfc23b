/* spend_store.c - asks Redis what all gateways have reported of each budget. See spend_store.h.
 *
 * One HGETALL a window, in the order of the budgets, on a loop that turns until all are answered.
 * The names of windows are those of server/remote_store (docs/distributed.md, "What is stored"):
 * `s` is the sum over all ledgers, `l:LEDGER` what one of them has told.
 */
#include "cli/spend_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/net/loop.h"
#include "io/net/tls.h"
#include "io/redis/redis.h"
#include "lib/core/container_of.h"
#include "server/remote_store/remote_name.h"

enum { CONNECT_MS = 2000, KEY_MAX = 2048 };

struct spend_window {
    struct redis_ask ask;
    struct spend_store *store;
    struct spend_budget *budget;
};

struct spend_store {
    struct clock clock;
    struct net_loop *loop;
    struct tls_context *tls;
    struct redis *redis;
    struct spend_window *windows;
    size_t waiting;
    bool over;
    char own[24]; /* the field of this ledger */
};

static void window_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct spend_window *window = container_of(ask, struct spend_window, ask);
    struct spend_budget *budget = window->budget;
    struct spend_store *store = window->store;

    store->waiting--;
    if (redis_reply_is_error(reply))
        return;
    budget->stored = true;
    for (size_t i = 0; i + 1 < redis_reply_n(reply); i += 2) {
        struct slice name = redis_reply_text(redis_reply_at(reply, i));
        int64_t value = redis_reply_number(redis_reply_at(reply, i + 1));
        if (slice_equal(name, SLICE("s")))
            budget->stored_micro = value;
        if (slice_equal(name, slice_of(store->own)))
            budget->told = value;
        budget->ledgers += name.n > 2 && memcmp(name.at, "l:", 2) == 0;
    }
}

static const char *root_of(const struct config *config, const char *name)
{
    const struct config_tenant *tenant = config_tenant(config, name, strlen(name));

    while (tenant != NULL && tenant->parent != CONFIG_NO_PARENT)
        tenant = &config->tenants[tenant->parent];
    return tenant != NULL ? tenant->name : name;
}

static void ask_window(struct spend_window *window, const struct config *config)
{
    const struct spend_budget *budget = window->budget;
    char key[KEY_MAX], span[48];
    struct remote_text text = {key, sizeof key, 0};
    struct slice words[2] = {SLICE("HGETALL"), {key, 0}};

    remote_text_put(&text, slice_of(config->store.prefix));
    remote_text_put(&text, SLICE(":money:{"));
    remote_text_name(&text,
                     slice_of(budget->tenant != NULL ? root_of(config, budget->tenant) : ""));
    remote_text_put(&text, SLICE("}:"));
    if (budget->tenant != NULL) {
        remote_text_put(&text, budget->key != NULL ? SLICE("k:") : SLICE("t:"));
        remote_text_name(&text, slice_of(budget->tenant));
        remote_text_put(&text, SLICE(":"));
    }
    if (budget->key != NULL) {
        remote_text_name(&text, slice_of(budget->key));
        remote_text_put(&text, SLICE(":"));
    }
    int n = snprintf(span, sizeof span, "%" PRId64 "-%" PRId64, budget->begin, budget->end);
    remote_text_put(&text, (struct slice){span, (size_t)n});
    if (!remote_text_fits(&text))
        return;
    words[1].n = text.n;
    redis_ask_init(&window->ask, window_answered, NULL);
    window->store->waiting++;
    redis_command(window->store->redis, &window->ask, words, 2, 1);
}

static void time_is_over(void *arg)
{
    struct spend_store *store = arg;

    store->over = true;
}

/* A single server says at once that it is not there; of several, another may answer. */
static void wait_for(struct spend_store *store, bool single)
{
    struct redis_stats stats;

    do {
        net_loop_turn(store->loop, true);
        redis_get_stats(store->redis, &stats);
    } while (!store->over && !redis_is_up(store->redis, NULL) &&
             !(single && stats.problem[0] != '\0'));
}

static bool spend_store_connect(struct spend_store *store, const struct config_store *config,
                                struct net_timer *timer)
{
    struct tg_problem why, *problem = &why;
    struct redis_options options;

    redis_options_init(&options);
    options.timeout = options.patience = options.connect = CONNECT_MS;
    bool made = redis_url_read(config->url, &options, problem) == TG_OK &&
                net_loop_new(&store->clock, &store->loop) == TG_OK &&
                (!options.secure || tls_client_new(config->ca, config->cert, config->key,
                                                   &store->tls, problem) == TG_OK);
    options.tls = store->tls;
    made = made && redis_new(store->loop, &options, &store->redis, problem) == TG_OK;
    bool single = options.kind == REDIS_SINGLE;
    redis_options_wipe(&options);
    if (!made)
        return false;
    net_timer_set(store->loop, timer, CONNECT_MS);
    wait_for(store, single);
    return redis_is_up(store->redis, NULL);
}

static void ask_all(struct spend_store *store, struct spend_report *report,
                    const struct config *config)
{
    store->windows = calloc(report->n_budgets + 1, sizeof *store->windows);
    for (size_t i = 0; store->windows != NULL && i < report->n_budgets; i++) {
        store->windows[i] = (struct spend_window){.store = store, .budget = &report->budgets[i]};
        ask_window(&store->windows[i], config);
    }
    while (store->waiting > 0 && !store->over)
        net_loop_turn(store->loop, true);
}

void spend_store_read(struct spend_report *report, const struct config *config, uint64_t ledger)
{
    struct spend_store store = {.waiting = 0};
    struct net_timer timer;

    if (!config_store_is_remote(&config->store) || report->n_budgets == 0)
        return;
    report->store = SPEND_STORE_AWAY;
    snprintf(store.own, sizeof store.own, "l:%016" PRIx64, ledger);
    clock_init(&store.clock);
    net_timer_init(&timer, time_is_over, &store);
    if (spend_store_connect(&store, &config->store, &timer)) {
        ask_all(&store, report, config);
        if (store.waiting == 0)
            report->store = SPEND_STORE_OK;
    }
    if (store.loop != NULL)
        net_timer_stop(store.loop, &timer);
    redis_free(store.redis);
    tls_context_unref(store.tls);
    if (store.loop != NULL)
        net_loop_free(store.loop);
    free(store.windows);
}
