/* takeover_state.c - what limits and keys have counted, from one process to the next: see
 * takeover_state.h. */
#include "server/runtime/takeover_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "lib/keypool/keyring_save.h"
#include "lib/store/store_save.h"
#include "server/obs/log.h"
#include "server/runtime/takeover_wire.h"
#include "server/tenancy/limit_book.h"

enum { PART_BYTES = 60000 };

/* A set of limits: its name follows. */
struct limits_record {
    uint32_t set, n, name_bytes;
    struct {
        struct tg_limiter_config config;
        enum tg_axis axis;
        enum tg_mode mode;
        int64_t overdraft;
    } limits[TG_LIMITS_MAX];
};

struct bytes {
    char *at;
    size_t n, max;
};

/* ---- saving ---- */

static bool put_record(struct bytes *to, uint32_t kind, const void *first, size_t n_first,
                       const void *second, size_t n_second)
{
    struct takeover_record head = {kind, (uint32_t)(n_first + n_second)};

    if (!array_reserve(&to->at, &to->max, to->n + sizeof head + n_first + n_second))
        return false;
    memcpy(to->at + to->n, &head, sizeof head);
    memcpy(to->at + to->n + sizeof head, first, n_first);
    if (n_second > 0)
        memcpy(to->at + to->n + sizeof head + n_first, second, n_second);
    to->n += sizeof head + n_first + n_second;
    return true;
}

static bool put_parts(struct bytes *to, uint32_t kind, const char *bytes, size_t n)
{
    bool done = true;

    for (size_t at = 0; done && at < n; at += PART_BYTES)
        done = put_record(to, kind, bytes + at, n - at < PART_BYTES ? n - at : PART_BYTES, NULL, 0);
    return done;
}

static bool put_sets(struct bytes *to, const struct limit_book *book)
{
    struct limit_listing *listing = limit_book_list(book);
    bool done = listing != NULL;

    for (size_t i = 0; done && i < listing->n; i++) {
        const struct limit_listed *listed = &listing->sets[i];
        struct limits_record record;
        memset(&record, 0, sizeof record);
        if (listed->n == 0)
            continue;
        record.set = (uint32_t)i;
        record.n = (uint32_t)listed->n;
        record.name_bytes = (uint32_t)listed->name.n;
        for (size_t k = 0; k < listed->n; k++) {
            record.limits[k].config = listed->limits[k].limiter.config;
            record.limits[k].axis = listed->limits[k].axis;
            record.limits[k].mode = listed->limits[k].mode;
            record.limits[k].overdraft = listed->limits[k].overdraft;
        }
        done = put_record(to, TAKEOVER_LIMITS, &record, sizeof record, listed->name.at,
                          listed->name.n);
    }
    free(listing);
    return done;
}

bool takeover_state_save(struct control *control, takeover_moved_fn *moved, void *context,
                         char **bytes, size_t *n)
{
    struct gateway *gateway = control->gateway;
    struct bytes to = {NULL, 0, 0};
    char *keys = NULL, *counted = NULL;
    size_t n_keys, n_counted;
    bool done = keyring_save(gateway->ring, control_now(control), &keys, &n_keys) == TG_OK &&
                put_parts(&to, TAKEOVER_KEYS_STATE, keys, n_keys);

    /* With Redis, the store in memory is for the time when that is away. */
    if (done && gateway->remote == NULL)
        done = put_sets(&to, gateway->book) &&
               store_save(gateway->store, moved, context, &counted, &n_counted) == TG_OK &&
               put_parts(&to, TAKEOVER_STORE_STATE, counted, n_counted);
    free(keys);
    free(counted);
    if (!done) {
        takeover_state_unfollow(gateway);
        free(to.at);
        return false;
    }
    *bytes = to.at;
    *n = to.n;
    return true;
}

void takeover_state_unfollow(struct gateway *gateway)
{
    store_unfollow(gateway->store);
}

/* ---- loading ---- */

struct named_set {
    struct store_set set;
    char *name;
    size_t name_bytes;
};

struct takeover_state {
    struct bytes keys, counted;
    struct named_set *named;
    size_t n_named, max_named;
    struct store_set *sets; /* [n_named]: what each set is here */
};

