/* test_ledger_crash.c - kill -9 of a process that spends in a loop, again and again on one ledger:
 *
 *     replied <= what the ledger says afterwards <= begun
 *
 * A child with three spending threads and the ledger's own thread notes what it is about to append
 * (begun) and what has been appended (replied) in memory that outlives it, and sends a byte for
 * each reply. The parent kills it after a number of replies drawn by chance, now and then while it
 * still opens and recovers what the one before has left, and checks.
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
    struct ledger_tenant_spec tenant = {"a", LEDGER_NO_PARENT, 0, 0};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_kill_loses_a_reply_or_invents_one)};

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
