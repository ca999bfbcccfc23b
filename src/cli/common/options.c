/* options.c - the options of a subcommand.
 *
 * Not getopt_long(): it takes a shortened name for a long one, so that a name added later breaks
 * scripts, and its messages do not say what is allowed.
 */
#include "cli/common/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 128

void command_say(const struct command *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "tollgate %s: ", command->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void list_options(const struct command *command, const struct cli_option *options, size_t n)
{
    fprintf(stderr, "tollgate %s: it takes", command->name);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%s %s%s%s", i > 0 ? "," : "", options[i].name,
                options[i].argument != NULL ? " " : "",
                options[i].argument != NULL ? options[i].argument : "");
    fprintf(stderr, "%s --help\n", n > 0 ? "," : "");
}

/* The option that `word` names, up to its `=`. */
static const struct cli_option *find_option(const struct cli_option *options, size_t n,
                                            const char *word)
{
    size_t length = strcspn(word, "=");

    for (size_t i = 0; i < n; i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, word, length) == 0)
            return &options[i];
    return NULL;
}

/* Takes the option at argv[at]. Returns how many words it had, 0 if it is wrong. */
static int take_option(const struct command *command, const struct cli_option *option, int argc,
                       char **argv, int at)
{
    const char *equals = strchr(argv[at], '=');

    if (option->argument == NULL) {
        if (equals != NULL) {
            command_say(command, "%s takes no value", option->name);
            return 0;
        }
        *option->given = true;
        return 1;
    }
    if (equals != NULL) {
        *option->value = equals + 1;
        return 1;
    }
    if (at + 1 == argc) {
        command_say(command, "%s needs %s after it", option->name, option->argument);
        return 0;
    }
    *option->value = argv[at + 1];
    return 2;
}

int options_read(const struct command *command, const struct cli_option *options, size_t n,
                 int argc, char **argv)
{
    bool seen[OPTIONS_MAX] = {false};
    bool only_operands = false;
    int operands = 0;

    for (int at = 1; at < argc;) {
        char *word = argv[at];
        if (only_operands || word[0] != '-' || word[1] == '\0') {
            argv[++operands] = word;
            at++;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_operands = true;
            at++;
            continue;
        }
        const struct cli_option *option = find_option(options, n, word);
        if (option == NULL) {
            command_say(command, "there is no option %s", word);
            list_options(command, options, n);
            return -1;
        }
        if (seen[option - options]) {
            command_say(command, "%s is given twice", option->name);
            return -1;
        }
        seen[option - options] = true;
        int words = take_option(command, option, argc, argv, at);
        if (words == 0)
            return -1;
        at += words;
    }
    return operands;
}
