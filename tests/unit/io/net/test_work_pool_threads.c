/* test_work_pool_threads.c - work on threads of its own: its order, and what is cancelled.
 */
#include "io/net/work_pool.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"
#include "lib/core/random.h"

enum { MANY = 400,
       LANES = 3 };

static struct clock clock_of_test;
static struct net_loop *loop;
static struct net_pool *pool;

struct job {
    struct net_job job;
    int ran, done;
    char name;
    sem_t *gate; /* waited for, if there is one */
};

static char order[64];
static atomic_size_t n_order;
static sem_t begun;
static atomic_int scratches, niceness;

static void job_run(struct net_job *at, void *scratch)
{
    struct job *job = (struct job *)(void *)at;

    assert_ptr_equal(scratch, &scratches);
    atomic_store(&niceness, getpriority(PRIO_PROCESS, 0));
    job->ran++;
    if (job->name != '\0')
        order[atomic_fetch_add(&n_order, 1)] = job->name;
    if (job->gate != NULL) {
        sem_post(&begun);
        sem_wait(job->gate);
    }
}

static void job_done(void *arg)
{
    ((struct job *)arg)->done++;
}

static void *make_scratch(void)
{
    atomic_fetch_add(&scratches, 1);
    return &scratches;
}

static void free_scratch(void *scratch)
{
    assert_ptr_equal(scratch, &scratches);
    atomic_fetch_sub(&scratches, 1);
}

static void open_pool(size_t threads)
{
    static const struct net_pool_scratch scratch = {make_scratch, free_scratch};

    clock_init(&clock_of_test);
    assert_int_equal(net_loop_new(&clock_of_test, &loop), TG_OK);
    pool = net_pool_new(threads, &scratch);
    assert_non_null(pool);
    memset(order, 0, sizeof order);
    atomic_store(&n_order, 0);
    sem_init(&begun, 0, 0);
}

static void close_pool(void)
{
    net_pool_free(pool);
    net_loop_free(loop);
    sem_destroy(&begun);
    assert_int_equal(atomic_load(&scratches), 0);
}

static void put(struct net_lane *lane, struct job *job, char name, sem_t *gate)
{
    *job = (struct job){.job = {.run = job_run, .loop = loop}, .name = name, .gate = gate};
    net_post_init(&job->job.done, job_done, job);
    assert_true(net_pool_put(pool, lane, &job->job));
}

static void until_done(struct job *job)
{
    while (job->done == 0)
        net_loop_turn(loop, true);
    assert_int_equal(job->ran, 1);
    assert_int_equal(job->done, 1);
}

/* With one thread: a job of b waits for one job of a, not for all of them. */
static void lanes_take_turns(void **state)
{
    struct net_lane a = {0}, b = {0};
    struct job first, as[3], bs[2];
    sem_t gate;

    (void)state;
    open_pool(1);
    sem_init(&gate, 0, 0);
    put(&a, &first, 'a', &gate);
    sem_wait(&begun); /* the thread is busy */
    for (int i = 0; i < 3; i++)
        put(&a, &as[i], 'a', NULL);
    for (int i = 0; i < 2; i++)
        put(&b, &bs[i], 'b', NULL);
    sem_post(&gate);
    until_done(&as[2]);
    until_done(&bs[1]);
    assert_string_equal(order, "ababaa");
    until_done(&first);
    until_done(&as[0]);
    until_done(&as[1]);
    until_done(&bs[0]);
    sem_destroy(&gate);
    close_pool();
}

/* With two threads, one lane's jobs leave one of them to others, however long they take. */
/* Calls that need none of this do not wait for it. */
static void its_threads_leave_the_cores_to_others(void **state)
{
    struct net_lane lane = {.n_waiting = 0};
    struct job job = {.ran = 0};
    int own = getpriority(PRIO_PROCESS, 0);

    (void)state;
    open_pool(1);
    put(&lane, &job, '\0', NULL);
    until_done(&job);
    int most = own + NET_POOL_NICER < 19 ? own + NET_POOL_NICER : 19;
    assert_int_equal(atomic_load(&niceness), most);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
    close_pool();
}

static void one_lane_has_half_of_the_threads(void **state)
{
    struct net_lane a = {0}, b = {0};
    struct job as[3], other;
    sem_t gate;

    (void)state;
    open_pool(2);
    sem_init(&gate, 0, 0);
    for (int i = 0; i < 3; i++)
        put(&a, &as[i], 'a', &gate);
    sem_wait(&begun);
    put(&b, &other, 'b', NULL);
    until_done(&other);
    assert_string_equal(order, "ab");
    for (int i = 0; i < 3; i++)
        sem_post(&gate);
    for (int i = 0; i < 3; i++)
        until_done(&as[i]);
    sem_destroy(&gate);
    close_pool();
}

