/* test_queue.c - the queue by itself: how many go before a new call is how many do go before it.
 *
 * queue_ahead_of() foresees what queue_serve() will do, in closed form. Here random queues are
 * served to the end, and the two are compared.
 */
#include "check.h"
#include "draw.h"
#include "lib/admission/queue.h"
#include "lib/core/num.h"

#include <math.h>

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
    assert_true(queue_push(&line->queue, ticket, id_of(tenant), weight_of(tenant), 0, 1));
    return ticket;
}

static struct ticket *serve(struct line *line)
{
    enum tg_priority turn = queue_turn(&line->queue, true);

    return turn == TG_PRIORITY_COUNT ? NULL : queue_serve(&line->queue, turn, 0);
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
        /* Calls of 1 ms each. */
        int64_t foreseen = num_floor(queue_ahead_of(&line.queue, TG_PRIORITY_NORMAL, id_of(tenant),
                                                    weight_of(tenant), 1, INFINITY));
        int64_t enough = draw_between(&draw, 0, 10);
        int64_t cut = num_floor(queue_ahead_of(&line.queue, TG_PRIORITY_NORMAL, id_of(tenant),
                                               weight_of(tenant), 1, (double)enough));
        assert_true(cut <= foreseen);
        assert_true(cut == foreseen || cut > enough);
        const struct ticket *ticket = push(&line, TG_PRIORITY_NORMAL, tenant);
        int64_t ahead = 0;
        for (const struct ticket *next; (next = serve(&line)) != ticket;)
            ahead += next->priority == TG_PRIORITY_NORMAL;
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

/* The first call says how long a tenant holds a slot; each later one moves that by a sixteenth of
 * the difference. A call that never ran says nothing. */
static void the_slot_time_of_a_tenant_is_a_moving_mean(void **state)
{
    static const struct {
        int64_t slot_ms;
        bool has_run;
        double mean;
    } rows[] = {{160, true, 160}, {320, true, 170}, {0, false, 170}, {10, true, 160}};
    static struct line line;
    struct ticket *ticket;

    (void)state;
    line_begin(&line);
    push(&line, TG_PRIORITY_NORMAL, 0);
    assert_true(queue_slot_ms(&line.queue, TG_PRIORITY_NORMAL, id_of(0)) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        push(&line, TG_PRIORITY_NORMAL, 0); /* one waits on, so that the tenant is not forgotten */
        ticket = serve(&line);
        assert_non_null(ticket);
        queue_settle(&line.queue, ticket, rows[i].slot_ms, 0, rows[i].has_run);
        assert_true(queue_slot_ms(&line.queue, TG_PRIORITY_NORMAL, id_of(0)) == rows[i].mean);
    }
    assert_true(queue_slot_ms(&line.queue, TG_PRIORITY_NORMAL, id_of(1)) == 0);
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
        struct table_id id = table_id((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15), 1, 1);
        assert_true(queue_push(&line.queue, ticket, id, 1, 0, 1));
        assert_ptr_equal(serve(&line), ticket);
        queue_settle(&line.queue, ticket, 0, -1, true);
        assert_int_equal(queue_assert_books(&line.queue), 0);
        most = normal->flows.n > most ? normal->flows.n : most;
    }
    assert_int_equal(most, 256);
    assert_in_range(table_capacity(&normal->flows), 256, 1024);
    queue_fini(&line.queue);
}

/* A name has a call, which does so much. */
static void visit(struct queue *queue, struct table_id name, int64_t work)
{
    struct ticket ticket = {.priority = TG_PRIORITY_NORMAL};

    assert_true(queue_push(queue, &ticket, name, 1, work, 1));
    assert_ptr_equal(queue_serve(queue, TG_PRIORITY_NORMAL, 1), &ticket);
    queue_settle(queue, &ticket, work, work, true);
    assert_int_equal(queue_assert_books(queue), 0);
}

/* The names that begin in the first slot of the table, and in the last; the others anywhere. */
static struct table_id name_at(struct draw *draw, int i)
{
    uint64_t hash = draw_bits(draw);

    return table_id(i < 3 ? 0 : i < 6 ? UINT64_MAX
                                      : hash,
                    (uint32_t)i, 1);
}

