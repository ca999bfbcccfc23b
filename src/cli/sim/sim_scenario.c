/* sim_scenario.c - `tollgate sim --scenario NAME|all --law LAW,...`: the options, and the run. */
#include "cli/sim/sim_scenario.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/options.h"
#include "cli/common/output.h"
#include "cli/common/replace_file.h"
#include "cli/sim/sim_fairness.h"
#include "cli/sim/sim_run.h"
#include "cli/sim/sim_settings.h"

#define LAWS_MAX 32
#define SCENARIOS_MAX 64
#define SEEDS_MAX 10000
#define SEEDS_DEFAULT 5
#define DEADLINE_DEFAULT_MS 100
#define LAWS_DEFAULT "auto,vegas,gradient2,aimd,none"
#define FAIRNESS_LAW_DEFAULT "fixed:initial=16"

struct asked {
    const char *scenario, *law, *seed, *seeds, *deadline, *plot, *scale_capacity, *scale_time;
    bool tell_deadline, json;

    const struct scenario *scenarios[SCENARIOS_MAX];
    struct scenario_law laws[LAWS_MAX];
    struct scenario_table table;
};

/* The word of the command line that gives an option of this name; null: none does. */
static const char *find_word(int argc, char **argv, const char *name)
{
    size_t bytes = strlen(name);

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], name, bytes) == 0 && (argv[i][bytes] == '\0' || argv[i][bytes] == '='))
            return argv[i];
    return NULL;
}

bool sim_asks_for_scenario(int argc, char **argv)
{
    static const char *const names[] = {"--scenario",  "--law",           "--seeds",
                                        "--deadline",  "--tell-deadline", "--scale-capacity",
                                        "--scale-time"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (find_word(argc, argv, names[i]) != NULL)
            return true;
    return false;
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Options of the simulated cluster would change nothing here. */
static bool has_cluster_option(const struct command *command, const struct cli_option *options,
                               size_t n, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char name[64];
        bool ours = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[i], "="), argv[i]);
        for (size_t j = 0; j < n; j++)
            ours |= strcmp(options[j].name, name) == 0;
        if (name[0] == '-' && !ours && sim_option_find(name) >= 0) {
            command_say(command,
                        "%s has no effect with --scenario, which has its own load and server",
                        name);
            return true;
        }
    }
    return false;
}

static bool read_whole(const struct command *command, const char *option, const char *text,
                       uint64_t low, uint64_t high, uint64_t *value)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number >= low &&
        number <= high) {
        *value = number;
        return true;
    }
    command_say(command, "%s is '%s'; it must be a whole number from %llu to %llu", option, text,
                (unsigned long long)low, (unsigned long long)high);
    return false;
}

static bool read_scenarios(const struct command *command, struct asked *asked)
{
    const char *text = asked->scenario;
    size_t n = 0;

    if (strcmp(text, "all") == 0) {
        for (n = 0; n < scenarios_n; n++)
            asked->scenarios[n] = &scenarios[n];
    } else {
        for (const char *name = text; name != NULL;) {
            size_t bytes = strcspn(name, ",");
            char one[64];
            snprintf(one, sizeof one, "%.*s", (int)bytes, name);
            const struct scenario *found = scenario_find(one);
            if (found == NULL || bytes >= sizeof one) {
                command_say(command,
                            "there is no scenario '%.*s'; `--scenario list` shows all of them",
                            (int)bytes, name);
                return false;
            }
            if (n == SCENARIOS_MAX) {
                command_say(command, "--scenario names more than %d", SCENARIOS_MAX);
                return false;
            }
            asked->scenarios[n++] = found;
            name = name[bytes] == ',' ? name + bytes + 1 : NULL;
        }
    }
    asked->table.scenarios = asked->scenarios;
    asked->table.n_scenarios = n;
    return true;
}

static bool read_laws(const struct command *command, struct asked *asked)
{
    struct tg_problem problem;
    size_t n = 0;

    for (const char *law = asked->law; law != NULL;) {
        size_t bytes = strcspn(law, ",");
        if (n == LAWS_MAX) {
            command_say(command, "--law names more than %d", LAWS_MAX);
            return false;
        }
        if (scenario_law_parse(law, bytes, &asked->laws[n++], &problem) != TG_OK) {
            command_say(command, "--law %.*s: %s", (int)bytes, law, problem.text);
            return false;
        }
        law = law[bytes] == ',' ? law + bytes + 1 : NULL;
    }
    asked->table.laws = asked->laws;
    asked->table.n_laws = n;
    return true;
}

