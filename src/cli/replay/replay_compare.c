/* replay_compare.c - `tollgate replay -c --compare`: where two configurations decide differently.
 *
 * Both gates are told the same events at the same times. A call is counted when both have decided
 * it, under its tenant, if one of the configurations knows it. A call that is released while it
 * waits was not admitted.
 *
 * The trace has happened under the first configuration, or one like it, and must make sense there.
 * Under the second an id may come again while its call is still open: one that the first has
 * refused, and that came back. It then stands for the later call; the earlier one ends by its time.
 */
#include "cli/replay/replay_modes.h"
#include "cli/replay/replay_side.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES_MAX = 3 };

/* What a side made of a call. */
struct verdict {
    bool decided;
    bool admitted;
    const char *reason; /* why not */
};

/* A call that was decided differently. */
struct example {
    uint64_t line;
    tg_ms t;
    struct verdict verdicts[2];
};

struct differences {
    uint64_t n;
    struct example first[EXAMPLES_MAX];
};

struct tally {
    const char *tenant;
    uint64_t calls;
    uint64_t admitted[2];
    struct differences refused, allowed; /* by the second, unlike the first */
};

/* A call on its way to two verdicts. */
struct pair {
    struct tally *tally;
    uint64_t line;
    tg_ms t;
    struct verdict verdicts[2];
    struct pair *next;
};

struct comparison {
    struct replay_side sides[2];
    struct tally *tallies; /* the first side's tenants, then the second's own, then the rest */
    size_t n_tallies;
    size_t *second; /* the tally of each of the second's tenants */
    struct pair *spare, *chunks;
};

/* ---- Pairs ----------------------------------------------------------------------------------- */

enum { PAIRS = 256 }; /* allocated at a time; the first of them links the chunks */

static bool add_pairs(struct comparison *comparison)
{
    struct pair *chunk = calloc(PAIRS, sizeof *chunk);

    if (chunk == NULL)
        return false;
    chunk[0].next = comparison->chunks;
    comparison->chunks = chunk;
    for (size_t i = 1; i < PAIRS; i++) {
        chunk[i].next = comparison->spare;
        comparison->spare = &chunk[i];
    }
    return true;
}

static struct pair *get_pair(struct comparison *comparison)
{
    if (comparison->spare == NULL && !add_pairs(comparison))
        return NULL;
    struct pair *pair = comparison->spare;
    comparison->spare = pair->next;
    return pair;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void replay_compare_note(struct differences *differences, const struct pair *pair)
{
    if (differences->n < EXAMPLES_MAX)
        differences->first[differences->n] =
            (struct example){pair->line, pair->t, {pair->verdicts[0], pair->verdicts[1]}};
    differences->n++;
}

static void replay_compare_count(struct pair *pair)
{
    struct tally *tally = pair->tally;
    bool first = pair->verdicts[0].admitted, second = pair->verdicts[1].admitted;

    tally->calls++;
    tally->admitted[0] += first;
    tally->admitted[1] += second;
    assert(pair->verdicts[0].decided && pair->verdicts[1].decided);
    if (first && !second)
        replay_compare_note(&tally->refused, pair);
    if (!first && second)
        replay_compare_note(&tally->allowed, pair);
}

static void replay_compare_decided(struct comparison *comparison, int side,
                                   const struct replay_call *call, const struct tg_answer *answer)
{
    struct pair *pair = call->tag;

    assert(!pair->verdicts[side].decided); /* a side decides once */
    pair->verdicts[side] = (struct verdict){
        .decided = true,
        .admitted = answer != NULL && answer->decision.allowed,
        .reason = answer != NULL ? tg_reason_name(answer->reason) : "released while it waited",
    };
    if (!pair->verdicts[1 - side].decided)
        return;
    replay_compare_count(pair);
    pair->next = comparison->spare;
    comparison->spare = pair;
}

static void first_decided(void *context, const struct replay_call *call,
                          const struct tg_answer *answer, tg_ms at)
{
    (void)at;
    replay_compare_decided(context, 0, call, answer);
}

static void second_decided(void *context, const struct replay_call *call,
                           const struct tg_answer *answer, tg_ms at)
{
    (void)at;
    replay_compare_decided(context, 1, call, answer);
}

/* ---- Tenants --------------------------------------------------------------------------------- */

static bool make_tallies(struct comparison *comparison)
{
    const struct config *first = &comparison->sides[0].config;
    const struct config *second = &comparison->sides[1].config;
    size_t n = 0;

    comparison->tallies =
        calloc(first->n_tenants + second->n_tenants + 1, sizeof comparison->tallies[0]);
    comparison->second = calloc(second->n_tenants + 1, sizeof comparison->second[0]);
    if (comparison->tallies == NULL || comparison->second == NULL)
        return false;
    for (; n < first->n_tenants; n++)
        comparison->tallies[n].tenant = first->tenants[n].name;
    for (size_t i = 0; i < second->n_tenants; i++) {
        const char *name = second->tenants[i].name;
        const struct config_tenant *same = config_tenant(first, name, strlen(name));
        comparison->second[i] = same != NULL ? (size_t)(same - first->tenants) : n;
        if (same == NULL)
            comparison->tallies[n++].tenant = name;
    }
    comparison->tallies[n++].tenant = "(no tenant)";
    assert(n <= first->n_tenants + second->n_tenants + 1);
    comparison->n_tallies = n;
    return true;
}

static struct tally *tally_of(const struct comparison *comparison, struct json_text key)
{
    const struct config *configs[2] = {&comparison->sides[0].config, &comparison->sides[1].config};
    const struct config_tenant *tenant = config_tenant(configs[0], key.bytes, key.size);

