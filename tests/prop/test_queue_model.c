/* test_queue_model.c - random queues, and plain lists that know who is next.
 *
 * The lists do what queue.h promises by looking at every call and every tenant at each step: the
 * lowest tag of those that wait is searched for, and a turn is counted where it is taken. They
 * know nothing of heaps, tables and sums that are kept. All numbers are to be the same to the bit,
 * but for sums over several tenants, whose order is nobody's business.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lib/admission/queue.h"
#include "walk.h"

enum { TENANTS = 7, CALLS = 48, STEPS = 2500, LIVES = 120 };

static uint64_t seed;

enum call_state { SPARE, WAITS, RUNS };

struct listed {
    enum call_state state;
    int priority, tenant;
    uint64_t arrival;
    bool states_work;
    double work, slot_ms;
    int64_t joined;
    double lifted;
};

/* A tenant in a class. */
struct party {
    double tag, weight, slot_ms, slack, lifted;
    int64_t joined, old;
};

struct class_list {
    struct party parties[TENANTS];
    bool newest_first;
    double virtual_time;
    int64_t earned;
};

struct life {
    struct draw draw;
    struct queue queue;
    struct ticket tickets[CALLS];
    struct listed calls[CALLS];
    struct class_list classes[TG_PRIORITY_COUNT];
    double share[TG_PRIORITY_COUNT];
    uint64_t arrivals;
    bool has_giants; /* calls that state more work than counts */
    long cases;
};

