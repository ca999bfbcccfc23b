/* own_allocator.c - all memory of the library comes from the allocator that the program has set,
 * goes back there, and may be refused.
 *
 *     own_allocator CASE        exits 0 if the case holds
 *     own_allocator             lists the cases
 *
 * An allocator is set once for a process, so each case is one. Built by own_allocator.sh.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tollgate.h>

#define NOW 1000000
#define CALLS 3000 /* more than what any table begins with */

static int failures;

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition)

/* ---- an allocator that knows its own blocks ---- */

struct books {
    long live, allocations;
    long until_failure; /* allocations until one fails; below 0: none does */
};

/* Before each block, and of a size that keeps it aligned. */
union head {
    struct {
        uint64_t mark;
        size_t size;
    } of;
    max_align_t aligned;
};

#define MARK UINT64_C(0x746f6c6c67617465)

static void *book_malloc(void *context, size_t size)
{
    struct books *books = context;
    union head *head;

    books->allocations++;
    if (books->until_failure >= 0 && books->until_failure-- == 0)
        return NULL;
    head = malloc(sizeof *head + size);
    if (!head)
        abort();
    head->of.mark = MARK;
    head->of.size = size;
    books->live++;
    return memset(head + 1, 0xa5, size); /* what is not set to 0 is not 0 */
}

static void book_free(void *context, void *block)
{
    struct books *books = context;
    union head *head = (union head *)block - 1;

    if (block == NULL || head->of.mark != MARK)
        abort(); /* it is not one of ours */
    head->of.mark = 0;
    books->live--;
    free(head);
}

static void *book_calloc(void *context, size_t n, size_t size)
{
    void *block;

    if (size > 0 && n > SIZE_MAX / size)
        return NULL;
    block = book_malloc(context, n * size);
    return block ? memset(block, 0, n * size) : NULL;
}

static void *book_realloc(void *context, void *block, size_t size)
{
    void *larger = book_malloc(context, size);

    if (larger && block) {
        size_t old = ((union head *)block - 1)->of.size;
        memcpy(larger, block, old < size ? old : size);
        book_free(context, block);
    }
    return larger;
}

static struct books books = {.until_failure = -1};

static enum tg_err set_books(struct tg_problem *problem)
{
    struct tg_allocator allocator;

    tg_allocator_init(&allocator);
    allocator.malloc = book_malloc;
    allocator.calloc = book_calloc;
    allocator.realloc = book_realloc;
    allocator.free = book_free;
    allocator.context = &books;
    return tg_set_allocator(&allocator, problem);
}

/* ---- a life of every object ---- */

/* Errors of memory that it was told of; any other is a failure of the test. */
static long told;

static bool fine(enum tg_err err)
{
    EXPECT(err == TG_OK || err == TG_ERR_MEMORY);
    told += err != TG_OK;
    return err == TG_OK;
}

static void ignore_wake(void *context, void *waiter)
{
    (void)context;
    (void)waiter;
}

static void live_in_a_gate(struct tg_store *store, tg_limits set, struct tg_policy *policy)
{
    static struct tg_answer answers[CALLS];
    struct tg_gate_config config;
    struct tg_gate *gate;
    struct tg_call call;
    char name[16];

    tg_gate_config_init(&config);
    config.store = store;
    config.policy = policy;
    config.peers.on = true;
    config.concurrency.on = true;
    config.concurrency.queue_size = CALLS;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 1000;
    config.concurrency.law.max = CALLS / 2;
    config.concurrency.law.initial = CALLS / 2;
    config.wake = ignore_wake;
    if (!fine(tg_gate_new(&config, &gate, NULL)))
        return;
    for (int i = 0; i < CALLS; i++) {
        struct tg_scope scope = {.limits = set, .key = name};
        answers[i].lease = 0;
        scope.key_bytes = (size_t)snprintf(name, sizeof name, "%d", i % 1000);
        tg_call_init(&call);
        call.peer = call.tenant = name;
        call.peer_bytes = call.tenant_bytes = scope.key_bytes;
        call.debit.scopes = &scope;
        call.debit.n_scopes = 1;
        call.debit.cost = 3;
        (void)fine(tg_gate_admit(gate, &call, 0, NOW + i / 100, &answers[i]));
    }
    for (int i = 0; i < CALLS; i++)
        if (answers[i].lease)
            EXPECT(tg_gate_release(gate, answers[i].lease, NOW + 100, NULL));
    config.concurrency.law.max = CALLS;
    (void)fine(tg_gate_reconfigure(gate, &config, NOW + 100, NULL));
    tg_gate_free(gate);
}

