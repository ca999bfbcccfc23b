/* call_money.c - the money of an attempt: the most it can cost is reserved before it is sent.
 *
 * runtime/quote.h says what that is, so that used <= amount however many calls run at once. Each
 * attempt reserves for the route that it takes, by that one's bound and price. What a call costs
 * above a part of its bound that was reserved (`reserve: expected`) is charged at its end, and
 * counted as overdraft.
 *
 * A call that does not say how much it may write is reserved in full (`on_unbounded: allow`): its
 * request is never changed. Where clamping is configured, the bound is written into the request, by
 * the name that the provider knows, and told.
 *
 * A refusal says whose budget it was, what was asked and what is left, and which max_tokens would
 * have fitted.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/dialect/path_pattern.h"
#include "server/dialect/prefix.h"
#include "server/obs/watch.h"
#include "server/proxy/call_translation.h"
#include "server/runtime/quote.h"

void call_describe_money(const struct call *call, struct spending_call *spending)
{
    *spending = (struct spending_call){.tenant = call_tenant(call)->name,
                                       .hint = call->tenant,
                                       .key = config_key_name(call->virtual_key),
                                       .user = {call->user.at, call->user.n}};
}

bool call_money_left(const struct call *call, struct slice user, tg_micro *left, double *part)
{
    struct gateway *gateway = call->gateway;
    struct spending_call spending;

    call_describe_money(call, &spending);
    spending.user = (struct ledger_text){user.at, user.n};
    return (gateway->remote
                ? remote_money_left(gateway->remote->money, &spending, call_now(call), left, part)
                : spending_left(gateway->spending, &spending, call_now(call), left, part)) == TG_OK;
}

bool call_costs(const struct call *call)
{
    const struct slice method = call->in->head.method;
    struct slice path = path_of_target(call->in->head.target), last = {NULL, 0};

    assert(call->passthrough != NULL);
    while (path_next(&path, &last))
        ;
    return !slice_equal(method, SLICE("GET")) && !slice_equal(method, SLICE("HEAD")) &&
           !slice_equal(method, SLICE("DELETE")) && !slice_equal(method, SLICE("OPTIONS")) &&
           !slice_equal(last, SLICE("cancel"));
}

/* ---- the bound ---- */

static void quote_call_of(const struct call *call, struct quote_call *asked)
{
    *asked = (struct quote_call){.gateway = call->gateway,
                                 .tenant = call_tenant(call),
                                 .key = call->virtual_key,
                                 .route = call->route,
                                 .ask = &call->ask,
                                 .is_listed = call->model != CONFIG_NONE,
                                 .is_translated = call->translation != NULL,
                                 .escapes = call->translation ? call->translation->escapes : 0};
}

/* How many tokens each of its choices may write where so much can be reserved. */
static int64_t affordable_output(const struct call *call, tg_micro money)
{
    const struct quote quote = {.bound = call->attempt.bound,
                                .share = call->attempt.share,
                                .most_output = call->attempt.most_output};
    struct quote_call asked;

    quote_call_of(call, &asked);
    return quote_affordable(&asked, &quote, money);
}

/* Who asks, and where. False: the client has left, and its head with it. */
static bool find_prefix_owner(const struct call *call, struct prefix_who *who)
{
    const struct config_model *model = call->route->config;

    if (call->in == NULL)
        return false;
    *who = (struct prefix_who){
        .tenant = slice_of(call_tenant(call)->name),
        .provider = slice_of(call->route->provider->config->name),
        .model = model->upstream_model != NULL ? slice_of(model->upstream_model)
                                               : ask_slice(&call->ask.model),
    };
    if (call->translation == NULL) /* else it does not go along */
        who->extra = http_find(&call->in->head, SLICE("anthropic-beta"));
    return true;
}

