/* call_attempt.c - one try at a provider: money (call_money.c), then a key, then the request; and
 * what if it fails.
 *
 * Money comes before the key: a call that cannot be paid must not occupy a key, not even for a
 * moment. Both are taken anew for each attempt and given back before the next, so that nothing
 * scarce is held while a call pauses.
 *
 * After a failure the same key is tried once more, then other keys, then any that can serve, then
 * the next fallback; all within the caller's deadline, and retries within the route's number of
 * them and the retry budget of the tenant. Before each retry the call pauses, for 50 to 200 ms at
 * first and twice as long each time; only a failure that is the key's own (it is limited, or turned
 * away) needs no pause where another key can serve. A key that was turned away, or whose account is
 * too small for the call, is not tried again for this call, and one that is cooling cannot serve:
 * where no key can by the end of the pause, nobody is kept waiting for it.
 *
 * Nothing is tried again once a byte of a reply has gone to the client, nor when a reply that comes
 * whole was too long in coming: the provider may still be writing it, and would write and bill
 * another.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/proxy/call.h"

/* The pause before the first retry on a route, in ms, is drawn between these; each further one is
 * twice as long, as often as that: 12.8 s at most. */
enum { PAUSE_MIN = 50, PAUSE_MAX = 200, PAUSE_DOUBLINGS = 6 };

/* ---- a key ---- */

static void affinity_of(const struct call *call, struct tg_key_call *key)
{
    unsigned by = call->route->config->affinity_by;
    const struct ask_text *text = NULL;

    if (by & CONFIG_BY_PREVIOUS_RESPONSE && call->ask.previous_response_id.n > 0)
        text = &call->ask.previous_response_id;
    else if (by & CONFIG_BY_PROMPT_CACHE_KEY && call->ask.prompt_cache_key.n > 0)
        text = &call->ask.prompt_cache_key;
    else if (by & CONFIG_BY_USER && call->ask.user.n > 0)
        text = &call->ask.user;
    if (text) {
        key->affinity = text->at;
        key->affinity_bytes = text->n;
    }
}

/* The first `n` of the keys that were tried are not to be taken. */
static void avoid_tried(const struct call *call, size_t n, struct tg_key_call *key)
{
    assert(call->n_refused <= call->n_tried && call->n_tried <= CALL_TRIED_MAX);
    memcpy(key->tried, call->tried, sizeof key->tried);
    key->n_tried = n;
}

/* Whether a key can serve a call like this one, other than the first `n` that were tried. */
static struct tg_key_answer peek_keys(struct call *call, size_t n)
{
    struct tg_key_answer answer;
    struct tg_key_call key;

    tg_key_call_init(&key);
    key.tokens = call->attempt.tokens;
    avoid_tried(call, n, &key);
    uint64_t number = call_record_enter(call);
    tg_pool_peek(call_pool(call), &key, call_now(call), &answer);
    call_record_key(call, number, &key, &answer, true);
    return answer;
}

/* What is said when nothing more is tried. */
static void answer_failure(struct call *call, enum call_failure failure)
{
    struct refusal why;

    if (failure == FAILURE_SERVER && call_answer_held(call))
        return;
    switch (failure) {
    case FAILURE_LIMITED:
        refusal_init(&why, REPLY_KEYS_COOLING, NULL);
        why.retry_after_ms = peek_keys(call, 0).retry_after_ms;
        break;
    case FAILURE_LARGE:
        refusal_init(&why, REPLY_REQUEST_EXCEEDS_LIMIT,
                     "the provider's limits have no room for a call of this size at any time");
        break;
    case FAILURE_CREDENTIALS:
        refusal_init(&why, REPLY_UPSTREAM_CREDENTIALS, NULL);
        break;
    case FAILURE_TIMEOUT:
    case FAILURE_LATE_REPLY:
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT, NULL);
        break;
    case FAILURE_MEMORY:
        refusal_of_memory(&why);
        break;
    case FAILURE_DEADLINE:
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT,
                     "the provider did not answer within the time that the request gave it");
        break;
    default:
        refusal_init(&why, REPLY_UPSTREAM_ERROR, NULL);
    }
    call_refuse(call, &why);
}

/* What the last attempt met is what the client is told, if the keys that are left are no better. */
static enum call_verdict no_key(struct call *call, struct tg_key_answer *answer)
{
    struct refusal why;

