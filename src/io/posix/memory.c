/* memory.c - how much of the memory is used: of the machine or of the container, the worse of both.
 *
 *     host    1 - MemAvailable / MemTotal                       /proc/meminfo
 *     group   (usage - inactive_file) / smallest limit          memory control group, v2 or v1
 *
 * In a container /proc/meminfo shows the host, and the container is killed for want of memory while
 * the host has plenty: so both are read, and the group's parents too, since each of them may have a
 * limit. What the page cache has not used of late is subtracted, because the kernel gives it back
 * before it kills anyone.
 *
 * Files stay open and are read by one pread each. The kernel writes these texts anew for each
 * reading, and memory.stat is the dearest: it is left out where even the whole usage, cache
 * included, is no more than the host's fraction. A group without a limit is looked at every eighth
 * time. When a file fails, all of its source are opened again at the next reading: a process may
 * have been moved to another group.
 */
#include "io/posix/memory.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, FILE_BYTES = 8192, MEMINFO_BYTES = 512 };

/* v1 says "no limit" by the largest number of pages; no machine comes near this. */
#define NO_LIMIT (UINT64_C(1) << 60)

/* ---- Small files ---- */

/* The text of an open file, from its start. False if it cannot be read, or is empty. */
static bool memory_read_text(int fd, char *text, size_t bytes)
{
    ssize_t got = fd >= 0 ? pread(fd, text, bytes - 1, 0) : -1;

    if (got <= 0)
        return false;
    assert((size_t)got < bytes);
    text[got] = '\0';
    return true;
}

/* A whole number with its end in sight: one that the buffer cuts off is none. */
static bool parse_number(const char *text, uint64_t *number)
{
    uint64_t read = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (read > (UINT64_MAX - 9) / 10)
            return false;
        read = read * 10 + (uint64_t)(*at - '0');
    }
    if (at == text || (*at != '\n' && *at != ' '))
        return false;
    *number = read;
    return true;
}

/* The number in the line that begins with `name`. */
static bool find_number(const char *text, const char *name, uint64_t *number)
{
    size_t bytes = strlen(name);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, name, bytes) == 0) {
            text += bytes;
            return parse_number(text + strspn(text, " "), number);
        }
        text = strchr(text, '\n');
        text += text != NULL;
    }
    return false;
}

static int open_below(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);

    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void close_file(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- The host ---- */

static bool read_host(struct memory *memory, double *used)
{
    char text[MEMINFO_BYTES]; /* both lines are among the first */
    uint64_t total, available;

    if (memory->meminfo < 0)
        memory->meminfo = open_below(memory->root, "proc/meminfo");
    if (!memory_read_text(memory->meminfo, text, sizeof text) ||
        !find_number(text, "MemTotal:", &total) ||
        !find_number(text, "MemAvailable:", &available) || total == 0) {
        close_file(&memory->meminfo);
        return false;
    }
    *used = available < total ? 1 - (double)available / (double)total : 0;
    return true;
}

/* ---- Control groups ---- */

static void close_groups(struct memory *memory)
{
    for (size_t i = 0; i < memory->n_groups; i++) {
        struct memory_group *group = &memory->groups[i];
        close_file(&group->usage);
        close_file(&group->stat);
        close_file(&group->limits[0]);
        close_file(&group->limits[1]);
    }
    memory->n_groups = 0;
    memory->group_open = false;
}

/* What differs between the versions. */
static const struct version {
    const char *entry; /* in /proc/self/cgroup, between the first colon and the path */
    const char *mount;
    const char *usage, *limits[2];
    const char *inactive;
} versions[] = {
    {":", "sys/fs/cgroup", "memory.current", {"memory.max", "memory.high"}, "inactive_file "},
    {"memory:",
     "sys/fs/cgroup/memory",
     "memory.usage_in_bytes",
     {"memory.limit_in_bytes", NULL},
     "total_inactive_file "},
};

/* The path of this process's group in the text of /proc/self/cgroup. */
static bool find_group(const char *text, const char *entry, char *path, size_t bytes)
{
    while (text != NULL && *text != '\0') {
        const char *colon = strchr(text, ':'), *end = strchr(text, '\n');
        size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        if (colon != NULL && (size_t)(colon - text) < length &&
            strncmp(colon + 1, entry, strlen(entry)) == 0) {
            const char *from = colon + 1 + strlen(entry);
            snprintf(path, bytes, "%.*s", (int)(length - (size_t)(from - text)), from);
            /* Outside of what this process sees, which is then the whole of it. */
            if (strstr(path, "..") != NULL)
                path[0] = '\0';
            return true;
        }
        text = end != NULL ? end + 1 : NULL;
    }
    return false;
}

/* A folder is a group that limits memory if it says how much is used: the root of all does not. */
static void open_group(struct memory *memory, const struct version *version, const char *folder)
{
    struct memory_group group = {false, -1, -1, {-1, -1}};

    assert(memory->n_groups <= MEMORY_LEVELS_MAX);
    if (memory->n_groups == MEMORY_LEVELS_MAX)
        return;
    group.usage = open_below(folder, version->usage);
    if (group.usage < 0)
        return;
    group.stat = open_below(folder, "memory.stat");
    for (size_t i = 0; i < 2 && version->limits[i] != NULL; i++)
        group.limits[i] = open_below(folder, version->limits[i]);
    memory->groups[memory->n_groups++] = group;
}

/* From the group of this process up to where the groups are mounted. In a container without a view
 * of its own, the path is the host's and leads nowhere; the mount is the container's then. */
static void open_upward(struct memory *memory, const struct version *version, const char *path)
{
    char folder[PATH_BYTES];
    size_t top = (size_t)snprintf(folder, sizeof folder, "%s/%s", memory->root, version->mount);
    int length = snprintf(folder, sizeof folder, "%s/%s%s", memory->root, version->mount, path);

    if (length < 0 || (size_t)length >= sizeof folder)
        return;
    for (;;) {
        open_group(memory, version, folder);
        char *slash = strrchr(folder, '/');
        if (slash == NULL || slash < folder + top)
            break;
        *slash = '\0';
    }
}

/* False if it cannot be known which group this is. Not to be in one is no failure. */
static bool open_groups(struct memory *memory)
{
    char text[FILE_BYTES], path[PATH_BYTES];
    int fd = open_below(memory->root, "proc/self/cgroup");
    bool good = memory_read_text(fd, text, sizeof text);

    close_file(&fd);
    if (!good)
        return false;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && memory->n_groups == 0; i++) {
        memory->inactive = versions[i].inactive;
        if (find_group(text, versions[i].entry, path, sizeof path))
            open_upward(memory, &versions[i], path);
    }
    memory->group_open = true;
    return true;
}

