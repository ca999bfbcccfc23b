/* cmd_spend.c - `tollgate spend`: what the ledger of a configuration says.
 *
 * Reads beside a gateway that is writing, and takes what is still in its journal along.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/common/output.h"
#include "cli/spend_report.h"
#include "cli/spend_store.h"
#include "io/posix/clock.h"
#include "io/posix/zone.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/config/config.h"
#include "server/config/config_values.h"
#include "server/runtime/admin_extras.h"

#define QUARTER_MS INT64_C(900000)
#define DAY_MS INT64_C(86400000)

struct spend_options {
    const char *config, *tenant, *since, *until, *by;
    bool json, csv;
};

static bool load_config(const struct command *self, const char *path,
                        const struct config_extra *extras, size_t n_extras, struct config *config)
{
    struct config_problems problems;
    enum config_result result = config_load_with(path, extras, n_extras, config, &problems);

    for (size_t i = 0; i < problems.n; i++) {
        const struct config_problem *at = &problems.list[i];
        if (!at->warning && at->line > 0)
            command_say(self, "%s:%zu:%zu: %s", at->file, at->line, at->column, at->text);
        else if (!at->warning)
            command_say(self, "%s: %s", at->file, at->text);
    }
    config_problems_free(&problems);
    return result == CONFIG_READ;
}

/* ---- From when, until when, and by what ---- */

static bool parse_moment(const char *text, tg_ms now, tg_ms *since)
{
    char day[32];
    tg_ms duration;

    if (value_duration(text, &duration)) {
        *since = num_less(now, duration);
        return true;
    }
    if (value_time(text, since))
        return true;
    if (strlen(text) != strlen("2026-01-01"))
        return false;
    snprintf(day, sizeof day, "%sT00:00:00Z", text);
    return value_time(day, since);
}

/* The ledger counts in quarters of an hour, and in days when they are old: what it will count from,
 * rather than what was asked. */
static tg_ms round_moment(tg_ms at, tg_ms now)
{
    return at - at % (at < num_less(now, 70 * DAY_MS) ? DAY_MS : QUARTER_MS);
}

static bool read_moment(const struct command *self, const char *option, const char *text, tg_ms now,
                        tg_ms *at)
{
    if (text == NULL || parse_moment(text, now, at))
        return true;
    command_say(self,
                "%s is '%s'; it must be a duration such as 7d, or a date or time such as "
                "2026-01-31 or 2026-01-31T12:00:00Z",
                option, text);
    return false;
}

static bool read_by(const struct command *self, const char *text, enum spend_by *by)
{
    static const struct {
        const char *name;
        enum spend_by by;
    } known[] = {{"day", SPEND_DAY},   {"model", SPEND_MODEL}, {"tenant", SPEND_TENANT},
                 {"user", SPEND_USER}, {"key", SPEND_KEY},     {"tag", SPEND_TAG}};

    *by = SPEND_TENANT_MODEL;
    if (text == NULL)
        return true;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(text, known[i].name) == 0) {
            *by = known[i].by;
            return true;
        }
    command_say(self, "--by is '%s'; it must be day, model, tenant, user, key or tag", text);
    return false;
}

/* ---- Tenants ---- */

static bool is_in_ledger(const struct ledger_view *view, const char *tenant)
{
    for (size_t i = 1; i <= ledger_view_tenants(view); i++)
        if (strcmp(ledger_view_name(view, (uint32_t)i), tenant) == 0)
            return true;
    return false;
}

