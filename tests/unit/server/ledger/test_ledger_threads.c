/* test_ledger_threads.c - threads that append, while others flush, roll, add up and look: nothing
 * is lost, nothing is counted twice, and no sum goes back. Runs under TSan too.
 */
#include "ledger_kit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "crew.h"
#include "io/posix/clock.h"

#define APPENDERS 4
#define EACH 4000

struct meeting {
    struct kit kit;
    struct ledger *ledger;
    uint32_t tenants[APPENDERS];
    _Atomic int64_t appended; /* micro-dollars, noted after the append */
    _Atomic int appending;    /* threads */
    _Atomic int wrong;        /* WRONG_... */
};

/* What a thread has found; it may not fail the test itself. */
enum {
    WRONG_NO_SUM = 1,  /* the ledger could not add up */
    WRONG_LOST = 2,    /* less than had been appended before */
    WRONG_SHRUNK = 4,  /* less than at the last look */
    WRONG_WAITING = 8, /* more in the journal than it has slots */
    WRONG_ROOM = 16,   /* more room than slots */
    WRONG_DAMAGED = 32,
    WRONG_FLUSH = 64,
};

static void note(struct meeting *meeting, bool is_wrong, int what)
{
    if (is_wrong)
        atomic_fetch_or(&meeting->wrong, what);
}

static void append_all(struct meeting *meeting, size_t i)
{
    for (int n = 0; n < EACH; n++) {
        struct ledger_entry entry = kit_entry(meeting->tenants[i], "u", NOW, 1 + n % 7);
        while (!ledger_take_room(meeting->ledger))
            sched_yield();
        if (n % 16 == 0) { /* room that is not used after all */
            ledger_give_room(meeting->ledger);
            while (!ledger_take_room(meeting->ledger))
                sched_yield();
        }
        uint32_t open = n % 3 != 0 ? ledger_open_call(meeting->ledger, &entry) : 0;
        if (n % 11 == 1) { /* one that is not sent after all */
            ledger_drop_call(meeting->ledger, open);
            open = ledger_open_call(meeting->ledger, &entry);
        }
        ledger_settle_call(meeting->ledger, open, &entry);
        atomic_fetch_add(&meeting->appended, entry.micro);
    }
    atomic_fetch_sub(&meeting->appending, 1);
}

/* What was appended before the look is in it, and it never shrinks. */
static void check_books(struct meeting *meeting)
{
    tg_micro last = 0;

    while (atomic_load(&meeting->appending) > 0) {
        struct ledger_state state;
        tg_micro before = atomic_load(&meeting->appended), spent = 0;
        note(meeting, !ledger_spent(meeting->ledger, NULL, "u", 0, &spent, NULL), WRONG_NO_SUM);
        note(meeting, spent < before, WRONG_LOST);
        note(meeting, spent < last, WRONG_SHRUNK);
        last = spent;
        ledger_get_state(meeting->ledger, &state);
        note(meeting, state.waiting > 64, WRONG_WAITING);
        note(meeting, state.room > 64, WRONG_ROOM);
        note(meeting, state.damaged > 0, WRONG_DAMAGED);
    }
}

static void flush(struct meeting *meeting)
{
    while (atomic_load(&meeting->appending) > 0)
        note(meeting,
             !ledger_flush(meeting->ledger, NULL) || !ledger_roll(meeting->ledger, NOW, NULL),
             WRONG_FLUSH);
}

static void work(void *context, size_t i, size_t round)
{
    (void)round;
    if (i < APPENDERS)
        append_all(context, i);
    else if (i == APPENDERS)
        check_books(context);
    else
        flush(context);
}

static void meet(size_t threads, bool keep)
{
    struct meeting meeting = {.kit = kit_new(), .appending = APPENDERS};
    struct clock clock;
    char name[8];

    clock_init(&clock);
    meeting.ledger = kit_open(&meeting.kit);
    if (keep)
        assert_true(ledger_keep(meeting.ledger, &clock, 1, NULL));
    for (size_t i = 0; i < APPENDERS; i++) {
        snprintf(name, sizeof name, "t%zu", i);
        meeting.tenants[i] = kit_tenant(meeting.ledger, 0, name);
    }
    crew_run(threads, 1, work, &meeting);
    assert_int_equal(meeting.wrong, 0);
    assert_int_equal(kit_spent(meeting.ledger, NULL, NULL, 0), meeting.appended);
    for (size_t i = 0; i < APPENDERS; i++) {
        snprintf(name, sizeof name, "t%zu", i);
        assert_int_equal(kit_spent(meeting.ledger, name, NULL, 0), meeting.appended / APPENDERS);
    }
    kit_close(meeting.ledger);
    assert_int_equal(kit_view(&meeting.kit, 0), meeting.appended);
    assert_int_equal(kit_ask(meeting.kit.path, "SELECT moved FROM ledger"), APPENDERS * EACH);
    kit_free(&meeting.kit);
}

static void appends_meet_flushes_and_sums(void **state)
{
    (void)state;
    meet(APPENDERS + 2, false);
}

static void the_ledgers_own_thread_keeps_up(void **state)
{
    (void)state;
    meet(APPENDERS + 1, true);
}

/* Nobody adds up here: between an append and its move there is nothing but the journal. */
static void only_the_journal_orders_an_append_and_its_move(void **state)
{
    (void)state;
    meet(APPENDERS, true);
}

static void a_ledger_can_be_kept_once(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct tg_problem problem = {""};
    struct clock clock;
    (void)state;

    clock_init(&clock);
    assert_false(ledger_keep(ledger, &clock, 0, &problem));
    assert_true(ledger_keep(ledger, &clock, 60000, &problem));
    assert_false(ledger_keep(ledger, &clock, 50, &problem));
    kit_close(ledger); /* does not wait for the minute to end */
    kit_free(&kit);
}

static void a_kept_ledger_says_up_to_when_it_has_moved_on(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_state is;
    struct clock clock;
    (void)state;

    clock_init(&clock);
    tg_ms before = clock_now_ms(&clock);
    ledger_get_state(ledger, &is);
    assert_int_equal(is.flushed_at, 0);
    assert_true(ledger_keep(ledger, &clock, 1, NULL));
    do {
        sched_yield();
        ledger_get_state(ledger, &is);
    } while (is.flushed_at == 0);
    assert_true(is.flushed_at >= before && is.flushed_at <= clock_now_ms(&clock));
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_meet_flushes_and_sums),
        cmocka_unit_test(the_ledgers_own_thread_keeps_up),
        cmocka_unit_test(only_the_journal_orders_an_append_and_its_move),
        cmocka_unit_test(a_ledger_can_be_kept_once),
        cmocka_unit_test(a_kept_ledger_says_up_to_when_it_has_moved_on),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
