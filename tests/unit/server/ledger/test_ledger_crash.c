/* test_ledger_crash.c - kill -9 of a process that spends in a loop, again and again on one ledger:
 *
 *     replied <= what the ledger says afterwards <= begun
 *
 * A child with three spending threads and the ledger's own thread notes what it is about to append
 * (begun) and what has been appended (replied) in memory that outlives it, and sends a byte for
 * each reply. The parent kills it after a number of replies drawn by chance, now and then while it
 * still opens and recovers what the one before has left, and checks.
 *
 * In a second run each thread has calls in flight, and the books must be exact: a call that was
 * open when the process died counts as reserved, and one that was about to be settled as either,
 * not both. Here some children die by their own hand, at a write of SQLite drawn by chance.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "ledger_kit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "draw.h"
#include "io/posix/clock.h"

#define ROUNDS 75 /* after some nobody checks, and the next one has to recover */
#define LOOKS 50
#define FLIGHT_ROUNDS 75
#define SPENDERS 3

/* What the child leaves behind. */
struct notes {
    _Atomic int64_t begun, replied;
    _Atomic bool failed;
};

struct spender {
    struct ledger *ledger;
    struct notes *notes;
    uint32_t tenant;
    int replies;
    struct draw draw;
};

static void *spend(void *arg)
{
    struct spender *spender = arg;

    for (;;) {
        tg_micro micro = draw_magnitude(&spender->draw, 1000000);
        struct ledger_entry entry = kit_entry(spender->tenant, "u", NOW, micro);
        while (!ledger_take_room(spender->ledger))
            sched_yield();
        atomic_fetch_add(&spender->notes->begun, micro);
        ledger_append(spender->ledger, &entry);
        atomic_fetch_add(&spender->notes->replied, micro);
        if (write(spender->replies, "r", 1) != 1)
            _exit(0); /* the parent has gone */
    }
}

static void child(const struct kit *kit, struct notes *notes, int replies, struct draw *draw)
{
    struct ledger_config config = kit_config(kit);
    struct ledger *ledger;
    struct spender spenders[SPENDERS];
    struct clock clock;
    struct ledger_tenant_spec tenant = {"a", LEDGER_NO_PARENT, 0, 0, NULL, NULL};
    pthread_t threads[SPENDERS];

    clock_init(&clock);
    if (write(replies, "o", 1) != 1 || !ledger_open(&config, &ledger, NULL) ||
        !ledger_add_tenants(ledger, &tenant, 1, NULL) || !ledger_keep(ledger, &clock, 1, NULL)) {
        atomic_store(&notes->failed, true);
        _exit(1);
    }
    for (size_t i = 0; i < SPENDERS; i++) {
        spenders[i] =
            (struct spender){ledger, notes, tenant.number, replies,
                             draw_stream(draw_bits(draw), i)};
        pthread_create(&threads[i], NULL, spend, &spenders[i]);
    }
    for (size_t i = 0; i < SPENDERS; i++)
        pthread_join(threads[i], NULL);
    _exit(0);
}

