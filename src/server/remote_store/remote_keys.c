/* remote_keys.c - leases of keys in Redis, from asking to giving back. See remote_keys.h.
 *
 *     ASKED ---- yes ----> HELD (renewed) ---- give ----> GIVEN ---- answered ----> OVER
 *       |  '---- no -----------------------------------------------------------------'
 *       '- late, cancelled -> ABANDONED ---- yes ----> GIVEN
 *       |                              '---- no ----> OVER
 *       '- late, used all the same -> KEPT ---- yes ----> HELD
 *                                      | '---- no ----> REFUSED -- end, asked without limits --.
 *                                      '- end -> ENDED <----------------------------------------'
 *                                                  | '---- yes ----> GIVEN, with how it ended
 *                                                  '---- no --> asked without limits once, or OVER
 *
 * A peek is asked in the same way, without an id: it is over with its answer, whatever that is.
 *
 * What is given back is sent again until Redis has answered, or the lease has ended by its time:
 * the script does it once. Just after a late answer a client trusts its server as little as after
 * none, so the first try to give back a late yes often goes nowhere.
 *
 * A key has two asks, since a renewal may be on its way when its attempt ends. It is spare again
 * when neither is in flight. What is renewed stands in a list by the time of its last renewal; one
 * timer looks at its head.
 */
#include "server/remote_store/remote_keys_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/remote_store/remote_name.h"
#include "server/remote_store/scripts.h"

enum { OWED_MAX = 8192 };

static const tg_ms SUSPENDED_FOR = 60000, OWED_FOR = 60000;

/* A suspension that is on its way to Redis: rare, so each has memory of its own. */
struct suspension {
    struct redis_ask ask;
    struct remote_keys *keys;
    LIST_ENTRY(suspension) list;
    char name[NAMES_BYTES];
};

/* ---- arguments of scripts ---- */

void remote_keys_add_number(struct key_args *args, int64_t number)
{
    char *to = args->numbers[args->n];
    int n = snprintf(to, NUMBER_BYTES, "%lld", (long long)number);

    assert(args->n < ARGS_MAX && n > 0 && n < NUMBER_BYTES);
    args->list[args->n++] = (struct slice){to, (size_t)n};
}

void remote_keys_begin_args(struct key_args *args, const struct remote_key *key)
{
    const struct remote_keys_options *options = &key->keys->options;

    args->n = 0;
    remote_keys_add_number(args, options->time ? options->time(options->time_context) : 0);
    args->list[args->n++] = (struct slice){key->id, key->id_bytes};
}

/* ---- spare keys ---- */

static void take_answered(struct redis_ask *ask, const struct redisReply *reply);
static void take_late(struct redis_ask *ask);
static void renew_answered(struct redis_ask *ask, const struct redisReply *reply);

static struct remote_key *get_spare(struct remote_keys *keys)
{
    struct remote_key *key = TAILQ_FIRST(&keys->spare);

    if (key)
        TAILQ_REMOVE(&keys->spare, key, list);
    else
        key = malloc(sizeof *key);
    if (!key)
        return NULL;
    key->keys = keys;
    key->state = OVER;
    key->ask_in_flight = key->renewal_in_flight = false;
    keys->n++;
    return key;
}

void remote_key_put_spare(struct remote_key *key)
{
    struct remote_keys *keys = key->keys;

    assert(key->state != HELD && key->state != GIVEN);
    if (key->ask_in_flight || key->renewal_in_flight)
        return;
    assert(keys->n > 0);
    TAILQ_INSERT_HEAD(&keys->spare, key, list);
    keys->n--;
}

/* ---- names ---- */

/* What has a slot: a group, or a key without one, of a provider. */
struct quota_slot {
    const char *provider;
    const char *group; /* null: none */
    const char *name;
};

