/* keys_kit.c - a ring with one pool. See keys_kit.h. */
#include "keys_kit.h"

#include <stdio.h>

void keys_init(struct keys_kit *kit, size_t n, struct tg_key_limits limits)
{
    assert_true(n <= KIT_KEYS_MAX);
    kit->ring = NULL;
    kit->pool = NULL;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(kit->names[i], KIT_NAME, "k%zu", i);
        kit->keys[i] =
            (struct tg_key_spec){.name = kit->names[i], .limits = limits, .owner = kit->names[i]};
    }
    tg_pool_spec_init(&kit->pool_spec);
    kit->pool_spec.provider = "p";
    kit->pool_spec.model = "m";
    kit->pool_spec.keys = kit->keys;
    kit->pool_spec.n_keys = n;
    kit->group = (struct tg_group_spec){.provider = "p", .name = "g"};
    tg_keyring_spec_init(&kit->spec);
    kit->spec.groups = &kit->group;
    kit->spec.n_groups = 1;
    kit->spec.pools = &kit->pool_spec;
    kit->spec.n_pools = 1;
    kit->spec.max_affinity = 100;
    kit->spec.seed = 1;
}

void keys_open(struct keys_kit *kit)
{
    struct tg_problem problem = {""};

    if (tg_keyring_new(&kit->spec, &kit->ring, &problem))
        fail_msg("%s", problem.text);
    kit->pool = tg_keyring_pool(kit->ring, "p", "m");
    assert_non_null(kit->pool);
}

void keys_start(struct keys_kit *kit, size_t n, struct tg_key_limits limits)
{
    keys_init(kit, n, limits);
    keys_open(kit);
}

void keys_close(struct keys_kit *kit)
{
    tg_keyring_free(kit->ring);
}

void keys_change(struct keys_kit *kit, tg_ms now)
{
    struct tg_problem problem = {""};

    if (tg_keyring_change(kit->ring, &kit->spec, now, &problem))
        fail_msg("%s", problem.text);
}

tg_key_lease keys_call(struct keys_kit *kit, const struct tg_key_call *call, tg_ms now)
{
    tg_pool_acquire(kit->pool, call, now, &kit->answer);
    return kit->answer.lease;
}

tg_key_lease keys_acquire(struct keys_kit *kit, int64_t tokens, tg_ms now)
{
    struct tg_key_call call;

    tg_key_call_init(&call);
    call.tokens = tokens;
    return keys_call(kit, &call, now);
}

tg_key_lease keys_take(struct keys_kit *kit, size_t i, int64_t tokens, tg_ms now)
{
    struct tg_key_call call;

    tg_key_call_init(&call);
    call.tokens = tokens;
    call.prefer = kit->names[i];
    tg_key_lease lease = keys_call(kit, &call, now);
    assert_true(lease != 0);
    assert_int_equal(keys_got(kit), i);
    return lease;
}

size_t keys_got(const struct keys_kit *kit)
{
    const char *name = kit->answer.owner;

    assert_true(kit->answer.lease != 0);
    return (size_t)(name - kit->names[0]) / KIT_NAME;
}

static void end_as(struct keys_kit *kit, tg_key_lease lease, tg_ms now, struct tg_key_report report)
{
    assert_true(tg_keyring_release(kit->ring, lease, now, &report));
}

static struct tg_key_report report_of(enum tg_key_outcome outcome)
{
    struct tg_key_report report;

    tg_key_report_init(&report);
    report.outcome = outcome;
    return report;
}

void keys_end(struct keys_kit *kit, tg_key_lease lease, tg_ms now, enum tg_key_outcome outcome)
{
    end_as(kit, lease, now, report_of(outcome));
}

void keys_end_ok(struct keys_kit *kit, tg_key_lease lease, tg_ms now, double latency_ms)
{
    struct tg_key_report report = report_of(TG_KEY_OK);

    report.latency_ms = latency_ms;
    end_as(kit, lease, now, report);
}

void keys_settle(struct keys_kit *kit, tg_key_lease lease, tg_ms now, int64_t tokens)
{
    struct tg_key_report report = report_of(TG_KEY_OK);

    report.tokens = tokens;
    end_as(kit, lease, now, report);
}

void keys_cool(struct keys_kit *kit, tg_key_lease lease, tg_ms now, tg_ms until)
{
    struct tg_key_report report = report_of(TG_KEY_LIMITED);

    report.cool_until = until;
    end_as(kit, lease, now, report);
}

void keys_unsent(struct keys_kit *kit, tg_key_lease lease, tg_ms now)
{
    struct tg_key_report report = report_of(TG_KEY_CANCELLED);

    report.sent = false;
    end_as(kit, lease, now, report);
}

void keys_attempt(struct keys_kit *kit, size_t i, tg_ms now, enum tg_key_outcome outcome)
{
    keys_end(kit, keys_take(kit, i, 0, now), now, outcome);
}

struct tg_key_metrics keys_metrics(struct keys_kit *kit, size_t i, tg_ms now)
{
    struct tg_key_metrics metrics;

    assert_int_equal(tg_pool_get_keys(kit->pool, now, i, &metrics, 1), 1);
    return metrics;
}
