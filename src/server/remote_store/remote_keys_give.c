/* remote_keys_give.c - leases of keys are given back to Redis. See remote_keys.h. */
#include "server/remote_store/remote_keys_internal.h"

#include <assert.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/remote_store/scripts.h"

static const tg_ms AGAIN = 50;

void remote_key_send_later(struct remote_key *key)
{
    struct remote_keys *keys = key->keys;

    TAILQ_INSERT_HEAD(&keys->unsent, key, list);
    if (!net_timer_is_set(&keys->again))
        net_timer_set(keys->options.loop, &keys->again, AGAIN);
}

static void send_back(struct remote_key *key);

/* A release has been answered, or lost. */
static void end_give(struct remote_key *key, bool answered)
{
    assert(key->state == GIVEN);
    if (!answered && net_loop_now(key->keys->options.loop) < key->give_until) {
        remote_key_send_later(key);
        return;
    }
    key->state = OVER;
    remote_key_put_spare(key);
}

static struct remote_key *take_first(struct key_list *list)
{
    struct remote_key *first = TAILQ_FIRST(list);

    if (first)
        TAILQ_REMOVE(list, first, list);
    return first;
}

/* Those that have ended meanwhile go together; after a loss, each when it is sent again. */
static void give_waiting(struct key_list *waiting, bool answered)
{
    struct remote_key *first = answered ? take_first(waiting) : NULL, *each;

    while (!answered && (each = take_first(waiting)) != NULL)
        remote_key_send_later(each);
    if (first == NULL)
        return;
    for (int n = 0; n < GIVEN_TOGETHER && (each = take_first(waiting)) != NULL; n++)
        TAILQ_INSERT_TAIL(&first->together, each, list);
    TAILQ_CONCAT(&first->waiting, waiting, list);
    send_back(first);
}

static void give_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_key *key = container_of(ask, struct remote_key, ask), *each;
    struct key_list waiting = TAILQ_HEAD_INITIALIZER(waiting);

    assert(key->ask_in_flight && key->state == GIVEN);
    TAILQ_REMOVE(&key->keys->giving, key, list);
    key->ask_in_flight = false;
    TAILQ_CONCAT(&waiting, &key->waiting, list);
    while ((each = take_first(&key->together)) != NULL)
        end_give(each, reply != NULL);
    end_give(key, reply != NULL);
    give_waiting(&waiting, reply != NULL);
}

/* In the words of key_give.lua. */
static int outcome_of(const struct tg_key_report *report)
{
    if (report->outcome == TG_KEY_FAILED)
        return 1;
    return report->outcome == TG_KEY_CANCELLED ? 2 : 0;
}

static int64_t used_of(const struct tg_key_report *report)
{
    return report->tokens < 0 ? -1 : num_min(report->tokens, TG_NUMBER_MAX);
}

static void add_ending(struct key_args *args, const struct remote_key *key, tg_ms now)
{
    remote_keys_add_number(args, key->report.sent);
    remote_keys_add_number(args, used_of(&key->report));
    remote_keys_add_number(args, outcome_of(&key->report));
    remote_keys_add_number(args, num_less(key->ending.cool_until, now));
    remote_keys_add_number(args, num_less(key->ending.open_until, now));
}

static void send_back(struct remote_key *key)
{
    struct slice names[4] = {key->key, key->key_leases, key->group, key->group_leases};
    tg_ms now = net_loop_now(key->keys->options.loop);
    struct remote_key *each;
    struct key_args args;

    remote_keys_begin_args(&args, key);
    add_ending(&args, key, now);
    remote_keys_add_number(&args, key->breaker_failures);
    remote_keys_add_number(&args, key->breaker_open);
    TAILQ_FOREACH(each, &key->together, list) {
        args.list[args.n++] = (struct slice){each->id, each->id_bytes};
        add_ending(&args, each, now);
    }
    assert(!key->ask_in_flight && key->state == GIVEN);
    TAILQ_INSERT_TAIL(&key->keys->giving, key, list);
    key->ask_in_flight = true;
    redis_ask_init(&key->ask, give_answered, NULL);
    redis_eval(key->keys->options.redis, &key->ask, &script_key_give, names, key->group.n ? 4 : 2,
               args.list, args.n);
}

/* While a release of the same key is on its way, it waits for the next. */
static void send_or_wait(struct remote_key *key)
{
    struct remote_key *each;

    TAILQ_INIT(&key->together);
    TAILQ_INIT(&key->waiting);
    TAILQ_FOREACH(each, &key->keys->giving, list) {
        if (slice_equal(each->key, key->key) && slice_equal(each->group, key->group)) {
            TAILQ_INSERT_TAIL(&each->waiting, key, list);
            return;
        }
    }
    send_back(key);
}

void remote_keys_send_again(void *arg)
{
    struct remote_keys *keys = arg;
    struct key_list unsent = TAILQ_HEAD_INITIALIZER(unsent);
    struct remote_key *key;

    TAILQ_CONCAT(&unsent, &keys->unsent, list);
    while ((key = TAILQ_FIRST(&unsent)) != NULL) {
        TAILQ_REMOVE(&unsent, key, list);
        if (key->state == ENDED)
            remote_key_ask_without_limits(key);
        else
            send_or_wait(key);
    }
}

void remote_key_give(struct remote_key *key, const struct tg_key_report *report,
                     const struct tg_key_ending *ending)
{
    key->state = GIVEN;
    key->report = *report;
    key->ending = *ending;
    key->give_until = num_add(net_loop_now(key->keys->options.loop), key->keys->options.ttl);
    send_or_wait(key);
}

void remote_keys_give(struct remote_key *key, const struct tg_key_report *report,
                      const struct tg_key_ending *ending)
{
    TAILQ_REMOVE(&key->keys->held, key, list);
    remote_key_give(key, report, ending);
}

/* A yes that nobody waits for. */
void remote_key_give_unsent(struct remote_key *key)
{
    struct tg_key_ending ending = {0, 0};
    struct tg_key_report report;

    tg_key_report_init(&report);
    report.outcome = TG_KEY_CANCELLED;
    report.sent = false;
    remote_key_give(key, &report, &ending);
}
