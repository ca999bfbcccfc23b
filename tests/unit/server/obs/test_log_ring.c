/* test_log_ring.c - the ring of a lane, with maker and reader in one thread: what is dropped, and
 * when the reader is to be woken before its time.
 */
#include "check.h"

#include <string.h>

#include "server/obs/log_ring.h"

enum { SIZE = 1024,
       LINE = 64 };

static void put_lines(struct log_ring *ring, int n)
{
    char line[LINE];

    memset(line, 'x', sizeof line);
    line[LINE - 1] = '\n';
    for (int i = 0; i < n; i++)
        assert_true(log_ring_put(ring, line, sizeof line));
}

static void take_all(struct log_ring *ring)
{
    struct slice part[2];
    size_t n;

    while ((n = log_ring_peek(ring, SIZE, part)) > 0)
        log_ring_take(ring, n);
}

/* The writer is woken by a ring that is half full, which costs the maker a system call. */
static void a_ring_is_half_full_from_its_half_on(void **state)
{
    struct log_ring ring;
    (void)state;

    assert_true(log_ring_init(&ring, SIZE));
    put_lines(&ring, SIZE / LINE / 2 - 1);
    assert_false(log_ring_is_half_full(&ring));
    put_lines(&ring, 1);
    assert_true(log_ring_is_half_full(&ring));
    log_ring_fini(&ring);
}

/* However far the ring has gone round: what has been taken does not wait any more. */
static void what_was_taken_does_not_fill_a_ring(void **state)
{
    struct log_ring ring;
    (void)state;

    assert_true(log_ring_init(&ring, SIZE));
    for (int i = 0; i < 10 * SIZE / LINE; i++) {
        put_lines(&ring, 1);
        assert_false(log_ring_is_half_full(&ring));
        take_all(&ring);
    }
    assert_int_equal(log_ring_dropped(&ring), 0);
    log_ring_fini(&ring);
}

static void a_line_without_room_is_dropped_whole(void **state)
{
    struct log_ring ring;
    char line[LINE] = "";
    (void)state;

    assert_true(log_ring_init(&ring, SIZE));
    put_lines(&ring, SIZE / LINE);
    assert_false(log_ring_put(&ring, line, sizeof line));
    assert_int_equal(log_ring_dropped(&ring), 1);
    take_all(&ring);
    put_lines(&ring, 1);
    assert_int_equal(log_ring_dropped(&ring), 1);
    log_ring_fini(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_half_full_from_its_half_on),
        cmocka_unit_test(what_was_taken_does_not_fill_a_ring),
        cmocka_unit_test(a_line_without_room_is_dropped_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
