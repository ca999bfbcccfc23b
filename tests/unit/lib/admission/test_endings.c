/* test_endings.c - leases that end by themselves: each at its time, in order, in bounded memory,
 * and also when there is no memory.
 */
#include "failing_malloc.h"

#include "draw.h"
#include "lib/admission/endings.h"

enum { LEASES = 400 };

struct bench {
    struct handles tickets;
    struct endings endings;
    struct ticket *open[LEASES]; /* null: not in use */
    tg_ms now;
};

static void bench_begin(struct bench *bench)
{
    *bench = (struct bench){.now = 1};
    tickets_init(&bench->tickets);
    endings_init(&bench->endings);
}

static void bench_end(struct bench *bench)
{
    endings_fini(&bench->endings);
    handles_fini(&bench->tickets);
}

static void open_lease(struct bench *bench, int i, enum ticket_state state, tg_ms at)
{
    bench->open[i] = handles_get(&bench->tickets);
    assert_non_null(bench->open[i]);
    bench->open[i]->state = (uint8_t)state;
    endings_set(&bench->endings, bench->open[i], at);
}

static void close_lease(struct bench *bench, int i)
{
    bench->open[i]->state = TICKET_FREE;
    handles_put(&bench->tickets, &bench->open[i]->handle);
    bench->open[i] = NULL;
}

static int number_of(const struct bench *bench, const struct ticket *ticket)
{
    int i = 0;

    while (i < LEASES && bench->open[i] != ticket)
        i++;
    assert_in_range(i, 0, LEASES - 1);
    return i;
}

/* The one that should end next: the earliest, and of several the one of the lowest id. */
static const struct ticket *expected(const struct bench *bench, tg_ms until)
{
    const struct ticket *first = NULL;

    for (int i = 0; i < LEASES; i++) {
        const struct ticket *ticket = bench->open[i];
        if (ticket && ticket_ends_by_itself(ticket) && ticket->deadline <= until &&
            (!first || ticket->deadline < first->deadline ||
             (ticket->deadline == first->deadline && ticket_lease(ticket) < ticket_lease(first))))
            first = ticket;
    }
    return first;
}

/* Without memory they may come in any order, but all come. */
static void end_all(struct bench *bench, bool in_order)
{
    const struct ticket *want;

    while ((want = expected(bench, bench->now))) {
        assert_true(endings_next(&bench->endings) <= want->deadline);
        struct ticket *got = endings_take(&bench->endings, &bench->tickets, bench->now);
        assert_non_null(got);
        if (in_order)
            assert_ptr_equal(got, want);
        close_lease(bench, number_of(bench, got));
    }
    assert_null(endings_take(&bench->endings, &bench->tickets, bench->now));
    assert_true(endings_next(&bench->endings) > bench->now);
}

/* A lease begins, is released or renewed; or its owner is on its way, and it no longer ends by
 * itself. */
static void step(struct bench *bench, struct draw *draw, bool in_order)
{
    static const enum ticket_state states[] = {TICKET_CHECKED, TICKET_ASKING, TICKET_ABANDONED,
                                               TICKET_ADMITTED};
    int i = (int)draw_between(draw, 0, LEASES - 1);
    tg_ms at = bench->now + draw_between(draw, 1, 300);

    if (!bench->open[i])
        open_lease(bench, i, states[draw_between(draw, 0, 3)], at);
    else if (draw_chance(draw, 70))
        close_lease(bench, i);
    else if (ticket_ends_by_itself(bench->open[i]) && draw_chance(draw, 70))
        endings_set(&bench->endings, bench->open[i], at);
    else
        bench->open[i]->state = TICKET_GRANTED;
    if (draw_chance(draw, 5)) {
        bench->now += draw_between(draw, 0, 40);
        end_all(bench, in_order);
    }
}

static void each_ends_at_its_time_and_in_order(void **state)
{
    struct draw draw = draw_stream(draw_seed("endings"), 1);
    static struct bench bench;
    (void)state;

    bench_begin(&bench);
    for (int i = 0; i < 60000; i++) {
        step(&bench, &draw, true);
        if (i % 500 == 0) /* nearly all are released: entries of many that are gone remain */
            for (int k = 0; k < LEASES; k++)
                if (bench.open[k] && draw_chance(&draw, 90))
                    close_lease(&bench, k);
    }
    bench.now += 1000;
    end_all(&bench, true);
    bench_end(&bench);
}

