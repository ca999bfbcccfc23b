/* loop.c - the event loop of a worker thread: libuv's, with timers and posts of our own.
 *
 * libuv polls descriptors, looks up names on its threads, and wakes the loop; one of its timers
 * stands for the whole wheel. What is put off during an event is done when the event is over, and
 * once more before the loop goes to sleep, for calls that came from outside of any event.
 *
 * The time is read from the process's clock when libuv's own has moved, which it does once a turn,
 * after it slept: so all callbacks of a turn see one `now`.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "io/net/loop_internal.h"

/* ---- Work that is put off -------------------------------------------------------------------- */

void net_later_init(struct net_later *later, void (*run)(void *arg), void *arg)
{
    *later = (struct net_later){.run = run, .arg = arg};
}

void net_later_put(struct net_loop *loop, struct net_later *later)
{
    assert(later->run != NULL);
    if (later->waiting.tqe_prev == NULL)
        TAILQ_INSERT_TAIL(&loop->later, later, waiting);
}

void net_later_cancel(struct net_loop *loop, struct net_later *later)
{
    if (later->waiting.tqe_prev == NULL)
        return;
    TAILQ_REMOVE(&loop->later, later, waiting);
    later->waiting.tqe_prev = NULL;
}

bool net_loop_settle(struct net_loop *loop)
{
    struct net_later *later;
    struct net_grave *grave;
    bool any = false;

    if (loop->settling)
        return false;
    loop->settling = true;
    while ((later = TAILQ_FIRST(&loop->later)) != NULL) {
        net_later_cancel(loop, later);
        later->run(later->arg);
        any = true;
    }
    while ((grave = SLIST_FIRST(&loop->graves)) != NULL) {
        SLIST_REMOVE_HEAD(&loop->graves, next);
        free(grave);
    }
    loop->settling = false;
    return any;
}

