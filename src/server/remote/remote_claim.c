/* remote_claim.c - rate and cost units of a call, decided by Redis, or without it while it is away.
 *
 * What is decided without Redis is counted in the gateway's own store, which has this gateway's
 * share of each limit (limit_book.h), and is refunded and settled there. What Redis has admitted
 * is counted there, too, as far as the share goes: a share must not be a second limit on top of
 * what was admitted before, neither for the one call whose reply was late nor when Redis is lost.
 *
 * claim_step() is the only function that moves a claim between the states that remote.h draws.
 */
#include <assert.h>
#include <string.h>

#include "server/remote/remote_internal.h"
#include "server/remote/remote_recent.h"

void remote_translate(const struct remote_terms *terms, const struct tg_debit *debit,
                      struct remote_scope room[TG_SCOPES_MAX], struct remote_debit *to)
{
    const struct limit_listing *listing = terms->listing;

    *to = (struct remote_debit){.scopes = room,
                                .n_scopes = debit->n_scopes,
                                .cost = debit->cost,
                                .charging = debit->charging,
                                .root = {debit->root, debit->root_bytes}};
    if (debit->root == NULL)
        to->root = (struct slice){debit->scopes[0].key, debit->scopes[0].key_bytes};
    for (size_t i = 0; i < debit->n_scopes; i++) {
        const struct limit_listed *listed = &listing->sets[debit->scopes[i].limits];
        room[i] = (struct remote_scope){.name = listed->name,
                                        .key = {debit->scopes[i].key, debit->scopes[i].key_bytes},
                                        .limits = listed->limits,
                                        .n = listed->n};
    }
}

void remote_name_limiters(const struct remote_terms *terms, const struct tg_debit *debit,
                          struct tg_axes *axes)
{
    for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST; axis++) {
        struct tg_limit_answer *named = &axes->named[axis];
        if (!(axes->present & 1u << axis) || named->limiter != NULL)
            continue;
        assert(named->scope < debit->n_scopes);
        const struct limit_listed *listed =
            &terms->listing->sets[debit->scopes[named->scope].limits];
        assert(named->limit < listed->n);
        named->limiter = &listed->limits[named->limit].limiter;
    }
}

/* ---- states ---- */

enum claim_event {
    CLAIM_ASK,        /* Redis, or the blocks, are asked */
    CLAIM_YES,        /* they have charged the call */
    CLAIM_NO,         /* they have not, nor will they */
    CLAIM_ADMIT,      /* no reply in time: `store_failure` admits the call */
    CLAIM_ADMIT_LATE, /* the same, and the reply that is still on its way will charge it */
    CLAIM_END,        /* the call has ended */
};

/* Whether a reply is on its way, from Redis or from the blocks. */
static bool claim_has_request(const struct remote_claim *claim)
{
    return claim->limits_ask != NULL || claim->blocks_ask != NULL;
}

static void claim_step(struct remote_claim *claim, enum claim_event event)
{
    bool owes = claim->mode == REMOTE_LOCAL; /* Redis is to learn of what a share has admitted */

    switch (event) {
    case CLAIM_ASK:
        assert(claim->state == CLAIM_IDLE);
        claim->state = CLAIM_ASKING;
        break;
    case CLAIM_YES:
        assert(claim->state == CLAIM_ASKING || claim->state == CLAIM_LATE);
        claim->state = CLAIM_CHARGED;
        break;
    case CLAIM_NO:
        assert(claim->state == CLAIM_ASKING || claim->state == CLAIM_LATE);
        claim->state = claim->state == CLAIM_LATE && owes ? CLAIM_DEBT : CLAIM_IDLE;
        break;
    case CLAIM_ADMIT:
        assert(claim->state == CLAIM_ASKING);
        claim->state = owes ? CLAIM_DEBT : CLAIM_IDLE;
        break;
    case CLAIM_ADMIT_LATE:
        assert(claim->state == CLAIM_ASKING);
        claim->state = CLAIM_LATE;
        break;
    case CLAIM_END:
        claim->state = CLAIM_IDLE;
        break;
    }
    assert(claim->state == CLAIM_ASKING ||
           claim_has_request(claim) == (claim->state == CLAIM_LATE));
    assert(claim->limits_ask == NULL || claim->blocks_ask == NULL);
    assert(claim->state != CLAIM_IDLE || claim->counted == 0);
    assert(claim->state != CLAIM_DEBT || owes);
}

/* ---- without Redis ---- */

/* Counts what Redis, or a block, has admitted. */
static void count_here(struct remote_claim *claim)
{
    struct tg_decision all;

    if (claim->terms->store->limits != CONFIG_AWAY_LOCAL)
        return;
    claim->counted_at = net_loop_now(claim->port->loop);
    if (tg_store_take(claim->port->remote->setup.store, &claim->debit, claim->counted_at, &all,
                      NULL) == TG_OK &&
        all.allowed)
        claim->counted |= CLAIM_IN_STORE;
}

/* What Redis last said of limits, if they are still those of the call; else null. */
static struct recent *recent_of(const struct remote_claim *claim)
{
    struct recent *recent = claim->port->recent;

