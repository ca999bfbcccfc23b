/* zone.c - a named time zone, read from the system's files.
 *
 * A file (TZif, RFC 8536) lists the changes of the past, twice: with 32 bits for programs of former
 * times, then with 64 bits; and ends with a rule for the future. We read the second list, and write
 * out the rule to the year 2100, so that the library needs no other knowledge than a row of
 * changes. Rejected: libc's own reading, which keeps one zone in a global variable of the process
 * and tells offsets, but not when they change.
 *
 * A file is data from outside: every count in it is held against its length before it is believed.
 * Zones that count leap seconds ("right/...") are refused, since the clock does not.
 */
#include "io/posix/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/posix/zone_rule.h"
#include "lib/budget/calendar.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

#define DEFAULT_FOLDER "/usr/share/zoneinfo"

enum {
    NAME_BYTES_MAX = 128,
    PATH_BYTES = 4096,
    FILE_BYTES_MAX = 1 << 20, /* real ones have some thousand */
    HEADER_BYTES = 44,
    RULE_FROM_YEAR = 1969, /* one before the first: its last change holds when time begins */
    RULE_TO_YEAR = 2100,
    RULE_CHANGES = 2 * (RULE_TO_YEAR - RULE_FROM_YEAR + 1)
};

/* ---- the name and the file ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("/_+-", c) != NULL;
}

/* No dots, so no way out of the folder. */
static bool zone_is_name(const char *name)
{
    size_t bytes = strlen(name);

    for (size_t i = 0; i < bytes; i++)
        if (!is_name_char(name[i]))
            return false;
    return bytes > 0 && bytes <= NAME_BYTES_MAX && name[0] != '/' && name[bytes - 1] != '/';
}

struct content {
    unsigned char *bytes;
    size_t n;
};

static enum tg_err read_open_file(int fd, const char *name, struct content *content,
                                  struct tg_problem *problem)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_size > FILE_BYTES_MAX)
        return problem_say(problem, TG_ERR_STORE, "time zone '%s': not a file of at most %d bytes",
                           name, FILE_BYTES_MAX);
    unsigned char *bytes = malloc((size_t)stat.st_size + 1);
    if (!bytes)
        return problem_say(problem, TG_ERR_MEMORY, "time zone '%s': no memory", name);
    ssize_t got = read(fd, bytes, (size_t)stat.st_size);
    if (got != stat.st_size) {
        free(bytes);
        return problem_say(problem, TG_ERR_STORE, "time zone '%s': the file cannot be read whole",
                           name);
    }
    *content = (struct content){bytes, (size_t)got};
    return TG_OK;
}

static enum tg_err no_file(const char *name, const char *folder, struct tg_problem *problem)
{
    if (errno == ENOENT || errno == ENOTDIR)
        return problem_say(problem, TG_ERR_UNKNOWN,
                           "time zone '%s': no such zone in %.80s; the package tzdata brings the "
                           "files, $TZDIR may name another folder",
                           name, folder);
    return problem_say(problem, TG_ERR_STORE, "time zone '%s' in %.80s: %s", name, folder,
                       strerror(errno));
}

static enum tg_err zone_read_file(const char *name, struct content *content,
                                  struct tg_problem *problem)
{
    const char *folder = getenv("TZDIR");
    char path[PATH_BYTES];

    if (!folder || folder[0] == '\0')
        folder = DEFAULT_FOLDER;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    errno = ENAMETOOLONG;
    int fd = length > 0 && (size_t)length < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return no_file(name, folder, problem);
    enum tg_err err = read_open_file(fd, name, content, problem);
    close(fd);
    return err;
}

/* ---- what is in it ---- */

static uint32_t big_32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t big_64(const unsigned char *at)
{
    return (int64_t)((uint64_t)big_32(at) << 32 | big_32(at + 4));
}

/* One of the two blocks: where its parts are. */
struct block {
    uint32_t n_times, n_types, n_leaps;
    const unsigned char *times;  /* times of the changes, ascending, 8 bytes each */
    const unsigned char *kinds;  /* which type each changes to */
    const unsigned char *types;  /* 6 bytes: offset, summer or not, name */
    const unsigned char *behind; /* what comes after the block */
};

/* The counts are 32 bits and their sizes below 16 bytes: their sum fits into 64. */
static bool find_block(const unsigned char *at, const unsigned char *end, uint64_t time_bytes,
                       struct block *block)
{
    if (end - at < HEADER_BYTES || memcmp(at, "TZif", 4) != 0)
        return false;
    uint64_t n_ut = big_32(at + 20), n_std = big_32(at + 24), n_leaps = big_32(at + 28);
    uint64_t n_times = big_32(at + 32), n_types = big_32(at + 36), n_chars = big_32(at + 40);
    uint64_t bytes = n_times * (time_bytes + 1) + n_types * 6 + n_chars +
                     n_leaps * (time_bytes + 4) + n_std + n_ut;

    at += HEADER_BYTES;
    if (bytes > (uint64_t)(end - at))
        return false;
    block->n_times = (uint32_t)n_times;
    block->n_types = (uint32_t)n_types;
    block->n_leaps = (uint32_t)n_leaps;
    block->times = at;
    block->kinds = at + n_times * time_bytes;
    block->types = block->kinds + n_times;
    block->behind = at + bytes;
    return true;
}

/* The changes as far as they are known, in a place that has room for all there can be. */
struct row {
    int32_t base_s;
    struct tg_zone_change *changes;
    size_t n;
};

static int32_t row_last(const struct row *row)
{
    return row->n > 0 ? row->changes[row->n - 1].offset_s : row->base_s;
}