/* Each of 200 names has done 1, and each of 56 more than the virtual time, which is 50. One more,
 * and the 200 are forgotten wherever they stand in the table; only when all are ahead of the
 * virtual time, all are. */
static void names_that_are_behind_are_forgotten_before_those_ahead(void **state)
{
    struct draw draw = draw_stream(draw_seed("queue"), 2);
    struct table_id ahead[56];
    struct queue queue;
    struct table *flows = &queue.classes[TG_PRIORITY_NORMAL].flows;
    int n = 0;
    (void)state;

    queue_init(&queue);
    for (; n < 200; n++)
        visit(&queue, name_at(&draw, n), 1);
    for (size_t i = 0; i < COUNT_OF(ahead); i++) {
        ahead[i] = name_at(&draw, n++);
        visit(&queue, ahead[i], i == 0 ? 50 : 100);
    }
    visit(&queue, ahead[0], 1); /* served at 50, and at 51 now */
    assert_int_equal(flows->n, 256);
    visit(&queue, name_at(&draw, n++), 100);
    assert_int_equal(flows->n, 57);
    for (size_t i = 0; i < COUNT_OF(ahead); i++)
        assert_non_null(table_find(flows, ahead[i]));
    for (int i = 0; i < 199; i++)
        visit(&queue, name_at(&draw, i < 6 ? i : n++), 100);
    assert_int_equal(flows->n, 256);
    visit(&queue, name_at(&draw, n++), 100);
    assert_int_equal(flows->n, 1);
    queue_fini(&queue);
}

/* Low is the only class that may have to pass its turn. */
static void who_may_not_go_keeps_nobody_else_from_going(void **state)
{
    static struct line line;
    (void)state;

    line_begin(&line);
    assert_int_equal(queue_turn(&line.queue, true), TG_PRIORITY_COUNT);
    push(&line, TG_PRIORITY_LOW, 0);
    assert_int_equal(queue_turn(&line.queue, true), TG_PRIORITY_LOW);
    assert_int_equal(queue_turn(&line.queue, false), TG_PRIORITY_COUNT);
    push(&line, TG_PRIORITY_NORMAL, 0);
    assert_int_equal(queue_turn(&line.queue, false), TG_PRIORITY_NORMAL);
    push(&line, TG_PRIORITY_HIGH, 0);
    assert_int_equal(queue_turn(&line.queue, false), TG_PRIORITY_HIGH);
    queue_fini(&line.queue);
}

/* The slot time that waits in a class is that of its calls: who has held a slot for 30 ms counts 30
 * ms, and who has not, the mean, which is 1 ms. */
static void the_slot_time_of_a_class_is_that_of_its_calls(void **state)
{
    static struct line line;
    const struct queue_class *normal = &line.queue.classes[TG_PRIORITY_NORMAL];
    (void)state;

    line_begin(&line);
    push(&line, TG_PRIORITY_NORMAL, 0);
    queue_settle(&line.queue, serve(&line), 30, -1, true);
    assert_true(normal->slot_ms == 0);
    push(&line, TG_PRIORITY_NORMAL, 0);
    struct ticket *gone = push(&line, TG_PRIORITY_NORMAL, 0);
    push(&line, TG_PRIORITY_NORMAL, 1);
    push(&line, TG_PRIORITY_HIGH, 0);
    assert_true(normal->slot_ms == 61);
    queue_remove(&line.queue, gone);
    assert_true(normal->slot_ms == 31);
    assert_int_equal(serve(&line)->priority, TG_PRIORITY_HIGH);
    assert_non_null(serve(&line)); /* tenant 1, which has had nothing yet */
    assert_true(normal->slot_ms == 30);
    queue_fini(&line.queue);
}

/* ---- by work ---- */

enum { PARTY = 5,
       RUNNING = 8,
       WORK_MOST = 100 };

/* Tenants that keep calls waiting; a call does something else than was expected of it, and ends
 * some grants after it began. */