/* "max" is no limit. */
static bool read_limit(int fd, uint64_t *limit)
{
    char text[64];
    uint64_t read;

    if (fd < 0)
        return true;
    if (!memory_read_text(fd, text, sizeof text))
        return false;
    if (strncmp(text, "max", 3) == 0)
        return true;
    if (!parse_number(text, &read))
        return false;
    if (read < *limit)
        *limit = read;
    return true;
}

static double fraction_of(uint64_t part, uint64_t whole)
{
    return part < whole ? (double)part / (double)whole : 1;
}

/* The used fraction of one group, if it has a limit. Exact if it is above `enough`, otherwise an
 * upper bound. */
static bool read_group(const struct memory *memory, struct memory_group *group, double enough,
                       bool *limited, double *used)
{
    char text[FILE_BYTES];
    uint64_t limit = NO_LIMIT, usage, inactive;

    if (group->unlimited && memory->readings % MEMORY_LOOK_AGAIN != 0)
        return true;
    if (!read_limit(group->limits[0], &limit) || !read_limit(group->limits[1], &limit))
        return false;
    group->unlimited = limit == NO_LIMIT;
    if (group->unlimited)
        return true;
    if (limit == 0 || !memory_read_text(group->usage, text, sizeof text) ||
        !parse_number(text, &usage))
        return false;
    *limited = true;
    if (fraction_of(usage, limit) > enough) {
        if (!memory_read_text(group->stat, text, sizeof text) ||
            !find_number(text, memory->inactive, &inactive))
            return false;
        usage = usage > inactive ? usage - inactive : 0;
    }
    if (fraction_of(usage, limit) > *used)
        *used = fraction_of(usage, limit);
    return true;
}

static bool read_groups(struct memory *memory, double enough, bool *limited, double *used)
{
    bool good = memory->group_open || open_groups(memory);

    *used = 0;
    for (size_t i = 0; good && i < memory->n_groups; i++)
        good = read_group(memory, &memory->groups[i], enough, limited, used);
    if (!good)
        close_groups(memory);
    return good;
}

/* ---- Both ---- */

void memory_init(struct memory *memory, const char *root, tg_ms poll)
{
    *memory = (struct memory){.poll = poll, .root = root, .meminfo = -1};
}

void memory_fini(struct memory *memory)
{
    close_file(&memory->meminfo);
    close_groups(memory);
}

static void memory_note(struct memory *memory, struct memory_source *source, bool good,
                        bool limited, double used, tg_ms now)
{
    source->failed = !good;
    if (!good) {
        memory->failures++;
        return;
    }
    source->limited = limited;
    source->known = true;
    source->used = used;
    source->read_at = now;
}

void memory_read(struct memory *memory, tg_ms now)
{
    double host = 0, group = 0;
    bool limited = false;
    bool good = read_host(memory, &host);

    memory_note(memory, &memory->host, good, true, host, now);
    memory->readings++;
    good = read_groups(memory, good ? host : 0, &limited, &group);
    memory_note(memory, &memory->group, good, limited, group, now);
}

static bool is_fresh(const struct memory *memory, const struct memory_source *source, tg_ms now)
{
    return source->known && source->limited &&
           now - source->read_at <= MEMORY_STALE_POLLS * memory->poll;
}

bool memory_used(const struct memory *memory, tg_ms now, double *used)
{
    bool host = is_fresh(memory, &memory->host, now);
    bool group = is_fresh(memory, &memory->group, now);

    if (!host && !group)
        return false;
    if (!group || (host && memory->host.used > memory->group.used))
        *used = memory->host.used;
    else
        *used = memory->group.used;
    return true;
}
