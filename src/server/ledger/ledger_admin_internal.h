/* ledger_admin_internal.h - changes of what an administrator made, as statements of one
 * transaction: for ledger_admin.c and ledger_fleet.c. */
#ifndef TG_LEDGER_LEDGER_ADMIN_INTERNAL_H
#define TG_LEDGER_LEDGER_ADMIN_INTERNAL_H

#include <string.h>

#include "server/ledger/ledger_admin.h"
#include "server/ledger/ledger_db.h"

/* What a statement is given, in order. */
struct value {
    enum { NUMBER, TEXT, BLOB } kind;
    int64_t number;
    const char *bytes;
    size_t n;
};

static inline struct value of_number(int64_t number)
{
    return (struct value){.kind = NUMBER, .number = number};
}

static inline struct value of_text(const char *text)
{
    return (struct value){.kind = TEXT, .bytes = text, .n = strlen(text)};
}

#define STATEMENT_VALUES_MAX 10

struct statement {
    const char *sql;
    struct value values[STATEMENT_VALUES_MAX];
    int n;
};

/* How many rows there may be. */
struct bound {
    const char *count; /* SQL: how many there are, but for the one that is about to be written */
    struct value values[2];
    int n;
    int64_t max;
    const char *of;
};

/* Rows that are put in place of those of the same name; texts are borrowed. */
struct statement ledger_statement_tenant(const struct ledger_admin_tenant *tenant);
struct statement ledger_statement_key(const struct ledger_admin_key *key);
struct statement ledger_statement_disabled(const struct ledger_admin_disabled *key);
struct statement ledger_statement_override(const struct ledger_admin_override *override);

/* With its number, or with a new one. */
struct statement ledger_statement_topup(const struct ledger_admin_topup *topup, bool with_id);

/* Rows that go. */
struct statement ledger_statement_drop_key(const char *tenant, const char *name);
struct statement ledger_statement_drop_topup(int64_t id);
struct statement ledger_statement_drop_disabled(const char *provider, const char *name);
struct statement ledger_statement_drop_override(int64_t id);

/* All of them, in one transaction; or nothing. `bound` and `id`, the number of the last row, may be
 * null. */
bool ledger_statements_run(struct ledger *ledger, const struct bound *bound,
                           const struct statement *statements, size_t n, int64_t *id,
                           struct tg_problem *problem);

#endif
