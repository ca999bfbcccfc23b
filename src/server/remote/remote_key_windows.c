/* remote_key_windows.c - see remote_key_windows.h.
 *
 * A window is a sliding one of 60 s in 60 parts: in any 60 s of Redis' clock no more is admitted
 * than the limit says, whatever is leased where (remote_blocks.h).
 */
#include "server/remote/remote_key_windows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"

enum { MINUTE_MS = 60000, PARTS = 60 };

static void add_window(struct remote_scope *scope, struct tg_limit *limits, enum tg_axis axis,
                       int64_t units)
{
    struct tg_limiter_config config;
    struct tg_problem problem;

    if (units <= 0)
        return;
    tg_limiter_config_init(&config, TG_SLIDING_WINDOW);
    config.limit = units;
    config.period = MINUTE_MS;
    config.buckets = PARTS;
    struct tg_limit *limit = &limits[scope->n];
    *limit = (struct tg_limit){.axis = axis, .mode = TG_ENFORCE};
    if (tg_limiter_init(&limit->limiter, &config, &problem) == TG_OK)
        scope->n++;
}

static void add_scope(struct remote_key_windows *windows, const struct tg_key_limits *limits,
                      struct slice name, struct slice key, bool of_group)
{
    size_t i = windows->debit.n_scopes;
    struct remote_scope *scope = &windows->scopes[i];

    *scope = (struct remote_scope){.name = name, .key = key, .limits = windows->limits[i]};
    add_window(scope, windows->limits[i], TG_AXIS_RATE, limits->rpm);
    add_window(scope, windows->limits[i], TG_AXIS_COST, limits->tpm);
    windows->of_group[i] = of_group;
    if (scope->n > 0)
        windows->debit.n_scopes++;
}

bool remote_key_windows_init(struct remote_key_windows *windows, const struct tg_key_terms *terms)
{
    const char *group = terms->group;
    int key = snprintf(windows->key, KEY_WINDOW_NAME, "%s:%s", terms->model, terms->name);
    int root = group
                   ? snprintf(windows->root, KEY_WINDOW_NAME, "key:%s:g:%s", terms->provider, group)
                   : snprintf(windows->root, KEY_WINDOW_NAME, "key:%s:k:%s", terms->provider,
                              windows->key);

    if (key < 0 || key >= KEY_WINDOW_NAME || root < 0 || root >= KEY_WINDOW_NAME)
        return false;
    windows->debit = (struct remote_debit){.root = slice_of(windows->root),
                                           .scopes = windows->scopes,
                                           .cost = terms->tokens,
                                           .charging = TG_CHARGE_ATOMIC};
    add_scope(windows, &terms->limits, SLICE("key"), slice_of(windows->key), false);
    if (group)
        add_scope(windows, &terms->group_limits, SLICE("group"), slice_of(group), true);
    return windows->debit.n_scopes > 0;
}

struct tg_key_hold remote_key_windows_hold(const struct remote_key_windows *windows,
                                           const struct tg_axes *axes, tg_ms now)
{
    enum tg_axis axis = tg_axes_binding(axes);

    assert(axis == TG_AXIS_RATE || axis == TG_AXIS_COST);
    const struct tg_limit_answer *named = &axes->named[axis];
    assert(named->scope < windows->debit.n_scopes);
    return (struct tg_key_hold){
        .why = TG_HOLD_BUSY,
        .of_group = windows->of_group[named->scope],
        .until = num_add(now, num_max(axes->decision[axis].retry_after_ms, 1)),
        .room = axis == TG_AXIS_COST ? axes->decision[axis].remaining : -1,
    };
}
