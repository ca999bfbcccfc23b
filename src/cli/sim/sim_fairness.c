/* sim_fairness.c - `tollgate sim --scenario fair` and `limit-use`: tables and JSON. */
#include "cli/sim/sim_fairness.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/output.h"
#include "cli/sim/sim_scenario.h"
#include "io/text/json_member.h"
#include "lab/scenario/limit_use.h"

/* ---- Names ----------------------------------------------------------------------------------- */

/* Whether the first name of a list is this one. */
static bool begins_with_name(const char *list, const char *name)
{
    return strlen(name) == strcspn(list, ",") && memcmp(list, name, strlen(name)) == 0;
}

/* Null: it is none. */
static const struct fairness_mix *find_mix(const char *list)
{
    for (size_t i = 0; i < fairness_mixes_n; i++)
        if (begins_with_name(list, fairness_mixes[i].name))
            return &fairness_mixes[i];
    return NULL;
}

bool sim_is_fairness(const char *name)
{
    return begins_with_name(name, SIM_FAIRNESS_ALL) || find_mix(name) != NULL;
}

bool sim_is_limit_use(const char *name)
{
    return begins_with_name(name, SIM_LIMIT_USE);
}

void sim_fairness_list(void)
{
    for (size_t i = 0; i < fairness_mixes_n; i++)
        printf("%-16s %s\n", fairness_mixes[i].name, fairness_mixes[i].about);
    printf("%-16s %s\n", SIM_LIMIT_USE, "how much of a token limit is used under lasting demand");
}

/* ---- Fairness -------------------------------------------------------------------------------- */

static void print_interval(const struct scenario_figure *figure, int digits)
{
    char text[32] = "";

    if (!isnan(figure->half))
        snprintf(text, sizeof text, " +- %.*f", digits, figure->half);
    printf(" %8.*f%-9s", digits, figure->mean, text);
}

static void print_mix(const struct fairness_mix *mix, const struct scenario_law *law,
                      const struct fairness_result *result)
{
    printf("%s: %s\n  %s, %.1f %% of the slot time used", mix->name, mix->about, law->name,
           result->used.mean);
    if (mix->jain)
        printf(", Jain %.3f by work, %.3f by calls", result->jain_work.mean,
               result->jain_calls.mean);
    printf("\n  %-12s %17s %17s %12s\n", "flow", "admitted %", "slot time %", "mean wait ms");
    for (size_t i = 0; i < mix->n; i++) {
        printf("  %-12s", mix->flows[i].name);
        print_interval(&result->flows[i].admitted, 2);
        print_interval(&result->flows[i].share, 2);
        printf(" %12.1f\n", result->flows[i].wait_ms.mean);
    }
    putchar('\n');
}

