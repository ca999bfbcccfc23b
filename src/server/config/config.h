/* config.h - a configuration file, read: what it says, in plain structs.
 *
 *     struct config config;
 *     struct config_problems problems;
 *
 *     enum config_result result = config_load("tollgate.yaml", &config, &problems);
 *     if (result != CONFIG_READ)
 *         for (size_t i = 0; i < problems.n; i++)
 *             ... problems.list[i]
 *     ...
 *     config_free(&config);
 *     config_problems_free(&problems);
 *
 * Every section of the file is checked; those that nobody interprets yet are checked for their
 * keys, types, ranges and references. docs/config.md lists every key. A struct config is written
 * once, by config_load(), and may then be read by any number of threads. It has to be freed: that
 * wipes the secrets in it.
 *
 * The room: this header and config_routes.h are what a configuration says, config_find.c looks
 * things up in it, and everything else reads it: config_reader.h draws that.
 */
#ifndef TG_CONFIG_CONFIG_H
#define TG_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "server/dialect/field_rules.h"
#include "tollgate.h"

/* ---- Problems ---------------------------------------------------------------------------------
 *
 * All of them, not the first alone, in the order of the files and their lines. */

struct config_problem {
    bool warning; /* `check` accepts it; otherwise it is an error */
    bool missing; /* a warning about a file or variable that is not there: who runs with this
                     configuration, rather than check it, should not accept it */
    bool unread;  /* a missing variable that leaves a value of `gate` or `tenants` at its default:
                     `replay` should not accept it either */
    const char *file;
    size_t line, column; /* from 1; 0: the file as a whole */
    const char *text;    /* "what is wrong; what is allowed" */
    size_t number;       /* private: the file's, in the order they were read */
};

struct config_problems {
    struct config_problem *list;
    size_t n;
    size_t errors, warnings; /* errors + warnings == n, unless there were too many to keep */
    size_t unread;           /* warnings with `unread` */
    struct arena *arena;
};

void config_problems_free(struct config_problems *problems);

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Strings of the configuration live as long as it does. A name that was not given is null. */

enum config_mode {
    CONFIG_ENFORCE,
    CONFIG_SHADOW, /* decides and counts, refuses nothing */
};

enum config_charging {
    CONFIG_ATOMIC,
    CONFIG_PER_AXIS,
};

/* Also the index of queue.wait. */
enum config_priority {
    CONFIG_HIGH,
    CONFIG_NORMAL,
    CONFIG_LOW,
    CONFIG_PRIORITIES,
};

enum config_period {
    CONFIG_DAY,
    CONFIG_WEEK,
    CONFIG_MONTH,
    CONFIG_TOTAL,
};

/* `rate` or `cost` of the gate or a tenant; good for tg_limiter_init(). */
struct config_limiter {
    bool present;
    enum tg_axis axis;
    struct tg_limiter_config limiter;
    enum config_mode mode;
    int64_t overdraft; /* see struct tg_limit */
};

/* Names, or patterns for config_patterns_match(). */
struct config_names {
    const char **names;
    size_t n;
};

struct config_pair {
    const char *name, *value;
};

struct config_pairs {
    struct config_pair *list;
    size_t n;
};

/* rpm, rph, rpd, tpm, tph, tpd: at most one each. */
#define CONFIG_LIMITS_MAX 6

/* One line of a tenant's `limits`, or what each of its users gets. */
struct config_limits {
    struct config_names models;                        /* patterns; none: any model */
    struct config_limiter limiters[CONFIG_LIMITS_MAX]; /* each with its axis, all present */
    size_t n_limiters;
    int64_t overdraft;     /* for limits of tokens; 0: their default; negative: none */
    enum config_mode mode; /* the same as that of each limiter */
};

enum config_reserve {
    CONFIG_RESERVE_BOUND,    /* the most that a call can cost */
    CONFIG_RESERVE_EXPECTED, /* what calls like it cost */
};

struct config_budget {
    int64_t micro_usd;
    enum config_period per;
    enum config_reserve reserve;
    const char *tz; /* "UTC" by default */
    enum config_mode mode;
    int64_t topped_up; /* how much of micro_usd is by top-ups */
};

/* ---- The gate -------------------------------------------------------------------------------- */

