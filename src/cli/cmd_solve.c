/* cmd_solve.c - `tollgate solve`: the fluid program of a workload, JSON in and out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/common/output.h"
#include "cli/solve_input.h"

/* Room for the largest number of types, however they are formatted. */
#define INPUT_MAX ((size_t)1 << 20)

/* ---- Input ----------------------------------------------------------------------------------- */

/* All of it, up to one byte more than is allowed; -1 on an error. */
static ssize_t cmd_solve_read_all(int fd, char *text)
{
    size_t size = 0;

    while (size <= INPUT_MAX) {
        ssize_t n = read(fd, text + size, INPUT_MAX + 1 - size);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            size += (size_t)n;
    }
    return (ssize_t)size;
}

static void say_where(const struct command *self, const char *name, const char *text,
                      const struct solve_problem *problem)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < problem->offset; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    command_say(self, "%s:%zu:%zu: %s", name, line, column, problem->text);
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* There is one zero. */
static void write_number(struct json_writer *out, const char *key, double number)
{
    if (key != NULL)
        json_write_key(out, key);
    json_write_double(out, number == 0 ? 0 : number);
}

static void write_answer(struct json_writer *out, const struct tg_duals *duals,
                         const double *fractions, size_t n, double objective)
{
    json_write_object(out);
    json_write_key(out, "duals");
    json_write_object(out);
    write_number(out, "rate", duals->rate);
    write_number(out, "cost", duals->cost);
    write_number(out, "concurrency", duals->concurrency);
    json_write_object_end(out);
    json_write_key(out, "admit_fractions");
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        write_number(out, NULL, fractions[i]);
    json_write_array_end(out);
    write_number(out, "objective", objective);
    json_write_object_end(out);
    json_write_line_end(out);
}

static int print_answer(const struct command *self, const struct tg_duals *duals,
                        const double *fractions, size_t n, double objective)
{
    struct json_writer out;
    int status = STATUS_DONE;

    json_writer_init(&out);
    write_answer(&out, duals, fractions, n, objective);
    if (!output_send(&out))
        status = output_failed(self);
    json_writer_fini(&out);
    return status;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int solve(const struct command *self, const char *name, const struct solve_input *input)
{
    struct tg_duals duals;
    struct tg_problem problem;
    double fractions[TG_TYPES_MAX], objective;
    enum tg_err err = tg_fluid_solve(&input->workload, &duals, fractions, &objective, &problem);

    if (err != TG_OK) {
        command_say(self, "%s: %s", name, problem.text);
        return err == TG_ERR_INVALID ? STATUS_WRONG : STATUS_FAILED;
    }
    if (duals.rate == 0 && duals.cost == 0 && duals.concurrency == 0)
        command_say(self,
                    "%s: warning: no budget binds, so all prices are 0: a policy with this "
                    "workload is inert",
                    name);
    return print_answer(self, &duals, fractions, input->workload.n_types, objective);
}

static int solve_text(const struct command *self, const char *name, const char *text, size_t bytes)
{
    struct json_reader *reader = json_reader_new();
    struct solve_input *input = malloc(sizeof *input);
    struct solve_problem problem;
    int status = STATUS_FAILED;

    if (reader == NULL || input == NULL) {
        command_say(self, "%s", tg_strerror(TG_ERR_MEMORY));
    } else if (!solve_read(reader, text, bytes, bytes + JSON_PADDING, input, &problem)) {
        say_where(self, name, text, &problem);
        status = STATUS_WRONG;
    } else {
        status = solve(self, name, input);
    }
    free(input);
    json_reader_free(reader);
    return status;
}

static int solve_file(const struct command *self, const char *name, int fd)
{
    char *text = malloc(INPUT_MAX + 1 + JSON_PADDING);
    int status = STATUS_WRONG;

    if (text == NULL) {
        command_say(self, "%s", tg_strerror(TG_ERR_MEMORY));
        return STATUS_FAILED;
    }
    ssize_t bytes = cmd_solve_read_all(fd, text);
    if (bytes < 0) {
        command_say(self, "%s: %s", name, strerror(errno));
    } else if ((size_t)bytes > INPUT_MAX) {
        command_say(self, "%s is longer than %zu bytes, which no workload needs", name, INPUT_MAX);
    } else {
        memset(text + bytes, ' ', JSON_PADDING);
        status = solve_text(self, name, text, (size_t)bytes);
    }
    free(text);
    return status;
}

static int run_solve(const struct command *self, int argc, char **argv)
{
    int operands = options_read(self, NULL, 0, argc, argv);

    if (operands < 0)
        return STATUS_WRONG;
    if (operands > 1) {
        command_say(self, "one workload at a time; '%s' is a second one", argv[2]);
        return STATUS_WRONG;
    }
    if (operands == 0 || strcmp(argv[1], "-") == 0)
        return solve_file(self, "<stdin>", STDIN_FILENO);

    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        command_say(self, "%s: %s", argv[1], strerror(errno));
        return STATUS_WRONG;
    }
    int status = solve_file(self, argv[1], fd);
    close(fd);
    return status;
}

const struct command cmd_solve = {
    .name = "solve",
    .arguments = "[FILE]",
    .summary = "find what scarce budgets are worth: the fluid program of a workload",
    .help = "Reads FILE, or stdin if it is left out or `-`: what is expected to arrive, and the\n"
            "budgets there are for it, as one JSON object,\n"
            "\n"
            "  {\"types\":[{\"cost\":100,\"value\":1,\"weight\":0.5},\n"
            "            {\"cost\":10000,\"value\":50,\"weight\":0.5}],\n"
            "   \"rate_budget\":1,\"cost_budget\":50}\n"
            "\n"
            "  types        1 to 256 kinds of calls: what one costs and is worth, and how many\n"
            "               there are; with conc_budget, hold: the seconds it holds a slot\n"
            "  rate_budget  calls\n"
            "  cost_budget  units of cost\n"
            "  conc_budget  slot-seconds; null or left out: there is no such budget\n"
            "  arrivals     how many calls the budgets are for: then weights are shares of them;\n"
            "               null or left out: weights are used as they are\n"
            "\n"
            "Prints the prices at which these budgets are best used, the part of each type that\n"
            "is admitted at them, and what all that is worth:\n"
            "\n"
            "  {\"duals\":{\"rate\":0,\"cost\":0.01,\"concurrency\":0},\"admit_fractions\":[1,0],\n"
            "   \"objective\":0.5}\n"
            "\n"
            "A type is worth it if value >= rate + cost price x cost + concurrency price x hold.\n"
            "Where all prices are 0 nothing is scarce, and stderr has a warning.\n",
    .run = run_solve,
};
