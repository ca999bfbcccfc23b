/* replay_input.c - the trace of a replay: its lines, what is said about them, and the output.
 *
 * A line is read where read() put it, decided, and appended to a buffer of output; nothing is
 * allocated and no clock is read but for showing progress.
 */
#include "cli/replay/replay_input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/output.h"
#include "io/posix/clock.h"
#include "io/text/json_member.h"

/* Output is sent when there is this much of it. */
#define OUTPUT_BYTES ((size_t)64 << 10)

/* The clock is read once in so many lines, and the terminal is written to twice a second. */
#define PROGRESS_LINES ((uint64_t)1 << 15)
#define PROGRESS_NS INT64_C(500000000)

/* ---- Progress -------------------------------------------------------------------------------- */

/* Progress is shown only on a terminal, and where it is not mixed with the output. */
static void progress_begin(struct replay_input *input)
{
    if (isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO))
        input->progress_at = clock_monotonic_ns() + PROGRESS_NS;
}

static void progress_step(struct replay_input *input)
{
    if (input->progress_at == 0 || input->lines.number % PROGRESS_LINES != 0)
        return;
    int64_t now = clock_monotonic_ns();
    if (now < input->progress_at)
        return;
    fprintf(stderr, "\r%" PRIu64 " lines", input->lines.number);
    input->progress_at = now + PROGRESS_NS;
    input->progress_shown = true;
}

static void progress_end(struct replay_input *input)
{
    if (input->progress_shown)
        fputs("\r\033[K", stderr);
    input->progress_shown = false;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

bool replay_input_init(struct replay_input *input, const struct command *command, const char *name,
                       int fd)
{
    *input = (struct replay_input){.command = command, .name = name};
    lines_init(&input->lines, fd);
    json_writer_init(&input->out);
    input->reader = json_reader_new();
    if (input->reader == NULL) {
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return false;
    }
    progress_begin(input);
    return true;
}

void replay_input_fini(struct replay_input *input)
{
    progress_end(input);
    json_reader_free(input->reader);
    json_writer_fini(&input->out);
    lines_fini(&input->lines);
}

int replay_input_stop(struct replay_input *input, int status, uint64_t line, const char *text)
{
    bool sent = output_send(&input->out);

    progress_end(input);
    if (!sent)
        return output_failed(input->command);
    command_say(input->command, "%s:%" PRIu64 ": %s", input->name, line, text);
    return status;
}

static int stop_reading(struct replay_input *input, enum lines_result result)
{
    uint64_t line = input->lines.number;
    char text[80];

    switch (result) {
    case LINES_TOO_LONG:
        snprintf(text, sizeof text, "a line may have %zu bytes, this one has more",
                 LINES_BYTES_MAX);
        return replay_input_stop(input, STATUS_WRONG, line, text);
    case LINES_NO_MEMORY:
        return replay_input_stop(input, STATUS_FAILED, line, tg_strerror(TG_ERR_MEMORY));
    default:
        snprintf(text, sizeof text, "cannot be read: %s", strerror(errno));
        return replay_input_stop(input, STATUS_WRONG, line, text);
    }
}

void replay_input_warn(struct replay_input *input)
{
    if (input->has_warned)
        return;
    input->has_warned = true;
    command_say(input->command,
                "%s: warning: these lines are a recording without its first line, or of a version "
                "that recorded no ends: no call ends here before its lease does, so what is "
                "decided for concurrency and peers means nothing; record it again",
                input->name);
}

bool replay_input_peek(struct replay_input *input, struct line *line, int *status)
{
    if (!input->is_peeked && !replay_input_next(input, &input->peeked, status))
        return false;
    input->is_peeked = true;
    *line = input->peeked;
    return true;
}

bool replay_input_next(struct replay_input *input, struct line *line, int *status)
{
    if (input->is_peeked) {
        input->is_peeked = false;
        *line = input->peeked;
        return true;
    }
    if (input->out.text.size >= OUTPUT_BYTES || !lines_ready(&input->lines))
        if (!output_send(&input->out)) {
            *status = output_failed(input->command);
            return false;
        }
    enum lines_result result = lines_next(&input->lines, line);
    if (result != LINES_LINE) {
        *status = result == LINES_END ? STATUS_DONE : stop_reading(input, result);
        return false;
    }
    progress_step(input);
    return true;
}

int replay_input_finish(struct replay_input *input)
{
    bool sent = output_send(&input->out);

    progress_end(input);
    return sent ? STATUS_DONE : output_failed(input->command);
}

/* ---- Output ---------------------------------------------------------------------------------- */

void replay_write_decision(struct json_writer *out, const struct tg_decision *decision)
{
    json_member_flag(out, "allowed", decision->allowed);
    json_member_number(out, "limit", decision->limit);
    json_member_number(out, "remaining", decision->remaining);
    json_member_number(out, "reset_at", decision->reset_at);
    json_member_number(out, "retry_after", decision->retry_after_ms);
}
