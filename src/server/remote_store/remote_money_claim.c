/* remote_money_claim.c - a call's claim on the windows on its way: made, asked for, noted.
 *
 * The keys of a window say all that makes it what it is: the account, and from when to when. Two
 * budgets of an account with the same window share it, whatever their zones are called, as in the
 * bank; a budget that gets another window gets other keys. So nodes that were not reloaded at the
 * same moment never mix up what they count.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/remote_store/remote_money_args.h"
#include "server/remote_store/remote_money_internal.h"
#include "server/remote_store/remote_name.h"
#include "server/remote_store/scripts.h"

/* ---- Keys ---- */

/* "tg:money:{product}:t:team-a:1794700800000-1794787200000", of a user "...:u:team-a:ann:...", of a
 * virtual key "...:k:team-a:ci:...", of everyone "tg:money:{%}:..." */
size_t money_key(const struct remote_money *money, const struct spending_account *account,
                 tg_ms begin, tg_ms end, char text[MONEY_KEY_MAX])
{
    struct remote_text key = {text, MONEY_KEY_MAX, 0};
    char window[48];

    remote_text_put(&key, slice_of(money->prefix));
    remote_text_put(&key, SLICE(":money:{"));
    remote_text_name(&key, account->tenant ? slice_of(account->root) : SLICE(""));
    remote_text_put(&key, SLICE("}:"));
    if (account->tenant) {
        remote_text_put(&key, account->user.size > 0 ? SLICE("u:")
                              : account->key != NULL ? SLICE("k:")
                                                     : SLICE("t:"));
        remote_text_name(&key, slice_of(account->tenant));
        remote_text_put(&key, SLICE(":"));
    }
    assert(account->user.size == 0 || account->key == NULL);
    if (account->user.size > 0 || account->key != NULL) {
        remote_text_name(&key, account->key != NULL
                                   ? slice_of(account->key)
                                   : (struct slice){account->user.bytes, account->user.size});
        remote_text_put(&key, SLICE(":"));
    }
    int n = snprintf(window, sizeof window, "%lld-%lld", (long long)begin, (long long)end);
    remote_text_put(&key, (struct slice){window, (size_t)n});
    return remote_text_fits(&key) ? key.n : 0;
}

size_t remote_money_window(const struct remote_money *money, const char *tenant,
                           const char *virtual_key, const char *root, tg_ms begin, tg_ms end,
                           char key[REMOTE_MONEY_KEY_MAX])
{
    const struct spending_account account = {.tenant = tenant, .root = root, .key = virtual_key};

    return money_key(money, &account, begin, end, key);
}

/* ---- Making ---- */

struct draft {
    struct remote_money *money;
    enum tg_err err;
    bool blocks; /* decide all windows, and not those of everyone alone */
    struct sum *windows[MONEY_WINDOWS_MAX];
    struct claim_budget budgets[MONEY_WINDOWS_MAX];
    size_t n_windows, n_budgets, block_windows, block_budgets;
};

/* The number of a window, pinned once for the whole draft. */
static bool draft_window(struct draft *draft, const struct spending_account *account,
                         const struct tg_budget_metrics *budget, size_t *window)
{
    char key[MONEY_KEY_MAX];
    size_t n = money_key(draft->money, account, budget->begin, budget->end, key);

    if (n == 0) {
        draft->err = TG_ERR_INVALID;
        return false;
    }
    pthread_mutex_lock(&draft->money->lock);
    struct sum *sum =
        money_sums_get(&draft->money->sums, (struct slice){key, n}, budget->end, budget->settled);
    *window = 0;
    while (sum && *window < draft->n_windows && draft->windows[*window] != sum)
        ++*window;
    if (sum && *window == draft->n_windows) {
        sum->pins++;
        assert(draft->n_windows < MONEY_WINDOWS_MAX);
        draft->windows[draft->n_windows++] = sum;
    }
    pthread_mutex_unlock(&draft->money->lock);
    if (!sum)
        draft->err = TG_ERR_FULL;
    return sum != NULL;
}

