/* loop.c - the event loop of a worker thread: libuv's, with timers and posts of our own.
 *
 * libuv polls descriptors, looks up names on its threads, and wakes the loop; one of its timers
 * stands for the whole wheel. What is put off during an event is done when the event is over, and
 * once more before the loop goes to sleep, for calls that came from outside of any event.
 *
 * The time is read from the process's clock when libuv's own has moved, which it does once a turn,
 * after it slept: so all callbacks of a turn see one `now`.
 */
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
    if (later->from != NULL)
        return;
    later->next = NULL;
    later->from = loop->later_end;
    *loop->later_end = later;
    loop->later_end = &later->next;
}

void net_later_cancel(struct net_loop *loop, struct net_later *later)
{
    if (later->from == NULL)
        return;
    *later->from = later->next;
    if (later->next != NULL)
        later->next->from = later->from;
    else
        loop->later_end = later->from;
    later->from = NULL;
}

bool net_loop_settle(struct net_loop *loop)
{
    bool any = false;

    if (loop->settling)
        return false;
    loop->settling = true;
    while (loop->later != NULL) {
        struct net_later *later = loop->later;

        net_later_cancel(loop, later);
        later->run(later->arg);
        any = true;
    }
    while (loop->graves != NULL) {
        struct net_grave *grave = loop->graves;

        loop->graves = grave->next;
        free(grave);
    }
    loop->settling = false;
    return any;
}

void net_loop_bury(struct net_loop *loop, struct net_grave *grave)
{
    grave->next = loop->graves;
    loop->graves = grave;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

void *net_block_take(struct net_loop *loop)
{
    struct net_block *block = loop->blocks;

    if (block == NULL)
        return malloc(NET_BLOCK_BYTES);
    loop->blocks = block->next;
    loop->n_blocks--;
    return block;
}

void net_block_give(struct net_loop *loop, void *memory)
{
    struct net_block *block = memory;

    if (loop->n_blocks >= NET_BLOCKS_KEPT) {
        free(memory);
        return;
    }
    block->next = loop->blocks;
    loop->blocks = block;
    loop->n_blocks++;
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
    while ((timer = wheel_due(&loop->wheel, now)) != NULL)
        timer->fire(timer->arg);
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
        post->next = NULL;
        wake = loop->posts == NULL;
        *loop->posts_end = post;
        loop->posts_end = &post->next;
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
        struct net_post **at = &loop->posts;

        while (*at != post)
            at = &(*at)->next;
        *at = post->next;
        if (*at == NULL)
            loop->posts_end = at;
        post->queued = false;
        loop->n_posts--;
    }
    pthread_mutex_unlock(&loop->posts_lock);
}

static struct net_post *take_post(struct net_loop *loop)
{
    pthread_mutex_lock(&loop->posts_lock);
    struct net_post *post = loop->posts;
    if (post != NULL) {
        loop->posts = post->next;
        if (loop->posts == NULL)
            loop->posts_end = &loop->posts;
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
    bool more = loop->posts != NULL;
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

static void run_closing(struct net_loop *loop)
{
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&loop->uv);
}

/* Handles of a new loop: the alarm, what runs before sleep, and the wake-up. */
static bool open_handles(struct net_loop *loop)
{
    loop->alarm.data = loop->prepare.data = loop->wake.data = loop;
    if (uv_async_init(&loop->uv, &loop->wake, woken) != 0)
        return false;
    uv_timer_init(&loop->uv, &loop->alarm);
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_prepare_start(&loop->prepare, before_sleep);
    return true;
}

enum tg_err net_loop_new(const struct clock *clock, struct net_loop **made)
{
    struct net_loop *loop = calloc(1, sizeof *loop);

    if (loop == NULL)
        return TG_ERR_MEMORY;
    if (uv_loop_init(&loop->uv) != 0)
        goto free_loop;
    if (!open_handles(loop))
        goto close_loop;
    loop->clock = clock;
    loop->now = clock_now_ms(clock);
    loop->now_uv = uv_now(&loop->uv);
    wheel_init(&loop->wheel, loop->now);
    loop->alarm_at = INT64_MAX;
    loop->later_end = &loop->later;
    loop->posts_end = &loop->posts;
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
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    run_closing(loop);
    while (loop->blocks != NULL) {
        struct net_block *block = loop->blocks;

        loop->blocks = block->next;
        free(block);
    }
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
