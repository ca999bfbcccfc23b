/* remote_blocks_lease.c - one command for all that a root needs, and has to tell.
 *
 * First come the limits that calls wait for, then those that run low or owe something; at most 32,
 * the rest is for the next command. Times that come back are Redis' own; what they mean here is
 * computed from when the command was sent, the safe side of the round trip (credit_learn).
 *
 * What was to be told goes with the command. If that never left, it is to be told again. If nobody
 * knows whether it arrived, the very same command is sent again when there is a connection: it has
 * a number, by which Redis knows that it was done, and what it had answered (block.lua). So neither
 * what was given back is lost, nor what was granted. Until then nothing else is asked for this
 * root, for five minutes at most.
 *
 * A slot of a cluster may be half-moved for a moment, or for long where somebody has stopped on
 * the way: then no script with keys on both sides is run. Limits are leased one by one as long as
 * that lasts, without the key by which a command is known again: what is lost with a connection
 * then stays charged until it ends.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/redis/redis.h"
#include "io/redis/resp.h"
#include "lib/core/array.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/remote_store/remote_blocks_internal.h"
#include "server/remote_store/scripts.h"

enum { ARGS_FIXED = 4, ARGS_EACH = 13, WORDS_FIXED = 5, NUMBERS_EACH = 8 };

/* Below, a state of Redis would expire by its own clock while the caller's stands still. */
static const tg_ms TTL_FLOOR = 3600000;

/* Then it is tried whether a slot is still half-moved. */
static const tg_ms SPLIT_MS = 1000;

/* So many decisions are worth an ask. */
#define WORTH_AN_ASK 64.0

/* ---- what to ask for ---- */

struct wish {
    struct credit *credit;
    struct scope *scope;
    size_t limit; /* index in the scope */
    bool more;    /* than is needed */
    int64_t want, need, least;
};

struct wishes {
    struct wish list[FLIGHT_MAX];
    size_t n;
};

static struct wish *wish_for(struct wishes *wishes, struct scope *scope, size_t limit)
{
    for (size_t i = 0; i < wishes->n; i++)
        if (wishes->list[i].scope == scope && wishes->list[i].limit == limit)
            return &wishes->list[i];
    if (wishes->n == FLIGHT_MAX)
        return NULL;
    struct wish *wish = &wishes->list[wishes->n++];
    *wish = (struct wish){.credit = &scope->credits[limit], .scope = scope, .limit = limit};
    return wish;
}

/* Calls that wait for one limit wait for the sum; but a meter lets only one of them cross it. */
static void add_need(struct wish *wish, int64_t units)
{
    bool first = wish->need == 0;

    wish->least = first ? units : num_min(wish->least, units);
    if (first || !wish->credit->meter)
        wish->need = num_add(wish->need, units);
}

static void wish_for_waiting(struct wishes *wishes, const struct root *root, tg_ms now)
{
    const struct remote_blocks_ask *ask;

    TAILQ_FOREACH(ask, &root->waiting, waiting)
        for (size_t s = 0; s < ask->view.n; s++)
            for (size_t i = 0; i < ask->view.scopes[s]->n; i++) {
                struct scope *scope = ask->view.scopes[s];
                int64_t units = blocks_units(&scope->given[i], ask->view.cost);
                struct wish *wish;
                credit_expire(&scope->credits[i], now);
                if (units > 0 && credit_peek(&scope->credits[i], units, now, false) != CREDIT_NO &&
                    (wish = wish_for(wishes, scope, i)) != NULL)
                    add_need(wish, units);
            }
}

static bool has_unsent(const struct credit *credit)
{
    return credit->back > 0 || credit->debt > 0;
}

static bool may_lease(const struct scope *scope, const struct credit *credit, tg_ms now)
{
    return !scope->retired && !scope->root->returning && credit->most > 0 &&
           credit->denied_until <= now;
}

/* Others that would have to ask soon go along, and what is to be told. */
static void wish_for_more(struct wishes *wishes, const struct root *root, tg_ms now)
{
    struct scope *scope;

    LIST_FOREACH(scope, &root->scopes, of_root)
        for (size_t i = 0; i < scope->n; i++) {
            struct credit *credit = &scope->credits[i];
            credit_expire(credit, now);
            struct wish *wish = NULL;
            bool more = may_lease(scope, credit, now) && credit->granted > 0 &&
                        credit->units < credit_target(credit, now) / 2;
            if (more || has_unsent(credit))
                wish = wish_for(wishes, scope, i);
            if (wish)
                wish->more |= more;
        }
}

