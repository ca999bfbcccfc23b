/* redis.c - one worker's way to Redis: asks are written, sent, sent on, and answered once.
 *
 *     redis_eval -> link_send -> [NOSCRIPT, MOVED, ASK, TRYAGAIN: sent on] -> answered
 *               \-> refused ------------------------------------------------> answered, null
 *
 * The command of an ask is kept as it was written until it is answered, in memory that is used
 * again: one in a thousand may have to be sent a second time, and then nobody else has it any more.
 * An ask that is late and has not been done yet, as the server says, is not sent on: whoever asked
 * has gone on without it, and would have to give back what it takes.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/redis/redis_internal.h"
#include "lib/core/problem.h"

#define RESOLVED_MS 1000 /* an address is used so long: failover may be by name */
#define STALLED_MS 2     /* a timer that is so late was held up by ourselves */

/* ---- Answering ------------------------------------------------------------------------------- */

static void redis_release_ask(struct redis *redis, struct redis_ask *ask)
{
    assert(ask->is_pending); /* else it would be answered twice */
    assert(ask->link == NULL);
    net_timer_stop(redis->loop, &ask->timer);
    resp_pool_give(&redis->pool, ask->command, ask->command_bytes);
    ask->command = NULL;
    ask->is_pending = false;
}

static void redis_answer(struct redis *redis, struct redis_ask *ask, const struct redisReply *reply)
{
    assert(reply != NULL);
    redis_release_ask(redis, ask);
    ask->lost = REDIS_ANSWERED;
    if (!ask->ours) {
        redis->stats.replies++;
        redis->stats.errors += reply->type == REDIS_REPLY_ERROR;
    }
    ask->answered(ask, reply);
}

void redis_lose(struct redis *redis, struct redis_ask *ask, enum redis_lost lost)
{
    assert(lost != REDIS_ANSWERED);
    redis_release_ask(redis, ask);
    ask->lost = lost;
    if (!ask->ours) {
        redis->stats.broken += lost == REDIS_BROKE;
        redis->stats.away += lost == REDIS_AWAY;
        redis->stats.full += lost == REDIS_FULL;
    }
    ask->answered(ask, NULL);
}

/* At the next turn of the loop, not from inside. */
static void redis_refuse(struct redis *redis, struct redis_ask *ask, enum redis_lost lost)
{
    assert(ask->is_pending && ask->link == NULL);
    assert(lost == REDIS_AWAY || lost == REDIS_FULL); /* it was never sent */
    ask->lost = lost;
    STAILQ_INSERT_TAIL(&redis->refused, ask, queue);
    net_loop_post(redis->loop, &redis->refuse);
}

/* Those that are refused meanwhile wait for the next turn: an owner that tries again at once must
 * not keep the loop for itself. */
static void lose_refused(void *arg)
{
    struct redis *redis = arg;
    struct redis_queue refused = STAILQ_HEAD_INITIALIZER(refused);
    struct redis_ask *ask;

    STAILQ_CONCAT(&refused, &redis->refused);
    while ((ask = STAILQ_FIRST(&refused)) != NULL) {
        STAILQ_REMOVE_HEAD(&refused, queue);
        redis_lose(redis, ask, ask->lost);
    }
}

/* ---- Up and down ----------------------------------------------------------------------------- */

static struct redis_link *link_of_slot(const struct redis *redis, int slot)
{
    return redis->cluster != NULL ? redis_cluster_link(redis, slot) : redis->master;
}

/* Whether owners may be told that the client is up. */
static bool is_of_use(const struct redis *redis)
{
    for (size_t i = 0; i < redis->n_links; i++)
        if (redis->links[i] != NULL && redis->links[i]->forbids)
            return false;
    return redis->cluster != NULL ? redis_cluster_is_whole(redis) : link_is_ready(redis->master);
}

bool redis_is_up(const struct redis *redis, const struct slice *key)
{
    if (key == NULL)
        return is_of_use(redis);
    return link_is_ready(link_of_slot(redis, (int)redis_slot(*key)));
}

