/* cmd_regret.c - `tollgate regret`: how much each policy forgoes, on worlds that are known. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/common/output.h"
#include "cli/common/replace_file.h"
#include "cli/regret_output.h"

#define SEEDS_MAX 10000

struct asked {
    const char *suite_name, *plot, *seed, *seeds;
    bool json;
    const struct regret_suite *suite;
    struct regret_options options;
};

/* ---- The command line ------------------------------------------------------------------------ */

static bool cmd_regret_read_whole(const struct command *command, const char *option,
                                  const char *text, uint64_t max, uint64_t *value)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number >= 1 &&
        number <= max) {
        *value = number;
        return true;
    }
    command_say(command, "%s is '%s'; it must be a whole number from 1 to %llu", option, text,
                (unsigned long long)max);
    return false;
}

static bool find_suite(const struct command *command, struct asked *asked)
{
    asked->suite = regret_suite_find(asked->suite_name);
    if (asked->suite != NULL)
        return true;
    fprintf(stderr, "tollgate %s: there is no suite '%s'; there are", command->name,
            asked->suite_name);
    for (size_t i = 0; i < REGRET_SUITES; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", regret_suites[i]->name);
    fputc('\n', stderr);
    return false;
}

static bool read_seeds(const struct command *command, struct asked *asked)
{
    uint64_t seed = 1, seeds = asked->suite->seeds;

    /* The last seed is a whole number that JSON readers keep, too. */
    if (asked->seeds != NULL &&
        !cmd_regret_read_whole(command, "--seeds", asked->seeds, SEEDS_MAX, &seeds))
        return false;
    if (asked->seed != NULL &&
        !cmd_regret_read_whole(command, "--seed", asked->seed, TG_NUMBER_MAX - SEEDS_MAX, &seed))
        return false;
    asked->options.seed = seed;
    asked->options.seeds = (size_t)seeds;
    return true;
}

static bool read_asked(const struct command *self, int argc, char **argv, struct asked *asked)
{
    const struct cli_option options[] = {
        {"--suite", "NAME", &asked->suite_name, NULL}, {"--json", NULL, NULL, &asked->json},
        {"--plot", "FILE.svg", &asked->plot, NULL},    {"--seed", "N", &asked->seed, NULL},
        {"--seeds", "K", &asked->seeds, NULL},
    };
    int rest = options_read(self, options, sizeof options / sizeof options[0], argc, argv);

    if (rest < 0)
        return false;
    if (rest > 0) {
        command_say(self, "unexpected argument '%s'; `tollgate help regret` says what it takes",
                    argv[1]);
        return false;
    }
    return find_suite(self, asked) && read_seeds(self, asked);
}

/* ---- The run --------------------------------------------------------------------------------- */

static void show_progress(void *context, size_t done, size_t of)
{
    const struct asked *asked = context;

    fprintf(stderr, "\r%s: %3zu %%", asked->suite->name, 100 * done / of);
    if (done == of)
        fputs("\r\033[K", stderr);
}

static int cannot_plot(const struct command *self, const struct asked *asked)
{
    command_say(self, "cannot write %s: %s", asked->plot, strerror(errno));
    return STATUS_FAILED;
}

static bool plot(const struct asked *asked, const struct regret_result *result)
{
    struct svg svg;
    bool written;

    regret_draw(&svg, result);
    errno = ENOMEM;
    written = !svg.out.failed && replace_file(asked->plot, svg.out.bytes, svg.out.size);
    int why = errno;
    svg_fini(&svg);
    errno = why;
    return written;
}

static int print_json(const struct command *self, const struct regret_result *result)
{
    struct json_writer out;

    json_writer_init(&out);
    regret_write_json(&out, result);
    bool sent = output_send(&out);
    json_writer_fini(&out);
    return sent ? STATUS_DONE : output_failed(self);
}

static int run_suite(const struct command *self, const struct asked *asked)
{
    struct regret_table table;
    struct regret_result result = {asked->suite, &asked->options, &table};
    enum tg_err err;

    /* A path that is wrong is better said before the run than after it. */
    if (asked->plot != NULL && !replace_file_check(asked->plot))
        return cannot_plot(self, asked);
    err = regret_run(asked->suite, &asked->options, &table);
    if (err) {
        command_say(self, "%s", tg_strerror(err));
        return STATUS_FAILED;
    }
    if (asked->plot != NULL && !plot(asked, &result))
        return cannot_plot(self, asked);
    if (asked->json)
        return print_json(self, &result);
    regret_print(&result);
    return STATUS_DONE;
}

static int run_regret(const struct command *self, int argc, char **argv)
{
    struct asked asked = {.suite_name = "rho"};

    if (!read_asked(self, argc, argv, &asked))
        return STATUS_WRONG;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    asked.options.threads = cores > 0 ? (size_t)cores : 1;
    if (isatty(STDERR_FILENO)) {
        asked.options.progress = show_progress;
        asked.options.context = &asked;
    }
    return run_suite(self, &asked);
}

const struct command cmd_regret = {
    .name = "regret",
    .arguments = "[--suite NAME] [--json] [--plot FILE.svg] [--seed N] [--seeds K]",
    .summary = "compare policies: how much each forgoes on worlds that are known",
    .help =
        "Suites, and what regret is a part of:\n"
        "\n"
        "  rho       two types in one window, by the correlation of neighbours (default);\n"
        "            the fluid optimum\n"
        "  adaptive  the same with a prior that is right or wrong; the fluid optimum\n"
        "  hog       types that hold slots for short and for long; the fluid optimum\n"
        "  drift     fifty windows of a world that changes; each window in hindsight, by\n"
        "            density\n"
        "  guard     worlds in which prices alone lose to no policy: estimates that are too high,\n"
        "            first windows, limits of tenants; each window in hindsight\n"
        "\n"
        "Policies:\n"
        "\n"
        "  marginal, greedy    whatever fits is admitted\n"
        "  joint, static, static_prior, two_axis, three_axis\n"
        "                      prices of the workload that is believed, for ever\n"
        "  static_oracle       prices of the workload that comes\n"
        "  adaptive            prices of a sample, if they are better on it; in drift, where no\n"
        "                      two lognormal calls are alike, from a histogram of the sample\n"
        "  refine, naive       prices of a sample always; before it those believed, or none\n"
        "  online              prices from what is left and what is forecast\n"
        "  guarded             the same, held to 99 % of what greedy earns\n"
        "  exact               the best that whole calls of two types can do, in a window\n"
        "  hindsight           the best that whole calls can do\n"
        "\n"
        "  --seed N         the first seed; default 1\n"
        "  --seeds K        how many; default 20 (rho, adaptive), 30 (hog), 8 (drift),\n"
        "                   15 (guard)\n"
        "  --plot FILE.svg  draw the table\n"
        "  --json           one object, percentages:\n"
        "\n"
        "  rho       {\"rows\":[{\"rho\":-1,POLICIES},...],\"mean\":{POLICIES}}\n"
        "  adaptive  {\"rows\":[{\"world\":\"A\",\"rho\":-1,POLICIES},...],\n"
        "             \"summary\":[{\"world\":\"A\",\"measure\":\"mean\",POLICIES},...]}\n"
        "  hog, guard\n"
        "            {\"rows\":[{\"world\":\"A\",POLICIES},...]}\n"
        "  drift     {\"rows\":[{\"column\":\"rho=0.9\",\"set\":\"two-type\",\"prior\":\"none\",\n"
        "             POLICIES},...],\"summary\":[{\"set\":\"two-type\",\"prior\":\"none\",\n"
        "             \"measure\":\"mean\",POLICIES},...]}, also with the measure max\n"
        "\n"
        "POLICIES are \"NAME\":PERCENT, null for one that needs a prior and has none. The same\n"
        "seeds give the same output. To judge a percentage point of drift take 64 seeds or more.\n",
    .run = run_regret,
};
