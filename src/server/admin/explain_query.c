/* explain_query.c - the parameters of a call that is to be explained. See explain_query.h. */
#include "server/admin/explain_query.h"

#include <stdio.h>
#include <string.h>

#include "server/admin/admin_query.h"
#include "server/config/config_values.h"

enum { PROMPT_MAX = 4 << 20 };

static bool read_count(struct slice query, const char *name, int64_t *count, char why[160])
{
    char text[EXPLAIN_NAME_MAX + 1];

    if (!admin_query_get(query, name, text, sizeof text) || value_count(text, count))
        return true;
    snprintf(why, 160, "parameter \"%s\" is \"%.40s\"; it must be a whole number, 0 or more", name,
             text);
    return false;
}

static bool read_explain_priority(struct slice query, enum tg_priority *priority, char why[160])
{
    char text[32];

    if (!admin_query_get(query, "priority", text, sizeof text))
        return true;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        if (strcmp(text, tg_priority_name((enum tg_priority)p)) == 0) {
            *priority = (enum tg_priority)p;
            return true;
        }
    snprintf(why, 160, "parameter \"priority\" is \"%.20s\"; it must be high, normal or low", text);
    return false;
}

bool explain_query_read(struct slice query, struct explain_query *asked, char why[160])
{
    static const char *const TEXTS[EXPLAIN_TEXTS] = {"tenant", "model", "user", "key"};
    struct explain_call *call = &asked->call;

    for (int i = 0; i < EXPLAIN_TEXTS; i++) {
        asked->names[i][0] = '\0';
        if (!admin_query_get(query, TEXTS[i], asked->names[i], sizeof asked->names[i]) && i < 2) {
            snprintf(why, 160, "parameter \"%s\" is missing", TEXTS[i]);
            return false;
        }
    }
    *call = (struct explain_call){.tenant = asked->names[0],
                                  .model = asked->names[1],
                                  .user = *asked->names[2] != '\0' ? asked->names[2] : NULL,
                                  .key = *asked->names[3] != '\0' ? asked->names[3] : NULL,
                                  .max_tokens = -1,
                                  .tokens = -1,
                                  .micro = -1,
                                  .priority = TG_PRIORITY_HIGH,
                                  .worker = EXPLAIN_ALL_WORKERS};
    if (!read_count(query, "max_tokens", &call->max_tokens, why) ||
        !read_count(query, "prompt_bytes", &call->prompt_bytes, why) ||
        !read_count(query, "tokens", &call->tokens, why) ||
        !read_count(query, "micro_usd", &call->micro, why) ||
        !read_explain_priority(query, &call->priority, why))
        return false;
    if (call->prompt_bytes <= PROMPT_MAX)
        return true;
    snprintf(why, 160, "parameter \"prompt_bytes\" may be %d at most", PROMPT_MAX);
    return false;
}
