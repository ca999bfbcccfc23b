/* net_limits.h - the scripts for limits on a real server, called one by one and waited for.
 *
 *     net_limits_open(&limits)
 *     net_limits_take(&limits, &debit, now, &axes, &charge)
 *
 * No client of ours is in between: what is tried is the scripts, and the words they get.
 */
#ifndef NET_LIMITS_H
#define NET_LIMITS_H

#include "net_redis.h"
#include "server/remote_store/remote_limits_codec.h"
#include "server/remote_store/scripts.h"

struct net_limits {
    struct net_redis server;
    char prefix[32]; /* prefix of keys; "t" */
    struct limits_codec words;
    struct limits_call call;
    struct limits_clock clock; /* the caller's, with an hour for states, unless a test says else */
};

void net_limits_open(struct net_limits *limits);
void net_limits_close(struct net_limits *limits);

/* Runs a script with what is in `call`. The reply is the caller's; an error fails the test. */
redisReply *net_limits_run(struct net_limits *limits, const struct redis_script *script);

/* The same as the store's functions of these names. Takes and peeks return the reply's numbers. */
redisReply *net_limits_take(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                            struct tg_axes *axes, struct remote_charge *charge);
void net_limits_peek(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                     struct tg_axes *axes);
void net_limits_refund(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                       const struct remote_charge *charge);
void net_limits_settle(struct net_limits *limits, const struct remote_debit *debit, tg_ms now,
                       const struct remote_charge *charge, int64_t actual);

#endif /* NET_LIMITS_H */
