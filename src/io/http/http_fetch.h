/* http_fetch.h - one request whose reply is wanted whole: http_client.h without its callbacks.
 *
 *     http_fetch_init(&fetch, done, owner, room, sizeof room);
 *     http_fetch_send(&fetch, client, origin, &head, body, &timeouts)
 *         --> done(&fetch): what came of it, once; it may be sent again from there
 *         --> http_fetch_cancel(&fetch): nothing comes any more
 *
 * For what a process asks on its own account: the keys of an identity provider, a token, a
 * collector of traces, whether a key is still good. The reply goes into the owner's room, and what
 * does not fit there is left out. On the thread of the client's loop.
 */
#ifndef TG_HTTP_HTTP_FETCH_H
#define TG_HTTP_HTTP_FETCH_H

#include "io/http/http_client.h"

/* Stands in its owner's storage. */
struct http_fetch {
    void (*done)(struct http_fetch *fetch);
    void *owner;
    char *reply; /* the owner's; its first `n` bytes are the reply's body */
    size_t n, room;

    /* What came of it, in done(). */
    bool answered; /* the reply is complete; else `why` and `text` say why there is none */
    bool too_long; /* the body had more bytes than there is room */
    int status;    /* status code; 0: no head has come */
    enum http_why why;
    const char *text; /* more about it, for people; perhaps empty; gone after done() */

    struct http_outbound *out; /* private; null: nothing is under way */
};

/* A room of 0 bytes takes nothing: only the status is wanted. */
void http_fetch_init(struct http_fetch *fetch, void (*done)(struct http_fetch *fetch), void *owner,
                     char *reply, size_t room);

/* Nothing is under way. The head's length is that of the body; everything is copied. False: no
 * memory, and done() does not come. */
TG_MUST_CHECK bool http_fetch_send(struct http_fetch *fetch, struct http_client *client,
                                   struct http_origin *origin, const struct http_head *head,
                                   struct slice body, const struct http_timeouts *timeouts);

/* Ends what is under way, if anything is. */
void http_fetch_cancel(struct http_fetch *fetch);

static inline bool http_fetch_is_busy(const struct http_fetch *fetch)
{
    return fetch->out != NULL;
}

#endif