/* Reads so many replies and kills. The first byte says that the child is there. */
static void kill_after(pid_t pid, int replies, int64_t n)
{
    char bytes[256];
    int status;

    while (n > 0) {
        ssize_t got = read(replies, bytes, n < 256 ? (size_t)n : sizeof bytes);
        if (got <= 0)
            break;
        n -= got;
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void spend_and_die(const struct kit *kit, struct notes *notes, struct draw *draw,
                          int64_t replies)
{
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        child(kit, notes, ends[1], draw);
    }
    close(ends[1]);
    kill_after(pid, ends[0], 1 + replies);
    close(ends[0]);
    assert_false(atomic_load(&notes->failed));
}

static void no_kill_loses_a_reply_or_invents_one(void **state)
{
    struct kit kit = kit_new();
    struct draw draw = draw_stream(draw_seed("test_ledger_crash"), 1);
    struct notes *notes =
        mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tg_micro before = 0;
    uint64_t recovered = 0;
    int checks = 0;
    (void)state;

    assert_true(notes != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t replies = draw_chance(&draw, 10) ? 0 : draw_magnitude(&draw, 1500);
        spend_and_die(&kit, notes, &draw, replies);
        (void)draw_bits(&draw); /* the child's copy of the stream has moved on, this one has not */
        if (ROUNDS - 1 - round > LOOKS - checks && draw_chance(&draw, 35))
            continue;
        checks++;
        struct ledger *ledger = kit_open(&kit);
        tg_micro after = kit_spent(ledger, NULL, NULL, 0);
        recovered += kit_state(ledger).recovered;
        assert_int_equal(kit_state(ledger).damaged, 0);
        if (after - before < notes->replied || after - before > notes->begun)
            fail_msg("round %d: %lld replied, %lld begun, the ledger has %lld more", round,
                     (long long)notes->replied, (long long)notes->begun,
                     (long long)(after - before));
        assert_int_equal(kit_view(&kit, 0), after);
        kit_close(ledger);
        before = after;
        *notes = (struct notes){0};
    }
    assert_true(checks >= LOOKS);
    print_message("%lld micro-dollars, %llu entries recovered\n", (long long)before,
                  (unsigned long long)recovered);
    assert_true(recovered > 0);
    munmap(notes, sizeof *notes);
    kit_free(&kit);
}

/* ---- Calls in flight ---- */

#define IN_FLIGHT 4 /* calls of each thread at once */
#define FLIGHT_SLOTS 1024

/* What a thread is doing to one of its calls; a kill may come between any two of these. */
enum phase { IDLE,
             OPENING,
             OPEN,
             SETTLING,
             SETTLED,
             DROPPING };

struct call_note {
    _Atomic int phase;
    int64_t reserved, micro, uncertain; /* the latter two when it is settled */
};

/* What a thread leaves behind, of its own tenant: each call in a place of its own, so that one
 * store says that it counts. */
struct flight_notes {
    struct call_note calls[20000];
    _Atomic int64_t n;
};

struct all_notes {
    struct flight_notes threads[SPENDERS];
    _Atomic bool failed;
};

struct flyer {
    struct ledger *ledger;
    struct flight_notes *notes;
    uint32_t tenant;
    int replies;
    struct draw draw;
};

static struct call_note *open_one(struct flyer *flyer, uint32_t *open)
{
    tg_micro reserved = 1 + draw_magnitude(&flyer->draw, 1000000);
    struct ledger_entry entry = kit_entry(flyer->tenant, "u", NOW, reserved);

    while (!ledger_take_room(flyer->ledger))
        sched_yield();
    struct call_note *note = &flyer->notes->calls[atomic_load(&flyer->notes->n)];
    note->reserved = reserved;
    atomic_store(&note->phase, OPENING);
    atomic_fetch_add(&flyer->notes->n, 1);
    *open = ledger_open_call(flyer->ledger, &entry);
    atomic_store(&note->phase, OPEN);
    return note;
}

static void end_one(struct flyer *flyer, struct call_note *note, uint32_t open)
{
    if (draw_chance(&flyer->draw, 15)) {
        atomic_store(&note->phase, DROPPING);
        ledger_drop_call(flyer->ledger, open);
        atomic_store(&note->phase, IDLE);
        ledger_give_room(flyer->ledger);
        return;
    }
    note->micro = draw_magnitude(&flyer->draw, 1000000);
    note->uncertain = draw_chance(&flyer->draw, 30) ? 1 + draw_magnitude(&flyer->draw, 1000) : 0;
    struct ledger_entry entry = kit_entry(flyer->tenant, "u", NOW, note->micro);
    entry.uncertain = note->uncertain;
    atomic_store(&note->phase, SETTLING);
    ledger_settle_call(flyer->ledger, open, &entry);
    atomic_store(&note->phase, SETTLED);
    /* Now and then: a kill should come while the ledger is at work, not the pipe. */
    if (draw_chance(&flyer->draw, 10) && write(flyer->replies, "r", 1) != 1)
        _exit(0); /* the parent has gone */
}

static void *fly(void *arg)
{
    struct flyer *flyer = arg;
    struct call_note *notes[IN_FLIGHT] = {NULL};
    uint32_t opens[IN_FLIGHT];

    while (atomic_load(&flyer->notes->n) < (int64_t)COUNT_OF(flyer->notes->calls)) {
        size_t i = (size_t)draw_between(&flyer->draw, 0, IN_FLIGHT - 1);
        if (notes[i] == NULL) {
            notes[i] = open_one(flyer, &opens[i]);
        } else {
            end_one(flyer, notes[i], opens[i]);
            notes[i] = NULL;
        }
    }
    for (;;) /* until it is killed */
        if (write(flyer->replies, "r", 1) != 1)
            _exit(0);
}

static void flying_child(const struct kit *kit, struct all_notes *notes, int replies,
                         struct draw *draw, long kill_at)
{
    struct ledger_config config = kit_config(kit);
    struct ledger *ledger;
    struct flyer flyers[SPENDERS];
    struct clock clock;
    struct ledger_tenant_spec tenants[SPENDERS];
    pthread_t threads[SPENDERS];
    static char names[SPENDERS][8];

    clock_init(&clock);
    config.slots = FLIGHT_SLOTS;
    kit_faults.operations = 0;
    kit_faults.fail_at = kit_faults.fail_until = kill_at;
    kit_faults.kills = true;
    for (size_t i = 0; i < SPENDERS; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        tenants[i] = (struct ledger_tenant_spec){names[i], LEDGER_NO_PARENT, 0, 0, NULL, NULL};
    }
    if (write(replies, "o", 1) != 1 || !ledger_open(&config, &ledger, NULL) ||
        !ledger_add_tenants(ledger, tenants, SPENDERS, NULL) ||
        !ledger_keep(ledger, &clock, 1, NULL)) {
        atomic_store(&notes->failed, true);
        _exit(1);
    }
    for (size_t i = 0; i < SPENDERS; i++) {
        flyers[i] = (struct flyer){ledger, &notes->threads[i], tenants[i].number, replies,
                                   draw_stream(draw_bits(draw), i)};
        pthread_create(&threads[i], NULL, fly, &flyers[i]);
    }
    for (size_t i = 0; i < SPENDERS; i++)
        pthread_join(threads[i], NULL);
    _exit(0);
}

static void fly_and_die(const struct kit *kit, struct all_notes *notes, struct draw *draw)
{
    /* Some while they recover what the one before has left, some by their own hand. */
    int64_t replies = draw_chance(draw, 25) ? 0 : draw_magnitude(draw, 300);
    long kill_at = draw_chance(draw, 40) ? (long)draw_magnitude(draw, 500) : 0;
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        flying_child(kit, notes, ends[1], draw, kill_at);
    }
    (void)draw_bits(draw); /* the child's copy of the stream has moved on, this one has not */
    close(ends[1]);
    kill_after(pid, ends[0], 1 + replies);
    close(ends[0]);
    assert_false(atomic_load(&notes->failed));
}

