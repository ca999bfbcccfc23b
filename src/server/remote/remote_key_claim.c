/* remote_key_claim.c - provider keys that all gateways use: taken in Redis; while that is down,
 * taken by what this gateway knows, or not at all where `store_failure.limits` is closed.
 *
 * A key without limits of its own or of its group has nothing to count. What gateways share of it
 * are its cooldown and its breaker. A cooldown is sent when it begins. The breaker is asked for
 * once a second, not at every call, and at the next call after a failure, so that a run of failures
 * counts over all gateways.
 *
 * With two tiers the same holds for keys that have limits: their windows are leased in blocks
 * (remote_key_windows.h), and what gateways share besides is asked for once a second, by a call
 * that does not wait for it; after a no the next one does. Calls in flight, where they are limited,
 * have no blocks: such a key is asked for at each call.
 *
 *     windows, by blocks -- yes --> state: known for a second, or asked for -- yes --> the call's
 *              '--- no: hold                                    '--- no: given back, hold
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/remote/remote_internal.h"
#include "server/remote/remote_key_windows.h"

enum { ASK_EVERY_MS = 1000 };

/* What is counted without Redis by this gateway's word is told when the attempt has ended. */
static enum tg_err take_away(struct remote_key_claim *key)
{
    enum remote_mode way = remote_mode_of(key->terms->store->limits);

    remote_count(key->port->remote, REMOTE_KEYS, way);
    key->unasked = true;
    key->owes = way == REMOTE_LOCAL;
    return way == REMOTE_CLOSED ? TG_ERR_STORE : TG_OK;
}

/* The debit of its windows, while its lease in the ring stands. */
static bool windows_of(const struct remote_key_claim *key, struct tg_key_terms *terms,
                       struct remote_key_windows *windows)
{
    return tg_keyring_terms(key->ring, key->lease, terms) &&
           remote_key_windows_init(windows, terms);
}

static void give_back_units(struct remote_key_claim *key)
{
    struct remote_key_windows windows;
    struct tg_key_terms terms;

    if (key->leased && windows_of(key, &terms, &windows))
        remote_blocks_refund(key->port->blocks, &windows.debit, net_loop_now(key->port->loop),
                             &key->charge);
    key->leased = false;
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
        err = key->leased ? TG_OK : take_away(key);
        if (err == TG_OK && remote_keys_keep(asked))
            key->kept = asked;
    } else if (!key->leased) {
        remote_count(key->port->remote, REMOTE_KEYS, REMOTE_REDIS);
    }
    if (err == TG_OK && hold != NULL)
        give_back_units(key);
    key->decided(key, err, hold);
}

/* The call has waited for the store long enough. If it takes the key without an answer, a yes that
 * comes later is for it, so that what it uses is counted; else that is refunded. */
static void remote_key_claim_timed_out(void *arg)
{
    struct remote_key_claim *key = arg;

    if (key->blocks_ask != NULL) {
        remote_blocks_cancel(key->blocks_ask);
        key->blocks_ask = NULL;
        key->decided(key, take_away(key), NULL);
        return;
    }
    assert(key->asked != NULL && key->held == NULL);
    struct remote_key *asked = key->asked;
    enum tg_err err = key->leased ? TG_OK : take_away(key);
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
    return !has_limits(&terms->limits) && !has_limits(&terms->group_limits) &&
           now - atomic_load_explicit(asked_at, memory_order_relaxed) < ASK_EVERY_MS;
}

/* ---- taking ---- */

static void wait_for(struct remote_key_claim *key, tg_ms patience)
{
    net_timer_set(key->port->loop, &key->timer, patience);
}

/* What gateways share of a key besides its windows. True: it is known, or is asked for while the
 * call goes on. */
