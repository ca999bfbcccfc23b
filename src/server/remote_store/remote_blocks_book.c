/* remote_blocks_book.c - roots and scopes, found by what they are called.
 *
 * A call finds its scopes by three short hashes, one after the other, each the seed of the next,
 * and a look at the names: some 50 ns. What a scope is made of is compared, too: a reload may give
 * other limits to the same name. Then the old one gives back what it has, and is freed with the
 * last who points to it.
 */
#include <assert.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/num.h"
#include "server/remote_store/remote_blocks_internal.h"

static const tg_ms FORGOTTEN_AFTER = 60000, SWEEP_EVERY = 10000;

static uint64_t remote_blocks_book_hash_of(struct slice text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text.at, text.n, seed);
}

/* Takes an item out of a table that it is in. */
static void book_remove(struct hash_table *table, uint64_t hash, const void *item)
{
    struct hash_slot *slot = hash_table_find(table, hash);

    while (slot && slot->item != item)
        slot = hash_table_find_next(table, slot);
    assert(slot != NULL);
    hash_table_remove(table, slot);
}

/* ---- roots ---- */

static struct root *find_root(const struct remote_blocks *blocks, struct slice name, uint64_t hash)
{
    struct hash_slot *slot = hash_table_find(&blocks->root_table, hash);

    for (; slot; slot = hash_table_find_next(&blocks->root_table, slot))
        if (slice_equal(((struct root *)slot->item)->name, name))
            return slot->item;
    return NULL;
}

static struct root *make_root(struct remote_blocks *blocks, struct slice name, uint64_t hash,
                              tg_ms now)
{
    struct root *root;

    if (hash_table_reserve(&blocks->root_table, blocks->root_table.n + 1) != TG_OK ||
        !(root = malloc(sizeof *root + name.n + 1)))
        return NULL;
    char *text = (char *)(root + 1);
    *root = (struct root){.hash = hash, .paced_at = now, .name = {text, name.n}};
    if (name.n > 0)
        memcpy(text, name.at, name.n);
    LIST_INIT(&root->scopes);
    TAILQ_INIT(&root->waiting);
    hash_table_insert(&blocks->root_table, hash)->item = root;
    return root;
}

tg_ms root_time(const struct root *root, tg_ms now)
{
    /* Two clocks drift: a thousandth is more than any does. */
    tg_ms drift = root->knows_time ? (now - root->ahead_at) / 1000 : 0;

    return num_max(now + root->ahead - drift, 0);
}

void book_activate(struct remote_blocks *blocks, struct root *root)
{
    if (root->is_active)
        return;
    LIST_INSERT_HEAD(&blocks->active, root, active);
    root->is_active = true;
}

void book_deactivate(struct root *root)
{
    if (!root->is_active)
        return;
    LIST_REMOVE(root, active);
    root->is_active = false;
}

/* ---- scopes ---- */

static bool same_limit(const struct tg_limit *a, const struct tg_limit *b)
{
    const struct tg_limiter_config *x = &a->limiter.config, *y = &b->limiter.config;

    return a->axis == b->axis && a->mode == b->mode && x->strategy == y->strategy &&
           x->limit == y->limit && x->period == y->period && x->burst == y->burst &&
           x->buckets == y->buckets && !(x->refill < y->refill) && !(x->refill > y->refill);
}

static bool same_limits(const struct scope *scope, const struct remote_scope *wanted)
{
    if (scope->n != wanted->n)
        return false;
    for (size_t i = 0; i < scope->n; i++)
        if (!same_limit(&scope->given[i], &wanted->limits[i]))
            return false;
    return true;
}

static struct scope *find_scope(const struct remote_blocks *blocks, struct slice root,
                                const struct remote_scope *wanted, uint64_t hash)
{
    struct hash_slot *slot = hash_table_find(&blocks->scope_table, hash);

    for (; slot; slot = hash_table_find_next(&blocks->scope_table, slot)) {
        struct scope *scope = slot->item;
        if (slice_equal(scope->key, wanted->key) && slice_equal(scope->name, wanted->name) &&
            slice_equal(scope->root->name, root))
            return scope;
    }
    return NULL;
}

static void free_scope(struct scope *scope)
{
    limits_codec_fini(&scope->words);
    free(scope);
}