static void live_with_a_policy(struct tg_store *store, tg_limits set)
{
    struct tg_bid_config config;
    struct tg_policy *policy;
    struct tg_type types[2];
    struct tg_duals duals;
    double fractions[2];

    tg_bid_config_init(&config);
    for (int prices = TG_PRICES_ADAPTIVE; prices <= TG_PRICES_ONLINE; prices++) {
        config.prices = (enum tg_prices)prices;
        config.duals.rate = 0.1;
        config.workload.arrivals = 100;
        config.workload.rate_budget = 50;
        config.workload.cost_budget = 1000;
        config.online.rate_budget = 100;
        if (fine(tg_bid_new(&config, &policy, NULL))) {
            live_in_a_gate(store, set, policy);
            tg_bid_free(policy);
        }
    }
    tg_workload_init(&config.workload);
    for (int i = 0; i < 2; i++) {
        tg_type_init(&types[i]);
        types[i].value = i + 1;
    }
    config.workload.types = types;
    config.workload.n_types = 2;
    config.workload.arrivals = 10;
    config.workload.rate_budget = 5;
    config.workload.cost_budget = 5;
    (void)fine(tg_fluid_solve(&config.workload, &duals, fractions, NULL, NULL));
}

static void live_in_a_store(void)
{
    struct tg_store_config config;
    struct tg_limiter_config limiter;
    struct tg_limit limits[2] = {{.axis = TG_AXIS_RATE}, {.axis = TG_AXIS_COST}};
    struct tg_redefinition change = {.limits = limits, .n = 2};
    struct tg_store *store;
    tg_limits set;

    tg_store_config_init(&config);
    EXPECT(tg_limiter_config_parse(&limiter, "sliding_log:limit=1000,window=1000", NULL) == TG_OK);
    EXPECT(tg_limiter_init(&limits[0].limiter, &limiter, NULL) == TG_OK);
    EXPECT(tg_limiter_config_parse(&limiter, "token_bucket:capacity=90000,refill=9", NULL) ==
           TG_OK);
    EXPECT(tg_limiter_init(&limits[1].limiter, &limiter, NULL) == TG_OK);
    if (!fine(tg_store_new(&config, &store, NULL)))
        return;
    if (fine(tg_store_define(store, limits, 2, &set, NULL))) {
        live_with_a_policy(store, set);
        change.set = set;
        (void)fine(tg_store_redefine(store, &change, 1, NOW + 200, NULL));
    }
    tg_store_free(store);
}

static void live_in_a_ring(void)
{
    struct tg_key_spec keys[40];
    char names[40][8];
    struct tg_pool_spec pool;
    struct tg_keyring_spec spec;
    struct tg_keyring *ring;
    struct tg_key_call call;
    static struct tg_key_answer answers[500];

    tg_pool_spec_init(&pool);
    tg_keyring_spec_init(&spec);
    tg_key_call_init(&call);
    memset(keys, 0, sizeof keys);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        keys[i].name = names[i];
        keys[i].limits.concurrency = 20;
    }
    pool.provider = "p";
    pool.model = "m";
    pool.keys = keys;
    pool.n_keys = 30;
    spec.pools = &pool;
    spec.n_pools = 1;
    if (!fine(tg_keyring_new(&spec, &ring, NULL)))
        return;
    for (int i = 0; i < 500; i++)
        tg_pool_acquire(tg_keyring_pool(ring, "p", "m"), &call, NOW, &answers[i]);
    pool.n_keys = 40;
    (void)fine(tg_keyring_change(ring, &spec, NOW, NULL));
    for (int i = 0; i < 500; i++)
        if (answers[i].lease)
            EXPECT(tg_keyring_release(ring, answers[i].lease, NOW, NULL));
    tg_keyring_free(ring);
}