static void draft_account(void *context, const struct spending_account *account)
{
    struct draft *draft = context;
    size_t window;

    for (size_t i = 0; i < account->n_budgets && !draft->err; i++) {
        const struct tg_budget_metrics *budget = &account->budgets[i];
        if (!draft_window(draft, account, budget, &window))
            return;
        assert(draft->n_budgets < MONEY_WINDOWS_MAX);
        draft->budgets[draft->n_budgets++] = (struct claim_budget){
            .amount = num_min(budget->amount, TG_NUMBER_MAX),
            .account = account->number,
            .end = budget->end,
            .window = (unsigned char)window,
            .per = (unsigned char)budget->per,
            .shadow = budget->mode == TG_SHADOW,
        };
    }
    if (account->tenant == NULL || draft->blocks) {
        draft->block_windows = draft->n_windows;
        draft->block_budgets = draft->n_budgets;
    }
}

static void unpin(struct remote_money *money, struct sum *const *windows, size_t n)
{
    pthread_mutex_lock(&money->lock);
    for (size_t i = 0; i < n; i++)
        windows[i]->pins--;
    pthread_mutex_unlock(&money->lock);
}

static struct remote_money_ticket *claim_alloc(const struct draft *draft)
{
    size_t windows = draft->n_windows * sizeof(struct claim_window);
    size_t budgets = draft->n_budgets * sizeof(struct claim_budget);
    struct remote_money_ticket *claim =
        calloc(1, sizeof(struct remote_money_ask) + windows + budgets);

    if (!claim)
        return NULL;
    assert(draft->block_windows <= draft->n_windows && draft->block_budgets <= draft->n_budgets);
    claim->windows = (struct claim_window *)((struct remote_money_ask *)claim + 1);
    claim->budgets = (struct claim_budget *)(claim->windows + draft->n_windows);
    for (size_t i = 0; i < draft->n_windows; i++)
        claim->windows[i].sum = draft->windows[i];
    if (draft->n_budgets > 0)
        memcpy(claim->budgets, draft->budgets, budgets);
    claim->n_windows = draft->n_windows;
    claim->n_budgets = draft->n_budgets;
    claim->block_windows = draft->block_windows;
    claim->block_budgets = draft->block_budgets;
    return claim;
}

enum tg_err money_claim_new(struct remote_money_port *port, const struct spending_call *call,
                            bool blocks, tg_ms now, struct remote_money_ticket **claim)
{
    struct draft draft;
    struct remote_money_ticket *made = NULL;

    if (call->money < 0)
        return TG_ERR_INVALID;
    draft.money = port->money;
    draft.err = TG_OK;
    draft.blocks = blocks;
    draft.n_windows = draft.n_budgets = 0;
    draft.block_windows = draft.block_budgets = 0;
    enum tg_err err = spending_peek(port->money->spending, call, now, draft_account, &draft);
    err = err ? err : draft.err;
    if (!err && (made = claim_alloc(&draft)) == NULL)
        err = TG_ERR_MEMORY;
    if (err) {
        unpin(port->money, draft.windows, draft.n_windows);
        return err;
    }
    made->port = port;
    made->money = num_min(call->money, TG_NUMBER_MAX);
    made->up_to = call->up_to;
    made->at = now;
    made->state = MONEY_CLAIM_STATES;
    uint64_t number = atomic_fetch_add_explicit(&port->money->leases, 1, memory_order_relaxed);
    made->lease_n =
        (size_t)snprintf(made->lease, sizeof made->lease, "%s.%s.%llx", port->money->ledger,
                         port->money->node, (unsigned long long)number);
    money_claim_move(made, MONEY_CLAIM_READY);
    *claim = made;
    return TG_OK;
}

/* ---- Lists ---- */

