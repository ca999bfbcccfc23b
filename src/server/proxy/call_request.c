/* call_request.c - the request that an attempt sends to its provider.
 *
 * It is the client's own request with the least that has to be changed: the provider's path, query,
 * headers and key; in the body the model's name, a bound on its output and the wish for a usage
 * report. What concerns the gateway alone, or must not reach a provider, is left out.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/proxy/call_credential.h"
#include "server/proxy/call_translation.h"

enum {
    TARGET_MAX = 32 * 1024, /* bytes: the longest that is taken, and what providers add to it */
    WRITTEN_AT_ONCE = 256 << 10,
};

#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
static const struct slice NOT_FORWARDED[] = {
    NAME("authorization"),
    NAME("x-api-key"),
    NAME("api-key"),
    NAME("x-goog-api-key"),
    NAME("cookie"),
    NAME("openai-organization"),
    NAME("openai-project"),
    NAME("accept-encoding"),
    /* A method that the gateway does not see. */
    NAME("x-http-method-override"),
    NAME("x-http-method"),
    NAME("x-method-override"),
};
#undef NAME

/* What concerns us alone, or must not reach a provider. Replies are read, so none may be packed. */
static bool is_forwarded(const struct http_hops *hops, const struct config_provider *provider,
                         struct slice auth, struct slice name)
{
    if (http_hops_has(hops, name) || slice_equal(name, auth) || credential_owns(provider, name) ||
        slice_begins(name, SLICE("x-tollgate-")) || slice_begins(name, SLICE("x-deriva-")))
        return false;
    for (size_t i = 0; i < sizeof NOT_FORWARDED / sizeof NOT_FORWARDED[0]; i++)
        if (slice_equal(name, NOT_FORWARDED[i]))
            return false;
    /* There it stands in the body. */
    if (provider->vertex && slice_equal(name, SLICE("anthropic-version")))
        return false;
    for (size_t i = 0; i < provider->drop_headers.n; i++)
        if (slice_equal(name, slice_of(provider->drop_headers.names[i])))
            return false;
    for (size_t i = 0; i < provider->set_headers.n; i++)
        if (slice_equal(name, slice_of(provider->set_headers.list[i].name)))
            return false;
    return true;
}

/* Whether a rule has put in another header of that name. */
static bool is_put_in(const struct rule_changes *changes, struct slice name)
{
    for (size_t i = 0; i < changes->n; i++)
        if (changes->list[i].rule->is_header &&
            slice_equal(name, slice_of(changes->list[i].rule->name)))
            return true;
    return false;
}

static bool is_set(const struct config_provider *provider, struct slice name)
{
    for (size_t i = 0; i < provider->set_headers.n; i++)
        if (slice_equal(name, slice_of(provider->set_headers.list[i].name)))
            return true;
    return false;
}

/* What the provider's API wants of every request. */
static void add_translated(const struct call *call, const struct config_provider *provider,
                           struct http_fields *to)
{
    struct slice version = SLICE("anthropic-version");

    http_fields_add(to, SLICE("content-type"), SLICE("application/json"));
    if (call->translation->provider->dialect == DIALECT_ANTHROPIC && !provider->vertex &&
        !is_set(provider, version))
        http_fields_add(to, version, SLICE("2023-06-01"));
}

/* False: there are too many. Where one did not fit, nothing after it does: the last one tells. */
static bool collect_fields(const struct call *call, const struct config_provider *provider,
                           struct slice traceparent, struct http_fields *to)
{
    const struct http_head *from = &call->in->head;
    const struct http_hops hops = http_hops_of(from);
    struct slice trace = SLICE("traceparent"), auth = slice_of(provider->auth_header);

    http_fields_init(to);
    for (size_t i = 0; i < from->n_fields; i++)
        if (is_forwarded(&hops, provider, auth, from->fields[i].name) &&
            (traceparent.n == 0 || !slice_equal(from->fields[i].name, trace)) &&
            !is_put_in(&call->changes, from->fields[i].name) &&
            (call->translation == NULL || call_translated_forwards(from->fields[i].name)))
            http_fields_add(to, from->fields[i].name, from->fields[i].value);
    if (call->translation != NULL)
        add_translated(call, provider, to);
    for (size_t i = 0; i < call->changes.n; i++)
        if (call->changes.list[i].rule->is_header)
            http_fields_add(to, slice_of(call->changes.list[i].rule->name),
                            slice_of(call->changes.list[i].rule->text));
    for (size_t i = 0; i < provider->set_headers.n; i++)
        http_fields_add(to, slice_of(provider->set_headers.list[i].name),
                        slice_of(provider->set_headers.list[i].value));
    if (traceparent.n > 0)
        http_fields_add(to, trace, traceparent);
    return http_fields_add(to, SLICE("accept-encoding"), SLICE("identity"));
}

static void target_put(char *text, size_t size, size_t *n, struct slice more, bool *fits)
{
    *fits = *fits && more.n <= size - *n;
    if (!*fits || more.n == 0)
        return;
    memcpy(text + *n, more.at, more.n);
    *n += more.n;
}

