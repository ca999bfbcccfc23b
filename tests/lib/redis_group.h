/* redis_group.h - a real Redis that all tests of a program share: started before the first, stopped
 * after the last. Who needs it empty empties it.
 *
 *     return cmocka_run_group_tests(tests, start_redis, stop_redis);
 */
#ifndef REDIS_GROUP_H
#define REDIS_GROUP_H

#include "net_redis.h"

static struct net_redis server;

static int start_redis(void **state)
{
    (void)state;
    net_redis_start(&server, NULL);
    return 0;
}

static int stop_redis(void **state)
{
    (void)state;
    net_redis_free(&server);
    return 0;
}

#endif
