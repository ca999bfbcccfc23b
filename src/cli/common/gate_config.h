/* gate_config.h - the gate of a configuration file, for commands that run it in virtual time. */
#ifndef TG_COMMON_GATE_CONFIG_H
#define TG_COMMON_GATE_CONFIG_H

#include "cli/common/command.h"
#include "server/tenancy/scopes.h"

/* Reads the file and says what is wrong with it. Files and variables that only `serve` needs may be
 * missing. The configuration has to be freed, whatever the answer. */
bool gate_config_load(const struct command *command, const char *path, struct config *config);

/* The same with what the API made. A null `command` says nothing. */
bool gate_config_load_with(const struct command *command, const char *path,
                           const struct config_extra *extras, size_t n_extras,
                           struct config *config);

/* What its calls have to clear. The configuration is borrowed. */
TG_MUST_CHECK enum tg_err gate_config_scopes(const struct config *config, struct tg_store *store,
                                             struct scopes **scopes, struct tg_problem *problem);

#endif