struct party {
    struct queue queue;
    struct ticket tickets[PARTY * 4 + RUNNING];
    struct ticket *spare[PARTY * 4 + RUNNING];
    int n_spare;
    struct ticket *running[RUNNING];
    int n_running;
    int tenant_of[RUNNING];
    double work[PARTY]; /* what calls that have ended took */
    struct draw draw;
};

static void party_begin(struct party *party, uint64_t seed, uint64_t stream)
{
    static const double no_shares[TG_PRIORITY_COUNT] = {0, 0, 0};

    *party = (struct party){.draw = draw_stream(seed, stream)};
    queue_init(&party->queue);
    queue_set_shares(&party->queue, no_shares);
    for (int i = 0; i < PARTY * 4 + RUNNING; i++)
        party->spare[party->n_spare++] = &party->tickets[i];
}

static int64_t waiting_of(const struct party *party, int tenant)
{
    const struct table_slot *slot =
        table_find(&party->queue.classes[TG_PRIORITY_NORMAL].flows, id_of(tenant));

    return slot ? ((const struct flow *)slot->states.block)->n : 0;
}

/* Every tenant but `absent` keeps three calls waiting; some state their work, others do not. */
static void party_send(struct party *party, int absent)
{
    for (int t = 0; t < PARTY; t++)
        while (t != absent && waiting_of(party, t) < 3) {
            struct ticket *ticket = party->spare[--party->n_spare];
            *ticket = (struct ticket){.priority = TG_PRIORITY_NORMAL};
            ticket->waiter = (void *)(intptr_t)t;
            int64_t work = t % 2 ? 60 : 0;
            assert_true(queue_push(&party->queue, ticket, id_of(t), weight_of(t), work, 1));
        }
}

/* One slot changes hands. The calls of a tenant do as much as is drawn for their number. */
static int party_grant(struct party *party, int slot)
{
    struct ticket *ended = party->running[slot];

    if (ended) {
        int64_t work = draw_between(&party->draw, 1, WORK_MOST);
        queue_settle(&party->queue, ended, work, work, true);
        party->work[party->tenant_of[slot]] += (double)work;
        party->spare[party->n_spare++] = ended;
    }
    struct ticket *ticket = queue_serve(&party->queue, TG_PRIORITY_NORMAL, WORK_MOST / 2.0);
    party->n_running += ended == NULL;
    party->running[slot] = ticket;
    party->tenant_of[slot] = (int)(intptr_t)ticket->waiter;
    return party->tenant_of[slot];
}

/* By weight, two tenants that always have calls waiting never differ by more than what is under way
 * and a call of each; and each has its turn before the others have had theirs too often. */
static void work_is_shared_by_weight_and_nobody_starves(void **state)
{
    uint64_t seed = draw_seed("queue");
    static struct party party;
    (void)state;

    for (uint64_t round = 0; round < 20; round++) {
        int since[PARTY] = {0};
        party_begin(&party, seed, 100 + round);
        for (int i = 0; i < 20000; i++) {
            party_send(&party, -1);
            int served = party_grant(&party, (int)draw_between(&party.draw, 0, RUNNING - 1));
            for (int t = 0; t < PARTY; t++) {
                since[t] = t == served ? 0 : since[t] + 1;
                /* Until its tag is passed, by weight, the others do one call of its work, and what
                 * they were charged too much. */
                assert_true(since[t] < 16 * WORK_MOST);
            }
            if (i % 100 == 0)
                assert_int_equal(queue_assert_books(&party.queue), party.n_running);
        }
        for (int t = 1; t < PARTY; t++) {
            double bound = (RUNNING + 2) * WORK_MOST * (1 / weight_of(0) + 1 / weight_of(t));
            double gap = party.work[t] / weight_of(t) - party.work[0] / weight_of(0);
            if (gap > bound || gap < -bound)
                fail_msg("round %d: tenant %d is ahead by %g", (int)round, t, gap);
        }
        queue_fini(&party.queue);
    }
}

/* A tenant that takes its calls back, and sends them again later, has no more work done for it than
 * if it had kept them waiting. */