void call_remember_counts(const struct call *call, const struct tg_usage *usage)
{
    struct prefix_memory *memory = call->gateway->prefixes;
    const struct slice id = {call->objects.made, call->objects.made_n};
    struct prefix_who who;

    if (call->route == NULL || !find_prefix_owner(call, &who))
        return;
    if (call->translation != NULL && call->translation->dropped.n > 0)
        return; /* what was left out of this prompt may be within the next one */
    prefix_remember(memory, &who, &call->ask, tg_usage_input(usage), call_now(call));
    if (call->endpoint == ENDPOINT_RESPONSES && id.n > 0)
        prefix_remember_response(memory, &who, &call->ask, id, usage, call_now(call));
}

/* What the attempt may cost. False: the call has been answered. */
static bool price_attempt(struct call *call, struct spending_call *spending)
{
    struct attempt *attempt = &call->attempt;
    struct quote_call asked;
    struct prefix_who who;
    struct quote quote;
    struct refusal why;
    tg_micro left;

    call_describe_money(call, spending);
    attempt->most_output = -1;
    attempt->share = 1000;
    if (call->route == NULL) {
        spending->money = attempt->asked = attempt->most =
            call_costs(call) ? call->passthrough->per_call : 0;
        return true;
    }
    attempt->prompt = estimate_prompt(&call->ask, &call->route->estimate);
    attempt->output = estimate_output(&call->ask, config_most_output(call->route->config));
    if (!call_money_left(call, call->user, &left, NULL))
        left = 0; /* it is not known: there may be a budget */
    if (quote_is_hard(call->route, left) && find_prefix_owner(call, &who))
        prefix_find(call->gateway->prefixes, &who, call->body.bytes, &call->ask, call_now(call));
    quote_call_of(call, &asked);
    if (!quote_make(&asked, left, &quote, &why)) {
        call_refuse_admitted(call, &why);
        return false;
    }
    attempt->bound = quote.bound;
    attempt->most = quote.most;
    attempt->pair = quote.pair;
    attempt->share = quote.share;
    spending->money = attempt->asked = quote.asked;
    attempt->most_output = quote.most_output;
    if (quote.most_output >= 0)
        attempt->output = quote.bound.output;
    return true;
}

/* ---- refusals ---- */

enum { USD_MAX = 32 };

/* "50", "3.10", "0.000039": dollars with two decimals, or as many as there are. */
static const char *usd_text(tg_micro micro, char text[USD_MAX])
{
    int decimals = 6;

    if (micro % 1000000 == 0) {
        snprintf(text, USD_MAX, "%" PRId64, micro / 1000000);
        return text;
    }
    snprintf(text, USD_MAX, "%" PRId64 ".%06" PRId64, micro / 1000000, micro % 1000000);
    for (char *end = text + strlen(text) - 1; decimals > 2 && *end == '0'; decimals--)
        *end-- = '\0';
    return text;
}

/* The budgets on the way of a call: the one that refused, and the smallest amount. */
struct budget_search {
    tg_account account; /* whose budget refused; 0: not known */
    enum tg_per per;
    tg_micro amount;
    char owner[256]; /* "tenant team-a", "user bob of tenant team-a", "key ci of tenant team-a" */
    char group[96];  /* "users of tenant team-a"; "": it is a tenant's, or everyone's */
    tg_micro least;  /* the smallest amount above 0 of those that are enforced */
};

static void name_user(struct budget_search *search, const struct spending_account *account)
{
    snprintf(search->owner, sizeof search->owner, "user %.*s of tenant %s",
             account->user.size < 64 ? (int)account->user.size : 64, account->user.bytes,
             account->tenant);
    snprintf(search->group, sizeof search->group, "users of tenant %s", account->tenant);
}

