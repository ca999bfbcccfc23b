/* replay_gate.c - `tollgate replay -c`: what the whole gate of a configuration would have decided.
 *
 * One line of output for each call, in the order of the decisions:
 *
 *     {"allowed":..,"limit":..,"remaining":..,"reset_at":..,"retry_after":..,   as with --limiter
 *      "t":..,                when it was decided, in virtual time
 *      "id":..,               if the call has one, as it was written
 *      "reason":"..",         if it is refused: the stage
 *      "binding_axis":"..",   if an axis refused it: the first that did
 *      "policy_denied":..,    always
 *      "would_deny":[..],     if a stage or limit in shadow would have refused: the stages
 *      "axes":{"concurrency":{..},"rate":{..},"cost":{..}}}       those that were checked
 */
#include "cli/replay/replay_modes.h"
#include "cli/replay/replay_side.h"
#include "io/text/json_member.h"

#include <string.h>

static void write_id(struct json_writer *out, const struct replay_call *call)
{
    if (call->id.bytes == NULL)
        return;
    json_write_key(out, "id");
    if (call->id_is_number)
        json_write_integer(out, call->id_number);
    else
        json_write_string(out, call->id.bytes, call->id.size);
}

static void write_would_deny(struct json_writer *out, unsigned reasons)
{
    if (reasons == 0)
        return;
    json_write_key(out, "would_deny");
    json_write_array(out);
    for (int reason = 0; reason < TG_REASON_COUNT; reason++)
        if (reasons & 1u << reason) {
            const char *name = tg_reason_name((enum tg_reason)reason);
            json_write_string(out, name, strlen(name));
        }
    json_write_array_end(out);
}

static void write_axes(struct json_writer *out, const struct tg_axes *axes)
{
    json_write_key(out, "axes");
    json_write_object(out);
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (axes->present & 1u << axis) {
            json_write_key(out, tg_axis_name((enum tg_axis)axis));
            json_write_object(out);
            replay_write_decision(out, &axes->decision[axis]);
            json_write_object_end(out);
        }
    json_write_object_end(out);
}

static void write_call(void *context, const struct replay_call *call,
                       const struct tg_answer *answer, tg_ms at)
{
    struct json_writer *out = context;

    if (answer == NULL)
        return;
    const char *binding = answer->policy_denied || answer->decision.allowed
                              ? NULL
                              : tg_axis_name(tg_axes_binding(&answer->axes));
    json_write_object(out);
    replay_write_decision(out, &answer->decision);
    json_member_number(out, "t", at);
    write_id(out, call);
    if (answer->reason != TG_REASON_NONE)
        json_member_text(out, "reason", tg_reason_name(answer->reason));
    if (binding != NULL)
        json_member_text(out, "binding_axis", binding);
    json_member_flag(out, "policy_denied", answer->policy_denied);
    write_would_deny(out, answer->would_deny);
    write_axes(out, &answer->axes);
    json_write_object_end(out);
    json_write_line_end(out);
}

static void write_limits(struct json_writer *out, tg_ms t, const struct tg_gate_stats *stats)
{
    int64_t queued = 0;

    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        queued += stats->queued[p];
    json_write_object(out);
    json_member_number(out, "t", t);
    json_member_number(out, "concurrency_limit", stats->limit);
    json_member_number(out, "in_flight", stats->in_flight);
    json_member_number(out, "queued", queued);
    json_write_object_end(out);
    json_write_line_end(out);
}

static int tell_all(struct replay_side *side, struct replay_input *input)
{
    struct trace_event event;
    struct tg_gate_stats stats;
    struct tg_problem problem;
    struct line line;
    int status;

    while (replay_input_next(input, &line, &status)) {
        uint64_t number = input->lines.number;
        enum trace_result found = trace_read_event(input->reader, &line, &event, &problem);
        if (found == TRACE_WRONG)
            return replay_input_stop(input, STATUS_WRONG, number, problem.text);
        if (found == TRACE_BLANK)
            continue;
        if (event.is_recorded)
            replay_input_warn(input);
        if (!replay_side_event(side, &event, number, NULL, &stats))
            return replay_input_stop(input, side->status, side->line, side->problem.text);
        if (event.op == TRACE_LIMITS)
            write_limits(&input->out, event.call.t, &stats);
    }
    if (status != STATUS_DONE)
        return status;
    if (!replay_side_finish(side))
        return replay_input_stop(input, side->status, side->line, side->problem.text);
    return replay_input_finish(input);
}

int replay_by_gate(struct replay_input *input, const char *config, uint64_t seed,
                   struct replay_store *store)
{
    struct replay_side side;
    bool made =
        replay_side_init(&side, input->command, config, seed, store, write_call, &input->out);
    int status = made ? tell_all(&side, input) : side.status;

    replay_side_fini(&side);
    return status;
}
