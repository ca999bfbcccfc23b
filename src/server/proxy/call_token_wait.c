/* call_token_wait.c - the token of a call's key, and its place among those who wait for it.
 *
 * Every stage of a call may ask for these, so they depend on none of them: call_token.c has the
 * stage.
 */
#include <assert.h>

#include "server/proxy/call.h"

struct access_token *call_token(const struct call *call)
{
    assert(call->attempt.owner != NULL && call->attempt.owner->place != NULL);
    return call->attempt.owner->place->token;
}

void call_token_leave(struct call *call)
{
    if (call->token_wait.token == NULL)
        return;
    access_token_leave(&call->token_wait);
    waiter_forget(&call->waiter);
    call->env->timer_stop(call->worker->loop, &call->timer);
}

/* The provider has turned the call away. */
void call_token_doubt(struct call *call)
{
    if (call_token(call) != NULL)
        access_token_doubt(call_token(call), call_now(call));
}