static void live_in_a_bank(void)
{
    static tg_reservation reservations[700];
    const struct tg_budget budget = {.amount = 1000000, .per = TG_PER_DAY};
    struct tg_bank_config config;
    struct tg_money_answer answer;
    struct tg_bank *bank;
    tg_account account;
    char name[16];

    tg_bank_config_init(&config);
    config.max_accounts = 1000;
    if (!fine(tg_bank_new(&config, &bank, NULL)))
        return;
    for (int i = 0; i < 700; i++) {
        reservations[i] = 0;
        snprintf(name, sizeof name, "%d", i);
        if (fine(
                tg_bank_open(bank, 0, name, strlen(name), &budget, 1, NOW, &account, NULL, NULL)) &&
            fine(tg_bank_reserve(bank, account, 5, false, NOW, &answer)))
            reservations[i] = answer.reservation;
    }
    for (int i = 0; i < 700; i++)
        if (reservations[i])
            EXPECT(tg_bank_settle(bank, reservations[i], 3, NULL));
    tg_bank_free(bank);
}

static void live(void)
{
    live_in_a_store();
    live_in_a_ring();
    live_in_a_bank();
}

/* ---- cases ---- */

static void everything_comes_from_it(void)
{
    EXPECT(set_books(NULL) == TG_OK);
    live();
    EXPECT(books.allocations > 100);
    EXPECT(told == 0);
    EXPECT(books.live == 0);
}

/* Each of the first allocations fails once, and one of the later ones now and then. */
static void any_may_fail(void)
{
    long nth = 0;

    EXPECT(set_books(NULL) == TG_OK);
    do {
        books.allocations = 0;
        books.until_failure = nth;
        live();
        EXPECT(books.live == 0);
        nth += nth < 60 ? 1 : 37;
    } while (books.allocations > nth);
    EXPECT(nth > 100 && told > 60);
}

static void it_is_set_once(void)
{
    struct tg_problem problem = {""};

    EXPECT(set_books(NULL) == TG_OK);
    EXPECT(set_books(&problem) == TG_ERR_INVALID);
    EXPECT(strstr(problem.text, "it was set before") != NULL);
}

static void it_is_not_set_late(void)
{
    struct tg_store_config config;
    struct tg_problem problem = {""};
    struct tg_store *store;

    tg_store_config_init(&config);
    EXPECT(tg_store_new(&config, &store, NULL) == TG_OK);
    tg_store_free(store);
    EXPECT(set_books(&problem) == TG_ERR_INVALID);
    EXPECT(strstr(problem.text, "something was allocated before") != NULL);
    live();
    EXPECT(books.allocations == 0 && told == 0);
}

static void it_has_to_be_whole(void)
{
    struct tg_allocator allocator = {0};
    struct tg_problem problem = {""};

    EXPECT(tg_set_allocator(NULL, &problem) == TG_ERR_NULL);
    EXPECT(tg_set_allocator(&allocator, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(strstr(problem.text, "tg_allocator_init()") != NULL);
    tg_allocator_init(&allocator);
    allocator.malloc = book_malloc;
    allocator.calloc = book_calloc;
    allocator.free = book_free;
    EXPECT(tg_set_allocator(&allocator, &problem) == TG_ERR_NULL);
    EXPECT(strstr(problem.text, "realloc is null") != NULL);
    EXPECT(set_books(NULL) == TG_OK); /* none of these was set */
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"everything_comes_from_it", everything_comes_from_it},
    {"any_may_fail", any_may_fail},
    {"it_is_set_once", it_is_set_once},
    {"it_is_not_set_late", it_is_not_set_late},
    {"it_has_to_be_whole", it_has_to_be_whole},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc == 1) {
            puts(cases[i].name);
        } else if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return failures != 0;
        }
    return argc != 1;
}
