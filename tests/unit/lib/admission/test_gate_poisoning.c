/* test_gate_poisoning.c - refusals after the slot are no samples.
 *
 * A slot that is given back because a later stage refuses says nothing of latency. As samples of no
 * length they would become the baseline that no real call can meet, and the limit would fall to its
 * minimum: 20 ms of service, 6 arrivals a ms, 5 % refused after the slot took it from 240 to 4.
 * Here the same load runs with and without such refusals, under every law.
 */
#include <string.h>

#include "draw.h"
#include "gate_kit.h"

enum { SERVICE_MS = 20,
       ARRIVALS_PER_MS = 6 };
enum { DENIED_PERCENT = 5,
       LEASES_MAX = 1024 };

enum kind { NOT_DENIED,
            DENIED_BY_POLICY,
            DENIED_BY_COST,
            DENIED_ELSEWHERE_LATER };

/* Calls that end at one time, by that time. */
struct ending {
    tg_lease leases[LEASES_MAX];
    int n;
};

struct load {
    struct gate_log log;
    struct tg_gate *gate;
    struct tg_store *store;
    struct tg_scope scope;
    enum kind kind;
    struct draw draw;
    struct ending finished[SERVICE_MS + 1];
    struct ending answered[2]; /* by a store elsewhere, with a no, 1 ms later */
    double sum;
    int64_t n;
};

static void load_open(struct load *load, enum tg_law law, enum kind kind)
{
    struct tg_gate_config config = gate_config(&load->log);

    memset(load, 0, sizeof *load);
    load->kind = kind;
    load->draw = draw_stream(7, 0);
    load->store = must_store((size_t)64 * 1024, 1);
    /* It takes nobody: the calls that ask for it cost 2. */
    load->scope = scope_of(
        must_define_one(load->store, TG_AXIS_COST, "fixed_window:limit=1,window=1000"), "key");
    config.concurrency.on = true;
    config.concurrency.law.law = law;
    config.concurrency.law.initial = 100;
    config.concurrency.law.min = 4;
    config.concurrency.law.max = 512;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = 0;
    config.remote_store = kind == DENIED_ELSEWHERE_LATER;
    config.store = config.remote_store ? NULL : load->store;
    gate_config_policy(&config);
    load->gate = must_gate(&config);
}

static void add(struct ending *ending, tg_lease lease)
{
    assert_true(ending->n < LEASES_MAX);
    ending->leases[ending->n++] = lease;
}

static void arrive(struct load *load, tg_ms now)
{
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    bool denied = draw_chance(&load->draw, DENIED_PERCENT) && load->kind != NOT_DENIED;

    load->log.worthless = denied && load->kind == DENIED_BY_POLICY;
    if (denied && load->kind >= DENIED_BY_COST)
        call.debit = debit_of(&load->scope, 2);
    struct tg_answer answer = must_admit(load->gate, &call, now);
    if (answer.step == TG_NEEDS_STORE)
        add(&load->answered[(now + 1) % 2], answer.lease);
    else if (answer.decision.allowed)
        add(&load->finished[(now + SERVICE_MS) % (SERVICE_MS + 1)], answer.lease);
}

static void end_calls(struct load *load, tg_ms now)
{
    struct ending *done = &load->finished[now % (SERVICE_MS + 1)];
    struct ending *no = &load->answered[now % 2];
    struct tg_axes axes = {.present = 1u << TG_AXIS_COST};
    struct tg_answer answer;

    for (int i = 0; i < done->n; i++)
        assert_true(finish(load->gate, done->leases[i], now));
    axes.decision[TG_AXIS_COST] = DENIED(1, 1, now, 50);
    for (int i = 0; i < no->n; i++)
        assert_int_equal(
            tg_gate_store_answered(load->gate, no->leases[i], TG_OK, &axes, now, &answer), TG_OK);
    done->n = no->n = 0;
}

/* Vegas takes a minute until it measures its baseline again: it runs long enough to do so. */
static tg_ms run_ms(enum tg_law law)
{
    return law == TG_LAW_VEGAS ? 150000 : 20000;
}

/* The mean limit over the second half. */
static double mean_limit(enum tg_law law, enum kind kind)
{
    static struct load load;

    load_open(&load, law, kind);
    for (tg_ms now = 0; now < run_ms(law); now++) {
        end_calls(&load, now);
        for (int i = 0; i < ARRIVALS_PER_MS; i++)
            arrive(&load, now);
        if (now < run_ms(law) / 2)
            continue;
        load.sum += (double)stats_of_gate(load.gate).limit;
        load.n++;
    }
    tg_gate_free(load.gate);
    tg_store_free(load.store);
    return load.sum / (double)load.n;
}

static void refusals_after_the_slot_leave_the_limit_where_it_is(void **state)
{
    static const char *const kinds[] = {"none", "by policy", "by cost", "elsewhere, 1 ms later"};
    (void)state;

    for (int law = 0; law < TG_LAW_COUNT; law++) {
        double without = mean_limit((enum tg_law)law, NOT_DENIED);
        for (int kind = DENIED_BY_POLICY; kind <= DENIED_ELSEWHERE_LATER; kind++) {
            double with = mean_limit((enum tg_law)law, (enum kind)kind);
            print_message("%s: %.1f without, %.1f with 5 %% refused %s\n",
                          tg_law_name((enum tg_law)law), without, with, kinds[kind]);
            /* auto has a leash while the limit does not bind: it may be anything above the load. */
            if (!(with > 0.9 * without && (law == TG_LAW_AUTO || with < 1.1 * without)))
                fail_msg("%s moved from %.1f to %.1f", tg_law_name((enum tg_law)law), without,
                         with);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_after_the_slot_leave_the_limit_where_it_is),
    };
    return cmocka_run_group_tests_name("gate_poisoning", tests, NULL, NULL);
}
