/* http_fetch.c - one request whose reply is wanted whole. See http_fetch.h. */
#include "io/http/http_fetch.h"

#include <assert.h>

static void http_fetch_on_head(struct http_outbound *out, const struct http_head *head)
{
    struct http_fetch *fetch = out->owner;

    fetch->status = head->status;
}

static void http_fetch_on_data(struct http_outbound *out, struct slice bytes)
{
    struct http_fetch *fetch = out->owner;
    size_t left = fetch->room - fetch->n;
    size_t n = bytes.n <= left ? bytes.n : left;

    fetch->too_long |= n < bytes.n;
    if (n == 0) /* there may be no room at all, and no address of it */
        return;
    memcpy(fetch->reply + fetch->n, bytes.at, n);
    fetch->n += n;
}

static void http_fetch_on_end(struct http_outbound *out)
{
    struct http_fetch *fetch = out->owner;

    assert(fetch->status != 0); /* the head comes before the end */
    fetch->out = NULL;
    fetch->answered = true;
    fetch->done(fetch);
}

static void http_fetch_on_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    struct http_fetch *fetch = out->owner;

    fetch->out = NULL;
    fetch->why = why;
    fetch->text = text != NULL ? text : "";
    fetch->done(fetch);
}

static const struct http_client_ops FETCH_OPS = {.head = http_fetch_on_head,
                                                 .data = http_fetch_on_data,
                                                 .end = http_fetch_on_end,
                                                 .failed = http_fetch_on_failed};

void http_fetch_init(struct http_fetch *fetch, void (*done)(struct http_fetch *fetch), void *owner,
                     char *reply, size_t room)
{
    *fetch = (struct http_fetch){.done = done, .owner = owner, .reply = reply, .room = room};
}

bool http_fetch_send(struct http_fetch *fetch, struct http_client *client,
                     struct http_origin *origin, const struct http_head *head, struct slice body,
                     const struct http_timeouts *timeouts)
{
    struct http_head with_length = *head;

    assert(fetch->out == NULL);
    with_length.length = (int64_t)body.n;
    fetch->n = 0;
    fetch->answered = fetch->too_long = false;
    fetch->status = 0;
    fetch->why = HTTP_DONE;
    fetch->text = "";
    fetch->out = http_send(client, origin, &with_length, timeouts, &FETCH_OPS, fetch);
    if (fetch->out == NULL)
        return false;
    if (body.n > 0) {
        http_outbound_write(fetch->out, body);
        http_outbound_finish(fetch->out);
    }
    return true;
}

void http_fetch_cancel(struct http_fetch *fetch)
{
    if (fetch->out != NULL)
        http_outbound_cancel(fetch->out);
    fetch->out = NULL;
}
