/* fuzz_solve.c - any bytes as a workload: a solution that is the best, or a message.
 *
 * The text is read twice, from a block that ends where it ends and from one with bytes behind it
 * that must not matter. What is a workload is solved, and the solution must prove itself: no plan
 * is worth more than its prices say, and its own plan is worth that.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/solve_input.h"
#include "insist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answer {
    struct tg_duals duals;
    double x[TG_TYPES_MAX];
    double objective;
};

/* The fuzzer likes numbers that are 10^33 apart, where less is left of a double. */
#define TOLERANCE 1e-6
#define ROUNDING 1e-14

static double hold_of(const struct tg_type *type)
{
    return type->hold_s > 0 ? type->hold_s : 0;
}

static void check_fits(const struct tg_workload *workload, const struct answer *answer,
                       double share)
{
    double calls = 0, cost = 0, hold = 0;

    for (size_t i = 0; i < workload->n_types; i++) {
        double n = workload->types[i].weight * share * answer->x[i];
        insist(answer->x[i] >= 0 && answer->x[i] <= 1);
        calls += n;
        cost += n * workload->types[i].cost;
        hold += n * hold_of(&workload->types[i]);
    }
    insist(calls <= workload->rate_budget * (1 + TOLERANCE));
    insist(cost <= workload->cost_budget * (1 + TOLERANCE));
    insist(workload->conc_budget_s == 0 || hold <= workload->conc_budget_s * (1 + TOLERANCE));
}

static void check_best(const struct tg_workload *workload, const struct answer *answer,
                       double share)
{
    const struct tg_duals *p = &answer->duals;
    double worth = 0, rounding = 0;
    double dual = p->rate * workload->rate_budget + p->cost * workload->cost_budget +
                  p->concurrency * workload->conc_budget_s;

    for (size_t i = 0; i < workload->n_types; i++) {
        const struct tg_type *type = &workload->types[i];
        double bid = p->rate + p->cost * type->cost + p->concurrency * hold_of(type);
        worth += type->weight * share * type->value * answer->x[i];
        dual += type->weight * share * fmax(0, type->value - bid);
        rounding += ROUNDING * type->weight * share * type->value;
    }
    insist(p->rate >= 0 && p->cost >= 0 && p->concurrency >= 0);
    insist(fabs(dual - worth) <= TOLERANCE * dual + rounding);
    insist(fabs(answer->objective - worth) <= TOLERANCE * dual);
}

static void solve(const struct tg_workload *workload)
{
    struct answer answer;
    struct tg_problem problem;
    double sum = 0;

    if (tg_fluid_solve(workload, &answer.duals, answer.x, &answer.objective, &problem) != TG_OK) {
        insist(memchr(problem.text, '\0', sizeof problem.text) != NULL && problem.text[0] != '\0');
        return;
    }
    for (size_t i = 0; i < workload->n_types; i++)
        sum += workload->types[i].weight;
    double share = workload->arrivals > 0 ? workload->arrivals / sum : 1;
    check_fits(workload, &answer, share);
    check_best(workload, &answer, share);
}

/* The first byte stands behind the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *readers[2];
    static struct solve_input inputs[2];
    struct solve_problem problems[2];

    for (int i = 0; i < 2; i++)
        if (readers[i] == NULL)
            insist((readers[i] = json_reader_new()) != NULL);
    if (size == 0)
        return 0;
    size_t bytes = size - 1;
    char *exact = malloc(bytes);
    char *padded = malloc(bytes + JSON_PADDING);
    insist((exact != NULL || bytes == 0) && padded != NULL);
    if (bytes > 0) {
        memcpy(exact, data + 1, bytes);
        memcpy(padded, data + 1, bytes);
    }
    memset(padded + bytes, data[0], JSON_PADDING);

    bool first = solve_read(readers[0], exact, bytes, bytes, &inputs[0], &problems[0]);
    bool second =
        solve_read(readers[1], padded, bytes, bytes + JSON_PADDING, &inputs[1], &problems[1]);
    insist(first == second);
    if (first) {
        solve(&inputs[0].workload);
    } else {
        insist(problems[0].offset <= bytes && problems[0].text[0] != '\0');
        insist(problems[0].offset == problems[1].offset &&
               strcmp(problems[0].text, problems[1].text) == 0);
    }
    free(exact);
    free(padded);
    return 0;
}