/* The client's target without the parameter that may carry its key. What it is called is compared
 * as a server would read it: "%6bey" is "key". */
static void put_client_target(struct slice target, char *text, size_t size, size_t *n, bool *fits)
{
    const char *mark = memchr(target.at, '?', target.n), *end = target.at + target.n;
    struct slice before = SLICE("?");

    target_put(text, size, n, (struct slice){target.at, (size_t)((mark ? mark : end) - target.at)},
               fits);
    for (const char *at = mark; at != NULL && at < end;) {
        const char *next = memchr(at + 1, '&', (size_t)(end - at - 1));
        struct slice pair = {at + 1, (size_t)((next ? next : end) - at - 1)};
        const char *equal = memchr(pair.at, '=', pair.n);
        struct slice name = {pair.at, equal != NULL ? (size_t)(equal - pair.at) : pair.n};
        char plain[4];
        size_t plain_n;
        if (!endpoint_unescape(name, plain, sizeof plain, &plain_n) ||
            !slice_equal((struct slice){plain, plain_n}, SLICE("key"))) {
            target_put(text, size, n, before, fits);
            target_put(text, size, n, pair, fits);
            before = SLICE("&");
        }
        at = next;
    }
}

/* The provider's path, the endpoint's, the client's query and the provider's own. */
static bool write_target(const struct call *call, const struct config_provider *provider,
                         char *text, size_t size, size_t *n)
{
    bool fits = true;

    *n = 0;
    target_put(text, size, n, slice_of(call->attempt.owner->place->base->path), &fits);
    target_put(text, size, n, slice_of(provider->path_prefix), &fits);
    if (call->translation != NULL || (call->route != NULL && provider->vertex)) {
        struct text_out out;
        text_out_fixed(&out, text + *n, size - *n);
        call_model_path(call, &out);
        fits = fits && !out.failed;
        *n += out.size;
    } else {
        put_client_target(call->in->head.target, text, size, n, &fits);
    }
    bool query = memchr(text, '?', *n) != NULL;
    for (size_t i = 0; i < provider->query.n; i++) {
        target_put(text, size, n, query ? SLICE("&") : SLICE("?"), &fits);
        target_put(text, size, n, slice_of(provider->query.list[i].name), &fits);
        target_put(text, size, n, SLICE("="), &fits);
        target_put(text, size, n, slice_of(provider->query.list[i].value), &fits);
        query = true;
    }
    return fits;
}

/* A request that is changed is never changed silently: header, log and metric tell. */
static void note_clamp(struct call *call, const char *field)
{
    assert(field != NULL); /* only what has output is bounded */
    call->attempt.clamped = field;
    call->notes.max_output = call->attempt.output;
    call->notes.clamped = call->attempt.most_output;
    atomic_fetch_add_explicit(&call->gateway->counts.clamped, 1, memory_order_relaxed);
}

/* Its name at the provider. On Vertex AI it stands in the path, but where tokens are counted. */
static void edit_model(const struct call *call, struct body_edit *edit)
{
    const struct config_model *model = call->route->config;
    bool vertex = call->route->provider->config->vertex, edited = true;

    if (vertex && call->endpoint != ENDPOINT_COUNT_TOKENS) {
        body_edit_replace_model(edit, &call->ask, call->body.bytes, "anthropic_version",
                                VERTEX_ANTHROPIC_VERSION);
        return;
    }
    if (vertex) {
        body_edit_begin(edit);
        body_edit_text(edit, "\"anthropic_version\":\"%s\",", VERTEX_ANTHROPIC_VERSION);
        body_edit_end(edit, call->ask.root_at + 1, 0, "");
    }
    if (model->upstream_model != NULL) /* else it keeps the name that it was asked for by */
        edited = body_edit_model(edit, &call->ask, slice_of(model->upstream_model));
    assert(edited); /* the configuration's names are shorter than a body's may be */
    (void)edited;
}

/* Notes what has to be changed in the body. */
static void edit_body(struct call *call, struct body_edit *edit)
{
    int64_t most = call->attempt.most_output, bound;
    bool edited = true;

    assert(most < 0 || !call_rules_bound(call, &bound)); /* only what has none is bounded */
    body_edit_init(edit);
    edit_model(call, edit);
    const char *field = route_way_chat_bound(call->route->provider->config);
    if (call_rules_bound(call, &bound))
        edited = body_edit_set_bound(edit, &call->ask, bound, field);
    else if (most >= 0)
        note_clamp(call, body_edit_bound(edit, &call->ask, most, field));
    assert(edited); /* only what has output is bounded */
    (void)edited;
    field_rules_edit(&call->changes, &call->ask, edit);
    if (call->route->provider->config->inject_usage)
        call->attempt.injected = body_edit_include_usage(edit, &call->ask);
}

/* 0 for a time that is none. */
static tg_ms left_until(const struct call *call, tg_ms at)
{
    return at > 0 ? num_max(1, at - call_now(call)) : 0;
}

