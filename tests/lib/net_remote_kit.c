/* net_remote_kit.c - a loop with a client of Redis on it. See net_remote_kit.h. */
#include "net_remote_kit.h"

#include <stdio.h>
#include <string.h>

/* So long nothing takes, on any machine: then it is not going to happen. */
static const tg_ms GUARD = 30000;

static void open_with(struct remote_kit *kit, struct net_loop *loop, struct redis_options *options)
{
    struct tg_problem problem;

    memset(kit, 0, sizeof *kit);
    clock_init(&kit->clock);
    kit->loop = loop;
    if (!loop)
        assert_int_equal(net_loop_new(&kit->clock, &kit->loop), TG_OK);
    options->timeout = GUARD;
    options->patience = GUARD;
    if (redis_new(kit->loop, options, &kit->redis, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    remote_until(kit, redis_is_up(kit->redis, NULL));
}

void remote_kit_open(struct remote_kit *kit, struct net_loop *loop, const struct net_redis *server)
{
    struct redis_options options;

    redis_options_init(&options);
    options.n_hosts = 1;
    snprintf(options.hosts[0].name, sizeof options.hosts[0].name, "%s", server->host);
    open_with(kit, loop, &options);
}

void remote_kit_open_cluster(struct remote_kit *kit, const struct net_redis_cluster *cluster)
{
    struct redis_options options;

    redis_options_init(&options);
    options.kind = REDIS_CLUSTER;
    options.n_hosts = 1;
    snprintf(options.hosts[0].name, sizeof options.hosts[0].name, "127.0.0.1");
    options.hosts[0].port = cluster->nodes[0].port;
    open_with(kit, NULL, &options);
}

void remote_kit_hasten(struct remote_kit *kit, tg_ms timeout)
{
    redis_set_timeout(kit->redis, timeout);
}

void remote_kit_cut(struct remote_kit *kit)
{
    redis_free(kit->redis);
    kit->redis = NULL;
}

void remote_kit_close(struct remote_kit *kit)
{
    redis_free(kit->redis);
    net_loop_free(kit->loop);
}

static void wake(void *arg)
{
    *(bool *)arg = true;
}

void remote_kit_turn(struct remote_kit *kit, int round, const char *what, const char *file,
                     int line)
{
    struct net_timer guard;
    bool over = false;

    (void)round;
    net_timer_init(&guard, wake, &over);
    net_timer_set(kit->loop, &guard, GUARD);
    net_loop_turn(kit->loop, true);
    net_timer_stop(kit->loop, &guard);
    if (over) {
        print_error("%s:%d: it never became so: %s\n", file, line, what);
        fail();
    }
}