void net_loop_bury(struct net_loop *loop, struct net_grave *grave)
{
    assert(grave != SLIST_FIRST(&loop->graves)); /* buried once */
    SLIST_INSERT_HEAD(&loop->graves, grave, next);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The free blocks of that size; null: the loop keeps none. */
static struct net_blocks *blocks_of(struct net_loop *loop, size_t bytes)
{
    return bytes == NET_SMALL_BYTES ? &loop->small : bytes == NET_LARGE_BYTES ? &loop->large : NULL;
}

void *net_block_take(struct net_loop *loop, size_t bytes)
{
    struct net_blocks *blocks = blocks_of(loop, bytes);

    if (blocks == NULL || blocks->n == 0)
        return malloc(bytes);
    struct net_block *block = SLIST_FIRST(&blocks->free);
    SLIST_REMOVE_HEAD(&blocks->free, next);
    blocks->n--;
    return block;
}

void net_block_give(struct net_loop *loop, void *memory, size_t bytes)
{
    struct net_blocks *blocks = blocks_of(loop, bytes);
    struct net_block *block = memory;

    if (memory == NULL || blocks == NULL || blocks->n >= NET_BLOCKS_KEPT) {
        free(memory);
        return;
    }
    assert(block != SLIST_FIRST(&blocks->free)); /* given back once */
    SLIST_INSERT_HEAD(&blocks->free, block, next);
    blocks->n++;
}

static void free_blocks(struct net_blocks *blocks)
{
    struct net_block *block;

    while ((block = SLIST_FIRST(&blocks->free)) != NULL) {
        SLIST_REMOVE_HEAD(&blocks->free, next);
        free(block);
    }
}

/* ---- Timers ---------------------------------------------------------------------------------- */

tg_ms net_loop_now(struct net_loop *loop)
{
    uint64_t uv = uv_now(&loop->uv);

    if (uv != loop->now_uv) {
        loop->now_uv = uv;
        loop->now = clock_now_ms(loop->clock);
    }
    return loop->now;
}

static void alarm_rings(uv_timer_t *alarm);

static void set_alarm(struct net_loop *loop, tg_ms at)
{
    tg_ms now = net_loop_now(loop);

    loop->alarm_at = at;
    uv_timer_start(&loop->alarm, alarm_rings, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void alarm_rings(uv_timer_t *alarm)
{
    struct net_loop *loop = alarm->data;
    struct net_timer *timer;
    tg_ms now = net_loop_now(loop), at;

    /* Timers that are set meanwhile need not touch the alarm: it is set below. */
    loop->alarm_at = INT64_MIN;
    while ((timer = wheel_due(&loop->wheel, now)) != NULL) {
        assert(timer->at <= now && !net_timer_is_set(timer));
        timer->fire(timer->arg);
    }
    net_loop_settle(loop);
    loop->alarm_at = INT64_MAX;
    if (wheel_next(&loop->wheel, &at))
        set_alarm(loop, at);
}

void net_timer_set(struct net_loop *loop, struct net_timer *timer, tg_ms ms)
{
    tg_ms now = net_loop_now(loop);
    /* A century is as good as for ever, and cannot overflow. */
    tg_ms at = now + (ms < 1 ? 1 : ms > INT64_C(3000000000000) ? INT64_C(3000000000000) : ms);

    assert(timer->fire != NULL);
    wheel_set(&loop->wheel, timer, at);
    if (at < loop->alarm_at)
        set_alarm(loop, at);
}

void net_timer_stop(struct net_loop *loop, struct net_timer *timer)
{
    wheel_remove(&loop->wheel, timer);
}

/* ---- Posts ----------------------------------------------------------------------------------- */

void net_post_init(struct net_post *post, net_post_run *run, void *arg)
{
    *post = (struct net_post){.run = run, .arg = arg};
}

void net_loop_post(struct net_loop *loop, struct net_post *post)
{
    bool wake = false;

    pthread_mutex_lock(&loop->posts_lock);
    if (!post->queued) {
        post->queued = true;
        wake = STAILQ_EMPTY(&loop->posts);
        STAILQ_INSERT_TAIL(&loop->posts, post, next);
        loop->n_posts++;
    }
    pthread_mutex_unlock(&loop->posts_lock);
    if (wake)
        uv_async_send(&loop->wake);
}

void net_loop_unpost(struct net_loop *loop, struct net_post *post)
{
    pthread_mutex_lock(&loop->posts_lock);
    if (post->queued) {
        assert(loop->n_posts > 0);
        STAILQ_REMOVE(&loop->posts, post, net_post, next);
        post->queued = false;
        loop->n_posts--;
    }
    pthread_mutex_unlock(&loop->posts_lock);
}

static struct net_post *take_post(struct net_loop *loop)
{
    pthread_mutex_lock(&loop->posts_lock);
    struct net_post *post = STAILQ_FIRST(&loop->posts);
    assert((post == NULL) == (loop->n_posts == 0));
    if (post != NULL) {
        assert(post->queued);
        STAILQ_REMOVE_HEAD(&loop->posts, next);
        post->queued = false;
        loop->n_posts--;
    }
    pthread_mutex_unlock(&loop->posts_lock);
    return post;
}

static void woken(uv_async_t *wake)
{
    struct net_loop *loop = wake->data;
    struct net_post *post;

    pthread_mutex_lock(&loop->posts_lock);
    size_t n = loop->n_posts; /* one that posts itself again waits for the next turn */
    pthread_mutex_unlock(&loop->posts_lock);
    while (n-- > 0 && (post = take_post(loop)) != NULL) {
        post->run(post->arg);
        net_loop_settle(loop);
    }
    pthread_mutex_lock(&loop->posts_lock);
    bool more = !STAILQ_EMPTY(&loop->posts);
    pthread_mutex_unlock(&loop->posts_lock);
    if (more)
        uv_async_send(&loop->wake);
    if (atomic_load_explicit(&loop->stopping, memory_order_acquire))
        uv_stop(&loop->uv);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void before_sleep(uv_prepare_t *prepare)
{
    struct net_loop *loop = prepare->data;

    net_loop_settle(loop);
}

enum tg_err net_loop_new(const struct clock *clock, struct net_loop **made)
{
    struct net_loop *loop = calloc(1, sizeof *loop);

    if (loop == NULL)
        return TG_ERR_MEMORY;
    if (uv_loop_init(&loop->uv) != 0)
        goto free_loop;
    loop->alarm.data = loop->prepare.data = loop->wake.data = loop;
    if (uv_async_init(&loop->uv, &loop->wake, woken) != 0)
        goto close_loop;
    uv_timer_init(&loop->uv, &loop->alarm);
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_prepare_start(&loop->prepare, before_sleep);
    loop->clock = clock;
    loop->now = clock_now_ms(clock);
    loop->now_uv = uv_now(&loop->uv);
    wheel_init(&loop->wheel, loop->now);
    loop->alarm_at = INT64_MAX;
    TAILQ_INIT(&loop->later);
    STAILQ_INIT(&loop->posts);
    atomic_init(&loop->stopping, false);
    pthread_mutex_init(&loop->posts_lock, NULL);
    *made = loop;
    return TG_OK;

close_loop:
    uv_loop_close(&loop->uv);
free_loop:
    free(loop);
    return TG_ERR_MEMORY;
}

void net_loop_free(struct net_loop *loop)
{
    if (loop == NULL)
        return;
    net_loop_settle(loop);
    assert(TAILQ_EMPTY(&loop->later) && SLIST_EMPTY(&loop->graves));
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&loop->uv);
    free_blocks(&loop->small);
    free_blocks(&loop->large);
    pthread_mutex_destroy(&loop->posts_lock);
    free(loop);
}

void net_loop_run(struct net_loop *loop)
{
    /* Acquire pairs with the release in net_loop_stop(): what the stopper wrote before is seen. */
    while (!atomic_load_explicit(&loop->stopping, memory_order_acquire))
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    atomic_store_explicit(&loop->stopping, false, memory_order_relaxed);
}

void net_loop_turn(struct net_loop *loop, bool wait)
{
    bool any = net_loop_settle(loop);

    uv_run(&loop->uv, wait && !any ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

void net_loop_stop(struct net_loop *loop)
{
    atomic_store_explicit(&loop->stopping, true, memory_order_release);
    uv_async_send(&loop->wake);
}