    if (!answer->too_large && call_fall_back(call, "no_key"))
        return CALL_FALLS_BACK;
    if (call->route_attempts > 0 && call->failure != FAILURE_LIMITED && !answer->all_cooling) {
        answer_failure(call, call->failure);
        return CALL_ANSWERED;
    }
    if (call->route_attempts > 0)
        answer->retry_after_ms = peek_keys(call, 0).retry_after_ms;
    refusal_of_keys(answer, &why);
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

/* A key may be of a newer generation than its call: see generation.h. */
static void hold_generation_of_key(struct call *call)
{
    struct generation *of = call->attempt.owner->generation;
    struct generation *last = call->key_generation;

    call->last_key = call->attempt.owner;
    if (last == NULL && of == call->generation)
        return;
    generation_ref(of, call->worker->number);
    call->key_generation = of;
    if (last)
        generation_unref(last, call->worker->number);
}

/* How often a key is looked for, while others have taken what the last one had left. */
enum { KEY_ROUNDS_MAX = 8 };

/* Two answers that were late are what a call waits for at most. Its key is then this gateway's own
 * word. */
static bool wait_timed_out(const struct call *call)
{
    return call->attempt.remote_reservation.away || call->debit.mode >= REMOTE_LOCAL;
}

/* The rest, for its key, of the time that limits and budget take if both are late. */
static tg_ms patience_of(const struct call *call)
{
    tg_ms timeout = call->generation->config.store.timeout;

    return timeout + remote_reservation_timeout(timeout) - call->store_ms;
}

static enum call_verdict refuse_without_key(struct call *call, const struct refusal *why)
{
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    call_refuse_admitted(call, why);
    return CALL_ANSWERED;
}

static enum call_verdict refuse_unknown_key(struct call *call)
{
    struct refusal why;

    call_record_store_key(call);
    refusal_init(&why, REPLY_STORE_UNAVAILABLE,
                 "how much the gateways use the provider's keys is not known at the moment");
    return refuse_without_key(call, &why);
}

/* What the window of a key is charged: what calls like this one use, unless the provider counts
 * what they ask for. */
static int64_t expected_tokens(const struct call *call, int64_t asked)
{
    struct route *route = call->route;
    double factor = route_counts_asked(call->route) ? 1 : call->gate.factor;
    double mean = atomic_load_explicit(&route->charged, memory_order_relaxed);

    atomic_store_explicit(&route->charged, mean + (factor - mean) / 16, memory_order_relaxed);
    return num_ceil((double)asked * factor);
}

static void acquire_key_once(struct call *call, struct tg_key_call *key,
                             struct tg_key_answer *answer)
{
    avoid_tried(call, call->n_tried, key);
    uint64_t number = call_record_enter(call);
    tg_pool_acquire(call_pool(call), key, call_now(call), answer);
    call_record_key(call, number, key, answer, false);
}

/* A key that was not tried, if one can serve; else any that was not turned away. */
static void acquire_key(struct call *call, struct tg_key_call *key, struct tg_key_answer *answer)
{
    acquire_key_once(call, key, answer);
    if (answer->lease != 0 || call->n_tried == call->n_refused)
        return;
    call->n_tried = call->n_refused;
    acquire_key_once(call, key, answer);
}

/* The ring of this gateway chooses; whether the key has room for all gateways together, Redis
 * knows. If it has none, the ring is told, and chooses among the others. */
enum call_verdict call_take_key(struct call *call)
{
    struct attempt *attempt = &call->attempt;
    struct tg_key_answer answer;
    struct tg_key_call key;
    enum tg_err err;

    assert(call_is_admitted(call) && attempt->money.reservation != 0 && attempt->key == 0);
    tg_key_call_init(&key);
    if (call->route) {
        key.asked = num_add(attempt->prompt, attempt->output);
        attempt->tokens = expected_tokens(call, key.asked);
        affinity_of(call, &key);
    }
    key.tokens = attempt->tokens;
    if (call->same_key)
        key.prefer = call->last_key;
    else if (call->objects.key != NULL)
        key.prefer =
            generation_find_key(call->generation, call_provider(call)->config,
                                call->route ? call->route->config : NULL, call->objects.key);
    acquire_key(call, &key, &answer);
    if (answer.lease == 0) {
        call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
        return no_key(call, &answer);
    }
    attempt->key = answer.lease;
    attempt->owner = answer.owner;
    hold_generation_of_key(call);
    if (call->gateway->remote == NULL || wait_timed_out(call))
        return CALL_PASSES;
    call->asked_at = call_now(call);
    if (!call->env->key_take(call->worker->port, &attempt->remote_key_claim,
                             &call->generation->remote, call->gateway->ring, answer.lease,
                             &attempt->owner->asked_at, patience_of(call), call->env->key_decided,
                             &err))
        return CALL_WAITS;
    return err ? refuse_unknown_key(call) : CALL_PASSES;
}

enum call_verdict call_key_answered(struct call *call, const struct call_input *with)
{
    struct attempt *attempt = &call->attempt;
    struct refusal why;

    call->store_ms += call_now(call) - call->asked_at;
    if (with->err)
        return refuse_unknown_key(call);
    if (with->hold == NULL)
        return CALL_PASSES;
    uint64_t number = call_record_enter(call);
    tg_keyring_hold_off(call->gateway->ring, attempt->key, call_now(call), with->hold);
    call_record_key_held(call, number, with->hold);
    attempt->key = 0;
    if (++attempt->key_rounds < KEY_ROUNDS_MAX)
        return call_take_key(call);
    refusal_init(&why, REPLY_NO_KEY, NULL);
    why.retry_after_ms = peek_keys(call, 0).retry_after_ms;
    return refuse_without_key(call, &why);
}

/* ---- the request ---- */

static struct retry_budget *call_retries(const struct call *call)
{
    return &call->generation->shares[call->tenant]->retries;
}

enum call_verdict call_send(struct call *call)
{
    struct refusal why;

