/* scopes.c - what a call has to clear by the configuration. See scopes.h.
 *
 * A limit's state is kept under (set of limits, key). So what two calls share has to be one set: a
 * tenant's own limits are one set for its own calls and for those of its children, and the gate's
 * defaults, which only its own calls have, are another. A user's entry needs no tenant in its key,
 * because the set is that tenant's.
 *
 * Sets have names in a book, so that the next reading of the configuration finds those of this one
 * with what they have counted: "tenant\nlimits\nHASH\n0", "tenant\nkey\nci\nHASH\n0". All are made
 * at the start; a call picks from them, allocates nothing and takes no lock.
 */
#include "server/tenancy/scopes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/problem.h"
#include "lib/store/limit_set.h"

/* A set, what bounds the charges of calls under it, and whose it is in a message. */
struct scope_set {
    tg_limits id; /* 0: none */
    struct limit_bounds bounds;
    const char *kind; /* see struct tg_scope */
    char *suffix;     /* owned; null: none */
};

/* A set of a tenant, or of one of its keys, that applies to some of its calls. */
struct part {
    struct scope_set set;
    const struct config_names *models; /* null: all models */
    size_t line;                       /* its line in `limits`, or SCOPES_NO_LINE */
};

struct parts {
    struct part *list;
    size_t n;
};

struct tenant_scopes {
    struct parts parts; /* all but the users' and the keys', n_limits + 1 at most */
    struct parts *keys; /* [the number of the first key of a name]; null: none has limits */
    struct scope_set users;
    struct scope_set defaults;
};

struct scopes {
    const struct config *config;
    struct scope_set defaults; /* for a name that is no tenant's */
    struct tenant_scopes *tenants;
};

/* ---- sets ---- */

enum { SET_NAME_MAX = 1024 };

/* Limits on their way to be a set, and the set's name. */
struct gather {
    struct limit_book *book;
    struct tg_limit limits[TG_LIMITS_MAX];
    size_t n;
    char name[SET_NAME_MAX];
};

static enum tg_mode mode_of(enum config_mode mode)
{
    return mode == CONFIG_SHADOW ? TG_SHADOW : TG_ENFORCE;
}

/* `over` is the mode of what the limit belongs to. */
static enum tg_err gather(struct gather *gather, const struct config_limiter *from,
                          enum config_mode over, struct tg_problem *problem)
{
    struct tg_limit *limit = &gather->limits[gather->n];

    if (!from->present)
        return TG_OK;
    assert(gather->n < TG_LIMITS_MAX);
    memset(limit, 0, sizeof *limit); /* sets are compared as bytes */
    limit->axis = from->axis;
    limit->overdraft = from->overdraft;
    limit->mode = over == CONFIG_SHADOW ? TG_SHADOW : mode_of(from->mode);
    gather->n++;
    return tg_limiter_init(&limit->limiter, &from->limiter, problem);
}

/* Makes a set of what was gathered; 0 if that is no limit at all. */
static enum tg_err define(struct gather *gather, struct scope_set *set, struct tg_problem *problem)
{
    size_t n = gather->n;

    gather->n = 0;
    set->bounds = limit_bounds(gather->limits, n);
    return limit_book_want(gather->book, gather->name, strlen(gather->name), gather->limits, n,
                           &set->id, problem);
}

/* Names a set of a tenant, or of nobody's if that is null. No tenant's name has a newline in it, so
 * no two sets have one name. */
static void name_set(struct gather *gather, const struct config_tenant *tenant, const char *what)
{
    snprintf(gather->name, sizeof gather->name, "%s\n%s", tenant != NULL ? tenant->name : "", what);
}

static uint64_t scopes_hash_of(const struct config_names *patterns)
{
    uint64_t hash = patterns->n;

    for (size_t i = 0; i < patterns->n; i++)
        hash = XXH3_64bits_withSeed(patterns->names[i], strlen(patterns->names[i]), hash);
    return hash;
}

/* Names a line by whose it is and a hash of the models it is for; two lines for the same differ by
 * their order. */
