/* admin_server.c - the admin listener: token, route, body. See admin_server.h. */
#include "server/admin/admin_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/explain/explain.h"
#include "server/runtime/gateway.h"

/* ---- who ---- */

/* Somebody who tries tokens is worth a line, but not a line each: those in between are counted. */
static void note_denied(struct admin *admin, const struct http_inbound *in, const char *why)
{
    tg_ms now = admin_now(admin);
    char who[64], outcome[128];

    if (now - admin->denied_at < 1000) {
        admin->denied_since++;
        return;
    }
    snprintf(outcome, sizeof outcome, "refused: %s", why);
    if (admin->denied_since > 0)
        snprintf(outcome, sizeof outcome, "refused: %s; %zu more since the last line", why,
                 admin->denied_since);
    admin->denied_at = now;
    admin->denied_since = 0;
    admin_peer(in, who);
    admin_audit(admin, who, "admin_token", "api", outcome);
}

/* False: it has been answered. */
static bool may_ask(struct admin *admin, struct http_inbound *in)
{
    enum admin_access access = admin_access(&admin_generation(admin)->config, &in->head);

    if (access == ADMIN_CLOSED)
        note_denied(admin, in, "no token is configured");
    if (access == ADMIN_CLOSED)
        admin_reply_error(in, 403, "closed",
                          "the admin API is closed, because no token is configured; set "
                          "admin_auth.token, for example to \"file:admin.token\"");
    if (access != ADMIN_WRONG_TOKEN)
        return access == ADMIN_MAY;
    note_denied(admin, in, "the token is missing or wrong");
    admin_reply_error(in, 401, "unauthorized",
                      "the token is missing or wrong; send authorization: Bearer TOKEN");
    return false;
}

/* ---- what ---- */

static bool is_guarded(struct slice path)
{
    return slice_equal(path, SLICE("/metrics")) || slice_equal(path, SLICE("/api")) ||
           (path.n >= 5 && memcmp(path.at, "/api/", 5) == 0);
}

static bool is_json(const struct http_head *head)
{
    struct slice type = http_find(head, SLICE("content-type"));
    const char *end = type.at != NULL ? memchr(type.at, ';', type.n) : NULL;

    if (end != NULL)
        type.n = (size_t)(end - type.at);
    while (type.n > 0 && (type.at[type.n - 1] == ' ' || type.at[type.n - 1] == '\t'))
        type.n--;
    return slice_equal_nocase(type, SLICE("application/json"));
}

static void reply_too_large(struct http_inbound *in)
{
    admin_reply_error(in, 413, "too_large", "a body may have %zu bytes", ADMIN_BODY_MAX);
}

/* False: it has been answered. */
static bool take_names(struct admin_call *call, const struct slice names[ADMIN_NAMES_MAX])
{
    for (int i = 0; i < ADMIN_NAMES_MAX; i++)
        if (names[i].at != NULL &&
            !admin_decode(names[i], false, call->names[i], sizeof call->names[i])) {
            admin_reply_error(call->in, 404, "not_found",
                              "a name in the path has more than %d bytes, or is not "
                              "percent-encoded",
                              ADMIN_NAME_MAX);
            return false;
        }
    return true;
}

/* "after and limit" of "after limit". */
static void list_parameters(const char *names, char text[128])
{
    size_t used = 0;

    text[0] = '\0';
    while (*names != '\0') {
        size_t n = strcspn(names, " ");
        bool last = names[n] == '\0';
        used += (size_t)snprintf(text + used, 128 - used, "%s%.*s",
                                 used == 0 ? ""
                                 : last    ? " and "
                                           : ", ",
                                 (int)n, names);
        names += n + !last;
    }
}

/* What has no effect is refused: it may be a slip, and its sender would not notice. */
static bool takes_query(struct admin_call *call)
{
    const char *names = call->route->query != NULL ? call->route->query : "";
    char wrong[64], known[128], text[300];

    if (strncmp(call->route->path, "/api/", 5) != 0 ||
        admin_query_check(call->query, names, ADMIN_NAME_MAX + 1, wrong))
        return true;
    list_parameters(names, known);
    snprintf(text, sizeof text,
             "parameter \"%s\" is not known, is given twice, or is too long; this path takes %s",
             wrong, *known != '\0' ? known : "none");
    admin_reply_invalid(call, "query", text);
    return false;
}

static bool takes_body(struct admin_call *call)
{
    if (call->route->body || call->in->head.length == 0 ||
        strncmp(call->route->path, "/api/", 5) != 0)
        return true;
    admin_reply_invalid(call, "body", "this path takes no body");
    return false;
}

static void reply_no_route(struct http_inbound *in, const char *allow)
{
    if (*allow != '\0')
        admin_reply_method(in, allow);
    else
        admin_reply_error(in, 404, "not_found",
                          "there is no such path; docs/openapi.yaml has all of them");
}

/* Another process has read, or is about to read, what a change would change. */
static void run(struct admin_call *call)
{
    if (call->route->action != NULL && atomic_load(&call->admin->options.gateway->handing_over))
        admin_reply_error(call->in, 503, "busy", ADMIN_TAKEN_OVER);
    else
        call->route->run(call);
}

