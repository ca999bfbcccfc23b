/* walk-hook.c - the hook of an instrumented build: logs every entry of a function. See tools/walk.
 *
 * The compiler calls these two at each entry and exit. Records go to a file that is mapped by us and
 * by tools/walk, which turns recording on and off; without WALK_FILE nothing is recorded. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

enum { ENTRIES = 1 << 24 };

struct entry {
    uint32_t address; /* offset of the function in the program */
    uint32_t thread;
    uint32_t depth; /* frames of instrumented functions below this one; an exit has the top bit */
    uint32_t unused;
};

struct walk_log {
    _Atomic uint32_t on;
    uint32_t unused;
    _Atomic uint64_t n;
    struct entry entries[ENTRIES];
};

extern char __executable_start[];
static struct walk_log *walk_log;
static __thread uint32_t thread, depth;

__attribute__((constructor, no_instrument_function)) static void walk_open(void)
{
    const char *path = getenv("WALK_FILE");
    if (!path) return;
    int fd = open(path, O_RDWR);
    if (fd < 0) abort();
    void *mapped = mmap(0, sizeof *walk_log, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) abort();
    close(fd);
    walk_log = mapped;
}

HIDDEN static void put(void *function, uint32_t at)
{
    if (!walk_log || !atomic_load_explicit(&walk_log->on, memory_order_relaxed)) return;
    if (!thread) thread = (uint32_t)syscall(SYS_gettid);
    uint64_t i = atomic_fetch_add_explicit(&walk_log->n, 1, memory_order_relaxed);
    if (i >= ENTRIES) abort();
    walk_log->entries[i] =
        (struct entry){(uint32_t)((char *)function - __executable_start), thread, at, 0};
}

HIDDEN void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    put(function, ++depth);
}

HIDDEN void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    put(function, depth-- | 1u << 31);
}