/* A wait that is not given: TG_WAIT_AUTO in serve, elsewhere the library's default. */
#define CONFIG_WAIT_ABSENT ((tg_ms)-2)

struct config_concurrency {
    bool present; /* the stage is on */
    enum config_mode mode;
    struct tg_law_config law; /* good for tg_law_config_check() */
    struct {
        int64_t size;                  /* calls of each class that may wait; 0: nobody waits */
        tg_ms wait[CONFIG_PRIORITIES]; /* at most, by class; TG_WAIT_AUTO, CONFIG_WAIT_ABSENT */
        double shares[2];              /* the shares of normal and of low */
    } queue;
    double low_priority_shed_ratio; /* share of the limit that low may use; 1: all of it */
    bool divide;                    /* the limit is for all nodes together: each has its share */
    bool assumed;                   /* by config_serve_defaults(): the section is absent */
};

/* Whether the law moves its limit by what it learns from calls. */
static inline bool config_law_learns(enum tg_law law)
{
    return law != TG_LAW_NONE && law != TG_LAW_FIXED;
}

struct config_peers {
    bool present;
    enum config_mode mode;
    int64_t limit;
    int64_t max_peers;
};

struct config_memory {
    bool present;
    enum config_mode mode;
    double pressure, critical, limit; /* 0 < pressure <= critical <= limit <= 1 */
    tg_ms poll;
};

enum config_policy_kind {
    CONFIG_NO_POLICY,
    CONFIG_BID_PRICE,
};

/* A kind of call that is expected. */
struct config_type {
    double cost, value, weight;
    bool has_hold;
    tg_ms hold;
};

/* The policy's keys. What is not given is 0, which is no budget. */
struct config_policy {
    enum config_policy_kind kind;
    enum config_mode mode;
    int prices; /* enum tg_prices */
    bool has_duals;
    struct tg_duals duals;
    struct {
        bool present;
        int64_t arrivals;
        struct config_type *types;
        size_t n_types;
        double rate_budget, cost_budget;
        tg_ms conc_budget;
    } workload;
    int64_t sample_window;
    struct {
        tg_ms window;
        double rate_budget, cost_budget;
        tg_ms conc_budget;
        int replenish; /* 1: steady */
        bool guard;
    } online;

    struct tg_bid_config bid; /* bid-price: the same, good for tg_bid_new() */
};

struct config_gate {
    enum config_charging charging;
    tg_ms lease_ttl;
    struct config_concurrency concurrency; /* its defaults are set even where it is absent */
    struct config_peers peers;
    struct config_memory memory;
    struct config_limiter rate, cost;
    struct config_policy policy;
};

/* ---- Tenants --------------------------------------------------------------------------------- */

#define CONFIG_NO_PARENT SIZE_MAX
#define CONFIG_CATALOGUE_DAYS 60 /* a catalogue that was checked longer ago is warned of */
#define CONFIG_LEVELS_MAX 4      /* a tenant and its parents */

#define CONFIG_NEVER TG_NUMBER_MAX

#define CONFIG_TAGS_MAX 16       /* tags that one key may have */
#define CONFIG_TAG_BYTES_MAX 128 /* bytes that a name or a value may have */

/* What a virtual key has of its own, below its tenant: it narrows, and never widens. */
struct config_own {
    struct config_limits *limits;
    size_t n_limits;
    struct config_budget *budgets;
    size_t n_budgets;
    struct config_names models, endpoints; /* patterns; none: as its tenant */
    struct config_pairs tags;              /* by name, in order */
    const char *tag_text;                  /* "cost_centre=4711\nteam=b"; null: none */
    bool hard_budget, bound_budget; /* the tenant's fields of that name, for its own budgets */
};

/* A virtual key. Several of one name are one key with several secrets: they have the same of their
 * own, and one state. */
struct config_key {
    const char *name; /* null: none */
    uint8_t sha256[32];
    tg_ms not_after; /* CONFIG_NEVER: no end */
    struct config_own own;
    size_t first; /* the number of the first key of its tenant that has its name */
    bool extra;   /* an extra, and not in a file */
    bool blocked; /* by an override: not_after is over then */
    bool token;   /* stands for a token, which is no key of the tenant's */
};

