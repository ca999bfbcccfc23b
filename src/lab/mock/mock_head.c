/* mock_head.c - the head of a reply: its id, hints when to come again, what a script adds. */
#include <stdio.h>
#include <time.h>

#include "lab/mock/mock_internal.h"

#define HINT_BYTES 64       /* bytes of a header that is made here */
#define PADDING_FIELD 16384 /* bytes of one header of padding, as most servers allow */

/* Storage for values that the fields of a head borrow until it is sent. */
struct hints {
    char id[HINT_BYTES], ms[HINT_BYTES], after[HINT_BYTES];
    char limit[HINT_BYTES], remaining[HINT_BYTES], reset[HINT_BYTES];
};

static void mock_head_add_number(struct http_fields *fields, struct slice name,
                                 char value[HINT_BYTES], int64_t number, const char *unit)
{
    snprintf(value, HINT_BYTES, "%lld%s", (long long)number, unit);
    http_fields_add(fields, name, slice_of(value));
}

static void add_date(struct http_fields *fields, char value[HINT_BYTES], tg_ms at)
{
    time_t seconds = (time_t)((at + 999) / 1000);
    struct tm utc;

    if (gmtime_r(&seconds, &utc) == NULL)
        return;
    strftime(value, HINT_BYTES, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    http_fields_add(fields, SLICE("retry-after"), slice_of(value));
}

static void add_retry(struct mock_exchange *x, struct http_fields *fields, struct hints *hints)
{
    const struct mock_action *action = x->action;

    if (x->refused == 429) {
        mock_head_add_number(fields, SLICE("retry-after-ms"), hints->ms, x->quota.reset_ms, "");
        mock_head_add_number(fields, SLICE("retry-after"), hints->after,
                             (x->quota.reset_ms + 999) / 1000, "");
        return;
    }
    if (action->retry_after_ms >= 0)
        mock_head_add_number(fields, SLICE("retry-after-ms"), hints->ms, action->retry_after_ms,
                             "");
    if (action->retry_after_s >= 0)
        mock_head_add_number(fields, SLICE("retry-after"), hints->after, action->retry_after_s, "");
    else if (action->retry_after_date_ms >= 0)
        add_date(fields, hints->after, net_loop_now(x->worker->loop) + action->retry_after_date_ms);
}

static void add_quota(struct mock_exchange *x, struct http_fields *fields, struct hints *hints)
{
    int64_t rpm = x->worker->mock->options.rpm;

    if (rpm == 0 || x->refused == 401)
        return;
    mock_head_add_number(fields, SLICE("x-ratelimit-limit-requests"), hints->limit, rpm, "");
    mock_head_add_number(fields, SLICE("x-ratelimit-remaining-requests"), hints->remaining,
                         x->quota.remaining, "");
    mock_head_add_number(fields, SLICE("x-ratelimit-reset-requests"), hints->reset,
                         x->quota.reset_ms, "ms");
}

static void add_padding(struct mock_exchange *x, struct http_fields *fields)
{
    struct text_out *padding = &x->worker->padding;
    size_t left = x->action->padding_bytes;

    if (left == 0)
        return;
    text_out_clear(padding);
    if (!text_out_reserve(padding, PADDING_FIELD))
        return;
    memset(padding->bytes, 'x', PADDING_FIELD);
    while (left > 0) {
        size_t n = left < PADDING_FIELD ? left : PADDING_FIELD;
        http_fields_add(fields, SLICE("x-padding"), (struct slice){padding->bytes, n});
        left -= n;
    }
}

/* What a script sets takes the place of what would be there. */
static void add_scripted(struct mock_exchange *x, struct http_fields *fields)
{
    for (size_t i = 0; i < x->action->n_headers; i++)
        http_fields_drop(fields, x->action->headers[i].name);
    for (size_t i = 0; i < x->action->n_headers; i++)
        http_fields_add(fields, x->action->headers[i].name, x->action->headers[i].value);
}

void mock_send_head(struct mock_exchange *x, int status, const char *type, int64_t length)
{
    struct http_fields fields;
    struct hints hints;
    struct http_head head = {.status = status, .length = length};

    http_fields_init(&fields);
    http_fields_add(&fields, SLICE("content-type"), slice_of(type));
    snprintf(hints.id, sizeof hints.id, "req_%016llx", (unsigned long long)x->ask.hash);
    http_fields_add(&fields,
                    x->ask.api == MOCK_ANTHROPIC ? SLICE("request-id") : SLICE("x-request-id"),
                    slice_of(hints.id));
    if (length < 0)
        http_fields_add(&fields, SLICE("cache-control"), SLICE("no-cache"));
    add_retry(x, &fields, &hints);
    add_quota(x, &fields, &hints);
    if (x->refused == 0) {
        add_scripted(x, &fields);
        add_padding(x, &fields);
    }
    head.fields = fields.list;
    head.n_fields = fields.n;
    x->status = status;
    x->stage = MOCK_SENDING;
    x->first_byte_at = x->pace_at = net_loop_now(x->worker->loop);
    mock_out_head(&x->out, &head);
}