static void without_memory_each_ends_at_its_time(void **state)
{
    struct draw draw = draw_stream(draw_seed("endings"), 2);
    static struct bench bench;
    (void)state;

    if (!OWN_ALLOCATOR)
        skip();
    bench_begin(&bench);
    for (int i = 0; i < LEASES; i++) /* tickets are made, the heap is not */
        open_lease(&bench, i, TICKET_ADMITTED, 10);
    for (int i = 0; i < LEASES; i++)
        close_lease(&bench, i);
    endings_clear(&bench.endings);
    keeps_failing = true;
    until_failure = 0;
    for (int i = 0; i < 5000; i++)
        step(&bench, &draw, false);
    bench.now += 1000;
    end_all(&bench, false);
    until_failure = -1;
    keeps_failing = false;
    assert_null(bench.endings.heap);
    bench_end(&bench);
}

/* Entries of leases that were released do not pile up: each minute a thousand come and go, and one
 * of them stays open. */
static void the_heap_is_bounded_by_the_open_leases(void **state)
{
    static struct bench bench;
    (void)state;

    bench_begin(&bench);
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 100; i++)
            open_lease(&bench, i, TICKET_ADMITTED, bench.now + 1000000);
        open_lease(&bench, 100, TICKET_ADMITTED, bench.now + 1);
        bench.now += 1; /* the pile is worked through: all go into the heap */
        assert_ptr_equal(endings_take(&bench.endings, &bench.tickets, bench.now), bench.open[100]);
        for (int i = 0; i <= 100; i++)
            close_lease(&bench, i);
        open_lease(&bench, 101, TICKET_ADMITTED, bench.now + 1000000);
        close_lease(&bench, 101);
    }
    assert_in_range(bench.endings.capacity, 100, 1024);
    assert_in_range(bench.endings.n, 1, 1024);
    bench_end(&bench);
}

/* While most are open, none is looked up to see whether it is: that would be work for each call
 * that is in proportion to all of them. */
static void entries_of_leases_that_are_gone_stay_while_most_are_open(void **state)
{
    static struct bench bench;
    (void)state;

    bench_begin(&bench);
    for (int i = 0; i < 300; i++)
        open_lease(&bench, i, TICKET_ADMITTED, bench.now + 1000000);
    open_lease(&bench, 300, TICKET_ADMITTED, bench.now + 1);
    assert_null(endings_take(&bench.endings, &bench.tickets, bench.now));
    bench.now += 1;
    assert_ptr_equal(endings_take(&bench.endings, &bench.tickets, bench.now), bench.open[300]);
    close_lease(&bench, 300);
    for (int i = 0; i < 200; i++)
        close_lease(&bench, i);
    open_lease(&bench, 301, TICKET_ADMITTED, bench.now + 1);
    bench.now += 1; /* a third of 300 is open: all entries stay, the new one comes and goes */
    assert_ptr_equal(endings_take(&bench.endings, &bench.tickets, bench.now), bench.open[301]);
    assert_int_equal(bench.endings.n, 300);
    close_lease(&bench, 301);
    for (int i = 200; i < 299; i++)
        close_lease(&bench, i);
    open_lease(&bench, 302, TICKET_ADMITTED, bench.now + 1);
    bench.now += 1; /* one in 300 is open: it stays alone */
    assert_ptr_equal(endings_take(&bench.endings, &bench.tickets, bench.now), bench.open[302]);
    assert_int_equal(bench.endings.n, 1);
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ends_at_its_time_and_in_order),
        cmocka_unit_test(without_memory_each_ends_at_its_time),
        cmocka_unit_test(the_heap_is_bounded_by_the_open_leases),
        cmocka_unit_test(entries_of_leases_that_are_gone_stay_while_most_are_open),
    };
    return cmocka_run_group_tests_name("endings", tests, NULL, NULL);
}