/* "<prefix>:key:{<provider>:g:<group>}:<kind>:<a>[:<b>]<suffix>" */
static struct slice write_name(struct remote_text *text, const struct remote_keys *keys,
                               const struct quota_slot *slot, const char *kind, const char *a,
                               const char *b)
{
    size_t begin = text->n;

    remote_text_put(text, slice_of(keys->prefix));
    remote_text_put(text, SLICE(":key:{"));
    remote_text_name(text, slice_of(slot->provider));
    remote_text_put(text, slot->group ? SLICE(":g:") : SLICE(":k:"));
    remote_text_name(text, slice_of(slot->group ? slot->group : slot->name));
    remote_text_put(text, SLICE("}:"));
    remote_text_put(text, slice_of(kind));
    remote_text_name(text, slice_of(a));
    if (b) {
        remote_text_put(text, SLICE(":"));
        remote_text_name(text, slice_of(b));
    }
    return (struct slice){text->at + begin, text->n - begin};
}

/* The name of the leases begins with that of the hash. */
static struct slice write_leases(struct remote_text *text, struct slice name)
{
    remote_text_put(text, SLICE(":l"));
    return (struct slice){name.at, name.n + 2};
}

static bool write_names(struct remote_key *key, const struct tg_key_terms *terms)
{
    struct remote_text text = {key->names, sizeof key->names, 0};
    struct quota_slot slot = {terms->provider, terms->group, terms->name};

    key->key = write_name(&text, key->keys, &slot, "k:", terms->model, terms->name);
    key->key_leases = write_leases(&text, key->key);
    key->suspended = write_name(&text, key->keys, &slot, "s:", terms->name, NULL);
    key->group = key->group_leases = (struct slice){NULL, 0};
    if (terms->group) {
        key->group = write_name(&text, key->keys, &slot, "g:", terms->group, NULL);
        key->group_leases = write_leases(&text, key->group);
    }
    return remote_text_fits(&text);
}

/* ---- renewing ---- */

static struct remote_key *of_ask(struct redis_ask *ask)
{
    return container_of(ask, struct remote_key, ask);
}

static struct remote_key *of_renewal(struct redis_ask *ask)
{
    return container_of(ask, struct remote_key, renewal);
}

static void list_last(struct remote_key *key)
{
    struct remote_keys *keys = key->keys;

    key->renewed_at = net_loop_now(keys->options.loop);
    assert(key->state == HELD);
    TAILQ_INSERT_TAIL(&keys->held, key, list);
}

static tg_ms renew_every(const struct remote_keys *keys)
{
    return num_max(keys->options.ttl / 3, 1);
}

static void set_timer(struct remote_keys *keys)
{
    if (TAILQ_EMPTY(&keys->held) || net_timer_is_set(&keys->timer))
        return;
    tg_ms at = TAILQ_FIRST(&keys->held)->renewed_at + renew_every(keys);
    net_timer_set(keys->options.loop, &keys->timer,
                  num_max(at - net_loop_now(keys->options.loop), 1));
}

static void renew(struct remote_key *key)
{
    struct slice names[4] = {key->key, key->key_leases, key->group, key->group_leases};
    struct key_args args;

    /* One that is still on its way will do as well. */
    if (key->renewal_in_flight)
        return;
    remote_keys_begin_args(&args, key);
    remote_keys_add_number(&args, key->keys->options.ttl);
    remote_keys_add_number(&args, key->tokens);
    key->renewal_in_flight = true;
    redis_eval(key->keys->options.redis, &key->renewal, &script_key_renew, names,
               key->group.n ? 4 : 2, args.list, args.n);
}

static void renew_due(void *arg)
{
    struct remote_keys *keys = arg;
    tg_ms due = net_loop_now(keys->options.loop) - renew_every(keys);
    struct remote_key *key;

    while ((key = TAILQ_FIRST(&keys->held)) != NULL && key->renewed_at <= due) {
        TAILQ_REMOVE(&key->keys->held, key, list);
        list_last(key);
        renew(key);
    }
    set_timer(keys);
}

