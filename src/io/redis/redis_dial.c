/* redis_dial.c - how a link comes to be: name, address after address, TLS, greeting.
 *
 * Everything that is said first goes out in one piece, and is answered in order; what the answers
 * mean depends on who is greeted. A replica is no use, and neither is a server that takes no
 * writes: the last word is a probe of that. A user of few rights may ask for neither ROLE nor a
 * name: then the server is taken at its word.
 */
#include <errno.h>
#include <stdio.h>

#include "io/redis/redis_internal.h"
#include "lib/core/container_of.h"

/* Redis 7 looks at the flags of a script with such a first line before it runs it, and these are of
 * one that writes. Older ones do not know the line and say so, which is a sign of life too. */
static const char probe_text[] = "#!lua\nreturn 1";
const struct slice redis_probe_text = {probe_text, sizeof probe_text - 1};

static void try_next(struct redis_link *link);

static void too_slow(void *arg)
{
    link_fail(arg, "no connection in time");
}

static void address_too_slow(void *arg)
{
    struct redis_link *link = arg;

    wire_close(&link->wire);
    snprintf(link->text, sizeof link->text, "no answer");
    try_next(link);
}

/* This address' share of the time. The last one needs none: the link has its own timer. */
static void set_share(struct redis_link *link)
{
    size_t left = link->addresses.n - link->next_address;

    net_timer_init(&link->share, address_too_slow, link);
    if (left > 0)
        net_timer_set(link->redis->loop, &link->share,
                      link->redis->options.connect / (tg_ms)(left + 1));
}

static void try_next(struct redis_link *link)
{
    net_timer_stop(link->redis->loop, &link->share);
    link->state = LINK_CONNECTING;
    while (link->next_address < link->addresses.n) {
        size_t i = link->next_address++;

        if (wire_connect(&link->wire, link->redis->loop, &redis_wire_ops,
                         &link->addresses.list[i].address.any, link->addresses.list[i].bytes)) {
            set_share(link);
            return;
        }
        snprintf(link->text, sizeof link->text, "%s", strerror(errno));
    }
    link_fail(link, link->text);
}

static void resolved(struct resolve_wait *wait, const struct resolve_answer *answer)
{
    struct redis_link *link = container_of(wait, struct redis_link, resolving);

    if (answer->n == 0) {
        link_fail(link, answer->text);
        return;
    }
    link->addresses = *answer;
    link->next_address = 0;
    try_next(link);
}

void link_dial(void *arg)
{
    struct redis_link *link = arg;
    struct redis *redis = link->redis;

    link->state = LINK_RESOLVING;
    link->text[0] = '\0';
    net_timer_init(&link->timer, too_slow, link);
    net_timer_set(redis->loop, &link->timer, redis->options.connect);
    link->resolving.done = resolved;
    resolve(&redis->resolver, link->host.name, link->host.port, &link->resolving);
}

void link_dial_stop(struct redis_link *link)
{
    struct net_loop *loop = link->redis->loop;

    resolve_cancel(&link->resolving);
    net_timer_stop(loop, &link->timer);
    net_timer_stop(loop, &link->share);
}

/* ---- The greeting ---------------------------------------------------------------------------- */

static void redis_dial_say(struct redis_link *link, enum link_step step, const struct slice *words,
                           size_t n)
{
    char fixed[256];
    size_t bytes = resp_command_bytes(words, n);
    char *command = bytes <= sizeof fixed ? fixed : resp_pool_take(&link->redis->pool, bytes);

    if (command == NULL)
        return; /* one answer is missing, and the time to connect passes */
    link->steps[link->n_steps++] = step;
    resp_put_command(command, words, n);
    wire_write(&link->wire, command, bytes);
    OPENSSL_cleanse(command, bytes); /* it may have been the password */
    if (command != fixed)
        resp_pool_give(&link->redis->pool, command, bytes);
}

/* Sentinels seldom know the users of the master: they are told the password alone, too, unless they
 * have one of their own. */
static void say_who(struct redis_link *link)
{
    const struct redis_options *options = &link->redis->options;
    bool sentinel = link->kind == LINK_SENTINEL, own = sentinel && options->sentinels[0] != '\0';
    struct slice user = slice_of(options->user);
    struct slice password = slice_of(own ? options->sentinels : options->password);
    struct slice both[] = {SLICE("AUTH"), user, password}, one[] = {SLICE("AUTH"), password};

    if (password.n == 0)
        return;
    if (user.n > 0 && !own)
        redis_dial_say(link, STEP_AUTH, both, 3);
    if (user.n == 0 || sentinel)
        redis_dial_say(link, STEP_AUTH, one, 2);
}

