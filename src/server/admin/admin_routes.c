/* admin_routes.c - the paths of the admin API: see admin_routes.h.
 *
 * A dozen routes, asked for some times a second: they are tried one after the other.
 */
#include "server/admin/admin_routes.h"

#include <stdio.h>
#include <string.h>

#include "server/admin/admin_internal.h"
#include "server/admin/explain_query.h"

#define CHANGE_ANSWERS 400, 401, 403, 404, 409, 413, 415, 503

const struct admin_route admin_routes[] = {
    {"GET", "/", false, admin_page, {200}, NULL, NULL},
    {"GET", "/healthz", false, admin_healthz, {200}, NULL, NULL},
    {"GET", "/readyz", false, admin_readyz, {200, 503}, NULL, NULL},
    {"GET", "/metrics", false, admin_metrics, {200, 401, 403}, NULL, NULL},
    {"GET", "/api/v1/snapshot", false, admin_snapshot, {200, 400, 401, 403, 503}, "scope", NULL},
    {"GET",
     "/api/v1/explain",
     false,
     admin_explain,
     {200, 400, 401, 403, 404, 503},
     EXPLAIN_PARAMETERS " scope",
     NULL},
    {"GET", "/api/v1/watch", false, admin_watch, {200, 400, 401, 403, 503}, "tenant", NULL},
    {"POST", "/api/v1/reload", false, admin_reload, {200, 400, 401, 403, 503}, NULL, "reload"},
    {"GET",
     "/api/v1/tenants",
     false,
     admin_tenants_list,
     {200, 400, 401, 403},
     "after limit",
     NULL},
    {"GET",
     "/api/v1/tenants/{tenant}",
     false,
     admin_tenants_get,
     {200, 400, 401, 403, 404},
     NULL,
     NULL},
    {"PUT",
     "/api/v1/tenants/{tenant}",
     true,
     admin_tenants_put,
     {200, 201, 400, 401, 403, 409, 413, 415, 503},
     NULL,
     "put_tenant"},
    {"DELETE",
     "/api/v1/tenants/{tenant}",
     false,
     admin_tenants_drop,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "delete_tenant"},
    {"POST",
     "/api/v1/tenants/{tenant}/keys",
     true,
     admin_keys_make,
     {201, CHANGE_ANSWERS},
     NULL,
     "make_key"},
    {"PUT",
     "/api/v1/tenants/{tenant}/keys/{key}",
     true,
     admin_keys_put,
     {200, CHANGE_ANSWERS},
     NULL,
     "put_key"},
    {"DELETE",
     "/api/v1/tenants/{tenant}/keys/{key}",
     false,
     admin_keys_drop,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "delete_key"},
    {"GET",
     "/api/v1/tenants/{tenant}/topups",
     false,
     admin_topups_list,
     {200, 400, 401, 403, 404},
     NULL,
     NULL},
    {"POST",
     "/api/v1/tenants/{tenant}/topups",
     true,
     admin_topups_make,
     {201, CHANGE_ANSWERS},
     NULL,
     "top_up"},
    {"DELETE",
     "/api/v1/tenants/{tenant}/topups/{id}",
     false,
     admin_topups_drop,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "delete_top_up"},
    {"GET", "/api/v1/topups", false, admin_topups_list_all, {200, 400, 401, 403}, NULL, NULL},
    {"POST",
     "/api/v1/topups",
     true,
     admin_topups_make,
     {201, 400, 401, 403, 409, 413, 415, 503},
     NULL,
     "top_up"},
    {"DELETE",
     "/api/v1/topups/{id}",
     false,
     admin_topups_drop_all,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "delete_top_up"},
    {"GET",
     "/api/v1/credits",
     false,
     admin_credits_list,
     {200, 400, 401, 403, 503},
     "tenant",
     NULL},
    {"POST",
     "/api/v1/credits",
     true,
     admin_credits_make,
     {201, 400, 401, 403, 409, 413, 415, 503},
     NULL,
     "credit"},
    {"GET", "/api/v1/overrides", false, admin_overrides_list, {200, 400, 401, 403}, NULL, NULL},
    {"POST",
     "/api/v1/overrides",
     true,
     admin_overrides_make,
     {201, CHANGE_ANSWERS},
     NULL,
     "override"},
    {"DELETE",
     "/api/v1/overrides/{id}",
     false,
     admin_overrides_drop,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "delete_override"},
    {"GET", "/api/v1/fleet", false, admin_fleet_get, {200, 400, 401, 403}, NULL, NULL},
    {"POST",
     "/api/v1/fleet/restore",
     true,
     admin_fleet_restore,
     {200, 400, 401, 403, 409, 413, 415, 503},
     NULL,
     "restore_store"},
    {"GET", "/api/v1/blocks", false, admin_blocks_list, {200, 400, 401, 403}, NULL, NULL},
    {"POST",
     "/api/v1/blocks/write-off",
     true,
     admin_blocks_write_off,
     {200, 400, 401, 403, 404, 413, 415},
     NULL,
     "write_off"},
    {"POST",
     "/api/v1/keys/{key}/reset",
     false,
     admin_keys_reset,
     {200, 400, 401, 403, 404, 503},
     NULL,
     "reset_key"},
    {"POST",
     "/api/v1/keys/{provider}/{key}/reset",
     false,
     admin_keys_reset_one,
     {200, 400, 401, 403, 404, 503},
     NULL,
     "reset_key"},
    {"POST",
     "/api/v1/keys/{provider}/{key}/disable",
     false,
     admin_keys_disable,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "disable_key"},
    {"POST",
     "/api/v1/keys/{provider}/{key}/enable",
     false,
     admin_keys_enable,
     {200, 400, 401, 403, 404, 409, 503},
     NULL,
     "enable_key"},
};