#define CASE(life, truth)                                                                          \
    do {                                                                                           \
        (life)->cases++;                                                                           \
        if (!(truth))                                                                              \
            fail_msg("not %s", #truth);                                                            \
    } while (0)

static struct table_id id_of(int tenant)
{
    return table_id((uint64_t)(tenant / 2) * UINT64_C(0x9e3779b97f4a7c15), (uint32_t)tenant, 1);
}

static bool same(double a, double b)
{
    return a >= b && a <= b;
}

/* Sums of the same numbers in another order. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1 + fabs(a) + fabs(b));
}

/* ---- the lists ---- */

static bool is_one(const struct listed *call, enum call_state state, int priority, int tenant)
{
    return call->state == state && call->priority == priority &&
           (tenant < 0 || call->tenant == tenant);
}

/* So many calls of a tenant, or of all, are in that state. */
static int64_t count(const struct life *life, enum call_state state, int priority, int tenant)
{
    int64_t n = 0;

    for (int i = 0; i < CALLS; i++)
        n += is_one(&life->calls[i], state, priority, tenant);
    return n;
}

/* The tenant's call that came first, or last; -1: none waits. */
static int outermost(const struct life *life, int priority, int tenant, bool last)
{
    int found = -1;

    for (int i = 0; i < CALLS; i++)
        if (is_one(&life->calls[i], WAITS, priority, tenant) &&
            (found < 0 || (life->calls[i].arrival > life->calls[found].arrival) == last))
            found = i;
    return found;
}

/* The call that a class serves next; -1: none waits. */
static int next_of(const struct life *life, int priority)
{
    const struct class_list *list = &life->classes[priority];
    bool last = list->newest_first;
    int best = -1;

    for (int tenant = 0; tenant < TENANTS; tenant++) {
        int call = outermost(life, priority, tenant, last);
        if (call < 0)
            continue;
        if (best < 0) {
            best = call;
            continue;
        }
        double tag = list->parties[tenant].tag;
        double lowest = list->parties[life->calls[best].tenant].tag;
        bool is_earlier = life->calls[call].arrival < life->calls[best].arrival;
        if (tag < lowest || (same(tag, lowest) && is_earlier != last))
            best = call;
    }
    return best;
}

static double start_of(const struct life *life, int priority)
{
    const struct class_list *list = &life->classes[priority];
    int next = next_of(life, priority);

    return next < 0 ? list->virtual_time
                    : fmin(list->virtual_time, list->parties[life->calls[next].tenant].tag);
}

static double bounded(double work)
{
    return work < 1 ? 1 : work > 1e9 ? 1e9 : work;
}

static double known_or(double slot_ms, double mean_ms)
{
    return slot_ms > 0 ? slot_ms : mean_ms;
}

/* ---- what may be asked ---- */

/* By how much a tenant's waiting calls will move its tag, without its weight. */
static double backlog(const struct life *life, int priority, int tenant, double mean_ms)
{
    double each = bounded(known_or(life->classes[priority].parties[tenant].slot_ms, mean_ms));
    double stated = 0, unstated = 0;

    for (int i = 0; i < CALLS; i++)
        if (is_one(&life->calls[i], WAITS, priority, tenant)) {
            stated += life->calls[i].work;
            unstated += !life->calls[i].states_work;
        }
    return stated + unstated * each;
}

/* `slack`, in turns: what rounding may make of a tag that is the same. None at all for the first
 * turn, unless there are giants. */
static double ahead_of(const struct life *life, int priority, int tenant, double weight,
                       double mean_ms, double slack)
{
    const struct class_list *list = &life->classes[priority];
    const struct party *own = &list->parties[tenant];
    int64_t n_own = count(life, WAITS, priority, tenant);
    double tag = n_own ? own->tag + backlog(life, priority, tenant, mean_ms) / weight
                       : start_of(life, priority);
    double ahead = (double)n_own * known_or(own->slot_ms, mean_ms);

    if (n_own == 0 && own->joined > 0)
        tag = fmax(tag, own->tag);
    for (int t = 0; t < TENANTS; t++) {
        const struct party *other = &list->parties[t];
        int64_t n = count(life, WAITS, priority, t);
        if (t == tenant || n == 0)
            continue;
        double turn = backlog(life, priority, t, mean_ms) / other->weight / (double)n;
        /* Its calls take their turns one after the other, the first now. */
        double turns = (tag - other->tag) / turn + slack;
        if (!life->has_giants && other->tag > tag)
            continue;
        for (int64_t k = 0; k < n; k++)
            if ((double)k <= turns)
                ahead += known_or(other->slot_ms, mean_ms);
    }
    return ahead;
}

static void step_ask(struct life *life)
{
    struct draw *draw = &life->draw;
    int priority = (int)draw_between(draw, 0, 2), tenant = (int)draw_between(draw, 0, TENANTS - 1);
    double mean_ms = (double)draw_between(draw, 1, 64);
    double weight = ldexp(1, (int)draw_between(draw, -2, 2));
    double slack = life->has_giants ? 1e-6 : 0;
    double least = ahead_of(life, priority, tenant, weight, mean_ms, 1e-9 - slack);
    double most = ahead_of(life, priority, tenant, weight, mean_ms, 1e-9 + slack);
    enum tg_priority rank = (enum tg_priority)priority;
    double whole = queue_ahead_of(&life->queue, rank, id_of(tenant), weight, mean_ms, INFINITY);
    double enough = draw_unit(draw) * 2 * (most + 1);
    double part = queue_ahead_of(&life->queue, rank, id_of(tenant), weight, mean_ms, enough);

    CASE(life, whole >= least * (1 - 1e-9) && whole <= most * (1 + 1e-9));
    CASE(life, whole > enough ? part > enough && part <= whole * (1 + 1e-9) : near(part, whole));
    CASE(life, same(queue_slot_ms(&life->queue, rank, id_of(tenant)),
                    life->classes[priority].parties[tenant].slot_ms));
}

/* ---- what happens ---- */

static void step_push(struct life *life)
{
    struct draw *draw = &life->draw;
    int index = (int)draw_between(draw, 0, CALLS - 1);
    struct listed *call = &life->calls[index];
    bool is_giant = life->has_giants && draw_chance(draw, 5);
    int64_t work = is_giant                ? INT64_C(3000000000)
                   : draw_chance(draw, 50) ? 0
                                           : draw_between(draw, 1, 100);
    double mean_ms = (double)draw_between(draw, 0, 64);
    double weight = ldexp(1, (int)draw_between(draw, -2, 2));

    if (call->state != SPARE)
        return;
    int priority = (int)draw_between(draw, 0, 2), tenant = (int)draw_between(draw, 0, TENANTS - 1);
    struct class_list *list = &life->classes[priority];
    struct party *party = &list->parties[tenant];
    double start = start_of(life, priority);
    if (party->joined == 0)
        party->tag = start;
    if (count(life, WAITS, priority, -1) == 0)
        list->earned = 0;
    if (count(life, WAITS, priority, tenant) == 0) { /* begins to wait */
        if (party->tag < start) {
            party->lifted += start - party->tag;
            party->tag = start;
        }
        double above = party->tag - start;
        party->slack = party->old > 0 && party->slack < above ? party->slack : above;
        party->old = count(life, RUNS, priority, tenant);
        party->joined++;
    }
    party->weight = weight;
    *call = (struct listed){.state = WAITS,
                            .priority = priority,
                            .tenant = tenant,
                            .arrival = ++life->arrivals,
                            .states_work = work > 0,
                            .work = work > 0 ? bounded((double)work) : 0,
                            .slot_ms = known_or(party->slot_ms, mean_ms)};
    life->tickets[index] = (struct ticket){.priority = (uint8_t)priority};
    CASE(life,
         queue_push(&life->queue, &life->tickets[index], id_of(tenant), weight, work, mean_ms));
}

static void step_remove(struct life *life)
{
    int index = (int)draw_between(&life->draw, 0, CALLS - 1);

    if (life->calls[index].state != WAITS)
        return;
    life->calls[index].state = SPARE;
    queue_remove(&life->queue, &life->tickets[index]);
}

static int class_to_serve(const struct life *life, bool low_may)
{
    int top = TG_PRIORITY_COUNT;

    for (int rank = TG_PRIORITY_COUNT - 1; rank >= 0; rank--)
        if (count(life, WAITS, rank, -1) > 0 && (rank != TG_PRIORITY_LOW || low_may))
            top = rank;
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++)
        if (count(life, WAITS, rank, -1) > 0 && (rank != TG_PRIORITY_LOW || low_may) &&
            life->classes[rank].earned == QUEUE_TURN)
            return rank;
    return top;
}

