/* replay_limiter.c - `tollgate replay --limiter`: what one limiter would have decided.
 *
 * It is the limiter and the store of the library that decide, not a model of them: about half a
 * microsecond a line in all. Time may go back from one line to the next: how a limiter takes that
 * is one of the things to be found out.
 */
#include "cli/replay_modes.h"
#include "cli/trace.h"

struct limited {
    struct tg_store *store;
    tg_limits limits;
};

static bool make_store(struct limited *limited, const struct command *command,
                       const struct tg_limiter *limiter)
{
    struct tg_limit limit = {.limiter = *limiter, .axis = TG_AXIS_COST};
    struct tg_store_config config;
    struct tg_problem problem;

    tg_store_config_init(&config);
    config.memory_bytes = REPLAY_STORE_BYTES;
    config.shards = 1; /* there is one thread */
    if (tg_store_new(&config, &limited->store, &problem) == TG_OK &&
        tg_store_define(limited->store, &limit, 1, &limited->limits, &problem) == TG_OK)
        return true;
    command_say(command, "%s", problem.text);
    return false;
}

/* The limit stands on the cost axis, so that it takes what the line says and not 1. */
static enum tg_err decide(struct limited *limited, const struct trace_call *call,
                          struct json_writer *out)
{
    struct tg_scope scope = {limited->limits, call->key.bytes, call->key.size};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = call->cost};
    struct tg_decision decision;
    enum tg_err err = tg_store_take(limited->store, &debit, call->t, &decision, NULL);

    if (err != TG_OK)
        return err;
    json_write_object(out);
    replay_write_decision(out, &decision);
    json_write_object_end(out);
    json_write_line_end(out);
    return TG_OK;
}

static int decide_all(struct limited *limited, struct replay_input *input)
{
    struct trace_call call;
    struct tg_problem problem;
    struct line line;
    int status;

    while (replay_input_next(input, &line, &status)) {
        enum trace_result found = trace_read(input->reader, &line, &call, &problem);
        if (found == TRACE_WRONG)
            return replay_input_stop(input, STATUS_WRONG, input->lines.number, problem.text);
        if (found == TRACE_BLANK)
            continue;
        enum tg_err err = decide(limited, &call, &input->out);
        if (err != TG_OK)
            return replay_input_stop(input, STATUS_FAILED, input->lines.number, tg_strerror(err));
    }
    return status == STATUS_DONE ? replay_input_finish(input) : status;
}

int replay_by_limiter(struct replay_input *input, const struct tg_limiter *limiter)
{
    struct limited limited = {.store = NULL};
    int status = STATUS_FAILED;

    if (make_store(&limited, input->command, limiter))
        status = decide_all(&limited, input);
    tg_store_free(limited.store);
    return status;
}
