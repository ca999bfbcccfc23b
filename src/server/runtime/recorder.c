/* recorder.c - operations as text, and the first lines of a recording. See recorder.h. */
#include "server/runtime/recorder.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/text/json_member.h"
#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/obs/record.h"
#include "server/runtime/gateway.h"
#include "server/runtime/inherited.h"

/* ---- writing an operation ---- */

void record_trail_fini(struct record_trail *trail)
{
    json_writer_fini(&trail->out);
    *trail = (struct record_trail){.at = 0};
}

struct slice record_trail_text(struct record_trail *trail)
{
    if (trail->out.text.size == 0 || trail->out.text.failed)
        return (struct slice){NULL, 0};
    json_write_array_end(&trail->out);
    return text_out_written(&trail->out.text);
}

bool record_op(struct record_trail *trail, uint64_t number, tg_ms now, const char *op)
{
    struct json_writer *out = &trail->out;

    assert(number != 0);
    if (out->text.size > RECORD_TRAIL_MAX || out->text.failed) {
        trail->lost++;
        return false;
    }
    if (out->text.size == 0)
        json_write_array(out);
    json_write_object(out);
    record_number(trail, "q", (int64_t)number);
    record_number(trail, "t", now);
    record_word(trail, "op", op);
    return true;
}

void record_op_end(struct record_trail *trail)
{
    json_write_object_end(&trail->out);
}

static void record_text(struct record_trail *trail, const char *key, struct slice text)
{
    json_write_key(&trail->out, key);
    json_write_string(&trail->out, text.at, text.n);
}

void record_word(struct record_trail *trail, const char *key, const char *word)
{
    if (word != NULL)
        record_text(trail, key, slice_of(word));
}

void record_number(struct record_trail *trail, const char *key, int64_t number)
{
    json_member_number(&trail->out, key, number);
}

void record_real(struct record_trail *trail, const char *key, double number)
{
    json_member_real(&trail->out, key, number);
}

void record_flag(struct record_trail *trail, const char *key, bool flag)
{
    json_member_flag(&trail->out, key, flag);
}

static void record_axis(struct record_trail *trail, const char *key, const struct tg_decision *axis)
{
    json_write_key(&trail->out, key);
    json_write_array(&trail->out);
    json_write_integer(&trail->out, axis->allowed);
    json_write_integer(&trail->out, axis->limit);
    json_write_integer(&trail->out, axis->remaining);
    json_write_integer(&trail->out, axis->reset_at);
    json_write_integer(&trail->out, axis->retry_after_ms);
    json_write_array_end(&trail->out);
}

/* What the remote store said of rate and cost: a replay cannot know it, and is told. */
static void record_store_answer(struct record_trail *trail, const struct tg_axes *axes)
{
    json_write_key(&trail->out, "store");
    json_write_object(&trail->out);
    if (axes->present & 1u << TG_AXIS_RATE)
        record_axis(trail, "rate", &axes->decision[TG_AXIS_RATE]);
    if (axes->present & 1u << TG_AXIS_COST)
        record_axis(trail, "cost", &axes->decision[TG_AXIS_COST]);
    if (axes->would_deny != 0)
        record_number(trail, "would_deny", axes->would_deny);
    if (axes->reset_at > 0)
        record_number(trail, "reset_at", axes->reset_at);
    if (axes->retry_after_ms > 0)
        record_number(trail, "retry_after", axes->retry_after_ms);
    json_write_object_end(&trail->out);
}

/* ---- a run at a gate ---- */

void record_run_before(struct recorder *recorder, struct record_trail *trail,
                       const struct admission_run *run, const struct admission_event *event)
{
    assert(trail->at == 0);
    /* An end without a lease changes nothing at a gate. */
    if (event->kind != ADMISSION_END ||
        (!admission_run_holds_nothing(run) && (run->lease != 0 || run->state == ADMISSION_ASKING)))
        trail->at = recorder_enter(recorder);
}

static void record_call(struct record_trail *trail, const struct tg_call *call,
                        enum admission_event_kind kind)
{
    if (kind == ADMISSION_PRECHECK) {
        if (call->peek)
            record_number(trail, "peek", call->debit.cost);
        if (call->known != NULL)
            record_store_answer(trail, call->known);
        if (call->lease_ttl > 0)
            record_number(trail, "ttl", call->lease_ttl);
        return;
    }
    if (call->debit.n_scopes > 0)
        record_number(trail, "cost", call->debit.cost);
    if (call->work > 0)
        record_number(trail, "work", call->work);
    record_number(trail, "size", call->size);
    record_real(trail, "hold", call->hold_s);
    if (call->deadline > 0)
        record_number(trail, "by", call->deadline);
    if (call->lease_ttl > 0)
        record_number(trail, "ttl", call->lease_ttl);
}

