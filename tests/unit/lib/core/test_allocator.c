/* test_allocator.c - the library takes its memory from the functions that the program has set.
 *
 * They are set once in a process, so each test runs in a child of its own.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#include "lib/core/allocator.h"

/* A child that fails its test ends with the status of a failed assertion. */
static void in_child(void (*test)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        test();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* cmocka's assertions belong to the parent. */
#define MUST(what)                                                   \
    do {                                                             \
        if (!(what)) {                                               \
            print_message("%s:%d: %s\n", __FILE__, __LINE__, #what); \
            _exit(1);                                                \
        }                                                            \
    } while (0)

/* ---- an allocator that writes down what it is asked ---- */

static struct asked {
    int mallocs, callocs, reallocs, frees;
    void *block;
    size_t n, bytes;
    bool fails;
    size_t off; /* bytes by which blocks are off the usual alignment */
} asked;

static _Alignas(64) char room[4096];

static void *own_malloc(void *context, size_t bytes)
{
    MUST(context == &asked);
    asked.mallocs++;
    asked.bytes = bytes;
    MUST(asked.fails || asked.off + bytes <= sizeof room);
    return asked.fails ? NULL : room + asked.off;
}

static void *own_calloc(void *context, size_t n, size_t bytes)
{
    MUST(context == &asked);
    asked.callocs++;
    asked.n = n;
    asked.bytes = bytes;
    return room;
}

static void *own_realloc(void *context, void *block, size_t bytes)
{
    MUST(context == &asked);
    asked.reallocs++;
    asked.block = block;
    asked.bytes = bytes;
    return room;
}

static void own_free(void *context, void *block)
{
    MUST(context == &asked);
    asked.frees++;
    asked.block = block;
}

static struct tg_allocator own_allocator(void)
{
    struct tg_allocator own;

    tg_allocator_init(&own);
    own.malloc = own_malloc;
    own.calloc = own_calloc;
    own.realloc = own_realloc;
    own.free = own_free;
    own.context = &asked;
    return own;
}

static void set_own(void)
{
    const struct tg_allocator own = own_allocator();

    MUST(tg_set_allocator(&own, NULL) == TG_OK);
}

/* ---- tests ---- */

static void ask_each(void)
{
    set_own();
    MUST(mem_malloc(7) == room && asked.mallocs == 1 && asked.bytes == 7);
    MUST(mem_calloc(3, 5) == room && asked.callocs == 1 && asked.n == 3 && asked.bytes == 5);
    MUST(mem_realloc(room + 1, 9) == room && asked.reallocs == 1);
    MUST(asked.block == room + 1 && asked.bytes == 9);
    mem_free(room + 2);
    MUST(asked.frees == 1 && asked.block == room + 2);
    mem_free(NULL); /* is nobody's to free */
    mem_free_aligned(NULL);
    MUST(asked.frees == 1);
}

static void what_the_program_has_set_is_asked(void **state)
{
    (void)state;
    in_child(ask_each);
}

/* The block may lie anywhere; it is given back as it came. */
static void ask_aligned(void)
{
    set_own();
    for (size_t alignment = 16; alignment <= 64; alignment *= 2) {
        for (asked.off = 0; asked.off < 64; asked.off += 8) {
            const size_t bytes = 2 * alignment;
            char *block = mem_aligned_alloc(alignment, bytes);
            MUST((uintptr_t)block % alignment == 0);
            MUST(block >= room + asked.off + sizeof(void *));
            MUST(block + bytes <= room + asked.off + asked.bytes);
            memset(block, 0xff, bytes);
            mem_free_aligned(block);
            MUST(asked.block == room + asked.off);
        }
    }
    int before = asked.mallocs;
    MUST(mem_aligned_alloc(64, SIZE_MAX - 63) == NULL); /* what is added would overflow */
    MUST(asked.mallocs == before);
    asked.fails = true;
    MUST(mem_aligned_alloc(64, 64) == NULL);
    MUST(asked.mallocs == before + 1);
}

static void aligned_memory_is_cut_from_larger_blocks(void **state)
{
    (void)state;
    in_child(ask_aligned);
}

static void use_libc(void)
{
    struct tg_allocator own = own_allocator();
    struct tg_problem problem;
    char *block = mem_calloc(2, 8);

    MUST(block != NULL && memcmp(block, (char[16]){0}, 16) == 0);
    block = mem_realloc(block, 32);
    MUST(block != NULL);
    mem_free(block);
    block = mem_malloc(8);
    MUST(block != NULL);
    mem_free(block);
    block = mem_aligned_alloc(64, 128);
    MUST(block != NULL && (uintptr_t)block % 64 == 0);
    mem_free_aligned(block);
    MUST(tg_set_allocator(&own, &problem) == TG_ERR_INVALID);
    MUST(strstr(problem.text, "something was allocated before") != NULL);
    MUST(asked.mallocs + asked.callocs + asked.reallocs + asked.frees == 0);
}

static void without_one_it_is_libc(void **state)
{
    (void)state;
    in_child(use_libc);
}

static void set_twice(void)
{
    struct tg_allocator own = own_allocator();
    struct tg_problem problem;

    set_own();
    MUST(tg_set_allocator(&own, &problem) == TG_ERR_INVALID);
    MUST(strstr(problem.text, "it was set before") != NULL);
}

static void it_is_set_once(void **state)
{
    (void)state;
    in_child(set_twice);
}

static void leave_out_each(void)
{
    static const char *const names[] = {"malloc is null", "calloc is null", "realloc is null",
                                        "free is null"};
    struct tg_problem problem;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct tg_allocator own = own_allocator();
        if (i == 0)
            own.malloc = NULL;
        else if (i == 1)
            own.calloc = NULL;
        else if (i == 2)
            own.realloc = NULL;
        else
            own.free = NULL;
        MUST(tg_set_allocator(&own, &problem) == TG_ERR_NULL);
        MUST(strstr(problem.text, names[i]) != NULL);
    }
    MUST(tg_set_allocator(NULL, &problem) == TG_ERR_NULL);
    struct tg_allocator own = own_allocator();
    own.struct_size = 0;
    MUST(tg_set_allocator(&own, &problem) == TG_ERR_UNINITIALIZED);
    ask_each(); /* it is not too late */
}

static void each_of_its_functions_is_needed(void **state)
{
    (void)state;
    in_child(leave_out_each);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_program_has_set_is_asked),
        cmocka_unit_test(aligned_memory_is_cut_from_larger_blocks),
        cmocka_unit_test(without_one_it_is_libc),
        cmocka_unit_test(it_is_set_once),
        cmocka_unit_test(each_of_its_functions_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
