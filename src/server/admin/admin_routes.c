/* admin_routes.c - the paths of the admin API, and how a path is taken apart. See admin_routes.h.
 *
 * A dozen routes, asked for some times a second: they are tried one after the other.
 */
#include "server/admin/admin_routes.h"

#include <stdio.h>
#include <string.h>

#include "server/admin/admin_internal.h"

#define CHANGE_ANSWERS 400, 401, 403, 404, 409, 413, 415, 503

const struct admin_route admin_routes[] = {
    {"GET", "/", false, admin_page, {200}},
    {"GET", "/healthz", false, admin_healthz, {200}},
    {"GET", "/readyz", false, admin_readyz, {200, 503}},
    {"GET", "/metrics", false, admin_metrics, {200, 401, 403}},
    {"GET", "/api/v1/snapshot", false, admin_snapshot, {200, 401, 403}},
    {"GET", "/api/v1/explain", false, admin_explain, {200, 400, 401, 403, 404}},
    {"GET", "/api/v1/watch", false, admin_watch, {200, 400, 401, 403, 503}},
    {"POST", "/api/v1/reload", false, admin_reload, {200, 400, 401, 403}},
    {"GET", "/api/v1/tenants", false, admin_tenants_list, {200, 400, 401, 403}},
    {"GET", "/api/v1/tenants/{tenant}", false, admin_tenants_get, {200, 401, 403, 404}},
    {"PUT",
     "/api/v1/tenants/{tenant}",
     true,
     admin_tenants_put,
     {200, 201, 400, 401, 403, 409, 413, 415, 503}},
    {"DELETE",
     "/api/v1/tenants/{tenant}",
     false,
     admin_tenants_drop,
     {200, 400, 401, 403, 404, 409, 503}},
    {"POST", "/api/v1/tenants/{tenant}/keys", true, admin_keys_make, {201, CHANGE_ANSWERS}},
    {"DELETE",
     "/api/v1/tenants/{tenant}/keys/{key}",
     false,
     admin_keys_drop,
     {200, 400, 401, 403, 404, 409, 503}},
    {"GET", "/api/v1/tenants/{tenant}/topups", false, admin_topups_list, {200, 401, 403, 404}},
    {"POST", "/api/v1/tenants/{tenant}/topups", true, admin_topups_make, {201, CHANGE_ANSWERS}},
    {"DELETE",
     "/api/v1/tenants/{tenant}/topups/{id}",
     false,
     admin_topups_drop,
     {200, 400, 401, 403, 404, 503}},
    {"GET", "/api/v1/topups", false, admin_topups_list_all, {200, 401, 403}},
    {"POST", "/api/v1/topups", true, admin_topups_make, {201, 400, 401, 403, 409, 413, 415, 503}},
    {"DELETE", "/api/v1/topups/{id}", false, admin_topups_drop_all, {200, 400, 401, 403, 404, 503}},
    {"POST", "/api/v1/keys/{key}/reset", false, admin_keys_reset, {200, 401, 403, 404}},
    {"POST",
     "/api/v1/keys/{provider}/{key}/reset",
     false,
     admin_keys_reset_one,
     {200, 401, 403, 404}},
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

/* ---- decoding ---- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool admin_decode(struct slice text, bool plus, char *to, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i];
        if (plus && c == '+')
            c = ' ';
        if (c == '%') {
            int high = i + 1 < text.n ? digit_of(text.at[i + 1]) : -1;
            int low = i + 2 < text.n ? digit_of(text.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        to[n++] = c;
    }
    to[n] = '\0';
    return true;
}

/* ---- queries ---- */

/* Takes the next parameter off a query. */
static bool next_parameter(struct slice *query, struct slice *name, struct slice *value)
{
    while (query->n > 0) {
        const char *amp = memchr(query->at, '&', query->n);
        struct slice one = {query->at, amp ? (size_t)(amp - query->at) : query->n};
        size_t taken = one.n + (amp ? 1 : 0);
        query->at += taken;
        query->n -= taken;
        if (one.n == 0)
            continue;
        const char *is = memchr(one.at, '=', one.n);
        *name = (struct slice){one.at, is ? (size_t)(is - one.at) : one.n};
        *value = is ? (struct slice){is + 1, one.n - name->n - 1} : (struct slice){one.at, 0};
        return true;
    }
    return false;
}

bool admin_query_get(struct slice query, const char *name, char *to, size_t size)
{
    struct slice key, value;

    while (next_parameter(&query, &key, &value))
        if (slice_equal(key, slice_of(name)))
            return admin_decode(value, true, to, size);
    return false;
}

static bool is_among(struct slice name, const char *names)
{
    while (*names != '\0') {
        size_t n = strcspn(names, " ");
        if (slice_equal(name, (struct slice){names, n}))
            return true;
        names += n + (names[n] == ' ');
    }
    return false;
}

static bool comes_again(struct slice query, struct slice name)
{
    struct slice key, value;

    while (next_parameter(&query, &key, &value))
        if (slice_equal(key, name))
            return true;
    return false;
}

/* Whether the value could be decoded, without a place for it. */
static bool is_decodable(struct slice value, size_t size)
{
    char piece[4];
    size_t n = 0;

    for (size_t i = 0; i < value.n; n++) {
        size_t bytes = value.at[i] == '%' ? 3 : 1;
        if (i + bytes > value.n ||
            !admin_decode((struct slice){value.at + i, bytes}, true, piece, sizeof piece))
            return false;
        i += bytes;
    }
    return n < size;
}

bool admin_query_check(struct slice query, const char *names, size_t size, char wrong[64])
{
    struct slice name, value;

    while (next_parameter(&query, &name, &value))
        if (!is_among(name, names) || comes_again(query, name) || !is_decodable(value, size)) {
            snprintf(wrong, 64, "%.*s", name.n < 63 ? (int)name.n : 63, name.at);
            return false;
        }
    return true;
}
