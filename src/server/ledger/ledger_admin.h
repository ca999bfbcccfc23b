/* ledger_admin.h - what an administrator made at run time: tenants, their keys, top-ups of budgets,
 * and which keys of providers are out of use.
 *
 * Kept in the ledger's database, because it is the one file of a gateway that is written, backed up
 * and kept over a restart. Nothing here is interpreted: the text of a tenant is what the reader of
 * the configuration is given, and what it means is the reader's business. A database from before
 * there were such tables has none of them until the first change, and an older program opens one
 * that has them.
 *
 *     struct ledger_admin all;
 *     ledger_admin_read(ledger, &all, &problem);
 *     ... all.tenants, all.keys, all.topups
 *     ledger_admin_free(&all);
 *
 * Threads: from any; they wait for the disk and for each other, so not from one that serves.
 */
#ifndef TG_LEDGER_LEDGER_ADMIN_H
#define TG_LEDGER_LEDGER_ADMIN_H

#include "server/ledger/ledger.h"

#define LEDGER_ADMIN_TENANTS_MAX 20000
#define LEDGER_ADMIN_KEYS_MAX 100000
#define LEDGER_ADMIN_TOPUPS_MAX 10000
#define LEDGER_ADMIN_DISABLED_MAX 10000
#define LEDGER_ADMIN_OVERRIDES_MAX 10000
#define LEDGER_ADMIN_TEXT_MAX ((size_t)256 << 10)    /* bytes of a tenant's text, or of a name */
#define LEDGER_ADMIN_SETTINGS_MAX ((size_t)16 << 10) /* bytes of a key's text */

struct ledger_admin_tenant {
    const char *name;
    const char *text; /* `bytes` bytes, and a 0 after them */
    size_t bytes;
    tg_ms changed_at;
};

/* A virtual key. */
struct ledger_admin_key {
    const char *tenant, *name;
    const char *text; /* its settings: limits, budgets, models, endpoints, tags; `bytes` bytes, and
                         a 0 after them; null: it has none of its own */
    size_t bytes;
    uint8_t sha256[32];
    tg_ms not_after; /* TG_NUMBER_MAX: no end */
    tg_ms made_at;
};

struct ledger_admin_topup {
    int64_t id;         /* from 1; never used twice */
    const char *tenant; /* "": the budget of everyone together */
    enum tg_per per;
    const char *tz;
    tg_micro micro;
    tg_ms made_at, ends_at; /* TG_NUMBER_MAX: no end */
};

/* A key of a provider that is out of use. */
struct ledger_admin_disabled {
    const char *provider, *name;
    tg_ms made_at;
};

/* What the API changes of a tenant that a file defines, for a while. In the database by their
 * numbers: new ones come last. */
enum ledger_override_kind {
    LEDGER_OVERRIDE_BLOCK,  /* its keys, or one of them, are refused */
    LEDGER_OVERRIDE_RAISE,  /* one of its budgets has more money */
    LEDGER_OVERRIDE_SHADOW, /* none of its limits refuses */
    LEDGER_OVERRIDE_COUNT
};

struct ledger_admin_override {
    int64_t id; /* from 1; never used twice */
    const char *tenant;
    const char *key; /* a block: the name of the key; "": all of the tenant's */
    enum ledger_override_kind kind;
    tg_micro micro;  /* a raise: by how much, in each window of a budget */
    enum tg_per per; /* a raise: the period of the budget */
    const char *tz;  /* a raise: its zone */
    const char *reason;
    tg_ms made_at, ends_at;
};

/* Tenants and keys by name, top-ups and overrides by number. */
struct ledger_admin {
    struct ledger_admin_tenant *tenants;
    size_t n_tenants;
    struct ledger_admin_key *keys;
    size_t n_keys;
    struct ledger_admin_topup *topups;
    size_t n_topups;
    struct ledger_admin_disabled *disabled;
    size_t n_disabled;
    struct ledger_admin_override *overrides;
    size_t n_overrides;
    struct ledger_admin_block *blocks;        /* private: the texts */
    size_t max_tenants, max_keys, max_topups; /* private: how many there is room for */
    size_t max_disabled, max_overrides;
};

/* The hash that hexadecimal digits in lower case are. False: they are none, and it is untouched. */
#define LEDGER_ADMIN_HASH_DIGITS 64
bool ledger_admin_read_hash(const char *digits, size_t n, uint8_t sha256[32]);

/* Reads all of it. Has to be freed only after true. */
bool ledger_admin_read(struct ledger *ledger, struct ledger_admin *all, struct tg_problem *problem);
void ledger_admin_free(struct ledger_admin *all);

/* The same of a ledger that another process writes. */
bool ledger_view_admin(struct ledger_view *view, struct ledger_admin *all,
                       struct tg_problem *problem);

/* ---- Changes ------------------------------------------------------------------------------------
 *
 * On the disk when they return. False: nothing has changed, and `problem` says why: too many, too
 * long, or the database does not take it. What is taken away need not be there. */

bool ledger_admin_put_tenant(struct ledger *ledger, const struct ledger_admin_tenant *tenant,
                             struct tg_problem *problem);

/* With its keys and top-ups. */
bool ledger_admin_drop_tenant(struct ledger *ledger, const char *name, struct tg_problem *problem);

/* One of the same tenant and name is replaced. */
bool ledger_admin_put_key(struct ledger *ledger, const struct ledger_admin_key *key,
                          struct tg_problem *problem);
bool ledger_admin_drop_key(struct ledger *ledger, const char *tenant, const char *name,
                           struct tg_problem *problem);

/* `topup->id` is ignored; `id` is the one it gets. */
bool ledger_admin_add_topup(struct ledger *ledger, const struct ledger_admin_topup *topup,
                            int64_t *id, struct tg_problem *problem);
bool ledger_admin_drop_topup(struct ledger *ledger, int64_t id, struct tg_problem *problem);

/* Takes a key of a provider out of use, or puts it back. */
bool ledger_admin_disable(struct ledger *ledger, const struct ledger_admin_disabled *key,
                          struct tg_problem *problem);
bool ledger_admin_enable(struct ledger *ledger, const char *provider, const char *name,
                         struct tg_problem *problem);

/* `override->id` is ignored; `id` is the one it gets. */
bool ledger_admin_add_override(struct ledger *ledger, const struct ledger_admin_override *override,
                               int64_t *id, struct tg_problem *problem);
bool ledger_admin_drop_override(struct ledger *ledger, int64_t id, struct tg_problem *problem);

/* Makes one tenant, its keys and its top-ups what they were when `before` was read. */
bool ledger_admin_restore(struct ledger *ledger, const char *tenant,
                          const struct ledger_admin *before, struct tg_problem *problem);

/* Forgets top-ups and overrides that have ended. */
bool ledger_admin_lapse(struct ledger *ledger, tg_ms now, struct tg_problem *problem);

#endif
