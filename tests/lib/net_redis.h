/* net_redis.h - real redis-server processes for tests: alone, as a cluster, under Sentinel.
 *
 *     struct net_redis server;
 *     net_redis_start(&server, "--requirepass", "secret", NULL);
 *     ... host "127.0.0.1" and server.port, or host server.host, which is "unix:PATH" ...
 *     net_redis_do(&server, "SET %s %d", "a", 1);
 *     net_redis_free(&server);
 *
 * Servers keep nothing on disk, listen to a port of their own and to a unix socket in a folder of
 * their own, and die with the thread that started them. A server is ready when it has answered, and
 * whoever waits for it waits for that or for its end. What cannot be done fails the test.
 */
#ifndef NET_REDIS_H
#define NET_REDIS_H

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include "check.h"

#define NET_REDIS_ARGS 48

struct net_redis {
    pid_t pid;      /* 0: it does not run */
    int port;       /* on 127.0.0.1, plain; of TLS: tls_port */
    int tls_port;   /* 0: none */
    int bus_port;   /* bus port of a cluster's node; 0: none */
    char host[128]; /* "unix:PATH" */
    char folder[96];
    char user[64];      /* by whom net_redis_ask() asks; "": the default user */
    char password[128]; /* and with what; "": without */
    bool sentinel;
    bool paused;
    int alive; /* a pipe that ends with the server */
    redisContext *context;
    char *args[NET_REDIS_ARGS]; /* ended by null */
    size_t n_args;
};

/* Options of redis-server, ended by a null. With "--requirepass" the rig knows the password. */
void net_redis_start(struct net_redis *server, ...);

/* The same with TLS on server->tls_port; files are PEM. */
void net_redis_start_tls(struct net_redis *server, const char *cert, const char *key,
                         const char *ca);

/* After a stop or a kill: on the same ports, with the same options, empty. */
void net_redis_again(struct net_redis *server);

void net_redis_stop(struct net_redis *server);   /* SIGTERM, and waits for its end */
void net_redis_kill(struct net_redis *server);   /* SIGKILL, and waits for its end */
void net_redis_pause(struct net_redis *server);  /* SIGSTOP */
void net_redis_resume(struct net_redis *server); /* SIGCONT */
void net_redis_free(struct net_redis *server);   /* in any state, also one of zeroes */

/* Asks and waits, by hiredis' formats. The reply is the caller's, by freeReplyObject(). */
redisReply *net_redis_ask(struct net_redis *server, const char *format, ...);

/* The same; an error fails the test. */
void net_redis_do(struct net_redis *server, const char *format, ...);

/* The same; the reply is an integer, or a text that is one. */
long long net_redis_integer(struct net_redis *server, const char *format, ...);

/* Whether the reply is a text that has this in it. */
bool net_redis_says(struct net_redis *server, const char *text, const char *format, ...);

/* Waits until it is so. */
#define net_redis_until(server, so)                                                                \
    do {                                                                                           \
        for (int net_redis_rounds = 0; !(so); net_redis_rounds++)                                  \
            net_redis_wait(server, net_redis_rounds, #so, __FILE__, __LINE__);                     \
    } while (0)
void net_redis_wait(struct net_redis *server, int round, const char *what, const char *file,
                    int line);

/* A port of 127.0.0.1 that nobody listens to, outside of what the system gives to clients. */
int net_redis_free_port(void);

/* ---- A cluster ------------------------------------------------------------------------------- */

#define NET_REDIS_NODES 8

struct net_redis_cluster {
    struct net_redis nodes[NET_REDIS_NODES]; /* masters first, then replicas, of each in turn */
    char ids[NET_REDIS_NODES][41];
    size_t masters, n;
};

/* Slots are dealt out evenly, in order. Ready when every node says that all is well. `args`:
 * options of every node, ended by a null; or null. */
void net_redis_cluster_start(struct net_redis_cluster *cluster, size_t masters, size_t replicas,
                             const char *const *args);
void net_redis_cluster_free(struct net_redis_cluster *cluster);

/* The master that was given this slot at the start. */
size_t net_redis_cluster_owner(const struct net_redis_cluster *cluster, unsigned slot);

/* A slot on its way from its owner to another master: until _moved(), the owner answers ASK for
 * keys that it does not have; afterwards MOVED. Keys do not move: it must have none by then. */
void net_redis_cluster_moving(struct net_redis_cluster *cluster, unsigned slot, size_t to);
void net_redis_cluster_moved(struct net_redis_cluster *cluster, unsigned slot, size_t to);

/* ---- Under Sentinel -------------------------------------------------------------------------- */

#define NET_REDIS_SENTINELS 3

struct net_redis_watched {
    struct net_redis servers[2]; /* the master, and its replica */
    struct net_redis sentinels[NET_REDIS_SENTINELS];
    size_t n_sentinels;
    char name[32]; /* name of the master: "tollgate" */
};

/* Ready when every sentinel knows the replica and the other sentinels. A master that is silent for
 * half a second is down. `password` null: none; it is the servers', not the sentinels'. */
void net_redis_watched_start(struct net_redis_watched *watched, size_t n_sentinels,
                             const char *password);
void net_redis_watched_free(struct net_redis_watched *watched);

#endif