/* What is needed, and what makes it last. What is there already counts for both, and may be enough.
 */
static bool settle_wish(struct wish *wish, tg_ms now)
{
    struct credit *credit = wish->credit;

    wish->need = num_less(wish->need, credit->units);
    wish->least = num_less(wish->least, credit->units);
    bool more = (wish->more || wish->need > 0) && may_lease(wish->scope, credit, now);
    int64_t target = more ? credit_target(credit, now) : 0;
    wish->want = num_max(wish->need, num_less(target, credit->units));
    assert(wish->least <= wish->need && wish->need <= wish->want);
    return wish->want > 0 || has_unsent(credit);
}

static void settle_wishes(struct wishes *wishes, tg_ms now)
{
    size_t kept = 0;

    for (size_t i = 0; i < wishes->n; i++)
        if (settle_wish(&wishes->list[i], now))
            wishes->list[kept++] = wishes->list[i];
    wishes->n = kept;
}

/* The first that calls wait for. */
static void keep_one(struct wishes *wishes)
{
    for (size_t i = 0; i < wishes->n; i++)
        if (wishes->list[i].need > 0) {
            wishes->list[0] = wishes->list[i];
            break;
        }
    wishes->n = wishes->n > 0;
}

/* ---- sending ---- */

struct command {
    struct slice keys[FLIGHT_MAX + 1];
    size_t n_keys;
    struct slice args[ARGS_FIXED + FLIGHT_MAX * ARGS_EACH];
    size_t n_args;
    char numbers[ARGS_FIXED + FLIGHT_MAX * NUMBERS_EACH][24];
    size_t n_numbers;
};

static void remote_blocks_lease_add_number(struct command *command, int64_t number)
{
    char *to = command->numbers[command->n_numbers++];
    int n = snprintf(to, sizeof command->numbers[0], "%" PRId64, number);

    assert(n > 0 && (size_t)n < sizeof command->numbers[0]);
    assert(command->n_args < sizeof command->args / sizeof command->args[0]);
    command->args[command->n_args++] = (struct slice){to, (size_t)n};
}

/* The key of what Redis said last to this root. Null: there is none. */
static const char *name_of_said(struct remote_blocks *blocks, const struct flight *flight)
{
    struct slice tag = limits_codec_tag(&flight->sent[0].scope->words, blocks->prefix);
    size_t bytes = strlen(blocks->prefix) + strlen(blocks->holder) + tag.n + 16;

    if (blocks->holder[0] == '\0')
        return NULL;
    if (!array_reserve(&blocks->said, &blocks->said_capacity, bytes))
        return NULL;
    snprintf(blocks->said, blocks->said_capacity, "%s:block:%.*s:%s", blocks->prefix, (int)tag.n,
             tag.at, blocks->holder);
    return blocks->said;
}

static void begin_command(struct command *command, const struct remote_blocks *blocks,
                          uint64_t number)
{
    const struct remote_blocks_options *options = &blocks->options;

    command->n_keys = command->n_args = command->n_numbers = 0;
    if (options->there)
        remote_blocks_lease_add_number(command, options->there(options->time_context));
    else
        command->args[command->n_args++] = SLICE("*");
    remote_blocks_lease_add_number(command, options->there ? TTL_FLOOR : 0);
    remote_blocks_lease_add_number(command, blocks->holders);
    if (number > 0)
        remote_blocks_lease_add_number(command, (int64_t)number);
    else
        command->args[command->n_args++] = SLICE("");
}

/* Adds the arguments of block.lua for one limit. */
static void add_sent(struct command *command, const struct sent *sent)
{
    static const struct limits_clock ANY = {.callers = true};
    struct limits_call call;

    limits_codec_take(&sent->scope->words, &ANY, "", &call);
    command->keys[command->n_keys++] = call.keys[sent->limit];
    for (size_t i = 0; i < LIMITS_WORDS_EACH; i++)
        command->args[command->n_args++] =
            call.args[WORDS_FIXED + sent->limit * LIMITS_WORDS_EACH + i];
    remote_blocks_lease_add_number(command, sent->credit->life);
    remote_blocks_lease_add_number(command, sent->want);
    remote_blocks_lease_add_number(command, sent->need);
    remote_blocks_lease_add_number(command, sent->least);
    remote_blocks_lease_add_number(command, sent->back);
    remote_blocks_lease_add_number(command, sent->back_at);
    remote_blocks_lease_add_number(command, sent->debt);
    remote_blocks_lease_add_number(command, sent->debt_at);
}

static void remote_blocks_lease_answered(struct redis_ask *ask, const struct redisReply *reply);
static void late(struct redis_ask *ask);