static void being_idle_gains_nothing(void **state)
{
    uint64_t seed = draw_seed("queue");
    static struct party party;
    double always[PARTY];
    (void)state;

    for (uint64_t round = 0; round < 40; round++) {
        const int who = (int)(round % PARTY);
        for (int often = 0; often < 2; often++) {
            struct draw idle = draw_stream(seed, 300 + round);
            bool is_away = false;
            party_begin(&party, seed, 200 + round);
            for (int i = 0; i < 5000; i++) {
                if (often && draw_chance(&idle, 3)) {
                    is_away = !is_away;
                    struct ticket *ticket, *next;
                    struct ticket_list *calls =
                        &party.queue.classes[TG_PRIORITY_NORMAL].calls;
                    for (ticket = TAILQ_FIRST(calls); ticket && is_away; ticket = next) {
                        next = TAILQ_NEXT(ticket, in_class);
                        if ((int)(intptr_t)ticket->waiter != who)
                            continue;
                        queue_remove(&party.queue, ticket);
                        party.spare[party.n_spare++] = ticket;
                    }
                }
                party_send(&party, is_away ? who : -1);
                party_grant(&party, i % RUNNING);
            }
            if (!often)
                always[who] = party.work[who];
            else if (party.work[who] > always[who] + (RUNNING + 2) * WORK_MOST)
                fail_msg("round %d: %g instead of %g", (int)round, party.work[who], always[who]);
            queue_fini(&party.queue);
        }
    }
}

/* Tenant 0 has a call under way that it stated as `stated`; meanwhile the others have had 2000, and
 * it begins to wait again. Returns how far its tag moves when the call turns out to be `actual`. */
static double moved_by(int64_t stated, int64_t actual)
{
    static struct line line;

    line_begin(&line);
    struct ticket *first = &line.tickets[line.n++];
    *first = (struct ticket){.priority = TG_PRIORITY_NORMAL};
    assert_true(queue_push(&line.queue, first, id_of(0), 1, stated, 1));
    assert_ptr_equal(serve(&line), first);
    for (int i = 0; i < 21; i++) {
        struct ticket *other = &line.tickets[line.n++];
        *other = (struct ticket){.priority = TG_PRIORITY_NORMAL};
        assert_true(queue_push(&line.queue, other, id_of(4), 1, 100, 1));
        if (i < 20)
            assert_ptr_equal(serve(&line), other);
    }
    const struct ticket *again = push(&line, TG_PRIORITY_NORMAL, 0);
    double tag = again->flow->tag;
    assert_true(tag == (stated > 1900 ? (double)stated : 1900)); /* the tag that was served last */
    queue_settle(&line.queue, first, actual, actual, true);
    assert_int_equal(queue_assert_books(&line.queue), 20);
    double moved = again->flow->tag - tag;
    queue_fini(&line.queue);
    return moved;
}

/* Had the actual work been charged at the grant, the tenant would have started where the others
 * are just the same. */
static void a_correction_does_not_undo_a_start(void **state)
{
    (void)state;
    assert_true(moved_by(1000, 1) == 0); /* nothing is given back of what is forgiven */
    assert_true(moved_by(1900, 1) == 0);
    assert_true(moved_by(2000, 1) == -100);   /* down to the start */
    assert_true(moved_by(2000, 1950) == -50); /* above it, all */
    assert_true(moved_by(1000, 1900) == 0);   /* the start has charged that already, */
    assert_true(moved_by(1000, 2500) == 600); /* and this in part */
    assert_true(moved_by(2000, 2500) == 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_go_ahead_as_were_foreseen),
        cmocka_unit_test(who_was_just_served_waits_its_turn_when_it_comes_back),
        cmocka_unit_test(the_slot_time_of_a_tenant_is_a_moving_mean),
        cmocka_unit_test(idle_flows_are_bounded),
        cmocka_unit_test(names_that_are_behind_are_forgotten_before_those_ahead),
        cmocka_unit_test(who_may_not_go_keeps_nobody_else_from_going),
        cmocka_unit_test(the_slot_time_of_a_class_is_that_of_its_calls),
        cmocka_unit_test(work_is_shared_by_weight_and_nobody_starves),
        cmocka_unit_test(being_idle_gains_nothing),
        cmocka_unit_test(a_correction_does_not_undo_a_start),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
