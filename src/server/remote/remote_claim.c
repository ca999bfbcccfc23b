/* remote_claim.c - rate and cost of a call, decided by Redis or as long as that is away without
 * it.
 *
 * What is decided without Redis is counted in the gateway's own store, which has this gateway's
 * share of each limit (limit_book.h), and is given back and settled there. What Redis has admitted
 * is counted there too, as far as the share goes: so that a share is not a second limit on top of
 * what was admitted before, neither for the one call whose answer was late nor when Redis is lost.
 */
#include <string.h>

#include "server/remote/remote_internal.h"
#include "server/remote/remote_recent.h"

void remote_translate(const struct remote_terms *terms, const struct tg_debit *what,
                      struct remote_scope room[TG_SCOPES_MAX], struct remote_debit *to)
{
    const struct limit_listing *listing = terms->listing;

    *to = (struct remote_debit){.scopes = room,
                                .n_scopes = what->n_scopes,
                                .cost = what->cost,
                                .charging = what->charging,
                                .root = {what->root, what->root_bytes}};
    if (what->root == NULL)
        to->root = (struct slice){what->scopes[0].key, what->scopes[0].key_bytes};
    for (size_t i = 0; i < what->n_scopes; i++) {
        const struct limit_listed *listed = &listing->sets[what->scopes[i].limits];
        room[i] = (struct remote_scope){.name = listed->name,
                                        .key = {what->scopes[i].key, what->scopes[i].key_bytes},
                                        .limits = listed->limits,
                                        .n = listed->n};
    }
}

static void translate(const struct remote_claim *debit, struct remote_scope room[TG_SCOPES_MAX],
                      struct remote_debit *to)
{
    remote_translate(debit->terms, debit->what, room, to);
}

/* ---- without Redis ---- */

/* What Redis, or a block, has admitted. */
static void count_here(struct remote_claim *debit)
{
    struct tg_decision all;

    if (debit->terms->store->limits != CONFIG_AWAY_LOCAL)
        return;
    debit->counted_at = net_loop_now(debit->port->loop);
    debit->counted = tg_store_take(debit->port->remote->setup.store, debit->what, debit->counted_at,
                                   &all, NULL) == TG_OK &&
                     all.allowed;
}

/* What Redis last said of limits, if they are still those of the call; else null. */
static struct recent *recent_of(const struct remote_claim *debit)
{
    struct recent *recent = debit->port->recent;

    return recent_is_for(recent, debit->terms->generation) ? recent : NULL;
}

/* By what was heard a moment ago, or else by our share. */
static enum tg_err decide_here(struct remote_claim *debit, struct tg_axes *axes)
{
    struct remote *remote = debit->port->remote;
    struct recent *recent = recent_of(debit);
    struct tg_decision all;

    debit->counted_at = net_loop_now(debit->port->loop);
    if (recent != NULL && recent_decide(recent, debit->what, (int64_t)remote_holders(remote),
                                        debit->counted_at, axes)) {
        debit->recent = tg_axes_binding(axes) == TG_AXIS_NONE;
        if (debit->recent)
            count_here(debit);
        return TG_OK;
    }
    enum tg_err err =
        tg_store_take(remote->setup.store, debit->what, debit->counted_at, &all, axes);
    debit->counted = err == TG_OK && all.allowed;
    return err;
}

static bool is_enforced(const struct remote_terms *terms, const struct tg_debit *what)
{
    for (size_t i = 0; i < what->n_scopes; i++) {
        const struct limit_listed *listed = &terms->listing->sets[what->scopes[i].limits];
        for (size_t k = 0; k < listed->n; k++)
            if (listed->limits[k].mode == TG_ENFORCE)
                return true;
    }
    return false;
}

enum remote_mode remote_mode_away(const struct remote_terms *terms, const struct tg_debit *what)
{
    enum remote_mode way = remote_mode_of(terms->store->limits);

    return way == REMOTE_CLOSED && !is_enforced(terms, what) ? REMOTE_OPEN : way;
}

static enum tg_err decide_away(struct remote_claim *debit, struct tg_axes *axes)
{
    struct remote *remote = debit->port->remote;
    enum tg_err err = TG_OK;

    memset(axes, 0, sizeof *axes);
    debit->way = remote_mode_away(debit->terms, debit->what);
    if (debit->way == REMOTE_LOCAL)
        err = decide_here(debit, axes);
    else if (debit->way == REMOTE_CLOSED)
        err = TG_ERR_STORE;
    remote_count(remote, REMOTE_LIMITS, debit->way);
    return err;
}

/* ---- asking ---- */

