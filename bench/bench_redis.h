/* bench_redis.h - decisions of Redis through one connection. */
#ifndef TG_BENCH_REDIS_H
#define TG_BENCH_REDIS_H

#include <stdbool.h>

#include "tollgate.h"

/* How many a second, with `depth` of them on their way at any time. False: `problem` says why not.
 * */
bool bench_redis_run(const char *url, int depth, int seconds, double *per_second,
                     struct tg_problem *problem);

/* The same where a worker leases blocks of units and decides by itself: one call after the other.
 * */
bool bench_redis_blocks(const char *url, int seconds, double *per_second,
                        struct tg_problem *problem);

/* Prints the command that each of them is, a word a line, for who wants to send it by other means.
 * */
void bench_redis_print_commands(void);

#endif
