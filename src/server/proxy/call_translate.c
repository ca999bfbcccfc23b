/* call_translate.c - the request in the dialect of its provider, where that is not the client's.
 *
 * It is translated when a route has been chosen and before anything is asked for it, so that what
 * cannot be carried over is refused at no cost. What rules put into the request is put in first, in
 * the client's dialect. A body of more than IN_PLACE_BYTES is translated on a thread of the pool,
 * like it was read.
 *
 * Nobody shall learn in an outage that a fallback could not have served: each call is also
 * translated for those of its fallbacks that speak another dialect, and what comes of it is thrown
 * away. Those that it could not be carried to are counted, and passed over when one is needed. This
 * is done for calls alone that have such fallbacks, and costs them another reading of the body.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "server/proxy/call_translation.h"

enum {
    IN_PLACE_BYTES = 64 << 10, /* bytes that are read and written in about 0.3 ms */
    READER_KEEPS = 1 << 20,    /* bytes of a document for which a thread keeps memory */
};

/* ---- fallbacks ---- */

static const struct route *fallback_route(const struct call *call, size_t i)
{
    const struct config_model *asked = &call->generation->config.models[call->model];

    return &call->generation->routes[asked->fallback[i]];
}

static size_t count_fallbacks(const struct call *call)
{
    if (call->model == CONFIG_NONE)
        return 0;
    size_t n = call->generation->config.models[call->model].n_fallback;
    return n < CALL_FALLBACKS_CHECKED ? n : CALL_FALLBACKS_CHECKED;
}

/* Whether the tenant may use the fallback, and the call has to be translated for it. */
static bool is_foreign(const struct call *call, const struct route *route)
{
    return config_may_use(&call->generation->config, call_tenant(call), call->virtual_key,
                          route->config) &&
           call_is_foreign(call, route);
}

static bool has_foreign_fallback(const struct call *call)
{
    for (size_t i = 0, n = count_fallbacks(call); i < n; i++)
        if (is_foreign(call, fallback_route(call, i)))
            return true;
    return false;
}

/* ---- the body ---- */

/* The body as rules have changed it, with room for the JSON reader behind it. False: no memory. */
static bool edit_body(struct call *call, struct text_out *flat, struct slice *body)
{
    struct body_edit edit;
    struct slice slices[BODY_SLICES_MAX];
    int64_t bound;
    size_t total;

    *body = (struct slice){call->body.bytes, call->body.n};
    if (call->changes.n == 0)
        return true;
    body_edit_init(&edit);
    if (call_rules_bound(call, &bound))
        (void)body_edit_set_bound(&edit, &call->ask, bound, "max_completion_tokens");
    field_rules_edit(&call->changes, &call->ask, &edit);
    size_t n = body_edit_slices(&edit, call->body.bytes, call->body.n, slices, &total);
    for (size_t i = 0; i < n; i++)
        text_out_slice(flat, slices[i]);
    if (!text_out_reserve(flat, JSON_PADDING))
        return false;
    *body = text_out_written(flat);
    return true;
}

/* Reads the client's request. */
static bool read_request(struct call *call, struct json_reader *reader, struct slice body,
                         struct neutral_request *request, struct ask_problem *problem)
{
    enum dialect client;
    bool known = route_way_client(call->endpoint, &client);

    assert(known);
    (void)known;
    return dialect_find(client)->read_request(reader, body.at, body.n, body.n + JSON_PADDING,
                                              request, problem);
}

/* Writes it for the provider; `bound` at least 0: the most that it may write. */
static bool write_request(const struct call *call, struct json_reader *reader,
                          const struct neutral_request *request, const struct route *route,
                          enum dialect to, struct json_writer *out, struct neutral_dropped *dropped,
                          struct ask_problem *problem)
{
    struct neutral_target target;

    route_way_target(route->provider->config, route->config, &target);
    /* What cannot be carried over is not worth a refusal where nothing is answered. */
    target.counts = call->endpoint == ENDPOINT_COUNT_TOKENS;
    target.strict &= !target.counts;
    return dialect_find(to)->write_request(reader, request, &target, out, dropped, problem);
}

/* Translates the request for the route, and notes what the reply will need of it. */
static bool translate_request(struct call *call, struct json_reader *reader,
                              struct ask_problem *problem)
{
    struct call_translation *translation = call->translation;
    const struct config_provider *provider = call->route->provider->config;
    struct text_out flat = {.size = 0};
    struct neutral_request request;
    struct slice body;

    *problem = (struct ask_problem){.param = ""};
    neutral_request_init(&request);
    json_writer_clear(&translation->out);
    translation->dropped = (struct neutral_dropped){.n = 0};
    reply_terms_fini(&translation->terms);
    bool fine =
        edit_body(call, &flat, &body) && read_request(call, reader, body, &request, problem);
    if (fine && translation->bound >= 0)
        request.bound = translation->bound;
    fine =
        fine && write_request(call, reader, &request, call->route, translation->provider->dialect,
                              &translation->out, &translation->dropped, problem);
    if (fine && !reply_terms_init(&translation->terms, &request, translation->provider->dialect,
                                  slice_of(provider->name), ask_slice(&call->ask.model),
                                  translation->now_s, call->id, call->notes.estimated_input)) {
        problem->no_memory = true;
        fine = false;
    }
    problem->no_memory |= flat.failed || translation->out.text.failed;
    neutral_request_fini(&request);
    text_out_fini(&flat);
    return fine && !problem->no_memory;
}