/* What the ledger may say of a tenant: `micro` and `uncertain`, and for each call that was caught
 * in a step, one of two. At most one a thread and round. */
struct expected {
    tg_micro micro, uncertain;
    struct {
        tg_micro micro[2], uncertain[2];
    } either[8]; /* looked at after so many rounds at the latest */
    size_t n_either;
};

static void expect_call(struct expected *expected, const struct call_note *note)
{
    int phase = atomic_load(&note->phase);

    if (phase == SETTLED) {
        expected->micro += note->micro;
        expected->uncertain += note->uncertain;
    } else if (phase == OPEN) {
        expected->uncertain += note->reserved;
    } else if (phase != IDLE) {
        size_t i = expected->n_either++;
        expected->either[i].micro[0] = 0;
        expected->either[i].uncertain[0] = note->reserved;
        expected->either[i].micro[1] = phase == SETTLING ? note->micro : 0;
        expected->either[i].uncertain[1] = phase == SETTLING ? note->uncertain : 0;
    }
}

struct found {
    struct ledger *ledger;
    const char *tenant;
    tg_micro micro, uncertain;
};

static void add_found(void *context, const struct ledger_sum *sum)
{
    struct found *found = context;

    if (strcmp(ledger_tenant_name(found->ledger, sum->tenant), found->tenant) != 0)
        return;
    found->micro += sum->micro;
    found->uncertain += sum->uncertain;
}

