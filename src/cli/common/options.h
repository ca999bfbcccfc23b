/* options.h - the options of a subcommand. */
#ifndef TG_COMMON_OPTIONS_H
#define TG_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/common/command.h"

/* `--name`, or `--name ARGUMENT` and `--name=ARGUMENT`. */
struct cli_option {
    const char *name;     /* with its dashes */
    const char *argument; /* what it takes, for messages; null: nothing, and `given` is set */
    const char **value;
    bool *given;
};

/* Sets what is given and leaves the rest as it is. What is no option moves to argv[1] and on, and
 * is counted; `-` is no option, and nothing after `--` is. Unknown, twice, or without its
 * argument: says so and returns -1. */
int options_read(const struct command *command, const struct cli_option *options, size_t n,
                 int argc, char **argv);

#endif
