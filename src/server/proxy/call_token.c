/* call_token.c - a call whose key is a service account's waits for the access token.
 *
 * The token is fetched and renewed by the control thread (runtime/access_token.h), so there is one
 * already unless the gateway has just started, or none can be had. A call waits for one for a
 * bounded time, and not past its deadline. Where none can be had, another key is tried, then the
 * next fallback, and then the client is told 502 `upstream_credentials`; why it could not be had is
 * in the log.
 */
#include <assert.h>

#include "lib/core/num.h"
#include "server/proxy/call.h"

enum { TOKEN_WAIT_MS = 5000 };

static tg_ms patience_of(const struct call *call)
{
    tg_ms left = call->deadline > 0 ? call->deadline - call_now(call) : TOKEN_WAIT_MS;

    return num_max(1, num_min(left, TOKEN_WAIT_MS));
}

static enum call_verdict refuse_without_token(struct call *call)
{
    struct refusal why;

    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    if (call_avoid_key(call))
        return CALL_TRIES_AGAIN;
    if (call_fall_back(call, "upstream_credentials"))
        return CALL_FALLS_BACK;
    refusal_init(&why, REPLY_UPSTREAM_CREDENTIALS, NULL);
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

enum call_verdict call_take_token(struct call *call)
{
    struct access_token *token = call_token(call);

    if (token == NULL)
        return CALL_PASSES;
    call->token_wait.loop = call->waiter.loop;
    call->token_wait.woken = &call->waiter.woken;
    switch (access_token_await(token, call_now(call), &call->token_wait)) {
    case ACCESS_READY:
        return CALL_PASSES;
    case ACCESS_WAITING:
        call->env->timer_set(call->worker->loop, &call->timer, patience_of(call));
        return CALL_WAITS;
    default:
        return refuse_without_token(call);
    }
}

/* There is a token, or none can be had, or it took too long. */
enum call_verdict call_token_woken(struct call *call)
{
    call_token_leave(call);
    return access_token_take(call_token(call), call_now(call), NULL, NULL) == ACCESS_READY
               ? CALL_PASSES
               : refuse_without_token(call);
}