static void record_release(struct record_trail *trail, const struct tg_release *release)
{
    static const char *const outcomes[] = {[TG_OUTCOME_OK] = "ok",
                                           [TG_OUTCOME_DROPPED] = "dropped",
                                           [TG_OUTCOME_CANCELLED] = "cancelled",
                                           [TG_OUTCOME_REFUSED] = "refused"};

    record_word(trail, "outcome", outcomes[release->outcome]);
    if (release->sample_ms >= 0)
        record_real(trail, "sample", release->sample_ms);
    if (release->actual >= 0)
        record_number(trail, "actual", release->actual);
    if (release->work >= 0)
        record_number(trail, "work", release->work);
}

static void record_decision(struct record_trail *trail, const struct admission_run *run,
                            const struct tg_answer *answer)
{
    static const char *const states[] = {
        [ADMISSION_CHECKED] = "passed",  [ADMISSION_WAITING] = "waiting",
        [ADMISSION_ASKING] = "asking",   [ADMISSION_ADMITTED] = "admitted",
        [ADMISSION_REFUSED] = "refused", [ADMISSION_FAILED] = "failed",
    };

    assert(run->state != ADMISSION_IDLE);
    record_word(trail, "to", states[run->state]);
    if (run->state == ADMISSION_REFUSED)
        record_word(trail, "reason", tg_reason_name(answer->reason));
    if (run->state == ADMISSION_ADMITTED && answer->charge > 0)
        record_number(trail, "charge", answer->charge);
    if (run->state != ADMISSION_ADMITTED && run->state != ADMISSION_REFUSED)
        return;
    record_number(trail, "limit", answer->decision.limit);
    record_number(trail, "remaining", answer->decision.remaining);
    record_number(trail, "reset_at", answer->decision.reset_at);
    record_number(trail, "retry_after", answer->decision.retry_after_ms);
}

/* An answer of the store that came at once is in the answer of the gate: it leaves rate and cost as
 * they are. A slot asks no store. */
static void record_store(struct record_trail *trail, const struct admission_run *run,
                         const struct admission_event *event, const struct tg_answer *answer)
{
    if (event->kind == ADMISSION_STORE_ANSWER) {
        if (event->outcome == TG_OK)
            record_store_answer(trail, event->axes);
        else
            record_flag(trail, "store_failed", true);
        return;
    }
    if (run->ops->ask == NULL || run->call->debit.n_scopes == 0)
        return;
    if (run->state == ADMISSION_FAILED && run->err == TG_ERR_STORE)
        record_flag(trail, "store_failed", true);
    else if (run->state == ADMISSION_ADMITTED ||
             (run->state == ADMISSION_REFUSED &&
              (answer->reason == TG_REASON_RATE || answer->reason == TG_REASON_COST)))
        record_store_answer(trail, &answer->axes);
}

void record_run_after(struct recorder *recorder, struct record_trail *trail,
                      const struct record_place *place, const struct admission_run *run,
                      const struct admission_event *event, const struct tg_answer *answer)
{
    static const char *const ops[] = {[ADMISSION_PRECHECK] = "check",
                                      [ADMISSION_ADMIT] = "admit",
                                      [ADMISSION_WAKE] = "resume",
                                      [ADMISSION_STORE_ANSWER] = "store",
                                      [ADMISSION_END] = "release"};
    uint64_t number = trail->at;

    if (number == 0)
        return;
    trail->at = 0;
    recorder_leave(recorder);
    if (!record_op(trail, number, event->now, ops[event->kind]))
        return;
    record_word(trail, "at", place->at);
    if (event->kind == ADMISSION_PRECHECK || event->kind == ADMISSION_ADMIT) {
        if (place->slots != NULL)
            record_word(trail, place->slots, place->name);
        else if (place->who.n > 0)
            record_text(trail, "who", place->who);
        record_call(trail, run->call, event->kind);
    }
    if (event->kind == ADMISSION_END) {
        record_release(trail, event->release);
    } else {
        record_decision(trail, run, answer);
        if (place->hands_over && run->state == ADMISSION_ADMITTED && run->lease != 0)
            record_number(trail, "lease", (int64_t)run->lease);
        if (event->kind != ADMISSION_PRECHECK && recorder->remote)
            record_store(trail, run, event, answer);
    }
    record_op_end(trail);
}

/* ---- what belongs to no call ---- */

void recorder_lease_end(struct gateway *gateway, uint64_t number, tg_ms now, const char *at,
                        tg_lease lease, const struct tg_release *release)
{
    struct record_trail trail = {.at = 0};

    if (number == 0)
        return;
    record_op(&trail, number, now, "lease_end");
    record_word(&trail, "at", at);
    record_number(&trail, "lease", (int64_t)lease);
    record_release(&trail, release);
    record_op_end(&trail);
    recorder_write(gateway, &trail);
}

void recorder_lease_renew(struct gateway *gateway, uint64_t number, tg_ms now, tg_lease lease,
                          tg_ms ttl)
{
    struct record_trail trail = {.at = 0};

    if (number == 0)
        return;
    record_op(&trail, number, now, "lease_renew");
    record_number(&trail, "lease", (int64_t)lease);
    record_number(&trail, "ttl", ttl);
    record_op_end(&trail);
    recorder_write(gateway, &trail);
}

