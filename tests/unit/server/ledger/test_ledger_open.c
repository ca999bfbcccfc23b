/* test_ledger_open.c - calls in flight when a process dies: settled as reserved, once.
 *
 * A crash is a copy of the files while the ledger is open: the kernel has what the process had
 * stored. test_ledger_crash.c kills real ones.
 */
#include "ledger_kit.h"

#include "server/ledger/journal_internal.h"
#include "server/ledger/spending.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SLOTS 64
#define PLACE(open) (HEAD_BYTES + (SLOTS + (open)-1) * SLOT_BYTES)

/* ---- Crashes ---- */

/* What a process that died now would leave, in a folder of its own. */
static struct kit crash(const struct kit *kit)
{
    struct kit dead = kit_new();

    kit_copy(kit->path, dead.path);
    if (kit_size(kit->wal) >= 0)
        kit_copy(kit->wal, dead.wal);
    kit_copy(kit->journal, dead.journal);
    return dead;
}

static void store(const struct kit *kit, size_t at, uint64_t value)
{
    int fd = open(kit->journal, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &value, sizeof value, (off_t)at), sizeof value);
    close(fd);
}

static uint64_t load(const struct kit *kit, size_t at)
{
    int fd = open(kit->journal, O_RDONLY);
    uint64_t value;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &value, sizeof value, (off_t)at), sizeof value);
    close(fd);
    return value;
}

/* ---- Sums ---- */

static void check_ledger(struct ledger *ledger, tg_micro micro, tg_micro uncertain, int64_t calls)
{
    struct apart apart = kit_apart(ledger);

    assert_int_equal(apart.micro, micro);
    assert_int_equal(apart.uncertain, uncertain);
    assert_int_equal(apart.calls, calls);
}

/* The next process finds this, and so does each one after it, whether it dies or not. */
static void check_after(struct kit *dead, tg_micro micro, tg_micro uncertain, int64_t calls)
{
    for (int i = 0; i < 4; i++) {
        struct ledger *ledger = kit_open(dead);
        check_ledger(ledger, micro, uncertain, calls);
        assert_int_equal(kit_state(ledger).damaged, 0);
        struct kit again = crash(dead);
        kit_close(ledger);
        if (i % 2 == 0) {
            kit_free(dead);
            *dead = again;
        } else {
            kit_free(&again);
        }
    }
    assert_int_equal(kit_view(dead, 0), micro + uncertain);
    kit_free(dead);
}

static void check_crash(const struct kit *kit, tg_micro micro, tg_micro uncertain, int64_t calls)
{
    struct kit dead = crash(kit);

    check_after(&dead, micro, uncertain, calls);
}

static uint32_t must_open(struct ledger *ledger, uint32_t tenant, tg_micro reserved)
{
    struct ledger_entry entry = kit_entry(tenant, "u", NOW, reserved);
    uint32_t open;

    entry.usage = (struct tg_usage){0};
    assert_true(ledger_take_room(ledger));
    open = ledger_open_call(ledger, &entry);
    assert_int_not_equal(open, 0);
    return open;
}

static void settle(struct ledger *ledger, uint32_t open, uint32_t tenant, tg_micro micro)
{
    struct ledger_entry entry = kit_entry(tenant, "u", NOW, micro);

    ledger_settle_call(ledger, open, &entry);
}

/* ---- The ledger ---- */

static void what_is_in_flight_counts_as_reserved(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    uint32_t first = must_open(ledger, a, 1000), second = must_open(ledger, a, 300);
    check_ledger(ledger, 0, 0, 0); /* nothing is owed while it is in flight */
    check_crash(&kit, 0, 1300, 2);
    settle(ledger, first, a, 70);
    check_crash(&kit, 70, 300, 2);
    kit_flush(ledger);
    check_crash(&kit, 70, 300, 2);
    ledger_drop_call(ledger, second);
    ledger_give_room(ledger);
    check_crash(&kit, 70, 0, 1);

    struct kit dead = crash(&kit);
    kit_close(ledger);
    ledger = kit_open(&dead);
    assert_int_equal(kit_state(ledger).interrupted, 0);
    assert_int_equal(kit_state(ledger).room, SLOTS);
    kit_close(ledger);
    kit_free(&dead);
    kit_free(&kit);
}