/* What was before the epoch is gone; what changes nothing is none; of two at one moment, the later
 * word counts. */
static void row_add(struct row *row, int64_t at_s, int32_t offset_s)
{
    if (at_s <= 0) {
        row->base_s = offset_s;
        return;
    }
    if (at_s > TG_NUMBER_MAX / 1000)
        return;
    if (row->n > 0 && row->changes[row->n - 1].at == at_s * 1000)
        row->n--;
    if (offset_s != row_last(row))
        row->changes[row->n++] = (struct tg_zone_change){at_s * 1000, offset_s};
}

static bool add_listed(struct row *row, const struct block *block)
{
    int64_t before = INT64_MIN;

    if (block->n_types == 0)
        return false;
    row->base_s = (int32_t)big_32(block->types);
    for (uint32_t i = 0; i < block->n_times; i++) {
        int64_t at_s = big_64(block->times + 8 * (size_t)i);
        if (block->kinds[i] >= block->n_types || (i > 0 && at_s <= before))
            return false;
        row_add(row, at_s, (int32_t)big_32(block->types + 6 * (size_t)block->kinds[i]));
        before = at_s;
    }
    return true;
}

/* One change of the rule; those that the list has already said are left out. */
static void add_ruled(struct row *row, int64_t listed_to_s, int64_t at_s, int32_t offset_s)
{
    if (at_s > listed_to_s)
        row_add(row, at_s, offset_s);
}

static void add_rule(struct row *row, const struct zone_rule *rule, int64_t listed_to_s)
{
    if (!rule->has_summer) {
        if (listed_to_s == INT64_MIN)
            row->base_s = rule->standard_s;
        return;
    }
    for (int year = RULE_FROM_YEAR; year <= RULE_TO_YEAR; year++) {
        int64_t summer = zone_rule_to_summer(rule, year);
        int64_t standard = zone_rule_to_standard(rule, year);
        if (summer < standard)
            add_ruled(row, listed_to_s, summer, rule->summer_s);
        add_ruled(row, listed_to_s, standard, rule->standard_s);
        if (summer >= standard)
            add_ruled(row, listed_to_s, summer, rule->summer_s);
    }
}

/* "\n" rule "\n", where the rule may be empty. */
static bool find_rule(const unsigned char *at, const unsigned char *end, char *text, size_t bytes)
{
    const unsigned char *last;

    if (at >= end || *at != '\n')
        return false;
    at++;
    last = memchr(at, '\n', (size_t)(end - at));
    if (!last || (size_t)(last - at) >= bytes)
        return false;
    memcpy(text, at, (size_t)(last - at));
    text[last - at] = '\0';
    return true;
}

/* Null, or what is wrong. */
static const char *fill_row(struct row *row, const struct block *block, const unsigned char *end)
{
    struct zone_rule rule;
    char text[128];

    if (block->n_leaps > 0)
        return "it counts leap seconds, which the clock does not";
    if (!add_listed(row, block))
        return "its list of changes is damaged";
    if (!find_rule(block->behind, end, text, sizeof text))
        return "its rule for the future is missing";
    if (text[0] != '\0' && !zone_rule_parse(&rule, text))
        return "its rule for the future cannot be read";
    if (text[0] != '\0')
        add_rule(row, &rule,
                 block->n_times > 0 ? big_64(block->times + 8 * (size_t)(block->n_times - 1))
                                    : INT64_MIN);
    return NULL;
}

static enum tg_err parse(const struct content *content, const char *name, struct tg_zone *zone,
                         struct tg_problem *problem)
{
    const unsigned char *end = content->bytes + content->n;
    struct block first, block;
    struct row row = {0};

    if (!find_block(content->bytes, end, 4, &first))
        return problem_say(problem, TG_ERR_STORE, "time zone '%s': the file is not a TZif file",
                           name);
    if (content->bytes[4] < '2' || !find_block(first.behind, end, 8, &block))
        return problem_say(problem, TG_ERR_STORE,
                           "time zone '%s': the file has no list of 64 bits (TZif version 2)",
                           name);
    row.changes = malloc((block.n_times + RULE_CHANGES) * sizeof *row.changes);
    if (!row.changes)
        return problem_say(problem, TG_ERR_MEMORY, "time zone '%s': no memory", name);
    const char *wrong = fill_row(&row, &block, end);
    struct tg_zone read = {row.base_s, row.n, row.changes};
    if (!wrong)
        wrong = zone_complaint(&read);
    if (wrong) {
        free(row.changes);
        return problem_say(problem, TG_ERR_STORE, "time zone '%s': %s", name, wrong);
    }
    *zone = read;
    return TG_OK;
}

/* ---- the border ---- */

enum tg_err zone_read(const char *name, struct tg_zone *zone, struct tg_problem *problem)
{
    struct content content;

    if (!zone_is_name(name))
        return problem_say(problem, TG_ERR_INVALID,
                           "time zone '%.64s': a name is like Europe/Berlin, of letters, digits, "
                           "/ _ + -, without a / at its ends",
                           name);
    if (strcmp(name, "UTC") == 0) {
        *zone = (struct tg_zone){0};
        return TG_OK;
    }
    enum tg_err err = zone_read_file(name, &content, problem);
    if (err)
        return err;
    err = parse(&content, name, zone, problem);
    free(content.bytes);
    return err;
}

void zone_fini(struct tg_zone *zone)
{
    free((void *)(uintptr_t)zone->changes);
    *zone = (struct tg_zone){0};
}
