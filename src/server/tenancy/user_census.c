/* user_census.c - how many users of a tenant are told apart today. See user_census.h. */
#include "server/tenancy/user_census.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { DAY_MS = 24 * 60 * 60 * 1000 };

void user_census_init(struct user_census *census)
{
    pthread_mutex_init(&census->lock, NULL);
    census->day = 0;
    census->users = (struct hash_table){0};
}

void user_census_fini(struct user_census *census)
{
    hash_table_fini(&census->users);
    pthread_mutex_destroy(&census->lock);
}

tg_ms user_census_until(tg_ms now)
{
    return (now / DAY_MS + 1) * DAY_MS;
}

/* A day that has passed does not come back: a clock that steps back stays in the newest one. */
static void begin_day(struct user_census *census, int64_t day)
{
    if (day <= census->day)
        return;
    census->day = day;
    hash_table_fini(&census->users); /* a day of many users does not hold their memory for ever */
}

bool user_census_take(struct user_census *census, struct slice user, int64_t max, uint64_t seed,
                      tg_ms now)
{
    uint64_t hash = XXH3_64bits_withSeed(user.at, user.n, seed);
    bool taken = true;

    pthread_mutex_lock(&census->lock);
    begin_day(census, now / DAY_MS);
    if (hash_table_find(&census->users, hash) == NULL) {
        taken = (int64_t)census->users.n < max;
        if (taken && hash_table_reserve(&census->users, census->users.n + 1) == TG_OK)
            hash_table_insert(&census->users, hash)->number = 1;
    }
    pthread_mutex_unlock(&census->lock);
    return taken;
}

bool user_census_peek(struct user_census *census, struct slice user, int64_t max, uint64_t seed,
                      tg_ms now)
{
    uint64_t hash = XXH3_64bits_withSeed(user.at, user.n, seed);

    pthread_mutex_lock(&census->lock);
    bool is_new_day = now / DAY_MS > census->day;
    bool has = (is_new_day ? 0 : (int64_t)census->users.n) < max ||
               (!is_new_day && hash_table_find(&census->users, hash) != NULL);
    pthread_mutex_unlock(&census->lock);
    return has;
}
