/* journal_file.c - the file of a journal: making it, checking its head, mapping it.
 *
 * A new file gets its name only when it is whole and on the disk, so there is never half a journal.
 * An empty file is no journal, but the word of an administrator that there need not be one: see
 * ledger_open().
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/problem.h"
#include "server/ledger/journal_internal.h"

static const char magic[8] = "TGSPEND";

struct head {
    char magic[8];
    uint32_t version;
    uint32_t slot_bytes;
    uint64_t slots;
    uint64_t token;    /* the ledger's that it belongs to */
    uint64_t checksum; /* covers the above */
};

/* Version 1 had no open calls. Its entries are as they are now. */
#define JOURNAL_VERSION 2

static uint64_t entries_size(uint64_t slots)
{
    return HEAD_BYTES + slots * SLOT_BYTES;
}

static uint64_t file_size(uint32_t version, uint64_t slots)
{
    return entries_size(slots) + (version < 2 ? 0 : (slots + OPEN_MORE) * SLOT_BYTES);
}

/* ---- Making ---- */

static struct head head_of(uint64_t token, uint64_t slots)
{
    struct head head = {
        .version = JOURNAL_VERSION, .slot_bytes = SLOT_BYTES, .slots = slots, .token = token};

    memcpy(head.magic, magic, sizeof magic);
    head.checksum = XXH3_64bits(&head, offsetof(struct head, checksum));
    return head;
}

/* Zeros that are written, not only promised: the first store to a page that was only allocated
 * would wait for the file system to note that it is used now. The head comes last. */
static bool write_new(int fd, uint64_t from, uint64_t token, uint64_t slots)
{
    static const char zeros[64 * SLOT_BYTES];
    struct head head = head_of(token, slots);
    uint64_t bytes = file_size(JOURNAL_VERSION, slots);
    ssize_t wrote;

    for (uint64_t at = from; at < bytes; at += (uint64_t)wrote) {
        wrote = pwrite(fd, zeros, bytes - at < sizeof zeros ? bytes - at : sizeof zeros, (off_t)at);
        if (wrote <= 0)
            return false;
    }
    return (from == 0 || fsync(fd) == 0) &&
           pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head && fsync(fd) == 0;
}

/* A new name is on the disk when its folder is. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot, and need not */
        close(fd);
    }
    free(folder);
}

bool journal_create(const char *path, uint64_t token, size_t slots, struct tg_problem *problem)
{
    size_t bytes = strlen(path) + sizeof ".new";
    char *fresh = malloc(bytes);
    bool done = false;
    int fd;

    if (fresh == NULL)
        return problem_fail(problem, "%s: there is no memory to make it", path);
    snprintf(fresh, bytes, "%s.new", path);
    fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        done = write_new(fd, 0, token, slots) && rename(fresh, path) == 0;
        int why = errno;
        if (done)
            sync_folder(path);
        else
            unlink(fresh);
        close(fd);
        errno = why;
    }
    if (!done)
        problem_fail(problem,
                     "%s: the journal of %llu bytes cannot be made: %s; check the rights and the "
                     "free space of its folder",
                     path, (unsigned long long)file_size(JOURNAL_VERSION, slots), strerror(errno));
    free(fresh);
    return done;
}

static bool journal_file_check_head(const char *path, const struct head *head, off_t file_bytes,
                                    uint64_t token, struct tg_problem *problem)
{
    static const char advice[] = "put back the right file, or replace it by an empty one to go on "
                                 "without what it held";

    if (memcmp(head->magic, magic, sizeof magic) != 0)
        return problem_fail(problem, "%s is not the journal of a ledger; %s", path, advice);
    if (head->version < 1 || head->version > JOURNAL_VERSION)
        return problem_fail(problem,
                            "%s is a journal of version %u, this program knows versions up to %d; "
                            "use the newer program",
                            path, (unsigned)head->version, JOURNAL_VERSION);
    if (head->checksum != XXH3_64bits(head, offsetof(struct head, checksum)) ||
        head->slot_bytes != SLOT_BYTES || head->slots < 2 || head->slots > SLOTS_MAX)
        return problem_fail(problem, "%s is damaged: its head is not what was written; %s", path,
                            advice);
    /* One of version 1 may be longer: a conversion that did not come to its end. */
    uint64_t bytes = file_size(head->version, head->slots);
    if ((uint64_t)file_bytes < bytes ||
        (head->version == JOURNAL_VERSION && (uint64_t)file_bytes > bytes))
        return problem_fail(problem, "%s is damaged: it has %lld bytes of %llu; %s", path,
                            (long long)file_bytes, (unsigned long long)bytes, advice);
    if (head->token != token)
        return problem_fail(problem, "%s is the journal of another ledger; %s", path, advice);
    return true;
}