/* The name under which what a key uses is counted; null: nothing is. */
static inline const char *config_key_name(const struct config_key *key)
{
    return key != NULL && !key->token ? key->name : NULL;
}

struct config_users {
    bool present;
    bool required;      /* a call that does not name its user is refused */
    const char *header; /* where the user's name comes from: the name of a header, lower case */
    int64_t max;        /* users that are distinguished */
    struct config_limits each;
    struct config_budget *budgets; /* what each user has */
    size_t n_budgets;
};

struct config_tenant {
    const char *name;
    size_t parent;                 /* index in config.tenants, or CONFIG_NO_PARENT */
    size_t level;                  /* 0 without a parent, below CONFIG_LEVELS_MAX */
    enum config_priority priority; /* the highest it may ask for; default normal */
    double weight;                 /* in the queue; above 0; default 1 */
    double value;                  /* what a call is worth; default 1 */
    int64_t concurrency;           /* in flight at once; 0: no such limit of its own */
    struct config_limiter rate, cost;
    struct config_limits *limits; /* further ones: all of them apply */
    size_t n_limits;
    struct config_users users;
    struct config_names models;    /* patterns; none: all */
    struct config_names endpoints; /* patterns of paths that are passed through; none: none */
    struct config_key *keys;
    size_t n_keys;
    struct config_budget *budgets;
    size_t n_budgets;
    double allow_cheaper;  /* below this share of its budget, a cheaper model may serve; 0: never */
    enum config_mode mode; /* shadow: no limit of this tenant refuses */
    struct field_rules rules; /* for fields and headers of its calls; its parents' hold, too */
    bool hard_budget;         /* a budget may refuse its calls: its own, a parent's, everyone's */
    bool bound_budget;        /* one of those says `reserve: bound` */
    bool blocked;             /* by an override: all its keys are refused */
    bool extra;               /* an extra, and not in a file */
    const char *file;         /* where it is written; the name of an extra */
    size_t line, column;
};

/* ---- What changes prices --------------------------------------------------------------------- */

#define CONFIG_TIERS 3 /* fields: service_tier, speed, inference_geo */
#define CONFIG_BETAS 2 /* headers: anthropic-beta, openai-beta */

/* A field or header, and the values of it that cost what none does. */
struct config_plain {
    size_t field;   /* its number in the watch */
    uint64_t plain; /* bits of its values */
};

/* ---- Where calls go -------------------------------------------------------------------------- */

#include "server/config/config_routes.h"

/* ---- The ledger ------------------------------------------------------------------------------ */

enum config_failure {
    CONFIG_FAIL_OPEN, /* calls continue, and what is not recorded is counted */
    CONFIG_FAIL_CLOSED,
};

struct config_ledger {
    bool present; /* its defaults are set even where it is absent */
    /* Relative to where the program runs; or ":memory:"; null: a variable in it is not set, which
     * has been warned about. */
    const char *path;
    enum config_failure failure;
    tg_ms detail;       /* how long single calls are kept; 0: not at all */
    const char *export; /* the folder for days that are over; null: they are not written */
};

/* ---- Objects at providers -------------------------------------------------------------------- */

/* In the order of the words in the schema. */
enum config_objects { CONFIG_OBJECTS_AUTO, CONFIG_OBJECTS_REFUSE, CONFIG_OBJECTS_ALLOW };

/* ---- The store ------------------------------------------------------------------------------- */

/* In the order of the words in the schema. */
enum config_away { CONFIG_AWAY_LOCAL, CONFIG_AWAY_OPEN, CONFIG_AWAY_CLOSED };

struct config_store {
    const char *url; /* "memory", or where Redis is; may have a password: not for any message */
    const char *prefix;
    tg_ms timeout; /* for one request to the store */
    const char *ca, *cert, *key;
    enum config_away limits, budget; /* how to decide while it is away */
    bool two_tier;
    tg_ms block; /* size of the first block, as a span of the limit's rate */
};

/* Whether several gateways share what is counted. */
static inline bool config_store_is_remote(const struct config_store *store)
{
    return strcmp(store->url, "memory") != 0;
}

/* ---- Envoy's rate limit service ---------------------------------------------------------------
 * */

