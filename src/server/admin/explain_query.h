/* explain_query.h - the parameters of a call that is to be explained: from a request, or from
 * another gateway. */
#ifndef TG_ADMIN_EXPLAIN_QUERY_H
#define TG_ADMIN_EXPLAIN_QUERY_H

#include "io/text/slice.h"
#include "server/explain/explain.h"

#define EXPLAIN_PARAMETERS "tenant model user key max_tokens prompt_bytes tokens micro_usd priority"

enum { EXPLAIN_TEXTS = 4 };

struct explain_query {
    char names[EXPLAIN_TEXTS][EXPLAIN_NAME_MAX + 1]; /* texts of the call */
    struct explain_call call;
};

/* Reads what stands after the `?`. False: `why` says what is wrong. */
bool explain_query_read(struct slice query, struct explain_query *asked, char why[160]);

#endif