static void compare_account(void *context, const struct spending_account *account)
{
    struct budget_search *search = context;

    for (size_t i = 0; i < account->n_budgets; i++) {
        const struct tg_budget_metrics *budget = &account->budgets[i];
        if (budget->mode != TG_ENFORCE)
            continue;
        if (budget->amount > 0) /* one of nothing is spent, whatever is asked */
            search->least = num_min(search->least, budget->amount);
        if (search->owner[0] != '\0' || budget->per != search->per ||
            budget->amount != search->amount ||
            (search->account != 0 && search->account != account->number))
            continue;
        if (account->tenant == NULL)
            snprintf(search->owner, sizeof search->owner, "everyone");
        else if (account->user.size > 0)
            name_user(search, account);
        else
            snprintf(search->owner, sizeof search->owner, "%s%s%stenant %s",
                     account->key != NULL ? "key " : "", account->key != NULL ? account->key : "",
                     account->key != NULL ? " of " : "", account->tenant);
    }
}

/* "; max_tokens of 120 would fit", where some would. */
static void say_what_fits(const struct call *call, tg_micro money, struct refusal *why)
{
    size_t n = strlen(why->text);

    if (call->route == NULL || !estimate_has_output(call->endpoint))
        return;
    int64_t fits = affordable_output(call, money);
    if (fits >= 1 && n < sizeof why->text)
        snprintf(why->text + n, sizeof why->text - n, "; max_tokens of %" PRId64 " would fit",
                 fits);
}

/* For log, metrics and watch: the budget is the limit that refused. */
static void note_budget(struct call *call, const struct budget_search *search,
                        const struct tg_money_answer *answer, const char *amount, const char *every)
{
    struct report_limit *limit = &call->notes.limit;

    report_limit_init(limit);
    watch_text(limit->of, sizeof limit->of, slice_of(search->owner));
    watch_text(limit->group, sizeof limit->group, slice_of(search->group));
    snprintf(limit->rule, sizeof limit->rule, "%s USD%s", amount, every);
    limit->size = answer->amount;
    limit->left = num_less(answer->amount, answer->used);
    limit->reset_at = answer->per == TG_PER_TOTAL ? 0 : answer->reset_at;
}

static void refuse_by_budget(struct call *call, const struct tg_money_answer *answer)
{
    static const char *const every[] = {[TG_PER_DAY] = " a day",
                                        [TG_PER_WEEK] = " a week",
                                        [TG_PER_MONTH] = " a month",
                                        [TG_PER_TOTAL] = " in total"};
    struct budget_search search = {.account = answer->account,
                                   .per = answer->per,
                                   .amount = answer->amount,
                                   .least = TG_MONEY_MAX};
    char amount[USD_MAX], asked[USD_MAX], left[USD_MAX];
    tg_micro rest = num_less(answer->amount, answer->used);
    struct spending_call spending;
    struct refusal why;

    call_describe_money(call, &spending);
    if (spending_peek(call->gateway->spending, &spending, call_now(call), compare_account,
                      &search) != TG_OK ||
        search.owner[0] == '\0')
        snprintf(search.owner, sizeof search.owner, "tenant %s", call_tenant(call)->name);
    bool never = call->attempt.asked > search.least;
    tg_micro fits_into = never ? search.least : rest;
    refusal_init(&why,
                 never               ? REPLY_REQUEST_EXCEEDS_LIMIT
                 : answer->contended ? REPLY_BUDGET_CONTENDED
                                     : REPLY_BUDGET,
                 "budget of %s: %s USD%s, asked %s, left %s%s", search.owner,
                 usd_text(answer->amount, amount), every[answer->per],
                 usd_text(num_max(call->attempt.asked, 0), asked), usd_text(rest, left),
                 never               ? ", which this call can never fit into"
                 : answer->contended ? ", the rest is reserved by calls that are running"
                                     : "");
    if (never || !answer->contended)
        say_what_fits(call, fits_into, &why);
    if (never)
        snprintf(why.param, sizeof why.param, "max_tokens");
    why.retry_after_ms = answer->contended && !never ? 1000 : TG_UNSATISFIABLE;
    why.reset_at = answer->per == TG_PER_TOTAL || never ? 0 : answer->reset_at;
    note_budget(call, &search, answer, amount, every[answer->per]);
    call_refuse_admitted(call, &why);
}

