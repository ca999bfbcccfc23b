/* limit.c - ten requests a second for each client, in one page.
 *
 *     cc limit.c $(pkg-config --cflags --libs tollgate)
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <tollgate.h>

static tg_ms now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (tg_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(void)
{
    struct tg_store_config config;
    struct tg_limiter_config gcra;
    struct tg_limit limit = {.axis = TG_AXIS_RATE};
    struct tg_problem problem = {""};
    struct tg_store *store;
    tg_limits limits;

    tg_store_config_init(&config);
    tg_limiter_config_init(&gcra, TG_GCRA);
    gcra.limit = 10;
    gcra.period = 1000;
    gcra.burst = 3;
    if (getrandom(&config.seed, sizeof config.seed, 0) != sizeof config.seed ||
        tg_limiter_init(&limit.limiter, &gcra, &problem) ||
        tg_store_new(&config, &store, &problem) ||
        tg_store_define(store, &limit, 1, &limits, &problem)) {
        fprintf(stderr, "cannot start: %s\n", problem.text);
        return 1;
    }

    for (int i = 0; i < 5; i++) {
        const char *client = "alice";
        struct tg_scope scope = {.limits = limits, .key = client, .key_bytes = strlen(client)};
        struct tg_debit debit = {.scopes = &scope, .n_scopes = 1};
        struct tg_decision decision;

        if (tg_store_take(store, &debit, now_ms(), &decision, NULL))
            return 1;
        if (decision.allowed)
            printf("served, %lld left\n", (long long)decision.remaining);
        else
            printf("refused, retry in %lld ms\n", (long long)decision.retry_after_ms);
    }
    tg_store_free(store);
    return 0;
}
