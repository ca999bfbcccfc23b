/* ledger.c - spend on disk: appending, moving entries into the database, adding up.
 *
 *     ledger_append()        ledger_flush()            ledger_roll()
 *          |                      |                         |
 *     path.spend (mapped) -> path: calls and sums -> path: coarser sums
 *     journal.c              ledger_db.c              ledger_sums.c
 *
 * An entry is in the journal when its append returns, and leaves it by the transaction that also
 * writes its number into the database: at every moment it counts exactly once.
 *
 * Locks: `db_lock` is held over I/O, by whoever uses the database, and never by an append.
 * `state_lock` guards the text of the last failure, for a few instructions.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/budget/money.h"
#include "server/ledger/ledger_internal.h"

/* Entries of one transaction: long enough to share its sync, short enough for a rollback. */
#define BATCH 2048

/* Slots that are made ready beyond what the last flush suggests. */
#define WARM 64

/* ---- Moving entries into the database ---- */

/* Adds the entries after `moved` up to `last`, or, unless `gaps` are skipped, up to the first that
 * is not there. Sets `through` to the last one added, and counts what was damaged. */
static bool add_entries(struct ledger *ledger, uint64_t last, bool gaps, journal_read_fn *read,
                        uint64_t *through, uint64_t *whole, uint64_t *damaged,
                        struct tg_problem *problem)
{
    struct journal_record record;
    uint64_t sequence = atomic_load(&ledger->moved) + 1;

    *whole = *damaged = 0;
    for (; sequence <= last; sequence++) {
        enum journal_found found = read(&ledger->journal, sequence, &record);
        if (found == JOURNAL_NOTHING && !gaps)
            break;
        *damaged += found == JOURNAL_DAMAGED ||
                    (found == JOURNAL_NOTHING && journal_is_erased(&ledger->journal, sequence));
        *whole += found == JOURNAL_WHOLE;
        if (found == JOURNAL_WHOLE &&
            !ledger_db_add(&ledger->db, &record, ledger->detail > 0, problem))
            return false;
    }
    *through = sequence - 1;
    assert(*through >= atomic_load(&ledger->moved));
    assert(*whole + *damaged <= *through - atomic_load(&ledger->moved));
    return ledger_db_set_moved(&ledger->db, *through, problem);
}

bool ledger_move(struct ledger *ledger, uint64_t last, bool gaps, journal_read_fn *read,
                 uint64_t *whole, struct tg_problem *problem)
{
    uint64_t through, damaged;

    if (ledger_db_run(&ledger->db, "BEGIN IMMEDIATE", problem) &&
        add_entries(ledger, last, gaps, read, &through, whole, &damaged, problem) &&
        ledger_db_run(&ledger->db, "COMMIT", problem)) {
        if (damaged > 0 || gaps)
            (void)journal_wipe(&ledger->journal, atomic_load(&ledger->moved) + 1, through);
        atomic_store(&ledger->moved, through);
        atomic_fetch_add(&ledger->damaged, damaged);
        return true;
    }
    ledger_db_undo(&ledger->db);
    return false;
}

/* ---- On the way of a call ---- */

bool ledger_take_room(struct ledger *ledger)
{
    return journal_take_room(&ledger->journal);
}

void ledger_give_room(struct ledger *ledger)
{
    journal_give_room(&ledger->journal, 1);
}

uint32_t ledger_open_call(struct ledger *ledger, const struct ledger_entry *entry)
{
    return journal_open_call(&ledger->journal, entry);
}

void ledger_drop_call(struct ledger *ledger, uint32_t open)
{
    journal_close_call(&ledger->journal, open);
}

uint64_t ledger_settle_call(struct ledger *ledger, uint32_t open, const struct ledger_entry *entry)
{
    return journal_append(&ledger->journal, open, entry);
}

void ledger_append(struct ledger *ledger, const struct ledger_entry *entry)
{
    journal_append(&ledger->journal, 0, entry);
}

/* ---- Off the way ---- */

static void ledger_set_reason(struct ledger *ledger, const struct tg_problem *why,
                              struct tg_problem *to)
{
    pthread_mutex_lock(&ledger->state_lock);
    ledger->reason = *why;
    pthread_mutex_unlock(&ledger->state_lock);
    if (to != NULL)
        *to = *why;
}