static void the_entry_says_what_it_is(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    (void)must_open(ledger, a, 1000);
    struct kit dead = crash(&kit);
    kit_close(ledger);
    ledger = kit_open(&dead);
    assert_int_equal(kit_state(ledger).interrupted, 1);
    assert_int_equal(kit_state(ledger).interrupted_micro, 1000);
    kit_close(ledger);
    assert_int_equal(kit_ask(dead.path, "SELECT flags FROM calls"),
                     LEDGER_UNCERTAIN | LEDGER_INTERRUPTED);
    assert_int_equal(kit_ask(dead.path, "SELECT uncertain - micro_usd FROM calls"), 1000);
    assert_int_equal(kit_ask(dead.path, "SELECT reserved_at FROM calls"), NOW);
    assert_int_equal(kit_ask(dead.path, "SELECT count(*) FROM calls JOIN names ON names.id = key"
                                        " WHERE CAST(text AS TEXT) = 'k1'"),
                     1);
    kit_free(&dead);
    kit_free(&kit);
}

/* Died after the entry was whole and before the place was free, with the entry in the journal or in
 * the database: the entry counts alone. */
static void an_entry_that_is_whole_ends_its_call(void **state)
{
    (void)state;
    for (int flushed = 0; flushed < 2; flushed++) {
        struct kit kit = kit_new();
        struct ledger *ledger = kit_open(&kit);
        uint32_t a = kit_tenant(ledger, 0, "a");
        uint32_t open = must_open(ledger, a, 1000);
        uint64_t number = load(&kit, PLACE(open));

        settle(ledger, open, a, 70);
        if (flushed)
            kit_flush(ledger);
        struct kit dead = crash(&kit);
        assert_int_equal(load(&dead, PLACE(open)), 0);
        assert_int_equal(load(&dead, PLACE(open) + offsetof(struct slot, settling)), 1);
        store(&dead, PLACE(open), number);
        check_after(&dead, 70, 0, 1);
        kit_close(ledger);
        kit_free(&kit);
    }
}

/* Died after the number was drawn and before the entry was whole; then the number is another's. */
static void an_entry_that_is_not_whole_leaves_its_call_open(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    uint32_t open = must_open(ledger, a, 1000);
    (void)state;

    struct kit dead = crash(&kit);
    store(&dead, PLACE(open) + offsetof(struct slot, settling), 1);
    check_after(&dead, 0, 1000, 1);

    kit_spend(ledger, a, "u", NOW, 5); /* number 1 */
    dead = crash(&kit);
    store(&dead, PLACE(open) + offsetof(struct slot, settling), 2);
    check_after(&dead, 5, 1000, 2);
    kit_close(ledger);
    kit_free(&kit);
}

static void as_many_as_there_is_room(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < SLOTS; i++)
        (void)must_open(ledger, a, 1);
    assert_false(ledger_take_room(ledger));
    check_crash(&kit, 0, SLOTS, SLOTS);
    kit_close(ledger);
    kit_free(&kit);
}

static void its_places_are_used_again(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < 10 * SLOTS; i++) {
        uint32_t open = must_open(ledger, a, 100);
        assert_int_equal(open, 1); /* the last one that was free: few pages are touched */
        settle(ledger, open, a, 1);
        if (i % SLOTS == SLOTS - 1)
            kit_flush(ledger);
    }
    check_crash(&kit, 10 * SLOTS, 0, 10 * SLOTS);
    kit_close(ledger);
    kit_free(&kit);
}

static void one_that_is_damaged_is_counted_and_the_others_stand(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < 3; i++)
        (void)must_open(ledger, a, 10);
    struct kit dead = crash(&kit);
    kit_close(ledger);
    kit_flip(dead.journal, PLACE(2) + 40);
    ledger = kit_open(&dead);
    assert_int_equal(kit_state(ledger).damaged, 1);
    check_ledger(ledger, 0, 20, 2);
    kit_close(ledger);
    ledger = kit_open(&dead); /* it is told once */
    assert_int_equal(kit_state(ledger).damaged, 0);
    check_ledger(ledger, 0, 20, 2);
    kit_close(ledger);
    kit_free(&dead);
    kit_free(&kit);
}

