/* call_record.c - what `serve --record` writes of a call: see runtime/recorder.h.
 *
 * Every operation of a call on gates, keys and money has one function here that is called around
 * it. Without --record they return at once.
 */
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/container_of.h"
#include "server/proxy/call.h"

static struct recorder *recorder_of(const struct call *call)
{
    return call->gateway->recorder;
}

/* ---- its runs at gates ---- */

void call_record_before(struct admission_run *run, const struct admission_event *event)
{
    struct call *call = call_of_run(run);

    record_run_before(recorder_of(call), &call->trail, run, event);
}

void call_record_after(struct admission_run *run, const struct admission_event *event,
                       const struct tg_answer *answer)
{
    struct call *call = call_of_run(run);
    struct record_place place = {.at = "gate"};

    if (run == &call->slot)
        place = (struct record_place){
            .at = "slot", .slots = "model", .name = call->route->config->name};
    record_run_after(recorder_of(call), &call->trail, &place, run, event, answer);
}

void call_record_first_byte(struct call *call, const struct admission_run *run, uint64_t number,
                            tg_ms at, double sample_ms)
{
    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(&call->trail, number, at, "first_byte"))
        return;
    record_word(&call->trail, "at", run == &call->slot ? "slot" : "gate");
    record_real(&call->trail, "sample", sample_ms);
    record_op_end(&call->trail);
}

void call_record_room(struct call *call, uint64_t number, int64_t room, tg_ms until)
{
    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(&call->trail, number, call_now(call), "room"))
        return;
    record_number(&call->trail, "room", room);
    record_number(&call->trail, "until", until);
    record_op_end(&call->trail);
}

uint64_t call_record_enter(const struct call *call)
{
    return recorder_enter(recorder_of(call));
}

/* ---- money ---- */

static void record_money_answer(struct record_trail *trail, enum tg_err err,
                                const struct tg_money_answer *answer)
{
    bool reserved = !err && answer->reservation != 0;

    record_word(trail, "to", err ? "failed" : reserved ? "reserved" : "refused");
    if (reserved)
        record_number(trail, "reserved", answer->reserved);
    else if (!err)
        record_word(trail, "reason", answer->contended ? "budget_contended" : "budget");
}

void call_record_reserve(struct call *call, uint64_t number, const struct spending_call *spending,
                         enum tg_err err, const struct tg_money_answer *answer)
{
    struct record_trail *trail = &call->trail;

    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(trail, number, call_now(call), "reserve"))
        return;
    record_number(trail, "money", spending->money);
    if (spending->up_to)
        record_flag(trail, "up_to", true);
    if (call->attempt.most > 0)
        record_number(trail, "most", call->attempt.most);
    record_money_answer(trail, err, answer);
    record_op_end(trail);
}

void call_record_store_money(struct call *call, enum tg_err err,
                             const struct tg_money_answer *answer)
{
    uint64_t number = call_record_enter(call);

    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(&call->trail, number, call_now(call), "store"))
        return;
    record_word(&call->trail, "at", "money");
    record_money_answer(&call->trail, err, answer);
    record_op_end(&call->trail);
}

void call_record_store_key(struct call *call)
{
    uint64_t number = call_record_enter(call);

    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(&call->trail, number, call_now(call), "store"))
        return;
    record_word(&call->trail, "at", "key");
    record_word(&call->trail, "to", "failed");
    record_op_end(&call->trail);
}

void call_record_settle(struct call *call, uint64_t number, const struct spending_use *use)
{
    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(&call->trail, number, call_now(call), "settle"))
        return;
    record_number(&call->trail, "spent", use->spent);
    if (use->uncertain > 0)
        record_number(&call->trail, "uncertain", use->uncertain);
    record_op_end(&call->trail);
}

/* ---- keys ---- */

/* What a client chose to be known by is its own business: a hash that nobody else can make is as
 * good. */