static void redis_tell(void *arg)
{
    struct redis *redis = arg;
    bool up = redis_is_up(redis, NULL);

    if (up == redis->told)
        return;
    redis->told = up;
    redis->stats.down_since = up ? 0 : net_loop_now(redis->loop);
    if (!up && redis->cluster != NULL)
        redis_cluster_hurry(redis); /* the other nodes may know who serves instead */
    if (redis->changed != NULL)
        redis->changed(redis->context, up);
}

void redis_poll(struct redis *redis)
{
    if (!redis->freeing)
        net_later_put(redis->loop, &redis->tell);
}

void redis_note_problem(struct redis *redis, const struct redis_host *host, const char *text)
{
    char *problem = redis->stats.problem;

    if (strncmp(host->name, "unix:", 5) == 0)
        snprintf(problem, sizeof redis->stats.problem, "%.100s: %.130s", host->name, text);
    else
        snprintf(problem, sizeof redis->stats.problem,
                 strchr(host->name, ':') != NULL ? "[%.90s]:%d: %.130s" : "%.90s:%d: %.130s",
                 host->name, host->port, text);
}

void redis_on_change(struct redis *redis, void (*changed)(void *context, bool up), void *context)
{
    redis->changed = changed;
    redis->context = context;
}

void redis_get_stats(const struct redis *redis, struct redis_stats *stats)
{
    *stats = redis->stats;
    for (size_t i = 0; i < redis->n_links; i++) {
        const struct redis_link *link = redis->links[i];

        if (link == NULL || link->kind == LINK_SENTINEL)
            continue;
        stats->in_flight += link->in_flight;
        stats->links++;
        stats->links_up += link_is_ready(link);
    }
}

/* ---- Sending on ------------------------------------------------------------------------------ */

static void again_later(struct redis *redis, struct redis_ask *ask)
{
    assert(ask->is_pending && ask->link == NULL);
    assert(!ask->ours); /* a question of our own is not worth a second try */
    STAILQ_INSERT_TAIL(&redis->again, ask, queue);
    if (!net_timer_is_set(&redis->again_timer))
        net_timer_set(redis->loop, &redis->again_timer, REDIS_AGAIN_MS);
}

/* To a link that may not be there yet. */
static void send_on(struct redis *redis, struct redis_link *link, struct redis_ask *ask)
{
    if (link_is_ready(link) && link_has_room(link))
        link_send(link, ask);
    else
        again_later(redis, ask);
}

static void send_again(void *arg)
{
    struct redis *redis = arg;
    struct redis_queue again = STAILQ_HEAD_INITIALIZER(again);
    struct redis_ask *ask;

    STAILQ_CONCAT(&again, &redis->again);
    while ((ask = STAILQ_FIRST(&again)) != NULL) {
        STAILQ_REMOVE_HEAD(&again, queue);
        ask->asking = false;
        if (ask->is_late)
            redis_lose(redis, ask, REDIS_AWAY);
        else
            send_on(redis, link_of_slot(redis, ask->slot), ask);
    }
}

/* MOVED or ASK. False: it is the owner's. */
static bool follow(struct redis *redis, struct redis_link *from, struct redis_ask *ask,
                   const struct redisReply *reply, bool moved)
{
    if (redis->cluster == NULL || ask->ours || ask->turns >= REDIS_TURNS_MAX)
        return false;
    struct redis_link *link = redis_cluster_follow(redis, from, reply, moved);
    if (link == NULL)
        return false;
    assert(ask->turns < REDIS_TURNS_MAX);
    ask->turns += link_is_ready(link); /* one that is not there yet is waited for, and no turn */
    ask->asking = !moved;
    ask->text = false;
    redis->stats.moved++;
    send_on(redis, link, ask);
    return true;
}

/* True: the ask is on its way again. None of these errors means that anything was done. */
static bool is_sent_on(struct redis_link *link, struct redis_ask *ask, enum resp_error error,
                       const struct redisReply *reply)
{
    struct redis *redis = link->redis;

    switch (error) {
    case RESP_NOSCRIPT:
        if (ask->script == NULL || ask->text)
            return false;
        ask->text = true;
        redis->stats.asked_text++;
        link_send(link, ask);
        return true;
    case RESP_NO_EVALSHA:
        if (ask->script == NULL || ask->text)
            return false;
        link->by_text = true;
        link_send(link, ask);
        return true;
    case RESP_MOVED:
    case RESP_ASK:
        return follow(redis, link, ask, reply, error == RESP_MOVED);
    case RESP_TRYAGAIN:
        /* Slots move in a moment. One that stays half-moved is for the owner to know, in time. */
        if (redis->cluster == NULL || ask->ours ||
            net_loop_now(redis->loop) - ask->sent_at >= redis->options.timeout / 4)
            return false;
        again_later(redis, ask);
        return true;
    default:
        return false;
    }
}