static void timeouts_of(const struct call *call, struct http_timeouts *timeouts)
{
    *timeouts = (struct http_timeouts){.connect = 5000, .first_byte = 120000, .idle = 60000};
    if (call->route) {
        const struct config_model *model = call->route->config;
        *timeouts = (struct http_timeouts){
            .connect = model->timeouts.connect,
            .first_byte = call->ask.stream ? model->timeouts.first_byte : model->timeouts.reply,
            .idle = model->timeouts.idle};
    }
    timeouts->total = left_until(call, call->ends_at);
    timeouts->head = left_until(call, call->deadline);
}

/* What is to be written of a request's body. */
struct call_sending {
    struct slice pieces[BODY_SLICES_MAX]; /* they point into the edit, and into the call's body */
    size_t n, piece, at; /* pieces, how many are written, and how many bytes of the next one */
    struct body_edit edit;
};

/* Writes as much as the provider takes now. What the system does not take would be copied, on the
 * worker's turn, into memory that nobody counts: 20 MiB took 10 ms. True: all is written. */
static bool write_pieces(struct call *call, struct call_sending *sending)
{
    size_t queued = 0;

    while (sending->piece < sending->n && queued <= HTTP_OUTPUT_HIGH) {
        const struct slice *piece = &sending->pieces[sending->piece];
        size_t n = piece->n - sending->at;
        n = n < WRITTEN_AT_ONCE ? n : WRITTEN_AT_ONCE;
        queued =
            call->env->out_write(call->attempt.out, (struct slice){piece->at + sending->at, n});
        sending->at += n;
        if (sending->at < piece->n)
            continue;
        sending->piece++;
        sending->at = 0;
    }
    if (sending->piece < sending->n)
        return false;
    if (sending->n > 0)
        call->env->out_finish(call->attempt.out, NULL, 0);
    return true;
}

/* Keeps what is not written yet. Null: no memory. */
static struct call_sending *keep_rest(const struct call_sending *sending)
{
    struct call_sending *rest = malloc(sizeof *rest);

    if (rest == NULL)
        return NULL;
    memcpy(rest, sending, sizeof *rest);
    const char *from = (const char *)sending;
    for (size_t i = rest->piece; i < rest->n; i++) {
        const char *at = rest->pieces[i].at;
        if (at >= from && at < from + sizeof *sending)
            rest->pieces[i].at = (const char *)rest + (at - from);
    }
    return rest;
}

void call_request_forget(struct call *call)
{
    free(call->attempt.sending);
    call->attempt.sending = NULL;
}

void call_request_write(struct call *call)
{
    if (call->attempt.sending == NULL || !write_pieces(call, call->attempt.sending))
        return;
    call_request_forget(call);
    if (call->state == CALL_ANSWERING || call->state == CALL_DRAINING)
        call_forget_body(call);
}

bool call_request_send(struct call *call)
{
    struct provider *provider = call_provider(call);
    struct call_sending sending;
    size_t total = call->body.n;
    struct http_timeouts timeouts;
    struct http_fields fields;
    struct credential credential;
    char target[TARGET_MAX], trace[TRACE_PARENT_BYTES];
    struct http_head head = {.method = call->in->head.method, .target = {.at = target}};

    assert(call->attempt.out == NULL && call->attempt.owner != NULL);
    assert(call->attempt.key != 0 && call->attempt.money.reservation != 0);
    if (!write_target(call, provider->config, target, sizeof target, &head.target.n))
        return false;
    sending.n = total > 0;
    sending.piece = sending.at = 0;
    sending.pieces[0] = (struct slice){call->body.bytes, total};
    if (call->translation != NULL) {
        assert(call->translation->bound == call->attempt.most_output);
        if (call->attempt.most_output >= 0)
            note_clamp(call, call_translated_bound(call));
        sending.n = 1;
        total = call->translation->body.n;
        sending.pieces[0] = (struct slice){call->translation->body.bytes, total};
    } else if (call->route) {
        edit_body(call, &sending.edit);
        sending.n =
            body_edit_slices(&sending.edit, call->body.bytes, call->body.n, sending.pieces, &total);
    }
    timeouts_of(call, &timeouts);
    struct slice traceparent = report_notes_traceparent(&call->notes, call->worker, trace);
    if (credential_write(call, &credential) &&
        collect_fields(call, provider->config, traceparent, &fields) &&
        credential_add(call, &credential, head.target, sending.pieces, sending.n, &fields)) {
        head.fields = fields.list;
        head.n_fields = fields.n;
        head.length = (int64_t)total;
        call->attempt.out =
            call->env->send(call->worker->client, call->attempt.owner->place->origin, &head,
                            &timeouts, call->env->reply, call);
    }
    credential_wipe(&credential);
    call->no_memory = head.fields != NULL && call->attempt.out == NULL;
    if (call->attempt.out == NULL)
        return false;
    if (write_pieces(call, &sending))
        return true;
    call->attempt.sending = keep_rest(&sending);
    while (call->attempt.sending == NULL && !write_pieces(call, &sending))
        ; /* without memory for it, it waits in the connection */
    return true;
}