static void greet(struct redis_link *link)
{
    const struct redis_options *options = &link->redis->options;
    char db[16];

    link->state = LINK_GREETING;
    link->n_steps = link->step = 0;
    link->reader = resp_reader_new();
    if (link->reader == NULL) {
        link_fail(link, "no memory");
        return;
    }
    say_who(link);
    if (link->kind == LINK_SENTINEL) {
        if (link->n_steps == 0)
            link_is_up(link);
        return;
    }
    if (options->db != 0) {
        struct slice words[] = {SLICE("SELECT"), {db, 0}};
        words[1].n = (size_t)snprintf(db, sizeof db, "%d", options->db);
        redis_dial_say(link, STEP_SELECT, words, 2);
    }
    struct slice name[] = {SLICE("CLIENT"), SLICE("SETNAME"), SLICE("tollgate")};
    redis_dial_say(link, STEP_NAME, name, 3);
    struct slice info[] = {SLICE("CLUSTER"), SLICE("INFO")};
    if (link->kind == LINK_MASTER)
        redis_dial_say(link, STEP_ROLE, &SLICE("ROLE"), 1);
    else
        redis_dial_say(link, STEP_CLUSTER, info, 2);
    struct slice probe[] = {SLICE("EVAL"), redis_probe_text, SLICE("0")};
    redis_dial_say(link, STEP_PROBE, probe, 3);
}

/* How much of an error may be told: a server that does not know a command repeats its words, of
 * which one may be the password. */
static int bytes_to_tell(const char *text)
{
    const char *words = strstr(text, ", with args");
    size_t n = words != NULL ? (size_t)(words - text) : strlen(text);

    return n < 120 ? (int)n : 120;
}

static void fail_by(struct redis_link *link, const char *what, const struct redisReply *reply)
{
    char text[160];

    snprintf(text, sizeof text, "%s: %.*s", what, bytes_to_tell(reply->str), reply->str);
    link_fail(link, text);
}

/* False: it has failed. */
static bool role_is_right(struct redis_link *link, const struct redisReply *reply)
{
    struct slice role = redis_reply_text(redis_reply_at(reply, 0));

    if (role.n == 0 || slice_equal(role, SLICE("master")))
        return true;
    link_fail(link, "the server is a replica");
    return false;
}

/* The same. */
static bool probe_is_right(struct redis_link *link, const struct redisReply *reply)
{
    enum resp_error error = resp_error_of(reply);
    bool replica = error == RESP_READONLY;

    if (error == RESP_NOAUTH || (replica && link->kind != LINK_NODE)) {
        fail_by(link, "not fit to write", reply);
        return false;
    }
    if (error == RESP_UNWELL || replica)
        link_be_unwell(link, false, reply->str);
    else if (error != RESP_FINE)
        link->plain_probe = true;
    return true;
}

void link_greet_reply(struct redis_link *link, const struct redisReply *reply)
{
    bool error = reply->type == REDIS_REPLY_ERROR;

    if (error)
        snprintf(link->text, sizeof link->text, "%.*s", bytes_to_tell(reply->str), reply->str);
    switch (link->steps[link->step]) {
    case STEP_AUTH:
        /* A sentinel may have no password, and says later whether it would have liked one. */
        if (error && link->kind != LINK_SENTINEL) {
            fail_by(link, "AUTH", reply);
            return;
        }
        break;
    case STEP_SELECT:
        if (error) {
            fail_by(link, "SELECT", reply);
            return;
        }
        break;
    case STEP_ROLE:
        if (!role_is_right(link, reply))
            return;
        break;
    case STEP_CLUSTER:
        if (strstr(redis_reply_text(reply).at, "cluster_state:fail") != NULL)
            link_be_unwell(link, true, "the node says that the cluster is down");
        break;
    case STEP_PROBE:
        if (!probe_is_right(link, reply))
            return;
        break;
    case STEP_NAME:
    case STEP_COUNT:
        break;
    }
    if (++link->step == link->n_steps)
        link_is_up(link);
}

void link_dial_up(struct redis_link *link)
{
    const struct redis_options *options = &link->redis->options;

    net_timer_stop(link->redis->loop, &link->share);
    if (link->state == LINK_CONNECTING && options->secure) {
        link->state = LINK_SHAKING;
        if (!wire_start_tls(&link->wire, options->tls, link->host.name, &link->ticket))
            link_fail(link, "TLS cannot be set up");
        return;
    }
    greet(link);
}

void link_dial_broke(struct redis_link *link, enum wire_fault fault, const char *text)
{
    if (fault == WIRE_REFUSED) {
        snprintf(link->text, sizeof link->text, "%s", text);
        wire_close(&link->wire);
        try_next(link);
        return;
    }
    /* A server that takes no more clients says why before it hangs up. */
    char copy[160];
    bool said = link->state == LINK_GREETING && link->text[0] != '\0';
    snprintf(copy, sizeof copy, "%s", said ? link->text : text);
    link_fail(link, copy);
}
