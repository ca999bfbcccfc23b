/* crew.c - threads that meet at a barrier before every round. */
#include "crew.h"

#include <pthread.h>

#include "check.h"

struct crew {
    void (*work)(void *context, size_t i, size_t round);
    void *context;
    size_t rounds;
    pthread_barrier_t start;
};

struct member {
    struct crew *crew;
    size_t i;
    pthread_t thread;
};

static void *member_main(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;

    for (size_t round = 0; round < crew->rounds; round++) {
        (void)pthread_barrier_wait(&crew->start);
        crew->work(crew->context, member->i, round);
    }
    return NULL;
}

void crew_run(size_t n, size_t rounds, void (*work)(void *context, size_t i, size_t round),
              void *context)
{
    struct crew crew = {.work = work, .context = context, .rounds = rounds};
    struct member members[CREW_MAX];

    assert_true(n <= CREW_MAX);
    assert_int_equal(pthread_barrier_init(&crew.start, NULL, (unsigned)n), 0);
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct member){.crew = &crew, .i = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    assert_int_equal(pthread_barrier_destroy(&crew.start), 0);
}
