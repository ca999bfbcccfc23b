/* call_way.c - which way a call takes to a route, and what is held of a translation.
 *
 * These are questions that every stage of a call may ask, so they depend on none of them.
 */
#include <stdlib.h>

#include "server/proxy/call_translation.h"

/* A conversation that was at providers of other APIs has what they signed in it, which another
 * refuses: it is written anew also where the provider speaks the client's API, and its tokens are
 * counted here. */
enum route_way call_way(const struct call *call, const struct route *route, enum dialect *to)
{
    enum route_way way = route_way(route->provider->config, call->endpoint, to);

    if (way != WAY_SAME || !call->carries || !route_way_client(call->endpoint, to))
        return way;
    return call->endpoint == ENDPOINT_COUNT_TOKENS ? WAY_ESTIMATED : WAY_TRANSLATED;
}

bool call_is_foreign(const struct call *call, const struct route *route)
{
    enum dialect to;

    return call_way(call, route, &to) == WAY_TRANSLATED;
}

bool call_is_reached(const struct call *call, const struct route *route)
{
    enum dialect to;

    return call_way(call, route, &to) != WAY_NONE;
}

bool call_is_estimated(const struct call *call)
{
    enum dialect to;

    return call->route != NULL && call_way(call, call->route, &to) == WAY_ESTIMATED;
}

bool call_is_carried(const struct call *call, size_t fallback)
{
    return fallback >= CALL_FALLBACKS_CHECKED || (call->uncarried >> fallback & 1) == 0;
}

void call_translation_forget_body(struct call *call)
{
    if (call->translation != NULL)
        body_buffer_free(&call->translation->body, call->gateway);
}

void call_translated_forget(struct call *call)
{
    struct call_translation *translation = call->translation;

    if (translation->replying)
        translation_fini(&translation->translation);
    translation->replying = false;
    translation->lost = false;
    body_buffer_free(&translation->reply, call->gateway);
}

void call_translation_free(struct call *call)
{
    struct call_translation *translation = call->translation;

    if (translation == NULL)
        return;
    call_translated_forget(call);
    body_buffer_free(&translation->body, call->gateway);
    json_writer_fini(&translation->out);
    reply_terms_fini(&translation->terms);
    free(translation);
    call->translation = NULL;
}
