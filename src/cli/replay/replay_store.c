/* replay_store.c - `tollgate replay --store`. See replay_store.h.
 *
 * A loop of its own, turned only while something is waited for. Settlements are waited for before
 * the next take goes out: on the wire they keep their order, but a server that does not know the
 * script yet, or no longer has the slot, makes the client send it a second time, after the take.
 */
#include "cli/replay/replay_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "cli/replay/replay_names.h"
#include "io/net/loop.h"
#include "io/net/tls.h"
#include "server/remote_store/remote_limits_codec.h"

/* A replay has time: a server that is slow is waited for. */
static const tg_ms PATIENCE = 30000, CONNECT = 5000;

enum { SENT_MAX = 512, PREFIX_MAX = 200, REMOVALS = 128 };

struct removal {
    struct redis_ask ask; /* first: the client knows it by this */
    struct replay_store *store;
};

struct replay_store {
    const struct command *command;
    struct clock clock;
    struct net_loop *loop;
    struct tls_context *tls;
    struct redis *redis;
    struct remote_limits *limits;
    char prefix[PREFIX_MAX + 1];
    bool leaves_keys;
    bool connected;           /* once */
    struct replay_names keys; /* all keys that the replay has made */
    struct limits_codec codec;
    struct tg_problem problem; /* the first */

    bool decided; /* the take that is waited for */
    enum tg_err err;
    struct tg_axes *axes;
    struct remote_charge *charge;

    size_t removing;
    struct removal removals[REMOVALS];
};

/* ---- opening ---- */

/* Braces would decide about slots. */
static bool is_prefix(const char *prefix)
{
    size_t n = strlen(prefix);

    for (size_t i = 0; i < n; i++)
        if (prefix[i] <= ' ' || prefix[i] > '~' || prefix[i] == '{' || prefix[i] == '}')
            return false;
    return n > 0 && n <= PREFIX_MAX;
}

static bool set_prefix(struct replay_store *store, const char *given)
{
    uint64_t chance;

    store->leaves_keys = given != NULL;
    if (given != NULL && !is_prefix(given)) {
        command_say(store->command,
                    "--store-prefix is '%.80s'; it must have 1 to %d printable characters, and no "
                    "space or brace among them",
                    given, PREFIX_MAX);
        return false;
    }
    if (given != NULL) {
        snprintf(store->prefix, sizeof store->prefix, "%s", given);
        return true;
    }
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        chance = (uint64_t)clock_monotonic_ns();
    snprintf(store->prefix, sizeof store->prefix, "tg:replay:%016" PRIx64, chance);
    return true;
}

static bool make_client(struct replay_store *store, struct redis_options *options)
{
    struct remote_limits_options limits;
    struct tg_problem problem = {"no memory"};

    options->timeout = options->patience = PATIENCE;
    options->connect = CONNECT;
    remote_limits_options_init(&limits);
    limits.prefix = store->prefix;
    limits.callers_clock = true;
    clock_init(&store->clock);
    bool made =
        net_loop_new(&store->clock, &store->loop) == TG_OK &&
        (!options->secure || tls_client_new(NULL, NULL, NULL, &store->tls, &problem) == TG_OK);
    if (made) {
        options->tls = store->tls;
        made = redis_new(store->loop, options, &store->redis, &problem) == TG_OK;
    }
    limits.redis = store->redis;
    if (made && remote_limits_new(&limits, &store->limits) == TG_OK)
        return true;
    command_say(store->command, "--store: %s", problem.text);
    return false;
}

static void wake_up(void *arg)
{
    (void)arg; /* the turn ends */
}

/* A single server says at once that it is not there; of several, another may answer. */
static bool connect_to(struct replay_store *store, enum redis_kind kind)
{
    struct net_timer timer;
    struct redis_stats stats;
    tg_ms until = net_loop_now(store->loop) + CONNECT;

    net_timer_init(&timer, wake_up, NULL);
    net_timer_set(store->loop, &timer, CONNECT);
    for (;;) {
        redis_get_stats(store->redis, &stats);
        bool unreachable = kind == REDIS_SINGLE && stats.problem[0] != '\0';
        if (redis_is_up(store->redis, NULL) || unreachable || net_loop_now(store->loop) >= until)
            break;
        net_loop_turn(store->loop, true);
    }
    net_timer_stop(store->loop, &timer);
    if (redis_is_up(store->redis, NULL))
        return true;
    command_say(store->command, "--store: cannot reach Redis: %s",
                stats.problem[0] != '\0' ? stats.problem : "no answer");
    return false;
}

