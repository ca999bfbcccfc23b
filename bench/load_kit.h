/* load_kit.h - what the programs share that put load on a gateway: clock, sockets, percentiles.
 *
 * They are programs of their own, tools of `make bench` and `make soak`, and no part of tollgate:
 * one thread, epoll, replies and requests made before the clock starts, so that what they cost is
 * as little as can be of what is measured. They die of what they cannot do, with a word about it.
 */
#ifndef TG_LOAD_KIT_H
#define TG_LOAD_KIT_H

#include <stddef.h>
#include <stdint.h>

#define LOAD_SECOND INT64_C(1000000000)

/* Nanoseconds; of the clock, and of processor time that this process has used. */
int64_t load_now(void);
int64_t load_used(void);

_Noreturn void load_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A whole number of the command line, or death. */
int64_t load_number(const char *what, const char *text, int64_t min, int64_t max);

/* Raises the limit of open descriptors as far as the system allows. */
void load_raise_descriptors(void);

/* Sockets of 127.0.0.1, which do not block. With port 0 the system chooses, and *port is it. */
int load_listen(uint16_t *port);
int load_connect(uint16_t port); /* -1: not now */

int load_poll_new(void);
void load_poll_add(int poll, int fd, uint32_t events, void *data);
void load_poll_change(int poll, int fd, uint32_t events, void *data);

/* Waits until `until`, not beyond: a millisecond is too coarse for thousands of calls a second. */
struct epoll_event;
int load_poll_wait(int poll, struct epoll_event *events, int max, int64_t until);

/* A stream of chance, for arrivals that do not beat in time with anything. */
struct load_random {
    uint64_t state;
};
uint64_t load_random(struct load_random *random);
/* Exponential, with this mean. */
int64_t load_random_gap(struct load_random *random, double mean);

/* Durations, all kept. */
struct load_times {
    int64_t *list;
    size_t n, room;
};
void load_times_add(struct load_times *times, int64_t ns);
/* In microseconds; `share` of 0.99 is p99. Sorts. NaN: there are none. */
double load_times_at(struct load_times *times, double share);

/* A chat call as the OpenAI SDK writes it, its body 234 bytes (or what a long model needs). */
size_t load_request(char *text, size_t size, const char *model, const char *key, int stream);

#endif