static void remote_money_claim_take_out(struct remote_money_ticket *claim)
{
    struct claim_list *list = &claim->port->lists[claim->state];

    assert(list->n > 0);
    TAILQ_REMOVE(&list->claims, claim, list);
    list->n--;
}

void money_claim_move(struct remote_money_ticket *claim, enum money_claim_state state)
{
    struct claim_list *list = &claim->port->lists[state];

    if (claim->state != MONEY_CLAIM_STATES)
        remote_money_claim_take_out(claim);
    assert(state < MONEY_CLAIM_STATES);
    claim->state = state;
    TAILQ_INSERT_TAIL(&list->claims, claim, list);
    list->n++;
}

void money_claim_free(struct remote_money_ticket *claim)
{
    struct remote_money *money = claim->port->money;

    net_timer_stop(claim->port->loop, &claim->timer);
    remote_money_claim_take_out(claim);
    pthread_mutex_lock(&money->lock);
    money_claim_hold(claim, 0, 0);
    for (size_t i = 0; i < claim->n_windows; i++) {
        assert(claim->windows[i].sum->pins > 0 && claim->windows[i].waits_for == 0);
        claim->windows[i].sum->pins--;
    }
    assert(!claim->in_flight);
    pthread_mutex_unlock(&money->lock);
    free(claim);
}

bool money_claim_fits(const struct remote_money_ticket *claim)
{
    for (size_t i = 0; i < claim->n_windows; i++)
        if (claim->windows[i].sum->held > TG_NUMBER_MAX - claim->money)
            return false;
    return true;
}

void money_claim_hold(struct remote_money_ticket *claim, tg_micro taken, tg_micro reserved)
{
    assert(taken >= 0 && reserved >= 0);
    for (size_t i = 0; i < claim->n_windows; i++) {
        struct sum *sum = claim->windows[i].sum;
        bool block = i < claim->block_windows;
        tg_micro more = block ? taken - claim->taken : reserved - claim->reserved;
        sum->held += more;
        sum->block.held += block ? more : 0;
        assert(sum->held >= 0 && sum->block.held >= 0 && sum->pins > 0);
    }
    claim->taken = taken;
    claim->reserved = reserved;
}

/* ---- Sending ---- */

static void put_head(struct money_args *args, const struct remote_money *money)
{
    money_args_init(args);
    money_args_number(args, money->callers_clock ? atomic_load(&money->latest) : 0);
    money_args_text(args, money->ledger, strlen(money->ledger));
}

/* The windows of the root, each with what this node reports about it. */
static void put_windows(struct money_args *args, struct remote_money_ticket *claim, bool epochs)
{
    struct remote_money *money = claim->port->money;
    tg_ms now = money_port_now(claim->port);

    pthread_mutex_lock(&money->lock);
    for (size_t i = claim->block_windows; i < claim->n_windows; i++) {
        struct claim_window *window = &claim->windows[i];
        window->told = sum_tell(window->sum);
        money_args_window(args, window->sum);
        money_args_number(args, window->told.sent);
        money_args_number(args, money_sum_keep(window->sum, now));
        if (epochs)
            money_args_number(args, money_port_epoch(claim->port, &window->sum->block));
    }
    pthread_mutex_unlock(&money->lock);
}

static void send(struct remote_money_ticket *claim, const struct redis_script *script,
                 const struct money_args *args,
                 void (*answered)(struct redis_ask *, const struct redisReply *))
{
    assert(!claim->in_flight);
    claim->in_flight = true;
    redis_ask_init(&claim->ask, answered, NULL);
    redis_eval(claim->port->redis, &claim->ask, script, args->keys, args->n_keys, args->list,
               args->n);
}

