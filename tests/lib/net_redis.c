/* net_redis.c - real redis-server processes for tests. See net_redis.h. */
#include "net_redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 20000
#define WAIT_MS 3 /* between two questions, unless the server ends */
#define TRIES 20  /* at a port that somebody else may take meanwhile */
#define PORT_FIRST 10240
#define PORT_LAST 32000 /* above, the system takes ports for clients */

/* ---- Ports ----------------------------------------------------------------------------------- */

static bool is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return is;
}

int net_redis_free_port(void)
{
    static unsigned next; /* programs that run side by side begin at different places */

    if (next == 0)
        next = (unsigned)getpid() * 2654435761u;
    for (;;) {
        int port = PORT_FIRST + (int)(next++ % (PORT_LAST - PORT_FIRST));
        if (is_free(port))
            return port;
    }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void forget_context(struct net_redis *server)
{
    if (server->context != NULL)
        redisFree(server->context);
    server->context = NULL;
}

/* False: there is no connection. */
static bool open_context(struct net_redis *server)
{
    struct timeval limit = {.tv_sec = 20};

    if (server->context == NULL) {
        server->context = redisConnectUnixWithTimeout(server->host + 5, limit);
        assert_non_null(server->context);
        if (server->context->err == 0 && server->password[0] != '\0') {
            const char *user = server->user[0] != '\0' ? server->user : "default";
            redisSetTimeout(server->context, limit);
            freeReplyObject(redisCommand(server->context, "AUTH %s %s", user, server->password));
        }
    }
    if (server->context->err == 0)
        return true;
    forget_context(server);
    return false;
}

/* Null: no connection, or it broke. One that stood idle may have been closed meanwhile, as a
 * sentinel does with all of a server that it promotes: then there is a second try. */
static redisReply *try_to_ask(struct net_redis *server, const char *format, va_list args)
{
    for (int fresh = server->context == NULL; fresh < 2; fresh++) {
        va_list copy;

        if (!open_context(server))
            return NULL;
        va_copy(copy, args);
        redisReply *reply = redisvCommand(server->context, format, copy);
        va_end(copy);
        if (reply != NULL)
            return reply;
        forget_context(server);
    }
    return NULL;
}

static void show_log(const struct net_redis *server)
{
    char command[160];

    snprintf(command, sizeof command, "tail -n 30 '%s/log' >&2", server->folder);
    if (system(command) != 0)
        print_message("no log of the server\n");
}

redisReply *net_redis_ask(struct net_redis *server, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = try_to_ask(server, format, args);
    va_end(args);
    if (reply == NULL) {
        show_log(server);
        fail_msg("the server does not answer '%s'", format);
    }
    return reply;
}

void net_redis_do(struct net_redis *server, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = try_to_ask(server, format, args);
    va_end(args);
    if (reply == NULL)
        fail_msg("the server does not answer '%s'", format);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("'%s': %s", format, reply->str);
    freeReplyObject(reply);
}

long long net_redis_integer(struct net_redis *server, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = try_to_ask(server, format, args);
    va_end(args);
    if (reply == NULL || (reply->type != REDIS_REPLY_INTEGER && reply->type != REDIS_REPLY_STRING))
        fail_msg("'%s': no integer: %s", format, reply != NULL && reply->str ? reply->str : "");
    long long n = reply->type == REDIS_REPLY_INTEGER ? reply->integer : atoll(reply->str);
    freeReplyObject(reply);
    return n;
}

/* False also while it does not answer: for whoever waits. */
static bool says(struct net_redis *server, const char *text, const char *format, va_list args)
{
    redisReply *reply = try_to_ask(server, format, args);
    bool is = reply != NULL && reply->str != NULL && strstr(reply->str, text) != NULL;

    if (reply != NULL)
        freeReplyObject(reply);
    return is;
}

bool net_redis_says(struct net_redis *server, const char *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    bool is = says(server, text, format, args);
    va_end(args);
    return is;
}

void net_redis_wait(struct net_redis *server, int round, const char *what, const char *file,
                    int line)
{
    struct pollfd end = {.fd = server->alive, .events = POLLIN};

    if (round < ROUNDS_MAX && poll(&end, 1, WAIT_MS) == 0)
        return;
    show_log(server);
    print_message("%s:%d: never so: %s\n", file, line, what);
    fail();
}

/* ---- One server ------------------------------------------------------------------------------ */

static void add_arg(struct net_redis *server, const char *arg)
{
    assert_true(server->n_args + 1 < NET_REDIS_ARGS);
    server->args[server->n_args] = strdup(arg);
    assert_non_null(server->args[server->n_args]);
    server->n_args++;
}

static void add_option(struct net_redis *server, const char *name, const char *value)
{
    add_arg(server, name);
    add_arg(server, value);
}

static void set_port(struct net_redis *server, const char *name, int *port)
{
    char text[16];

    *port = net_redis_free_port();
    snprintf(text, sizeof text, "%d", *port);
    for (size_t i = 0; i < server->n_args; i++) {
        if (strcmp(server->args[i], name) == 0) {
            free(server->args[i + 1]);
            server->args[i + 1] = strdup(text);
            return;
        }
    }
    add_option(server, name, text);
}

static void make_folder(struct net_redis *server)
{
    const char *in = getenv("TMPDIR");
    int n = snprintf(server->folder, sizeof server->folder - 6, "%.60s/redis-",
                     in != NULL ? in : "/tmp");

    memset(server->folder + n, 'X', 6); /* to be replaced */
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->host, sizeof server->host, "unix:%s/s", server->folder);
}