/* Adds what version 1 did not have. */
static bool upgrade_file(int fd, const char *path, struct head *head, struct tg_problem *problem)
{
    if (!write_new(fd, entries_size(head->slots), head->token, head->slots))
        return problem_fail(problem,
                            "%s: %llu bytes cannot be added to it: %s; check the free space of its "
                            "folder",
                            path, (unsigned long long)((head->slots + OPEN_MORE) * SLOT_BYTES),
                            strerror(errno));
    head->version = JOURNAL_VERSION;
    return true;
}

static bool map_file(struct journal *journal, int fd, const char *path, uint64_t token,
                     bool writable, struct tg_problem *problem)
{
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    struct head head = {.version = 0};
    struct stat stat;
    void *mapping;

    if (fstat(fd, &stat) != 0 || pread(fd, &head, sizeof head, 0) < 0)
        return problem_fail(problem, "%s cannot be read: %s", path, strerror(errno));
    if (!journal_file_check_head(path, &head, stat.st_size, token, problem))
        return false;
    if (writable && head.version < JOURNAL_VERSION && !upgrade_file(fd, path, &head, problem))
        return false;
    size_t bytes = file_size(head.version, head.slots);
    mapping = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return problem_fail(problem, "%s cannot be mapped: %s", path, strerror(errno));
    *journal = (struct journal){
        .slots = (struct slot *)((char *)mapping + HEAD_BYTES),
        .n = head.slots,
        .mapping = mapping,
        .mapping_bytes = bytes,
        .token = token,
    };
    if (head.version == JOURNAL_VERSION) {
        journal->open = journal->slots + journal->n;
        journal->n_open = journal->n + OPEN_MORE;
    }
    return true;
}

static bool map_path(struct journal *journal, const char *path, uint64_t token, bool writable,
                     struct tg_problem *problem)
{
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    bool done;

    if (fd < 0)
        return problem_fail(problem, "%s cannot be opened: %s", path, strerror(errno));
    done = map_file(journal, fd, path, token, writable, problem);
    close(fd);
    return done;
}

bool journal_map(struct journal *journal, const char *path, uint64_t token,
                 struct tg_problem *problem)
{
    return map_path(journal, path, token, true, problem);
}

bool journal_map_view(struct journal *journal, const char *path, uint64_t token,
                      struct tg_problem *problem)
{
    return map_path(journal, path, token, false, problem);
}

bool journal_map_memory(struct journal *journal, size_t slots, struct tg_problem *problem)
{
    size_t bytes = slots * SLOT_BYTES;
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapping == MAP_FAILED)
        return problem_fail(problem, "there is no memory for a journal of %zu entries", slots);
    *journal =
        (struct journal){.slots = mapping, .n = slots, .mapping = mapping, .mapping_bytes = bytes};
    return true;
}

void journal_unmap(struct journal *journal)
{
    if (journal->mapping != NULL)
        munmap(journal->mapping, journal->mapping_bytes);
    journal->mapping = NULL;
    free(journal->open_next);
    journal->open_next = NULL;
}

void journal_sync(struct journal *journal)
{
    /* What it cannot write now the kernel keeps trying, and there is nobody to tell: the database
     * has failed before, and that is reported. */
    (void)msync(journal->mapping, journal->mapping_bytes, MS_SYNC);
}