struct config_envoy {
    bool present;
    const char *path;      /* a file, or a folder of them, resolved */
    enum config_mode mode; /* shadow: nothing is refused, whatever the rules say */
    int auth;              /* who may ask: 0 everyone, 1 callers with a token */
    bool merge_domains;    /* several files may have rules of one domain */
    bool metadata;         /* answers say what was asked, and which quotas are used up */
    bool headers;          /* for clients of Envoy; their names: */
    const char *limit_header, *remaining_header, *reset_header;
    const struct envoy_rules *rules; /* null: none have been read */
};

/* ---- Requests that a proxy holds: Envoy's external authorization, forward auth - */

enum config_authz_auth { CONFIG_AUTHZ_ANYBODY, CONFIG_AUTHZ_CALLERS };

enum config_authz_by { CONFIG_AUTHZ_BY_KEY, CONFIG_AUTHZ_BY_ADDRESS, CONFIG_AUTHZ_BY_HEADER };

struct config_authz {
    bool present;
    int auth;     /* enum config_authz_auth: who may ask */
    int known_by; /* enum config_authz_by */
    const char *tenant_header, *user_header, *model_header; /* null: none */
    int64_t cost;               /* units of a request on the cost axis */
    struct config_caller entry; /* private: in whose name it asks */
};

/* ---- Tenants that are known by a signed token - */

enum { CONFIG_RS256 = 0, CONFIG_ES256 = 6 }; /* among the words of the schema */

struct config_callers_jwt {
    bool present;
    const char *issuer, *audience;
    struct config_url jwks;
    const char *tenant, *user; /* names of claims; user null: tokens name none */
    unsigned algorithms;       /* bits, in the order of the words */
    tg_ms leeway, refresh, stale;
    const char *ca;
};

/* ---- What was read --------------------------------------------------------------------------- */

enum config_source_kind {
    CONFIG_SOURCE_FILE,        /* a file of the configuration itself */
    CONFIG_SOURCE_SECRET,      /* file:PATH */
    CONFIG_SOURCE_CERTIFICATE, /* a certificate, its key, or those that are trusted */
    CONFIG_SOURCE_RULES,       /* rules of Envoy's rate limit service */
};

/* A file that the configuration was made of, or names. */
struct config_source {
    enum config_source_kind kind;
    const char *path; /* resolved */
    struct {
        int64_t mtime_ns, bytes;
        uint64_t device, inode;
    } stamp; /* what stat() said before it was read; all 0: it was not there */
};

/* Whether the file is another one by now, or has come, or gone. */
bool config_source_changed(const struct config_source *source);

/* ---- The whole ------------------------------------------------------------------------------- */

#define CONFIG_HASH_HEX 64

struct config {
    /* SHA-256 of all files in the order they were read, one after the other, and of the extras:
     * what sha256sum says of a configuration of one file. Neither secrets that stand elsewhere nor
     * the values of variables are in it. */
    char hash[CONFIG_HASH_HEX + 1];
    struct config_source *sources; /* files of the configuration first, in the order of reading; one
                                      that is named twice may be there twice */
    size_t n_sources;
    int64_t version;
    struct config_listen listen;
    int64_t workers; /* 0: one for each core */
    tg_ms drain;     /* how long calls may continue once the process is told to end */
    struct config_store store;
    struct config_ledger ledger;
    struct config_server_limits limits;
    struct config_secret admin_token;
    struct config_caller *callers;
    size_t n_callers;
    struct config_callers_jwt callers_jwt;
    struct config_range *trusted; /* whose statements about tenants and users are believed */
    size_t n_trusted;
    enum config_log_level log_level;
    bool log_json;          /* otherwise text */
    struct config_url otlp; /* where traces are sent; host null: nowhere */
    struct config_gate gate;
    struct config_provider *providers;
    size_t n_providers;
    struct config_model *models;
    size_t n_models;
    struct config_names catalogue; /* files, and "builtin" */
    tg_ms catalogue_checked_at; /* when the oldest was checked that a price is from; 0: none is */
    tg_ms catalogue_until;      /* when the first of its prices ends; TG_NUMBER_MAX: never */
    bool unknown_model_allowed; /* a model that is not listed goes to the first provider that speaks
                                   the call's API, and costs nothing */
    enum config_objects unknown_objects; /* objects of a provider that nobody has made here */
    struct config_names shared_objects;  /* patterns of ids; none: none */
    double retry_ratio;                  /* retries to calls */
    int64_t retry_min_per_s;             /* retries that are allowed whatever the ratio */
    struct config_passthrough *passthrough;
    size_t n_passthrough;
    struct config_protect *protect;
    size_t n_protect;
    struct config_envoy envoy;
    struct config_authz authz;
    struct config_tenant *tenants; /* in the order of the files */
    size_t n_tenants;
    struct config_budget *budgets; /* what everyone together has */
    size_t n_budgets;
    struct ask_watch *watch; /* the fields and headers that rules name, and those of prices */
    struct config_plain tiers[CONFIG_TIERS], betas[CONFIG_BETAS];
    struct config_index *index;   /* private: tenants by name */
    struct config_alias *aliases; /* in the order of the file */
    size_t n_aliases;
    struct config_index *names;     /* private: models by name and alias */
    struct config_secrets *secrets; /* private: what is wiped */
    struct arena *arena;            /* private: owns everything above */
};