    return recent_is_for(recent, claim->terms->generation) ? recent : NULL;
}

/* Decides by what Redis said a moment ago, or else by our share. */
static enum tg_err decide_here(struct remote_claim *claim, struct tg_axes *axes)
{
    struct remote *remote = claim->port->remote;
    struct recent *recent = recent_of(claim);
    struct tg_decision all;

    claim->counted_at = net_loop_now(claim->port->loop);
    if (recent != NULL && recent_decide(recent, &claim->debit, (int64_t)remote_holders(remote),
                                        claim->counted_at, axes)) {
        if (tg_axes_binding(axes) == TG_AXIS_NONE) {
            claim->counted |= CLAIM_IN_RECENT;
            count_here(claim);
        }
        remote_name_limiters(claim->terms, &claim->debit, axes);
        return TG_OK;
    }
    enum tg_err err =
        tg_store_take(remote->setup.store, &claim->debit, claim->counted_at, &all, axes);
    if (err == TG_OK && all.allowed)
        claim->counted |= CLAIM_IN_STORE;
    return err;
}

enum remote_mode remote_mode_away(const struct remote_terms *terms, const struct tg_debit *debit)
{
    enum remote_mode mode = remote_mode_of(terms->store->limits);

    if (mode != REMOTE_CLOSED)
        return mode;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        const struct limit_listed *listed = &terms->listing->sets[debit->scopes[i].limits];
        for (size_t k = 0; k < listed->n; k++)
            if (listed->limits[k].mode == TG_ENFORCE)
                return REMOTE_CLOSED;
    }
    return REMOTE_OPEN;
}

/* A reply that was late. If it is a yes, it is the call's, and is settled or refunded with it. If
 * it is a no, or if there is none at all, the call continues, and is charged when it has ended. */
static void claim_late_reply(void *context, const struct remote_charge *charge)
{
    struct remote_claim *claim = context;

    claim->limits_ask = NULL;
    if (charge != NULL)
        claim->charge = (struct remote_blocks_charge){.charge = *charge};
    claim_step(claim, charge != NULL ? CLAIM_YES : CLAIM_NO);
}

/* There was no reply in time: `store_failure` decides. Redis is to learn of a call that is admitted
 * so: from the request that is still `in_flight`, which will have charged it, or else by a debt
 * when the call has ended, since a call that another stage refuses owes nothing. */
static enum tg_err decide_away(struct remote_claim *claim, struct remote_limits_ask *in_flight,
                               struct tg_axes *axes)
{
    enum tg_err err = TG_OK;

    memset(axes, 0, sizeof *axes);
    claim->mode = remote_mode_away(claim->terms, &claim->debit);
    if (claim->mode == REMOTE_LOCAL)
        err = decide_here(claim, axes);
    else if (claim->mode == REMOTE_CLOSED)
        err = TG_ERR_STORE;
    remote_count(claim->port->remote, REMOTE_LIMITS, claim->mode);
    if (err != TG_OK || tg_axes_binding(axes) != TG_AXIS_NONE) {
        claim_step(claim, CLAIM_NO);
    } else if (in_flight != NULL && remote_limits_keep(in_flight, claim_late_reply)) {
        claim->limits_ask = in_flight;
        claim_step(claim, CLAIM_ADMIT_LATE);
    } else {
        claim_step(claim, CLAIM_ADMIT);
    }
    return err;
}

/* ---- asking ---- */

/* Redis, or a block, has decided; if it charged the call, claim->charge says what. */
static void decide_remote(struct remote_claim *claim, struct tg_axes *axes)
{
    struct recent *recent = recent_of(claim);
    bool yes = tg_axes_binding(axes) == TG_AXIS_NONE;

    if (recent != NULL)
        recent_heard(recent, &claim->debit, axes, net_loop_now(claim->port->loop));
    remote_name_limiters(claim->terms, &claim->debit, axes);
    if (yes)
        count_here(claim);
    remote_count(claim->port->remote, REMOTE_LIMITS, claim->mode);
    claim_step(claim, yes ? CLAIM_YES : CLAIM_NO);
}

static void limits_replied(void *context, enum tg_err err, const struct tg_axes *axes,
                           const struct remote_charge *charge)
{
    struct remote_claim *claim = context;
    struct remote_limits_ask *ask = claim->limits_ask;
    struct tg_axes known;

    assert(claim->state == CLAIM_ASKING && ask != NULL);
    claim->limits_ask = NULL;
    if (err == TG_OK) {
        known = *axes;
        claim->charge = (struct remote_blocks_charge){.charge = *charge};
        decide_remote(claim, &known);
    } else {
        err = decide_away(claim, ask, &known);
    }
    claim->decided(claim, err, &known);
}

static void blocks_replied(void *context, enum tg_err err, const struct tg_axes *axes,
                           const struct remote_blocks_charge *charge)
{
    struct remote_claim *claim = context;
    struct tg_axes known;

    assert(claim->state == CLAIM_ASKING && claim->blocks_ask != NULL);
    claim->blocks_ask = NULL;
    if (err == TG_OK) {
        known = *axes;
        claim->charge = *charge;
        decide_remote(claim, &known);
    } else {
        err = decide_away(claim, NULL, &known);
    }
    claim->decided(claim, err, &known);
}