static void renew_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_key *key = of_renewal(ask);

    (void)reply;
    key->renewal_in_flight = false;
    if (key->state == OVER)
        remote_key_put_spare(key);
}

/* ---- taking ---- */

static void add_limits(struct key_args *args, const struct tg_key_limits *limits)
{
    remote_keys_add_number(args, limits->rpm);
    remote_keys_add_number(args, limits->tpm);
    remote_keys_add_number(args, limits->concurrency);
}

static void ask_for(struct remote_key *key, const struct tg_key_limits *limits,
                    const struct tg_key_limits *group_limits)
{
    struct slice names[5] = {key->key, key->key_leases, key->suspended, key->group,
                             key->group_leases};
    struct key_args args;

    remote_keys_begin_args(&args, key);
    remote_keys_add_number(&args, key->keys->options.ttl);
    remote_keys_add_number(&args, key->tokens);
    add_limits(&args, limits);
    if (key->group.n)
        add_limits(&args, group_limits);
    key->ask_in_flight = true;
    redis_ask_init(&key->ask, take_answered, take_late);
    redis_ask_init(&key->renewal, renew_answered, NULL);
    redis_eval(key->keys->options.redis, &key->ask, &script_key_take, names, key->group.n ? 5 : 3,
               args.list, args.n);
}

/* It has been used: a yes is all that there is left to say. It is asked for until there is an
 * answer; a second time, with the same lease, it does nothing more. */
void remote_key_ask_without_limits(struct remote_key *key)
{
    const struct tg_key_limits none = {0, 0, 0};

    key->owed = true;
    ask_for(key, &none, &none);
}

/* {0}, or {why, wait, room, of the group}, as key_take.lua answers. False: neither. */
static bool read_answer(const struct remote_key *key, const struct redisReply *reply, bool *taken,
                        struct tg_key_hold *hold)
{
    static const enum tg_hold WHY[] = {TG_HOLD_BUSY, TG_HOLD_COOLING, TG_HOLD_BROKEN, TG_HOLD_BUSY,
                                       TG_HOLD_BUSY};
    int64_t why = redis_reply_integer(redis_reply_at(reply, 0), -1);
    int64_t wait = redis_reply_integer(redis_reply_at(reply, 1), -1);

    if (redis_reply_is_error(reply))
        return false;
    *taken = why == 0 && redis_reply_n(reply) == 1;
    if (*taken)
        return true;
    if (redis_reply_n(reply) != 4 || why < 1 || why > 4 || !num_in_range(wait))
        return false;
    *hold = (struct tg_key_hold){
        .why = WHY[why],
        .until = num_add(net_loop_now(key->keys->options.loop), wait),
        .room = redis_reply_integer(redis_reply_at(reply, 2), -1),
        .of_group = redis_reply_integer(redis_reply_at(reply, 3), 0) == 1,
    };
    return true;
}

static bool is_peek(const struct remote_key *key)
{
    return key->id_bytes == 0;
}

/* Redis is away, and what was used is not out of its minute yet. Nobody remembers any number. */
static bool is_worth_telling(const struct remote_key *key)
{
    const struct remote_keys *keys = key->keys;

    return net_loop_now(keys->options.loop) < key->give_until && keys->n <= OWED_MAX &&
           !redis_is_freeing(keys->options.redis);
}