/* An answer, of Redis or of a block; `axes` is replaced where there is none. */
static enum tg_err conclude(struct remote_claim *debit, enum tg_err err, struct tg_axes *axes)
{
    if (err != TG_OK)
        return decide_away(debit, axes);
    debit->charged = tg_axes_binding(axes) == TG_AXIS_NONE;
    struct recent *recent = recent_of(debit);
    if (recent != NULL)
        recent_heard(recent, debit->what, axes, net_loop_now(debit->port->loop));
    if (debit->charged)
        count_here(debit);
    remote_count(debit->port->remote, REMOTE_LIMITS, debit->way);
    return TG_OK;
}

static bool admits(enum tg_err err, const struct tg_axes *axes)
{
    return err == TG_OK && tg_axes_binding(axes) == TG_AXIS_NONE;
}

/* A yes that was late: it is the call's, and is settled or given back with it. A no, or no answer
 * at all: the call goes on, and is charged when it has ended. */
static void came_late(void *context, const struct remote_charge *charge)
{
    struct remote_claim *debit = context;

    debit->late = NULL;
    debit->charged = charge != NULL;
    debit->owes = charge == NULL && debit->way == REMOTE_LOCAL;
    if (charge != NULL)
        debit->charge = (struct remote_blocks_charge){.charge = *charge};
}

/* It was admitted without Redis, which is to know of it: a question that is still on its way there
 * will have charged it; else it is told when the call has ended, for one that another stage refuses
 * owes nothing. Nor does one that there was no limit for. */
static void owe(struct remote_claim *debit, struct remote_limits_ask *late)
{
    if (late != NULL && remote_limits_keep(late, came_late))
        debit->late = late;
    else
        debit->owes = debit->way == REMOTE_LOCAL;
}

static void remote_claim_answered(void *context, enum tg_err err, const struct tg_axes *axes,
                                  const struct remote_charge *charge)
{
    struct remote_claim *debit = context;
    struct remote_limits_ask *ask = debit->ask;
    struct tg_axes known = {0};
    bool away = err != TG_OK;

    debit->ask = NULL;
    if (!away) {
        known = *axes;
        debit->charge = (struct remote_blocks_charge){.charge = *charge};
    }
    err = conclude(debit, err, &known);
    if (away && admits(err, &known))
        owe(debit, ask);
    debit->decided(debit, err, &known);
}

static void block_came(void *context, enum tg_err err, const struct tg_axes *axes,
                       const struct remote_blocks_charge *charge)
{
    struct remote_claim *debit = context;
    struct tg_axes known = {0};
    bool away = err != TG_OK;

    debit->block = NULL;
    if (!away) {
        known = *axes;
        debit->charge = *charge;
    }
    err = conclude(debit, err, &known);
    if (away && admits(err, &known))
        owe(debit, NULL);
    debit->decided(debit, err, &known);
}

/* True: decided. */
static bool remote_claim_ask(struct remote_claim *debit, const struct remote_debit *to,
                             enum tg_err *err, struct tg_axes *axes)
{
    struct remote_port *port = debit->port;
    tg_ms now = net_loop_now(port->loop);

    if (debit->terms->store->two_tier) {
        debit->way = REMOTE_BLOCKS;
        debit->block =
            remote_blocks_take(port->blocks, to, now, block_came, debit, axes, &debit->charge, err);
        if (debit->block != NULL)
            return false;
    } else {
        debit->way = REMOTE_REDIS;
        debit->ask = remote_limits_take(port->limits, to, now, remote_claim_answered, debit);
        if (debit->ask != NULL)
            return false;
        *err = TG_ERR_MEMORY;
    }
    bool away = *err != TG_OK;
    *err = conclude(debit, *err, axes);
    if (away && admits(*err, axes))
        owe(debit, NULL);
    return true;
}

