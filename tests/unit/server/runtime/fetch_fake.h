/* fetch_fake.h - takes the place of http_fetch.c in one test program: what is sent goes nowhere,
 * and the test says what comes back. It allocates nothing.
 */
#ifndef FETCH_FAKE_H
#define FETCH_FAKE_H

#include "check.h"

#include <stdio.h>
#include <string.h>

#include "io/http/http_fetch.h"

static struct {
    struct http_fetch *fetch; /* under way; null: none is */
    bool has_no_memory;       /* nothing can be sent */
    int sent;
    char line[200]; /* "GET /target" of the last */
    char body[8192];
} upstream;

static struct http_outbound under_way;

void http_fetch_init(struct http_fetch *fetch, void (*done)(struct http_fetch *fetch), void *owner,
                     char *reply, size_t room)
{
    *fetch = (struct http_fetch){.done = done, .owner = owner, .reply = reply, .room = room};
}

bool http_fetch_send(struct http_fetch *fetch, struct http_client *client,
                     struct http_origin *origin, const struct http_head *head, struct slice body,
                     const struct http_timeouts *timeouts)
{
    assert_null(fetch->out);
    assert_null(upstream.fetch);
    assert_non_null(origin);
    assert_true(timeouts->total > 0);
    assert_null(client); /* no test has one */
    if (upstream.has_no_memory)
        return false;
    snprintf(upstream.line, sizeof upstream.line, "%.*s %.*s", (int)head->method.n, head->method.at,
             (int)head->target.n, head->target.at);
    assert_true(body.n < sizeof upstream.body);
    memcpy(upstream.body, body.at, body.n);
    upstream.body[body.n] = '\0';
    upstream.sent++;
    upstream.fetch = fetch;
    fetch->out = &under_way;
    fetch->n = 0;
    return true;
}

void http_fetch_cancel(struct http_fetch *fetch)
{
    if (upstream.fetch == fetch)
        upstream.fetch = NULL;
    fetch->out = NULL;
}

static struct http_fetch *end_of_fetch(void)
{
    struct http_fetch *fetch = upstream.fetch;

    assert_non_null(fetch);
    upstream.fetch = NULL;
    fetch->out = NULL;
    fetch->answered = fetch->too_long = false;
    fetch->why = HTTP_DONE;
    fetch->text = "";
    fetch->status = 0;
    return fetch;
}

static void upstream_answers(int status, const char *body)
{
    struct http_fetch *fetch = end_of_fetch();
    size_t n = strlen(body);

    fetch->answered = true;
    fetch->status = status;
    fetch->too_long = n > fetch->room;
    fetch->n = n < fetch->room ? n : fetch->room;
    memcpy(fetch->reply, body, fetch->n);
    fetch->done(fetch);
}

static void upstream_fails(enum http_why why, const char *text)
{
    struct http_fetch *fetch = end_of_fetch();

    fetch->why = why;
    fetch->text = text;
    fetch->done(fetch);
}

#endif /* FETCH_FAKE_H */
