/* net_redis_kit.h - a client of Redis on a loop that a test drives, and asks that write down what
 * they are told. */
#ifndef NET_REDIS_KIT_H
#define NET_REDIS_KIT_H

#include "io/redis/redis.h"
#include "net_kit.h"
#include "net_redis.h"

struct redis_kit {
    struct kit kit;
    struct redis_options options; /* may be changed before redis_kit_open() */
    struct redis *redis;
    int changes; /* how often redis_is_up() changed */
    bool up;     /* what the last change said */
};

struct redis_kit_ask {
    struct redis_ask ask;
    int answered, late; /* how often */
    bool lost;          /* answered with null; `ask.lost` says how */
    bool error;
    long long integer;
    size_t elements;
    char text[200]; /* a string, status or error */
};

/* Times are long: nothing is late or down because the machine is busy. */
void redis_kit_init(struct redis_kit *kit);
void redis_kit_init_url(struct redis_kit *kit, const char *url);
void redis_kit_init_server(struct redis_kit *kit, const struct net_redis *server); /* its socket */
void redis_kit_init_port(struct redis_kit *kit, int port); /* on 127.0.0.1 */
void redis_kit_open(struct redis_kit *kit);
void redis_kit_open_up(struct redis_kit *kit); /* and waits until it is up */
void redis_kit_free(struct redis_kit *kit);

/* Turns the loop until it is so; a client always has a next thing to do. */
#define redis_kit_until(client, so)                                                                \
    do {                                                                                           \
        tg_ms redis_kit_began = net_loop_now((client)->kit.loop);                                  \
        while (!(so))                                                                              \
            redis_kit_turn(client, redis_kit_began, #so, __FILE__, __LINE__);                      \
    } while (0)
void redis_kit_turn(struct redis_kit *kit, tg_ms began, const char *what, const char *file,
                    int line);

/* Words are parted by spaces; the second is the key, if there is one. */
void redis_kit_ask(struct redis_kit *kit, struct redis_kit_ask *ask, const char *words);

/* The same, and waits for the answer. */
void redis_kit_do(struct redis_kit *kit, struct redis_kit_ask *ask, const char *words);

/* A script from its text. */
struct redis_script redis_kit_script(const char *text);
void redis_kit_eval(struct redis_kit *kit, struct redis_kit_ask *ask,
                    const struct redis_script *script, const char *key, const char *arg);

struct redis_stats redis_kit_stats(const struct redis_kit *kit);

#endif