struct replay_store *replay_store_open(const struct command *command, const char *url,
                                       const char *prefix, int *status)
{
    struct replay_store *store = calloc(1, sizeof *store);
    struct redis_options options;
    struct tg_problem problem;

    *status = STATUS_FAILED;
    if (store == NULL) {
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return NULL;
    }
    store->command = command;
    redis_options_init(&options);
    if (redis_url_read(url, &options, &problem) != TG_OK) {
        command_say(command, "--store: %s", problem.text);
        *status = STATUS_WRONG;
    } else if (!set_prefix(store, prefix)) {
        *status = STATUS_WRONG;
    } else if (make_client(store, &options) && connect_to(store, options.kind)) {
        store->connected = true;
        *status = STATUS_DONE;
    }
    redis_options_wipe(&options);
    if (*status == STATUS_DONE)
        return store;
    replay_store_close(store, *status);
    return NULL;
}

/* ---- waiting ---- */

static void wait_for_sent(struct replay_store *store, size_t at_most)
{
    while (remote_limits_in_flight(store->limits) > at_most)
        net_loop_turn(store->loop, true);
}

static void note_problem(struct replay_store *store, const char *what)
{
    struct redis_stats stats;

    if (store->problem.text[0] != '\0')
        return;
    redis_get_stats(store->redis, &stats);
    snprintf(store->problem.text, sizeof store->problem.text, "%.60s%s%.170s", what,
             stats.problem[0] != '\0' ? ": " : "", stats.problem);
}

void replay_store_problem(const struct replay_store *store, struct tg_problem *problem)
{
    *problem = store->problem;
}

/* ---- deciding ---- */

static void on_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                       const struct remote_charge *charge)
{
    struct replay_store *store = context;

    store->decided = true;
    store->err = err;
    if (err == TG_OK) {
        *store->axes = *axes;
        *store->charge = *charge;
    }
}

static enum tg_err remember_keys(struct replay_store *store, const struct remote_debit *debit)
{
    enum tg_err err =
        store->leaves_keys ? TG_OK : limits_codec_set(&store->codec, store->prefix, debit);

    for (size_t i = 0; err == TG_OK && !store->leaves_keys && i < store->codec.n; i++)
        if (!replay_names_add(&store->keys, limits_codec_key(&store->codec, i)))
            err = TG_ERR_MEMORY;
    return err;
}

enum tg_err replay_store_take(struct replay_store *store, const struct remote_debit *debit,
                              tg_ms now, struct tg_axes *axes, struct remote_charge *charge)
{
    enum tg_err err = remember_keys(store, debit);

    if (err != TG_OK)
        return err;
    wait_for_sent(store, 0);
    store->decided = false;
    store->axes = axes;
    store->charge = charge;
    if (remote_limits_take(store->limits, debit, now, on_decided, store) == NULL)
        return TG_ERR_MEMORY;
    while (!store->decided)
        net_loop_turn(store->loop, true);
    if (store->err != TG_OK)
        note_problem(store, "Redis did not decide");
    return store->err;
}

void replay_store_settle(struct replay_store *store, const struct remote_debit *debit, tg_ms now,
                         const struct remote_charge *charge, int64_t actual)
{
    remote_limits_settle(store->limits, debit, now, charge, actual);
    wait_for_sent(store, SENT_MAX);
}

/* ---- closing ---- */

static void removed(struct redis_ask *ask, const struct redisReply *reply)
{
    struct replay_store *store = ((struct removal *)ask)->store;

    if (reply == NULL || redis_reply_is_error(reply))
        note_problem(store, "Redis did not remove all keys of the replay");
    store->removing--;
}

/* One by one: in a cluster only keys of one slot can go together. */
static void remove_keys(struct replay_store *store)
{
    for (size_t i = 0; i < store->keys.n && store->problem.text[0] == '\0';) {
        for (; i < store->keys.n && store->removing < REMOVALS; i++) {
            struct removal *removal = &store->removals[store->removing++];
            struct slice words[2] = {SLICE("UNLINK"), replay_names_at(&store->keys, i)};
            removal->store = store;
            redis_ask_init(&removal->ask, removed, NULL);
            redis_command(store->redis, &removal->ask, words, 2, 1);
        }
        while (store->removing > 0)
            net_loop_turn(store->loop, true);
    }
}

/* A settlement that was lost was answered by nobody, or by an error: the client has counted it. */
static void replay_store_finish(struct replay_store *store)
{
    struct redis_stats stats;

    wait_for_sent(store, 0);
    redis_get_stats(store->redis, &stats);
    if (stats.errors + stats.broken + stats.away + stats.full + stats.late > 0)
        note_problem(store, "Redis did not do all that it was told");
    remove_keys(store);
}

bool replay_store_close(struct replay_store *store, int status)
{
    bool good = true;

    if (store == NULL)
        return true;
    if (store->connected)
        replay_store_finish(store);
    if (status == STATUS_DONE && store->problem.text[0] != '\0') {
        command_say(store->command, "--store: %s", store->problem.text);
        good = false;
    }
    redis_free(store->redis);
    remote_limits_free(store->limits);
    if (store->loop != NULL)
        net_loop_free(store->loop);
    tls_context_unref(store->tls);
    replay_names_fini(&store->keys);
    limits_codec_fini(&store->codec);
    free(store);
    return good;
}