/* A process that ends with calls in flight has not closed its ledger: the journal is wanted. */
static void an_end_with_calls_in_flight_is_like_a_crash(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    (void)must_open(ledger, a, 1000);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT closed FROM ledger"), 0);
    ledger = kit_open(&kit);
    check_ledger(ledger, 0, 1000, 1);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT closed FROM ledger"), 1);
    kit_free(&kit);
}

static void memory_keeps_none(void **state)
{
    struct ledger_config config;
    struct ledger *ledger = NULL;
    struct ledger_entry entry = kit_entry(1, "u", NOW, 5);
    (void)state;

    ledger_config_init(&config);
    config.path = ":memory:";
    assert_true(ledger_open(&config, &ledger, NULL));
    assert_int_equal(kit_tenant(ledger, 0, "a"), 1);
    assert_true(ledger_take_room(ledger));
    assert_int_equal(ledger_open_call(ledger, &entry), 0);
    ledger_settle_call(ledger, 0, &entry);
    check_ledger(ledger, 5, 0, 1);
    kit_close(ledger);
}

/* ---- A journal of version 1 ---- */

/* An entry as version 1 wrote it. */
struct slot_1 {
    uint64_t sequence, checksum;
    int64_t reserved_at, settled_at, micro;
    int64_t input, cached_input, cache_write, output;
    uint32_t tenant, flags;
    uint16_t name_bytes[4];
    char names[936];
};

static void write_version_1(int fd, uint64_t token, uint64_t sequence, tg_micro micro)
{
    struct slot_1 slot = {.sequence = sequence,
                          .reserved_at = NOW,
                          .settled_at = NOW,
                          .micro = micro,
                          .output = 5,
                          .tenant = 1,
                          .name_bytes = {1, 10, 4, 2},
                          .names = "udemo-smalldemok1"};
    const char *from = (const char *)&slot.reserved_at;

    slot.checksum = XXH3_64bits_withSeed(from, offsetof(struct slot_1, names) - 16 + 17,
                                         token ^ sequence);
    assert_int_equal(
        pwrite(fd, &slot, sizeof slot, (off_t)(HEAD_BYTES + (sequence - 1) * SLOT_BYTES)),
        sizeof slot);
}

/* The journal of a process of version 1 that died. */
static void make_version_1(const struct kit *kit)
{
    struct {
        char magic[8];
        uint32_t version, slot_bytes;
        uint64_t slots, token, checksum;
    } head;
    int fd = open(kit->journal, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
    assert_int_equal(head.version, 2);
    head.version = 1;
    head.checksum = XXH3_64bits(&head, offsetof(__typeof__(head), checksum));
    assert_int_equal(pwrite(fd, &head, sizeof head, 0), sizeof head);
    assert_int_equal(ftruncate(fd, HEAD_BYTES + SLOTS * SLOT_BYTES), 0);
    write_version_1(fd, head.token, 1, 3);
    write_version_1(fd, head.token, 2, 4);
    close(fd);
}

static void a_journal_of_version_1_is_read_and_converted(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    int64_t size = kit_size(kit.journal);
    (void)state;

    struct kit dead = crash(&kit);
    make_version_1(&dead);
    assert_int_equal(kit_view(&dead, 0), 7);
    assert_int_equal(kit_size(dead.journal), HEAD_BYTES + SLOTS * SLOT_BYTES);
    /* A conversion that did not come to its end. */
    assert_int_equal(truncate(dead.journal, HEAD_BYTES + (SLOTS + 3) * SLOT_BYTES), 0);
    kit_fill(dead.journal, PLACE(1), SLOT_BYTES, 0xa5);

    struct ledger *next = kit_open(&dead);
    check_ledger(next, 7, 0, 2);
    assert_int_equal(kit_state(next).recovered, 2);
    assert_int_equal(kit_state(next).damaged, 0);
    assert_int_equal(kit_size(dead.journal), size);
    (void)must_open(next, a, 30);
    struct kit again = crash(&dead);
    kit_close(next);
    check_after(&again, 7, 30, 3);
    kit_free(&dead);
    kit_close(ledger);
    kit_free(&kit);
}

/* ---- Budgets ---- */

static struct spending *spending_with(struct ledger *ledger, tg_ms now)
{
    static const struct tg_budget budget = {1000, TG_PER_DAY, NULL, TG_ENFORCE};
    const struct spending_tenant tenant = {"a", SPENDING_TOP, &budget, 1, &budget, 1, NULL, 0};
    const struct spending_tree tree = {&budget, 1, &tenant, 1};
    struct spending_config config = {.ledger = ledger};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;

    tg_bank_config_init(&config.bank);
    if (!spending_new(&config, &tree, now, &spending, &problem))
        fail_msg("%s", problem.text);
    return spending;
}

static tg_micro left_at(struct spending *spending, tg_ms now)
{
    struct spending_call call = {.tenant = "a", .hint = 0, .user = kit_text("u")};
    tg_micro left;
    double part;

    assert_int_equal(spending_left(spending, &call, now, &left, &part), TG_OK);
    return left;
}

static struct spending_ticket must_reserve(struct spending *spending, tg_micro money, tg_ms now)
{
    struct spending_call call = {.tenant = "a", .user = kit_text("u"), .money = money};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, now, &ticket, &answer), TG_OK);
    assert_int_not_equal(ticket.reservation, 0);
    return ticket;
}

