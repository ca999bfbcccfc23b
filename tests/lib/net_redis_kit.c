/* net_redis_kit.c - a client of Redis on a loop that a test drives. See net_redis_kit.h. */
#include "net_redis_kit.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define NEVER_MS 60000 /* what takes longer does not come */

void redis_kit_init(struct redis_kit *kit)
{
    memset(kit, 0, sizeof *kit);
    kit_init(&kit->kit);
    redis_options_init(&kit->options);
    kit->options.timeout = 20000;
    kit->options.patience = 30000;
    kit->options.connect = 20000;
    kit->options.backoff_min = 1;
    kit->options.backoff_max = 50;
    kit->options.seed = 1;
}

void redis_kit_init_url(struct redis_kit *kit, const char *url)
{
    struct tg_problem problem;

    redis_kit_init(kit);
    if (redis_url_read(url, &kit->options, &problem) != TG_OK)
        fail_msg("%s", problem.text);
}

void redis_kit_init_server(struct redis_kit *kit, const struct net_redis *server)
{
    redis_kit_init(kit);
    snprintf(kit->options.hosts[0].name, sizeof kit->options.hosts[0].name, "%s", server->host);
    snprintf(kit->options.password, sizeof kit->options.password, "%s", server->password);
    kit->options.n_hosts = 1;
}

void redis_kit_init_port(struct redis_kit *kit, int port)
{
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    redis_kit_init_url(kit, url);
}

static void changed(void *context, bool up)
{
    struct redis_kit *kit = context;

    kit->changes++;
    kit->up = up;
    assert_int_equal(redis_is_up(kit->redis, NULL), up);
}

void redis_kit_open(struct redis_kit *kit)
{
    struct tg_problem problem;

    if (redis_new(kit->kit.loop, &kit->options, &kit->redis, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    redis_on_change(kit->redis, changed, kit);
}

void redis_kit_open_up(struct redis_kit *kit)
{
    redis_kit_open(kit);
    redis_kit_until(kit, redis_is_up(kit->redis, NULL));
}

void redis_kit_free(struct redis_kit *kit)
{
    redis_free(kit->redis);
    redis_options_wipe(&kit->options);
    kit_fini(&kit->kit);
}

void redis_kit_turn(struct redis_kit *kit, tg_ms began, const char *what, const char *file,
                    int line)
{
    net_loop_turn(kit->kit.loop, true);
    if (net_loop_now(kit->kit.loop) - began < NEVER_MS)
        return;
    print_error("never came: %s; the client says: %s\n", what, redis_kit_stats(kit).problem);
    _fail(file, line);
}

static void answered(struct redis_ask *private, const struct redisReply *reply)
{
    struct redis_kit_ask *ask = (struct redis_kit_ask *)(void *)private;
    struct slice text = redis_reply_text(reply);

    ask->answered++;
    ask->lost = reply == NULL;
    assert_int_equal(private->lost == REDIS_ANSWERED, reply != NULL);
    ask->error = reply != NULL && redis_reply_is_error(reply);
    ask->integer = redis_reply_integer(reply, -1);
    ask->elements = redis_reply_n(reply);
    snprintf(ask->text, sizeof ask->text, "%.*s", (int)text.n, text.at);
}

static void late(struct redis_ask *private)
{
    struct redis_kit_ask *ask = (struct redis_kit_ask *)(void *)private;

    assert_int_equal(ask->answered, 0);
    ask->late++;
}

static void prepare(struct redis_kit_ask *ask)
{
    memset(ask, 0, sizeof *ask);
    redis_ask_init(&ask->ask, answered, late);
}

void redis_kit_ask(struct redis_kit *kit, struct redis_kit_ask *ask, const char *words)
{
    struct slice list[16];
    size_t n = 0;

    prepare(ask);
    for (const char *at = words; *at != '\0'; at += *at == ' ') {
        assert_true(n < COUNT_OF(list));
        list[n].at = at;
        list[n].n = strcspn(at, " ");
        at += list[n++].n;
    }
    redis_command(kit->redis, &ask->ask, list, n, n > 1 ? 1 : 0);
    assert_int_equal(ask->answered, 0);
}

void redis_kit_do(struct redis_kit *kit, struct redis_kit_ask *ask, const char *words)
{
    redis_kit_ask(kit, ask, words);
    redis_kit_until(kit, ask->answered);
}

struct redis_script redis_kit_script(const char *text)
{
    struct redis_script script = {.name = "test", .text = slice_of(text)};
    unsigned char sum[SHA_DIGEST_LENGTH];

    SHA1((const unsigned char *)text, strlen(text), sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(script.sha1 + 2 * i, 3, "%02x", sum[i]);
    return script;
}

void redis_kit_eval(struct redis_kit *kit, struct redis_kit_ask *ask,
                    const struct redis_script *script, const char *key, const char *arg)
{
    struct slice keys[] = {slice_of(key)}, args[] = {slice_of(arg)};

    prepare(ask);
    redis_eval(kit->redis, &ask->ask, script, keys, 1, args, 1);
    assert_int_equal(ask->answered, 0);
}

struct redis_stats redis_kit_stats(const struct redis_kit *kit)
{
    struct redis_stats stats;

    redis_get_stats(kit->redis, &stats);
    return stats;
}