static bool flush_locked(struct ledger *ledger, struct tg_problem *problem)
{
    for (;;) {
        uint64_t before = atomic_load(&ledger->moved), whole;
        struct journal_record record;
        /* No transaction for nothing: an idle ledger leaves the disk alone. */
        if (journal_read(&ledger->journal, before + 1, &record) == JOURNAL_NOTHING)
            return true;
        if (!ledger_move(ledger, before + BATCH, false, journal_read, &whole, problem))
            return false;
        uint64_t moved = atomic_load(&ledger->moved) - before;
        assert(moved <= BATCH && moved <= ledger->journal.n);
        journal_give_room(&ledger->journal, (int64_t)moved);
        journal_warm(&ledger->journal, 2 * moved + WARM);
    }
}

bool ledger_flush(struct ledger *ledger, struct tg_problem *problem)
{
    struct tg_problem why = {""};
    bool done;

    pthread_mutex_lock(&ledger->db_lock);
    done = ledger_db_in_place(&ledger->db, &why) && flush_locked(ledger, &why);
    /* While the database is away a power loss should take no more than usual. */
    if (!done)
        journal_sync(&ledger->journal);
    pthread_mutex_unlock(&ledger->db_lock);
    ledger_set_reason(ledger, &why, done ? NULL : problem);
    return done;
}

void ledger_each_open(struct ledger *ledger, ledger_open_fn *fn, void *context)
{
    struct journal_record record;

    for (uint32_t open = 1; open <= ledger->journal.n_open; open++)
        if (journal_find_open(&ledger->journal, open, &record) == JOURNAL_WHOLE)
            fn(context, &record.entry);
}

