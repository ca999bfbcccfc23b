/* memory.h - how much of the memory is used: of the machine or of the container, the worse of both.
 *
 *     memory_init(&memory, "", 500);
 *     every 500 ms:   memory_read(&memory, now);
 *     any time:       if (memory_used(&memory, now, &used)) ...
 *
 * What cannot be read is not known, which is neither 0 nor 1: a value is used for three polls after
 * it was read, then there is none. For one thread at a time. See memory.c for what is counted.
 */
#ifndef TG_POSIX_MEMORY_H
#define TG_POSIX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

#define MEMORY_LEVELS_MAX 16 /* nested control groups that are read: the innermost ones */
#define MEMORY_STALE_POLLS 3
#define MEMORY_LOOK_AGAIN 8 /* readings after which a group without a limit may have got one */

/* One place that memory can be read from. */
struct memory_source {
    bool known;   /* it has been read once */
    bool failed;  /* the last reading did not succeed */
    bool limited; /* the last reading found a limit to compare with; always, for the host */
    double used;  /* fraction, from 0 to 1; of the group: exact if above the host's, else at most */
    tg_ms read_at;
};

/* A control group's files, open. */
struct memory_group {
    bool unlimited; /* it had no limit when its limits were last read */
    int usage, stat;
    int limits[2]; /* memory.max and memory.high; or memory.limit_in_bytes and -1 */
};

struct memory {
    struct memory_source host, group;
    uint64_t readings;
    uint64_t failures; /* readings of a source that did not succeed, since the start */
    tg_ms poll;
    const char *root;                              /* borrowed */
    const char *inactive;                          /* the line of `stat` that is subtracted */
    int meminfo;                                   /* -1: not open */
    bool group_open;                               /* looked for, and found or not there */
    struct memory_group groups[MEMORY_LEVELS_MAX]; /* innermost first */
    size_t n_groups;
};

/* Every path is looked for below `root`: "" for the real ones. `poll` is how often memory_read()
 * will be called, in ms. */
void memory_init(struct memory *memory, const char *root, tg_ms poll);
void memory_fini(struct memory *memory);

/* Reads every source. Whether each could be read is in `host.failed` and `group.failed`. */
void memory_read(struct memory *memory, tg_ms now);

/* The largest fraction that is known and not stale. False if there is none. */
bool memory_used(const struct memory *memory, tg_ms now, double *used);

#endif
