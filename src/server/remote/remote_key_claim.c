/* remote_key_claim.c - provider keys that all gateways use: taken in Redis; while that is down,
 * taken by what this gateway knows, or not at all where `store_failure.limits` is closed.
 *
 * A key without limits of its own or of its group has nothing to count. What gateways share of it
 * are its cooldown and its breaker. A cooldown is sent when it begins. The breaker is asked for
 * once a second, not at every call, and at the next call after a failure, so that a run of failures
 * counts over all gateways.
 */
#include <assert.h>
#include <stdio.h>

#include "server/remote/remote_internal.h"

static enum tg_err take_away(struct remote_key_claim *key)
{
    enum remote_mode way = remote_mode_of(key->terms->store->limits);

    remote_count(key->port->remote, REMOTE_KEYS, way);
    key->unasked = true;
    return way == REMOTE_CLOSED ? TG_ERR_STORE : TG_OK;
}

static void remote_key_claim_answered(void *context, enum tg_err err,
                                      const struct tg_key_hold *hold)
{
    struct remote_key_claim *key = context;

    assert(key->asked != NULL && key->held == NULL);
    net_timer_stop(key->port->loop, &key->timer);
    struct remote_key *asked = key->asked;
    key->asked = NULL;
    if (err == TG_OK && hold == NULL)
        key->held = asked;
    if (err != TG_OK) {
        err = take_away(key);
        if (err == TG_OK && remote_keys_keep(asked))
            key->kept = asked;
    } else {
        remote_count(key->port->remote, REMOTE_KEYS, REMOTE_REDIS);
    }
    key->decided(key, err, hold);
}

/* The call has waited for the store long enough. If it takes the key without an answer, a yes that
 * comes later is for it, so that what it uses is counted; else that is refunded. */
static void remote_key_claim_timed_out(void *arg)
{
    struct remote_key_claim *key = arg;

    assert(key->asked != NULL && key->held == NULL);
    struct remote_key *asked = key->asked;
    enum tg_err err = take_away(key);
    key->asked = NULL;
    if (err == TG_OK && remote_keys_keep(asked))
        key->kept = asked;
    else
        remote_keys_cancel(asked);
    key->decided(key, err, NULL);
}

static bool has_limits(const struct tg_key_limits *limits)
{
    return limits->rpm > 0 || limits->tpm > 0 || limits->concurrency > 0;
}

/* Without limits, somebody has asked about it within the last second. */
static bool need_not_ask(const struct tg_key_terms *terms, const atomic_llong *asked_at, tg_ms now)
{
    enum { ASK_EVERY_MS = 1000 };

    return !has_limits(&terms->limits) && !has_limits(&terms->group_limits) &&
           now - atomic_load_explicit(asked_at, memory_order_relaxed) < ASK_EVERY_MS;
}

bool remote_key_claim_take(struct remote_port *port, struct remote_key_claim *key,
                           const struct remote_terms *terms, struct tg_keyring *ring,
                           tg_key_lease lease, atomic_llong *asked_at, tg_ms patience,
                           void (*decided)(struct remote_key_claim *key, enum tg_err err,
                                           const struct tg_key_hold *hold),
                           enum tg_err *err)
{
    struct tg_key_terms limits;

    *key = (struct remote_key_claim){
        .decided = decided, .port = port, .terms = terms, .asked_at = asked_at};
    bool known = tg_keyring_terms(ring, lease, &limits);
    if (known && need_not_ask(&limits, asked_at, net_loop_now(port->loop))) {
        key->unasked = true;
        *err = TG_OK;
        return true;
    }
    if (known && !has_limits(&limits.limits) && !has_limits(&limits.group_limits))
        atomic_store_explicit(asked_at, net_loop_now(port->loop), memory_order_relaxed);
    if (known && patience > 0)
        key->asked = remote_keys_take(port->keys, &limits, remote_key_claim_answered, key);
    if (key->asked != NULL) {
        net_timer_init(&key->timer, remote_key_claim_timed_out, key);
        net_timer_set(port->loop, &key->timer, patience);
        return false;
    }
    *err = take_away(key);
    return true;
}

/* ---- peeking ---- */

static void remote_key_peek_answered(void *context, enum tg_err err, const struct tg_key_hold *hold)
{
    struct remote_key_peek *peek = context;

    peek->asked = NULL;
    if (err != TG_OK)
        peek->mode = remote_mode_of(peek->terms->store->limits);
    peek->seen(peek, hold);
}

bool remote_key_peek(struct remote_port *port, struct remote_key_peek *peek,
                     const struct remote_terms *terms, const struct tg_key_terms *what,
                     const atomic_llong *asked_at,
                     void (*seen)(struct remote_key_peek *peek, const struct tg_key_hold *hold))
{
    *peek = (struct remote_key_peek){.seen = seen, .terms = terms, .mode = REMOTE_REDIS};
    if (need_not_ask(what, asked_at, net_loop_now(port->loop)))
        return true;
    peek->asked = remote_keys_peek(port->keys, what, remote_key_peek_answered, peek);
    if (peek->asked != NULL)
        return false;
    peek->mode = remote_mode_of(terms->store->limits);
    return true;
}

void remote_key_peek_end(struct remote_key_peek *peek)
{
    if (peek->asked != NULL)
        remote_keys_cancel(peek->asked);
    peek->asked = NULL;
}

/* ---- releasing ---- */

/* Terms whose texts outlive the lease. */
struct kept_terms {
    struct tg_key_terms terms;
    char texts[4][160];
};

static bool keep_terms(struct tg_keyring *ring, tg_key_lease lease, struct kept_terms *kept)
{
    if (!tg_keyring_terms(ring, lease, &kept->terms))
        return false;
    const char **texts[] = {&kept->terms.provider, &kept->terms.model, &kept->terms.name,
                            &kept->terms.group};
    for (size_t i = 0; i < 4; i++)
        if (*texts[i] != NULL) {
            snprintf(kept->texts[i], sizeof kept->texts[i], "%s", *texts[i]);
            *texts[i] = kept->texts[i];
        }
    return true;
}

void remote_key_claim_give(struct remote_key_claim *key, struct tg_keyring *ring,
                           tg_key_lease lease, tg_ms now, const struct tg_key_report *report)
{
    struct tg_key_ending ending = {0};
    struct kept_terms kept;
    bool tell = key->unasked && report->outcome == TG_KEY_LIMITED && keep_terms(ring, lease, &kept);

    if (key->asked_at != NULL && report->outcome == TG_KEY_FAILED)
        atomic_store_explicit(key->asked_at, 0, memory_order_relaxed);
    tg_keyring_end(ring, lease, now, report, &ending);
    if (key->asked != NULL) {
        net_timer_stop(key->port->loop, &key->timer);
        remote_keys_cancel(key->asked);
    }
    if (key->held != NULL)
        remote_keys_give(key->held, report, &ending);
    if (key->kept != NULL)
        remote_keys_end(key->kept, report, &ending);
    if (tell)
        remote_keys_tell(key->port->keys, &kept.terms, report, &ending);
    key->asked = key->held = key->kept = NULL;
    key->unasked = false;
}