/* Nobody finds it any more; it stays with its root until it has returned what it had. */
static void retire(struct remote_blocks *blocks, struct scope *scope, tg_ms now)
{
    assert(!scope->retired);
    book_remove(&blocks->scope_table, scope->hash, scope);
    scope->retired = true;
    for (size_t i = 0; i < scope->n; i++)
        credit_return(&scope->credits[i], scope->credits[i].units, now);
    book_activate(blocks, scope->root);
}

static enum tg_err encode_scope(struct scope *scope, const char *prefix,
                                const struct tg_limit *leased)
{
    struct remote_scope only = {scope->name, scope->key, leased, scope->n};
    struct remote_debit debit = {.root = scope->root->name, .scopes = &only, .n_scopes = 1};

    limits_codec_init(&scope->words);
    return limits_codec_set(&scope->words, prefix, &debit);
}

static struct scope *new_scope(struct root *root, const struct remote_scope *wanted, uint64_t hash)
{
    size_t credits = wanted->n * sizeof(struct credit), limits = wanted->n * sizeof *wanted->limits;
    struct scope *scope =
        malloc(sizeof *scope + credits + limits + wanted->name.n + wanted->key.n + 1);

    if (!scope)
        return NULL;
    memset(scope, 0, sizeof *scope);
    scope->root = root;
    scope->hash = hash;
    scope->n = wanted->n;
    scope->given = (struct tg_limit *)(void *)((char *)(scope + 1) + credits);
    char *text = (char *)(scope + 1) + credits + limits;
    scope->name = (struct slice){text, wanted->name.n};
    scope->key = (struct slice){text + wanted->name.n, wanted->key.n};
    if (wanted->name.n > 0)
        memcpy(text, wanted->name.at, wanted->name.n);
    if (wanted->key.n > 0)
        memcpy(text + wanted->name.n, wanted->key.at, wanted->key.n);
    return scope;
}

static enum tg_err make_scope(struct remote_blocks *blocks, struct root *root,
                              const struct remote_scope *wanted, uint64_t hash, tg_ms now,
                              struct scope **made)
{
    const struct remote_blocks_options *options = &blocks->options;
    struct tg_limit leased[TG_LIMITS_MAX];
    struct scope *scope;

    if (wanted->n < 1 || wanted->n > TG_LIMITS_MAX)
        return TG_ERR_INVALID;
    if (blocks->scope_table.n >= options->max_scopes)
        return TG_ERR_FULL;
    if (hash_table_reserve(&blocks->scope_table, blocks->scope_table.n + 1) != TG_OK ||
        !(scope = new_scope(root, wanted, hash)))
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < wanted->n; i++) {
        scope->given[i] = wanted->limits[i];
        credit_init(&scope->credits[i], &wanted->limits[i], options->block, options->life,
                    &leased[i], now);
    }
    enum tg_err err = encode_scope(scope, blocks->prefix, leased);
    if (err) {
        free_scope(scope);
        return err;
    }
    hash_table_insert(&blocks->scope_table, hash)->item = scope;
    LIST_INSERT_HEAD(&root->scopes, scope, of_root);
    *made = scope;
    return TG_OK;
}

/* ---- finding ---- */

static enum tg_err find_or_make(struct remote_blocks *blocks, struct slice name, uint64_t root_hash,
                                const struct remote_scope *wanted, tg_ms now, struct scope **found)
{
    uint64_t hash = remote_blocks_book_hash_of(wanted->key,
                                               remote_blocks_book_hash_of(wanted->name, root_hash));
    struct scope *scope = find_scope(blocks, name, wanted, hash);

    if (scope && same_limits(scope, wanted)) {
        scope->used_at = now;
        *found = scope;
        return TG_OK;
    }
    if (scope)
        retire(blocks, scope, now);
    struct root *root = find_root(blocks, name, root_hash);
    if (!root && !(root = make_root(blocks, name, root_hash, now)))
        return TG_ERR_MEMORY;
    enum tg_err err = make_scope(blocks, root, wanted, hash, now, found);
    if (!err)
        (*found)->used_at = now;
    return err;
}

enum tg_err book_find(struct remote_blocks *blocks, const struct remote_debit *debit, tg_ms now,
                      struct claim_view *view)
{
    uint64_t root_hash = remote_blocks_book_hash_of(debit->root, blocks->seed);