static void prepare(struct net_redis *server, const char *configuration)
{
    *server = (struct net_redis){.alive = -1};
    make_folder(server);
    add_arg(server, "redis-server");
    if (configuration != NULL) {
        char path[128];

        snprintf(path, sizeof path, "%s/conf", server->folder);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(configuration, file);
        assert_int_equal(fclose(file), 0);
        add_arg(server, path);
        add_arg(server, "--sentinel");
        server->sentinel = true;
    }
    add_option(server, "--bind", "127.0.0.1");
    set_port(server, "--port", &server->port);
    add_option(server, "--unixsocket", server->host + 5);
    add_option(server, "--dir", server->folder);
    add_option(server, "--logfile", "log");
    add_option(server, "--daemonize", "no");
    if (server->sentinel)
        return;
    add_option(server, "--save", "");
    add_option(server, "--appendonly", "no");
    add_option(server, "--repl-diskless-sync-delay", "0");
    add_option(server, "--enable-debug-command", "yes");
}

/* Connections of the test's must end when the test ends them: none is inherited. */
static void become_server(struct net_redis *server, pid_t parent, int alive)
{
    for (int fd = 3; fd < 1024; fd++)
        if (fd != alive)
            close(fd);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    signal(SIGPIPE, SIG_DFL);
    execvp(server->args[0], server->args);
    _exit(127);
}

static void launch(struct net_redis *server)
{
    int ends[2];
    pid_t parent = getpid();

    signal(SIGPIPE, SIG_IGN); /* a server that ended is an error, also for hiredis */
    assert_int_equal(pipe(ends), 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        become_server(server, parent, ends[1]);
    close(ends[1]);
    server->alive = ends[0];
    server->paused = false;
}

static void bury(struct net_redis *server)
{
    int status;

    forget_context(server);
    if (server->pid > 0)
        assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    server->pid = 0;
    if (server->alive >= 0)
        close(server->alive);
    server->alive = -1;
}

/* True: it answers. False: it has ended. */
static bool becomes_ready(struct net_redis *server)
{
    struct pollfd end = {.fd = server->alive, .events = POLLIN};

    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (net_redis_says(server, "PONG", "PING") || net_redis_says(server, "LOADING", "PING"))
            return true;
        if (poll(&end, 1, WAIT_MS) > 0)
            return false;
    }
    return false;
}

void net_redis_again(struct net_redis *server)
{
    assert_int_equal(server->pid, 0);
    launch(server);
    if (becomes_ready(server))
        return;
    show_log(server);
    fail_msg("redis-server does not start");
}

/* With other ports, if somebody was quicker. */
static void start_somewhere(struct net_redis *server)
{
    for (int try = 0; try < TRIES; try++) {
        launch(server);
        if (becomes_ready(server))
            return;
        net_redis_kill(server);
        set_port(server, "--port", &server->port);
        if (server->tls_port != 0)
            set_port(server, "--tls-port", &server->tls_port);
        if (server->bus_port != 0)
            set_port(server, "--cluster-port", &server->bus_port);
    }
    show_log(server);
    fail_msg("redis-server does not start");
}

static void learn_password(struct net_redis *server)
{
    for (size_t i = 0; i + 1 < server->n_args; i++)
        if (strcmp(server->args[i], "--requirepass") == 0)
            snprintf(server->password, sizeof server->password, "%s", server->args[i + 1]);
}

void net_redis_start(struct net_redis *server, ...)
{
    va_list args;
    const char *arg;

    prepare(server, NULL);
    va_start(args, server);
    while ((arg = va_arg(args, const char *)) != NULL)
        add_arg(server, arg);
    va_end(args);
    learn_password(server);
    start_somewhere(server);
}

