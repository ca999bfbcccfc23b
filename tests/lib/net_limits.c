/* net_limits.c - the scripts for limits on a real server. */
#include "net_limits.h"

#include <stdio.h>
#include <string.h>

static void load(struct net_limits *limits, const struct redis_script *script)
{
    redisReply *reply =
        net_redis_ask(&limits->server, "SCRIPT LOAD %b", script->text.at, script->text.n);

    /* The name that was reckoned when the program was built is the server's. */
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_string_equal(reply->str, script->sha1);
    freeReplyObject(reply);
}

void net_limits_open(struct net_limits *limits)
{
    memset(limits, 0, sizeof *limits);
    net_redis_start(&limits->server, NULL);
    limits_codec_init(&limits->words);
    snprintf(limits->prefix, sizeof limits->prefix, "t");
    limits->clock = (struct limits_clock){.callers = true, .ttl_floor = 3600000};
    load(limits, &script_take);
    load(limits, &script_refund);
    load(limits, &script_settle);
}

void net_limits_close(struct net_limits *limits)
{
    limits_codec_fini(&limits->words);
    net_redis_free(&limits->server);
}

redisReply *net_limits_run(struct net_limits *limits, const struct redis_script *script)
{
    const char *words[3 + COUNT_OF(limits->call.keys) + COUNT_OF(limits->call.args)];
    size_t sizes[COUNT_OF(words)], n = 3;
    char n_keys[24];

    words[0] = "EVALSHA";
    words[1] = script->sha1;
    words[2] = n_keys;
    snprintf(n_keys, sizeof n_keys, "%zu", limits->call.n_keys);
    for (size_t i = 0; i < 3; i++)
        sizes[i] = strlen(words[i]);
    for (size_t i = 0; i < limits->call.n_keys; i++, n++) {
        words[n] = limits->call.keys[i].at;
        sizes[n] = limits->call.keys[i].n;
    }
    for (size_t i = 0; i < limits->call.n_args; i++, n++) {
        words[n] = limits->call.args[i].at;
        sizes[n] = limits->call.args[i].n;
    }
    redisReply *reply = redisCommandArgv(limits->server.context, (int)n, words, sizes);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s.lua: %s", script->name, reply->str);
    return reply;
}

static void set(struct net_limits *limits, const struct remote_debit *debit, tg_ms now)
{
    limits->clock.now = now;
    assert_int_equal(limits_codec_set(&limits->words, limits->prefix, debit), TG_OK);
}

static redisReply *ask(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                       const char *flags, struct tg_axes *axes, struct remote_charge *charge)
{
    set(limits, debit, now);
    limits_codec_take(&limits->words, &limits->clock, flags, &limits->call);
    redisReply *reply = net_limits_run(limits, &script_take);
    if (!limits_codec_read(&limits->words, &limits->clock, reply, axes, charge))
        fail_msg("a reply of %zu numbers makes no sense", reply->elements);
    return reply;
}

redisReply *net_limits_take(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                            struct tg_axes *axes, struct remote_charge *charge)
{
    return ask(limits, debit, now, "", axes, charge);
}

void net_limits_peek(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                     struct tg_axes *axes)
{
    struct remote_charge ignored;

    freeReplyObject(ask(limits, debit, now, "p", axes, &ignored));
}

void net_limits_refund(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                       const struct remote_charge *charge)
{
    set(limits, debit, now);
    limits_codec_charged(&limits->words, charge);
    if (limits_codec_undo(&limits->words, &limits->clock, NULL, charge->at, &limits->call))
        freeReplyObject(net_limits_run(limits, &script_refund));
}

void net_limits_settle(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                       const struct remote_charge *charge, int64_t actual)
{
    set(limits, debit, now);
    if (limits_codec_settle(&limits->words, &limits->clock, NULL, charge, actual, &limits->call))
        freeReplyObject(net_limits_run(limits, &script_settle));
}
