/* tenant_share.c - what tenants take up, from one generation to the next: see tenant_share.h. */
#include "server/runtime/tenant_share.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/runtime/generation.h"

static struct tenant_share *share_before(const struct generation *before, const char *name)
{
    const struct config_tenant *tenant =
        before ? config_tenant(&before->config, name, strlen(name)) : NULL;

    return tenant ? before->shares[tenant - before->config.tenants] : NULL;
}

bool tenant_shares_make(struct generation *generation, const struct generation *before,
                        struct tg_problem *problem)
{
    const struct config *config = &generation->config;

    generation->shares = calloc(config->n_tenants + 1, sizeof(struct tenant_share *));
    for (size_t i = 0; generation->shares && i < config->n_tenants; i++) {
        struct tenant_share *share = share_before(before, config->tenants[i].name);
        if (share == NULL) {
            if ((share = calloc(1, sizeof *share)) == NULL)
                return problem_fail(problem, "tenants: no memory");
            user_census_init(&share->users);
        }
        atomic_fetch_add(&share->refs, 1);
        generation->shares[i] = share;
    }
    return generation->shares || problem_fail(problem, "tenants: no memory");
}

static void tenant_share_unref(struct tenant_share *share)
{
    int refs = atomic_fetch_sub(&share->refs, 1);

    assert(refs > 0);
    if (refs > 1)
        return;
    assert(atomic_load(&share->buffered) == 0); /* whoever buffers holds a generation that has it */
    assert(share->lane.n_waiting == 0 && share->lane.n_running == 0);
    user_census_fini(&share->users);
    refusals_fini(&share->refusals);
    free(share);
}

enum { ASK_EVERY_MS = 250, ASKS_AT_ONCE = 8 };

tg_ms tenant_may_ask(struct tenant_share *share, tg_ms now)
{
    long long until = atomic_load(&share->asks_until), next;

    do {
        next = (until > now ? until : now) + ASK_EVERY_MS;
        if (next - now > ASKS_AT_ONCE * ASK_EVERY_MS)
            return next - now - ASKS_AT_ONCE * ASK_EVERY_MS;
    } while (!atomic_compare_exchange_weak(&share->asks_until, &until, next));
    return 0;
}

void tenant_shares_free(struct generation *generation)
{
    for (size_t i = 0; generation->shares && i < generation->config.n_tenants; i++)
        if (generation->shares[i])
            tenant_share_unref(generation->shares[i]);
    free(generation->shares);
}