    assert(call->route == NULL || call->body.n > 0); /* it has not been forgotten */
    if (call->attempts++ == 0) {
        call_report_admitted(call);
        if (!call->is_retry) /* what a client repeats by itself is a retry that was made already */
            retry_budget_earn(call_retries(call), &call->generation->config, call_now(call));
    }
    call->route_attempts++;
    call->attempt.began_at = call_now(call);
    call_note_sending(call);
    if (call_request_send(call)) {
        call->attempt.unsent = false;
        report_notes_sent(&call->notes);
        return CALL_WAITS;
    }
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    if (call->no_memory)
        refusal_of_memory(&why);
    else
        refusal_init(&why, REPLY_INTERNAL, "the request to the provider could not be made");
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

/* ---- after a failure ---- */

/* Whether a further attempt that begins after a pause would come after the deadline: nobody would
 * wait for it, and it would be charged. */
static bool is_too_late(const struct call *call, tg_ms pause)
{
    return call->deadline > 0 && call_now(call) + pause >= call->deadline;
}

/* Whether this route has a retry left that would begin in time. A passthrough has none. */
static bool may_retry(const struct call *call, tg_ms pause)
{
    return call->route != NULL && !is_too_late(call, pause) &&
           (int64_t)call->route_attempts <= call->route->config->retries;
}

/* The key of the last attempt is not the first choice any more, or no choice at all. Where there is
 * no room to remember it, those that were tried first are fresh again. */
static void note_tried(struct call *call, enum call_failure failure)
{
    if (call->n_refused == CALL_TRIED_MAX)
        return;
    if (call->n_tried == CALL_TRIED_MAX)
        call->n_tried = call->n_refused;
    call->tried[call->n_tried++] = call->last_key;
    if (failure != FAILURE_CREDENTIALS && failure != FAILURE_LARGE)
        return;
    call->tried[call->n_tried - 1] = call->tried[call->n_refused];
    call->tried[call->n_refused++] = call->last_key;
}

bool call_avoid_key(struct call *call)
{
    size_t before = call->n_refused;

    note_tried(call, FAILURE_CREDENTIALS);
    return call->n_refused > before && peek_keys(call, call->n_refused).retry_after_ms == 0;
}

/* How long to wait before the next attempt. */
static tg_ms pause_before_retry(struct call *call, enum call_failure failure)
{
    unsigned doublings = call->route_attempts - 1;

    assert(call->route_attempts > 0);
    if ((failure == FAILURE_LIMITED || failure == FAILURE_LARGE ||
         failure == FAILURE_CREDENTIALS) &&
        peek_keys(call, call->n_tried).retry_after_ms == 0)
        return 1;
    return (tg_ms)random_between(&call->worker->random, PAUSE_MIN, PAUSE_MAX)
           << (doublings < PAUSE_DOUBLINGS ? doublings : PAUSE_DOUBLINGS);
}

enum call_verdict call_after_failure(struct call *call, enum call_failure failure)
{
    assert(failure != FAILURE_NONE && call->in != NULL && call->status == 0);
    assert(call->attempt.key == 0 && call->attempt.money.reservation == 0);
    call->failure = failure;
    call->failed_status = call->attempt.status;
    if (failure == FAILURE_CREDENTIALS)
        call_token_doubt(call);
    if (failure == FAILURE_DEADLINE || failure == FAILURE_LATE_REPLY || failure == FAILURE_MEMORY) {
        answer_failure(call, failure); /* nobody waits for another attempt, or pays for it */
        return CALL_ANSWERED;
    }
    call->same_key =
        (failure == FAILURE_SERVER || failure == FAILURE_NETWORK) && call->route_attempts == 1;
    if (!call->same_key)
        note_tried(call, failure);
    tg_ms pause = pause_before_retry(call, failure);
    bool retry = may_retry(call, pause);
    struct tg_key_answer any = peek_keys(call, call->n_refused);
    if (retry && any.retry_after_ms > pause)
        return no_key(call, &any);
    if (retry && retry_budget_take(call_retries(call), &call->generation->config, call_now(call))) {
        atomic_fetch_add_explicit(&call->gateway->counts.retries, 1, memory_order_relaxed);
        call->env->timer_set(call->worker->loop, &call->timer, pause);
        return CALL_WAITS;
    }
    if (!is_too_late(call, 0) && call_fall_back(call, call_failure_name(failure)))
        return CALL_FALLS_BACK;
    answer_failure(call, failure);
    return CALL_ANSWERED;
}
