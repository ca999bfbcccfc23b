/* load_kit.c - see load_kit.h. */
#define _GNU_SOURCE
#include "load_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/core/array.h"

enum { BODY_BYTES = 234, BACKLOG = 4096 };

static int64_t read_clock(clockid_t id)
{
    struct timespec at;

    clock_gettime(id, &at);
    return (int64_t)at.tv_sec * LOAD_SECOND + at.tv_nsec;
}

int64_t load_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t load_used(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void load_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "load: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

int64_t load_number(const char *what, const char *text, int64_t min, int64_t max)
{
    char *end;
    long long value = strtoll(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < min || value > max)
        load_die("%s is '%s'; it must be a whole number from %lld to %lld", what, text,
                 (long long)min, (long long)max);
    return value;
}

void load_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- sockets ---- */

static struct sockaddr_in local(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

static int new_socket(void)
{
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

int load_listen(uint16_t *port)
{
    struct sockaddr_in address = local(*port);
    socklen_t size = sizeof address;
    int fd = new_socket();

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        load_die("cannot listen on port %u: %s", *port, strerror(errno));
    *port = ntohs(address.sin_port);
    return fd;
}

int load_connect(uint16_t port)
{
    struct sockaddr_in address = local(port);
    int fd = new_socket();

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int load_poll_new(void)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);

    if (poll < 0)
        load_die("epoll: %s", strerror(errno));
    return poll;
}

static void control(int poll, int how, int fd, uint32_t events, void *data)
{
    struct epoll_event event = {.events = events, .data = {.ptr = data}};

    if (epoll_ctl(poll, how, fd, &event) != 0)
        load_die("epoll: %s", strerror(errno));
}

void load_poll_add(int poll, int fd, uint32_t events, void *data)
{
    control(poll, EPOLL_CTL_ADD, fd, events, data);
}

void load_poll_change(int poll, int fd, uint32_t events, void *data)
{
    control(poll, EPOLL_CTL_MOD, fd, events, data);
}

int load_poll_wait(int poll, struct epoll_event *events, int max, int64_t until)
{
    int64_t left = until - load_now();
    struct timespec timeout = {0, 0};

    if (left > 0) {
        timeout.tv_sec = (time_t)(left / LOAD_SECOND);
        timeout.tv_nsec = (long)(left % LOAD_SECOND);
    }
    int n = epoll_pwait2(poll, events, max, &timeout, NULL);
    if (n < 0 && errno != EINTR)
        load_die("epoll: %s", strerror(errno));
    return n < 0 ? 0 : n;
}

/* ---- chance and time ---- */

uint64_t load_random(struct load_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mix = random->state;

    mix = (mix ^ (mix >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mix = (mix ^ (mix >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mix ^ (mix >> 31);
}

int64_t load_random_gap(struct load_random *random, double mean)
{
    double uniform = ((double)(load_random(random) >> 11) + 1) / 9007199254740993.0;

    return (int64_t)(-log(uniform) * mean);
}

void load_times_add(struct load_times *times, int64_t ns)
{
    if (!array_reserve(&times->list, &times->room, times->n + 1))
        load_die("no memory");
    times->list[times->n++] = ns;
}

static int load_kit_compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

double load_times_at(struct load_times *times, double share)
{
    if (times->n == 0)
        return (double)NAN;
    qsort(times->list, times->n, sizeof *times->list, load_kit_compare);
    return (double)times->list[(size_t)((double)(times->n - 1) * share)] / 1e3;
}

/* ---- requests ---- */

size_t load_request(char *text, size_t size, const char *model, const char *key, int stream)
{
    static const char WORDS[] = "How many angels can dance on the head of a pin, and who counted? ";
    char body[1024], filling[BODY_BYTES + 1];
    const char *format = "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                         "\"max_tokens\":64%s}";
    const char *more = stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "";
    int bare = snprintf(body, sizeof body, format, model, "", more);
    int room = bare < BODY_BYTES ? BODY_BYTES - bare : 0;

    for (int i = 0; i < room; i++)
        filling[i] = WORDS[(size_t)i % (sizeof WORDS - 1)];
    filling[room] = '\0';
    int length = snprintf(body, sizeof body, format, model, filling, more);
    int n = snprintf(text, size,
                     "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     "Authorization: Bearer %s\r\nAccept: application/json\r\n"
                     "User-Agent: OpenAI/JS 4.0.0\r\nContent-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n%s",
                     key, length, body);
    if (bare < 0 || (size_t)bare >= sizeof body || n < 0 || (size_t)n >= size)
        load_die("the model's name or the key is too long");
    return (size_t)n;
}