static void name_line(struct gather *gather, const struct config_tenant *tenant,
                      const struct config_key *key, const struct config_limits *lines,
                      size_t number)
{
    uint64_t hash = scopes_hash_of(&lines[number].models);
    size_t alike = 0;

    for (size_t k = 0; k < number; k++)
        alike += scopes_hash_of(&lines[k].models) == hash;
    snprintf(gather->name, sizeof gather->name, "%s\n%s%s\n%016" PRIx64 "\n%zu", tenant->name,
             key != NULL ? "key\n" : "limits", key != NULL ? key->name : "", hash, alike);
}

static enum tg_err define_line(struct gather *to, const struct config_limits *line,
                               enum config_mode over, struct scope_set *set,
                               struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    for (size_t i = 0; i < line->n_limiters && !err; i++)
        err = gather(to, &line->limiters[i], over, problem);
    return err ? err : define(to, set, problem);
}

static enum tg_err define_defaults(struct gather *to, const struct config_gate *gate,
                                   const struct config_tenant *tenant, struct scope_set *set,
                                   struct tg_problem *problem)
{
    enum config_mode over = tenant != NULL ? tenant->mode : CONFIG_ENFORCE;
    enum tg_err err = TG_OK;

    name_set(to, tenant, "defaults");
    if (tenant == NULL || !tenant->rate.present)
        err = gather(to, &gate->rate, over, problem);
    if (!err && (tenant == NULL || !tenant->cost.present))
        err = gather(to, &gate->cost, over, problem);
    return err ? err : define(to, set, problem);
}

/* ---- whose they are ---- */

/* " of tenant team-a for demo-small", either of both; of several patterns the first: the file has
 * the rest. Nothing where there is neither. */
static bool set_suffix(struct scope_set *set, const struct config_tenant *of,
                       const struct config_names *models)
{
    const bool any = models != NULL && models->n > 0;
    const char *tenant = of != NULL ? of->name : "", *model = any ? models->names[0] : "";
    size_t bytes = sizeof " of tenant  for models like " + strlen(tenant) + strlen(model);

    if (of == NULL && !any)
        return true;
    set->suffix = malloc(bytes);
    if (set->suffix != NULL)
        snprintf(set->suffix, bytes, "%s%s%s%s", of != NULL ? " of tenant " : "", tenant,
                 !any            ? ""
                 : models->n > 1 ? " for models like "
                                 : " for ",
                 model);
    return set->suffix != NULL;
}

/* ---- tenants ---- */

static void add_part(struct parts *parts, struct scope_set set, const struct config_names *models,
                     size_t line)
{
    if (set.id != 0)
        parts->list[parts->n++] = (struct part){set, models, line};
}

/* The lines of a tenant; or those of one of its keys, if that is not null. */
static enum tg_err add_lines(struct gather *gather, const struct config_tenant *tenant,
                             const struct config_key *key, struct parts *parts,
                             struct tg_problem *problem)
{
    const struct config_limits *lines = key != NULL ? key->own.limits : tenant->limits;
    size_t n = key != NULL ? key->own.n_limits : tenant->n_limits;
    enum tg_err err = TG_OK;

    for (size_t i = 0; i < n && !err; i++) {
        const struct config_limits *line = &lines[i];
        struct scope_set set = {.kind = key != NULL ? "key" : "tenant"};
        name_line(gather, tenant, key, lines, i);
        err = define_line(gather, line, tenant->mode, &set, problem);
        if (!err && set.id != 0 && !set_suffix(&set, key != NULL ? tenant : NULL, &line->models))
            err = TG_ERR_MEMORY;
        if (!err)
            add_part(parts, set, line->models.n > 0 ? &line->models : NULL, i);
    }
    return err;
}

/* Keys of one name have what the first of them has. */
static enum tg_err add_keys(struct gather *gather, const struct config_tenant *tenant,
                            struct tenant_scopes *to, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    for (size_t k = 0; k < tenant->n_keys && !err; k++) {
        const struct config_key *key = &tenant->keys[k];
        if (key->first != k || key->own.n_limits == 0)
            continue;
        if (to->keys == NULL)
            to->keys = calloc(tenant->n_keys, sizeof to->keys[0]);
        if (to->keys != NULL)
            to->keys[k].list = calloc(key->own.n_limits, sizeof to->keys[k].list[0]);
        if (to->keys == NULL || to->keys[k].list == NULL)
            return TG_ERR_MEMORY;
        err = add_lines(gather, tenant, key, &to->keys[k], problem);
    }
    return err;
}

