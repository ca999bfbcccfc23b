/* embed_c.c - what an embedder does, in the least number of lines: one limiter in one store.
 *
 * Built by tests/api/link.sh as C11 against the static and the shared library, and through
 * pkg-config. Exits 0 if ten calls fit and the eleventh does not. */
#include <stdio.h>
#include <tollgate.h>

static int fail(const char *what, const struct tg_problem *problem)
{
    fprintf(stderr, "%s: %s\n", what, problem->text);
    return 1;
}

int main(void)
{
    struct tg_problem problem = {""};
    struct tg_store_config config;
    struct tg_store *store;
    tg_store_config_init(&config);
    if (tg_store_new(&config, &store, &problem))
        return fail("tg_store_new", &problem);

    struct tg_limiter_config limiter;
    struct tg_limit limit = {.axis = TG_AXIS_RATE};
    tg_limits set;
    if (tg_limiter_config_parse(&limiter, "gcra:limit=10,period=1000", &problem) ||
        tg_limiter_init(&limit.limiter, &limiter, &problem) ||
        tg_store_define(store, &limit, 1, &set, &problem))
        return fail("limits", &problem);

    struct tg_scope scope = {.limits = set, .key = "team-a", .key_bytes = 6};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = 1};
    struct tg_decision decision = TG_ALLOW_FULL;
    int admitted = 0;
    for (int i = 0; i < 11; i++) {
        if (tg_store_take(store, &debit, 1000, &decision, NULL))
            return fail("tg_store_take", &problem);
        admitted += decision.allowed;
    }
    tg_store_free(store);
    return admitted == 10 && decision.retry_after_ms == 100 ? 0 : 1;
}