bool ledger_reread_tenants(struct ledger *ledger, struct tg_problem *problem)
{
    bool done;

    pthread_mutex_lock(&ledger->db_lock);
    done = ledger_db_read_tenants(&ledger->db, problem);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

bool ledger_roll(struct ledger *ledger, tg_ms now, struct tg_problem *problem)
{
    struct tg_problem why = {""};
    bool done;

    pthread_mutex_lock(&ledger->db_lock);
    done = ledger_db_roll(&ledger->db, now, ledger->detail, &why);
    pthread_mutex_unlock(&ledger->db_lock);
    ledger_set_reason(ledger, &why, done ? NULL : problem);
    return done;
}

bool ledger_add_tenants(struct ledger *ledger, struct ledger_tenant_spec *list, size_t n,
                        struct tg_problem *problem)
{
    bool done;

    pthread_mutex_lock(&ledger->db_lock);
    done = ledger_db_add_tenants(&ledger->db, list, n, problem);
    pthread_mutex_unlock(&ledger->db_lock);
    return done;
}

void ledger_get_state(struct ledger *ledger, struct ledger_state *state)
{
    int64_t room = atomic_load(&ledger->journal.room);
    /* In this order: what moves in between makes the difference smaller, never larger than the
     * journal is. */
    uint64_t last = atomic_load(&ledger->journal.next) - 1;
    uint64_t moved = atomic_load(&ledger->moved);

    *state = (struct ledger_state){
        .waiting = last > moved ? last - moved : 0,
        .room = room > 0 ? (uint64_t)room : 0,
        .recovered = ledger->recovered,
        .damaged = atomic_load(&ledger->damaged),
        .exported = atomic_load(&ledger->exported),
        .interrupted = ledger->interrupted,
        .interrupted_micro = ledger->interrupted_micro,
        .flushed_at = atomic_load(&ledger->flushed_at),
    };
    pthread_mutex_lock(&ledger->state_lock);
    memcpy(state->reason, ledger->reason.text, sizeof state->reason);
    snprintf(state->export_problem, sizeof state->export_problem, "%s",
             ledger->export_problem.text);
    pthread_mutex_unlock(&ledger->state_lock);
    state->health = state->room == 0           ? LEDGER_FULL
                    : state->reason[0] != '\0' ? LEDGER_LATE
                                               : LEDGER_WELL;
}

/* ---- Sums ---- */

void ledger_lock(struct ledger *ledger)
{
    pthread_mutex_lock(&ledger->db_lock);
}

void ledger_unlock(struct ledger *ledger)
{
    pthread_mutex_unlock(&ledger->db_lock);
}

size_t ledger_tenants(struct ledger *ledger)
{
    return ledger->db.n_tenants;
}

const char *ledger_tenant_name(struct ledger *ledger, uint32_t tenant)
{
    return ledger_db_name(&ledger->db, tenant);
}

const char *ledger_tenant_key(struct ledger *ledger, uint32_t tenant)
{
    return ledger_db_key(&ledger->db, tenant);
}

uint32_t ledger_tenant_parent(struct ledger *ledger, uint32_t tenant)
{
    return ledger_db_parent(&ledger->db, tenant);
}

bool ledger_scan_moved(struct ledger *ledger, tg_ms begin, ledger_sum_fn *fn, void *context,
                       struct tg_problem *problem)
{
    const struct ledger_span span = {.begin = begin, .end = INT64_MAX};

    return ledger_db_scan(&ledger->db, &span, fn, context, problem);
}

static void scan_waiting(struct ledger *ledger, const struct ledger_span *span, ledger_sum_fn *fn,
                         void *context)
{
    uint64_t next = atomic_load(&ledger->journal.next);

    for (uint64_t i = atomic_load(&ledger->moved) + 1; i < next; i++) {
        struct journal_record record;
        struct ledger_sum sum;
        if (journal_read(&ledger->journal, i, &record) == JOURNAL_WHOLE &&
            ledger_sum_of(&record.entry, span, &sum))
            fn(context, &sum);
    }
}

void ledger_scan_waiting(struct ledger *ledger, tg_ms begin, ledger_sum_fn *fn, void *context)
{
    const struct ledger_span span = {.begin = begin, .end = INT64_MAX};

    scan_waiting(ledger, &span, fn, context);
}

/* One that has had several parents has several numbers. */
struct tenant_scan {
    struct ledger *ledger;
    const char *name;
    ledger_sum_fn *fn;
    void *context;
};

static bool is_tenant(struct ledger *ledger, uint32_t tenant, const char *name)
{
    return strcmp(ledger_db_name(&ledger->db, tenant), name) == 0;
}

static void pass_own(void *context, const struct ledger_sum *sum)
{
    struct tenant_scan *scan = context;

    if (is_tenant(scan->ledger, sum->tenant, scan->name))
        scan->fn(scan->context, sum);
}

bool ledger_tenant_scan(struct ledger *ledger, const char *tenant, tg_ms begin, tg_ms end,
                        ledger_sum_fn *fn, void *context, struct tg_problem *problem)
{
    const struct ledger_span span = {.begin = begin, .end = end, .by_day = true};
    struct tenant_scan scan = {ledger, tenant, fn, context};
    bool done = true;

    ledger_lock(ledger);
    for (uint32_t i = 1; done && i <= ledger->db.n_tenants; i++)
        if (is_tenant(ledger, i, tenant))
            done = ledger_db_scan_tenant(&ledger->db, i, &span, fn, context, problem);
    if (done)
        scan_waiting(ledger, &span, pass_own, &scan);
    ledger_unlock(ledger);
    return done;
}

struct asked {
    struct ledger *ledger;
    const char *tenant, *user;
    tg_micro micro;
};

static void add_asked(void *context, const struct ledger_sum *sum)
{
    struct asked *asked = context;

    if (asked->tenant != NULL &&
        !ledger_db_is_within(&asked->ledger->db, sum->tenant, asked->tenant))
        return;
    size_t bytes = asked->user != NULL ? strlen(asked->user) : 0;
    if (asked->user != NULL && (bytes != sum->user.size ||
                                (bytes > 0 && memcmp(asked->user, sum->user.bytes, bytes) != 0)))
        return;
    asked->micro = money_add(asked->micro, money_add(sum->micro, sum->uncertain));
}

bool ledger_spent(struct ledger *ledger, const char *tenant, const char *user, tg_ms begin,
                  tg_micro *micro, struct tg_problem *problem)
{
    struct asked asked = {ledger, tenant, user, 0};
    bool done;

    ledger_lock(ledger);
    done = ledger_scan_moved(ledger, begin, add_asked, &asked, problem);
    if (done)
        ledger_scan_waiting(ledger, begin, add_asked, &asked);
    ledger_unlock(ledger);
    if (done)
        *micro = asked.micro;
    return done;
}