static enum tg_err build_tenant(struct scopes *scopes, struct gather *limits, size_t number,
                                struct tg_problem *problem)
{
    const struct config_tenant *from = &scopes->config->tenants[number];
    struct tenant_scopes *to = &scopes->tenants[number];
    struct scope_set set = {.kind = "tenant"};

    to->parts.list = calloc(from->n_limits + 1, sizeof to->parts.list[0]);
    if (to->parts.list == NULL)
        return TG_ERR_MEMORY;
    if (strlen(from->name) > SET_NAME_MAX / 2)
        return problem_say(problem, TG_ERR_INVALID,
                           "the name has %zu bytes; at most %d are allowed", strlen(from->name),
                           SET_NAME_MAX / 2);
    name_set(limits, from, "own");
    enum tg_err err = gather(limits, &from->rate, from->mode, problem);
    if (!err)
        err = gather(limits, &from->cost, from->mode, problem);
    if (!err)
        err = define(limits, &set, problem);
    add_part(&to->parts, set, NULL, SCOPES_NO_LINE);
    if (!err)
        err = add_lines(limits, from, NULL, &to->parts, problem);
    if (!err)
        err = add_keys(limits, from, to, problem);
    name_set(limits, from, "users");
    to->users.kind = "user";
    to->defaults.kind = "tenant";
    if (!err && !set_suffix(&to->users, from, NULL))
        err = TG_ERR_MEMORY;
    if (!err && from->users.present)
        err = define_line(limits, &from->users.each, from->mode, &to->users, problem);
    if (!err)
        err = define_defaults(limits, &scopes->config->gate, from, &to->defaults, problem);
    return err;
}

/* ---- one call ---- */

static void add_scope(struct tg_scope *room, size_t *n, struct scope_set set, const void *key,
                      size_t key_bytes)
{
    if (set.id == 0)
        return;
    if (*n < TG_SCOPES_MAX)
        room[*n] = (struct tg_scope){.limits = set.id,
                                     .key = key,
                                     .key_bytes = key_bytes,
                                     .ceiling = set.bounds.ceiling,
                                     .overdraft = set.bounds.overdraft,
                                     .kind = set.kind,
                                     .suffix = set.suffix};
    ++*n;
}

static const struct config_tenant *parent_of(const struct config *config,
                                             const struct config_tenant *tenant)
{
    assert(tenant->parent == CONFIG_NO_PARENT ||
           config->tenants[tenant->parent].level + 1 == tenant->level); /* so the way up ends */
    return tenant->parent != CONFIG_NO_PARENT ? &config->tenants[tenant->parent] : NULL;
}

static void add_parts(const struct parts *parts, const char *name, const struct scopes_who *who,
                      struct tg_scope *room, size_t *n)
{
    const char *model = who->model != NULL ? who->model : "";

    for (size_t i = 0; i < parts->n; i++) {
        const struct part *part = &parts->list[i];
        if (part->models == NULL || config_patterns_match(part->models, model, who->model_bytes))
            add_scope(room, n, part->set, name, strlen(name));
    }
}

/* What the key of a call has; null: nothing. */
static const struct parts *parts_of_key(const struct scopes *scopes,
                                        const struct config_tenant *tenant,
                                        const struct scopes_who *who)
{
    const struct tenant_scopes *own = &scopes->tenants[tenant - scopes->config->tenants];

    if (own->keys == NULL || config_key_name(who->key) == NULL)
        return NULL;
    assert(who->key >= tenant->keys && who->key < tenant->keys + tenant->n_keys);
    return &own->keys[who->key->first];
}

