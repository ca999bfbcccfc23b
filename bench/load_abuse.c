/* load_abuse.c - clients that a gateway has to bear: slow to ask, slow to read, quick to leave.
 *
 *     load_abuse PORT KEY SECONDS LORIS READERS ABORTS
 *
 * LORIS connections send their head a byte a second and never end it. READERS ask for a long stream
 * and take 512 bytes of it a second, through a small window. ABORTS times a second somebody
 * connects, sends nothing, a part or the whole of a call, and leaves, at once or up to 20 ms later,
 * half of them by closing their side first. A client that is disconnected connects again.
 *
 * There is nothing to wait for: every millisecond it does what is due, in turns, and never blocks.
 * It says how much it did, one line of name=value.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load_kit.h"

enum { CLIENTS_MAX = 10000, SIP = 512, WINDOW = 4096, CALLS = 4, DELAYS = 4, RING = 1 << 12 };

struct request {
    char text[2048];
    size_t n;
};

/* Clients that leave later; of one delay, so the first is the first to go. */
struct leaving {
    int fd[RING];
    int64_t at[RING];
    size_t first, last;
};

struct abuse {
    uint16_t port;
    struct load_random random;
    int loris[CLIENTS_MAX], readers[CLIENTS_MAX];
    size_t at_byte[CLIENTS_MAX]; /* how far each slow request head has been sent */
    size_t n_loris, n_readers;
    struct request flood, calls[CALLS];
    struct leaving leaving[DELAYS];
    size_t aborts, thrown_out, unconnected, sips;
};

static const int64_t delays[DELAYS] = {0, 1000000, 5000000, 20000000};

/* A reset: no port stays behind, and there are not enough for thousands a second. */
static void load_abuse_leave(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static bool load_abuse_gone(ssize_t result)
{
    return result == 0 || (result < 0 && errno != EAGAIN && errno != ENOTCONN);
}

/* ---- slow to ask ---- */

static void ask_slowly(struct abuse *abuse, size_t i)
{
    static const char HEAD[] = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Long: ";
    char byte = 'x';

    if (abuse->loris[i] >= 0 && load_abuse_gone(recv(abuse->loris[i], &byte, 1, 0))) {
        load_abuse_leave(abuse->loris[i]);
        abuse->loris[i] = -1;
        abuse->thrown_out++;
    }
    if (abuse->loris[i] < 0) {
        abuse->loris[i] = load_connect(abuse->port);
        abuse->unconnected += abuse->loris[i] < 0;
        abuse->at_byte[i] = 0;
        return;
    }
    size_t at = abuse->at_byte[i]++;
    byte = at < sizeof HEAD - 1 ? HEAD[at] : 'x';
    send(abuse->loris[i], &byte, 1, MSG_NOSIGNAL);
}

/* ---- slow to read ---- */

static int ask_for_flood(struct abuse *abuse)
{
    const int window = WINDOW;
    int fd = load_connect(abuse->port);

    abuse->unconnected += fd < 0;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
        send(fd, abuse->flood.text, abuse->flood.n, MSG_NOSIGNAL);
    }
    return fd;
}

static void read_slowly(struct abuse *abuse, size_t i)
{
    char sip[SIP];

    if (abuse->readers[i] < 0) {
        abuse->readers[i] = ask_for_flood(abuse);
        return;
    }
    ssize_t got = recv(abuse->readers[i], sip, sizeof sip, 0);
    if (load_abuse_gone(got)) {
        load_abuse_leave(abuse->readers[i]);
        abuse->readers[i] = -1;
        abuse->thrown_out++;
    }
    abuse->sips += got > 0;
}

/* ---- quick to leave ---- */

static void come_and_leave(struct abuse *abuse)
{
    uint64_t chance = load_random(&abuse->random);
    const struct request *call = &abuse->calls[chance % CALLS];
    struct leaving *later = &abuse->leaving[(chance >> 8) % DELAYS];
    size_t n = (chance >> 16) % 2 ? call->n : (size_t)(chance >> 20) % call->n;
    int fd = load_connect(abuse->port);

    if (fd < 0) {
        abuse->unconnected++;
        return;
    }
    abuse->aborts++;
    send(fd, call->text, n, MSG_NOSIGNAL);
    if (later->last - later->first == RING) {
        load_abuse_leave(fd);
        return;
    }
    later->fd[later->last % RING] = fd;
    later->at[later->last++ % RING] = load_now() + delays[(chance >> 8) % DELAYS];
    if ((chance >> 17) % 2)
        shutdown(fd, SHUT_WR);
}

static void let_leave(struct abuse *abuse, int64_t now)
{
    for (int i = 0; i < DELAYS; i++) {
        struct leaving *later = &abuse->leaving[i];
        for (; later->first < later->last && later->at[later->first % RING] <= now; later->first++)
            load_abuse_leave(later->fd[later->first % RING]);
    }
}

/* ---- the run ---- */

static void make_calls(struct abuse *abuse, const char *key)
{
    static const char *const MODELS[CALLS] = {"bench", "bench", "bench-slow", "bench-held"};

    for (int i = 0; i < CALLS; i++)
        abuse->calls[i].n =
            load_request(abuse->calls[i].text, sizeof abuse->calls[i].text, MODELS[i], key, i % 2);
    abuse->flood.n =
        load_request(abuse->flood.text, sizeof abuse->flood.text, "bench-flood", key, 1);
}

/* How much of something that happens `rate` times a second is due. */
static size_t due(int64_t elapsed, size_t rate)
{
    return (size_t)((double)elapsed / (double)LOAD_SECOND * (double)rate);
}

static void load_abuse_run(struct abuse *abuse, int64_t seconds, size_t aborts)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    size_t slow = 0, sips = 0, left = 0;
    int64_t began = load_now(), elapsed;

    while ((elapsed = load_now() - began) < seconds * LOAD_SECOND) {
        for (size_t n = due(elapsed, abuse->n_loris); slow < n; slow++)
            ask_slowly(abuse, slow % abuse->n_loris);
        for (size_t n = due(elapsed, abuse->n_readers); sips < n; sips++)
            read_slowly(abuse, sips % abuse->n_readers);
        for (size_t n = due(elapsed, aborts); left < n; left++)
            come_and_leave(abuse);
        let_leave(abuse, load_now());
        nanosleep(&nap, NULL);
    }
}

int main(int argc, char **argv)
{
    static struct abuse abuse;

    if (argc != 7)
        load_die("load_abuse takes PORT KEY SECONDS LORIS READERS ABORTS");
    abuse.port = (uint16_t)load_number("PORT", argv[1], 1, 65535);
    int64_t seconds = load_number("SECONDS", argv[3], 1, 86400);
    abuse.n_loris = (size_t)load_number("LORIS", argv[4], 0, CLIENTS_MAX);
    abuse.n_readers = (size_t)load_number("READERS", argv[5], 0, CLIENTS_MAX);
    size_t aborts = (size_t)load_number("ABORTS", argv[6], 0, 100000);
    abuse.random.state = 1;
    make_calls(&abuse, argv[2]);
    load_raise_descriptors();
    memset(abuse.loris, -1, sizeof abuse.loris);
    memset(abuse.readers, -1, sizeof abuse.readers);
    load_abuse_run(&abuse, seconds, aborts);
    let_leave(&abuse, INT64_MAX);
    printf("aborts=%zu sips=%zu thrown_out=%zu unconnected=%zu\n", abuse.aborts, abuse.sips,
           abuse.thrown_out, abuse.unconnected);
    return 0;
}