/* What an error says about the server, besides what it says to the owner. */
static void heed(struct redis_link *link, const struct redis_ask *ask, enum resp_error error,
                 const struct redisReply *reply)
{
    switch (error) {
    case RESP_UNWELL:
        link_be_unwell(link, false, reply->str);
        break;
    case RESP_READONLY:
        link_be_readonly(link, reply->str);
        if (link->redis->cluster != NULL)
            redis_cluster_hurry(link->redis);
        break;
    case RESP_NOAUTH:
        link_leave(link, reply->str);
        break;
    case RESP_CLUSTERDOWN:
        if (strstr(reply->str, "not served") != NULL)
            redis_cluster_lost_slot(link->redis, ask->slot);
        else
            link_be_unwell(link, true, reply->str);
        break;
    case RESP_NOPERM:
    case RESP_NO_EVALSHA:
        link_forbids(link, reply->str);
        break;
    default:
        redis_note_problem(link->redis, &link->host, reply->str);
        break;
    }
}

void redis_take_reply(struct redis_link *link, struct redis_ask *ask,
                      const struct redisReply *reply)
{
    struct redis *redis = link->redis;
    enum resp_error error = resp_error_of(reply);

    if (error != RESP_FINE) {
        bool undone = error == RESP_NOSCRIPT || error == RESP_NO_EVALSHA || error == RESP_MOVED ||
                      error == RESP_ASK || error == RESP_TRYAGAIN;
        if (undone && ask->is_late && !ask->ours) {
            redis_lose(redis, ask, REDIS_AWAY);
            return;
        }
        if (is_sent_on(link, ask, error, reply))
            return;
        if (!ask->ours)
            heed(link, ask, error, reply);
    }
    redis_answer(redis, ask, reply);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void ask_is_late(void *arg)
{
    struct redis_ask *ask = arg;
    struct redis *redis = ask->redis;

    /* If our own loop stood still, the reply may be there and unread: it is given a turn. */
    if (!ask->spared && net_loop_now(redis->loop) - ask->timer.at >= STALLED_MS) {
        ask->spared = true;
        net_timer_set(redis->loop, &ask->timer, 1);
        return;
    }
    ask->is_late = true;
    redis->stats.late += !ask->ours;
    if (ask->link != NULL)
        link_ask_is_late(ask->link, ask);
    if (ask->late != NULL)
        ask->late(ask);
}

void redis_ask_init(struct redis_ask *ask,
                    void (*answered)(struct redis_ask *ask, const struct redisReply *reply),
                    void (*late)(struct redis_ask *ask))
{
    *ask = (struct redis_ask){.answered = answered, .late = late, .slot = -1};
}

/* Resets the ask, which its owner may use many times. False: no memory for the command. */
static bool redis_prepare(struct redis *redis, struct redis_ask *ask, size_t bytes)
{
    redis_ask_init(ask, ask->answered, ask->late);
    net_timer_init(&ask->timer, ask_is_late, ask);
    ask->redis = redis;
    ask->is_pending = true;
    ask->sent_at = net_loop_now(redis->loop);
    ask->command = resp_pool_take(&redis->pool, bytes);
    ask->command_bytes = bytes;
    return ask->command != NULL;
}

bool redis_write_ask(struct redis *redis, struct redis_ask *ask, const struct slice *words,
                     size_t n)
{
    ask->is_pending = redis_prepare(redis, ask, resp_command_bytes(words, n));
    if (!ask->is_pending)
        return false;
    ask->ours = true;
    resp_put_command(ask->command, words, n);
    return true;
}

/* Where it would go; null: nowhere, and it has been refused. */
static struct redis_link *redis_admit(struct redis *redis, struct redis_ask *ask, int slot)
{
    struct redis_link *link = link_of_slot(redis, slot);
    enum redis_lost lost = !link_is_ready(link) ? REDIS_AWAY : REDIS_FULL;

    if (lost == REDIS_FULL && link_has_room(link))
        return link;
    redis_ask_init(ask, ask->answered, ask->late);
    net_timer_init(&ask->timer, ask_is_late, ask);
    ask->redis = redis;
    ask->is_pending = true;
    ask->sent_at = net_loop_now(redis->loop);
    redis_refuse(redis, ask, lost);
    return NULL;
}

static void send_first(struct redis_link *link, struct redis_ask *ask, int slot)
{
    ask->slot = slot;
    link->redis->stats.commands++;
    link_send(link, ask);
}

static size_t eval_bytes(const struct slice *keys, size_t n_keys, const struct slice *args,
                         size_t n_args, size_t count_bytes)
{
    size_t bytes = resp_head_bytes(3 + n_keys + n_args) + resp_word_bytes(7) + resp_word_bytes(40) +
                   resp_word_bytes(count_bytes);

    for (size_t i = 0; i < n_keys; i++)
        bytes += resp_word_bytes(keys[i].n);
    for (size_t i = 0; i < n_args; i++)
        bytes += resp_word_bytes(args[i].n);
    return bytes;
}

void redis_eval(struct redis *redis, struct redis_ask *ask, const struct redis_script *script,
                const struct slice *keys, size_t n_keys, const struct slice *args, size_t n_args)
{
    int slot = n_keys > 0 && redis->cluster != NULL ? (int)redis_slot(keys[0]) : -1;
    struct redis_link *link = redis_admit(redis, ask, slot);
    char count[24];
    struct slice count_word = {count, 0};

    if (link == NULL)
        return;
    count_word.n = (size_t)snprintf(count, sizeof count, "%zu", n_keys);
    if (!redis_prepare(redis, ask, eval_bytes(keys, n_keys, args, n_args, count_word.n))) {
        redis_refuse(redis, ask, REDIS_FULL);
        return;
    }
    ask->script = script;
    char *at = resp_put_head(ask->command, 3 + n_keys + n_args);
    assert(n_keys > 0 || slot == -1);
    at = resp_put_word(at, SLICE("EVALSHA"));
    at = resp_put_word(at, (struct slice){script->sha1, 40});
    at = resp_put_word(at, count_word);
    for (size_t i = 0; i < n_keys; i++)
        at = resp_put_word(at, keys[i]);
    for (size_t i = 0; i < n_args; i++)
        at = resp_put_word(at, args[i]);
    assert((size_t)(at - ask->command) == ask->command_bytes);
    send_first(link, ask, slot);
}

void redis_command(struct redis *redis, struct redis_ask *ask, const struct slice *words, size_t n,
                   size_t key)
{
    int slot = key > 0 && key < n && redis->cluster != NULL ? (int)redis_slot(words[key]) : -1;
    struct redis_link *link = redis_admit(redis, ask, slot);

    if (link == NULL)
        return;
    if (!redis_prepare(redis, ask, resp_command_bytes(words, n))) {
        redis_refuse(redis, ask, REDIS_FULL);
        return;
    }
    resp_put_command(ask->command, words, n);
    send_first(link, ask, slot);
}

struct net_loop *redis_loop(const struct redis *redis)
{
    return redis->loop;
}

bool redis_is_freeing(const struct redis *redis)
{
    return redis->freeing;
}

void redis_set_timeout(struct redis *redis, tg_ms timeout)
{
    redis->options.timeout = timeout < 1 ? 1 : timeout;
}

/* ---- Made and freed -------------------------------------------------------------------------- */

void redis_options_init(struct redis_options *options)
{
    *options = (struct redis_options){
        .timeout = 25,
        .patience = 2000,
        .connect = 1000,
        .backoff_min = 50,
        .backoff_max = 2000,
        .health = 1000,
        .in_flight_max = 10000,
    };
}

void redis_options_wipe(struct redis_options *options)
{
    OPENSSL_cleanse(options->password, sizeof options->password);
    OPENSSL_cleanse(options->sentinels, sizeof options->sentinels);
}

static enum tg_err redis_check(const struct redis_options *options, struct tg_problem *problem)
{
    size_t max = options->kind == REDIS_SINGLE ? 1 : REDIS_HOSTS_MAX;

    if (options->n_hosts < 1 || options->n_hosts > max)
        return problem_say(problem, TG_ERR_INVALID, "%zu servers: from 1 to %zu", options->n_hosts,
                           max);
    if (options->kind == REDIS_SENTINEL && options->master[0] == '\0')
        return problem_say(problem, TG_ERR_INVALID, "Sentinel needs the name of the master");
    if (options->secure && options->tls == NULL)
        return problem_say(problem, TG_ERR_INVALID, "rediss needs certificates to trust");
    if (options->db < 0 || (options->db != 0 && options->kind == REDIS_CLUSTER))
        return problem_say(problem, TG_ERR_INVALID, "database %d: 0 or more, 0 with a cluster",
                           options->db);
    if (options->timeout < 1 || options->patience < 1 || options->connect < 1 ||
        options->backoff_min < 1 || options->health < 1)
        return problem_say(problem, TG_ERR_INVALID, "times are of 1 ms or more");
    if (options->backoff_max < options->backoff_min)
        return problem_say(problem, TG_ERR_INVALID, "backoff_max is below backoff_min");
    if (options->in_flight_max < 1)
        return problem_say(problem, TG_ERR_INVALID, "in_flight_max: 1 or more");
    return TG_OK;
}

static bool redis_begin(struct redis *redis)
{
    switch (redis->options.kind) {
    case REDIS_SINGLE:
        redis->master = link_new(redis, LINK_MASTER, &redis->options.hosts[0]);
        return redis->master != NULL;
    case REDIS_SENTINEL:
        return redis_sentinel_begin(redis);
    case REDIS_CLUSTER:
        return redis_cluster_begin(redis);
    }
    return false;
}

enum tg_err redis_new(struct net_loop *loop, const struct redis_options *options,
                      struct redis **made, struct tg_problem *problem)
{
    enum tg_err err = redis_check(options, problem);

    if (err != TG_OK)
        return err;
    struct redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    redis->loop = loop;
    redis->options = *options;
    redis->options.tls = tls_context_ref(options->tls);
    redis->stats.down_since = net_loop_now(loop);
    STAILQ_INIT(&redis->refused);
    STAILQ_INIT(&redis->again);
    random_init(&redis->random, options->seed, 0);
    resolver_init(&redis->resolver, loop, RESOLVED_MS);
    net_post_init(&redis->refuse, lose_refused, redis);
    net_later_init(&redis->tell, redis_tell, redis);
    net_timer_init(&redis->again_timer, send_again, redis);
    if (!redis_begin(redis)) {
        redis_free(redis);
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    }
    *made = redis;
    return TG_OK;
}

void redis_free(struct redis *redis)
{
    if (redis == NULL)
        return;
    struct net_loop *loop = redis->loop;
    struct redis_ask *ask;
    redis->freeing = true;
    for (size_t i = 0; i < redis->n_links; i++)
        if (redis->links[i] != NULL)
            link_end(redis->links[i]);
    while ((ask = STAILQ_FIRST(&redis->again)) != NULL) {
        STAILQ_REMOVE_HEAD(&redis->again, queue);
        redis_lose(redis, ask, REDIS_AWAY);
    }
    while (!STAILQ_EMPTY(&redis->refused)) /* also what is asked in these very answers */
        lose_refused(redis);
    redis_sentinel_fini(redis);
    redis_cluster_free(redis);
    net_timer_stop(loop, &redis->again_timer);
    net_later_cancel(loop, &redis->tell);
    net_loop_unpost(loop, &redis->refuse);
    resolver_fini(&redis->resolver);
    resp_pool_fini(&redis->pool);
    tls_context_unref(redis->options.tls);
    redis_options_wipe(&redis->options);
    for (size_t i = 0; i < redis->n_links; i++)
        assert(redis->links[i] == NULL);
    assert(STAILQ_EMPTY(&redis->again) && STAILQ_EMPTY(&redis->refused));
    net_loop_bury(loop, &redis->grave);
}