static bool is_among(const struct expected *expected, tg_micro micro, tg_micro uncertain)
{
    for (uint64_t choice = 0; choice < (uint64_t)1 << expected->n_either; choice++) {
        tg_micro of_micro = expected->micro, of_uncertain = expected->uncertain;
        for (size_t i = 0; i < expected->n_either; i++) {
            of_micro += expected->either[i].micro[choice >> i & 1];
            of_uncertain += expected->either[i].uncertain[choice >> i & 1];
        }
        if (of_micro == micro && of_uncertain == uncertain)
            return true;
    }
    return false;
}

/* Checks a tenant, and takes what was found as the beginning of what follows. */
static void check_tenant(struct ledger *ledger, size_t i, struct expected *expected, int round)
{
    char name[8];
    struct found found = {ledger, name, 0, 0};

    snprintf(name, sizeof name, "t%zu", i);
    ledger_lock(ledger);
    assert_true(ledger_scan_moved(ledger, 0, add_found, &found, NULL));
    ledger_scan_waiting(ledger, 0, add_found, &found);
    ledger_unlock(ledger);
    if (!is_among(expected, found.micro, found.uncertain))
        fail_msg("round %d, %s: the ledger has %lld and %lld uncertain; expected %lld and %lld, and"
                 " %zu calls that were caught in a step",
                 round, name, (long long)found.micro, (long long)found.uncertain,
                 (long long)expected->micro, (long long)expected->uncertain, expected->n_either);
    expected->micro = found.micro;
    expected->uncertain = found.uncertain;
    expected->n_either = 0;
}

static void no_kill_counts_a_call_in_flight_twice_or_never(void **state)
{
    struct kit kit = kit_new();
    struct draw draw = draw_stream(draw_seed("test_ledger_crash"), 2);
    struct all_notes *notes =
        mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static struct expected expected[SPENDERS];
    uint64_t interrupted = 0;
    size_t caught = 0;
    int unseen = 0;
    (void)state;

    assert_true(notes != MAP_FAILED);
    for (int round = 0; round < FLIGHT_ROUNDS; round++) {
        fly_and_die(&kit, notes, &draw);
        for (size_t i = 0; i < SPENDERS; i++) {
            size_t before = expected[i].n_either;
            for (int64_t k = 0; k < atomic_load(&notes->threads[i].n); k++)
                expect_call(&expected[i], &notes->threads[i].calls[k]);
            caught += expected[i].n_either - before;
        }
        memset(notes, 0, sizeof *notes);
        if (++unseen < 8 && round < FLIGHT_ROUNDS - 1 && draw_chance(&draw, 50))
            continue; /* the next one has to recover */
        unseen = 0;
        struct ledger_config config = kit_config(&kit);
        struct ledger *ledger;
        config.slots = FLIGHT_SLOTS;
        assert_true(ledger_open(&config, &ledger, NULL));
        assert_int_equal(kit_state(ledger).damaged, 0);
        interrupted += kit_state(ledger).interrupted;
        for (size_t i = 0; i < SPENDERS; i++)
            check_tenant(ledger, i, &expected[i], round);
        kit_close(ledger);
    }
    print_message("%llu calls were in flight at the last of several kills, %zu caught in a step\n",
                  (unsigned long long)interrupted, caught);
    assert_true(interrupted > 0);
    munmap(notes, sizeof *notes);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kill_loses_a_reply_or_invents_one),
        cmocka_unit_test(no_kill_counts_a_call_in_flight_twice_or_never),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
