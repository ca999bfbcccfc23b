/* work_pool.h - threads for work that would take longer than a loop's turn may, fair between lanes.
 *
 *     net_pool_put(pool, &lane, &job);      on the loop's thread
 *         job->run(job, scratch)            on a thread of the pool
 *         job->done                         on the loop's thread, again
 *
 * A lane holds the jobs of one party (a tenant), in their order. Lanes take turns, and one lane has
 * at most half of the threads at once: however many jobs one party puts, those of another wait for
 * one job of each other party at most. libuv's own threads have one queue for everybody, and names
 * are looked up on them.
 *
 * Threads are started when there is work, and stay. Where there is no core to spare, they get a
 * tenth of what a loop's thread gets: what takes long may take longer, and what is short must not.
 *
 * A job may say how much memory it takes while it runs. Where that does not fit beside what runs,
 * it waits, and the lanes behind it with it: none is passed over, so none waits for ever. One that
 * runs alone always fits.
 *
 *     memory of the jobs that run <= max(room, memory of the largest job)
 */
#ifndef TG_NET_WORK_POOL_H
#define TG_NET_WORK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "io/net/loop.h"

#define NET_POOL_NICER 10 /* than the thread that has started them */

struct net_pool;

/* Stands in its owner's storage, which stays as long as it has jobs. All zeros is an empty one. */
struct net_lane {
    STAILQ_HEAD(, net_job) jobs; /* those that wait; all private */
    TAILQ_ENTRY(net_lane) turn;
    size_t n_waiting, n_running;
    bool in_turn;
};

enum net_job_state { NET_JOB_IDLE, NET_JOB_WAITING, NET_JOB_RUNNING };

/* Stands in its owner's storage. The owner sets the first five before each put. */
struct net_job {
    void (*run)(struct net_job *job, void *scratch);
    struct net_loop *loop;
    struct net_post done; /* posted to the loop when it has run */
    size_t takes, room;   /* bytes that it takes while it runs, and that all may take with it */

    STAILQ_ENTRY(net_job) next; /* private, as is the rest */
    struct net_lane *lane;
    enum net_job_state state;
};

/* What each thread has for itself, such as a parser. */
struct net_pool_scratch {
    void *(*make)(void); /* null: nothing; it may return null */
    void (*free)(void *scratch);
};

/* With at most so many threads, 1 or more. Null: no memory. */
struct net_pool *net_pool_new(size_t threads, const struct net_pool_scratch *scratch);

/* All jobs have run, or were cancelled. Waits for its threads to end. */
void net_pool_free(struct net_pool *pool);

/* False: no thread can be started, and nothing has changed. */
bool net_pool_put(struct net_pool *pool, struct net_lane *lane, struct net_job *job);

/* Bytes that the jobs take which run now. */
size_t net_pool_taken(struct net_pool *pool);

/* On the loop's thread. True: it has not run and will not. False: it runs, or has, and `done`
 * comes. */
bool net_pool_cancel(struct net_pool *pool, struct net_job *job);

/* On the loop's thread: afterwards it does not run, and `done` does not come. Waits if it runs. */
void net_pool_end(struct net_pool *pool, struct net_job *job);

#endif
