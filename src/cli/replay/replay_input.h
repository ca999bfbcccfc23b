/* replay_input.h - the trace of a replay: its lines, what is said about them, and the output. */
#ifndef TG_REPLAY_REPLAY_INPUT_H
#define TG_REPLAY_REPLAY_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/common/command.h"
#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "io/text/lines.h"
#include "tollgate.h"

struct replay_input {
    const struct command *command;
    const char *name; /* the trace's name in messages */
    struct lines lines;
    struct json_reader *reader;
    struct json_writer out;
    int64_t progress_at; /* when to show progress next; 0: never */
    bool progress_shown;
    bool has_warned; /* a recording without its version was warned about */
    bool is_peeked;  /* `peeked` is given next */
    struct line peeked;
};

/* A replay must not lose a key: the memory of the machine ends before this. */
#define REPLAY_STORE_BYTES ((size_t)(SIZE_MAX > UINT32_MAX ? UINT64_C(8) << 30 : SIZE_MAX / 4))

/* False after saying that there is no memory. `name` and `fd` are the caller's. */
bool replay_input_init(struct replay_input *input, const struct command *command, const char *name,
                       int fd);
void replay_input_fini(struct replay_input *input);

/* The next line. Sends output when there is enough of it, and before waiting for more input: so
 * replay also works at the end of a live pipe. False: there is none; `status` is STATUS_DONE at the
 * end of the trace, anything else after saying why. */
bool replay_input_next(struct replay_input *input, struct line *line, int *status);

/* Looks at the next line, which replay_input_next() then gives. */
bool replay_input_peek(struct replay_input *input, struct line *line, int *status);

/* Says, once, that lines were recorded by a version that recorded no ends. */
void replay_input_warn(struct replay_input *input);

/* Sends what was decided so far, then says what is wrong with a line. Returns the status. */
int replay_input_stop(struct replay_input *input, int status, uint64_t line, const char *text);

/* Sends what is left. Returns the status to end with. */
int replay_input_finish(struct replay_input *input);

/* The five fields of a decision, within an object. */
void replay_write_decision(struct json_writer *out, const struct tg_decision *decision);

#endif
