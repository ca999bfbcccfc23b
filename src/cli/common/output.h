/* output.h - results on stdout, and what happens when they cannot be written. */
#ifndef TG_COMMON_OUTPUT_H
#define TG_COMMON_OUTPUT_H

#include <stdbool.h>

#include "cli/common/command.h"
#include "io/text/json_write.h"

/* Sends what was written to stdout, whole, and clears the writer. On false, end with
 * output_failed(). */
bool output_send(struct json_writer *writer);

/* Says why stdout could not be written, and returns the status to end with. Nothing is said when
 * the reader has gone: `tollgate replay ... | head` is no mistake. */
int output_failed(const struct command *command);

/* Ends stdout. A result that was lost on the way to a full disk is no result: the status is then
 * that of a failure. */
int output_close(const struct command *command, int status);

#endif