static void step_serve(struct life *life)
{
    struct draw *draw = &life->draw;
    bool low_may = draw_chance(draw, 80);
    double mean_ms = (double)draw_between(draw, 0, 64);
    int turn = class_to_serve(life, low_may);

    CASE(life, (int)queue_turn(&life->queue, low_may) == turn);
    if (turn == TG_PRIORITY_COUNT)
        return;
    int index = next_of(life, turn);
    struct listed *call = &life->calls[index];
    struct class_list *list = &life->classes[turn];
    struct party *party = &list->parties[call->tenant];
    if (list->earned == QUEUE_TURN)
        list->earned = 0;
    for (int below = turn + 1; below < TG_PRIORITY_COUNT; below++) {
        int64_t *earned = &life->classes[below].earned;
        *earned += (int64_t)ceil(life->share[below] * (double)QUEUE_TURN);
        *earned = *earned > QUEUE_TURN ? QUEUE_TURN : *earned;
    }
    CASE(life, queue_serve(&life->queue, (enum tg_priority)turn, mean_ms) == &life->tickets[index]);
    call->state = RUNS;
    if (!call->states_work)
        call->work = bounded(known_or(party->slot_ms, mean_ms));
    call->joined = party->joined;
    call->lifted = party->lifted;
    list->virtual_time = party->tag;
    party->tag += call->work / party->weight;
    CASE(life, life->tickets[index].owes_turn && same(life->tickets[index].work, call->work));
}

