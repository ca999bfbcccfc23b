/* test_remote_money_model.c - budgets in Redis decide as the bank does: the same random calls are
 * given to both, and every answer is compared. */
#include "draw.h"
#include "remote_money_kit.h"

#include "redis_group.h"

enum { STEPS = 1600,
       OPEN_MAX = 24,
       NODES = 3 };

static uint64_t seed;

static int start(void **state)
{
    seed = draw_seed("test_remote_money_model");
    return start_redis(state);
}

/* A call that is running: at the bank, and at a node. */
struct running {
    struct spending_ticket bank;
    struct remote_money_ticket *remote;
};

struct match {
    struct draw draw;
    struct money_world world;
    struct tg_budget budgets[3];
    struct spending_key keys[2];
    struct spending *bank;
    struct money_node nodes[NODES];
    size_t n_nodes;
    struct running running[OPEN_MAX];
    size_t n_running;
    tg_ms now;
    size_t admitted, spent, contended, cut;
};

static void compare(struct match *match, const struct spending_call *what,
                    const struct tg_money_answer *want, const struct money_call *got, int step)
{
    const struct tg_money_answer *answer = &got->answer;
    bool same = (answer->reservation != 0) == (want->reservation != 0) &&
                answer->reserved == want->reserved && answer->contended == want->contended &&
                answer->per == want->per && answer->reset_at == want->reset_at &&
                answer->amount == want->amount && answer->used == want->used;
    /* What everyone has spent is refused without asking the others. */
    bool by_everyone = want->account == spending_account(match->bank, NULL, SPENDING_TOP);

    if (want->reservation != 0 || !by_everyone)
        same = same && answer->would_deny == want->would_deny;
    if (!same)
        fail_msg("step %d: %s asks for %lld%s: bank %d %lld contended %d per %d amount %lld used "
                 "%lld would_deny %u; Redis %d %lld contended %d per %d amount %lld used %lld "
                 "would_deny %u",
                 step, what->tenant, (long long)what->money, what->up_to ? " at most" : "",
                 want->reservation != 0, (long long)want->reserved, want->contended, want->per,
                 (long long)want->amount, (long long)want->used, want->would_deny,
                 answer->reservation != 0, (long long)answer->reserved, answer->contended,
                 answer->per, (long long)answer->amount, (long long)answer->used,
                 answer->would_deny);
}

/* Keys of one name below both teams, one of which is called like a user. */
static void add_keys(struct match *match)
{
    match->budgets[0] = budget_of(1500, TG_PER_DAY);
    match->budgets[1] = budget_of(6000, TG_PER_MONTH);
    match->budgets[2] = budget_of(4000, TG_PER_WEEK);
    match->keys[0] = (struct spending_key){"ci:{y}", NULL, match->budgets, 2};
    match->keys[1] = (struct spending_key){"ann", "team=a", match->budgets + 2, 1};
    for (size_t i = TEAM_A; i <= TEAM_B; i++) {
        match->world.tenants[i].keys = match->keys;
        match->world.tenants[i].n_keys = 2;
    }
}

static void reserve_both(struct match *match, int step)
{
    static const char *const users[] = {NULL, "ann", "bob:{x}"};
    static const char *const keys[] = {NULL, "ann", "ci:{y}"};
    size_t tenant = (size_t)draw_between(&match->draw, 0, TENANTS - 1);
    const char *user = tenant == TEAM_A ? users[draw_between(&match->draw, 0, 2)] : NULL;
    tg_micro money = draw_chance(&match->draw, 5) ? 0 : draw_magnitude(&match->draw, 20000);
    struct spending_call what = money_what(tenant, user, money);
    struct tg_money_answer want = {0};
    struct running *running = &match->running[match->n_running];
    size_t node = (size_t)draw_between(&match->draw, 0, (int64_t)match->n_nodes - 1);

    what.key = tenant == TEAM_A || tenant == TEAM_B ? keys[draw_between(&match->draw, 0, 2)] : NULL;
    what.up_to = draw_chance(&match->draw, 25);
    enum tg_err err = spending_reserve(match->bank, &what, match->now, &running->bank, &want);
    assert_int_equal(err, TG_OK);
    struct money_call got = money_must(&match->nodes[node], &what, match->now);
    assert_int_equal(got.err, TG_OK);
    compare(match, &what, &want, &got, step);
    match->admitted += want.reservation != 0;
    match->cut += want.reservation != 0 && want.reserved < what.money;
    match->spent += want.reservation == 0 && !want.contended;
    match->contended += want.contended;
    if (want.reservation == 0)
        return;
    running->remote = got.ticket;
    match->n_running++;
}