/* Adds what one tenant has for a call of its own or of a child. */
static void add_tenant(const struct scopes *scopes, const struct config_tenant *tenant,
                       const struct scopes_who *who, struct tg_scope *room, size_t *n)
{
    const struct tenant_scopes *own = &scopes->tenants[tenant - scopes->config->tenants];

    assert(own->parts.n <= tenant->n_limits + 1);
    add_parts(&own->parts, tenant->name, who, room, n);
    if (who->user != NULL)
        add_scope(room, n, own->users, who->user, who->user_bytes);
}

/* How many there are; `room` gets as many as it holds. */
static size_t collect(const struct scopes *scopes, const struct config_tenant *tenant,
                      const struct scopes_who *who, struct tg_scope *room)
{
    size_t n = 0;

    if (tenant == NULL) {
        add_scope(room, &n, scopes->defaults, who->tenant, who->tenant_bytes);
        return n;
    }
    add_scope(room, &n, scopes->tenants[tenant - scopes->config->tenants].defaults, tenant->name,
              strlen(tenant->name));
    const struct parts *of_key = parts_of_key(scopes, tenant, who);
    if (of_key != NULL)
        add_parts(of_key, who->key->name, who, room, &n);
    for (; tenant != NULL; tenant = parent_of(scopes->config, tenant))
        add_tenant(scopes, tenant, who, room, &n);
    return n;
}

/* A tenant with `concurrency` is its own peer; one without it counts as the nearest parent that has
 * it. One in shadow yields to a parent that is not: a call has one peer, and one that refuses
 * matters more than one that only counts. */
static const struct config_tenant *peer_of(const struct config *config,
                                           const struct config_tenant *tenant)
{
    const struct config_tenant *in_shadow = NULL;

    for (; tenant != NULL; tenant = parent_of(config, tenant)) {
        if (tenant->concurrency > 0 && tenant->mode != CONFIG_SHADOW)
            return tenant;
        if (tenant->concurrency > 0 && in_shadow == NULL)
            in_shadow = tenant;
    }
    return in_shadow;
}

static enum tg_err too_many(const struct config_tenant *tenant, const struct scopes_who *who,
                            size_t n, struct tg_problem *problem)
{
    return problem_say(
        problem, TG_ERR_INVALID,
        "%s:%zu: a call of tenant %s for model \"%.*s\" has to clear %zu sets of limits, "
        "its parents' included; %d are possible",
        tenant->file, tenant->line, tenant->name,
        who->model_bytes < 64 ? (int)who->model_bytes : 64, who->model != NULL ? who->model : "", n,
        TG_SCOPES_MAX);
}

static void fill_tenant(const struct config *config, const struct config_tenant *tenant,
                        struct tg_call *call)
{
    const struct config_tenant *root = tenant, *parent;
    const struct config_tenant *peer = peer_of(config, tenant);

    while ((parent = parent_of(config, root)) != NULL)
        root = parent;
    call->debit.root = root->name;
    call->debit.root_bytes = strlen(root->name);
    call->tenant = tenant->name;
    call->tenant_bytes = strlen(tenant->name);
    call->weight = tenant->weight;
    call->value = tenant->value;
    /* Lower is a larger number. */
    if ((int)call->priority < (int)tenant->priority)
        call->priority = (enum tg_priority)tenant->priority;
    if (peer != NULL) {
        call->peer = peer->name;
        call->peer_bytes = strlen(peer->name);
        call->peer_limit = peer->concurrency;
        call->peer_mode = mode_of(peer->mode);
    }
}

/* Calls of one tenant for one model, under whatever name, use alike. */
static void fill_model(const struct config *config, const struct scopes_who *who,
                       struct tg_call *call)
{
    size_t model = config_model(config, who->model, who->model_bytes);

    call->like = who->model;
    call->like_bytes = who->model_bytes;
    if (model == CONFIG_NONE)
        return;
    call->like = config->models[model].name;
    call->like_bytes = strlen(config->models[model].name);
    call->factor = config->models[model].overbook;
}

enum tg_err scopes_fill(const struct scopes *scopes, const struct scopes_who *who,
                        struct tg_scope room[TG_SCOPES_MAX], struct tg_call *call,
                        struct tg_problem *problem)
{
    const struct config *config = scopes->config;
    const struct config_tenant *tenant = config_tenant(config, who->tenant, who->tenant_bytes);
    size_t n = collect(scopes, tenant, who, room);