static struct flight *get_flight(struct remote_blocks *blocks)
{
    struct flight *flight = SLIST_FIRST(&blocks->spare_flights);

    if (flight)
        SLIST_REMOVE_HEAD(&blocks->spare_flights, spare);
    else if (!(flight = malloc(sizeof *flight)))
        return NULL;
    flight->blocks = blocks;
    flight->number = 0;
    flight->is_late = flight->in_doubt = flight->is_out = flight->is_alone = false;
    flight->n = 0;
    return flight;
}

/* It is on its way, and not to be told again. */
static void note_sent(struct flight *flight, const struct wish *wish)
{
    struct credit *credit = wish->credit;

    assert(flight->n < FLIGHT_MAX);
    assert(credit->back >= 0 && credit->debt >= 0);
    flight->sent[flight->n++] = (struct sent){.credit = credit,
                                              .scope = wish->scope,
                                              .limit = wish->limit,
                                              .want = wish->want,
                                              .need = wish->need,
                                              .least = wish->least,
                                              .back = credit->back,
                                              .debt = credit->debt,
                                              .back_at = credit->back_at,
                                              .debt_at = credit->debt_at};
    wish->scope->pins++;
    flight->blocks->stats.returned += (uint64_t)credit->back;
    credit->back = credit->debt = 0;
    credit->back_at = credit->debt_at = 0;
}

/* For the first time, or again. */
static void send_off(struct flight *flight)
{
    struct remote_blocks *blocks = flight->blocks;
    const char *said = flight->is_alone ? NULL : name_of_said(blocks, flight);
    struct command command;

    if (said && flight->number == 0)
        flight->number = ++blocks->flights;
    begin_command(&command, blocks, said ? flight->number : 0);
    for (size_t i = 0; i < flight->n; i++)
        add_sent(&command, &flight->sent[i]);
    if (said)
        command.keys[command.n_keys++] = slice_of(said);
    assert(!flight->is_out && flight->n > 0 && flight->n <= FLIGHT_MAX);
    assert(flight->root->flight == flight);
    flight->is_out = true;
    redis_ask_init(&flight->ask, remote_blocks_lease_answered, late);
    redis_eval(blocks->options.redis, &flight->ask, &script_block, command.keys, command.n_keys,
               command.args, command.n_args);
}

void lease_ask(struct remote_blocks *blocks, struct root *root, tg_ms now)
{
    struct wishes wishes = {.n = 0};
    struct flight *flight;

    if (root->flight)
        return;
    wish_for_waiting(&wishes, root, now);
    wish_for_more(&wishes, root, now);
    settle_wishes(&wishes, now);
    bool is_alone = now < root->split_until;
    if (is_alone)
        keep_one(&wishes);
    if (wishes.n == 0 || !(flight = get_flight(blocks)))
        return;
    for (size_t i = 0; i < wishes.n; i++)
        note_sent(flight, &wishes.list[i]);
    flight->root = root;
    flight->is_alone = is_alone;
    flight->sent_at = now;
    root->flight = flight;
    blocks->stats.asks++;
    book_activate(blocks, root);
    send_off(flight);
}

/* ---- the answer ---- */

static void late(struct redis_ask *ask)
{
    struct flight *flight = container_of(ask, struct flight, ask);

    assert(flight->is_out && flight->root->flight == flight);
    flight->is_late = true;
    blocks_late(flight->root);
}

/* How long it takes to make as many decisions as are worth an ask. */
static double pace_of(struct root *root, tg_ms now)
{
    tg_ms span = num_max(now - root->paced_at, 1);

    root->pace +=
        ((double)root->decided / (double)span - root->pace) * ((double)span / ((double)span + 300));
    root->decided = 0;
    root->paced_at = now;
    return root->pace > 0 ? WORTH_AN_ASK / root->pace : (double)TG_NUMBER_MAX;
}

/* The script ran before now. */
static void learn_time(struct root *root, tg_ms time, tg_ms now)
{
    tg_ms ahead = time - now;

    if (!root->knows_time || ahead > root_time(root, now) - now) {
        root->ahead = ahead;
        root->ahead_at = now;
        root->knows_time = true;
    }
}

static bool read_four(const struct redisReply *reply, size_t i, tg_ms time,
                      struct credit_reply *four)
{
    int64_t numbers[4];

    for (size_t k = 0; k < 4; k++) {
        numbers[k] = redis_reply_integer(redis_reply_at(reply, 1 + 4 * i + k), -1);
        if (!num_in_range(numbers[k]))
            return false;
    }
    *four = (struct credit_reply){time, numbers[0], numbers[1], numbers[2], numbers[3]};
    return true;
}