static void settle_both(struct match *match)
{
    size_t i = (size_t)draw_between(&match->draw, 0, (int64_t)match->n_running - 1);
    struct running running = match->running[i];
    struct spending_use use = {.spent = draw_chance(&match->draw, 15)
                                            ? draw_between(&match->draw, -1, 0)
                                            : draw_magnitude(&match->draw, 9000)};

    match->running[i] = match->running[--match->n_running];
    /* What was asked for stands if nothing is known; with up_to the bank has the less of both. */
    if (use.spent < 0 && running.remote->money != running.remote->reserved)
        use.spent = 7;
    assert_true(spending_settle(match->bank, &running.bank, &use, match->now));
    struct remote_money_port *port = running.remote->port;
    remote_money_settle(running.remote, use.spent, match->now);
    /* The bank knows it at once; another node may be faster than the note of this one. */
    money_until(&match->nodes[0], port->lists[MONEY_CLAIM_ENDING].n == 0);
}

static bool all_renewed(struct match *match)
{
    for (size_t i = 0; i < match->n_nodes; i++) {
        struct remote_money_port *port = match->nodes[i].port;
        struct remote_money_ticket *each;
        TAILQ_FOREACH(each, &port->lists[MONEY_CLAIM_HELD].claims, list)
            if (money_claim_has_root(each) &&
                (each->in_flight || match->now - each->renewed_at >= HOUR / 3))
                return false;
    }
    return true;
}

/* No lease may end by the jump: it is renewed on the way, as by a node whose time runs. */
static void pass_time(struct match *match)
{
    tg_ms until = match->now + draw_magnitude(&match->draw, DAY);

    while (match->now < until) {
        match->now = num_min(until, match->now + 25 * MINUTE);
        for (size_t i = 0; i < match->n_nodes; i++)
            atomic_store(&match->nodes[i].money->latest, match->now);
        money_until(&match->nodes[0], all_renewed(match));
    }
}

static void play(struct match *match)
{
    for (int step = 0; step < STEPS; step++) {
        if (match->n_running == OPEN_MAX ||
            (match->n_running > 0 && draw_chance(&match->draw, 40)))
            settle_both(match);
        else
            reserve_both(match, step);
        if (draw_chance(&match->draw, 6))
            pass_time(match);
    }
    print_message("# %zu admitted, %zu of them with less, %zu refused for good, %zu contended\n",
                  match->admitted, match->cut, match->spent, match->contended);
    assert_true(match->admitted > STEPS / 12 && match->spent > 20 && match->contended > 0);
    assert_true(match->cut > 0);
}

static void match_open(struct match *match, uint64_t stream, size_t n_nodes, size_t everyone)
{
    memset(match, 0, sizeof *match);
    net_redis_do(&server, "FLUSHALL");
    match->draw = draw_stream(seed, stream);
    match->now = NOW;
    match->n_nodes = n_nodes;
    money_world_init(&match->world);
    add_keys(match);
    match->world.tree.n_budgets = everyone;
    match->world.everyone[0].amount = 900000;
    match->world.team_a[1].amount = 250000;
    match->world.product[0].amount = 150000;
    match->bank = money_books(NULL, &match->world, NOW);
    for (size_t i = 0; i < n_nodes; i++) {
        struct remote_money_options options;
        char id[24];
        snprintf(id, sizeof id, "n%zu", i);
        money_options(&options, id, 0xa0 + i);
        options.period = 1;
        money_node_open_with(&match->nodes[i], i > 0 ? match->nodes[0].kit.loop : NULL, &server,
                             money_books(NULL, &match->world, NOW), &options);
    }
}

static void match_close(struct match *match)
{
    for (size_t i = 0; i < match->n_nodes; i++)
        money_node_kill(&match->nodes[i]);
    net_loop_free(match->nodes[0].kit.loop);
    spending_free(match->bank);
}

static void one_node_decides_as_the_bank_does_also_for_everyone(void **state)
{
    struct match match;
    (void)state;

    match_open(&match, 1, 1, 2);
    play(&match);
    match_close(&match);
}

static void three_nodes_decide_together_as_one_bank_does(void **state)
{
    struct match match;
    (void)state;

    match_open(&match, 2, NODES, 0);
    play(&match);
    match_close(&match);
}

static void one_shadow_budget_of_everyone_counts_and_refuses_nothing(void **state)
{
    struct match match;
    (void)state;

    match_open(&match, 3, 1, 2);
    match.world.everyone[1].mode = TG_SHADOW;
    struct tg_problem problem;
    assert_true(spending_change(match.bank, &match.world.tree, NOW, &problem));
    assert_true(spending_change(match.nodes[0].spending, &match.world.tree, NOW, &problem));
    play(&match);
    match_close(&match);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_decides_as_the_bank_does_also_for_everyone),
        cmocka_unit_test(three_nodes_decide_together_as_one_bank_does),
        cmocka_unit_test(one_shadow_budget_of_everyone_counts_and_refuses_nothing),
    };

    return cmocka_run_group_tests(tests, start, stop_redis);
}