static void what_waits_can_be_cancelled_and_what_runs_can_be_waited_for(void **state)
{
    struct net_lane a = {0};
    struct job runs, waits, ended;
    sem_t gate;

    (void)state;
    open_pool(1);
    sem_init(&gate, 0, 0);
    put(&a, &runs, 'r', &gate);
    sem_wait(&begun);
    put(&a, &waits, 'w', NULL);
    put(&a, &ended, 'e', NULL);
    assert_false(net_pool_cancel(pool, &runs.job));
    assert_true(net_pool_cancel(pool, &waits.job));
    assert_false(net_pool_cancel(pool, &waits.job)); /* it is not there any more */
    net_pool_end(pool, &ended.job);
    sem_post(&gate);
    net_pool_end(pool, &runs.job);
    assert_int_equal(runs.ran, 1);
    net_loop_turn(loop, false);
    assert_int_equal(runs.done + waits.done + ended.done, 0);
    assert_int_equal(waits.ran + ended.ran, 0);
    sem_destroy(&gate);
    close_pool();
}

/* Many jobs, some of which are cancelled at any moment: each runs once and is told of, or not. */
static void every_job_is_done_or_cancelled(void **state)
{
    static struct job jobs[MANY];
    struct net_lane lanes[LANES] = {{.n_waiting = 0}};
    struct random random;
    int left = MANY;

    (void)state;
    open_pool(3);
    random_init(&random, 18, 1);
    for (int i = 0; i < MANY; i++) {
        put(&lanes[random_bits(&random) % LANES], &jobs[i], '\0', NULL);
        if (random_bits(&random) % 4 == 0) {
            size_t which = random_bits(&random) % (size_t)(i + 1);
            if (net_pool_cancel(pool, &jobs[which].job))
                jobs[which].done = -1, left--;
        }
        if (random_bits(&random) % 8 == 0)
            net_loop_turn(loop, false);
    }
    for (int i = 0; i < MANY; i++) {
        while (jobs[i].done == 0)
            net_loop_turn(loop, true);
        assert_int_equal(jobs[i].done, jobs[i].ran == 1 ? 1 : -1);
        left -= jobs[i].done == 1;
    }
    assert_int_equal(left, 0);
    close_pool();
}

/* Three jobs that take 6 each, where 13 may be taken: two run, and the third waits for one of them,
 * and so does a small one behind it. */
static void what_does_not_fit_waits_for_what_runs(void **state)
{
    struct net_lane lanes[4] = {{.n_waiting = 0}};
    struct job jobs[4];
    sem_t gate;

    (void)state;
    open_pool(4);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < 4; i++) {
        jobs[i] = (struct job){
            .job = {.run = job_run, .loop = loop, .takes = i == 3 ? 2 : 6, .room = 13},
            .name = (char)('a' + i),
            .gate = &gate};
        net_post_init(&jobs[i].job.done, job_done, &jobs[i]);
        assert_true(net_pool_put(pool, &lanes[i], &jobs[i].job));
    }
    sem_wait(&begun);
    sem_wait(&begun);
    assert_int_equal(net_pool_taken(pool), 12);
    assert_int_equal(atomic_load(&n_order), 2);
    sem_post(&gate); /* one of the two ends: 6 + 6 run, and 2 do not fit beside them */
    sem_wait(&begun);
    assert_int_equal(net_pool_taken(pool), 12);
    assert_int_equal(order[2], 'c');
    for (size_t i = 0; i < 3; i++)
        sem_post(&gate);
    for (size_t i = 0; i < 4; i++)
        until_done(&jobs[i]);
    assert_int_equal(order[3], 'd');
    assert_int_equal(net_pool_taken(pool), 0);
    sem_destroy(&gate);
    close_pool();
}

/* What takes more than there is room runs when nothing else does; what waits in front of others and
 * is cancelled lets them run. */
static void what_never_fits_runs_alone(void **state)
{
    struct net_lane lanes[3] = {{.n_waiting = 0}};
    struct job jobs[3];
    sem_t gate;

    (void)state;
    open_pool(3);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < 3; i++) {
        jobs[i] = (struct job){
            .job = {.run = job_run, .loop = loop, .takes = i < 2 ? 99 : 1, .room = 100},
            .name = (char)('a' + i),
            .gate = &gate};
        jobs[i].job.room = i == 0 ? 10 : 100;
        net_post_init(&jobs[i].job.done, job_done, &jobs[i]);
        assert_true(net_pool_put(pool, &lanes[i], &jobs[i].job));
    }
    sem_wait(&begun);
    assert_int_equal(net_pool_taken(pool), 99);
    assert_true(net_pool_cancel(pool, &jobs[1].job));
    sem_wait(&begun); /* the small one fits */
    assert_int_equal(net_pool_taken(pool), 100);
    sem_post(&gate);
    sem_post(&gate);
    until_done(&jobs[0]);
    until_done(&jobs[2]);
    assert_int_equal(jobs[1].ran, 0);
    sem_destroy(&gate);
    close_pool();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_take_turns),
        cmocka_unit_test(its_threads_leave_the_cores_to_others),
        cmocka_unit_test(one_lane_has_half_of_the_threads),
        cmocka_unit_test(what_waits_can_be_cancelled_and_what_runs_can_be_waited_for),
        cmocka_unit_test(what_does_not_fit_waits_for_what_runs),
        cmocka_unit_test(what_never_fits_runs_alone),
        cmocka_unit_test(every_job_is_done_or_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
