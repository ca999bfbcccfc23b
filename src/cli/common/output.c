/* output.c - results on stdout, and what happens when they cannot be written. */
#include "cli/common/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool output_send(struct json_writer *writer)
{
    bool sent = true;

    if (writer->text.failed) {
        errno = ENOMEM;
        return false;
    }
    /* Before the first byte there is no buffer. */
    if (writer->text.size > 0)
        sent = fwrite(writer->text.bytes, writer->text.size, 1, stdout) == 1 && fflush(stdout) == 0;
    json_writer_clear(writer);
    return sent;
}

int output_failed(const struct command *command)
{
    if (errno != EPIPE)
        command_say(command, "cannot write the output: %s", strerror(errno));
    return STATUS_FAILED;
}

int output_close(const struct command *command, int status)
{
    bool was_bad = ferror(stdout) != 0;

    /* Closing may be where a full disk shows: some file systems write only then. */
    if ((fclose(stdout) != 0 || was_bad) && status == STATUS_DONE)
        return output_failed(command);
    return status;
}