void call_refuse_money(struct call *call, enum tg_err err, const struct tg_money_answer *answer)
{
    struct refusal why;

    if (!err) {
        refuse_by_budget(call, answer);
        return;
    }
    if (err == TG_ERR_UNKNOWN)
        refusal_init(&why, REPLY_INVALID_API_KEY, "this key has been removed");
    else if (err == TG_ERR_MEMORY)
        refusal_of_memory(&why);
    else
        refusal_init(&why, REPLY_STORE_UNAVAILABLE,
                     "what calls cost cannot be recorded at the moment");
    call_refuse_admitted(call, &why);
}

/* ---- reserving ---- */

/* At this gateway, or at all of them. */
static enum call_verdict money_answered(struct call *call, enum tg_err err,
                                        const struct tg_money_answer *answer)
{
    if (!err && answer->would_deny > 0)
        call->notes.would_deny |= REPORT_WOULD(REPORT_BUDGET);
    if (!err && answer->reservation != 0) {
        assert(call->attempt.money.reservation != 0);
        call->notes.reserved = call->attempt.reserved = answer->reserved;
        return CALL_PASSES;
    }
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    call_refuse_money(call, err, answer);
    return CALL_ANSWERED;
}

/* Whether to ask for money again, for a shorter reply: we have bounded the call by what was known
 * here of all gateways' spending, and the refusal has brought what is really left. This is done
 * once, and only if both waits together take no longer than one for limits and one for money may.
 */
static bool can_do_with_less(const struct call *call)
{
    const struct attempt *attempt = &call->attempt;
    tg_micro left;

    if (attempt->most_output < 0 || attempt->asked_less ||
        call->store_ms > call->generation->config.store.timeout ||
        !call_money_left(call, call->user, &left, NULL))
        return false;
    assert(call->route != NULL); /* a passthrough has no bound */
    int64_t most = affordable_output(call, left);
    return most >= 1 && most < attempt->most_output;
}

/* Reserves it: in this gateway's own books, then at the remote store. */
static enum call_verdict reserve(struct call *call)
{
    struct attempt *attempt = &call->attempt;
    struct spending_call spending;
    struct tg_money_answer answer;

    assert(call_is_admitted(call) && call->status == 0);
    assert(attempt->key == 0 && attempt->money.reservation == 0 && attempt->out == NULL);
    if (!price_attempt(call, &spending))
        return CALL_ANSWERED;
    uint64_t number = call_record_enter(call);
    enum tg_err err = spending_reserve(call->gateway->spending, &spending, call_now(call),
                                       &attempt->money, &answer);
    call_record_reserve(call, number, &spending, err, &answer);
    if (err || attempt->money.reservation == 0) {
        attempt->money.reservation = 0;
        answer.reservation = 0;
    } else if (call->gateway->remote) {
        assert(answer.reserved == spending.money);
        call->asked_at = call_now(call);
        if (!call->env->money_take(call->worker->port, &attempt->remote_reservation,
                                   &call->generation->remote, &spending, call->env->money_decided,
                                   &err, &answer))
            return CALL_WAITS;
        call_record_store_money(call, err, &answer);
    }
    return money_answered(call, err, &answer);
}
enum call_verdict call_reserve_money(struct call *call)
{
    call->attempt = (struct attempt){0};
    call->attempt.unsent = true;
    if (call->attempts > 0)
        call->store_ms = 0;
    return reserve(call);
}

enum call_verdict call_money_answered(struct call *call, const struct call_input *with)
{
    call->store_ms += call_now(call) - call->asked_at;
    call_record_store_money(call, with->err, with->money);
    if (!with->err && with->money->reservation == 0 && can_do_with_less(call)) {
        call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
        call->attempt.asked_less = true;
        return reserve(call);
    }
    return money_answered(call, with->err, with->money);
}