static void record_affinity(const struct call *call, struct record_trail *trail,
                            const struct tg_key_call *key)
{
    char text[17];

    if (key->affinity == NULL)
        return;
    snprintf(text, sizeof text, "%016llx",
             (unsigned long long)XXH3_64bits_withSeed(key->affinity, key->affinity_bytes,
                                                      call->gateway->seed));
    record_word(trail, "affinity", text);
}

/* A key of an older configuration is none that the ring knows: "". */
static const char *key_name(const struct route_key *key, const struct generation *ring)
{
    return key->generation == ring ? key->config->name : "";
}

void call_record_key(struct call *call, uint64_t number, const struct tg_key_call *key,
                     const struct tg_key_answer *answer, bool hint)
{
    struct record_trail *trail = &call->trail;

    if (number == 0)
        return;
    const struct generation *ring = recorder_of(call)->ring;
    recorder_leave(recorder_of(call));
    if (!record_op(trail, number, call_now(call), "key"))
        return;
    record_word(trail, "provider", call_provider(call)->config->name);
    if (call->route)
        record_word(trail, "model", call->route->config->name);
    if (hint)
        record_flag(trail, "hint", true);
    record_number(trail, "tokens", key->tokens);
    if (key->asked > 0)
        record_number(trail, "asked", key->asked);
    record_affinity(call, trail, key);
    if (key->prefer)
        record_word(trail, "prefer", key_name(key->prefer, ring));
    if (key->n_tried > 0) {
        json_write_key(&trail->out, "tried");
        json_write_array(&trail->out);
        for (size_t i = 0; i < key->n_tried; i++)
            json_write_string(&trail->out, key_name(key->tried[i], ring),
                              strlen(key_name(key->tried[i], ring)));
        json_write_array_end(&trail->out);
    }
    record_word(trail, "to", answer->lease != 0 ? "key" : "refused");
    if (answer->lease != 0) {
        const struct route_key *owner = answer->owner;
        record_word(trail, "key", owner->config->name);
    } else {
        record_word(trail, "reason",
                    answer->too_large     ? "too_large"
                    : answer->all_cooling ? "keys_cooling"
                                          : "no_key");
        record_number(trail, "retry_after", answer->retry_after_ms);
    }
    record_op_end(trail);
}

void call_record_key_end(struct call *call, uint64_t number, const struct tg_key_report *report)
{
    static const char *const outcomes[] = {[TG_KEY_OK] = "ok",
                                           [TG_KEY_LIMITED] = "limited",
                                           [TG_KEY_FAILED] = "failed",
                                           [TG_KEY_REFUSED] = "refused",
                                           [TG_KEY_REJECTED] = "rejected",
                                           [TG_KEY_CANCELLED] = "cancelled"};
    struct record_trail *trail = &call->trail;

    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(trail, number, call_now(call), "key_end"))
        return;
    record_word(trail, "outcome", outcomes[report->outcome]);
    record_flag(trail, "sent", report->sent);
    if (report->tokens >= 0)
        record_number(trail, "tokens", report->tokens);
    if (report->latency_ms >= 0)
        record_real(trail, "latency", report->latency_ms);
    if (report->cool_until > 0)
        record_number(trail, "cool_until", report->cool_until);
    record_op_end(trail);
}

void call_record_key_held(struct call *call, uint64_t number, const struct tg_key_hold *hold)
{
    static const char *const whys[] = {
        [TG_HOLD_COOLING] = "cooling", [TG_HOLD_BROKEN] = "broken", [TG_HOLD_BUSY] = "busy"};
    struct record_trail *trail = &call->trail;

    if (number == 0)
        return;
    recorder_leave(recorder_of(call));
    if (!record_op(trail, number, call_now(call), "key_held"))
        return;
    record_word(trail, "why", whys[hold->why]);
    record_flag(trail, "of_group", hold->of_group);
    record_number(trail, "until", hold->until);
    record_number(trail, "room", hold->room);
    record_op_end(trail);
}