/* What is left at `now` to the process after one that dies at this moment. */
static tg_micro left_after(const struct kit *kit, tg_ms now)
{
    struct kit dead = crash(kit);
    struct ledger *ledger = kit_open(&dead);
    struct spending *spending = spending_with(ledger, now);
    tg_micro left = left_at(spending, now);

    spending_free(spending);
    kit_close(ledger);
    kit_free(&dead);
    return left;
}

static void a_budget_holds_what_was_in_flight(void **state)
{
    const tg_ms midnight = NOW - NOW % DAY + DAY;
    const struct spending_use use = {.spent = 40, .user = kit_text("u")};
    const struct spending_use nothing = {.spent = 0, .user = kit_text("u")};
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = spending_with(ledger, NOW);
    struct spending_ticket ticket = must_reserve(spending, 600, midnight - 1);
    (void)state;

    assert_int_equal(left_after(&kit, midnight - 1), 1000); /* it was never sent */
    spending_send(spending, &ticket, &use, midnight);
    assert_int_equal(left_after(&kit, midnight - 1), 400);
    assert_int_equal(left_after(&kit, midnight), 1000); /* it belongs to the day before */
    assert_true(spending_settle(spending, &ticket, &use, midnight));
    assert_int_equal(left_after(&kit, midnight - 1), 960);

    ticket = must_reserve(spending, 600, midnight);
    spending_send(spending, &ticket, &use, midnight);
    assert_int_equal(left_after(&kit, midnight), 400);
    /* The provider has refused it. */
    assert_true(spending_settle(spending, &ticket, &nothing, midnight));
    assert_int_equal(left_after(&kit, midnight), 1000);
    assert_int_equal(kit_state(ledger).room, SLOTS - kit_state(ledger).waiting);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_flight_counts_as_reserved),
        cmocka_unit_test(the_entry_says_what_it_is),
        cmocka_unit_test(an_entry_that_is_whole_ends_its_call),
        cmocka_unit_test(an_entry_that_is_not_whole_leaves_its_call_open),
        cmocka_unit_test(as_many_as_there_is_room),
        cmocka_unit_test(its_places_are_used_again),
        cmocka_unit_test(one_that_is_damaged_is_counted_and_the_others_stand),
        cmocka_unit_test(an_end_with_calls_in_flight_is_like_a_crash),
        cmocka_unit_test(memory_keeps_none),
        cmocka_unit_test(a_journal_of_version_1_is_read_and_converted),
        cmocka_unit_test(a_budget_holds_what_was_in_flight),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