    if (tenant != NULL)
        return &comparison->tallies[tenant - configs[0]->tenants];
    tenant = config_tenant(configs[1], key.bytes, key.size);
    if (tenant != NULL)
        return &comparison->tallies[comparison->second[tenant - configs[1]->tenants]];
    return &comparison->tallies[comparison->n_tallies - 1];
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_row(const struct tally *tally, int width)
{
    printf("%-*s  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "\n",
           width, tally->tenant, tally->calls, tally->admitted[0], tally->admitted[1],
           tally->refused.n, tally->allowed.n);
}

static const char *say_verdict(const struct verdict *verdict)
{
    return verdict->admitted ? "admitted" : verdict->reason;
}

static void print_examples(const struct tally *tally, const struct differences *differences,
                           const char *what)
{
    if (differences->n == 0)
        return;
    printf("\n%s: %" PRIu64 " %s\n", tally->tenant, differences->n, what);
    for (size_t i = 0; i < EXAMPLES_MAX && i < differences->n; i++) {
        const struct example *example = &differences->first[i];
        printf("  line %" PRIu64 ", t %lld: %s -> %s\n", example->line, (long long)example->t,
               say_verdict(&example->verdicts[0]), say_verdict(&example->verdicts[1]));
    }
    if (differences->n > EXAMPLES_MAX)
        printf("  ...\n");
}

static void add_tally(struct tally *all, const struct tally *tally)
{
    all->calls += tally->calls;
    all->admitted[0] += tally->admitted[0];
    all->admitted[1] += tally->admitted[1];
    all->refused.n += tally->refused.n;
    all->allowed.n += tally->allowed.n;
}

static int width_of(const struct comparison *comparison)
{
    size_t width = strlen("tenant");

    for (size_t i = 0; i < comparison->n_tallies; i++)
        if (comparison->tallies[i].calls > 0 && strlen(comparison->tallies[i].tenant) > width)
            width = strlen(comparison->tallies[i].tenant);
    return width < 1000 ? (int)width : 1000;
}

/* Returns whether anything differs. */
static bool print_comparison(const struct comparison *comparison, const char *first,
                             const char *second)
{
    struct tally all = {.tenant = "all"};
    int width = width_of(comparison);

    printf("first:  %s\nsecond: %s\n\n%-*s  %10s  %10s  %10s  %10s  %10s\n", first, second, width,
           "tenant", "calls", "first", "second", "refused", "admitted");
    for (size_t i = 0; i < comparison->n_tallies; i++) {
        if (comparison->tallies[i].calls == 0)
            continue;
        print_row(&comparison->tallies[i], width);
        add_tally(&all, &comparison->tallies[i]);
    }
    assert(all.admitted[0] + all.allowed.n == all.admitted[1] + all.refused.n);
    print_row(&all, width);
    for (size_t i = 0; i < comparison->n_tallies; i++) {
        const struct tally *tally = &comparison->tallies[i];
        print_examples(tally, &tally->refused, "that only the first admits");
        print_examples(tally, &tally->allowed, "that only the second admits");
    }
    return all.refused.n + all.allowed.n > 0;
}

/* ---- The run --------------------------------------------------------------------------------- */

static int side_stopped(struct replay_input *input, const struct replay_side *side)
{
    return replay_input_stop(input, side->status, side->line, side->problem.text);
}

static int tell_both(struct comparison *comparison, struct replay_input *input,
                     const struct trace_event *event)
{
    struct tg_gate_stats stats;
    uint64_t number = input->lines.number;
    struct pair *pair = NULL;

    if (event->op == TRACE_ADMIT) {
        pair = get_pair(comparison);
        if (pair == NULL)
            return replay_input_stop(input, STATUS_FAILED, number, tg_strerror(TG_ERR_MEMORY));
        *pair =
            (struct pair){tally_of(comparison, event->call.key), number, event->call.t, {{0}}, 0};
    }
    for (int i = 0; i < 2; i++)
        if (!replay_side_event(&comparison->sides[i], event, number, pair, &stats))
            return side_stopped(input, &comparison->sides[i]);
    return STATUS_DONE;
}

static int tell_all(struct comparison *comparison, struct replay_input *input)
{
    struct trace_event event;
    struct tg_problem problem;
    struct line line;
    int status;

    while (replay_input_next(input, &line, &status)) {
        enum trace_result found = trace_read_event(input->reader, &line, &event, &problem);
        if (found == TRACE_WRONG)
            return replay_input_stop(input, STATUS_WRONG, input->lines.number, problem.text);
        if (found == TRACE_BLANK)
            continue;
        if (event.is_recorded)
            replay_input_warn(input);
        status = tell_both(comparison, input, &event);
        if (status != STATUS_DONE)
            return status;
    }
    for (int i = 0; i < 2 && status == STATUS_DONE; i++)
        if (!replay_side_finish(&comparison->sides[i]))
            return side_stopped(input, &comparison->sides[i]);
    return status;
}

static int replay_compare_compare(struct comparison *comparison, struct replay_input *input,
                                  const char *first, const char *second)
{
    if (!make_tallies(comparison)) {
        command_say(input->command, "%s", tg_strerror(TG_ERR_MEMORY));
        return STATUS_FAILED;
    }
    comparison->sides[1].ids_may_repeat = true;
    int status = tell_all(comparison, input);
    if (status == STATUS_DONE && print_comparison(comparison, first, second))
        status = STATUS_FAILED;
    return status;
}

static void free_pairs(struct comparison *comparison)
{
    while (comparison->chunks != NULL) {
        struct pair *chunk = comparison->chunks;
        comparison->chunks = chunk->next;
        free(chunk);
    }
}

int replay_by_both(struct replay_input *input, const char *first, const char *second, uint64_t seed,
                   struct replay_store *first_store, struct replay_store *second_store)
{
    struct comparison comparison = {.n_tallies = 0};
    bool good[2] = {
        replay_side_init(&comparison.sides[0], input->command, first, seed, first_store,
                         first_decided, &comparison),
        replay_side_init(&comparison.sides[1], input->command, second, seed, second_store,
                         second_decided, &comparison),
    };
    int status;

    if (good[0] && good[1])
        status = replay_compare_compare(&comparison, input, first, second);
    else
        status = comparison.sides[good[0] ? 1 : 0].status;
    for (int i = 0; i < 2; i++)
        replay_side_fini(&comparison.sides[i]);
    free_pairs(&comparison);
    free(comparison.tallies);
    free(comparison.second);
    return status;
}