static bool take_state(struct remote_key_claim *key, const struct tg_key_terms *terms)
{
    struct tg_key_terms state = *terms;
    tg_ms now = net_loop_now(key->port->loop), patience = key->patience;
    tg_ms asked_at = atomic_load_explicit(key->asked_at, memory_order_relaxed);

    state.limits.rpm = state.limits.tpm = state.group_limits.rpm = state.group_limits.tpm = 0;
    bool waits = has_limits(&state.limits) || has_limits(&state.group_limits) || asked_at == 0;
    if (!waits && now - asked_at < ASK_EVERY_MS)
        return true;
    atomic_store_explicit(key->asked_at, now, memory_order_relaxed);
    struct remote_key *asked =
        patience > 0 ? remote_keys_take(key->port->keys, &state, remote_key_claim_answered, key)
                     : NULL;
    if (asked == NULL)
        return true;
    if (waits) {
        key->asked = asked;
        wait_for(key, patience);
        return false;
    }
    if (remote_keys_keep(asked)) {
        remote_keys_watch(asked, key->asked_at);
        key->kept = asked;
    }
    return true;
}

static void say_no(void *arg)
{
    struct remote_key_claim *key = arg;

    key->decided(key, TG_OK, &key->hold);
}

/* The windows have been decided. True: and so is the key, with `err`. */
static bool windows_decided(struct remote_key_claim *key, enum tg_err *err,
                            const struct tg_axes *axes)
{
    tg_ms now = net_loop_now(key->port->loop);
    struct remote_key_windows windows;
    struct tg_key_terms terms;

    if (*err != TG_OK || !windows_of(key, &terms, &windows)) {
        *err = take_away(key);
        return true;
    }
    remote_count(key->port->remote, REMOTE_KEYS, REMOTE_BLOCKS);
    if (tg_axes_binding(axes) != TG_AXIS_NONE) {
        key->hold = remote_key_windows_hold(&windows, axes, now);
        net_timer_init(&key->timer, say_no, key); /* a no never comes from inside */
        net_timer_set(key->port->loop, &key->timer, 0);
        return false;
    }
    key->leased = true;
    key->unasked = true;
    return take_state(key, &terms);
}

static void windows_answered(void *context, enum tg_err err, const struct tg_axes *axes,
                             const struct remote_blocks_charge *charge)
{
    struct remote_key_claim *key = context;

    assert(key->blocks_ask != NULL);
    key->blocks_ask = NULL;
    net_timer_stop(key->port->loop, &key->timer);
    if (err == TG_OK)
        key->charge = *charge;
    if (windows_decided(key, &err, axes))
        key->decided(key, err, NULL);
}

static bool take_by_blocks(struct remote_key_claim *key, const struct tg_key_terms *terms,
                           enum tg_err *err)
{
    struct remote_key_windows windows;
    struct tg_axes axes;

    *err = TG_OK;
    if (!remote_key_windows_init(&windows, terms)) {
        key->unasked = true;
        return take_state(key, terms);
    }
    key->taken_at = net_loop_now(key->port->loop);
    key->blocks_ask = remote_blocks_take(key->port->blocks, &windows.debit, key->taken_at,
                                         windows_answered, key, &axes, &key->charge, err);
    if (key->blocks_ask == NULL)
        return windows_decided(key, err, &axes);
    wait_for(key, num_max(key->patience, 1));
    return false;
}

bool remote_key_claim_take(struct remote_port *port, struct remote_key_claim *key,
                           const struct remote_terms *terms, struct tg_keyring *ring,
                           tg_key_lease lease, atomic_llong *asked_at, tg_ms patience,
                           void (*decided)(struct remote_key_claim *key, enum tg_err err,
                                           const struct tg_key_hold *hold),
                           enum tg_err *err)
{
    struct tg_key_terms limits;