static void take_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_key *key = of_ask(ask);
    remote_keys_decided *decided = key->decided;
    void *context = key->context;
    struct tg_key_hold hold;
    bool waited = key->state == ASKED, taken = false;
    bool fine = read_answer(key, reply, &taken, &hold);

    key->ask_in_flight = false;
    if (is_peek(key)) {
        remote_key_put_spare(key);
    } else if (taken && (waited || key->state == KEPT)) {
        key->state = HELD;
        list_last(key);
        set_timer(key->keys);
    } else if (taken && key->state == ENDED) {
        struct tg_key_report report = key->report;
        struct tg_key_ending ending = key->ending;
        remote_key_give(key, &report, &ending);
    } else if (taken) {
        remote_key_give_unsent(key);
    } else if (key->state == KEPT) {
        key->state = REFUSED; /* it is its attempt's until that ends */
        if (key->watch)
            atomic_store_explicit(key->watch, 0, memory_order_relaxed);
    } else if (key->state == ENDED && !key->owed && key->report.sent) {
        remote_key_ask_without_limits(key);
    } else if (key->state == ENDED && key->owed && !reply && is_worth_telling(key)) {
        remote_key_send_later(key);
    } else {
        remote_key_put_spare(key);
    }
    if (waited)
        decided(context, fine ? TG_OK : TG_ERR_STORE, fine && !taken ? &hold : NULL);
}

static void take_late(struct redis_ask *ask)
{
    struct remote_key *key = of_ask(ask);

    if (key->state != ASKED)
        return;
    key->state = ABANDONED;
    key->decided(key->context, TG_ERR_STORE, NULL);
}

void remote_keys_cancel(struct remote_key *key)
{
    key->state = ABANDONED;
}

bool remote_keys_keep(struct remote_key *key)
{
    if (!key->ask_in_flight)
        return false;
    assert(key->state == ASKED || key->state == ABANDONED);
    key->state = KEPT;
    return true;
}

void remote_keys_watch(struct remote_key *key, atomic_llong *flag)
{
    key->watch = flag;
}

void remote_keys_end(struct remote_key *key, const struct tg_key_report *report,
                     const struct tg_key_ending *ending)
{
    assert(key->state == KEPT || key->state == REFUSED || key->state == HELD);
    if (key->state == HELD) {
        remote_keys_give(key, report, ending);
        return;
    }
    key->report = *report;
    key->ending = *ending;
    key->give_until = num_add(net_loop_now(key->keys->options.loop), OWED_FOR);
    key->watch = NULL;
    if (key->state == REFUSED && report->sent)
        remote_key_ask_without_limits(key);
    if (key->state == KEPT || key->ask_in_flight) {
        key->state = ENDED;
        return;
    }
    key->state = OVER;
    remote_key_put_spare(key);
}

/* A lease of a key with these terms, with an id of its own. Null: no memory, or names too long. */
static struct remote_key *new_key(struct remote_keys *keys, const struct tg_key_terms *terms)
{
    struct remote_key *key = get_spare(keys);

    if (!key)
        return NULL;
    if (!write_names(key, terms)) {
        remote_key_put_spare(key);
        return NULL;
    }
    key->tokens = terms->tokens;
    key->watch = NULL;
    key->owed = false;
    key->breaker_failures = terms->breaker_failures;
    key->breaker_open = terms->breaker_open;
    key->id_bytes = (size_t)snprintf(key->id, sizeof key->id, "%s-%llx", keys->holder,
                                     (unsigned long long)++keys->last_id);
    return key;
}

static struct remote_key *ask_about(struct remote_keys *keys, const struct tg_key_terms *terms,
                                    bool peek, remote_keys_decided *decided, void *context)
{
    struct remote_key *key = new_key(keys, terms);

    if (!key)
        return NULL;
    if (peek)
        key->id_bytes = 0;
    key->state = ASKED;
    key->decided = decided;
    key->context = context;
    ask_for(key, &terms->limits, &terms->group_limits);
    return key;
}

struct remote_key *remote_keys_take(struct remote_keys *keys, const struct tg_key_terms *terms,
                                    remote_keys_decided *decided, void *context)
{
    return ask_about(keys, terms, false, decided, context);
}

struct remote_key *remote_keys_peek(struct remote_keys *keys, const struct tg_key_terms *terms,
                                    remote_keys_decided *decided, void *context)
{
    return ask_about(keys, terms, true, decided, context);
}

