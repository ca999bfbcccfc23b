/* server-epoll.c - a server with two event loops and one gate, in which requests wait.
 *
 *     cc server-epoll.c $(pkg-config --cflags --libs tollgate-posix) -o server-epoll
 *     ./server-epoll 8080
 *
 * Four requests are served at once, whichever loop they belong to; others wait for up to 10 s. The
 * work is a timer of 20 ms. A client that hangs up while it waits leaves the queue. Without a port,
 * the system chooses one; it is printed. SIGTERM ends the server, which then prints what it did.
 *
 * What belongs to Tollgate is marked by the number of its step in docs/library.md, "Event loops
 * that wait".
 */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <tollgate_posix.h>
#include <unistd.h>

enum { LOOPS = 2, EVENTS = 64 };

static struct tg_gate *gate;

struct loop {
    int epoll, listening, signals;
    struct tg_wakes *wakes;
    struct request *dead; /* closed in this round; events of them may still come in it */
};

enum state { READING, WAITING, WORKING };

struct request {
    struct loop *loop;
    int fd, timer;
    enum state state;
    struct tg_call call;
    struct tg_waiter waiter;
    tg_lease lease;
    size_t n;
    char text[2048];
    bool is_dead;
    struct request *next_dead;
};

static void watch(struct loop *loop, int fd, uint32_t events, void *who)
{
    struct epoll_event event = {.events = events, .data.ptr = who};

    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event))
        abort();
}

static void finish(struct request *request, const char *reply)
{
    if (request->lease != 0) /* the call works, or still waits */
        tg_gate_release(gate, request->lease, tg_clock_now(), NULL);
    tg_waiter_forget(&request->waiter); /* 5 */
    if (reply != NULL && write(request->fd, reply, strlen(reply)) < 0)
        perror("write");
    close(request->fd);
    if (request->timer >= 0)
        close(request->timer);
    request->is_dead = true;
    request->next_dead = request->loop->dead;
    request->loop->dead = request;
}

/* What the gate has said, at first or after a wait. */
static void follow(struct request *request, enum tg_err err, const struct tg_answer *answer)
{
    const struct itimerspec work = {.it_value.tv_nsec = 20000000};

    request->lease = err ? 0 : answer->lease;
    if (err) {
        finish(request, "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n");
    } else if (answer->step == TG_WAITING) {
        request->state = WAITING;
    } else if (!answer->decision.allowed) {
        finish(request, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
    } else {
        request->state = WORKING;
        request->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (request->timer < 0 || timerfd_settime(request->timer, 0, &work, NULL))
            abort();
        watch(request->loop, request->timer, EPOLLIN, request);
    }
}

static void on_readable(struct request *request)
{
    struct tg_answer answer;
    ssize_t got =
        read(request->fd, request->text + request->n, sizeof request->text - 1 - request->n);

    if (got <= 0) { /* it has hung up, whatever it was doing */
        finish(request, NULL);
        return;
    }
    request->n += (size_t)got;
    request->text[request->n] = '\0';
    if (request->state != READING || strstr(request->text, "\r\n\r\n") == NULL)
        return;
    tg_call_init(&request->call);
    request->call.waiter = &request->waiter; /* 2 */
    enum tg_err err = tg_gate_admit(gate, &request->call, 0, tg_clock_now(), &answer);
    follow(request, err, &answer);
}

static void on_event(struct request *request)
{
    uint64_t expired;

    if (request->is_dead)
        return;
    if (request->state == WORKING && read(request->timer, &expired, sizeof expired) > 0)
        finish(request, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nserved\n");
    else
        on_readable(request);
}

static void on_connection(struct loop *loop)
{
    int fd = accept4(loop->listening, NULL, NULL, SOCK_CLOEXEC);
    struct request *request = fd >= 0 ? calloc(1, sizeof *request) : NULL;

    if (request == NULL)
        return;
    request->loop = loop;
    request->fd = fd;
    request->timer = -1;
    tg_waiter_init(&request->waiter, loop->wakes, request); /* 2 */
    watch(loop, fd, EPOLLIN, request);
}

static void on_wakes(struct loop *loop)
{
    struct request *request;
    struct tg_answer answer;

    while ((request = tg_wakes_next(loop->wakes)) != NULL) { /* 3 */
        enum tg_err err =
            tg_gate_resume(gate, request->lease, &request->call, tg_clock_now(), &answer);
        follow(request, err, &answer);
    }
}

static void *run(void *context)
{
    struct loop *loop = context;
    struct epoll_event events[EVENTS];

    for (;;) {
        int n =
            epoll_wait(loop->epoll, events, EVENTS, tg_gate_timeout(gate, tg_clock_now())); /* 4 */
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &loop->signals)
                return NULL;
            else if (events[i].data.ptr == &loop->listening)
                on_connection(loop);
            else if (events[i].data.ptr == loop)
                on_wakes(loop);
            else
                on_event(events[i].data.ptr);
        }
        tg_gate_tick(gate, tg_clock_now()); /* 4 */
        while (loop->dead != NULL) {
            struct request *request = loop->dead;
            loop->dead = request->next_dead;
            free(request);
        }
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    struct loop loops[LOOPS];
    pthread_t threads[LOOPS];
    struct tg_gate_config config;
    struct tg_gate_stats stats;
    struct tg_problem problem = {""};
    sigset_t ends;

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    tg_law_config_choose(&config.concurrency.law, TG_LAW_FIXED);
    config.concurrency.law.min = config.concurrency.law.initial = 4;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 10000;
    config.wake = tg_waiter_wake; /* 1 */
    if (tg_gate_new(&config, &gate, &problem)) {
        fprintf(stderr, "cannot start: %s\n", problem.text);
        return 1;
    }

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    address.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listening < 0 || bind(listening, (struct sockaddr *)&address, length) ||
        listen(listening, 1024) || getsockname(listening, (struct sockaddr *)&address, &length)) {
        perror("cannot listen");
        return 1;
    }
    for (int i = 0; i < LOOPS; i++) {
        struct loop *loop = &loops[i];
        *loop = (struct loop){.epoll = epoll_create1(EPOLL_CLOEXEC),
                              .listening = listening,
                              .signals = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC)};
        if (loop->epoll < 0 || loop->signals < 0 || tg_wakes_new(&loop->wakes)) /* 1 */
            return 1;
        watch(loop, listening, EPOLLIN, &loop->listening);
        watch(loop, loop->signals, EPOLLIN, &loop->signals);
        watch(loop, tg_wakes_fd(loop->wakes), EPOLLIN, loop); /* 1 */
        if (pthread_create(&threads[i], NULL, run, loop))
            return 1;
    }
    printf("http://127.0.0.1:%d/\n", ntohs(address.sin_port));
    fflush(stdout);

    for (int i = 0; i < LOOPS; i++)
        pthread_join(threads[i], NULL);
    tg_gate_get_stats(gate, &stats);
    printf("admitted %llu, refused %llu, in flight %lld\n", (unsigned long long)stats.admitted,
           (unsigned long long)stats.refused[TG_REASON_CONCURRENCY], (long long)stats.in_flight);
    return 0;
}