    *key = (struct remote_key_claim){.decided = decided,
                                     .port = port,
                                     .terms = terms,
                                     .asked_at = asked_at,
                                     .ring = ring,
                                     .lease = lease,
                                     .patience = patience};
    net_timer_init(&key->timer, remote_key_claim_timed_out, key);
    bool known = tg_keyring_terms(ring, lease, &limits);
    if (known && remote_uses_blocks(terms))
        return take_by_blocks(key, &limits, err);
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
        wait_for(key, patience);
        return false;
    }
    *err = take_away(key);
    return true;
}

static void copy_texts(struct tg_key_terms *terms, char texts[4][REMOTE_KEY_TEXT])
{
    const char **all[] = {&terms->provider, &terms->model, &terms->name, &terms->group};

    for (size_t i = 0; i < 4; i++)
        if (*all[i] != NULL) {
            snprintf(texts[i], REMOTE_KEY_TEXT, "%s", *all[i]);
            *all[i] = texts[i];
        }
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

/* True: a call would not ask, or cannot. */
static bool peek_state(struct remote_key_peek *peek, const struct tg_key_terms *what)
{
    peek->asked = remote_keys_peek(peek->port->keys, what, remote_key_peek_answered, peek);
    if (peek->asked != NULL)
        return false;
    peek->mode = remote_mode_of(peek->terms->store->limits);
    return true;
}

/* Redis has said what is left in the windows beside the blocks that are here. */
static void peek_windows_answered(void *context, enum tg_err err, const struct tg_axes *axes,
                                  const struct remote_charge *charge)
{
    struct remote_key_peek *peek = context;
    struct remote_key_windows windows;
    struct tg_axes all;

    (void)charge; /* a peek charges nothing */
    peek->windows_ask = NULL;
    if (err != TG_OK || !remote_key_windows_init(&windows, &peek->what)) {
        peek->mode = remote_mode_of(peek->terms->store->limits);
        peek->seen(peek, NULL);
        return;
    }
    all = *axes;
    remote_blocks_join(&peek->here, &peek->rest, windows.debit.charging, windows.debit.cost, &all);
    if (tg_axes_binding(&all) != TG_AXIS_NONE) {
        struct tg_key_hold hold =
            remote_key_windows_hold(&windows, &all, net_loop_now(peek->port->loop));
        peek->seen(peek, &hold);
    } else if (peek_state(peek, &peek->state)) {
        peek->seen(peek, NULL);
    }
}

/* False: seen() comes. */
static bool peek_windows(struct remote_key_peek *peek, const struct tg_key_terms *what)
{
    tg_ms now = net_loop_now(peek->port->loop);
    struct remote_key_windows windows;
    struct remote_debit rest;

    peek->what = *what;
    copy_texts(&peek->what, peek->texts);
    peek->state = peek->what;
    peek->state.limits.rpm = peek->state.limits.tpm = 0;
    peek->state.group_limits.rpm = peek->state.group_limits.tpm = 0;
    if (!remote_key_windows_init(&windows, &peek->what))
        return peek_state(peek, &peek->state);
    enum tg_err err = remote_blocks_peek(peek->port->blocks, &windows.debit, now, &peek->here,
                                         &rest, &peek->rest);
    if (err == TG_OK && rest.n_scopes == 0 && tg_axes_binding(&peek->here) == TG_AXIS_NONE)
        return peek_state(peek, &peek->state);
    if (err == TG_OK)
        peek->windows_ask =
            remote_limits_peek(peek->port->limits, rest.n_scopes > 0 ? &rest : &windows.debit, now,
                               peek_windows_answered, peek);
    if (rest.n_scopes == 0)
        memset(&peek->here, 0, sizeof peek->here);
    if (peek->windows_ask != NULL)
        return false;
    peek->mode = remote_mode_of(peek->terms->store->limits);
    return true;
}

bool remote_key_peek(struct remote_port *port, struct remote_key_peek *peek,
                     const struct remote_terms *terms, const struct tg_key_terms *what,
                     const atomic_llong *asked_at,
                     void (*seen)(struct remote_key_peek *peek, const struct tg_key_hold *hold))
{
    *peek =
        (struct remote_key_peek){.seen = seen, .port = port, .terms = terms, .mode = REMOTE_REDIS};
    if (need_not_ask(what, asked_at, net_loop_now(port->loop)))
        return true;
    return remote_uses_blocks(terms) ? peek_windows(peek, what) : peek_state(peek, what);
}

void remote_key_peek_end(struct remote_key_peek *peek)
{
    if (peek->asked != NULL)
        remote_keys_cancel(peek->asked);
    if (peek->windows_ask != NULL)
        remote_limits_cancel(peek->windows_ask);
    peek->asked = NULL;
    peek->windows_ask = NULL;
}

/* ---- releasing ---- */

/* Terms whose texts outlive the lease. */
struct kept_terms {
    struct tg_key_terms terms;
    char texts[4][REMOTE_KEY_TEXT];
};

static bool keep_terms(struct tg_keyring *ring, tg_key_lease lease, struct kept_terms *kept)
{
    if (!tg_keyring_terms(ring, lease, &kept->terms))
        return false;
    copy_texts(&kept->terms, kept->texts);
    return true;
}

/* What the attempt used of its windows, while its lease in the ring stands. */
static void settle_units(struct remote_key_claim *key, const struct tg_key_report *report)
{
    tg_ms now = net_loop_now(key->port->loop);
    struct remote_key_windows windows;
    struct tg_key_terms terms;

    if (!windows_of(key, &terms, &windows))
        return;
    int64_t used = report->tokens < 0 ? -1 : num_min(report->tokens, TG_NUMBER_MAX);
    if (key->leased && !report->sent)
        remote_blocks_refund(key->port->blocks, &windows.debit, now, &key->charge);
    else if (key->leased && used >= 0 && used != windows.debit.cost)
        remote_blocks_settle(key->port->blocks, &windows.debit, now, &key->charge, used);
    if (key->owes && report->sent) {
        windows.debit.cost = used >= 0 ? used : windows.debit.cost;
        remote_blocks_add_debt(key->port->blocks, &windows.debit, now, key->taken_at);
    }
}

static void stop_waiting(struct remote_key_claim *key)
{
    if (key->port == NULL)
        return; /* it was never taken */
    net_timer_stop(key->port->loop, &key->timer);
    if (key->asked != NULL)
        remote_keys_cancel(key->asked);
    if (key->blocks_ask != NULL)
        remote_blocks_cancel(key->blocks_ask);
}

void remote_key_claim_give(struct remote_key_claim *key, struct tg_keyring *ring,
                           tg_key_lease lease, tg_ms now, const struct tg_key_report *report)
{
    bool by_blocks = key->port != NULL && remote_uses_blocks(key->terms);
    struct tg_key_ending ending = {0};
    struct kept_terms kept;
    bool cools = key->unasked && report->outcome == TG_KEY_LIMITED;
    bool owes = key->owes && !by_blocks && key->kept == NULL && report->sent;
    bool tell = (cools || owes) && keep_terms(ring, lease, &kept);

    if (key->asked_at != NULL && report->outcome == TG_KEY_FAILED)
        atomic_store_explicit(key->asked_at, 0, memory_order_relaxed);
    if (by_blocks)
        settle_units(key, report);
    tg_keyring_end(ring, lease, now, report, &ending);
    stop_waiting(key);
    if (key->held != NULL)
        remote_keys_give(key->held, report, &ending);
    if (key->kept != NULL)
        remote_keys_end(key->kept, report, &ending);
    if (tell && owes)
        remote_keys_owe(key->port->keys, &kept.terms, report, &ending);
    else if (tell)
        remote_keys_tell(key->port->keys, &kept.terms, report, &ending);
    key->asked = key->held = key->kept = NULL;
    key->blocks_ask = NULL;
    key->unasked = key->leased = key->owes = false;
}
