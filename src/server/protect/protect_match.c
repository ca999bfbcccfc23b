/* protect_match.c - the protected route of a request, and its priority there.
 *
 * Paths are compared byte by byte, as they were sent: a target that is escaped or not normalized
 * ("/%61pi", "/x/../api") matches no route, so that what was matched here is what the upstream
 * gets.
 */
#include "server/protect/protect.h"

#include <string.h>

static struct slice path_of(struct slice target)
{
    const char *query = target.n > 0 ? memchr(target.at, '?', target.n) : NULL;

    return query ? (struct slice){target.at, (size_t)(query - target.at)} : target;
}

/* Whether a path is this one or beneath it. A slash at the end of the prefix changes nothing. */
static bool is_beneath(struct slice path, struct slice prefix)
{
    if (prefix.n > 0 && prefix.at[prefix.n - 1] == '/')
        prefix.n--;
    if (path.n < prefix.n || (prefix.n > 0 && memcmp(path.at, prefix.at, prefix.n) != 0))
        return false;
    return path.n == prefix.n || path.at[prefix.n] == '/';
}

const struct protected_route *protect_find(const struct generation *generation, struct slice target)
{
    struct slice path = path_of(target);
    const struct protected_route *found = NULL;
    size_t longest = 0;

    for (size_t i = 0; i < generation->config.n_protect; i++) {
        struct slice prefix = slice_of(generation->config.protect[i].prefix);
        if (is_beneath(path, prefix) && (found == NULL || prefix.n > longest)) {
            found = &generation->protect[i];
            longest = prefix.n;
        }
    }
    return found;
}

enum tg_priority protect_priority(const struct protected_route *route, struct slice method,
                                  struct slice target)
{
    const struct config_protect *config = route->config;
    struct slice path = path_of(target);
    int priority = CONFIG_NORMAL;
    size_t longest = 0;
    bool any = false;

    for (size_t i = 0; i < config->n_priorities; i++) {
        const struct config_protect_priority *line = &config->priorities[i];
        struct slice prefix = slice_of(line->path);
        if (slice_equal(method, slice_of(line->method)) && is_beneath(path, prefix) &&
            (!any || prefix.n > longest)) {
            any = true;
            priority = line->priority;
            longest = prefix.n;
        }
    }
    return (enum tg_priority)priority;
}