/* ---- Reading --------------------------------------------------------------------------------- */

enum config_result {
    CONFIG_READ,       /* there may be warnings */
    CONFIG_WRONG,      /* there are errors, in the file or one that it includes */
    CONFIG_UNREADABLE, /* the file could not be read, or there is no memory; one problem says why */
};

/* Both results are always set and have to be freed, whatever the answer. After anything but
 * CONFIG_READ the configuration is empty. */
enum config_result config_load(const char *path, struct config *config,
                               struct config_problems *problems);

/* What is known of tenants besides the files: made by way of the administration, kept elsewhere,
 * and read by the one reader. */
enum config_extra_kind {
    CONFIG_EXTRA_TENANT, /* a tenant that no file has */
    CONFIG_EXTRA_KEY,    /* a further key of a tenant, whether of a file or an extra */
    CONFIG_EXTRA_TOPUP,  /* more money for one of its budgets */
    CONFIG_EXTRA_BLOCK,  /* one of its keys, or all of them, are refused */
    CONFIG_EXTRA_SHADOW, /* none of its limits refuses */
};

struct config_extra {
    enum config_extra_kind kind;
    const char *name;   /* what stands in problems in place of a file: "api: tenant x" */
    const char *tenant; /* whose it is; of a top-up also null: the budget of everyone */

    /* A tenant: what an item of `tenants` holds, as YAML or JSON. `name` may be left out, and must
     * be that of `tenant` if it is not. Variables are not put in place. */
    const char *text;
    size_t bytes;

    /* A key. `text` is what it has of its own: limits, budgets, models, endpoints, tags; null:
     * nothing. `name` may stand in it as in that of a tenant; `not_after` too, and does not
     * count: the one below does. */
    const char *key;    /* its name; null: none. The same of a block: null: all keys */
    const char *sha256; /* 64 hexadecimal digits */
    tg_ms not_after;    /* CONFIG_NEVER: no end */

    /* A top-up: of the tenant's first budget of that period, and that zone. */
    int64_t micro_usd;
    enum config_period per;
    const char *tz; /* null: whatever the zone */
};

/* The same with extras. Where one is at odds with a file the file wins, and a warning says
 * so: a tenant or the hash of a key that a file has, the name of a key that the tenant has. A key
 * or top-up for what does not exist is passed over with a warning too, so that nobody has to clean
 * up before a tenant can go. Everything else that is wrong with an extra is an error. */
enum config_result config_load_with(const char *path, const struct config_extra *extras,
                                    size_t n_extras, struct config *config,
                                    struct config_problems *problems);

/* The same from memory; `name` stands in messages, and its folder is where includes and files are
 * searched for. Without a name no file is read, and no include is followed. */
enum config_result config_parse(const char *name, const char *text, size_t bytes,
                                struct config *config, struct config_problems *problems);
enum config_result config_parse_with(const char *name, const char *text, size_t bytes,
                                     const struct config_extra *extras, size_t n_extras,
                                     struct config *config, struct config_problems *problems);

void config_free(struct config *config);

/* Fills in what `serve` takes where the configuration is silent: `gate.concurrency` with its
 * defaults where that is absent, and waits that are `auto`. */
void config_serve_defaults(struct config *config);

/* ---- Asking ---------------------------------------------------------------------------------- */

