/* test_watch_threads.c - writers and readers of denials at once: no entry is ever torn. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "crew.h"
#include "server/obs/watch.h"

enum { WRITERS = 3,
       ROUNDS = 4,
       EACH = 3000 };

static struct watch *watch;
static atomic_bool done;

/* Every part of an entry says the same number. */
static void fill(struct watch_entry *entry, uint64_t number)
{
    char text[24];

    watch_entry_init(entry);
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    entry->id = number;
    entry->at = (tg_ms)number;
    entry->retry_after_ms = (tg_ms)number;
    watch_text(entry->reason, sizeof entry->reason, slice_of(text));
    watch_text(entry->model, sizeof entry->model, slice_of(text));
    watch_text(entry->text, sizeof entry->text, slice_of(text));
}

static void write_many(void *context, size_t i, size_t round)
{
    struct watch_entry entry;

    (void)context;
    for (uint64_t n = 0; n < EACH; n++) {
        fill(&entry, ((uint64_t)i * ROUNDS + round) * EACH + n);
        watch_put(watch, &entry);
    }
}

struct reading {
    uint64_t taken, lost, torn;
};

static void check_entry(struct reading *reading, const struct watch_entry *entry)
{
    struct watch_entry want;

    fill(&want, entry->id);
    reading->torn += memcmp(&want, entry, sizeof want) != 0;
}

static void *read_many(void *arg)
{
    struct reading *reading = arg;
    struct watch_entry entry, recent[4];
    watch_place place = 0;

    for (bool last = false; !last;) {
        last = atomic_load(&done); /* before the look that is to find nothing more */
        while (watch_take(watch, &place, &entry, &reading->lost)) {
            reading->taken++;
            check_entry(reading, &entry);
        }
        size_t n = watch_recent(watch, recent, 4);
        for (size_t i = 0; i < n; i++)
            check_entry(reading, &recent[i]);
    }
    return NULL;
}

static void what_is_read_is_whole_and_what_is_not_is_counted(void **state)
{
    struct reading readings[2] = {{0}};
    pthread_t readers[2];

    (void)state;
    watch = watch_new(64); /* few, so that readers are overtaken */
    atomic_store(&done, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_many, &readings[i]), 0);
    crew_run(WRITERS, ROUNDS, write_many, NULL);
    atomic_store(&done, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(readers[i], NULL);
        assert_int_equal(readings[i].torn, 0);
        assert_true(readings[i].taken > 0);
        /* Those that a writer gave up on may still be waited for, half a ring of them. */
        uint64_t seen = readings[i].taken + readings[i].lost;
        assert_true(seen <= WRITERS * ROUNDS * EACH);
        assert_true(seen + (watch_dropped(watch) > 0 ? 32 : 0) >= WRITERS * ROUNDS * EACH);
    }
    assert_int_equal(watch_total(watch), WRITERS * ROUNDS * EACH);
    watch_free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_whole_and_what_is_not_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
