/* ledger_open.c - the life of a ledger: one process alone, its files, what a crash left, the thread
 * that flushes it.
 *
 *     path.lock     keeps a second process out: two that write one journal would use numbers twice
 *     path          the database; with SQLite's own path-wal and path-shm while it is open
 *     path.spend    the journal; path.spend.1 and so on while another process, which was taken
 *                   over, still settles calls in that one (ledger_journals.c)
 *
 *     database    journal     then
 *     nothing     none        a new ledger
 *     nothing     there       an error: the database is lost
 *     closed      none        a new journal: there was nothing in it
 *     in use      none        an error: it may hold what was settled last
 *     any         empty       a new journal, at an administrator's word
 *     any         there       what the database has not is moved there; an error if it is another
 *                             ledger's, damaged, or too far ahead of the database
 *
 * Nothing is removed or replaced by opening, so that an attempt that fails can be repeated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/posix/clock.h"
#include "lib/budget/money.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_export.h"
#include "server/ledger/ledger_internal.h"

#define ROLL_EVERY_MS INT64_C(3600000)
#define LOOK_EVERY_MS 250
#define EXPORT_EVERY_MS INT64_C(60000)

void ledger_config_init(struct ledger_config *config)
{
    *config = (struct ledger_config){.path = "tollgate.db",
                                     .detail = 30 * DAY_MS,
                                     .slots = 16384,
                                     .busy_ms = 1000,
                                     .lock_fd = -1};
}

/* ---- One process alone ---- */

static bool refuse_second(int fd, const char *path, struct tg_problem *problem)
{
    char pid[24] = "";
    ssize_t got = pread(fd, pid, sizeof pid - 1, 0);

    pid[got > 0 ? got : 0] = '\0';
    pid[strcspn(pid, "\n")] = '\0';
    return problem_fail(problem,
                        "%s is in use by process %s; end it, or give this one a ledger of its own",
                        path, *pid != '\0' ? pid : "(unknown)");
}

/* For the message above alone: that it could not be written hurts nobody. */
static void write_pid(int fd)
{
    char pid[24];
    int bytes = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());

    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)bytes, 0) != bytes)
        return;
}

static bool lock_path(struct ledger *ledger, struct tg_problem *problem)
{
    char name[4200];
    int fd;

    snprintf(name, sizeof name, "%.4096s.lock", ledger->path);
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return problem_fail(problem, "%s cannot be made: %s; check the rights of its folder", name,
                            strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        refuse_second(fd, ledger->path, problem);
        close(fd);
        return false;
    }
    ledger->lock_fd = fd;
    write_pid(fd);
    return true;
}

/* ---- Handing it over ---- */

int ledger_lock_fd(const struct ledger *ledger)
{
    return ledger->lock_fd;
}

/* A lock belongs to the open file, and not to a process: while one of the two has it open, nobody
 * else gets it. */
void ledger_leave_lock(struct ledger *ledger)
{
    /* Not while what a dead process left is being moved, which is for whoever has it. */
    pthread_mutex_lock(&ledger->db_lock);
    if (ledger->lock_fd >= 0)
        close(ledger->lock_fd);
    ledger->lock_fd = -1;
    pthread_mutex_unlock(&ledger->db_lock);
}

void ledger_own_lock(struct ledger *ledger)
{
    if (ledger->lock_fd >= 0)
        write_pid(ledger->lock_fd);
}

/* ---- Opening ---- */

static bool check_config(const struct ledger_config *config, struct tg_problem *problem)
{
    if (config->path == NULL || *config->path == '\0')
        return problem_fail(problem,
                            "the path of a ledger is empty; it must be a file or :memory:");
    if (config->slots < 2 || config->slots > (size_t)1 << 20)
        return problem_fail(problem, "slots is %zu; it must be from 2 to 1048576", config->slots);
    if (!num_in_range(config->detail))
        return problem_fail(problem, "detail is %lld; it must be from 0 to %lld ms",
                            (long long)config->detail, (long long)TG_NUMBER_MAX);
    return true;
}

static char *with_suffix(const char *path, const char *suffix)
{
    size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(bytes);

    if (name != NULL)
        snprintf(name, bytes, "%s%s", path, suffix);
    return name;
}

static struct ledger *ledger_alloc(const struct ledger_config *config, struct tg_problem *problem)
{
    struct ledger *ledger = aligned_alloc(_Alignof(struct ledger), sizeof *ledger);
    pthread_condattr_t attributes;

