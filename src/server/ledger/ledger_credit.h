/* ledger_credit.h - uncertain money that an operator has given back. See ledger_credit.c.
 *
 * What is uncertain (ledger.h) may never have been billed: when a provider's invoice shows that, an
 * operator credits it. Always: what is credited <= what was uncertain, in each quarter of an hour,
 * for each tenant, user and model (tests/unit/server/ledger/test_ledger_credit.c).
 */
#ifndef TG_LEDGER_LEDGER_CREDIT_H
#define TG_LEDGER_LEDGER_CREDIT_H

#include "server/ledger/ledger.h"

#define LEDGER_REASON_MAX 500 /* bytes of a reason */
#define LEDGER_ACTOR_MAX 63   /* and of who made it */
#define LEDGER_CREDITS_LISTED 1000

/* Bytes ended by 0. */
struct ledger_credit {
    int64_t id; /* from 1 on */
    tg_ms made_at;
    char tenant[LEDGER_NAME_MAX + 1]; /* whose own calls they were, not those of tenants beneath */
    char user[LEDGER_NAME_MAX + 1];   /* empty: of any user */
    tg_ms since, until;               /* it takes from calls reserved in here, the latest first */
    tg_micro micro;
    char reason[LEDGER_REASON_MAX + 1], actor[LEDGER_ACTOR_MAX + 1];
};

/* What a credit takes from one sum. */
struct ledger_credit_part {
    uint32_t tenant; /* its number */
    char user[LEDGER_NAME_MAX];
    size_t user_bytes;
    tg_ms begin; /* when its quarter of an hour began; the day, if it is older than 70 days */
    tg_micro micro;
};

struct ledger_credit_parts {
    struct ledger_credit_part *list; /* to be freed */
    size_t n, max;
};

enum ledger_credit_result {
    LEDGER_CREDITED,
    LEDGER_CREDIT_TOO_MUCH, /* nothing is changed */
    LEDGER_CREDIT_FAILED,   /* likewise; the problem says why */
};

/* Between ledger_lock() and ledger_unlock(), after a ledger_flush(): what is still in the journal
 * is not seen. Sets the credit's id, the parts it is made of, and what was `uncertain` there. On
 * disk when it returns. */
enum ledger_credit_result ledger_credit_add(struct ledger *ledger, struct ledger_credit *credit,
                                            struct ledger_credit_parts *parts, tg_micro *uncertain,
                                            struct tg_problem *problem);

typedef void ledger_credit_fn(void *context, const struct ledger_credit *credit);

/* The latest first, at most LEDGER_CREDITS_LISTED; of one tenant, or of all (null). */
bool ledger_credits_list(struct ledger *ledger, const char *tenant, ledger_credit_fn *fn,
                         void *context, struct tg_problem *problem);

/* The same in a view: those made since a moment. */
bool ledger_view_credits(struct ledger_view *view, const char *tenant, tg_ms since,
                         ledger_credit_fn *fn, void *context, struct tg_problem *problem);

#endif