static void step_settle(struct life *life)
{
    struct draw *draw = &life->draw;
    int index = (int)draw_between(draw, 0, CALLS - 1);
    struct listed *call = &life->calls[index];
    int64_t slot_ms = draw_chance(draw, 10) ? 0 : draw_between(draw, 1, 100);
    bool is_giant = life->has_giants && draw_chance(draw, 5);
    int64_t work = is_giant                ? INT64_C(2000000000)
                   : draw_chance(draw, 30) ? -1
                                           : draw_between(draw, 0, 150);
    bool has_run = draw_chance(draw, 80);

    if (call->state != RUNS)
        return;
    struct party *party = &life->classes[call->priority].parties[call->tenant];
    double actual = !call->states_work ? bounded((double)slot_ms)
                    : work < 0         ? call->work
                                       : bounded((double)work);
    double more = (actual - call->work) / party->weight;
    if (call->joined != party->joined) {
        party->old--;
        if (more < 0) {
            more = -more < party->slack ? more : -party->slack;
            party->slack += more;
        } else {
            more -= party->lifted - call->lifted;
            more = more < 0 ? 0 : more;
        }
    }
    party->tag += more;
    if (has_run && party->slot_ms > 0)
        party->slot_ms += ((double)slot_ms - party->slot_ms) / 16;
    else if (has_run)
        party->slot_ms = (double)slot_ms;
    call->state = SPARE;
    queue_settle(&life->queue, &life->tickets[index], slot_ms, work, has_run);
    CASE(life, !life->tickets[index].owes_turn);
}

static void step_order(struct life *life)
{
    int priority = (int)draw_between(&life->draw, 0, 2);

    life->classes[priority].newest_first = draw_chance(&life->draw, 50);
    queue_set_order(&life->queue.classes[priority], life->classes[priority].newest_first);
}

static void check_numbers(struct life *life)
{
    int64_t ahead = 0, running = 0;

    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        const struct queue_class *line = &life->queue.classes[rank];
        double slot_ms = 0;
        for (int i = 0; i < CALLS; i++)
            if (is_one(&life->calls[i], WAITS, rank, -1))
                slot_ms += life->calls[i].slot_ms;
        CASE(life, line->waiting == count(life, WAITS, rank, -1));
        CASE(life, near(line->slot_ms, slot_ms) && (line->waiting > 0 || same(line->slot_ms, 0)));
        CASE(life, line->waiting == 0 || line->earned == life->classes[rank].earned);
        ahead += line->waiting;
        running += count(life, RUNS, rank, -1);
        CASE(life, queue_ahead(&life->queue, (enum tg_priority)rank) == ahead);
        for (int t = 0; t < TENANTS; t++) {
            const struct table_slot *slot = table_find(&line->flows, id_of(t));
            const struct party *party = &life->classes[rank].parties[t];
            CASE(life, slot || party->joined == 0);
            CASE(life, !slot || same(((const struct flow *)slot->states.block)->tag, party->tag));
        }
    }
    CASE(life, queue_assert_books(&life->queue) == running);
}

static void life_open(struct life *life, uint64_t number)
{
    memset(life, 0, sizeof *life);
    life->draw = draw_stream(seed, number);
    life->has_giants = number % 4 == 0;
    queue_init(&life->queue);
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++)
        life->share[rank] = draw_chance(&life->draw, 20)   ? 0
                            : draw_chance(&life->draw, 20) ? 1
                                                           : draw_unit(&life->draw);
    queue_set_shares(&life->queue, life->share);
}

static void the_queue_is_what_plain_lists_say(void **state)
{
    static void (*const steps[])(struct life *) = {
        step_push,   step_push,   step_push,   step_serve, step_serve,
        step_settle, step_settle, step_settle, step_ask,   step_remove};
    static struct life life;
    long cases = 0;
    (void)state;

    for (uint64_t number = 0; number < LIVES; number++) {
        life_open(&life, number);
        for (int i = 0; i < STEPS; i++) {
            if (draw_chance(&life.draw, 2))
                step_order(&life);
            steps[draw_between(&life.draw, 0, COUNT_OF(steps) - 1)](&life);
            check_numbers(&life);
        }
        cases += life.cases;
        queue_fini(&life.queue);
    }
    cases_report("the queue is what plain lists say", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_what_plain_lists_say),
    };

    seed = draw_seed("test_queue_model");
    return cmocka_run_group_tests_name("queue model", tests, NULL, NULL);
}
