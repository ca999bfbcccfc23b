/* server-threads.c - a server with a thread for each connection, which wait for their turn.
 *
 *     cc server-threads.c $(pkg-config --cflags --libs tollgate-posix) -o server-threads
 *     ./server-threads 8080
 *
 * Four requests are served at once; others wait for up to 10 s, and are refused after that. The
 * work is to sleep for 20 ms. Without a port, the system chooses one; it is printed. SIGTERM ends
 * the server, which then prints what it has done.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tollgate_posix.h>
#include <unistd.h>

struct connection {
    struct tg_gate *gate;
    int fd;
};

static int listening = -1;

static void stop(int signal)
{
    (void)signal;
    shutdown(listening, SHUT_RDWR); /* accept() returns */
}

static const char *handle(struct tg_gate *gate)
{
    const struct timespec work = {.tv_nsec = 20000000};
    struct tg_call call;
    struct tg_answer answer;

    tg_call_init(&call);
    call.deadline = tg_clock_now() + 10000;
    if (tg_thread_admit(gate, &call, &answer) != TG_OK)
        return "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n";
    if (!answer.decision.allowed)
        return "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n";
    nanosleep(&work, NULL);
    tg_gate_release(gate, answer.lease, tg_clock_now(), NULL);
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nserved\n";
}

static void *serve(void *context)
{
    struct connection *connection = context;
    char request[4096];
    size_t n = 0;
    ssize_t got;

    /* Until the empty line after the head of the request. */
    while (n < sizeof request - 1 &&
           (got = read(connection->fd, request + n, sizeof request - 1 - n)) > 0) {
        n += (size_t)got;
        request[n] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL) {
            const char *reply = handle(connection->gate);
            if (write(connection->fd, reply, strlen(reply)) < 0)
                perror("write");
            break;
        }
    }
    close(connection->fd);
    free(connection);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    struct sigaction action = {.sa_handler = stop};
    struct tg_gate_config config;
    struct tg_gate_stats stats;
    struct tg_problem problem = {""};
    struct tg_gate *gate;

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    tg_law_config_choose(&config.concurrency.law, TG_LAW_FIXED);
    config.concurrency.law.min = config.concurrency.law.initial = 4;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 10000;
    config.wake = tg_thread_wake;
    if (tg_gate_new(&config, &gate, &problem)) {
        fprintf(stderr, "cannot start: %s\n", problem.text);
        return 1;
    }

    address.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (listening < 0 || bind(listening, (struct sockaddr *)&address, length) ||
        listen(listening, 1024) || getsockname(listening, (struct sockaddr *)&address, &length)) {
        perror("cannot listen");
        return 1;
    }
    printf("http://127.0.0.1:%d/\n", ntohs(address.sin_port));
    fflush(stdout);

    for (;;) {
        struct connection *connection = malloc(sizeof *connection);
        pthread_t thread;
        if (connection == NULL)
            return 1;
        connection->gate = gate;
        connection->fd = accept(listening, NULL, NULL);
        if (connection->fd < 0 || pthread_create(&thread, NULL, serve, connection)) {
            free(connection);
            break;
        }
        pthread_detach(thread);
    }
    /* Threads may still be serving: the gate is left to them, and ends with the process. */
    tg_gate_get_stats(gate, &stats);
    printf("admitted %llu, refused %llu, in flight %lld\n", (unsigned long long)stats.admitted,
           (unsigned long long)stats.refused[TG_REASON_CONCURRENCY], (long long)stats.in_flight);
    return 0;
}