static bool read_deadline(const struct command *command, struct asked *asked)
{
    uint64_t deadline = DEADLINE_DEFAULT_MS;
    bool matters = false;

    for (size_t i = 0; i < asked->table.n_scenarios; i++)
        matters |= asked->scenarios[i]->deadline_ms <= 0;
    if (asked->deadline != NULL && !matters) {
        command_say(command,
                    "--deadline has no effect on streams, whose first byte has to come within 2 s");
        return false;
    }
    if (asked->deadline != NULL &&
        !read_whole(command, "--deadline", asked->deadline, 1, 1000000, &deadline))
        return false;
    asked->table.options.deadline_ms = (double)deadline;
    asked->table.options.tell_deadline = asked->tell_deadline;
    return true;
}

static bool read_scale(const struct command *command, const char *option, const char *text,
                       double *scale)
{
    char *end;

    if (text == NULL)
        return true;
    *scale = strtod(text, &end);
    if (strspn(text, ".0123456789") == strlen(text) && *end == '\0' && end != text &&
        *scale >= 0.01 && *scale <= 1000)
        return true;
    command_say(command, "%s is '%s'; it must be a number from 0.01 to 1000", option, text);
    return false;
}

static bool read_seeds(const struct command *command, struct asked *asked)
{
    uint64_t seed = 1, seeds = SEEDS_DEFAULT;

    if (asked->seeds != NULL && !read_whole(command, "--seeds", asked->seeds, 1, SEEDS_MAX, &seeds))
        return false;
    if (asked->seed != NULL &&
        !read_whole(command, "--seed", asked->seed, 0, TG_NUMBER_MAX - SEEDS_MAX, &seed))
        return false;
    asked->table.seed = seed;
    asked->table.seeds = (size_t)seeds;
    return true;
}

static bool read_asked(const struct command *command, int argc, char **argv, struct asked *asked)
{
    const struct cli_option options[] = {
        {"--scenario", "NAME,...|all|list", &asked->scenario, NULL},
        {"--law", "LAW,...", &asked->law, NULL},
        {"--seed", "N", &asked->seed, NULL},
        {"--seeds", "K", &asked->seeds, NULL},
        {"--deadline", "MS", &asked->deadline, NULL},
        {"--tell-deadline", NULL, NULL, &asked->tell_deadline},
        {"--scale-capacity", "FACTOR", &asked->scale_capacity, NULL},
        {"--scale-time", "FACTOR", &asked->scale_time, NULL},
        {"--plot", "FILE.svg", &asked->plot, NULL},
        {"--json", NULL, NULL, &asked->json},
    };
    size_t n = sizeof options / sizeof options[0];

    if (has_cluster_option(command, options, n, argc, argv))
        return false;
    int rest = options_read(command, options, n, argc, argv);
    if (rest > 0)
        command_say(command, "unexpected argument '%s'; `tollgate help sim` says what it takes",
                    argv[1]);
    return rest == 0;
}

/* ---- The run --------------------------------------------------------------------------------- */

static int list_scenarios(void)
{
    for (size_t i = 0; i < scenarios_n; i++)
        printf("%-16s %s\n", scenarios[i].name, scenarios[i].about);
    sim_fairness_list();
    return STATUS_DONE;
}

static void show_progress(void *context, size_t done, size_t of)
{
    (void)context;
    fprintf(stderr, "\rscenarios: %zu of %zu runs", done, of);
    if (done == of)
        fputs("\r\033[K", stderr);
}

static bool plot(const struct command *command, const struct asked *asked,
                 const struct scenario_cell *cells)
{
    struct svg svg;

    sim_scenario_draw(&svg, &asked->table, cells);
    bool written = sim_plot_write(command, asked->plot, &svg);
    svg_fini(&svg);
    return written;
}

static int scenario_write(const struct command *command, const struct asked *asked,
                          const struct scenario_cell *cells)
{
    if (asked->plot != NULL && !plot(command, asked, cells))
        return STATUS_FAILED;
    if (!asked->json) {
        sim_scenario_print(&asked->table, cells);
        return STATUS_DONE;
    }
    struct json_writer out;
    json_writer_init(&out);
    sim_scenario_write_json(&out, &asked->table, cells);
    bool sent = output_send(&out);
    json_writer_fini(&out);
    return sent ? STATUS_DONE : output_failed(command);
}

