/* remote_peek.c - the answer that a claim would get, without taking anything.
 *
 * It comes from whoever would decide the claim: Redis, blocks that are leased here, or
 * `store_failure` while Redis is down. A peek is not counted as a decision, nor does it replace
 * what was last heard of a limit: that says what is left after a call.
 */
#include <string.h>

#include "server/remote/remote_internal.h"
#include "server/remote/remote_recent.h"

/* Decides by what Redis said a moment ago, or else by our share. */
static enum tg_err peek_here(const struct remote_peek *peek, struct tg_axes *axes)
{
    struct remote *remote = peek->port->remote;
    tg_ms now = net_loop_now(peek->port->loop);
    struct tg_decision all;

    if (recent_is_for(peek->port->recent, peek->terms->generation) &&
        recent_decide(peek->port->recent, peek->what, (int64_t)remote_holders(remote), now, axes)) {
        if (tg_axes_binding(axes) == TG_AXIS_NONE)
            recent_give_back(peek->port->recent, peek->what);
        return TG_OK;
    }
    return tg_store_peek(remote->setup.store, peek->what, now, &all, axes);
}

static enum tg_err peek_away(struct remote_peek *peek, struct tg_axes *axes)
{
    memset(axes, 0, sizeof *axes);
    peek->mode = remote_mode_away(peek->terms, peek->what);
    switch (peek->mode) {
    case REMOTE_LOCAL:
        return peek_here(peek, axes);
    case REMOTE_OPEN:
        return TG_OK;
    default:
        return TG_ERR_STORE;
    }
}

static bool peek_ask(struct remote_peek *peek, enum tg_err *err, struct tg_axes *axes);

/* A block that was leased while Redis was asked is here now, and no longer there. */
static bool peek_again(struct remote_peek *peek, enum tg_err *err, struct tg_axes *axes)
{
    if (peek->mode != REMOTE_BLOCKS || peek->again || tg_axes_binding(axes) == TG_AXIS_NONE)
        return true;
    peek->again = true;
    return peek_ask(peek, err, axes);
}

static void remote_peek_answered(void *context, enum tg_err err, const struct tg_axes *axes,
                                 const struct remote_charge *charge)
{
    struct remote_peek *peek = context;
    struct tg_axes known = {0};

    (void)charge; /* a peek charges nothing */
    peek->ask = NULL;
    if (err == TG_OK) {
        known = *axes;
        if (remote_uses_blocks(peek->terms))
            remote_blocks_join(&peek->here, &peek->rest, peek->what->charging, peek->what->cost,
                               &known);
        if (!peek_again(peek, &err, &known))
            return;
    } else {
        err = peek_away(peek, &known);
    }
    remote_name_limiters(peek->terms, peek->what, &known);
    peek->seen(peek, err, &known);
}

/* True: it is known. */
static bool peek_ask(struct remote_peek *peek, enum tg_err *err, struct tg_axes *axes)
{
    struct remote_port *port = peek->port;
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;
    tg_ms now = net_loop_now(port->loop);

    *axes = (struct tg_axes){.present = 0};
    *err = TG_OK;
    remote_translate(peek->terms, peek->what, room, &to);
    peek->mode = REMOTE_REDIS;
    if (remote_uses_blocks(peek->terms)) {
        struct remote_debit rest;
        if (!remote_blocks_is_strict(port->blocks, &to, now))
            peek->mode = REMOTE_BLOCKS;
        *err = remote_blocks_peek(port->blocks, &to, now, axes, &rest, &peek->rest);
        if (*err == TG_OK && rest.n_scopes == 0) {
            remote_name_limiters(peek->terms, peek->what, axes);
            return true;
        }
        peek->here = *axes;
        to = rest;
    }
    if (*err == TG_OK)
        peek->ask = remote_limits_peek(port->limits, &to, now, remote_peek_answered, peek);
    if (peek->ask != NULL)
        return false;
    *err = peek_away(peek, axes);
    remote_name_limiters(peek->terms, peek->what, axes);
    return true;
}

bool remote_peek(struct remote_port *port, struct remote_peek *peek,
                 const struct remote_terms *terms, const struct tg_debit *what,
                 void (*seen)(struct remote_peek *peek, enum tg_err err,
                              const struct tg_axes *axes),
                 enum tg_err *err, struct tg_axes *axes)
{
    *peek = (struct remote_peek){.seen = seen, .port = port, .terms = terms, .what = what};
    *axes = (struct tg_axes){.present = 0};
    *err = TG_OK;
    return what->n_scopes == 0 || peek_ask(peek, err, axes);
}

bool remote_is_refused(struct remote_port *port, const struct remote_terms *terms,
                       const struct tg_debit *what, struct tg_axes *axes)
{
    if (what->n_scopes == 0 || !recent_is_for(port->recent, terms->generation) ||
        !recent_is_refused(port->recent, what, net_loop_now(port->loop), axes))
        return false;
    remote_name_limiters(terms, what, axes);
    return true;
}

void remote_peek_end(struct remote_peek *peek)
{
    if (peek->ask != NULL)
        remote_limits_cancel(peek->ask);
    peek->ask = NULL;
}