/* Which fallbacks the client's request cannot be carried to. Without memory nobody knows, and they
 * are taken to be fine. */
static uint64_t find_uncarried(struct call *call, struct json_reader *reader)
{
    struct slice body = {call->body.bytes, call->body.n};
    struct ask_problem problem = {.param = ""};
    struct neutral_request request;
    struct json_writer out;
    uint64_t uncarried = 0;

    neutral_request_init(&request);
    json_writer_init(&out);
    bool read = read_request(call, reader, body, &request, &problem);
    bool known = !problem.no_memory;
    for (size_t i = 0, n = count_fallbacks(call); known && i < n; i++) {
        const struct route *route = fallback_route(call, i);
        struct neutral_dropped dropped = {.n = 0};
        enum dialect to;
        if (!is_foreign(call, route) || call_way(call, route, &to) != WAY_TRANSLATED)
            continue;
        json_writer_clear(&out);
        if (!(read && write_request(call, reader, &request, route, to, &out, &dropped, &problem)) &&
            !problem.no_memory && !out.text.failed)
            uncarried |= UINT64_C(1) << i;
    }
    json_writer_fini(&out);
    neutral_request_fini(&request);
    return uncarried;
}

/* ---- where it is done ---- */

static void translate_now(struct call *call, struct json_reader *reader)
{
    struct call_parse *parse = &call->parse;

    parse->good = true;
    if (!call->checked && has_foreign_fallback(call))
        call->uncarried = find_uncarried(call, reader);
    if (call->translation != NULL)
        parse->good = translate_request(call, reader, &parse->problem);
}

/* On a thread of the pool. */
static void call_translate_job(struct net_job *job, void *reader)
{
    struct call *call = container_of(job, struct call, parse.job);

    if (reader == NULL) {
        call->parse.problem = (struct ask_problem){.no_memory = true};
        call->parse.good = false;
        return;
    }
    translate_now(call, reader);
    json_reader_trim(reader, READER_KEEPS);
}

static bool call_translate_put_job(struct call *call)
{
    struct net_job *job = &call->parse.job;

    job->run = call_translate_job;
    job->loop = call->worker->loop;
    job->takes = translation_takes(call->body.n);
    job->room = (size_t)(call->generation->config.limits.buffered_total / CALL_READING_SHARE);
    net_post_init(&job->done, call->env->parsed, call);
    call->parse.out =
        call->env->job_put(call->gateway->pool, &call->generation->shares[call->tenant]->lane, job);
    return call->parse.out;
}

/* ---- the interface ---- */

/* False: there is no memory. */
static bool call_translation_new(struct call *call, enum dialect to)
{
    struct call_translation *translation = malloc(sizeof *translation);
    enum dialect client;
    bool known = route_way_client(call->endpoint, &client);

    assert(known && call->translation == NULL);
    (void)known;
    if (translation == NULL)
        return false;
    memset(translation, 0, offsetof(struct call_translation, translation));
    translation->client = dialect_find(client);
    translation->provider = dialect_find(to);
    translation->now_s = call_wall(call) / 1000;
    translation->bound = -1;
    json_writer_init(&translation->out);
    call->translation = translation;
    return true;
}

static enum call_verdict refuse_untranslated(struct call *call, const struct ask_problem *problem)
{
    struct refusal why;

    refusal_of_ask(problem, &why);
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

/* Keeps what was written, counted like every body that is kept; `why` there is no room. */
static bool keep_body(struct call *call, struct refusal *why)
{
    struct call_translation *translation = call->translation;
    char whose[64];

    translation->escapes = translation->out.escapes;
    body_buffer_free(&translation->body, call->gateway);
    enum body_room room =
        body_buffer_take(&translation->body, call->gateway, call->generation,
                         call->generation->shares[call->tenant], &translation->out.text);
    json_writer_fini(&translation->out);
    json_writer_init(&translation->out);
    if (room == BODY_FITS)
        return true;
    snprintf(whose, sizeof whose, "tenant %s", call_tenant(call)->name);
    body_buffer_refusal(room, whose, why);
    return false;
}

enum call_verdict call_translated(struct call *call)
{
    struct refusal why;

    if (!call->checked) {
        call->checked = true;
        if (call->uncarried != 0)
            atomic_fetch_add_explicit(&call->gateway->counts.fallback_uncarried, 1,
                                      memory_order_relaxed);
    }
    if (!call->parse.good)
        return refuse_untranslated(call, &call->parse.problem);
    if (call->translation == NULL || keep_body(call, &why))
        return CALL_PASSES;
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

enum call_verdict call_translate(struct call *call)
{
    enum dialect to = DIALECT_CHAT;
    enum route_way way = call_way(call, call->route, &to);