void net_redis_start_tls(struct net_redis *server, const char *cert, const char *key,
                         const char *ca)
{
    prepare(server, NULL);
    set_port(server, "--tls-port", &server->tls_port);
    add_option(server, "--tls-cert-file", cert);
    add_option(server, "--tls-key-file", key);
    add_option(server, "--tls-ca-cert-file", ca);
    add_option(server, "--tls-auth-clients", "no");
    start_somewhere(server);
}

static void end_by(struct net_redis *server, int number)
{
    if (server->pid > 0)
        assert_int_equal(kill(server->pid, number), 0);
    if (server->paused)
        net_redis_resume(server);
    bury(server);
}

void net_redis_stop(struct net_redis *server)
{
    end_by(server, SIGTERM);
}

void net_redis_kill(struct net_redis *server)
{
    end_by(server, SIGKILL);
}

void net_redis_pause(struct net_redis *server)
{
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    server->paused = true;
}

void net_redis_resume(struct net_redis *server)
{
    if (server->pid > 0)
        kill(server->pid, SIGCONT);
    server->paused = false;
}

void net_redis_free(struct net_redis *server)
{
    char command[128];

    if (server->n_args == 0)
        return;
    net_redis_kill(server);
    for (size_t i = 0; i < server->n_args; i++)
        free(server->args[i]);
    snprintf(command, sizeof command, "rm -rf '%s'", server->folder);
    assert_int_equal(system(command), 0);
    *server = (struct net_redis){.alive = -1};
}

/* ---- A cluster ------------------------------------------------------------------------------- */

size_t net_redis_cluster_owner(const struct net_redis_cluster *cluster, unsigned slot)
{
    return slot * cluster->masters / 16384;
}

static unsigned first_slot(const struct net_redis_cluster *cluster, size_t node)
{
    return (unsigned)((node * 16384 + cluster->masters - 1) / cluster->masters);
}

static void start_node(struct net_redis_cluster *cluster, size_t i, const char *const *args)
{
    struct net_redis *node = &cluster->nodes[i];

    prepare(node, NULL);
    add_option(node, "--cluster-enabled", "yes");
    set_port(node, "--cluster-port", &node->bus_port);
    add_option(node, "--cluster-node-timeout", "1000");
    add_option(node, "--cluster-require-full-coverage", "no");
    add_option(node, "--cluster-replica-validity-factor", "0");
    for (; args != NULL && *args != NULL; args++)
        add_arg(node, *args);
    learn_password(node);
    start_somewhere(node);
    redisReply *id = net_redis_ask(node, "CLUSTER MYID");
    assert_int_equal(id->len, 40);
    memcpy(cluster->ids[i], id->str, 41);
    freeReplyObject(id);
}

static void introduce(struct net_redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++) {
        net_redis_do(&cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
        for (size_t k = 0; k < i; k++)
            net_redis_do(&cluster->nodes[i], "CLUSTER MEET 127.0.0.1 %d %d", cluster->nodes[k].port,
                         cluster->nodes[k].bus_port);
    }
}

static bool all_is_well(struct net_redis_cluster *cluster, size_t i)
{
    struct net_redis *node = &cluster->nodes[i];
    char known[48];

    snprintf(known, sizeof known, "cluster_known_nodes:%zu", cluster->n);
    if (!net_redis_says(node, "cluster_state:ok", "CLUSTER INFO") ||
        !net_redis_says(node, "cluster_slots_ok:16384", "CLUSTER INFO") ||
        !net_redis_says(node, known, "CLUSTER INFO"))
        return false;
    return i < cluster->masters || net_redis_says(node, "master_link_status:up", "INFO");
}

/* The node knows this one, by its lasting name. */
static bool knows(struct net_redis_cluster *cluster, size_t i, size_t other)
{
    return net_redis_says(&cluster->nodes[i], cluster->ids[other], "CLUSTER NODES");
}

