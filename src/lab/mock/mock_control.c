/* mock_control.c - the mock's own paths: what it saw, another script, a fresh start.
 *
 *     GET /mock/requests     what ended, and how many began
 *     POST /mock/script      replaces the script; requests that have begun keep theirs
 *     POST /mock/reset       forgets requests, quotas and counts of rules; the script stays
 *
 * They need no key: the mock is for the loopback address alone.
 */
#include <stdio.h>

#include "lab/mock/mock_internal.h"

static void send_text(struct mock_exchange *x, int status, const struct text_out *text)
{
    struct http_field type = {SLICE("content-type"), SLICE("application/json")};
    struct http_head head = {.status = status, .fields = &type, .n_fields = 1};

    http_inbound_send(x->in, &head, text_out_written(text));
}

static void send_requests(struct mock_exchange *x)
{
    text_out_clear(&x->worker->scratch);
    mock_records_write(&x->worker->mock->records, &x->worker->scratch);
    send_text(x, 200, &x->worker->scratch);
}

/* ---- Scripts --------------------------------------------------------------------------------- */

static void add_problem(void *context, size_t line, size_t column, const char *text)
{
    struct text_out *out = context;
    char problem[512];

    snprintf(problem, sizeof problem, "%zu:%zu: %s", line, column, text);
    text_out_text(out, out->size > 0 ? ",\n" : "{\"problems\":[\n");
    text_out_json(out, slice_of(problem));
}

static void take_script(struct mock_exchange *x)
{
    struct text_out *out = &x->worker->scratch;
    struct mock_script *script;

    text_out_clear(out);
    script = mock_script_read(&x->worker->mock->options.base, x->body_bytes > 0 ? x->body : "",
                              x->body_bytes, add_problem, out);
    if (script == NULL) {
        text_out_text(out, "]}\n");
        send_text(x, 400, out);
        return;
    }
    if (!mock_set_script(x->worker->mock, script)) {
        mock_script_free(script);
        text_out_text(out, "{\"problems\":[\"there is no memory\"]}\n");
        send_text(x, 500, out);
        return;
    }
    text_out_text(out, "{\"rules\":");
    text_out_number(out, (int64_t)script->n_rules);
    text_out_text(out, "}\n");
    send_text(x, 200, out);
}

static void reset(struct mock_exchange *x)
{
    struct mock *mock = x->worker->mock;
    struct mock_script *script = atomic_load_explicit(&mock->script, memory_order_acquire);

    for (size_t i = 0; i < script->n_rules; i++)
        atomic_store_explicit(&script->rules[i].reached, 0, memory_order_relaxed);
    mock_quota_reset(&mock->quota);
    mock_records_reset(&mock->records);
    text_out_clear(&x->worker->scratch);
    text_out_text(&x->worker->scratch, "{}\n");
    send_text(x, 200, &x->worker->scratch);
}

/* ---- Which ----------------------------------------------------------------------------------- */

static void send_unknown(struct mock_exchange *x)
{
    text_out_clear(&x->worker->scratch);
    text_out_text(&x->worker->scratch, "{\"problems\":[\"there are GET /mock/requests, POST "
                                       "/mock/script and POST /mock/reset\"]}\n");
    send_text(x, 404, &x->worker->scratch);
}

static bool is(const struct mock_exchange *x, struct slice method, struct slice path)
{
    return slice_equal(x->in->head.method, method) && slice_equal(x->path, path);
}

void mock_control(struct mock_exchange *x)
{
    if (is(x, SLICE("GET"), SLICE("/mock/requests")))
        send_requests(x);
    else if (is(x, SLICE("POST"), SLICE("/mock/script")) && !x->too_large)
        take_script(x);
    else if (is(x, SLICE("POST"), SLICE("/mock/reset")))
        reset(x);
    else
        send_unknown(x);
}
