/* test_gate_fairness.c - in what order those who wait are served.
 *
 * Shares between the classes, weights between the tenants of a class. One slot, and it changes
 * hands at once: the order of the grants is the order of the wakes.
 */
#include <stdio.h>
#include <string.h>

#include "gate_kit.h"

#define NOW 1000
#define WAIT_LONG 1000000

static struct tg_gate_config one_slot(struct gate_log *log)
{
    struct tg_gate_config config = gate_config_slots(log, 1);

    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = WAIT_LONG;
    config.concurrency.low_ratio = 1;
    return config;
}

/* ---- classes ---- */

/* A freed slot goes to the highest class that waits, but a class below it earns its share of
 * each grant made above it, from 0, and at 1 goes first. So with shares 0.2 and 0.05, while all
 * wait: normal earns a turn by five grants of high, low by twenty of either. */
struct service {
    struct gate_log log;
    struct tg_gate *gate;
    tg_lease running;
    tg_lease leases[GATE_LOG_MAX];
    enum tg_priority classes[GATE_LOG_MAX];
    int n;
};

static void service_open(struct service *s, const struct tg_gate_config *config)
{
    struct tg_call call = call_of(TG_PRIORITY_HIGH);

    s->n = 0;
    s->gate = must_gate(config);
    s->running = must_allow(s->gate, &call, NOW);
}

static void service_queue(struct service *s, enum tg_priority priority, int n)
{
    for (int i = 0; i < n; i++) {
        struct tg_call call = call_waiting(priority, s->n);
        s->classes[s->n] = priority;
        s->leases[s->n++] = must_queue(s->gate, &call, NOW);
    }
}

/* The slot changes hands: 'H', 'N' or 'L'. */
static char service_step(struct service *s)
{
    /* Never come for, and so no sample that would make anybody's wait too long. */
    assert_true(finish_as(s->gate, s->running, NOW, TG_OUTCOME_CANCELLED));
    int who = next_woken(&s->log);
    assert_true(who >= 0);
    s->running = s->leases[who];
    return "HNL"[s->classes[who]];
}

static void expect_order(struct service *s, const char *order)
{
    size_t n = strlen(order);

    for (size_t i = 0; i < n; i++) {
        char got = service_step(s);
        if (got != order[i])
            fail_msg("grant %zu of %s is %c", i + 1, order, got);
    }
}

static void with_high_and_normal_every_sixth_grant_is_normal(void **state)
{
    static struct service s;
    struct tg_gate_config config = one_slot(&s.log);
    (void)state;

    service_open(&s, &config);
    service_queue(&s, TG_PRIORITY_HIGH, 200);
    service_queue(&s, TG_PRIORITY_NORMAL, 40);
    for (int i = 0; i < 30; i++)
        expect_order(&s, "HHHHHN");
    tg_gate_free(s.gate);
}

static void with_high_and_low_every_21st_grant_is_low(void **state)
{
    static struct service s;
    struct tg_gate_config config = one_slot(&s.log);
    (void)state;

    service_open(&s, &config);
    service_queue(&s, TG_PRIORITY_HIGH, 200);
    service_queue(&s, TG_PRIORITY_LOW, 40);
    for (int i = 0; i < 9; i++)
        expect_order(&s, "HHHHHHHHHHHHHHHHHHHHL");
    tg_gate_free(s.gate);
}

static void with_normal_and_low_every_21st_grant_is_low(void **state)
{
    static struct service s;
    struct tg_gate_config config = one_slot(&s.log);
    (void)state;

    service_open(&s, &config);
    service_queue(&s, TG_PRIORITY_NORMAL, 200);
    service_queue(&s, TG_PRIORITY_LOW, 40);
    for (int i = 0; i < 9; i++)
        expect_order(&s, "NNNNNNNNNNNNNNNNNNNNL");
    tg_gate_free(s.gate);
}

