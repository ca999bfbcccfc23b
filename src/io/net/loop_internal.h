/* loop_internal.h - what connections need of a loop: a turn's unfinished work, graves, buffers.
 *
 * Nothing here calls back from inside a call. What a call leaves to be done (bytes to flush, a
 * callback to make) is put off with net_later, and done when the event that is being served
 * returns to the loop: net_loop_settle(). So small writes of one event leave in one system call,
 * and no owner is ever called while one of its own calls is on the stack.
 */
#ifndef TG_NET_LOOP_INTERNAL_H
#define TG_NET_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <uv.h>

#include "io/net/loop.h"
#include "io/net/wheel.h"

#define NET_READ_BYTES 16384 /* read at once; also the largest TLS record */
#define NET_SMALL_BYTES 1024 /* the head of most messages */
#define NET_LARGE_BYTES 4096
#define NET_BLOCKS_KEPT 512 /* free blocks of each size that a loop keeps */

/* Work that is put off; stands in its owner's storage. */
struct net_later {
    TAILQ_ENTRY(net_later) waiting; /* tqe_prev null: it does not wait */
    void (*run)(void *arg);
    void *arg;
};

/* The first member of something made with malloc that may still be on the stack of its callers. */
struct net_grave {
    SLIST_ENTRY(net_grave) next;
};

struct net_block {
    SLIST_ENTRY(net_block) next;
};

struct net_blocks {
    SLIST_HEAD(, net_block) free;
    size_t n;
};

struct net_loop {
    uv_loop_t uv;
    uv_timer_t alarm;
    uv_prepare_t prepare;
    uv_async_t wake;
    const struct clock *clock;
    tg_ms now;
    uint64_t now_uv; /* libuv's time when `now` was read */
    struct wheel wheel;
    tg_ms alarm_at; /* when `alarm` fires; INT64_MAX: it is not set */
    TAILQ_HEAD(, net_later) later;
    SLIST_HEAD(, net_grave) graves;
    struct net_blocks small, large;
    bool settling;
    atomic_bool stopping;
    pthread_mutex_t posts_lock; /* guards what follows, and `queued` of every post */
    STAILQ_HEAD(, net_post) posts;
    size_t n_posts;
    char read_scratch[NET_READ_BYTES];  /* what the socket gave */
    char plain_scratch[NET_READ_BYTES]; /* the same, decrypted */
};

void net_later_init(struct net_later *later, void (*run)(void *arg), void *arg);
void net_later_put(struct net_loop *loop, struct net_later *later);
void net_later_cancel(struct net_loop *loop, struct net_later *later);

/* Does all that was put off, and frees what was buried. At the end of every event. True: there was
 * something. */
bool net_loop_settle(struct net_loop *loop);

/* Freed when nothing of the running event can have a pointer to it any more. */
void net_loop_bury(struct net_loop *loop, struct net_grave *grave);

/* Memory for `bytes`; null: there is none. A block of the loop's if that is NET_SMALL_BYTES or
 * NET_LARGE_BYTES. */
void *net_block_take(struct net_loop *loop, size_t bytes);
void net_block_give(struct net_loop *loop, void *block, size_t bytes);

#endif