bool remote_take(struct remote_port *port, struct remote_claim *debit,
                 const struct remote_terms *terms, const struct tg_debit *what,
                 void (*decided)(struct remote_claim *debit, enum tg_err err,
                                 const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes)
{
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;

    *debit = (struct remote_claim){.decided = decided, .port = port, .terms = terms, .what = what};
    if (what->n_scopes == 0) {
        memset(axes, 0, sizeof *axes);
        *err = TG_OK;
        return true;
    }
    translate(debit, room, &to);
    return remote_claim_ask(debit, &to, err, axes);
}

/* ---- for a gate ---- */

/* A lease that has ended meanwhile leaves nothing charged. */
static enum tg_err tell_gate(struct remote_claim *debit, enum tg_err outcome,
                             const struct tg_axes *axes, struct tg_answer *answer)
{
    enum tg_err err = tg_gate_store_answered(debit->gate, debit->lease, outcome, axes,
                                             net_loop_now(debit->port->loop), answer);

    if (err != TG_OK)
        remote_claim_refund(debit);
    return err;
}

static void tell_gate_later(struct remote_claim *debit, enum tg_err outcome,
                            const struct tg_axes *axes)
{
    struct tg_answer answer;
    enum tg_err err = tell_gate(debit, outcome, axes, &answer);

    debit->answered(debit, err, &answer);
}

bool remote_take_for_gate(struct remote_port *port, struct remote_claim *debit,
                          const struct remote_terms *terms, struct tg_gate *gate,
                          const struct tg_call *call,
                          void (*to)(struct remote_claim *debit, enum tg_err err,
                                     const struct tg_answer *answer),
                          enum tg_err *err, struct tg_answer *answer)
{
    tg_lease lease = answer->lease;
    struct tg_axes axes;
    enum tg_err outcome;
    bool now = remote_take(port, debit, terms, &call->debit, tell_gate_later, &outcome, &axes);

    debit->gate = gate;
    debit->lease = lease;
    debit->answered = to;
    if (now)
        *err = tell_gate(debit, outcome, &axes, answer);
    return now;
}

/* ---- ending ---- */

/* What was on its way is not any more. The gate that waits for it is told that there will be no
 * answer, and holds nothing for the call any more. */
static void stop_asking(struct remote_claim *debit)
{
    if (debit->gate != NULL && remote_is_asking(debit)) {
        struct tg_answer unwanted;
        enum tg_err over = tg_gate_store_answered(debit->gate, debit->lease, TG_ERR_STORE, NULL,
                                                  net_loop_now(debit->port->loop), &unwanted);
        (void)over; /* the same error, handed on: nothing is held */
    }
    if (debit->ask != NULL)
        remote_limits_cancel(debit->ask);
    if (debit->block != NULL)
        remote_blocks_cancel(debit->block);
    debit->ask = NULL;
    debit->block = NULL;
}

/* Blocks that were leased before, or Redis itself. */
static bool is_of_blocks(const struct remote_claim *debit)
{
    return debit->way == REMOTE_BLOCKS;
}

/* It has ended, and Redis is to know what it decided nothing about. */
static void pay(struct remote_claim *debit, int64_t actual)
{
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;

    if (debit->late != NULL)
        remote_limits_leave(debit->late, actual, debit->way == REMOTE_LOCAL);
    debit->late = NULL;
    debit->recent = false;
    if (!debit->owes)
        return;
    tg_ms now = net_loop_now(debit->port->loop); /* without a store there is no port */
    debit->owes = false;
    translate(debit, room, &to);
    if (actual >= 0)
        to.cost = actual;
    if (debit->terms->store->two_tier)
        remote_blocks_owe(debit->port->blocks, &to, now, debit->counted_at);
    else
        remote_limits_owe(debit->port->limits, &to, now, debit->counted_at);
}

void remote_claim_settle(struct remote_claim *debit, int64_t actual)
{
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;

    stop_asking(debit);
    pay(debit, actual);
    if ((debit->charged || debit->counted) && actual >= 0 && actual != debit->what->cost) {
        tg_ms now = net_loop_now(debit->port->loop);
        if (debit->counted && tg_store_settle(debit->port->remote->setup.store, debit->what, now,
                                              debit->counted_at, actual) != TG_OK)
            debit->counted = false; /* a debt that found no place in a full store */
        if (debit->charged) {
            translate(debit, room, &to);
            if (is_of_blocks(debit))
                remote_blocks_settle(debit->port->blocks, &to, now, &debit->charge, actual);
            else
                remote_limits_settle(debit->port->limits, &to, now, &debit->charge.charge, actual);
        }
    }
    debit->charged = debit->counted = false;
}

void remote_claim_refund(struct remote_claim *debit)
{
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;

    stop_asking(debit);
    if (debit->late != NULL)
        remote_limits_cancel(debit->late);
    if (debit->recent && recent_of(debit) != NULL)
        recent_give_back(debit->port->recent, debit->what);
    debit->late = NULL;
    debit->owes = debit->recent = false;
    if (debit->charged || debit->counted) {
        tg_ms now = net_loop_now(debit->port->loop);
        if (debit->counted && tg_store_refund(debit->port->remote->setup.store, debit->what, now,
                                              debit->counted_at) != TG_OK)
            debit->counted = false; /* only where the set is unknown, and it is not */
        if (debit->charged) {
            translate(debit, room, &to);
            if (is_of_blocks(debit))
                remote_blocks_refund(debit->port->blocks, &to, now, &debit->charge);
            else
                remote_limits_refund(debit->port->limits, &to, now, &debit->charge.charge);
        }
    }
    debit->charged = debit->counted = false;
}