void net_redis_cluster_start(struct net_redis_cluster *cluster, size_t masters, size_t replicas,
                             const char *const *args)
{
    *cluster = (struct net_redis_cluster){.masters = masters, .n = masters * (1 + replicas)};
    assert_true(cluster->n <= NET_REDIS_NODES);
    for (size_t i = 0; i < cluster->n; i++)
        start_node(cluster, i, args);
    for (size_t i = 0; i < masters; i++)
        net_redis_do(&cluster->nodes[i], "CLUSTER ADDSLOTSRANGE %u %u", first_slot(cluster, i),
                     first_slot(cluster, i + 1) - 1);
    introduce(cluster);
    for (size_t i = masters; i < cluster->n; i++) {
        net_redis_until(&cluster->nodes[i], knows(cluster, i, i % masters));
        net_redis_until(&cluster->nodes[i],
                        net_redis_says(&cluster->nodes[i], "OK", "CLUSTER REPLICATE %s",
                                       cluster->ids[i % masters]));
    }
    for (size_t i = 0; i < cluster->n; i++)
        net_redis_until(&cluster->nodes[i], all_is_well(cluster, i));
}

void net_redis_cluster_free(struct net_redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++)
        net_redis_free(&cluster->nodes[i]);
    cluster->n = 0;
}

void net_redis_cluster_moving(struct net_redis_cluster *cluster, unsigned slot, size_t to)
{
    size_t from = net_redis_cluster_owner(cluster, slot);

    net_redis_do(&cluster->nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, cluster->ids[from]);
    net_redis_do(&cluster->nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, cluster->ids[to]);
}

/* Only who imports a slot is given an epoch above the others', and without one the old owner takes
 * it back by what the nodes tell each other. */
void net_redis_cluster_moved(struct net_redis_cluster *cluster, unsigned slot, size_t to)
{
    net_redis_do(&cluster->nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot,
                 cluster->ids[(to + 1) % cluster->masters]);
    net_redis_do(&cluster->nodes[to], "CLUSTER SETSLOT %u NODE %s", slot, cluster->ids[to]);
    for (size_t i = 0; i < cluster->masters; i++)
        if (i != to)
            net_redis_do(&cluster->nodes[i], "CLUSTER SETSLOT %u NODE %s", slot, cluster->ids[to]);
}

/* ---- Under Sentinel -------------------------------------------------------------------------- */

static void start_sentinel(struct net_redis_watched *watched, size_t i, const char *password)
{
    char text[512], auth[200] = "";

    if (password != NULL)
        snprintf(auth, sizeof auth, "sentinel auth-pass %s %s\n", watched->name, password);
    snprintf(text, sizeof text,
             "sentinel monitor %s 127.0.0.1 %d %zu\n%s"
             "sentinel down-after-milliseconds %s 500\n"
             "sentinel failover-timeout %s 3000\n",
             watched->name, watched->servers[0].port, watched->n_sentinels / 2 + 1, auth,
             watched->name, watched->name);
    prepare(&watched->sentinels[i], text);
    start_somewhere(&watched->sentinels[i]);
}

static bool sentinel_knows(struct net_redis_watched *watched, size_t i)
{
    redisReply *reply = net_redis_ask(&watched->sentinels[i], "SENTINEL MASTER %s", watched->name);
    size_t found = 0;

    for (size_t k = 0; k + 1 < reply->elements; k += 2) {
        const char *name = reply->element[k]->str;
        size_t n = (size_t)atoi(reply->element[k + 1]->str);

        found += (strcmp(name, "num-slaves") == 0 && n == 1) ||
                 (strcmp(name, "num-other-sentinels") == 0 && n == watched->n_sentinels - 1);
    }
    freeReplyObject(reply);
    return found == 2;
}

void net_redis_watched_start(struct net_redis_watched *watched, size_t n_sentinels,
                             const char *password)
{
    struct net_redis *master = &watched->servers[0], *replica = &watched->servers[1];
    char port[16];

    *watched = (struct net_redis_watched){.n_sentinels = n_sentinels, .name = "tollgate"};
    assert_true(n_sentinels <= NET_REDIS_SENTINELS);
    const char *secret = password != NULL ? password : "";
    net_redis_start(master, "--requirepass", secret, "--masterauth", secret, NULL);
    snprintf(port, sizeof port, "%d", master->port);
    net_redis_start(replica, "--requirepass", secret, "--masterauth", secret, "--replicaof",
                    "127.0.0.1", port, NULL);
    net_redis_until(replica, net_redis_says(replica, "master_link_status:up", "INFO"));
    for (size_t i = 0; i < n_sentinels; i++)
        start_sentinel(watched, i, password);
    for (size_t i = 0; i < n_sentinels; i++)
        net_redis_until(&watched->sentinels[i], sentinel_knows(watched, i));
}

void net_redis_watched_free(struct net_redis_watched *watched)
{
    for (size_t i = 0; i < watched->n_sentinels; i++)
        net_redis_free(&watched->sentinels[i]);
    net_redis_free(&watched->servers[1]);
    net_redis_free(&watched->servers[0]);
    watched->n_sentinels = 0;
}