void money_claim_send_reserve(struct remote_money_ticket *claim,
                              void (*answered)(struct redis_ask *, const struct redisReply *))
{
    struct remote_money *money = claim->port->money;
    struct money_args args;

    put_head(&args, money);
    money_args_text(&args, claim->lease, claim->lease_n);
    money_args_number(&args, money->lease_ttl);
    money_args_number(&args,
                      claim->block_windows > 0 && !claim->peek ? claim->taken : claim->money);
    money_args_number(&args, claim->up_to);
    money_args_number(&args, claim->peek);
    put_windows(&args, claim, true);
    for (size_t i = claim->block_budgets; i < claim->n_budgets; i++) {
        money_args_number(&args, (int64_t)(claim->budgets[i].window - claim->block_windows) + 1);
        money_args_number(&args, claim->budgets[i].amount);
        money_args_number(&args, claim->budgets[i].shadow);
    }
    claim->remote = !claim->peek;
    claim->renewed_at = money_port_now(claim->port);
    send(claim, &script_money_reserve, &args, answered);
}

void money_claim_send_note(struct remote_money_ticket *claim, tg_micro money,
                           void (*answered)(struct redis_ask *, const struct redisReply *))
{
    struct money_args args;

    put_head(&args, claim->port->money);
    money_args_text(&args, claim->lease, claim->lease_n);
    money_args_number(&args, claim->port->money->lease_ttl);
    money_args_number(&args, money);
    put_windows(&args, claim, false);
    for (const struct remote_money_ticket *each = claim->together; each; each = each->together)
        money_args_text(&args, each->lease, each->lease_n);
    claim->renewed_at = money_port_now(claim->port);
    send(claim, &script_money_note, &args, answered);
}

/* ---- Reading ---- */

enum { RESERVE_HEAD = 5, NOTE_HEAD = 1, WINDOW_NUMBERS = 3 };

static void hear_windows(struct remote_money_ticket *claim, const int64_t *numbers)
{
    struct remote_money *money = claim->port->money;
    bool loss = false;

    pthread_mutex_lock(&money->lock);
    for (size_t i = claim->block_windows; i < claim->n_windows; i++, numbers += WINDOW_NUMBERS) {
        struct claim_window *window = &claim->windows[i];
        loss |= money_sums_hear(&money->sums, window->sum, numbers[0], &window->told);
        window->sum->settled = numbers[1];
        window->sum->outstanding = numbers[2];
    }
    if (loss)
        money_repair(money);
    pthread_mutex_unlock(&money->lock);
}

/* What this process holds in the windows that the script decides, and remembers of others there,
 * has to be told: Redis has forgotten some, or took this process for dead. */
static void call_for_blocks(struct remote_money_ticket *claim)
{
    struct remote_money *money = claim->port->money;

    pthread_mutex_lock(&money->lock);
    for (size_t i = claim->block_windows; i < claim->n_windows; i++) {
        struct sum *sum = claim->windows[i].sum;
        money_block_activate(money, sum);
        sum->block.retold = money->retell - 1;
    }
    pthread_mutex_unlock(&money->lock);
}

static void read_refusal(const struct remote_money_ticket *claim, const int64_t *numbers,
                         struct tg_money_answer *answer)
{
    const struct claim_budget *budget =
        &claim->budgets[claim->block_budgets + (size_t)numbers[3] - 1];
    const int64_t *window =
        numbers + RESERVE_HEAD + WINDOW_NUMBERS * (budget->window - claim->block_windows);

    *answer = (struct tg_money_answer){
        .contended = numbers[2] == 1,
        .account = budget->account,
        .per = (enum tg_per)budget->per,
        .reset_at = budget->end,
        .amount = budget->amount,
        .used = num_add(window[1], window[2]),
    };
}

bool money_claim_read_reserve(struct remote_money_ticket *claim, const struct redisReply *reply,
                              enum tg_err *err, struct tg_money_answer *answer)
{
    int64_t numbers[RESERVE_HEAD + WINDOW_NUMBERS * MONEY_WINDOWS_MAX];
    size_t windows = claim->n_windows - claim->block_windows;
    int64_t budgets = (int64_t)(claim->n_budgets - claim->block_budgets);