static void write_mix(struct json_writer *out, const struct fairness_mix *mix,
                      const struct scenario_law *law, const struct fairness_result *result)
{
    json_write_object(out);
    json_member_text(out, "scenario", mix->name);
    json_member_text(out, "law", law->name);
    sim_scenario_write_figure(out, "slot_time_used", &result->used);
    if (mix->jain) {
        sim_scenario_write_figure(out, "jain_by_work", &result->jain_work);
        sim_scenario_write_figure(out, "jain_by_calls", &result->jain_calls);
    }
    json_write_key(out, "flows");
    json_write_array(out);
    for (size_t i = 0; i < mix->n; i++) {
        json_write_object(out);
        json_member_text(out, "flow", mix->flows[i].name);
        sim_scenario_write_figure(out, "admitted", &result->flows[i].admitted);
        sim_scenario_write_figure(out, "slot_time", &result->flows[i].share);
        sim_scenario_write_figure(out, "mean_wait_ms", &result->flows[i].wait_ms);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    json_write_object_end(out);
}

static void begin_rows(struct json_writer *out, const struct sim_fairness_asked *asked)
{
    json_writer_init(out);
    json_write_object(out);
    json_member_number(out, "seed", (int64_t)asked->seed);
    json_member_number(out, "seeds", (int64_t)asked->seeds);
    json_write_key(out, "rows");
    json_write_array(out);
}

/* Ends what begin_rows() has begun, and sends it if there was no error. */
static int end_rows(const struct command *command, const struct sim_fairness_asked *asked,
                    struct json_writer *out, enum tg_err err, const struct tg_problem *problem)
{
    int status = STATUS_DONE;

    if (err) {
        command_say(command, "%s", problem->text[0] != '\0' ? problem->text : tg_strerror(err));
        status = STATUS_FAILED;
    } else if (asked->json) {
        json_write_array_end(out);
        json_write_object_end(out);
        json_write_line_end(out);
        if (!output_send(out))
            status = output_failed(command);
    }
    json_writer_fini(out);
    return status;
}

/* The mixes that are asked for; 0 after saying which name is none. */
static size_t read_mixes(const struct command *command, const char *names,
                         const struct fairness_mix **mixes, size_t max)
{
    size_t n = 0;

    if (strcmp(names, SIM_FAIRNESS_ALL) == 0) {
        for (n = 0; n < fairness_mixes_n && n < max; n++)
            mixes[n] = &fairness_mixes[n];
        return n;
    }
    for (const char *name = names; name != NULL && n < max;) {
        size_t bytes = strcspn(name, ",");
        mixes[n] = find_mix(name);
        if (mixes[n++] == NULL) {
            command_say(command,
                        "'%.*s' is not a mix of tenants, and kinds of scenarios cannot be mixed",
                        (int)bytes, name);
            return 0;
        }
        name = name[bytes] == ',' ? name + bytes + 1 : NULL;
    }
    return n;
}

int sim_run_fairness(const struct command *command, const struct sim_fairness_asked *asked)
{
    enum { MIXES_MAX = 32 };
    const struct fairness_mix *mixes[MIXES_MAX];
    size_t n = read_mixes(command, asked->names, mixes, MIXES_MAX);
    struct tg_problem problem = {{0}};
    struct json_writer out;
    enum tg_err err = TG_OK;

    if (n == 0)
        return STATUS_WRONG;
    for (size_t i = 0; i < asked->n_laws; i++)
        if (asked->laws[i].law.law != TG_LAW_FIXED) {
            command_say(command,
                        "mixes of tenants have no server to learn from: --law takes fixed, not %s",
                        asked->laws[i].name);
            return STATUS_WRONG;
        }
    begin_rows(&out, asked);
    for (size_t i = 0; !err && i < n * asked->n_laws; i++) {
        const struct fairness_mix *mix = mixes[i / asked->n_laws];
        const struct scenario_law *law = &asked->laws[i % asked->n_laws];
        struct fairness_result result;
        err = fairness_run(mix, law, asked->seed, asked->seeds, &result, &problem);
        if (asked->progress != NULL)
            asked->progress(NULL, i + 1, n * asked->n_laws);
        if (!err && asked->json)
            write_mix(&out, mix, law, &result);
        else if (!err)
            print_mix(mix, law, &result);
    }
    return end_rows(command, asked, &out, err, &problem);
}

/* ---- Limit use ------------------------------------------------------------------------------- */

static void print_use(const struct limit_use *use)
{
    printf("%-15s %10.2f %7.1f %9" PRId64, tg_strategy_name(use->strategy), use->used_part,
           use->hold_s, use->capacity);
    print_interval(&use->use, 2);
    printf(" %7.2f %10.2f %10.2f\n", use->use.lowest, use->most_over.highest,
           use->most_over_charge.highest);
}

static void write_use(struct json_writer *out, const struct limit_use *use)
{
    json_write_object(out);
    json_member_text(out, "scenario", SIM_LIMIT_USE);
    json_member_text(out, "limiter", tg_strategy_name(use->strategy));
    json_member_real(out, "used_part", use->used_part);
    json_member_real(out, "call_s", use->hold_s);
    json_member_number(out, "capacity", use->capacity);
    sim_scenario_write_figure(out, "use", &use->use);
    sim_scenario_write_figure(out, "most_over_capacities", &use->most_over);
    sim_scenario_write_figure(out, "most_over_promise_capacities", &use->most_over_charge);
    json_write_object_end(out);
}

int sim_run_limit_use(const struct command *command, const struct sim_fairness_asked *asked)
{
    struct tg_problem problem = {{0}};
    struct json_writer out;
    enum tg_err err = TG_OK;

    if (strcmp(asked->names, SIM_LIMIT_USE) != 0) {
        command_say(command, "kinds of scenarios cannot be mixed: run %s by itself", SIM_LIMIT_USE);
        return STATUS_WRONG;
    }
    begin_rows(&out, asked);
    if (!asked->json)
        printf("use of a limit of 1000 tokens a second by calls that ask for 200 each, in %%; the "
               "most used in\nany span above its refill, in capacities, and above what calls in "
               "flight use above their charge\n\n%-15s %10s %7s %9s %17s %7s %10s %10s\n",
               "limiter", "used/asked", "call s", "capacity", "use", "worst", "most over",
               "promise");
    for (size_t i = 0; !err && i < LIMIT_USE_CASES; i++) {
        struct limit_use use;
        err = limit_use_run(i, asked->seed, asked->seeds, &use, &problem);
        if (asked->progress != NULL)
            asked->progress(NULL, i + 1, LIMIT_USE_CASES);
        if (!err && asked->json)
            write_use(&out, &use);
        else if (!err)
            print_use(&use);
    }
    return end_rows(command, asked, &out, err, &problem);
}