/* Low earns by grants of high and of normal alike. Normal has earned 0.4 when low's turn comes. */
static void with_all_three_each_earns_its_share(void **state)
{
    static struct service s;
    struct tg_gate_config config = one_slot(&s.log);
    (void)state;

    service_open(&s, &config);
    service_queue(&s, TG_PRIORITY_LOW, 20);
    service_queue(&s, TG_PRIORITY_NORMAL, 50);
    service_queue(&s, TG_PRIORITY_HIGH, 200);
    expect_order(&s, "HHHHHN"
                     "HHHHHN"
                     "HHHHHN"
                     "HH"
                     "L"
                     "HHHN"
                     "HHHHHN"
                     "HHHHHN"
                     "HHHH"
                     "L"
                     "HN");
    tg_gate_free(s.gate);
}

static void a_share_of_0_waits_for_all_above_and_of_1_takes_turns(void **state)
{
    static struct service s;
    struct tg_gate_config config = one_slot(&s.log);
    (void)state;

    config.concurrency.share[TG_PRIORITY_NORMAL] = 1;
    config.concurrency.share[TG_PRIORITY_LOW] = 0;
    service_open(&s, &config);
    service_queue(&s, TG_PRIORITY_LOW, 3);
    service_queue(&s, TG_PRIORITY_NORMAL, 5);
    service_queue(&s, TG_PRIORITY_HIGH, 8);
    expect_order(&s, "HNHNHNHNHNHHHLLL");
    tg_gate_free(s.gate);
}

/* What was earned is not kept over a time in which nobody waited. */
static void a_class_begins_to_earn_when_it_begins_to_wait(void **state)
{
    static struct service s;
    struct tg_gate_config config = one_slot(&s.log);
    (void)state;

    service_open(&s, &config);
    service_queue(&s, TG_PRIORITY_HIGH, 100);
    expect_order(&s, "HHHHHHHH");
    service_queue(&s, TG_PRIORITY_NORMAL, 1);
    expect_order(&s, "HHH");
    assert_true(finish_as(s.gate, s.leases[100], NOW, TG_OUTCOME_CANCELLED));
    service_queue(&s, TG_PRIORITY_NORMAL, 2);
    expect_order(&s, "HHHHHNHHHHHN");
    tg_gate_free(s.gate);
}

/* ---- tenants ---- */

#define TENANTS_MAX 16

/* A class in which every tenant keeps so many calls waiting, whatever is served. */
struct crowd {
    struct gate_log log;
    struct tg_gate *gate;
    tg_lease running;
    int n;
    double weights[TENANTS_MAX];
    tg_lease waiting[TENANTS_MAX][64]; /* in the order of arrival, round and round */
    int head[TENANTS_MAX], tail[TENANTS_MAX];
    int64_t served[TENANTS_MAX];
};

static void crowd_send(struct crowd *c, int tenant)
{
    struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, tenant);
    char name[24];

    snprintf(name, sizeof name, "tenant %d", tenant);
    call_set_tenant(&call, name, c->weights[tenant]);
    c->waiting[tenant][c->tail[tenant]++ % 64] = must_queue(c->gate, &call, NOW);
}

static void crowd_open(struct crowd *c, int n, const double *weights, const int *backlog)
{
    struct tg_gate_config config = one_slot(&c->log);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);

    memset(c, 0, sizeof *c);
    c->n = n;
    c->gate = must_gate(&config);
    c->running = must_allow(c->gate, &call, NOW);
    for (int t = 0; t < n; t++) {
        c->weights[t] = weights[t];
        for (int i = 0; i < backlog[t]; i++)
            crowd_send(c, t);
    }
}

static void crowd_serve(struct crowd *c, int grants)
{
    for (int i = 0; i < grants; i++) {
        assert_true(finish_as(c->gate, c->running, NOW, TG_OUTCOME_CANCELLED));
        assert_int_equal(c->log.n_woken, 1);
        int tenant = c->log.woken[0];
        c->log.n_woken = 0;
        c->running = c->waiting[tenant][c->head[tenant]++ % 64];
        c->served[tenant]++;
        crowd_send(c, tenant); /* it keeps its backlog */
    }
}

/* (sum x)^2 / (n sum x^2), of what each was served by its weight. */
static double jain(const struct crowd *c)
{
    double sum = 0, squares = 0;

    for (int t = 0; t < c->n; t++) {
        double x = (double)c->served[t] / c->weights[t];
        sum += x;
        squares += x * x;
    }
    return sum * sum / (c->n * squares);
}

