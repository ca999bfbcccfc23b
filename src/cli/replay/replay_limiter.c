/* replay_limiter.c - `tollgate replay --limiter`: what one limiter would have decided.
 *
 * It is the limiter and the store of the library that decide, not a model of them: about half a
 * microsecond a line in all. Time may go back from one line to the next: how a limiter takes that
 * is one of the things to be found out.
 */
#include "cli/replay/replay_modes.h"
#include "cli/replay/trace.h"

struct limited {
    struct tg_limit limit; /* on the cost axis, so that it takes what the line says and not 1 */
    struct tg_store *store;
    tg_limits limits;
    struct replay_store *remote; /* in place of the store; null: that decides */
};

static bool make_store(struct limited *limited, const struct command *command)
{
    struct tg_store_config config;
    struct tg_problem problem;

    tg_store_config_init(&config);
    config.memory_bytes = REPLAY_STORE_BYTES;
    config.shards = 1; /* there is one thread */
    if (tg_store_new(&config, &limited->store, &problem) == TG_OK &&
        tg_store_define(limited->store, &limited->limit, 1, &limited->limits, &problem) == TG_OK)
        return true;
    command_say(command, "%s", problem.text);
    return false;
}

static enum tg_err take_here(struct limited *limited, const struct trace_call *call,
                             struct tg_decision *decision)
{
    struct tg_scope scope = {
        .limits = limited->limits, .key = call->key.bytes, .key_bytes = call->key.size};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = call->cost};

    return tg_store_take(limited->store, &debit, call->t, decision, NULL);
}

static enum tg_err take_there(struct limited *limited, const struct trace_call *call,
                              struct tg_decision *decision)
{
    struct slice key = {call->key.bytes, call->key.size};
    struct remote_scope scope = {SLICE("limiter"), key, &limited->limit, 1};
    struct remote_debit debit = {.root = key, .scopes = &scope, .n_scopes = 1, .cost = call->cost};
    struct remote_charge charge;
    struct tg_axes axes;
    enum tg_err err = replay_store_take(limited->remote, &debit, call->t, &axes, &charge);

    if (err == TG_OK)
        *decision = axes.decision[TG_AXIS_COST];
    return err;
}

static enum tg_err replay_limiter_decide(struct limited *limited, const struct trace_call *call,
                                         struct json_writer *out)
{
    struct tg_decision decision;
    enum tg_err err = limited->remote != NULL ? take_there(limited, call, &decision)
                                              : take_here(limited, call, &decision);

    if (err != TG_OK)
        return err;
    json_write_object(out);
    replay_write_decision(out, &decision);
    json_write_object_end(out);
    json_write_line_end(out);
    return TG_OK;
}

/* There is no decision. A store elsewhere knows more about why. */
static int stop(const struct limited *limited, struct replay_input *input, enum tg_err err)
{
    struct tg_problem problem = {""};

    if (limited->remote != NULL)
        replay_store_problem(limited->remote, &problem);
    return replay_input_stop(input, STATUS_FAILED, input->lines.number,
                             problem.text[0] != '\0' ? problem.text : tg_strerror(err));
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
        enum tg_err err = replay_limiter_decide(limited, &call, &input->out);
        if (err != TG_OK)
            return stop(limited, input, err);
    }
    return status == STATUS_DONE ? replay_input_finish(input) : status;
}

int replay_by_limiter(struct replay_input *input, const struct tg_limiter *limiter,
                      struct replay_store *store)
{
    struct limited limited = {
        .limit = {.limiter = *limiter, .axis = TG_AXIS_COST},
        .remote = store,
    };
    int status = STATUS_FAILED;

    if (store != NULL || make_store(&limited, input->command))
        status = decide_all(&limited, input);
    tg_store_free(limited.store);
    return status;
}
