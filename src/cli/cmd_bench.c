/* cmd_bench.c - `tollgate bench`: the core's own speed on this machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../bench/bench_redis.h"
#include "../../bench/benches.h"
#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/common/output.h"
#include "io/text/json_member.h"

static bool met(const struct bench *bench, const struct measured *result)
{
    return (isnan(result->ratio) ? result->value : result->ratio) <= bench->goal;
}

static void write_number_or_null(struct json_writer *out, const char *key, double value)
{
    json_member_real(out, key, round(value * 1000) / 1000);
}

static void write_json(struct json_writer *out, const struct bench *bench,
                       const struct measured *result)
{
    json_write_object(out);
    json_member_text(out, "name", bench->name);
    write_number_or_null(out, "value", result->value);
    json_member_text(out, "unit", bench->unit);
    write_number_or_null(out, "reference", result->reference);
    write_number_or_null(out, "ratio", result->ratio);
    write_number_or_null(out, "goal", bench->goal);
    json_write_object_end(out);
}

static void print_row(const struct bench *bench, const struct measured *result)
{
    printf("%-20s %8.1f %-3s", bench->name, result->value, bench->unit);
    if (isnan(result->ratio))
        printf("%28s", "");
    else
        printf(" %7.1f %6.2fx (%.2f-%.2f)", result->reference, result->ratio, result->low,
               result->high);
    if (isnan(bench->goal))
        printf("  %-14s", "");
    else
        printf("  %-6s <= %-4g", met(bench, result) ? "met" : "MISSED", bench->goal);
    printf("  %s\n", bench->what);
    fflush(stdout);
}

static const struct bench *const groups[] = {benches_of_store, benches_of_gate,  benches_of_policy,
                                             benches_of_keys,  benches_of_money, benches_of_metrics,
                                             benches_of_config};

/* A whole number from 1 on; 0 after saying that it is none. */
static int read_count(const struct command *self, const char *name, const char *text, int max)
{
    char *rest;
    long value = strtol(text, &rest, 10);

    if (*text >= '0' && *text <= '9' && *rest == '\0' && value >= 1 && value <= max)
        return (int)value;
    command_say(self, "%s is '%s'; it must be a whole number from 1 to %d", name, text, max);
    return 0;
}

/* Decisions a second, on a line. */
static int run_on_redis(const struct command *self, const char *url, const char *depth_text,
                        bool two_tier)
{
    int depth = depth_text != NULL ? read_count(self, "--depth", depth_text, 1000) : 1;
    struct tg_problem problem;
    double per_second;
    bool good;

    if (depth == 0)
        return STATUS_WRONG;
    if (strcmp(url, "words") == 0) {
        bench_redis_print_commands();
        return STATUS_DONE;
    }
    good = two_tier ? bench_redis_blocks(url, 3, &per_second, &problem)
                    : bench_redis_run(url, depth, 3, &per_second, &problem);
    if (!good) {
        command_say(self, "--redis: %s", problem.text);
        return STATUS_FAILED;
    }
    printf("%.0f\n", per_second);
    return STATUS_DONE;
}

static int run_bench(const struct command *self, int argc, char **argv)
{
    bool json = false, two_tier = false;
    const char *redis = NULL, *depth = NULL;
    const struct cli_option options[] = {
        {"--json", NULL, NULL, &json},
        {"--redis", "URL", &redis, NULL},
        {"--depth", "N", &depth, NULL},
        {"--two-tier", NULL, NULL, &two_tier},
    };
    int rest = options_read(self, options, 4, argc, argv);
    struct json_writer out;

    if (rest < 0)
        return STATUS_WRONG;
    if (rest > 0) {
        command_say(self, "unexpected argument '%s'; only options are allowed", argv[1]);
        return STATUS_WRONG;
    }
    if (redis != NULL)
        return run_on_redis(self, redis, depth, two_tier);
    json_writer_init(&out);
    json_write_object(&out);
    json_write_key(&out, "benches");
    json_write_array(&out);
    if (!json)
        printf("%-20s %8s %-3s %7s %7s (quartiles)  %-14s\n", "name", "value", "", "ref", "ratio",
               "goal");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        for (const struct bench *bench = groups[i]; bench->name; bench++) {
            struct measured result = bench->run();
            if (json)
                write_json(&out, bench, &result);
            else
                print_row(bench, &result);
        }
    json_write_array_end(&out);
    json_write_object_end(&out);
    json_write_line_end(&out);
    bool sent = !json || output_send(&out);
    json_writer_fini(&out);
    return sent ? STATUS_DONE : output_failed(self);
}

const struct command cmd_bench = {
    .name = "bench",
    .arguments = "[--json | --redis URL [--depth N | --two-tier]]",
    .summary = "measure the core's own speed on this machine",
    .help = "Every benchmark is measured in turns with its reference, in one run; what is printed\n"
            "is the median of the rounds. A goal is a bound for the ratio, or for the value where\n"
            "there is no reference. Nothing fails when a goal is missed.\n"
            "\n"
            "  --json  one object: {\"benches\":[{\"name\",\"value\",\"unit\",\"reference\",\n"
            "          \"ratio\",\"goal\"},...]}, null where there is no reference or no goal\n"
            "\n"
            "With --redis URL nothing of this is measured, but decisions of Redis through one\n"
            "connection: how many a second, printed alone, with --depth N (1) of them on their\n"
            "way; or with --two-tier, decided here with units that are leased in blocks. `--redis\n"
            "words` prints the command that each of them is. tools/bench-redis compares with\n"
            "redis-benchmark.\n",
    .run = run_bench,
};