static void who_sends_ten_times_as_much_gets_no_more(void **state)
{
    static const double weights[] = {1, 1, 1, 1, 1, 1};
    static const int backlog[] = {50, 5, 5, 5, 5, 5};
    static struct crowd c;
    (void)state;

    crowd_open(&c, 6, weights, backlog);
    crowd_serve(&c, 6000);
    for (int t = 0; t < 6; t++)
        assert_in_range(c.served[t], 999, 1001);
    assert_true(jain(&c) >= 0.95);
    tg_gate_free(c.gate);
}

static void weights_are_served_in_proportion(void **state)
{
    static const double weights[] = {1, 2, 4};
    static const int backlog[] = {40, 20, 10};
    static struct crowd c;
    (void)state;

    crowd_open(&c, 3, weights, backlog);
    crowd_serve(&c, 7000);
    assert_in_range(c.served[0], 998, 1002);
    assert_in_range(c.served[1], 1998, 2002);
    assert_in_range(c.served[2], 3998, 4002);
    assert_true(jain(&c) >= 0.99);
    tg_gate_free(c.gate);
}

static void fractions_of_weights_count(void **state)
{
    static const double weights[] = {0.001, 0.003, 0.0045};
    static const int backlog[] = {30, 1, 10};
    static struct crowd c;
    (void)state;

    crowd_open(&c, 3, weights, backlog);
    crowd_serve(&c, 8500);
    assert_in_range(c.served[0], 995, 1005);
    assert_in_range(c.served[1], 2995, 3005);
    assert_in_range(c.served[2], 4495, 4505);
    tg_gate_free(c.gate);
}

/* A tenant that was away has saved no turns, and owes none. */
static void who_was_idle_starts_where_the_others_are(void **state)
{
    static const double weights[] = {1, 1, 1};
    static const int backlog[] = {10, 10, 0};
    static struct crowd c;
    (void)state;

    crowd_open(&c, 3, weights, backlog);
    crowd_serve(&c, 1000);
    for (int i = 0; i < 10; i++)
        crowd_send(&c, 2);
    memset(c.served, 0, sizeof c.served);
    crowd_serve(&c, 300);
    for (int t = 0; t < 3; t++)
        assert_in_range(c.served[t], 99, 101);
    tg_gate_free(c.gate);
}

/* The least weight there may be must not put an end to fairness among the others. */
static void the_least_weight_spoils_nothing_for_the_others(void **state)
{
    static const double weights[] = {1e-6, 1, 1};
    static const int backlog[] = {3, 30, 3};
    static struct crowd c;
    (void)state;

    crowd_open(&c, 3, weights, backlog);
    /* Its first call is served, and the second when it stands alone for a moment. */
    crowd_serve(&c, 10);
    while (c.head[1] < c.tail[1])
        assert_true(finish_as(c.gate, c.waiting[1][c.head[1]++ % 64], NOW, TG_OUTCOME_CANCELLED));
    while (c.head[2] < c.tail[2])
        assert_true(finish_as(c.gate, c.waiting[2][c.head[2]++ % 64], NOW, TG_OUTCOME_CANCELLED));
    if (c.log.n_woken > 0) { /* the running one may have been among them */
        assert_int_equal(c.log.woken[0], 0);
        c.log.n_woken = 0;
        c.running = c.waiting[0][c.head[0]++ % 64];
    }
    crowd_serve(&c, 1);
    for (int i = 0; i < 30; i++)
        crowd_send(&c, 1);
    for (int i = 0; i < 3; i++)
        crowd_send(&c, 2);
    memset(c.served, 0, sizeof c.served);
    crowd_serve(&c, 400);
    assert_in_range(c.served[1], 190, 210);
    assert_in_range(c.served[2], 190, 210);
    tg_gate_free(c.gate);
}