    if (!num_in_range(debit->cost) || debit->n_scopes < 1 || debit->n_scopes > TG_SCOPES_MAX)
        return TG_ERR_INVALID;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        enum tg_err err =
            find_or_make(blocks, debit->root, root_hash, &debit->scopes[i], now, &view->scopes[i]);
        if (err)
            return err;
    }
    view->n = debit->n_scopes;
    view->cost = debit->cost;
    view->charging = debit->charging;
    return TG_OK;
}

struct root *book_peek(const struct remote_blocks *blocks, const struct remote_debit *debit,
                       struct claim_view *view)
{
    uint64_t root_hash = remote_blocks_book_hash_of(debit->root, blocks->seed);
    struct root *root = NULL;

    if (debit->n_scopes < 1 || debit->n_scopes > TG_SCOPES_MAX)
        return NULL;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        const struct remote_scope *wanted = &debit->scopes[i];
        uint64_t hash = remote_blocks_book_hash_of(
            wanted->key, remote_blocks_book_hash_of(wanted->name, root_hash));
        view->scopes[i] = find_scope(blocks, debit->root, wanted, hash);
        if (view->scopes[i] && !same_limits(view->scopes[i], wanted))
            view->scopes[i] = NULL;
        if (view->scopes[i])
            root = view->scopes[i]->root;
    }
    view->n = debit->n_scopes;
    view->cost = debit->cost;
    view->charging = debit->charging;
    return root;
}

/* ---- forgetting ---- */

static bool is_empty(const struct scope *scope)
{
    for (size_t i = 0; i < scope->n; i++) {
        const struct credit *credit = &scope->credits[i];
        if (credit->units > 0 || credit->back > 0 || credit->debt > 0)
            return false;
    }
    return scope->pins == 0;
}

/* Frees scopes of a root that are of no use; says whether any of the others holds or owes
 * anything. */
static bool sweep_root(struct remote_blocks *blocks, struct root *root, tg_ms now)
{
    bool busy = root->flight || !TAILQ_EMPTY(&root->waiting) || root->returning;

    for (struct scope *scope = LIST_FIRST(&root->scopes), *next; scope; scope = next) {
        next = LIST_NEXT(scope, of_root);
        bool old = scope->retired || now - scope->used_at > FORGOTTEN_AFTER;
        for (size_t i = 0; i < scope->n; i++)
            credit_expire(&scope->credits[i], now);
        if (!is_empty(scope)) {
            busy = true;
        } else if (old && !root->flight) {
            assert(scope->pins == 0);
            LIST_REMOVE(scope, of_root);
            if (!scope->retired)
                book_remove(&blocks->scope_table, scope->hash, scope);
            free_scope(scope);
        }
    }
    return busy;
}

void book_sweep(struct remote_blocks *blocks, tg_ms now)
{
    if (now - blocks->swept_at < SWEEP_EVERY)
        return;
    blocks->swept_at = now;
    for (struct hash_slot *slot = hash_table_first(&blocks->root_table); slot;) {
        struct root *root = slot->item;
        bool busy = sweep_root(blocks, root, now);
        if (!busy)
            book_deactivate(root);
        if (busy || !LIST_EMPTY(&root->scopes)) {
            slot = hash_table_after(&blocks->root_table, slot);
            continue;
        }
        assert(!root->is_active && TAILQ_EMPTY(&root->waiting) && !root->flight);
        hash_table_remove(&blocks->root_table, slot);
        free(root);
        slot = hash_table_at_or_after(&blocks->root_table, slot);
    }
}

void book_fini(struct remote_blocks *blocks)
{
    struct hash_slot *slot = hash_table_first(&blocks->root_table);

    for (; slot; slot = hash_table_after(&blocks->root_table, slot)) {
        struct root *root = slot->item;
        for (struct scope *scope = LIST_FIRST(&root->scopes), *next; scope; scope = next) {
            next = LIST_NEXT(scope, of_root);
            free_scope(scope);
        }
        free(root->flight); /* one that was in doubt */
        free(root);
    }
    hash_table_fini(&blocks->root_table);
    hash_table_fini(&blocks->scope_table);
}