const size_t admin_routes_n = sizeof admin_routes / sizeof admin_routes[0];

/* ---- finding ---- */

/* The segment at the head of a path, without its slash. */
static struct slice segment_of(struct slice path)
{
    const char *end = memchr(path.at + 1, '/', path.n - 1);

    return (struct slice){path.at + 1, end ? (size_t)(end - path.at - 1) : path.n - 1};
}

static struct slice after(struct slice path, struct slice segment)
{
    return (struct slice){path.at + 1 + segment.n, path.n - 1 - segment.n};
}

static bool admin_routes_is_name(struct slice segment)
{
    return segment.n > 2 && segment.at[0] == '{';
}

static bool matches(const char *pattern, struct slice path, struct slice names[ADMIN_NAMES_MAX])
{
    struct slice rest = slice_of(pattern);
    size_t n = 0;

    while (rest.n > 0 && path.n > 0 && path.at[0] == '/') {
        struct slice want = segment_of(rest), got = segment_of(path);
        if (admin_routes_is_name(want) && got.n > 0)
            names[n++] = got;
        else if (!slice_equal(want, got))
            return false;
        rest = after(rest, want);
        path = after(path, got);
    }
    return rest.n == 0 && path.n == 0;
}

static bool is_method(const char *have, struct slice want)
{
    return slice_equal(slice_of(have), want) ||
           (strcmp(have, "GET") == 0 && slice_equal(want, SLICE("HEAD")));
}

const struct admin_route *admin_route_find(struct slice method, struct slice path,
                                           struct slice names[ADMIN_NAMES_MAX], char allow[64])
{
    size_t used = 0;

    allow[0] = '\0';
    for (size_t i = 0; i < admin_routes_n; i++) {
        const struct admin_route *route = &admin_routes[i];
        if (!matches(route->path, path, names))
            continue;
        if (is_method(route->method, method))
            return route;
        used += (size_t)snprintf(allow + used, 64 - used, "%s%s%s", used ? ", " : "", route->method,
                                 strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    return NULL;
}