/* Calls without a tenant are the peer's; without either, they are one party together. */
static void without_a_tenant_the_peer_is_who_waits(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = one_slot(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call a = call_from(TG_PRIORITY_NORMAL, "a"), b = call_from(TG_PRIORITY_NORMAL, "b");
    static const int order[] = {1, 2, 1, 2, 1, 1};
    tg_lease leases[6], running = must_allow(gate, &a, NOW);
    (void)state;

    a.waiter = (void *)(intptr_t)1;
    b.waiter = (void *)(intptr_t)2;
    for (int i = 0; i < 4; i++)
        leases[i] = must_queue(gate, &a, NOW);
    for (int i = 4; i < 6; i++)
        leases[i] = must_queue(gate, &b, NOW);
    int next_a = 0, next_b = 4;
    for (int i = 0; i < 6; i++) {
        assert_true(finish_as(gate, running, NOW, TG_OUTCOME_CANCELLED));
        int who = next_woken(&log);
        assert_int_equal(who, order[i]);
        running = leases[who == 1 ? next_a++ : next_b++];
    }
    tg_gate_free(gate);
}

/* More tenants than anybody would remember, each waiting once in a while. */
static void many_tenants_leave_no_order_behind(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = one_slot(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call any = call_of(TG_PRIORITY_HIGH);
    tg_lease running = must_allow(gate, &any, NOW);
    (void)state;

    for (int i = 0; i < 3000; i++) {
        struct tg_call call = call_waiting(TG_PRIORITY_NORMAL, i);
        char name[24];
        snprintf(name, sizeof name, "tenant %d", i);
        call_set_tenant(&call, name, 1 + i % 5);
        tg_lease lease = must_queue(gate, &call, NOW);
        assert_true(finish_as(gate, running, NOW, TG_OUTCOME_CANCELLED));
        assert_int_equal(next_woken(&log), i);
        running = lease;
    }
    assert_true(finish_as(gate, running, NOW, TG_OUTCOME_CANCELLED));
    expect_idle(gate);
    tg_gate_free(gate);
}

/* ---- by what calls did ---- */

/* Tenants a and b have two calls each; some state their work. */
struct turns {
    struct gate_log log;
    struct tg_gate *gate;
    tg_lease first;
    struct tg_call calls[4];
    tg_lease leases[4];
};

static void turns_open(struct turns *t, const char *tenants, int64_t work, tg_ms now)
{
    struct tg_gate_config config = one_slot(&t->log);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);

    *t = (struct turns){.gate = must_gate(&config)};
    t->first = must_allow(t->gate, &call, now);
    for (int i = 0; i < 4; i++) {
        t->calls[i] = call_waiting(TG_PRIORITY_NORMAL, i);
        t->calls[i].work = work;
        call_set_tenant(&t->calls[i], tenants[i] == 'a' ? "a" : "b", 1);
        t->leases[i] = must_queue(t->gate, &t->calls[i], now);
    }
}

/* The slot was given to this call, which is admitted. */
static void turns_expect(struct turns *t, int who, tg_ms now)
{
    assert_int_equal(next_woken(&t->log), who);
    assert_true(
        must_resume(t->gate, t->leases[who], &t->calls[who], now).decision.allowed);
}

/* A call that states no work is charged the time that it held its slot: a has had 1000 ms and b 10,
 * so b is next, though a's call came first. */
static void a_turn_costs_the_time_that_the_slot_was_held(void **state)
{
    static struct turns t;
    (void)state;

    turns_open(&t, "abab", 0, 1);
    assert_true(finish_as(t.gate, t.first, 11, TG_OUTCOME_CANCELLED));
    turns_expect(&t, 0, 11);
    assert_true(finish(t.gate, t.leases[0], 1011));
    turns_expect(&t, 1, 1011);
    assert_true(finish(t.gate, t.leases[1], 1021));
    turns_expect(&t, 3, 1021);
    assert_true(finish(t.gate, t.leases[3], 1031));
    turns_expect(&t, 2, 1031);
    tg_gate_free(t.gate);
}

/* All state 1000. The first call of a is gone when its turn comes, and has cost 1; b's has cost
 * 1000. So a's second is next, though both of b's came before it. */
static void a_turn_that_nobody_took_costs_next_to_nothing(void **state)
{
    static struct turns t;
    (void)state;

    turns_open(&t, "abba", 1000, NOW);
    assert_true(finish_as(t.gate, t.first, NOW, TG_OUTCOME_CANCELLED));
    assert_int_equal(next_woken(&t.log), 0);
    assert_true(finish_as(t.gate, t.leases[0], NOW, TG_OUTCOME_CANCELLED));
    turns_expect(&t, 1, NOW);
    assert_true(finish(t.gate, t.leases[1], NOW));
    turns_expect(&t, 3, NOW);
    assert_true(finish(t.gate, t.leases[3], NOW));
    turns_expect(&t, 2, NOW);
    tg_gate_free(t.gate);
}

/* A release of zeros says nothing of the work: 1000 stands for a. What is said counts: b did 10. */
static void stated_work_stands_unless_a_release_says_otherwise(void **state)
{
    static struct turns t;
    struct tg_release zeros = {.outcome = TG_OUTCOME_OK}, release;
    (void)state;

    turns_open(&t, "abab", 1000, NOW);
    tg_release_init(&release);
    release.work = 10;
    assert_true(finish_as(t.gate, t.first, NOW, TG_OUTCOME_CANCELLED));
    turns_expect(&t, 0, NOW);
    assert_true(tg_gate_release(t.gate, t.leases[0], NOW, &zeros));
    turns_expect(&t, 1, NOW);
    assert_true(tg_gate_release(t.gate, t.leases[1], NOW, &release));
    turns_expect(&t, 3, NOW);
    tg_gate_free(t.gate);
}

/* A call that was refused elsewhere has done nothing of the work that it stated: its tenant's next
 * turn comes as if it had not been served. One that ran has done what it stated. */
static void what_was_refused_elsewhere_costs_no_turn(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = gate_config_slots(&log, 1);
        struct tg_gate *gate = must_gate(&config);
        struct tg_call first = call_of(TG_PRIORITY_HIGH), calls[4];
        static const int64_t work[4] = {1000, 100, 100, 100};
        tg_lease running = must_allow(gate, &first, 1000), leases[4];
        for (int i = 0; i < 4; i++) {
            calls[i] = call_waiting(TG_PRIORITY_HIGH, i);
            call_set_tenant(&calls[i], i < 2 ? "a" : "b", 1);
            calls[i].work = work[i];
            leases[i] = must_queue(gate, &calls[i], 1000);
        }
        assert_true(finish(gate, running, 1000));
        assert_int_equal(next_woken(&log), 0);
        running = must_resume(gate, leases[0], &calls[0], 1000).lease;
        assert_true(finish_as(gate, running, 1000, refused ? TG_OUTCOME_REFUSED : TG_OUTCOME_OK));
        assert_int_equal(next_woken(&log), 2);
        running = must_resume(gate, leases[2], &calls[2], 1000).lease;
        assert_true(finish(gate, running, 1000));
        assert_int_equal(next_woken(&log), refused ? 1 : 3);
        tg_gate_free(gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_high_and_normal_every_sixth_grant_is_normal),
        cmocka_unit_test(with_high_and_low_every_21st_grant_is_low),
        cmocka_unit_test(with_normal_and_low_every_21st_grant_is_low),
        cmocka_unit_test(with_all_three_each_earns_its_share),
        cmocka_unit_test(a_share_of_0_waits_for_all_above_and_of_1_takes_turns),
        cmocka_unit_test(a_class_begins_to_earn_when_it_begins_to_wait),
        cmocka_unit_test(who_sends_ten_times_as_much_gets_no_more),
        cmocka_unit_test(weights_are_served_in_proportion),
        cmocka_unit_test(fractions_of_weights_count),
        cmocka_unit_test(who_was_idle_starts_where_the_others_are),
        cmocka_unit_test(the_least_weight_spoils_nothing_for_the_others),
        cmocka_unit_test(without_a_tenant_the_peer_is_who_waits),
        cmocka_unit_test(many_tenants_leave_no_order_behind),
        cmocka_unit_test(a_turn_costs_the_time_that_the_slot_was_held),
        cmocka_unit_test(a_turn_that_nobody_took_costs_next_to_nothing),
        cmocka_unit_test(stated_work_stands_unless_a_release_says_otherwise),
        cmocka_unit_test(what_was_refused_elsewhere_costs_no_turn),
    };
    return cmocka_run_group_tests_name("gate_fairness", tests, NULL, NULL);
}