    if (ledger == NULL) {
        problem_fail(problem, "%s: there is no memory to open it", config->path);
        return NULL;
    }
    memset(ledger, 0, sizeof *ledger);
    ledger->lock_fd = ledger->journal_fd = -1;
    ledger->path = strdup(config->path);
    ledger->journal_path = with_suffix(config->path, ".spend");
    ledger->detail = config->detail;
    pthread_mutex_init(&ledger->db_lock, NULL);
    pthread_mutex_init(&ledger->state_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ledger->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    return ledger;
}

static void ledger_free(struct ledger *ledger)
{
    journal_unmap(&ledger->journal);
    ledger_free_others(ledger);
    ledger_db_close(&ledger->db);
    if (ledger->journal_fd >= 0)
        close(ledger->journal_fd);
    if (ledger->lock_fd >= 0)
        close(ledger->lock_fd);
    pthread_cond_destroy(&ledger->wake);
    pthread_mutex_destroy(&ledger->state_lock);
    pthread_mutex_destroy(&ledger->db_lock);
    free(ledger->journal_path);
    free(ledger->path);
    free(ledger->export_folder);
    free(ledger);
}

enum presence { ABSENT, EMPTY, PRESENT };

static enum presence presence_of(const char *path)
{
    struct stat stat_of;

    if (stat(path, &stat_of) != 0)
        return errno == ENOENT ? ABSENT : PRESENT; /* opening it will say what is wrong */
    return stat_of.st_size == 0 ? EMPTY : PRESENT;
}

static bool open_journal(struct ledger *ledger, enum presence there, size_t slots,
                         struct tg_problem *problem)
{
    uint64_t token = ledger->db.token;

    if (there == ABSENT && !ledger->db.closed)
        return problem_fail(problem,
                            "%s is missing, and may hold what was settled last; put it back, or "
                            "make an empty file of that name to go on without it",
                            ledger->journal_path);
    if (there != PRESENT) {
        if (ledger->journal_fd >= 0)
            close(ledger->journal_fd);
        ledger->journal_fd = -1;
        if (!journal_create(ledger->journal_path, token, slots, problem))
            return false;
    }
    if (ledger->journal_fd < 0)
        ledger->journal_fd = ledger_journal_lock(ledger->path, ledger->db.journal);
    return journal_map(&ledger->journal, ledger->journal_path, token, problem);
}

/* It keeps nothing, and nothing has been left in it. */
static bool is_in_memory(const struct ledger_config *config)
{
    return strcmp(config->path, ":memory:") == 0;
}

static bool open_files(struct ledger *ledger, const struct ledger_config *config,
                       struct tg_problem *problem)
{
    if (is_in_memory(config)) {
        ledger->detail = 0; /* nobody could read it, and memory would be full of it */
        return ledger_db_open(&ledger->db, config->path, 0, true, problem) &&
               journal_map_memory(&ledger->journal, config->slots, problem);
    }
    if (config->lock_fd >= 0)
        ledger->lock_fd = fcntl(config->lock_fd, F_DUPFD_CLOEXEC, 0);
    if (ledger->lock_fd < 0 && !lock_path(ledger, problem))
        return false;
    enum presence there = presence_of(ledger->journal_path);
    if (!ledger_db_open(&ledger->db, config->path, config->busy_ms, there != PRESENT, problem) ||
        !ledger_choose_journal(ledger, config->slots, problem))
        return false;
    there = presence_of(ledger->journal_path);
    return open_journal(ledger, there, config->slots, problem);
}

/* ---- What a crash has left ---- */

/* Settles what was in flight as reserved: the provider may have billed all of it. */
static bool settle_interrupted(struct ledger *ledger, struct tg_problem *problem)
{
    struct journal *journal = &ledger->journal;
    struct journal_record record;

    for (uint32_t open = 1; open <= journal->n_open; open++) {
        enum journal_found found = journal_find_open(journal, open, &record);
        if (found == JOURNAL_NOTHING)
            continue;
        if (found == JOURNAL_DAMAGED) {
            atomic_fetch_add(&ledger->damaged, 1);
            journal_close_call(journal, open);
            continue;
        }
        while (!journal_take_room(journal))
            if (!ledger_flush(ledger, problem))
                return false;
        record.entry.uncertain = record.entry.micro;
        record.entry.micro = 0;
        record.entry.flags |= LEDGER_INTERRUPTED;
        journal_append(journal, open, &record.entry);
        ledger->interrupted++;
        ledger->interrupted_micro = money_add(ledger->interrupted_micro, record.entry.uncertain);
    }
    return true;
}

/* Counts what a former process has left. Even where it left nothing this writes to the database:
 * one that cannot be written is found out now. */
static bool recover(struct ledger *ledger, struct tg_problem *problem)
{
    uint64_t moved = ledger->db.moved;
    uint64_t newest = journal_newest(&ledger->journal);

    if (newest > moved + ledger->journal.n)
        return problem_fail(
            problem,
            "%s ends at entry %llu, but its journal is at entry %llu: some between "
            "are in neither; restore a newer copy of the database, or replace %s by "
            "an empty file to go on without them",
            ledger->path, (unsigned long long)moved, (unsigned long long)newest,
            ledger->journal_path);
    atomic_store(&ledger->moved, moved);
    journal_close_settled(&ledger->journal, moved);
    if (!ledger_move(ledger, journal_last(&ledger->journal, moved), true, journal_find,
                     &ledger->recovered, problem))
        return false;
    /* Beyond the last entry nobody knows whether there were others: what is spoilt there counts. */
    moved = atomic_load(&ledger->moved);
    if (ledger->raised > moved) {
        if (!ledger_raise_numbers(ledger, problem))
            return false;
        moved = ledger->raised;
        atomic_store(&ledger->moved, moved);
    }
    atomic_fetch_add(&ledger->damaged,
                     journal_wipe(&ledger->journal, moved + 1, moved + ledger->journal.n));
    journal_begin(&ledger->journal, moved);
    journal_warm(&ledger->journal, ledger->journal.n);
    if (!journal_open_begin(&ledger->journal))
        return problem_fail(problem, "%s: there is no memory to open it", ledger->path);
    return settle_interrupted(ledger, problem);
}

bool ledger_open(const struct ledger_config *config, struct ledger **ledger,
                 struct tg_problem *problem)
{
    struct ledger *opened;

