/* cmd_bench.c - `tollgate bench`: the core's own speed on this machine. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../bench/benches.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

static bool met(const struct bench *bench, const struct measured *result)
{
    return (isnan(result->ratio) ? result->value : result->ratio) <= bench->goal;
}

static void write_number_or_null(struct json_writer *out, const char *key, double value)
{
    json_write_key(out, key);
    json_write_double(out, round(value * 1000) / 1000);
}

static void write_json(struct json_writer *out, const struct bench *bench,
                       const struct measured *result)
{
    json_write_object(out);
    json_write_key(out, "name");
    json_write_string(out, bench->name, strlen(bench->name));
    write_number_or_null(out, "value", result->value);
    json_write_key(out, "unit");
    json_write_string(out, bench->unit, strlen(bench->unit));
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

static int run_bench(const struct command *self, int argc, char **argv)
{
    bool json = false;
    const struct cli_option options[] = {{"--json", NULL, NULL, &json}};
    int rest = options_read(self, options, 1, argc, argv);
    struct json_writer out;

    if (rest < 0)
        return STATUS_WRONG;
    if (rest > 0) {
        command_say(self, "'%s' is too much; it takes --json and nothing else", argv[1]);
        return STATUS_WRONG;
    }
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
    .arguments = "[--json]",
    .summary = "measure the core's own speed on this machine",
    .help = "Every benchmark is measured in turns with its reference, in one run; what is printed\n"
            "is the median of the rounds. A goal is a bound for the ratio, or for the value where\n"
            "there is no reference. Nothing fails when a goal is missed.\n"
            "\n"
            "  --json  one object: {\"benches\":[{\"name\",\"value\",\"unit\",\"reference\",\n"
            "          \"ratio\",\"goal\"},...]}, null where there is no reference or no goal\n",
    .run = run_bench,
};
