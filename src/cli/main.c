/* main.c - the program: finds the subcommand and runs it. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/output.h"
#include "tollgate.h"

static int run_help(const struct command *self, int argc, char **argv);

static const struct command cmd_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "say what a command does and takes",
    .help = "Without a command, lists them all.\n",
    .run = run_help,
};

static const struct command *const commands[] = {
#ifndef DECIDING_COMMANDS /* the Makefile defines it where the output of these alone is compared */
    &cmd_serve,  &cmd_check, &cmd_key,    &cmd_spend,
#endif
    &cmd_replay, &cmd_solve, &cmd_regret, &cmd_sim,
#ifndef DECIDING_COMMANDS
    &cmd_mock,   &cmd_top,   &cmd_bench,
#endif
    &cmd_help};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void print_usage(FILE *to)
{
    fputs("usage: tollgate COMMAND [ARGUMENTS]\n"
          "       tollgate help [COMMAND]\n"
          "       tollgate --version\n"
          "\n"
          "Admission control for calls to language models.\n"
          "\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n"
          "Results go to stdout, messages to stderr. Exit status: 0 done, 1 the answer is no or\n"
          "the run failed, 2 the command line or the input was wrong.\n",
          to);
}

static int print_help(const struct command *command)
{
    printf("usage: tollgate %s%s%s\n\n%c%s.\n\n%s", command->name, *command->arguments ? " " : "",
           command->arguments, toupper((unsigned char)command->summary[0]), command->summary + 1,
           command->help);
    return STATUS_DONE;
}

static int unknown_command(const char *name)
{
    fprintf(stderr, "tollgate: there is no command '%s'; there are", name);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", commands[i]->name);
    fputc('\n', stderr);
    return STATUS_WRONG;
}

static int run_help(const struct command *self, int argc, char **argv)
{
    const struct command *about;

    if (argc > 2) {
        command_say(self, "one command at a time");
        return STATUS_WRONG;
    }
    if (argc < 2) {
        print_usage(stdout);
        return STATUS_DONE;
    }
    about = find_command(argv[1]);
    return about != NULL ? print_help(about) : unknown_command(argv[1]);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    int status =
        asks_for_help(argc, argv) ? print_help(command) : command->run(command, argc, argv);

    return output_close(command, status);
}

int main(int argc, char **argv)
{
    /* A reader that goes away is an error of the write, told by a status, not a death. */
    signal(SIGPIPE, SIG_IGN);

    if (argc < 2) {
        print_usage(stderr);
        return STATUS_WRONG;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tollgate %s\n", tg_version());
        return output_close(&cmd_help, STATUS_DONE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return run_command(&cmd_help, 1, argv + 1);
    const struct command *command = find_command(argv[1]);
    return command != NULL ? run_command(command, argc - 1, argv + 1) : unknown_command(argv[1]);
}