bool remote_take(struct remote_port *port, struct remote_claim *claim,
                 const struct remote_terms *terms, const struct tg_debit *debit,
                 void (*decided)(struct remote_claim *claim, enum tg_err err,
                                 const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes)
{
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;
    tg_ms now = net_loop_now(port->loop);

    assert(claim->state == CLAIM_IDLE);
    *claim =
        (struct remote_claim){.decided = decided, .port = port, .terms = terms, .debit = *debit};
    if (debit->n_scopes == 0) {
        memset(axes, 0, sizeof *axes);
        *err = TG_OK;
        return true;
    }
    claim_step(claim, CLAIM_ASK);
    remote_translate(terms, debit, room, &to);
    if (remote_uses_blocks(terms)) {
        claim->mode = REMOTE_BLOCKS;
        claim->blocks_ask = remote_blocks_take(port->blocks, &to, now, blocks_replied, claim, axes,
                                               &claim->charge, err);
    } else {
        claim->mode = REMOTE_REDIS;
        claim->limits_ask = remote_limits_take(port->limits, &to, now, limits_replied, claim);
        *err = TG_ERR_MEMORY; /* if it is null */
    }
    if (claim_has_request(claim))
        return false;
    if (*err == TG_OK)
        decide_remote(claim, axes);
    else
        *err = decide_away(claim, NULL, axes);
    return true;
}

/* ---- ending ---- */

/* Stops waiting for a reply. */
static void claim_cancel(struct remote_claim *claim)
{
    if (claim->limits_ask != NULL)
        remote_limits_cancel(claim->limits_ask);
    if (claim->blocks_ask != NULL)
        remote_blocks_cancel(claim->blocks_ask);
}

static void claim_end(struct remote_claim *claim)
{
    claim->limits_ask = NULL;
    claim->blocks_ask = NULL;
    claim->counted = 0;
    claim_step(claim, CLAIM_END);
}

void remote_claim_settle(struct remote_claim *claim, int64_t actual)
{
    bool corrects = claim->state != CLAIM_IDLE && actual >= 0 && actual != claim->debit.cost;
    tg_ms now = claim->state != CLAIM_IDLE ? net_loop_now(claim->port->loop) : 0;
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;

    switch (claim->state) {
    case CLAIM_IDLE:
        return;
    case CLAIM_ASKING:
        claim_cancel(claim);
        break;
    case CLAIM_LATE:
        remote_limits_leave(claim->limits_ask, actual, claim->mode == REMOTE_LOCAL);
        break;
    case CLAIM_DEBT:
        remote_translate(claim->terms, &claim->debit, room, &to);
        if (actual >= 0)
            to.cost = actual;
        if (remote_uses_blocks(claim->terms))
            remote_blocks_add_debt(claim->port->blocks, &to, now, claim->counted_at);
        else
            remote_limits_add_debt(claim->port->limits, &to, now, claim->counted_at);
        break;
    case CLAIM_CHARGED:
        if (!corrects)
            break;
        remote_translate(claim->terms, &claim->debit, room, &to);
        if (claim->mode == REMOTE_BLOCKS)
            remote_blocks_settle(claim->port->blocks, &to, now, &claim->charge, actual);
        else
            remote_limits_settle(claim->port->limits, &to, now, &claim->charge.charge, actual);
        break;
    }
    /* It fails for a debt that finds no place in a full store: then the estimate stands. */
    if (corrects && claim->counted & CLAIM_IN_STORE)
        (void)!tg_store_settle(claim->port->remote->setup.store, &claim->debit, now,
                               claim->counted_at, actual);
    claim_end(claim);
}

void remote_claim_refund(struct remote_claim *claim)
{
    tg_ms now = claim->state != CLAIM_IDLE ? net_loop_now(claim->port->loop) : 0;
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;

    switch (claim->state) {
    case CLAIM_IDLE:
        return;
    case CLAIM_ASKING:
        claim_cancel(claim);
        break;
    case CLAIM_LATE:
        remote_limits_cancel(claim->limits_ask);
        break;
    case CLAIM_DEBT:
        break; /* nobody knows of it yet */
    case CLAIM_CHARGED:
        remote_translate(claim->terms, &claim->debit, room, &to);
        if (claim->mode == REMOTE_BLOCKS)
            remote_blocks_refund(claim->port->blocks, &to, now, &claim->charge);
        else
            remote_limits_refund(claim->port->limits, &to, now, &claim->charge.charge);
        break;
    }
    if (claim->counted & CLAIM_IN_RECENT && recent_of(claim) != NULL)
        recent_give_back(claim->port->recent, &claim->debit);
    /* It fails only where the set is unknown, and this one is not. */
    if (claim->counted & CLAIM_IN_STORE)
        (void)!tg_store_refund(claim->port->remote->setup.store, &claim->debit, now,
                               claim->counted_at);
    claim_end(claim);
}