    if (!money_args_read(reply, RESERVE_HEAD + WINDOW_NUMBERS * windows, numbers) ||
        numbers[0] > 1 || numbers[1] > claim->money || numbers[3] < (numbers[0] == 0) ||
        numbers[3] > budgets)
        return false;
    hear_windows(claim, numbers + RESERVE_HEAD);
    *err = numbers[0] == -1 ? TG_ERR_FULL : numbers[0] < 0 ? TG_ERR_STORE : TG_OK;
    if (*err == TG_ERR_STORE)
        call_for_blocks(claim);
    *answer = (struct tg_money_answer){.reservation = numbers[0] == 1, .reserved = numbers[1]};
    if (numbers[0] == 0)
        read_refusal(claim, numbers, answer);
    answer->would_deny = (unsigned)num_min(numbers[4], MONEY_WINDOWS_MAX);
    return true;
}

bool money_claim_read_note(struct remote_money_ticket *claim, const struct redisReply *reply)
{
    int64_t numbers[NOTE_HEAD + WINDOW_NUMBERS * MONEY_WINDOWS_MAX];
    size_t windows = claim->n_windows - claim->block_windows;

    if (!money_args_read(reply, NOTE_HEAD + WINDOW_NUMBERS * windows, numbers))
        return false;
    hear_windows(claim, numbers + NOTE_HEAD);
    if (numbers[0] == 2)
        call_for_blocks(claim);
    return true;
}

/* ---- Sums beside calls ---- */

struct money_update {
    struct redis_ask ask;
    struct remote_money_port *port;
    struct claim_window window;
    tg_ms keep;
    bool lowers;
};

/* The lock is held. Null: no memory. */
struct money_update *money_update_new(struct remote_money_port *port, struct sum *sum, tg_ms now)
{
    struct money_update *update = calloc(1, sizeof *update);

    if (!update)
        return NULL;
    update->port = port;
    update->window = (struct claim_window){.sum = sum, .told = sum_tell(sum)};
    update->lowers = sum->lowering;
    update->keep = money_sum_keep(sum, now);
    assert(!sum->updating);
    sum->pins++;
    sum->updating = true;
    return update;
}

static void update_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct money_update *update = (struct money_update *)ask;
    struct remote_money_port *port = update->port;
    struct sum *sum = update->window.sum;
    int64_t numbers[NOTE_HEAD + WINDOW_NUMBERS];
    bool fine = money_args_read(reply, NOTE_HEAD + WINDOW_NUMBERS, numbers);

    pthread_mutex_lock(&port->money->lock);
    assert(sum->pins > 0 && sum->updating);
    sum->pins--;
    sum->updating = false;
    if (fine && update->lowers)
        money_sums_lowered(&port->money->sums, sum, &update->window.told);
    else if (fine && money_sums_hear(&port->money->sums, sum, numbers[1], &update->window.told))
        money_repair(port->money);
    if (fine) {
        sum->settled = numbers[2];
        sum->outstanding = numbers[3];
    }
    pthread_mutex_unlock(&port->money->lock);
    free(update);
    assert(port->updates > 0);
    port->updates--;
    if (fine)
        money_port_send_sums(port);
}

void money_update_send(struct money_update *update)
{
    struct money_args args;

    put_head(&args, update->port->money);
    if (!update->lowers) {
        money_args_text(&args, "", 0);
        money_args_number(&args, 0);
        money_args_number(&args, -1);
    }
    money_args_window(&args, update->window.sum);
    money_args_number(&args, update->window.told.sent);
    money_args_number(&args, update->keep);
    update->port->updates++;
    atomic_fetch_add_explicit(&update->port->money->n_told, 1, memory_order_relaxed);
    redis_ask_init(&update->ask, update_answered, NULL);
    redis_eval(update->port->redis, &update->ask,
               update->lowers ? &script_money_lower : &script_money_note, args.keys, args.n_keys,
               args.list, args.n);
}
