/* explain_survey.c - no call, but every limit and budget that calls of a tenant may have to clear.
 *
 * A limit that is for some models alone is among them, whichever a call would name; each scope is
 * asked about by itself, for one call of one token, so that what is left is what there is. See
 * explain.h.
 */
#include <string.h>

#include "server/explain/explain_internal.h"

void explain_survey_prepare(struct explanation *of)
{
    const struct explain_call *asked = &of->asked;
    const struct config_tenant *tenant = of->tenant;
    const char *user = tenant->users.present ? asked->user : NULL;
    const struct scopes_who who = {.tenant = tenant->name,
                                   .tenant_bytes = strlen(tenant->name),
                                   .key = of->key,
                                   .user = user,
                                   .user_bytes = user != NULL ? strlen(user) : 0,
                                   .peer = tenant->name,
                                   .peer_bytes = strlen(tenant->name),
                                   .priority = asked->priority};
    struct tg_debit *debit = &of->gate_call.debit;

    of->asked.user = user;
    of->expectation = (struct tg_expectation){.charge = 1, .factor = 1};
    of->money = (struct spending_call){.tenant = tenant->name,
                                       .hint = of->tenant_number,
                                       .key = config_key_name(of->key),
                                       .user = {user, who.user_bytes},
                                       .money = 1};
    tg_call_init(&of->gate_call);
    /* Where a call has too many sets to be possible, its root and its peer are not known. */
    if (scopes_fill(of->generation->scopes, &who, of->room, &of->gate_call, NULL))
        return;
    remote_divide_peer(of->gateway->remote, &of->config->gate, &of->gate_call);
    debit->n_scopes = scopes_list(of->generation->scopes, &who, of->room, EXPLAIN_SCOPES_MAX);
    of->is_truncated = debit->n_scopes > EXPLAIN_SCOPES_MAX;
    if (of->is_truncated)
        debit->n_scopes = EXPLAIN_SCOPES_MAX;
    debit->cost = 1;
}

void explain_survey_list(struct explanation *of)
{
    explain_peer(of);
    explain_axis(of, TG_AXIS_RATE);
    explain_axis(of, TG_AXIS_COST);
    explain_budgets_list(of);
}
