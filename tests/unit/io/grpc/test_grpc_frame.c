/* test_grpc_frame.c - messages out of bytes that come in pieces of any size, and their memory. */
#include "check.h"

#include <grpc/health/v1/health.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "io/grpc/grpc_arena.h"
#include "io/grpc/grpc_frame.h"

enum { MAX = 4000 };

static uint64_t seed;

/* A frame at `at`, its bytes counted up from `first`; how long it is. */
static size_t put_frame(char *at, size_t n, unsigned first)
{
    grpc_frame_put_head(at, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        at[GRPC_FRAME_HEAD + i] = (char)(first + i);
    return GRPC_FRAME_HEAD + n;
}

static void check_message(struct slice message, size_t n, unsigned first)
{
    assert_int_equal(message.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal((unsigned char)message.at[i], (unsigned char)(first + i));
}

static void whole_frames_are_handed_out_where_they_lie(void **state)
{
    struct grpc_frames frames;
    struct slice message;
    char bytes[100];
    size_t n = put_frame(bytes, 10, 1);

    (void)state;
    n += put_frame(bytes + n, 0, 0);
    n += put_frame(bytes + n, 20, 100);
    grpc_frames_init(&frames, MAX);
    grpc_frames_feed(&frames, (struct slice){bytes, n});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
    assert_ptr_equal(message.at, bytes + GRPC_FRAME_HEAD);
    check_message(message, 10, 1);
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
    assert_int_equal(message.n, 0);
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
    check_message(message, 20, 100);
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME_MORE);
    assert_true(grpc_frames_between(&frames));
    grpc_frames_fini(&frames);
}

/* Any messages, cut anywhere, are the messages they were. */
static void pieces_of_any_size_give_the_same_messages(void **state)
{
    static char stream[20 * (MAX + GRPC_FRAME_HEAD)];
    struct draw draw = draw_stream(seed, 1);

    (void)state;
    for (int run = 0; run < 500; run++) {
        size_t lengths[20], n = 0, at = 0, seen = 0;
        struct grpc_frames frames;
        struct slice message;
        for (size_t i = 0; i < 20; i++) {
            lengths[i] = draw_chance(&draw, 20) ? 0 : (size_t)draw_magnitude(&draw, MAX);
            n += put_frame(stream + n, lengths[i], (unsigned)i);
        }
        grpc_frames_init(&frames, MAX);
        while (at < n) {
            size_t take = (size_t)draw_magnitude(&draw, 2 * MAX);
            take = take < n - at ? take : n - at;
            char *piece = malloc(take); /* which goes before the next comes */
            assert_non_null(piece);
            memcpy(piece, stream + at, take);
            grpc_frames_feed(&frames, (struct slice){piece, take});
            while (grpc_frames_next(&frames, &message) == GRPC_FRAME) {
                assert_true(seen < 20);
                check_message(message, lengths[seen], (unsigned)seen);
                seen++;
            }
            free(piece);
            at += take;
        }
        assert_int_equal(seen, 20);
        assert_true(grpc_frames_between(&frames));
        grpc_frames_fini(&frames);
    }
}

static void a_kept_message_outlives_its_piece(void **state)
{
    struct grpc_frames frames;
    struct slice message;

    (void)state;
    for (size_t n = 0; n < 600; n += 150) {
        char *piece = malloc(GRPC_FRAME_HEAD + n);
        assert_non_null(piece);
        grpc_frames_init(&frames, MAX);
        grpc_frames_feed(&frames, (struct slice){piece, put_frame(piece, n, 9)});
        assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
        assert_true(grpc_frames_keep(&frames, &message));
        memset(piece, 0xaa, GRPC_FRAME_HEAD + n);
        free(piece);
        check_message(message, n, 9);
        grpc_frames_fini(&frames);
    }
}

static void the_largest_message_fits_and_one_byte_more_does_not(void **state)
{
    static char bytes[MAX + 1 + GRPC_FRAME_HEAD];
    struct grpc_frames frames;
    struct slice message;

    (void)state;
    grpc_frames_init(&frames, MAX);
    grpc_frames_feed(&frames, (struct slice){bytes, put_frame(bytes, MAX, 0)});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
    put_frame(bytes, MAX + 1, 0);
    grpc_frames_feed(&frames, (struct slice){bytes, GRPC_FRAME_HEAD});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME_TOO_LARGE);
    /* For good: what follows is not looked at. */
    grpc_frames_feed(&frames, (struct slice){bytes, put_frame(bytes, 1, 0)});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME_TOO_LARGE);
    grpc_frames_fini(&frames);
}

/* The flag decides before the length: both bytes of it. */
static void a_compressed_message_is_not_read(void **state)
{
    char bytes[20];
    struct grpc_frames frames;
    struct slice message;

    (void)state;
    for (size_t piece = 1; piece <= 10; piece += 9) {
        grpc_frames_init(&frames, MAX);
        put_frame(bytes, 5, 0);
        bytes[0] = 1;
        enum grpc_frame_state last = GRPC_FRAME_MORE;
        for (size_t at = 0; at < 10; at += piece) {
            grpc_frames_feed(&frames, (struct slice){bytes + at, piece});
            last = grpc_frames_next(&frames, &message);
        }
        assert_int_equal(last, GRPC_FRAME_COMPRESSED);
        grpc_frames_fini(&frames);
    }
}