    if (!check_config(config, problem))
        return false;
    opened = ledger_alloc(config, problem);
    if (opened == NULL)
        return false;
    if (opened->path == NULL || opened->journal_path == NULL) {
        problem_fail(problem, "%s: there is no memory to open it", config->path);
        goto free_ledger;
    }
    if (!open_files(opened, config, problem))
        goto free_ledger;
    if (is_in_memory(config))
        journal_begin(&opened->journal, 0);
    else if (!recover(opened, problem) || !ledger_recover_left(opened, problem))
        goto free_ledger;
    *ledger = opened;
    return true;

free_ledger:
    ledger_free(opened);
    return false;
}

struct ledger *ledger_open_left(struct ledger *ledger, struct ledger_journal_row row, int fd,
                                struct tg_problem *problem)
{
    struct ledger_config config;
    struct ledger *left;
    char name[LEDGER_JOURNAL_NAME];

    ledger_config_init(&config);
    config.path = ledger->path;
    config.detail = ledger->detail;
    left = ledger_alloc(&config, problem);
    if (left == NULL) {
        close(fd);
        return NULL;
    }
    left->journal_fd = fd;
    ledger_journal_name(ledger->path, row.number, name, sizeof name);
    free(left->journal_path);
    left->journal_path = strdup(name);
    if (left->path == NULL || left->journal_path == NULL)
        problem_fail(problem, "%s: there is no memory to open it", config.path);
    else if (ledger_db_open(&left->db, config.path, config.busy_ms, false, problem) &&
             journal_map(&left->journal, name, left->db.token, problem)) {
        left->db.journal = row.number;
        left->db.moved = row.moved;
        if (recover(left, problem))
            return left;
    }
    ledger_free(left);
    return NULL;
}

void ledger_free_left(struct ledger *left)
{
    ledger_free(left);
}

uint64_t ledger_left_behind(struct ledger *ledger)
{
    return atomic_load(&ledger->left_behind);
}

uint64_t ledger_id(const struct ledger *ledger)
{
    return ledger->db.token;
}

/* ---- Keeping ----
 *
 * A thread rather than a timer of the event loop: a transaction waits for the disk, and calls must
 * not wait with it. */

/* Waits for a period, or until the ledger is closed: then it returns false. */
static bool wait_a_period(struct ledger *ledger)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ledger->period_ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ledger->period_ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&ledger->state_lock);
    if (!ledger->stopping)
        pthread_cond_timedwait(&ledger->wake, &ledger->state_lock, &until);
    bool stopping = ledger->stopping;
    pthread_mutex_unlock(&ledger->state_lock);
    return !stopping;
}

