/* work_pool.c - threads for long work: see work_pool.h.
 *
 * One lock for all: jobs take a millisecond or more, and the lock some nanoseconds. What is always
 * true under it: a lane is in turn if, and only if, it has a job that waits and fewer running than
 * one lane may have.
 */
#include "io/net/work_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

struct net_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;             /* the next job can run, or the pool ends */
    pthread_cond_t ran;              /* a job has run */
    TAILQ_HEAD(, net_lane) in_turn;  /* the next first */
    struct net_pool_scratch scratch; /* what each thread has */
    size_t lane_max;                 /* jobs of one lane at once */
    size_t max, n, n_idle;           /* threads: at most, started, waiting for work */
    size_t n_running, taken;         /* jobs that run, and the memory that they take */
    bool ending;
    pthread_t threads[];
};

/* Puts a lane in turn, or out of it. */
static void pool_turn(struct net_pool *pool, struct net_lane *lane)
{
    bool due = lane->n_waiting > 0 && lane->n_running < pool->lane_max;

    if (due && !lane->in_turn)
        TAILQ_INSERT_TAIL(&pool->in_turn, lane, turn);
    else if (!due && lane->in_turn)
        TAILQ_REMOVE(&pool->in_turn, lane, turn);
    lane->in_turn = due;
}

/* Whether there is a next job, and memory for it. */
static bool pool_can_run(const struct net_pool *pool)
{
    const struct net_lane *lane = TAILQ_FIRST(&pool->in_turn);
    const struct net_job *job = lane != NULL ? STAILQ_FIRST(&lane->jobs) : NULL;

    assert(pool->n_running > 0 || pool->taken == 0);
    if (job == NULL)
        return false;
    return pool->n_running == 0 || job->takes == 0 ||
           (pool->taken <= job->room && job->takes <= job->room - pool->taken);
}

static void pool_run_next(struct net_pool *pool, void *scratch)
{
    struct net_lane *lane = TAILQ_FIRST(&pool->in_turn);
    struct net_job *job = STAILQ_FIRST(&lane->jobs);

    assert(lane->in_turn && job->lane == lane && job->state == NET_JOB_WAITING);
    STAILQ_REMOVE_HEAD(&lane->jobs, next);
    lane->n_waiting--;
    lane->n_running++;
    TAILQ_REMOVE(&pool->in_turn, lane, turn);
    lane->in_turn = false;
    pool_turn(pool, lane); /* behind the others */
    job->state = NET_JOB_RUNNING;
    size_t takes = job->takes;
    pool->n_running++;
    pool->taken += takes;
    pthread_mutex_unlock(&pool->lock);
    job->run(job, scratch);
    pthread_mutex_lock(&pool->lock);
    pool->n_running--;
    pool->taken -= takes;
    if (takes > 0)
        pthread_cond_broadcast(&pool->work);
    lane->n_running--;
    pool_turn(pool, lane);
    job->state = NET_JOB_IDLE;
    pthread_cond_broadcast(&pool->ran);
    /* The last: job and lane may be gone as soon as the loop knows. */
    net_loop_post(job->loop, &job->done);
}

/* Linux has a niceness for each thread. Where it is refused, all are equal. */
static void pool_thread_gives_way(void)
{
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NET_POOL_NICER);
}

static void *pool_thread(void *arg)
{
    struct net_pool *pool = arg;

    pool_thread_gives_way();
    void *scratch = pool->scratch.make != NULL ? pool->scratch.make() : NULL;

    pthread_mutex_lock(&pool->lock);
    while (!pool->ending) {
        if (pool_can_run(pool)) {
            pool_run_next(pool, scratch);
        } else {
            pool->n_idle++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->n_idle--;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    if (scratch != NULL)
        pool->scratch.free(scratch);
    return NULL;
}

struct net_pool *net_pool_new(size_t threads, const struct net_pool_scratch *scratch)
{
    struct net_pool *pool = calloc(1, sizeof *pool + threads * sizeof(pthread_t));

    assert(threads > 0);
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->ran, NULL);
    TAILQ_INIT(&pool->in_turn);
    pool->max = threads;
    pool->lane_max = (threads + 1) / 2;
    if (scratch != NULL)
        pool->scratch = *scratch;
    return pool;
}

void net_pool_free(struct net_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    assert(TAILQ_EMPTY(&pool->in_turn));
    pool->ending = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->ran);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

bool net_pool_put(struct net_pool *pool, struct net_lane *lane, struct net_job *job)
{
    assert(job->run != NULL && job->loop != NULL && job->done.run != NULL);
    pthread_mutex_lock(&pool->lock);
    assert(job->state == NET_JOB_IDLE);
    if (pool->n_idle == 0 && pool->n < pool->max &&
        pthread_create(&pool->threads[pool->n], NULL, pool_thread, pool) == 0)
        pool->n++;
    bool can = pool->n > 0;
    if (can) {
        if (lane->n_waiting == 0)
            STAILQ_INIT(&lane->jobs);
        STAILQ_INSERT_TAIL(&lane->jobs, job, next);
        lane->n_waiting++;
        job->lane = lane;
        job->state = NET_JOB_WAITING;
        pool_turn(pool, lane);
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return can;
}

/* With the lock held. */
static bool pool_take_back(struct net_pool *pool, struct net_job *job)
{
    struct net_lane *lane = job->lane;

    if (job->state != NET_JOB_WAITING)
        return false;
    STAILQ_REMOVE(&lane->jobs, job, net_job, next);
    lane->n_waiting--;
    pool_turn(pool, lane);
    job->state = NET_JOB_IDLE;
    pthread_cond_broadcast(&pool->work); /* the next may fit */
    return true;
}

size_t net_pool_taken(struct net_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    size_t taken = pool->taken;
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

bool net_pool_cancel(struct net_pool *pool, struct net_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool was = pool_take_back(pool, job);
    pthread_mutex_unlock(&pool->lock);
    return was;
}

void net_pool_end(struct net_pool *pool, struct net_job *job)
{
    pthread_mutex_lock(&pool->lock);
    (void)pool_take_back(pool, job);
    while (job->state == NET_JOB_RUNNING)
        pthread_cond_wait(&pool->ran, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    net_loop_unpost(job->loop, &job->done);
}