/* Where it is known how, and only by a flag of 1. */
static void a_compressed_message_is_handed_out_where_it_may_be_one(void **state)
{
    char bytes[40];
    struct grpc_frames frames;
    struct slice message;

    (void)state;
    grpc_frames_init(&frames, MAX);
    frames.may_compress = true;
    size_t n = put_frame(bytes, 5, 0);
    bytes[0] = 1;
    size_t both = n + put_frame(bytes + n, 3, 0);
    grpc_frames_feed(&frames, (struct slice){bytes, both});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
    assert_true(frames.compressed && message.n == 5);
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME);
    assert_true(!frames.compressed && message.n == 3);
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME_MORE);
    bytes[0] = 2;
    grpc_frames_feed(&frames, (struct slice){bytes, n});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME_COMPRESSED);
    grpc_frames_fini(&frames);
}

static void a_promise_costs_no_memory(void **state)
{
    char head[GRPC_FRAME_HEAD + 1];
    struct grpc_frames frames;
    struct slice message;

    (void)state;
    grpc_frames_init(&frames, MAX);
    grpc_frame_put_head(head, MAX);
    head[GRPC_FRAME_HEAD] = 1;
    grpc_frames_feed(&frames, (struct slice){head, sizeof head});
    assert_int_equal(grpc_frames_next(&frames, &message), GRPC_FRAME_MORE);
    assert_false(grpc_frames_between(&frames));
    assert_ptr_equal(frames.at, frames.inside);
    grpc_frames_fini(&frames);
}

/* Many that have begun and do not end share one bound, and give back what they took. */
static void what_is_gathered_is_bounded_for_all_together(void **state)
{
    static char bytes[GRPC_FRAME_HEAD + MAX];
    const size_t most = 2 * (size_t)4096; /* each takes a power of two */
    struct grpc_frames frames[3];
    struct slice message;
    size_t left = most;

    (void)state;
    grpc_frame_put_head(bytes, MAX);
    for (int i = 0; i < 3; i++) {
        grpc_frames_init(&frames[i], MAX);
        frames[i].left = &left;
        grpc_frames_feed(&frames[i], (struct slice){bytes, MAX});
        assert_int_equal(grpc_frames_next(&frames[i], &message),
                         i < 2 ? GRPC_FRAME_MORE : GRPC_FRAME_NO_MEMORY);
    }
    grpc_frames_fini(&frames[0]);
    frames[0].left = &left;
    grpc_frames_feed(&frames[0], (struct slice){bytes, MAX});
    assert_int_equal(grpc_frames_next(&frames[0], &message), GRPC_FRAME_MORE);
    for (int i = 0; i < 3; i++)
        grpc_frames_fini(&frames[i]);
    assert_int_equal(left, most);
}

/* ---- the arena ---- */

static void an_arena_gives_aligned_memory_and_takes_it_back_at_once(void **state)
{
    struct grpc_arena arena;
    char *first = NULL;

    (void)state;
    assert_true(grpc_arena_init(&arena, 1024, 1 << 20));
    for (int round = 0; round < 3; round++) {
        for (size_t n = 0; n < 40; n++) {
            char *at = arena.allocator.alloc(arena.allocator.allocator_data, n);
            assert_non_null(at);
            assert_int_equal((uintptr_t)at % 16, 0);
            memset(at, 1, n);
            if (n == 0 && round == 0)
                first = at;
            if (n == 0)
                assert_ptr_equal(at, first);
        }
        char *large = arena.allocator.alloc(arena.allocator.allocator_data, 5000);
        assert_non_null(large);
        memset(large, 2, 5000);
        grpc_arena_reset(&arena);
        assert_true(SLIST_EMPTY(&arena.extra));
    }
    grpc_arena_fini(&arena);
}

/* Two bytes on the wire can stand for a struct: what a message may become is bounded, and the
 * codec says so instead of taking all there is. */
static void a_message_cannot_take_more_than_the_bound(void **state)
{
    static uint8_t bytes[60000];
    struct grpc_arena arena;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i += 2) {
        bytes[i] = 15 << 3; /* field 15, a number, which the message does not know */
        bytes[i + 1] = 1;
    }
    assert_true(grpc_arena_init(&arena, 4096, 100000));
    assert_null(protobuf_c_message_unpack(&grpc__health__v1__health_check_request__descriptor,
                                          &arena.allocator, sizeof bytes, bytes));
    assert_true(arena.extra_bytes <= 100000);
    grpc_arena_reset(&arena);
    assert_non_null(protobuf_c_message_unpack(&grpc__health__v1__health_check_request__descriptor,
                                              &arena.allocator, 100, bytes));
    assert_null(arena.allocator.alloc(arena.allocator.allocator_data, SIZE_MAX));
    assert_null(arena.allocator.alloc(arena.allocator.allocator_data, SIZE_MAX - 20));
    grpc_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_frames_are_handed_out_where_they_lie),
        cmocka_unit_test(pieces_of_any_size_give_the_same_messages),
        cmocka_unit_test(a_kept_message_outlives_its_piece),
        cmocka_unit_test(the_largest_message_fits_and_one_byte_more_does_not),
        cmocka_unit_test(a_compressed_message_is_not_read),
        cmocka_unit_test(a_compressed_message_is_handed_out_where_it_may_be_one),
        cmocka_unit_test(a_promise_costs_no_memory),
        cmocka_unit_test(what_is_gathered_is_bounded_for_all_together),
        cmocka_unit_test(an_arena_gives_aligned_memory_and_takes_it_back_at_once),
        cmocka_unit_test(a_message_cannot_take_more_than_the_bound),
    };

    seed = draw_seed("test_grpc_frame");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