/* False: it makes no sense. What does is taken even then. */
static bool remote_blocks_lease_learn(struct flight *flight, const struct redisReply *reply,
                                      tg_ms now)
{
    tg_ms time = redis_reply_integer(redis_reply_at(reply, 0), -1);
    struct credit_pace pace = {pace_of(flight->root, now), flight->blocks->holders};

    if (redis_reply_is_error(reply) || redis_reply_n(reply) != 1 + 4 * flight->n ||
        !num_in_range(time))
        return false;
    learn_time(flight->root, time, now);
    for (size_t i = 0; i < flight->n; i++) {
        struct sent *sent = &flight->sent[i];
        struct credit_reply four;
        if (!read_four(reply, i, time, &four))
            return false;
        credit_learn(sent->credit, &four, flight->sent_at, now, sent->want, sent->need, &pace);
        flight->blocks->stats.leased += (uint64_t)four.granted;
    }
    return true;
}

/* Never sent, so still to be told. */
static void restore(struct flight *flight, tg_ms now)
{
    for (size_t i = 0; i < flight->n; i++) {
        struct sent *sent = &flight->sent[i];
        credit_restore(sent->credit, sent->back, sent->back_at, sent->debt, sent->debt_at, now);
        flight->blocks->stats.returned -= (uint64_t)sent->back;
    }
}

/* What fell short is a no to those who wait now, and to nobody later. */
static void forget_shortness(struct flight *flight)
{
    for (size_t i = 0; i < flight->n; i++) {
        flight->sent[i].credit->fell_short = false;
        assert(flight->sent[i].scope->pins > 0);
        flight->sent[i].scope->pins--;
    }
}

static void land(struct flight *flight, bool fine, tg_ms now)
{
    struct remote_blocks *blocks = flight->blocks;
    struct root *root = flight->root;

    assert(root->flight == flight && !flight->is_out);
    blocks->stats.lost += !fine;
    root->flight = NULL;
    blocks_landed(blocks, root, fine, now);
    forget_shortness(flight);
    SLIST_INSERT_HEAD(&blocks->spare_flights, flight, spare);
}

/* Whether it is known that nothing was done: it was never sent, or a server that could not serve
 * refused what the script would have written first. One that forbids something may have done what
 * came before that. */
static bool was_not_done(const struct redis_ask *ask, const struct redisReply *reply)
{
    enum resp_error error = reply ? resp_error_of(reply) : RESP_FINE;

    if (!reply)
        return ask->lost == REDIS_AWAY || ask->lost == REDIS_FULL;
    return error != RESP_FINE && error != RESP_ERROR && error != RESP_NOPERM;
}

/* Whether it stays in doubt. Whoever gives back everything does not wait for that. */
static bool is_in_doubt(const struct flight *flight, const struct redisReply *reply, tg_ms now)
{
    bool broke = !reply && flight->ask.lost == REDIS_BROKE && flight->number > 0;

    return (broke || (flight->in_doubt && was_not_done(&flight->ask, reply))) &&
           !redis_is_freeing(flight->blocks->options.redis) && !flight->root->returning &&
           now - flight->sent_at < LIMITS_DOUBT_WITHIN;
}

static void remote_blocks_lease_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct flight *flight = container_of(ask, struct flight, ask);
    tg_ms now = blocks_now(flight->blocks);

    assert(flight->is_out);
    flight->is_out = false;
    if (is_in_doubt(flight, reply, now)) {
        flight->in_doubt = flight->is_late = true;
        blocks_late(flight->root);
        return;
    }
    bool fine = reply && remote_blocks_lease_learn(flight, reply, now);
    if (!flight->in_doubt && was_not_done(ask, reply))
        restore(flight, now);
    bool split = reply && resp_error_of(reply) == RESP_TRYAGAIN && !flight->is_alone;
    if (split)
        flight->root->split_until = now + SPLIT_MS;
    land(flight, fine || split, now);
}

void lease_ask_again(struct remote_blocks *blocks, struct root *root, tg_ms now)
{
    struct flight *flight = root->flight;

    if (!flight || !flight->in_doubt || flight->is_out)
        return;
    struct slice key = limits_codec_key(&flight->sent[0].scope->words, 0);
    bool too_late = now - flight->sent_at >= LIMITS_DOUBT_WITHIN;
    if (!too_late && redis_is_up(blocks->options.redis, &key))
        send_off(flight);
    else if (too_late || root->returning)
        land(flight, false, now);
}