/* Waits for the body, or runs at once. */
static void admin_server_start(struct admin_call *call)
{
    struct http_inbound *in = call->in;

    if (!call->route->body)
        run(call);
    else if (!is_json(&in->head))
        admin_reply_error(in, 415, "not_json", "the body must be JSON: content-type: %s",
                          "application/json");
    else if (in->head.length > (int64_t)ADMIN_BODY_MAX)
        reply_too_large(in);
}

static void admin_server_begin(void *context, struct http_inbound *in)
{
    struct admin *admin = context;
    struct slice names[ADMIN_NAMES_MAX] = {{0}};
    struct slice path = in->head.target;
    const char *query = memchr(path.at, '?', path.n);
    char allow[64];

    path.n = query ? (size_t)(query - path.at) : path.n;
    if (is_guarded(path) && !may_ask(admin, in))
        return;
    const struct admin_route *route = admin_route_find(in->head.method, path, names, allow);
    if (route == NULL && *allow == '\0' && admin_page_file(in, path))
        return;
    if (route == NULL) {
        reply_no_route(in, allow);
        return;
    }
    struct admin_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        admin_reply_error(in, 503, "busy", "no memory");
        return;
    }
    call->admin = admin;
    call->in = in;
    call->route = route;
    if (query)
        call->query = (struct slice){query + 1, in->head.target.n - path.n - 1};
    in->owner = call;
    if (take_names(call, names) && takes_query(call) && takes_body(call))
        admin_server_start(call);
}

static void admin_server_data(struct http_inbound *in, struct slice bytes)
{
    struct admin_call *call = in->owner;

    if (call == NULL || !call->route->body)
        return;
    if (call->body_n + bytes.n > ADMIN_BODY_MAX) {
        reply_too_large(in);
        return;
    }
    if (call->body == NULL)
        call->body = malloc(ADMIN_BODY_MAX + JSON_PADDING);
    if (call->body == NULL) {
        admin_reply_error(in, 503, "busy", "no memory");
        return;
    }
    memcpy(call->body + call->body_n, bytes.at, bytes.n);
    call->body_n += bytes.n;
}

static void admin_server_end(struct http_inbound *in)
{
    struct admin_call *call = in->owner;

    if (call == NULL || !call->route->body)
        return;
    if (call->body == NULL)
        call->body = calloc(1, JSON_PADDING + 1);
    if (call->body == NULL)
        admin_reply_error(in, 503, "busy", "no memory");
    else
        run(call);
}

static void admin_server_gone(struct http_inbound *in, enum http_why why)
{
    struct admin_call *call = in->owner;

    (void)why;
    if (call == NULL)
        return;
    admin_watch_gone(call);
    admin_change_gone(call);
    admin_reload_gone(call);
    explain_forget(call->explanation);
    snapshot_fleet_gone(call);
    explain_fleet_gone(call);
    free(call->body);
    free(call);
}

static void admin_server_refuse(void *context, int status, const char *text,
                                struct http_refusal *refusal)
{
    (void)context;
    refusal->type = SLICE("application/json");
    int n = snprintf(refusal->body, sizeof refusal->body,
                     "{\"error\":{\"code\":\"bad_request\",\"message\":\"%d: %.200s\"}}\n", status,
                     text);
    refusal->n = (size_t)n;
}

const struct http_server_ops admin_server_ops = {.begin = admin_server_begin,
                                                 .data = admin_server_data,
                                                 .end = admin_server_end,
                                                 .gone = admin_server_gone,
                                                 .refuse = admin_server_refuse};

/* ---- all together ---- */

static void each_second(void *arg)
{
    struct admin *admin = arg;

    snapshot_sample(&admin->memory, admin_generation(admin), admin_now(admin));
    net_timer_set(admin->options.loop, &admin->second, 1000);
}

enum tg_err admin_new(const struct admin_options *options, struct admin **made,
                      struct tg_problem *problem)
{
    struct snapshot_sources of = {options->gateway, options->metrics, options->watch};
    struct admin *admin = calloc(1, sizeof *admin);

    problem_fail(problem, "no memory");
    if (admin == NULL)
        return TG_ERR_MEMORY;
    admin->options = *options;
    admin->reader = json_reader_new();
    admin_watchers_init(&admin->watchers, admin);
    net_timer_init(&admin->second, each_second, admin);
    enum tg_err err = TG_ERR_MEMORY;
    if (admin->reader != NULL &&
        snapshot_memory_init(&admin->memory, &of, admin_generation(admin), admin_now(admin)))
        err = admin_changes_new(admin, &admin->changes, problem);
    if (!err && ((admin->explain_fleet = explain_fleet_new(admin)) == NULL ||
                 (admin->fleet = snapshot_fleet_new(admin)) == NULL))
        err = TG_ERR_MEMORY;
    if (err) {
        admin_free(admin);
        return err;
    }
    net_timer_set(options->loop, &admin->second, 1000);
    options->gateway->sampled = &admin->memory;
    *made = admin;
    return TG_OK;
}

void admin_free(struct admin *admin)
{
    if (admin == NULL)
        return;
    if (admin->options.gateway->sampled == &admin->memory)
        admin->options.gateway->sampled = NULL;
    snapshot_fleet_free(admin->fleet);
    explain_fleet_free(admin->explain_fleet);
    admin_changes_free(admin->changes);
    admin_watchers_fini(&admin->watchers);
    net_timer_stop(admin->options.loop, &admin->second);
    snapshot_memory_fini(&admin->memory);
    json_reader_free(admin->reader);
    free(admin);
}
