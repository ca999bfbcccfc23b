/* gate_config.c - the gate of a configuration file, for `replay` and `sim`. See gate_config.h. */
#include "cli/common/gate_config.h"

#include <stdio.h>

#include "lib/core/problem.h"

bool gate_config_load(const struct command *command, const char *path, struct config *config)
{
    return gate_config_load_with(command, path, NULL, 0, config);
}

bool gate_config_load_with(const struct command *command, const char *path,
                           const struct config_extra *extras, size_t n_extras,
                           struct config *config)
{
    struct config_problems problems;
    enum config_result result = config_load_with(path, extras, n_extras, config, &problems);
    bool good = result == CONFIG_READ && problems.unread == 0;

    for (size_t i = 0; command != NULL && i < problems.n; i++) {
        const struct config_problem *at = &problems.list[i];
        if (at->missing && !at->unread)
            continue;
        const char *kind = at->warning && !at->unread ? "warning: " : "";
        if (at->line > 0)
            command_say(command, "%s:%zu:%zu: %s%s", at->file, at->line, at->column, kind,
                        at->text);
        else
            command_say(command, "%s: %s%s", at->file, kind, at->text);
    }
    config_problems_free(&problems);
    return good;
}

enum tg_err gate_config_scopes(const struct config *config, struct tg_store *store,
                               struct scopes **scopes, struct tg_problem *problem)
{
    struct limit_book *book = limit_book_new(store);
    enum tg_err err = TG_ERR_MEMORY;

    problem_fail(problem, "%s", tg_strerror(TG_ERR_MEMORY));
    if (book != NULL)
        err = scopes_new(config, book, scopes, problem);
    limit_book_free(book); /* there will be no other reading */
    return err;
}