static bool knows_tenant(const struct command *self, const struct config *config,
                         const struct ledger_view *view, const char *tenant)
{
    if (tenant == NULL || config_tenant(config, tenant, strlen(tenant)) != NULL ||
        is_in_ledger(view, tenant))
        return true;
    command_say(self, "there is no tenant '%s', neither in the configuration nor in the ledger",
                tenant);
    fprintf(stderr, "tollgate %s: there are", self->name);
    for (size_t i = 0; i < config->n_tenants; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", config->tenants[i].name);
    fprintf(stderr, "%s\n", config->n_tenants == 0 ? " none" : "");
    return false;
}

static bool is_within(const struct config *config, size_t i, const char *tenant)
{
    for (; tenant != NULL && i != CONFIG_NO_PARENT; i = config->tenants[i].parent)
        if (strcmp(config->tenants[i].name, tenant) == 0)
            return true;
    return tenant == NULL;
}

/* ---- Budgets ---- */

static enum tg_per per_of(enum config_period period)
{
    static const enum tg_per pers[] = {[CONFIG_DAY] = TG_PER_DAY,
                                       [CONFIG_WEEK] = TG_PER_WEEK,
                                       [CONFIG_MONTH] = TG_PER_MONTH,
                                       [CONFIG_TOTAL] = TG_PER_TOTAL};

    return pers[period];
}

struct adding {
    struct ledger_view *view;
    const char *tenant, *key;
    tg_micro micro, uncertain;
};

/* What a key has spent is in rows of its own, one for each set of tags that it had. */
static bool is_counted(const struct adding *adding, uint32_t row)
{
    const char *key = ledger_view_key(adding->view, row);

    if (adding->key != NULL)
        return key != NULL && strcmp(key, adding->key) == 0 &&
               strcmp(ledger_view_name(adding->view, row), adding->tenant) == 0;
    return adding->tenant == NULL || ledger_view_is_within(adding->view, row, adding->tenant);
}

static void add_money(void *context, const struct ledger_sum *sum)
{
    struct adding *adding = context;

    if (!is_counted(adding, sum->tenant))
        return;
    adding->micro = spend_add(adding->micro, spend_add(sum->micro, sum->uncertain));
    adding->uncertain = spend_add(adding->uncertain, sum->uncertain);
}

static bool add_budget(struct spend_report *report, struct ledger_view *view, const char *tenant,
                       const char *key, const struct config_budget *budget, tg_ms now,
                       struct tg_problem *problem)
{
    struct spend_budget *row = &report->budgets[report->n_budgets];
    struct adding adding = {view, tenant, key, 0, 0};
    struct tg_problem why = {""};
    struct tg_zone zone;

    *row = (struct spend_budget){.tenant = tenant, .key = key, .budget = budget};
    if (zone_read(budget->tz, &zone, &why) != TG_OK) {
        return problem_fail(problem, "%s", why.text);
    }
    tg_window_of(per_of(budget->per), &zone, now, &row->begin, &row->end);
    zone_fini(&zone);
    if (!ledger_view_scan(view, row->begin, add_money, &adding, problem))
        return false;
    row->spent = adding.micro;
    row->uncertain = adding.uncertain;
    report->n_budgets++;
    return true;
}

static size_t count_budgets(const struct config *config)
{
    size_t n = config->n_budgets;

    for (size_t i = 0; i < config->n_tenants; i++) {
        n += config->tenants[i].n_budgets;
        for (size_t k = 0; k < config->tenants[i].n_keys; k++)
            n += config->tenants[i].keys[k].own.n_budgets;
    }
    return n;
}

/* A tenant's, and those of its keys: keys of one name have the same. */
static bool add_tenant(struct spend_report *report, struct ledger_view *view,
                       const struct config_tenant *of, tg_ms now, struct tg_problem *problem)
{
    bool added = true;

    for (size_t i = 0; added && i < of->n_budgets; i++)
        added = add_budget(report, view, of->name, NULL, &of->budgets[i], now, problem);
    for (size_t k = 0; added && k < of->n_keys; k++) {
        const struct config_key *key = &of->keys[k];
        for (size_t i = 0; added && key->first == k && i < key->own.n_budgets; i++)
            added =
                add_budget(report, view, of->name, key->name, &key->own.budgets[i], now, problem);
    }
    return added;
}

static bool read_budgets(struct spend_report *report, struct ledger_view *view,
                         const struct config *config, const char *tenant, tg_ms now,
                         struct tg_problem *problem)
{
    report->budgets = calloc(count_budgets(config) + 1, sizeof *report->budgets);
    if (report->budgets == NULL) {
        return problem_fail(problem, "there is no memory for the report");
    }
    for (size_t k = 0; tenant == NULL && k < config->n_budgets; k++)
        if (!add_budget(report, view, NULL, NULL, &config->budgets[k], now, problem))
            return false;
    for (size_t i = 0; i < config->n_tenants; i++)
        if (is_within(config, i, tenant) &&
            !add_tenant(report, view, &config->tenants[i], now, problem))
            return false;
    return true;
}

/* ---- The whole ---- */

static int print_report(const struct command *self, const struct spend_options *options,
                        const struct spend_report *report)
{
    struct json_writer out;
    int status = STATUS_DONE;

    if (report->damaged > 0)
        command_say(self, "%llu calls in the journal are damaged, and in no sum",
                    (unsigned long long)report->damaged);
    if (!options->json) {
        (options->csv ? spend_report_print_csv : spend_report_print)(report);
        return STATUS_DONE;
    }
    json_writer_init(&out);
    spend_report_write(report, &out);
    if (!output_send(&out))
        status = output_failed(self);
    json_writer_fini(&out);
    return status;
}

/* `report` says what is asked for, and takes the rest. */
static int report_view(const struct command *self, const struct spend_options *options,
                       const struct config *config, struct ledger_view *view,
                       struct spend_report *report, tg_ms now)
{
    bool with_budgets = options->since == NULL && options->until == NULL;
    struct tg_problem problem = {""};

    if (!knows_tenant(self, config, view, options->tenant))
        return STATUS_FAILED;
    if (!spend_report_read(report, view, options->tenant, &problem) ||
        (with_budgets && !read_budgets(report, view, config, options->tenant, now, &problem))) {
        command_say(self, "%s", problem.text);
        return STATUS_FAILED;
    }
    spend_store_read(report, config, ledger_view_id(view));
    if (report->store == SPEND_STORE_AWAY)
        command_say(self, "the store that gateways share could not be asked: budgets are as this "
                          "ledger knows them");
    return print_report(self, options, report);
}

/* Tenants and top-ups of the API are in the ledger: the file is read a second time, with them. */
static int report_ledger(const struct command *self, const struct spend_options *options,
                         struct ledger_view *view, struct spend_report *report, tg_ms now)
{
    struct tg_problem problem = {""};
    struct admin_extras extras;
    struct config config;
    int status = STATUS_WRONG;

    if (!admin_extras_view(view, now, &extras, &problem)) {
        command_say(self, "%s", problem.text);
        return STATUS_FAILED;
    }
    if (load_config(self, options->config, extras.list, extras.n, &config))
        status = report_view(self, options, &config, view, report, now);
    spend_report_fini(report);
    config_free(&config);
    admin_extras_free(&extras);
    return status;
}

static int report_config(const struct command *self, const struct spend_options *options,
                         const struct config *config, struct spend_report *report, tg_ms now)
{
    struct tg_problem problem = {""};
    struct ledger_view *view = NULL;
    int status;

    if (config->ledger.path == NULL) {
        command_say(self, "%s: ledger.path holds a variable that is not set", options->config);
        return STATUS_WRONG;
    }
    if (strcmp(config->ledger.path, ":memory:") == 0) {
        command_say(self, "%s: ledger.path is :memory:, which keeps nothing to read",
                    options->config);
        return STATUS_FAILED;
    }
    if (!ledger_view_open(config->ledger.path, &view, &problem)) {
        command_say(self, "%s", problem.text);
        return STATUS_FAILED;
    }
    status = report_ledger(self, options, view, report, now);
    ledger_view_close(view);
    return status;
}

static bool read_options(const struct command *self, int argc, char **argv,
                         struct spend_options *options)
{
    const struct cli_option known[] = {
        {"-c", "FILE", &options->config, NULL},  {"--tenant", "T", &options->tenant, NULL},
        {"--since", "D", &options->since, NULL}, {"--until", "D", &options->until, NULL},
        {"--by", "WHAT", &options->by, NULL},    {"--json", NULL, NULL, &options->json},
        {"--csv", NULL, NULL, &options->csv},
    };
    int rest = options_read(self, known, sizeof known / sizeof known[0], argc, argv);

    if (rest > 0)
        command_say(self, "unexpected argument '%s'; only options are allowed", argv[1]);
    else if (rest == 0 && options->config == NULL)
        command_say(self, "-c FILE is missing");
    else if (rest == 0 && options->json && options->csv)
        command_say(self, "--json and --csv are given; give one of them");
    return rest == 0 && options->config != NULL && !(options->json && options->csv);
}

static int run_spend(const struct command *self, int argc, char **argv)
{
    struct spend_options options = {0};
    struct spend_report report = {.until = TG_NUMBER_MAX};
    struct config config;
    struct clock clock;
    tg_ms now, end;
    int status = STATUS_WRONG;

    if (!read_options(self, argc, argv, &options) || !read_by(self, options.by, &report.by))
        return STATUS_WRONG;
    clock_init(&clock);
    now = clock_now_ms(&clock);
    tg_window_of(TG_PER_MONTH, NULL, now, &report.since, &end);
    if (!read_moment(self, "--since", options.since, now, &report.since) ||
        !read_moment(self, "--until", options.until, now, &report.until))
        return STATUS_WRONG;
    report.since = round_moment(report.since, now);
    if (options.until != NULL)
        report.until = round_moment(report.until, now);
    if (load_config(self, options.config, NULL, 0, &config))
        status = report_config(self, &options, &config, &report, now);
    config_free(&config);
    return status;
}

const struct command cmd_spend = {
    .name = "spend",
    .arguments =
        "-c FILE [--tenant T] [--since D] [--until D] [--by day|model|tenant|user|key|tag]\n"
        "      [--json|--csv]",
    .summary = "say what was spent, by tenant and model",
    .help =
        "Reads the ledger that FILE names, also while a gateway writes it; what is still in its\n"
        "journal counts.\n"
        "\n"
        "  --tenant T  T alone and the tenants beneath it\n"
        "  --since D   from D on: a duration before now such as 7d or 12h, or a date or time\n"
        "              such as 2026-01-31 or 2026-01-31T12:00:00+01:00. The quarter of an hour\n"
        "              in which D lies counts whole, and if D is older than 70 days, the UTC day.\n"
        "              Without it: from the beginning of this month (UTC), and then each budget\n"
        "              with what was spent in its window\n"
        "  --until D   up to D, which is rounded down in the same way. What is older than 400\n"
        "              days is one sum, and counts if it ended before\n"
        "  --by WHAT   one row for each day (UTC), model, tenant, user or virtual key of a "
        "tenant,\n"
        "              or tag of keys (a call counts in each of its key's); without it for each\n"
        "              tenant and model\n"
        "  --csv       the rows alone, with a line of names\n"
        "  --json      one object: since_ms, until_ms if it was given, rows (tenant, model, or\n"
        "              what --by says, calls, input, cached_input, cache_write, output,\n"
        "              micro_usd, usd, uncertain_micro_usd), total,\n"
        "              budgets (tenant, null for everyone, per, tz, mode, begin_ms, end_ms,\n"
        "              spent_micro_usd, uncertain_micro_usd, amount_micro_usd; with Redis\n"
        "              store: micro_usd, ledgers, told_micro_usd, difference_micro_usd), with\n"
        "              Redis store (ok or away), credits (id, made_at_ms, tenant, user,\n"
        "              micro_usd, reason, actor) and damaged, the calls of the journal that\n"
        "              could not be read\n"
        "\n"
        "Uncertain is what no provider has confirmed, of calls that were cut or in flight when a\n"
        "gateway died. It stands beside USD, and in budgets is part of what was spent. Credits "
        "are\n"
        "what an operator has given back of it since then.\n"
        "\n"
        "Where gateways share a store (Redis), it is asked what all of them have told of each\n"
        "budget, and what this ledger has: a difference is what is not told yet, or what the\n"
        "store lost and is told again. Without an answer within 2 s the ledger alone speaks.\n"
        "\n"
        "Tenants and top-ups that were made by the administration API are read from the ledger.\n"
        "A call belongs to the moment at which it was admitted. Rows say what a tenant has spent\n"
        "itself, budgets what was spent by it and beneath it.\n"
        "\n"
        "Exit status: 0 done; 1 there is no such tenant, or the ledger cannot be read; 2 the\n"
        "command line or FILE is wrong.\n",
    .run = run_spend,
};
