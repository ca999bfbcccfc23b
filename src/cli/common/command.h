/* command.h - what a subcommand of tollgate is.
 *
 *     main.c --> cmd_serve.c   the gateway                cmd_replay.c   replay/: a trace, decided
 *                cmd_check.c   a configuration, checked   cmd_sim.c      sim/: a simulated cluster
 *                cmd_key.c     virtual keys               cmd_regret.c   policies, compared
 *                cmd_spend.c   reports of the ledger      cmd_solve.c    prices of a workload
 *                cmd_top.c     top/: a live view          cmd_mock.c     a mock provider
 *                cmd_bench.c   benchmarks
 *
 * Each is one file, cmd_NAME.c, that ends in one such struct; main.c has the table of them. What
 * several share is in this folder: options.h, output.h, replace_file.h, gate_config.h.
 */
#ifndef TG_COMMON_COMMAND_H
#define TG_COMMON_COMMAND_H

/* What the program ends with. */
enum {
    STATUS_DONE = 0,
    STATUS_FAILED = 1, /* the answer is no, or the run failed */
    STATUS_WRONG = 2,  /* the command line or the input was wrong */
};

struct command {
    const char *name;
    const char *arguments; /* "--limiter SPEC [TRACE]" */
    const char *summary;   /* one line, without a dot at its end */
    const char *help;      /* the rest of what `tollgate help NAME` prints */

    /* argv[0] is the name. Returns one of the above. --help never gets here. */
    int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command cmd_serve;
extern const struct command cmd_check;
extern const struct command cmd_key;
extern const struct command cmd_spend;
extern const struct command cmd_replay;
extern const struct command cmd_solve;
extern const struct command cmd_regret;
extern const struct command cmd_sim;
extern const struct command cmd_mock;
extern const struct command cmd_top;
extern const struct command cmd_bench;

/* Says on stderr what is wrong: "tollgate NAME: ..." and a newline. */
void command_say(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