void recorder_write(struct gateway *gateway, struct record_trail *trail)
{
    struct slice text = record_trail_text(trail);

    if (text.n > 0 && gateway->log != NULL)
        log_record_ops(gateway->log, text);
    record_trail_fini(trail);
}

void recorder_change(struct gateway *gateway, const char *what, const char *detail)
{
    uint64_t number = recorder_enter(gateway->recorder);

    recorder_leave(gateway->recorder);
    recorder_note_change(gateway, number, clock_now_ms(&gateway->clock), what, detail);
}

void recorder_note_change(struct gateway *gateway, uint64_t number, tg_ms now, const char *what,
                          const char *detail)
{
    struct record_trail trail = {.at = 0};

    if (number == 0)
        return;
    record_op(&trail, number, now, "change");
    record_word(&trail, "what", what);
    record_word(&trail, "detail", detail);
    record_op_end(&trail);
    recorder_write(gateway, &trail);
}

/* ---- its life ---- */

/* What was spent in the windows of an account before the recording began. */
static void record_account(void *context, const struct spending_account *account)
{
    struct json_writer *out = context;
    bool any = false;

    for (size_t i = 0; i < account->n_budgets; i++)
        any |= account->budgets[i].settled > 0;
    if (!any)
        return;
    json_write_object(out);
    json_write_key(out, "op");
    json_write_string(out, "spent", 5);
    if (account->tenant != NULL) {
        json_member_text(out, "tenant", account->tenant);
    }
    if (account->key != NULL) {
        json_member_text(out, "virtual_key", account->key);
    }
    if (account->user.size > 0) {
        json_write_key(out, "user");
        json_write_string(out, account->user.bytes, account->user.size);
    }
    json_write_key(out, "settled");
    json_write_array(out);
    for (size_t i = 0; i < account->n_budgets; i++)
        json_write_integer(out, account->budgets[i].settled);
    json_write_array_end(out);
    json_write_object_end(out);
    json_write_line_end(out);
}

static void record_first_line(struct gateway *gateway, struct json_writer *out)
{
    const struct config *config = &gateway_newest(gateway)->config;
    tg_ms now = gateway->began_at;
    struct record_first first = {
        .now = now,
        .ahead_ms = clock_wall_of(&gateway->clock, now) - now,
        .chance = gateway->chance,
        .workers = gateway->n_threads - 1,
        .store = gateway->remote == NULL  ? "memory"
                 : config->store.two_tier ? "redis, blocks"
                                          : "redis",
        .config_hash = config->hash,
        .generation = gateway_newest(gateway)->number,
        .inherited = gateway->inherited != NULL && gateway->inherited->has_seed,
        .policy_learned = gateway->policy_recalled,
    };

    record_first_write(&first, out);
}

static bool write_whole(int fd, struct slice text)
{
    while (text.n > 0) {
        ssize_t n = write(fd, text.at, text.n);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            text = (struct slice){text.at + n, text.n - (size_t)n};
    }
    return true;
}

bool recorder_begin(struct gateway *gateway, int fd, struct tg_problem *problem)
{
    struct recorder *made = calloc(1, sizeof *made);
    struct json_writer out;
    struct stat status;

    if (made == NULL)
        return problem_fail(problem, "no memory for the recording");
    json_writer_init(&out);
    /* A process that was killed may have left half a line. */
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        json_write_line_end(&out);
    record_first_line(gateway, &out);
    bool fine = spending_each(gateway->spending, clock_now_ms(&gateway->clock), record_account,
                              &out, problem);
    if (fine && (out.text.failed || !write_whole(fd, text_out_written(&out.text))))
        fine = problem_fail(problem, "the recording cannot be written: %s",
                            out.text.failed ? "no memory" : strerror(errno));
    json_writer_fini(&out);
    if (!fine) {
        free(made);
        return false;
    }
    pthread_mutex_init(&made->order, NULL);
    made->remote = gateway->remote != NULL;
    made->ring = gateway_newest(gateway);
    gateway->recorder = made;
    return true;
}

void recorder_end(struct gateway *gateway)
{
    struct record_trail trail = {.at = 0};

    if (gateway->recorder == NULL || gateway->log == NULL)
        return;
    uint64_t number = recorder_enter(gateway->recorder);
    recorder_leave(gateway->recorder);
    record_op(&trail, number, clock_now_ms(&gateway->clock), "end");
    record_number(
        &trail, "unrecorded",
        (int64_t)atomic_load_explicit(&gateway->recorder->unrecorded, memory_order_relaxed));
    record_op_end(&trail);
    recorder_write(gateway, &trail);
}

void recorder_free(struct recorder *recorder)
{
    if (recorder == NULL)
        return;
    pthread_mutex_destroy(&recorder->order);
    free(recorder);
}
