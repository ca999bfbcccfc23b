/* test_queue.c - the queue by itself: how many go before a new call is how many do go before it.
 *
 * queue_ahead_of() foresees what queue_serve() will do, in closed form. Here random queues are
 * served to the end, and the two are compared.
 */
#include "check.h"
#include "draw.h"
#include "lib/admission/queue.h"

enum { TENANTS = 6,
       CALLS_MAX = 64 };

/* Weights are powers of two, so that tags are exact. */
static double weight_of(int tenant)
{
    static const double weights[TENANTS] = {1, 2, 0.5, 4, 1, 0.25};

    return weights[tenant];
}

static struct table_id id_of(int tenant)
{
    return table_id((uint64_t)tenant * UINT64_C(0x9e3779b97f4a7c15), 7, 1);
}

struct line {
    struct queue queue;
    struct ticket tickets[CALLS_MAX];
    int n;
};

static struct ticket *push(struct line *line, enum tg_priority priority, int tenant)
{
    struct ticket *ticket = &line->tickets[line->n++];

    *ticket = (struct ticket){.priority = (uint8_t)priority};
    assert_true(queue_push(&line->queue, ticket, id_of(tenant), weight_of(tenant)));
    return ticket;
}

static struct ticket *serve(struct line *line)
{
    enum tg_priority turn = queue_turn(&line->queue, true);

    return turn == TG_PRIORITY_COUNT ? NULL : queue_serve(&line->queue, turn);
}

static void line_begin(struct line *line)
{
    static const double no_shares[TG_PRIORITY_COUNT] = {0, 0, 0};

    line->n = 0;
    queue_init(&line->queue);
    queue_set_shares(&line->queue, no_shares);
}

static void as_many_go_ahead_as_were_foreseen(void **state)
{
    struct draw draw = draw_stream(draw_seed("queue"), 1);
    static struct line line;
    (void)state;

    for (int round = 0; round < 3000; round++) {
        line_begin(&line);
        /* Some history, so that flows have tags of their own. */
        for (int i = draw_between(&draw, 0, 20) ? 12 : 0; i > 0; i--)
            push(&line, TG_PRIORITY_NORMAL, (int)draw_between(&draw, 0, TENANTS - 1));
        for (int64_t i = draw_between(&draw, 0, 12); i > 0; i--)
            serve(&line);
        for (int64_t i = draw_between(&draw, 0, 25); i > 0; i--)
            push(&line, draw_chance(&draw, 20) ? TG_PRIORITY_HIGH : TG_PRIORITY_NORMAL,
                 (int)draw_between(&draw, 0, TENANTS - 1));
        int tenant = (int)draw_between(&draw, 0, TENANTS - 1);
        int64_t foreseen = queue_ahead_of(&line.queue, TG_PRIORITY_NORMAL, id_of(tenant),
                                          weight_of(tenant), INT64_MAX);
        int64_t enough = draw_between(&draw, 0, 10);
        int64_t cut = queue_ahead_of(&line.queue, TG_PRIORITY_NORMAL, id_of(tenant),
                                     weight_of(tenant), enough);
        assert_true(cut <= foreseen);
        assert_true(cut == foreseen || cut > enough);
        const struct ticket *ticket = push(&line, TG_PRIORITY_NORMAL, tenant);
        int64_t ahead = 0;
        while (serve(&line) != ticket)
            ahead++;
        if (ahead != foreseen)
            fail_msg("round %d: %lld went ahead, %lld were foreseen", round, (long long)ahead,
                     (long long)foreseen);
        queue_fini(&line.queue);
    }
}

/* Idle flows are remembered while their tag is ahead of the virtual time: who was just served does
 * not go first again by coming back under the same name. */
static void who_was_just_served_waits_its_turn_when_it_comes_back(void **state)
{
    static struct line line;
    (void)state;

    line_begin(&line);
    push(&line, TG_PRIORITY_NORMAL, 0);
    const struct ticket *other = push(&line, TG_PRIORITY_NORMAL, 4);
    assert_ptr_equal(serve(&line), &line.tickets[0]);
    push(&line, TG_PRIORITY_NORMAL, 4);
    const struct ticket *again = push(&line, TG_PRIORITY_NORMAL, 0);
    assert_ptr_equal(serve(&line), other);
    assert_ptr_equal(serve(&line), &line.tickets[2]);
    assert_ptr_equal(serve(&line), again);
    queue_fini(&line.queue);
}

/* Idle flows are kept as long as they are few; of many, those that are behind are forgotten, and if
 * that is not enough, all: names that anybody may invent do not fill memory. */
static void idle_flows_are_bounded(void **state)
{
    static struct line line;
    struct queue_class *normal = &line.queue.classes[TG_PRIORITY_NORMAL];
    size_t most = 0;
    (void)state;

    line_begin(&line);
    for (int i = 0; i < 2000; i++) {
        line.n = 0;
        struct ticket *ticket = &line.tickets[line.n++];
        *ticket = (struct ticket){.priority = TG_PRIORITY_NORMAL};
        assert_true(queue_push(&line.queue, ticket,
                               table_id((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15), 1, 1), 1));
        assert_ptr_equal(serve(&line), ticket);
        most = normal->flows.n > most ? normal->flows.n : most;
    }
    assert_int_equal(most, 256);
    assert_in_range(table_capacity(&normal->flows), 256, 1024);
    queue_fini(&line.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_go_ahead_as_were_foreseen),
        cmocka_unit_test(who_was_just_served_waits_its_turn_when_it_comes_back),
        cmocka_unit_test(idle_flows_are_bounded),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
