/* remote_blocks_book.c - roots and scopes, found by what they are called.
 *
 * A call finds its scopes by three short hashes, one after the other, each the seed of the next,
 * and a look at the names: some 50 ns. What a scope is made of is compared, too: a reload may give
 * other limits to the same name. Then the old one gives back what it has, and is freed with the
 * last who points to it.
 */
#define XXH_INLINE_ALL
#include <stdlib.h>
#include <xxhash.h>

#include "lib/core/num.h"
#include "server/remote_store/remote_blocks_internal.h"

static const tg_ms FORGOTTEN_AFTER = 60000, SWEEP_EVERY = 10000;

enum { BUCKETS_FIRST = 256 };

/* ---- the tables ---- */

static uint64_t remote_blocks_book_hash_of(struct slice text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text.at, text.n, seed);
}

/* Twice as many buckets, once there are as many scopes or roots. Without memory the chains grow. */
static void remote_blocks_book_grow(struct remote_blocks *blocks)
{
    size_t most = blocks->stats.scopes > blocks->n_roots ? blocks->stats.scopes : blocks->n_roots;
    size_t n = blocks->n_buckets ? blocks->n_buckets * 2 : BUCKETS_FIRST;

    if (most < blocks->n_buckets)
        return;
    struct root **roots = calloc(n, sizeof(struct root *));
    struct scope **scopes = calloc(n, sizeof(struct scope *));
    if (!roots || !scopes) {
        free(roots);
        free(scopes);
        return;
    }
    for (size_t i = 0; i < blocks->n_buckets; i++) {
        for (struct root *root = blocks->root_buckets[i], *next; root; root = next) {
            next = root->next;
            root->next = roots[root->hash & (n - 1)];
            roots[root->hash & (n - 1)] = root;
        }
        for (struct scope *scope = blocks->scope_buckets[i], *next; scope; scope = next) {
            next = scope->next;
            scope->next = scopes[scope->hash & (n - 1)];
            scopes[scope->hash & (n - 1)] = scope;
        }
    }
    free(blocks->root_buckets);
    free(blocks->scope_buckets);
    blocks->root_buckets = roots;
    blocks->scope_buckets = scopes;
    blocks->n_buckets = n;
}

static struct scope **scope_bucket(const struct remote_blocks *blocks, uint64_t hash)
{
    return &blocks->scope_buckets[hash & (blocks->n_buckets - 1)];
}

static struct root **root_bucket(const struct remote_blocks *blocks, uint64_t hash)
{
    return &blocks->root_buckets[hash & (blocks->n_buckets - 1)];
}

/* ---- roots ---- */

static struct root *find_root(const struct remote_blocks *blocks, struct slice name, uint64_t hash)
{
    struct root *root = blocks->n_buckets ? *root_bucket(blocks, hash) : NULL;

    while (root && !(root->hash == hash && slice_equal(root->name, name)))
        root = root->next;
    return root;
}

static struct root *make_root(struct remote_blocks *blocks, struct slice name, uint64_t hash,
                              tg_ms now)
{
    struct root *root = malloc(sizeof *root + name.n + 1);

    if (!root)
        return NULL;
    char *text = (char *)(root + 1);
    *root = (struct root){.hash = hash, .paced_at = now, .name = {text, name.n}};
    if (name.n > 0)
        memcpy(text, name.at, name.n);
    root->next = *root_bucket(blocks, hash);
    *root_bucket(blocks, hash) = root;
    blocks->n_roots++;
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
    if (root->from_active)
        return;
    root->next_active = blocks->active;
    root->from_active = &blocks->active;
    if (blocks->active)
        blocks->active->from_active = &root->next_active;
    blocks->active = root;
}

void book_deactivate(struct root *root)
{
    if (!root->from_active)
        return;
    *root->from_active = root->next_active;
    if (root->next_active)
        root->next_active->from_active = root->from_active;
    root->from_active = NULL;
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
    struct scope *scope = blocks->n_buckets ? *scope_bucket(blocks, hash) : NULL;

    for (; scope; scope = scope->next)
        if (scope->hash == hash && slice_equal(scope->key, wanted->key) &&
            slice_equal(scope->name, wanted->name) && slice_equal(scope->root->name, root))
            return scope;
    return NULL;
}