    assert(tenant != NULL || n <= 1);
    if (n > TG_SCOPES_MAX)
        return too_many(tenant, who, n, problem);
    call->debit.scopes = room;
    call->debit.n_scopes = n;
    call->debit.root = NULL;
    call->debit.root_bytes = 0;
    call->debit.charging =
        config->gate.charging == CONFIG_PER_AXIS ? TG_CHARGE_PER_AXIS : TG_CHARGE_ATOMIC;
    call->tenant = who->tenant;
    call->tenant_bytes = who->tenant_bytes;
    call->unit = "tokens";
    call->gate_kind = "the gateway";
    call->weight = 1;
    call->value = 1;
    call->priority = who->priority;
    call->peer = who->peer;
    call->peer_bytes = who->peer_bytes;
    call->peer_limit = 0;
    if (who->model_bytes > 0)
        fill_model(config, who, call);
    if (tenant != NULL)
        fill_tenant(config, tenant, call);
    return TG_OK;
}

/* ---- all calls ---- */

static void list_scope(struct tg_scope *room, size_t *n, size_t max, struct scope_set set,
                       const void *key, size_t key_bytes)
{
    struct tg_scope one;
    size_t found = 0;

    add_scope(&one, &found, set, key, key_bytes);
    if (found > 0 && *n < max)
        room[*n] = one;
    *n += found;
}

size_t scopes_list(const struct scopes *scopes, const struct scopes_who *who, struct tg_scope *room,
                   size_t max)
{
    const struct config *config = scopes->config;
    const struct config_tenant *tenant = config_tenant(config, who->tenant, who->tenant_bytes);
    size_t n = 0;

    if (tenant == NULL) {
        list_scope(room, &n, max, scopes->defaults, who->tenant, who->tenant_bytes);
        return n;
    }
    list_scope(room, &n, max, scopes->tenants[tenant - config->tenants].defaults, tenant->name,
               strlen(tenant->name));
    const struct parts *of_key = parts_of_key(scopes, tenant, who);
    for (size_t i = 0; of_key != NULL && i < of_key->n; i++)
        list_scope(room, &n, max, of_key->list[i].set, who->key->name, strlen(who->key->name));
    for (; tenant != NULL; tenant = parent_of(config, tenant)) {
        const struct tenant_scopes *own = &scopes->tenants[tenant - config->tenants];
        for (size_t i = 0; i < own->parts.n; i++)
            list_scope(room, &n, max, own->parts.list[i].set, tenant->name, strlen(tenant->name));
        if (who->user != NULL)
            list_scope(room, &n, max, own->users, who->user, who->user_bytes);
    }
    return n;
}

/* ---- where from ---- */

static const struct part *find_part(const struct parts *parts, tg_limits set)
{
    size_t i = 0;

    while (i < parts->n && parts->list[i].set.id != set)
        i++;
    return i < parts->n ? &parts->list[i] : NULL;
}

static bool origin_in(const struct config_tenant *tenant, const struct tenant_scopes *own,
                      tg_limits set, struct scopes_origin *origin)
{
    const struct part *part;

    origin->line = SCOPES_NO_LINE;
    origin->key = NULL;
    origin->what = set == own->users.id ? SCOPES_USERS : SCOPES_DEFAULTS;
    if (set == own->users.id || set == own->defaults.id)
        return true;
    if ((part = find_part(&own->parts, set)) != NULL) {
        origin->line = part->line;
        origin->what = origin->line == SCOPES_NO_LINE ? SCOPES_OWN : SCOPES_LINE;
        return true;
    }
    for (size_t k = 0; own->keys != NULL && k < tenant->n_keys; k++)
        if ((part = find_part(&own->keys[k], set)) != NULL) {
            origin->line = part->line;
            origin->what = SCOPES_KEY;
            origin->key = &tenant->keys[k];
            return true;
        }
    return false;
}