/* Whether a process that was taken over has died: see ledger_journals.c. */
static void recover_dead(struct ledger *ledger)
{
    struct tg_problem why = {""};

    if (!ledger_move_left(ledger, &why))
        fprintf(stderr, "tollgate: ledger: %s\n", why.text);
}

/* When to look again: at once while there is more. A process that was taken over leaves it to the
 * other. */
static tg_ms export_days(struct ledger *ledger, tg_ms now)
{
    struct tg_problem problem = {""};
    size_t written = 0;

    pthread_mutex_lock(&ledger->db_lock);
    bool owned = ledger->lock_fd >= 0;
    pthread_mutex_unlock(&ledger->db_lock);
    if (!owned)
        return now + EXPORT_EVERY_MS;
    bool done = ledger_export(ledger, ledger->export_folder, clock_wall_of(ledger->clock, now),
                              &written, &problem);
    atomic_fetch_add(&ledger->exported, written);
    pthread_mutex_lock(&ledger->state_lock);
    ledger->export_problem = problem;
    if (done)
        ledger->export_problem.text[0] = '\0';
    pthread_mutex_unlock(&ledger->state_lock);
    return done && written == LEDGER_EXPORT_AT_ONCE ? now : now + EXPORT_EVERY_MS;
}

static void *keep_ledger(void *arg)
{
    struct ledger *ledger = arg;
    tg_ms rolled_at = -ROLL_EVERY_MS, looked_at = 0, export_at = 0;

    do {
        tg_ms now = clock_now_ms(ledger->clock);
        /* Rolling can wait until the disk takes entries again; the state says why it does not. */
        bool flushed = ledger_flush(ledger, NULL);
        if (flushed)
            atomic_store(&ledger->flushed_at, now);
        if (flushed && now - rolled_at >= ROLL_EVERY_MS &&
            ledger_roll(ledger, clock_wall_of(ledger->clock, now), NULL))
            rolled_at = now;
        if (flushed && now - looked_at >= LOOK_EVERY_MS) {
            recover_dead(ledger);
            looked_at = now;
        }
        if (flushed && ledger->chore != NULL)
            ledger->chore(ledger->chore_context, ledger);
        if (flushed && ledger->export_folder != NULL && now >= export_at)
            export_at = export_days(ledger, now);
    } while (wait_a_period(ledger));
    return NULL;
}

bool ledger_keep(struct ledger *ledger, const struct clock *clock, int64_t period_ms,
                 struct tg_problem *problem)
{
    int err;

    if (ledger->keeping || period_ms < 1 || period_ms > 60000)
        return problem_fail(problem,
                            "%s: it is being written already, or its interval is not 1 to 60000 ms",
                            ledger->path);
    ledger->clock = clock;
    ledger->period_ms = period_ms;
    err = pthread_create(&ledger->keeper, NULL, keep_ledger, ledger);
    if (err != 0)
        return problem_fail(problem, "%s: there is no thread to keep it: %s", ledger->path,
                            strerror(err));
    ledger->keeping = true;
    return true;
}

void ledger_stop_keeping(struct ledger *ledger)
{
    if (!ledger->keeping)
        return;
    pthread_mutex_lock(&ledger->state_lock);
    ledger->stopping = true;
    pthread_cond_signal(&ledger->wake);
    pthread_mutex_unlock(&ledger->state_lock);
    pthread_join(ledger->keeper, NULL);
    ledger->keeping = false;
}

/* ---- Closing ---- */

bool ledger_close(struct ledger *ledger, struct tg_problem *problem)
{
    bool done;

    if (ledger == NULL)
        return true;
    ledger_stop_keeping(ledger);
    if (ledger->chore != NULL)
        ledger->chore(ledger->chore_context, ledger);
    /* What is still in flight is settled by the next process: the journal must be there then. */
    done = ledger_flush(ledger, problem) &&
           (journal_has_open(&ledger->journal) || ledger_close_journal(ledger, problem));
    ledger_free(ledger);
    return done;
}