/* Null if there is none of that name. Constant time. */
const struct config_tenant *config_tenant(const struct config *config, const char *name,
                                          size_t bytes);

/* The number of a model by its name or one of its aliases; CONFIG_NONE if there is none. Constant
 * time. */
size_t config_model(const struct config *config, const char *name, size_t bytes);

/* Tokens that a call of this model is taken to write which does not say, for limits: what the
 * configuration says the model writes at most, else a guess. Limits are settled by what it wrote,
 * and few calls write all that a model can. */
int64_t config_assumed_output(const struct config_model *model);

/* The most that it may write, for money; a guess where nothing is known. */
int64_t config_most_output(const struct config_model *model);

/* The factor of a name, in thousandths; 0 if there is none. */
int64_t config_factor(const struct config_factors *factors, const char *name, size_t bytes);

/* The price of a usage by a model that a reply names, of the same provider as `model`, which was
 * asked: an advisor, or one that the provider fell back to. Null, or a name that is not known: the
 * dearest of the provider's. */
tg_micro config_price_of_pass(const struct config_provider *provider,
                              const struct config_model *model, const char *name,
                              const struct tg_usage *usage);

/* Whether a name in a reply is that of the model, or of a dated version of it. */
bool config_is_model(const struct config_provider *provider, const struct config_model *model,
                     const char *name);

/* The most that a bound costs at any model of the provider, `model` among them. */
tg_micro config_dearest_bound(const struct config_provider *provider,
                              const struct config_model *model, const struct tg_usage_bound *bound);

/* What multiplies the token prices of a call, in thousandths, by the tier, speed and region that
 * its reply says were served; "" is for what it does not say. If it says none of them, or
 * something that has no factor here, it is `asked`: the most that was asked for. */
int64_t config_served_factor(const struct config_model *model, const char *tier, const char *speed,
                             const char *geo, int64_t asked);

/* What the largest call of a model costs at most: all of its context and all that it can write; 0:
 * that is not known. */
tg_micro config_largest_call(const struct config_model *model);

/* How many of the largest calls that a tenant (null: anyone) may make fit a budget at once, and of
 * which model; -1: nothing is known of them. */
int64_t config_budget_fits(const struct config *config, const struct config_tenant *tenant,
                           const struct config_budget *budget, const struct config_model **largest);

/* Whether a name is among patterns such as {"demo-*", "!demo-large"}: `*` stands for any bytes, a
 * pattern after `!` takes away, and the last pattern that matches decides. What no pattern matches
 * is not among them, unless there is no pattern at all, or the first one takes away. */
bool config_patterns_match(const struct config_names *patterns, const char *name, size_t bytes);

/* The first key of a name that a tenant has; null: there is none. */
const struct config_key *config_find_key(const struct config_tenant *tenant, const char *name);

/* Whether a budget may refuse the calls of a tenant with a key (null: without one); whether one of
 * those says `reserve: bound`. */
static inline bool config_is_hard(const struct config_tenant *tenant, const struct config_key *key)
{
    return tenant->hard_budget || (key != NULL && key->own.hard_budget);
}

static inline bool config_is_bound(const struct config_tenant *tenant, const struct config_key *key)
{
    return tenant->bound_budget || (key != NULL && key->own.bound_budget);
}

/* Whether a tenant may use a model with a key (null: without one): as config_patterns_match(),
 * where an alias that is listed as such, without a star, stands for its model. A pattern with a
 * star is not compared with aliases: what is excluded under one name must not come back under
 * another. */
bool config_may_use(const struct config *config, const struct config_tenant *tenant,
                    const struct config_key *key, const struct config_model *model);

/* Whether a tenant with a key (null: without one) may use a path that is passed through: the last
 * of its `endpoints` that matches decides, and none of them is a no; those of a key also, unless it
 * has none. */
bool config_may_call(const struct config_tenant *tenant, const struct config_key *key,
                     struct slice path);

/* Whose rules hold for a call of a tenant, by its number, to a model (null: to none), and how many
 * have some: the tenant, its parents, the model. */
size_t config_rule_owners(const struct config *config, size_t tenant,
                          const struct config_model *model,
                          struct rule_owner owners[RULE_OWNERS_MAX]);

#endif