struct takeover_state *takeover_state_new(void)
{
    return calloc(1, sizeof(struct takeover_state));
}

void takeover_state_free(struct takeover_state *state)
{
    if (state == NULL)
        return;
    for (size_t i = 0; i < state->n_named; i++)
        free(state->named[i].name);
    free(state->named);
    free(state->sets);
    free(state->keys.at);
    free(state->counted.at);
    free(state);
}

static bool add_bytes(struct bytes *to, const char *bytes, size_t n)
{
    if (!array_reserve(&to->at, &to->max, to->n + n))
        return false;
    memcpy(to->at + to->n, bytes, n);
    to->n += n;
    return true;
}

static bool add_set(struct takeover_state *state, const char *bytes, size_t n)
{
    struct limits_record record;
    struct named_set *named;

    if (n < sizeof record)
        return false;
    memcpy(&record, bytes, sizeof record);
    if (record.n > TG_LIMITS_MAX || record.name_bytes != n - sizeof record ||
        !array_reserve(&state->named, &state->max_named, state->n_named + 1))
        return false;
    named = &state->named[state->n_named];
    memset(named, 0, sizeof *named);
    named->set.there = record.set;
    named->set.n = record.n;
    for (size_t i = 0; i < record.n; i++) {
        struct tg_limit *limit = &named->set.limits[i];
        if (tg_limiter_init(&limit->limiter, &record.limits[i].config, NULL) != TG_OK)
            return true; /* it begins anew */
        limit->axis = record.limits[i].axis;
        limit->mode = record.limits[i].mode;
        limit->overdraft = record.limits[i].overdraft;
    }
    named->name_bytes = record.name_bytes;
    named->name = malloc(record.name_bytes + 1);
    if (named->name == NULL)
        return false;
    memcpy(named->name, bytes + sizeof record, record.name_bytes);
    state->n_named++;
    return true;
}

bool takeover_state_take(struct takeover_state *state, uint32_t kind, const char *bytes, size_t n)
{
    if (kind == TAKEOVER_LIMITS)
        return add_set(state, bytes, n);
    if (kind == TAKEOVER_KEYS_STATE)
        return add_bytes(&state->keys, bytes, n);
    return kind == TAKEOVER_STORE_STATE && add_bytes(&state->counted, bytes, n);
}

/* Finds the sets of the other process by their names. */
static bool match_sets(struct takeover_state *state, const struct limit_book *book)
{
    struct limit_listing *listing = limit_book_list(book);

    state->sets = calloc(state->n_named + 1, sizeof *state->sets);
    for (size_t i = 0; listing && state->sets && i < state->n_named; i++) {
        const struct named_set *named = &state->named[i];
        state->sets[i] = named->set;
        for (size_t k = 0; k < listing->n; k++)
            if (listing->sets[k].n > 0 && listing->sets[k].name.n == named->name_bytes &&
                memcmp(listing->sets[k].name.at, named->name, named->name_bytes) == 0)
                state->sets[i].here = (tg_limits)k;
    }
    bool done = listing != NULL && state->sets != NULL;
    free(listing);
    return done;
}

void takeover_state_load(struct takeover_state *state, struct gateway *gateway, bool json)
{
    tg_ms now = clock_now_ms(&gateway->clock);

    keyring_load(gateway->ring, state->keys.at, state->keys.n, now);
    if (gateway->remote == NULL && state->counted.n > 0 && match_sets(state, gateway->book) &&
        store_load(gateway->store, state->counted.at, state->counted.n, state->sets, state->n_named,
                   now) != TG_OK)
        log_say(json, &gateway->clock,
                "takeover: what limits had counted cannot be used here; they start afresh");
    free(state->keys.at);
    free(state->counted.at);
    state->keys = state->counted = (struct bytes){NULL, 0, 0};
}

void takeover_state_apply(struct takeover_state *state, struct gateway *gateway, const char *bytes,
                          size_t n)
{
    if (state->sets != NULL)
        store_apply(gateway->store, bytes, n, state->sets, state->n_named,
                    clock_now_ms(&gateway->clock));
}