void remote_keys_tell(struct remote_keys *keys, const struct tg_key_terms *terms,
                      const struct tg_key_report *report, const struct tg_key_ending *ending)
{
    struct remote_key *key = new_key(keys, terms);

    if (key)
        remote_key_give(key, report, ending);
}

void remote_keys_owe(struct remote_keys *keys, const struct tg_key_terms *terms,
                     const struct tg_key_report *report, const struct tg_key_ending *ending)
{
    struct remote_key *key = new_key(keys, terms);

    if (!key)
        return;
    key->report = *report;
    key->ending = *ending;
    key->give_until = num_add(net_loop_now(keys->options.loop), OWED_FOR);
    key->state = ENDED;
    remote_key_ask_without_limits(key);
}

/* ---- suspending ---- */

static void suspended(struct redis_ask *ask, const struct redisReply *reply)
{
    struct suspension *done = container_of(ask, struct suspension, ask);

    (void)reply;
    LIST_REMOVE(done, list);
    free(done);
}

void remote_keys_suspend(struct remote_keys *keys, const char *provider, const char *name,
                         const char *group, bool is_suspended)
{
    struct quota_slot slot = {provider, group, name};
    struct suspension *suspension = malloc(sizeof *suspension);

    if (!suspension)
        return;
    struct remote_text text = {suspension->name, sizeof suspension->name, 0};
    struct slice key = write_name(&text, keys, &slot, "s:", name, NULL);
    char ms[NUMBER_BYTES];
    size_t n = (size_t)snprintf(ms, sizeof ms, "%lld", (long long)SUSPENDED_FOR);
    struct slice set[5] = {SLICE("SET"), key, SLICE("1"), SLICE("PX"), {ms, n}};
    struct slice del[2] = {SLICE("DEL"), key};

    if (!remote_text_fits(&text)) {
        free(suspension);
        return;
    }
    suspension->keys = keys;
    LIST_INSERT_HEAD(&keys->suspensions, suspension, list);
    redis_ask_init(&suspension->ask, suspended, NULL);
    redis_command(keys->options.redis, &suspension->ask, is_suspended ? set : del,
                  is_suspended ? 5 : 2, 1);
}

/* ---- the object ---- */

void remote_keys_options_init(struct remote_keys_options *options)
{
    *options = (struct remote_keys_options){.prefix = "tg", .ttl = 30000};
}

enum tg_err remote_keys_new(const struct remote_keys_options *options, struct remote_keys **made)
{
    if (!options->holder || !*options->holder || options->ttl < 1)
        return TG_ERR_INVALID;
    struct remote_keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return TG_ERR_MEMORY;
    keys->options = *options;
    int prefix = snprintf(keys->prefix, sizeof keys->prefix, "%s", options->prefix);
    int holder = snprintf(keys->holder, sizeof keys->holder, "%s", options->holder);
    if (prefix >= (int)sizeof keys->prefix || holder >= (int)sizeof keys->holder) {
        free(keys);
        return TG_ERR_INVALID;
    }
    net_timer_init(&keys->timer, renew_due, keys);
    net_timer_init(&keys->again, remote_keys_send_again, keys);
    TAILQ_INIT(&keys->held);
    TAILQ_INIT(&keys->spare);
    TAILQ_INIT(&keys->unsent);
    TAILQ_INIT(&keys->giving);
    *made = keys;
    return TG_OK;
}

static void free_list(struct key_list *list)
{
    for (struct remote_key *key = TAILQ_FIRST(list), *next; key; key = next) {
        next = TAILQ_NEXT(key, list);
        free(key);
    }
}

void remote_keys_free(struct remote_keys *keys)
{
    if (!keys)
        return;
    net_timer_stop(keys->options.loop, &keys->timer);
    net_timer_stop(keys->options.loop, &keys->again);
    free_list(&keys->held);
    free_list(&keys->spare);
    free_list(&keys->unsent);
    free(keys);
}

size_t remote_keys_count(const struct remote_keys *keys)
{
    return keys->n;
}