static void free_scope(struct scope *scope)
{
    limits_codec_fini(&scope->words);
    free(scope);
}

/* Out of the table; it stays with its root until it has given back what it had. */
static void unfind(struct remote_blocks *blocks, struct scope *scope)
{
    struct scope **at = scope_bucket(blocks, scope->hash);

    while (*at != scope)
        at = &(*at)->next;
    *at = scope->next;
    blocks->stats.scopes--;
}

static void retire(struct remote_blocks *blocks, struct scope *scope, tg_ms now)
{
    unfind(blocks, scope);
    scope->retired = true;
    for (size_t i = 0; i < scope->n; i++)
        credit_return(&scope->credits[i], scope->credits[i].units, now);
    book_activate(blocks, scope->root);
}

static enum tg_err make_words(struct scope *scope, const char *prefix,
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
    if (blocks->stats.scopes >= options->max_scopes)
        return TG_ERR_FULL;
    if (!(scope = new_scope(root, wanted, hash)))
        return TG_ERR_MEMORY;
    for (size_t i = 0; i < wanted->n; i++) {
        scope->given[i] = wanted->limits[i];
        credit_init(&scope->credits[i], &wanted->limits[i], options->block, options->life,
                    &leased[i], now);
    }
    enum tg_err err = make_words(scope, blocks->prefix, leased);
    if (err) {
        free_scope(scope);
        return err;
    }
    scope->next = *scope_bucket(blocks, hash);
    *scope_bucket(blocks, hash) = scope;
    scope->next_of_root = root->scopes;
    root->scopes = scope;
    blocks->stats.scopes++;
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
    remote_blocks_book_grow(blocks);
    if (!blocks->n_buckets)
        return TG_ERR_MEMORY;
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

bool book_peek(const struct remote_blocks *blocks, const struct remote_debit *debit,
               struct claim_view *view)
{
    uint64_t root_hash = remote_blocks_book_hash_of(debit->root, blocks->seed);

    if (debit->n_scopes < 1 || debit->n_scopes > TG_SCOPES_MAX)
        return false;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        const struct remote_scope *wanted = &debit->scopes[i];
        uint64_t hash = remote_blocks_book_hash_of(
            wanted->key, remote_blocks_book_hash_of(wanted->name, root_hash));
        view->scopes[i] = find_scope(blocks, debit->root, wanted, hash);
        if (!view->scopes[i] || !same_limits(view->scopes[i], wanted))
            return false;
    }
    view->n = debit->n_scopes;
    view->cost = debit->cost;
    view->charging = debit->charging;
    return true;
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
    bool busy = root->flight || root->first || root->returning;

    for (struct scope **at = &root->scopes, *scope; (scope = *at) != NULL;) {
        bool old = scope->retired || now - scope->used_at > FORGOTTEN_AFTER;
        for (size_t i = 0; i < scope->n; i++)
            credit_expire(&scope->credits[i], now);
        if (!is_empty(scope)) {
            busy = true;
        } else if (old && !root->flight) {
            *at = scope->next_of_root;
            if (!scope->retired)
                unfind(blocks, scope);
            free_scope(scope);
            continue;
        }
        at = &scope->next_of_root;
    }
    return busy;
}

void book_sweep(struct remote_blocks *blocks, tg_ms now)
{
    if (now - blocks->swept_at < SWEEP_EVERY)
        return;
    blocks->swept_at = now;
    for (size_t i = 0; i < blocks->n_buckets; i++) {
        for (struct root **at = &blocks->root_buckets[i], *root; (root = *at) != NULL;) {
            bool busy = sweep_root(blocks, root, now);
            if (!busy)
                book_deactivate(root);
            if (busy || root->scopes) {
                at = &root->next;
                continue;
            }
            *at = root->next;
            blocks->n_roots--;
            free(root);
        }
    }
}

void book_fini(struct remote_blocks *blocks)
{
    for (size_t i = 0; i < blocks->n_buckets; i++) {
        for (struct root *root = blocks->root_buckets[i], *next; root; root = next) {
            for (struct scope *scope = root->scopes, *other; scope; scope = other) {
                other = scope->next_of_root;
                free_scope(scope);
            }
            next = root->next;
            free(root->flight); /* one that was in doubt */
            free(root);
        }
    }
    free(blocks->root_buckets);
    free(blocks->scope_buckets);
}