static int run_table(const struct command *command, struct asked *asked)
{
    struct scenario_table *table = &asked->table;
    struct tg_problem problem = {{0}};
    struct scenario_cell *cells;
    int status = STATUS_FAILED;
    enum tg_err err = TG_ERR_MEMORY;

    /* A path that is wrong is better said before the run than after it. */
    if (asked->plot != NULL && !replace_file_check(asked->plot)) {
        command_say(command, "cannot write %s: %s", asked->plot, strerror(errno));
        return STATUS_FAILED;
    }
    cells = calloc(table->n_scenarios * table->n_laws, sizeof *cells);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    table->threads = cores > 0 ? (size_t)cores : 1;
    if (isatty(STDERR_FILENO))
        table->progress = show_progress;
    if (cells != NULL)
        err = scenario_run_table(table, cells, &problem);
    if (err)
        command_say(command, "%s", problem.text[0] != '\0' ? problem.text : tg_strerror(err));
    else
        status = scenario_write(command, asked, cells);
    free(cells);
    return status;
}

/* Mixes of tenants and use of a limit: other options, other tables. */
static int run_others(const struct command *command, struct asked *asked)
{
    bool limit_use = sim_is_limit_use(asked->scenario);
    const char *useless = asked->deadline != NULL           ? "--deadline"
                          : asked->tell_deadline            ? "--tell-deadline"
                          : asked->plot != NULL             ? "--plot"
                          : asked->scale_capacity != NULL   ? "--scale-capacity"
                          : asked->scale_time != NULL       ? "--scale-time"
                          : limit_use && asked->law != NULL ? "--law"
                                                            : NULL;

    if (useless != NULL) {
        command_say(command, "%s has no effect on %s", useless,
                    limit_use ? SIM_LIMIT_USE : "mixes of tenants");
        return STATUS_WRONG;
    }
    asked->law = asked->law != NULL ? asked->law : FAIRNESS_LAW_DEFAULT;
    if (!read_laws(command, asked) || !read_seeds(command, asked))
        return STATUS_WRONG;
    if (asked->table.seeds > FAIRNESS_SEEDS_MAX) {
        command_say(command, "--seeds is at most %d here", FAIRNESS_SEEDS_MAX);
        return STATUS_WRONG;
    }
    const struct sim_fairness_asked fairness = {
        .names = asked->scenario,
        .laws = asked->laws,
        .n_laws = asked->table.n_laws,
        .seed = asked->table.seed,
        .seeds = asked->table.seeds,
        .json = asked->json,
        .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
    };
    return limit_use ? sim_run_limit_use(command, &fairness) : sim_run_fairness(command, &fairness);
}

int sim_run_scenarios(const struct command *command, int argc, char **argv)
{
    struct asked *asked = calloc(1, sizeof *asked);
    int status = STATUS_WRONG;

    if (asked == NULL) {
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return STATUS_FAILED;
    }
    if (find_word(argc, argv, "--scenario") == NULL) {
        command_say(
            command,
            "--law, --seeds, --deadline, --tell-deadline, --scale-capacity and --scale-time "
            "need --scenario");
    } else if (read_asked(command, argc, argv, asked)) {
        bool only = asked->law == NULL && asked->seed == NULL && asked->seeds == NULL &&
                    asked->deadline == NULL && asked->plot == NULL && !asked->json &&
                    asked->scale_capacity == NULL && asked->scale_time == NULL &&
                    !asked->tell_deadline;
        if (strcmp(asked->scenario, "list") == 0 && only) {
            status = list_scenarios();
        } else if (strcmp(asked->scenario, "list") == 0) {
            command_say(command, "--scenario list takes no other option");
        } else if (sim_is_fairness(asked->scenario) || sim_is_limit_use(asked->scenario)) {
            status = run_others(command, asked);
        } else {
            asked->law = asked->law != NULL ? asked->law : LAWS_DEFAULT;
            if (read_scenarios(command, asked) && read_laws(command, asked) &&
                read_deadline(command, asked) && read_seeds(command, asked) &&
                read_scale(command, "--scale-capacity", asked->scale_capacity,
                           &asked->table.options.scale_capacity) &&
                read_scale(command, "--scale-time", asked->scale_time,
                           &asked->table.options.scale_time))
                status = run_table(command, asked);
        }
    }
    free(asked);
    return status;
}
