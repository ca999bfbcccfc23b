/* test_memory_reader.c - used memory from fake trees of /proc and /sys, and what is not known. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/posix/memory.h"

#define HOST "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    "
#define HOST_40 HOST "600 kB\nBuffers: 1 kB\n"
#define V2 "sys/fs/cgroup"
#define V1 "sys/fs/cgroup/memory"

struct file {
    const char *path, *text;
};

struct tree {
    char root[64];
    struct memory memory;
};

static void run(const char *command)
{
    assert_int_equal(system(command), 0);
}

static void put(const struct tree *tree, const char *path, const char *text)
{
    char command[512], full[256];
    FILE *file;

    snprintf(command, sizeof command, "mkdir -p $(dirname %s/%s)", tree->root, path);
    run(command);
    snprintf(full, sizeof full, "%s/%s", tree->root, path);
    file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void drop(const struct tree *tree, const char *path)
{
    char full[256];

    snprintf(full, sizeof full, "%s/%s", tree->root, path);
    assert_int_equal(unlink(full), 0);
}

static void tree_init(struct tree *tree)
{
    strcpy(tree->root, "/tmp/tollgate-memory-XX"
                       "XX"
                       "XX");
    assert_non_null(mkdtemp(tree->root));
    memory_init(&tree->memory, tree->root, 500);
}

static void tree_fini(struct tree *tree)
{
    char command[128];

    memory_fini(&tree->memory);
    snprintf(command, sizeof command, "rm -rf %s", tree->root);
    run(command);
}

enum { UNKNOWN = -1 };

static void expect_used(const struct tree *tree, tg_ms now, double want, const char *what)
{
    double used = UNKNOWN;
    bool known = memory_used(&tree->memory, now, &used);

    if (known != (want >= 0) || used < want - 1e-9 || used > want + 1e-9)
        fail_msg("%s: %s %g, wanted %g", what, known ? "used" : "unknown", used, want);
}

#define FILES_MAX 9

static void the_larger_fraction_counts(void **state)
{
    static const struct {
        const char *what;
        struct file files[FILES_MAX];
        double want;
    } rows[] = {
        {"host alone", {{"proc/meminfo", HOST_40}}, 0.4},
        {"nothing at all", {{"other", ""}}, UNKNOWN},
        {"no MemAvailable", {{"proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\n"}}, UNKNOWN},
        {"MemTotal 0", {{"proc/meminfo", "MemTotal: 0 kB\nMemAvailable: 0 kB\n"}}, UNKNOWN},
        {"no number", {{"proc/meminfo", "MemTotal: x kB\nMemAvailable: 1 kB\n"}}, UNKNOWN},
        {"empty", {{"proc/meminfo", ""}}, UNKNOWN},
        {"more available than there is",
         {{"proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 11 kB\n"}},
         0},
        {"v2, group above host, cache subtracted",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a/b\n"},
          {V2 "/a/b/memory.current", "900\n"},
          {V2 "/a/b/memory.stat", "anon 1\ninactive_file 100\nactive_file 7\n"},
          {V2 "/a/b/memory.max", "1000\n"},
          {V2 "/a/b/memory.high", "max\n"}},
         0.8},
        {"v2, host above group",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/\n"},
          {V2 "/memory.current", "300\n"},
          {V2 "/memory.stat", "inactive_file 0\n"},
          {V2 "/memory.max", "1000\n"}},
         0.4},
        {"v2, high below max",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a\n"},
          {V2 "/a/memory.current", "450\n"},
          {V2 "/a/memory.stat", "inactive_file 0\n"},
          {V2 "/a/memory.max", "1000\n"},
          {V2 "/a/memory.high", "500\n"}},
         0.9},
        {"v2, the limit is the parent's",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a/b\n"},
          {V2 "/a/b/memory.current", "1\n"},
          {V2 "/a/b/memory.max", "max\n"},
          {V2 "/a/memory.current", "70\n"},
          {V2 "/a/memory.stat", "inactive_file 10\n"},
          {V2 "/a/memory.max", "100\n"}},
         0.6},
        {"v2, no limit anywhere",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a\n"},
          {V2 "/a/memory.current", "1\n"},
          {V2 "/a/memory.max", "max\n"}},
         0.4},
        {"v2, the path is the host's and not here",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/docker/abc\n"},
          {V2 "/memory.current", "95\n"},
          {V2 "/memory.stat", "inactive_file 0\n"},
          {V2 "/memory.max", "100\n"}},
         0.95},
        {"v2, the path leads out",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/../../x\n"},
          {V2 "/memory.current", "95\n"},
          {V2 "/memory.stat", "inactive_file 0\n"},
          {V2 "/memory.max", "100\n"}},
         0.95},
        {"v2, above its limit and cache above usage",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a/b\n"},
          {V2 "/a/b/memory.current", "2000\n"},
          {V2 "/a/b/memory.stat", "inactive_file 0\n"},
          {V2 "/a/b/memory.max", "1000\n"},
          {V2 "/a/memory.current", "50\n"},
          {V2 "/a/memory.stat", "inactive_file 60\n"},
          {V2 "/a/memory.max", "60\n"}},
         1},
        {"v1",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "4:memory:/a\n1:cpu:/\n0::/\n"},
          {V1 "/a/memory.usage_in_bytes", "90\n"},
          {V1 "/a/memory.stat", "inactive_file 50\ntotal_inactive_file 20\n"},
          {V1 "/a/memory.limit_in_bytes", "100\n"},
          {V1 "/memory.usage_in_bytes", "90\n"},
          {V1 "/memory.limit_in_bytes", "9223372036854771712\n"}},
         0.7},
        {"group alone",
         {{"proc/self/cgroup", "0::/a\n"},
          {V2 "/a/memory.current", "5\n"},
          {V2 "/a/memory.stat", "inactive_file 0\n"},
          {V2 "/a/memory.max", "100\n"}},
         0.05},
        {"a group that cannot be read leaves the host",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a\n"},
          {V2 "/a/memory.current", "garbage\n"},
          {V2 "/a/memory.stat", "inactive_file 0\n"},
          {V2 "/a/memory.max", "100\n"}},
         0.4},
        {"a stat without the line is not known",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a\n"},
          {V2 "/a/memory.current", "99\n"},
          {V2 "/a/memory.stat", "anon 1\n"},
          {V2 "/a/memory.max", "100\n"}},
         0.4},
        {"a limit of 0 is not known",
         {{"proc/meminfo", HOST_40},
          {"proc/self/cgroup", "0::/a\n"},
          {V2 "/a/memory.current", "99\n"},
          {V2 "/a/memory.stat", "inactive_file 0\n"},
          {V2 "/a/memory.max", "0\n"}},
         0.4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tree tree;
        tree_init(&tree);
        for (size_t k = 0; k < FILES_MAX && rows[i].files[k].path != NULL; k++)
            put(&tree, rows[i].files[k].path, rows[i].files[k].text);
        memory_read(&tree.memory, 1000);
        expect_used(&tree, 1000, rows[i].want, rows[i].what);
        tree_fini(&tree);
    }
}

static void changes_are_seen_through_open_files(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree);
    put(&tree, "proc/meminfo", HOST_40);
    put(&tree, "proc/self/cgroup", "0::/a\n");
    put(&tree, V2 "/a/memory.current", "90\n");
    put(&tree, V2 "/a/memory.stat", "inactive_file 0\n");
    put(&tree, V2 "/a/memory.max", "100\n");
    memory_read(&tree.memory, 0);
    expect_used(&tree, 0, 0.9, "first");
    put(&tree, V2 "/a/memory.max", "max\n");
    memory_read(&tree.memory, 500);
    expect_used(&tree, 500, 0.4, "the limit is gone");
    assert_false(tree.memory.group.limited);
    put(&tree, V2 "/a/memory.max", "180\n");
    for (int i = 0; i < MEMORY_LOOK_AGAIN; i++)
        memory_read(&tree.memory, 1000);
    expect_used(&tree, 1000, 0.5, "another limit");
    assert_int_equal(tree.memory.failures, 0);
    tree_fini(&tree);
}

static void a_value_is_good_for_three_polls(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree);
    expect_used(&tree, 0, UNKNOWN, "never read");
    put(&tree, "proc/meminfo", HOST_40);
    put(&tree, "proc/self/cgroup", "0::/\n");
    memory_read(&tree.memory, 1000);
    put(&tree, "proc/meminfo", "");
    memory_read(&tree.memory, 1500);
    assert_true(tree.memory.host.failed);
    assert_int_equal(tree.memory.failures, 1);
    expect_used(&tree, 2500, 0.4, "after three polls");
    expect_used(&tree, 2501, UNKNOWN, "after more");
    put(&tree, "proc/meminfo", HOST "100 kB\n");
    memory_read(&tree.memory, 3000);
    assert_false(tree.memory.host.failed);
    expect_used(&tree, 3000, 0.9, "readable again");
    tree_fini(&tree);
}

static void a_process_that_moves_is_followed(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree);
    put(&tree, "proc/self/cgroup", "0::/a\n");
    put(&tree, V2 "/a/memory.current", "90\n");
    put(&tree, V2 "/a/memory.stat", "inactive_file 0\n");
    put(&tree, V2 "/a/memory.max", "100\n");
    memory_read(&tree.memory, 0);
    expect_used(&tree, 0, 0.9, "in a");
    put(&tree, V2 "/a/memory.max", "");
    drop(&tree, V2 "/a/memory.current");
    put(&tree, "proc/self/cgroup", "0::/b\n");
    put(&tree, V2 "/b/memory.current", "20\n");
    put(&tree, V2 "/b/memory.stat", "inactive_file 0\n");
    put(&tree, V2 "/b/memory.max", "100\n");
    memory_read(&tree.memory, 500);
    assert_true(tree.memory.group.failed);
    memory_read(&tree.memory, 1000);
    assert_false(tree.memory.group.failed);
    expect_used(&tree, 1000, 0.2, "in b");
    tree_fini(&tree);
}

/* Whatever machine this is: a fraction, or not known. */
static void the_real_tree_gives_a_fraction(void **state)
{
    struct memory memory;
    double used = 0;

    (void)state;
    memory_init(&memory, "", 500);
    memory_read(&memory, 0);
    if (memory_used(&memory, 0, &used))
        assert_true(used >= 0 && used <= 1);
    memory_fini(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_larger_fraction_counts),
        cmocka_unit_test(changes_are_seen_through_open_files),
        cmocka_unit_test(a_value_is_good_for_three_polls),
        cmocka_unit_test(a_process_that_moves_is_followed),
        cmocka_unit_test(the_real_tree_gives_a_fraction),
    };

    return cmocka_run_group_tests_name("memory reader", tests, NULL, NULL);
}