    assert(call->route != NULL && call->body.n > 0 && way != WAY_NONE);
    call_translation_free(call);
    if (way != WAY_TRANSLATED && (call->checked || !has_foreign_fallback(call)))
        return CALL_PASSES;
    if (way == WAY_TRANSLATED && !call_translation_new(call, to))
        return refuse_untranslated(call, &(struct ask_problem){.no_memory = true});
    if (call->body.n > IN_PLACE_BYTES && call_translate_put_job(call))
        return CALL_WAITS;
    translate_now(call, call->worker->reader);
    return call_translated(call);
}

enum call_verdict call_bounded(struct call *call)
{
    struct refusal why;

    if (!call->parse.good)
        refusal_of_ask(&call->parse.problem, &why);
    else if (keep_body(call, &why))
        return CALL_PASSES;
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

/* What money is there for is known when the request has long been written. */
enum call_verdict call_bound(struct call *call)
{
    struct call_translation *translation = call->translation;
    int64_t most = call->attempt.most_output;

    if (translation == NULL || translation->bound == most)
        return CALL_PASSES;
    translation->bound = most;
    if (call->body.n > IN_PLACE_BYTES && call_translate_put_job(call))
        return CALL_WAITS;
    translate_now(call, call->worker->reader);
    return call_bounded(call);
}

const char *call_translated_bound(const struct call *call)
{
    switch (call->translation->provider->dialect) {
    case DIALECT_CHAT:
        return route_way_chat_bound(call->route->provider->config);
    case DIALECT_RESPONSES:
        return "max_output_tokens";
    case DIALECT_GEMINI:
        return "maxOutputTokens";
    default:
        return "max_tokens";
    }
}

/* ---- the request's head ---- */

static void put_escaped(struct text_out *out, struct slice text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@";

    for (size_t i = 0; i < text.n; i++)
        if (text.at[i] != '\0' && strchr(plain, text.at[i]) != NULL)
            text_out_char(out, text.at[i]);
        else
            text_out_format(out, "%%%02X", (unsigned)(unsigned char)text.at[i]);
}

/* "/v1/projects/P/locations/L/publishers/google/models/" */
static void put_vertex_models(const struct config_provider *provider, struct text_out *out)
{
    text_out_text(out, "/v1/projects/");
    text_out_text(out, provider->project);
    text_out_text(out, "/locations/");
    text_out_text(out, provider->location);
    text_out_text(out, "/publishers/");
    text_out_text(out, provider->api == CONFIG_ANTHROPIC ? "anthropic" : "google");
    text_out_text(out, "/models/");
}

static void put_model(const struct call *call, struct text_out *out)
{
    const struct config_model *model = call->route->config;

    put_escaped(out, model->upstream_model != NULL ? slice_of(model->upstream_model)
                                                   : ask_slice(&call->ask.model));
}

/* What Gemini is asked to do with the model. */
static const char *gemini_method(const struct call *call)
{
    if (call->endpoint == ENDPOINT_COUNT_TOKENS)
        return ":countTokens";
    return call->ask.stream ? ":streamGenerateContent?alt=sse" : ":generateContent";
}

static void put_vertex_path(const struct call *call, struct text_out *out)
{
    const struct config_provider *provider = call->route->provider->config;

    put_vertex_models(provider, out);
    if (provider->api != CONFIG_ANTHROPIC) {
        put_model(call, out);
        text_out_text(out, gemini_method(call));
    } else if (call->endpoint == ENDPOINT_COUNT_TOKENS) {
        text_out_text(out, "count-tokens:rawPredict"); /* the model is in the body */
    } else {
        put_model(call, out);
        text_out_text(out, call->ask.stream ? ":streamRawPredict" : ":rawPredict");
    }
}

/* Where the call goes at its provider, with a query where there is one: if it is translated, or
 * its provider wants the model's name in the path. */
void call_model_path(const struct call *call, struct text_out *out)
{
    if (call->route->provider->config->vertex) {
        put_vertex_path(call, out);
        return;
    }
    switch (call->translation->provider->dialect) {
    case DIALECT_CHAT:
        text_out_text(out, endpoint_path(ENDPOINT_CHAT));
        break;
    case DIALECT_RESPONSES:
        text_out_text(out, endpoint_path(ENDPOINT_RESPONSES));
        break;
    case DIALECT_ANTHROPIC:
        text_out_text(out, endpoint_path(ENDPOINT_MESSAGES));
        break;
    default:
        text_out_text(out, "/v1beta/models/");
        put_model(call, out);
        text_out_text(out, gemini_method(call));
    }
}

/* Headers that one vendor's clients send, and another's API may refuse or misread. */
bool call_translated_forwards(struct slice name)
{
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
    static const struct slice prefixes[] = {NAME("anthropic-"), NAME("openai-"), NAME("x-goog-"),
                                            NAME("x-stainless-"), NAME("content-")};
#undef NAME

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (name.n >= prefixes[i].n && memcmp(name.at, prefixes[i].at, prefixes[i].n) == 0)
            return false;
    return true;
}
