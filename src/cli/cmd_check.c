/* cmd_check.c - `tollgate check`: is a configuration good, and if not, what is wrong. */
#include <stdio.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "server/config/config.h"

enum { LINES_MAX = 100 };

static void print_problem(const struct config_problem *problem)
{
    if (problem->line > 0)
        fprintf(stderr, "%s:%zu:%zu: %s%s\n", problem->file, problem->line, problem->column,
                problem->warning ? "warning: " : "", problem->text);
    else
        fprintf(stderr, "%s: %s%s\n", problem->file, problem->warning ? "warning: " : "",
                problem->text);
}

static void print_problems(const struct command *self, const struct config_problems *problems)
{
    size_t more = problems->errors + problems->warnings - problems->n;

    for (size_t i = 0; i < problems->n; i++)
        print_problem(&problems->list[i]);
    if (more > 0)
        command_say(self, "and %zu more", more);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void print_stage(const char *name, bool on, enum config_mode mode, const char *how)
{
    if (on)
        printf("%-12s%s%s%s\n", name, mode == CONFIG_SHADOW ? "shadow" : "on",
               *how != '\0' ? ", " : "", how);
    else
        printf("%-12soff\n", name);
}

static void print_limiter(const char *name, const struct config_limiter *limiter)
{
    print_stage(name, limiter->present, limiter->mode,
                limiter->present ? tg_strategy_name(limiter->limiter.strategy) : "");
}

static const char *describe_policy(const struct config_policy *policy, char *text, size_t bytes)
{
    snprintf(text, bytes, "bid-price by %s", tg_prices_name((enum tg_prices)policy->prices));
    return text;
}

/* What each model costs, and who says so. */
static void print_prices(const struct config *config)
{
    for (size_t i = 0; i < config->n_models && i < LINES_MAX; i++) {
        const struct config_model *model = &config->models[i];
        if (model->price_from == NULL)
            printf("%-12s%s: none\n", "price", model->name);
        else
            printf("%-12s%s: input %.6g, output %.6g USD per million tokens, from %s\n", "price",
                   model->name, (double)model->price.input / 1e6, (double)model->price.output / 1e6,
                   model->price_from);
    }
    if (config->n_models > LINES_MAX)
        printf("%-12sand %zu more\n", "price", config->n_models - LINES_MAX);
}

/* How many of the largest calls can be reserved at once. */
static void print_fits(const struct config *config, const struct config_tenant *tenant,
                       const struct config_budget *budgets, size_t n)
{
    static const char *const periods[] = {"day", "week", "month", "total"};

    for (size_t i = 0; i < n; i++) {
        const struct config_model *largest = NULL;
        int64_t fits = config_budget_fits(config, tenant, &budgets[i], &largest);
        if (fits >= 0)
            printf("%-12s%s, $%.6g (%s): %lld of the largest calls at once (%s, $%.6g each)\n",
                   "budget", tenant ? tenant->name : "all", (double)budgets[i].micro_usd / 1e6,
                   periods[budgets[i].per], (long long)fits, largest->name,
                   (double)config_largest_call(largest) / 1e6);
    }
}

static void print_summary(const char *path, const struct config *config,
                          const struct config_problems *problems)
{
    const struct config_gate *gate = &config->gate;
    char text[48];

    printf("%s is good", path);
    if (problems->warnings > 0)
        printf(", with %zu warning%s", problems->warnings, plural(problems->warnings));
    printf("\n");
    print_stage("memory", gate->memory.present, gate->memory.mode, "");
    print_stage("peers", gate->peers.present, gate->peers.mode, "");
    snprintf(text, sizeof text, "%s%s", tg_law_name(gate->concurrency.law.law),
             gate->concurrency.present ? "" : " (the default of serve)");
    print_stage("concurrency", true, gate->concurrency.mode, text);
    print_stage("policy", gate->policy.kind == CONFIG_BID_PRICE, gate->policy.mode,
                describe_policy(&gate->policy, text, sizeof text));
    print_limiter("rate", &gate->rate);
    print_limiter("cost", &gate->cost);
    printf("%-12s%zu\n", "tenants", config->n_tenants);
    print_prices(config);
    print_fits(config, NULL, config->budgets, config->n_budgets);
    for (size_t i = 0; i < config->n_tenants && i < LINES_MAX; i++)
        print_fits(config, &config->tenants[i], config->tenants[i].budgets,
                   config->tenants[i].n_budgets);
}

static int report(const struct command *self, const char *path, enum config_result result,
                  const struct config *config, const struct config_problems *problems)
{
    print_problems(self, problems);
    switch (result) {
    case CONFIG_READ:
        print_summary(path, config, problems);
        return STATUS_DONE;
    case CONFIG_WRONG:
        command_say(self, "%zu error%s, %zu warning%s", problems->errors, plural(problems->errors),
                    problems->warnings, plural(problems->warnings));
        return STATUS_FAILED;
    default:
        return STATUS_WRONG;
    }
}

static int run_check(const struct command *self, int argc, char **argv)
{
    const char *path = NULL;
    const struct cli_option options[] = {{"-c", "FILE", &path, NULL}};
    int rest = options_read(self, options, 1, argc, argv);
    struct config config;
    struct config_problems problems;

    if (rest < 0)
        return STATUS_WRONG;
    if (rest > 0) {
        command_say(self, "unexpected argument '%s'; only -c FILE is allowed", argv[1]);
        return STATUS_WRONG;
    }
    if (path == NULL) {
        command_say(self, "-c FILE is missing");
        return STATUS_WRONG;
    }
    enum config_result result = config_load(path, &config, &problems);
    int status = report(self, path, result, &config, &problems);
    config_free(&config);
    config_problems_free(&problems);
    return status;
}

const struct command cmd_check = {
    .name = "check",
    .arguments = "-c FILE",
    .summary = "validate a configuration: every error with its line",
    .help =
        "Reads FILE and what it includes, and says on stderr all that is wrong with it, as\n"
        "FILE:LINE:COLUMN: what is wrong; what is allowed. A file or an environment variable\n"
        "that is missing is a warning. If there is no error, stdout says in short what the\n"
        "configuration does: the stages of the gate, the price of each model and who says so, and\n"
        "how many of the largest calls each budget holds at once.\n"
        "\n"
        "Exit status: 0 good, perhaps with warnings; 1 there are errors; 2 the command line is\n"
        "wrong, or FILE cannot be read.\n",
    .run = run_check,
};