bool scopes_origin(const struct scopes *scopes, const struct config_tenant *tenant, tg_limits set,
                   struct scopes_origin *origin)
{
    for (; tenant != NULL && set != 0; tenant = parent_of(scopes->config, tenant))
        if (origin_in(tenant, &scopes->tenants[tenant - scopes->config->tenants], set, origin)) {
            origin->tenant = tenant;
            return true;
        }
    return false;
}

/* ---- the whole ---- */

/* A limiter's problem does not know whose limiter it is. */
static void say_where(const struct config_tenant *tenant, struct tg_problem *problem)
{
    struct tg_problem inner;

    if (problem == NULL)
        return;
    inner = *problem;
    problem_fail(problem, "%s:%zu: tenant %s: %.150s", tenant->file, tenant->line, tenant->name,
                 inner.text);
}

static enum tg_err build(struct scopes *scopes, struct limit_book *book, struct tg_problem *problem)
{
    const struct config *config = scopes->config;
    struct gather limits = {.book = book};
    scopes->defaults.kind = "tenant";
    enum tg_err err = define_defaults(&limits, &config->gate, NULL, &scopes->defaults, problem);

    for (size_t i = 0; i < config->n_tenants && !err; i++) {
        err = build_tenant(scopes, &limits, i, problem);
        if (err)
            say_where(&config->tenants[i], problem);
    }
    return err;
}

enum tg_err scopes_new(const struct config *config, struct limit_book *book, struct scopes **scopes,
                       struct tg_problem *problem)
{
    struct scopes *made = calloc(1, sizeof *made);
    enum tg_err err = TG_ERR_MEMORY;

    problem_fail(problem, "%s", tg_strerror(TG_ERR_MEMORY));
    if (made == NULL)
        return err;
    made->config = config;
    made->tenants = calloc(config->n_tenants + 1, sizeof made->tenants[0]);
    if (made->tenants != NULL)
        err = build(made, book, problem);
    if (err) {
        limit_book_forget(book);
        scopes_free(made);
    }
    if (!err)
        *scopes = made;
    return err;
}

static void free_parts(struct parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        free(parts->list[i].set.suffix);
    free(parts->list);
}

void scopes_free(struct scopes *scopes)
{
    if (scopes == NULL)
        return;
    for (size_t i = 0; scopes->tenants != NULL && i < scopes->config->n_tenants; i++) {
        struct tenant_scopes *tenant = &scopes->tenants[i];
        for (size_t k = 0; tenant->keys != NULL && k < scopes->config->tenants[i].n_keys; k++)
            free_parts(&tenant->keys[k]);
        free_parts(&tenant->parts);
        free(tenant->users.suffix);
        free(tenant->keys);
    }
    free(scopes->tenants);
    free(scopes);
}

/* ---- the gate ---- */

void scopes_gate_config(const struct config_gate *from, struct tg_gate_config *to)
{
    const struct config_concurrency *concurrency = &from->concurrency;

    tg_gate_config_init(to);
    to->lease_ttl = from->lease_ttl;
    to->policy_mode = mode_of(from->policy.mode);
    if (from->memory.present) {
        to->memory.on = true;
        to->memory.mode = mode_of(from->memory.mode);
        to->memory.pressure = from->memory.pressure;
        to->memory.critical = from->memory.critical;
        to->memory.limit = from->memory.limit;
    }
    if (from->peers.present) {
        to->peers.on = true;
        to->peers.mode = mode_of(from->peers.mode);
        to->peers.limit = from->peers.limit;
        to->peers.max_peers = from->peers.max_peers;
    }
    if (concurrency->present) {
        to->concurrency.on = true;
        to->concurrency.mode = mode_of(concurrency->mode);
        to->concurrency.law = concurrency->law;
        to->concurrency.queue_size = concurrency->queue.size;
        for (int p = 0; p < TG_PRIORITY_COUNT; p++)
            if (concurrency->queue.wait[p] != CONFIG_WAIT_ABSENT)
                to->concurrency.wait[p] = concurrency->queue.wait[p];
        to->concurrency.share[TG_PRIORITY_NORMAL] = concurrency->queue.shares[0];
        to->concurrency.share[TG_PRIORITY_LOW] = concurrency->queue.shares[1];
        to->concurrency.low_ratio = concurrency->low_priority_shed_ratio;
    }
}
