/* spending_handover.c - money, while one process takes over from another.
 *
 * The process that is taken over settles its calls as ever: in its bank, which then matters to its
 * own calls alone, and in its journal, which is exact whatever happens to anybody
 * (ledger_journals.c). What its successor needs to know for its own bank is told in events: a
 * snapshot of the calls in flight, and then each that is sent or settled, in order and without a
 * gap. The successor has read the ledger up to the same moment, so that its windows are exact
 * once all events have arrived, and until then hold what is reserved, which is not less.
 *
 * A process that is itself taken over while its own predecessor still tells it of calls hands all
 * of them on: what is adopted is told like what is its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/budget/bank_part.h"
#include "lib/core/num.h"
#include "server/ledger/spending_internal.h"

/* ---- Telling ---- */

struct telling {
    struct spending *spending;
    spending_follow_fn *fn;
    void *context;
};

static void tell_open(void *context, const struct ledger_entry *entry)
{
    const struct telling *telling = context;

    telling->fn(telling->context,
                &(struct spending_event){SPENDING_SENT, entry->call, entry->tenant, entry->user,
                                         entry->micro, entry->reserved_at, 0, 0});
}

static void tell_adopted(const struct telling *telling)
{
    struct adopted_calls *adopted = &telling->spending->adopted;

    pthread_mutex_lock(&adopted->lock);
    for (struct hash_slot *slot = hash_table_first(&adopted->table); slot;
         slot = hash_table_after(&adopted->table, slot)) {
        const struct adopted *call = slot->item;
        if (call->reservation != 0)
            telling->fn(telling->context,
                        &(struct spending_event){.kind = SPENDING_SENT,
                                                 .call = call->reservation,
                                                 .tenant = call->tenant,
                                                 .user = {call->user, call->user_bytes},
                                                 .micro = call->money,
                                                 .reserved_at = call->reserved_at});
    }
    pthread_mutex_unlock(&adopted->lock);
}

void spending_follow(struct spending *spending, spending_follow_fn *fn, void *context)
{
    struct telling telling = {spending, fn, context};

    /* Alone: every append has ended, and nobody sends or settles. */
    pthread_rwlock_wrlock(&spending->lock);
    if (fn != NULL && spending->ledger != NULL) {
        ledger_each_open(spending->ledger, tell_open, &telling);
        tell_adopted(&telling);
    }
    spending->follow = fn;
    spending->follow_context = context;
    pthread_rwlock_unlock(&spending->lock);
}

/* ---- Being told ---- */

static struct hash_slot *find_adopted(const struct adopted_calls *adopted, uint64_t source,
                                      uint64_t call)
{
    struct hash_slot *slot =
        hash_table_find(&adopted->table, hash_number(call ^ source << 48 ^ adopted->seed));

    for (; slot; slot = hash_table_find_next(&adopted->table, slot)) {
        const struct adopted *one = slot->item;
        if (one->source == source && one->call == call)
            return slot;
    }
    return NULL;
}

/* Whatever is left: what the predecessor has promised stands. */
static tg_reservation reserve_adopted(struct spending *spending, const struct spending_event *event,
                                      size_t node, tg_ms now)
{
    struct spending_call call = {.hint = SPENDING_TOP, .user = event->user, .adopted = true};
    struct tg_money_answer answer = {0};
    size_t key = SPENDING_TOP;

    if (node == SPENDING_TOP)
        return 0;
    if (spending->forest.nodes[node].key != NULL) {
        key = node;
        node = spending->forest.nodes[key].parent;
    }
    call.tenant = spending->forest.nodes[node].name;
    call.money = event->micro;
    if (spending_reserve_in_bank(spending, &call, node, key, now, &answer) != TG_OK)
        return 0;
    return answer.reservation;
}

/* Whose call it is, by its names: the other process may know a tenant under another parent, or a
 * key with other tags. */
struct adopted_names {
    char tenant[LEDGER_NAME_MAX + 1], key[LEDGER_NAME_MAX + 1];
    bool has_key;
};

static void read_adopted(struct ledger *ledger, uint32_t row, struct adopted_names *names)
{
    ledger_lock(ledger);
    const char *key = ledger_tenant_key(ledger, row);
    snprintf(names->tenant, sizeof names->tenant, "%s", ledger_tenant_name(ledger, row));
    snprintf(names->key, sizeof names->key, "%s", key != NULL ? key : "");
    names->has_key = key != NULL;
    ledger_unlock(ledger);
}

/* A key that is gone leaves its tenant. */
static size_t find_adopter(const struct forest *forest, const struct adopted_names *names)
{
    size_t node =
        names->has_key ? forest_find_key(forest, names->tenant, names->key) : SPENDING_TOP;

    return node != SPENDING_TOP ? node : forest_find_key(forest, names->tenant, NULL);
}

static void adopt_sent(struct spending *spending, uint64_t source,
                       const struct spending_event *event, const struct adopted_names *names,
                       tg_ms now)
{
    struct adopted_calls *adopted = &spending->adopted;

    /* It is told when it reserves, and again when it is sent. */
    pthread_mutex_lock(&adopted->lock);
    bool known = find_adopted(adopted, source, event->call) != NULL;
    pthread_mutex_unlock(&adopted->lock);
    struct adopted *call = known ? NULL : malloc(sizeof *call + event->user.size);
    if (call == NULL)
        return;
    *call = (struct adopted){.source = source,
                             .call = event->call,
                             .tenant = event->tenant,
                             .money = event->micro,
                             .reserved_at = event->reserved_at,
                             .user_bytes = event->user.size};
    if (event->user.size > 0)
        memcpy(call->user, event->user.bytes, event->user.size);
    call->reservation =
        reserve_adopted(spending, event, find_adopter(&spending->forest, names), now);
    pthread_mutex_lock(&adopted->lock);
    bool kept = hash_table_reserve(&adopted->table, adopted->table.n + 1) == TG_OK;
    if (kept)
        hash_table_insert(&adopted->table, hash_number(event->call ^ source << 48 ^ adopted->seed))
            ->item = call;
    pthread_mutex_unlock(&adopted->lock);
    if (!kept) {
        (void)tg_bank_settle(spending->bank, call->reservation, 0, NULL);
        free(call);
        return;
    }
    if (spending->follow != NULL && call->reservation != 0)
        spending->follow(spending->follow_context,
                         &(struct spending_event){SPENDING_SENT, call->reservation, event->tenant,
                                                  event->user, event->micro, event->reserved_at, 0,
                                                  0});
}

/* Where there was no memory, or no tenant, there is no reservation: the windows get what it came to
 * when they are read from the ledger again, which is when the other process has ended. */
static void end_adopted(struct spending *spending, struct adopted *call,
                        const struct spending_event *event)
{
    bool counted = event->entry > 0 && spending->ledger != NULL &&
                   ledger_has_read(spending->ledger, event->journal, event->entry);
    struct spending_event told = *event;

    told.call = call->reservation;
    if (call->reservation != 0) {
        (void)tg_bank_settle(spending->bank, call->reservation, counted ? 0 : event->micro, NULL);
        if (spending->follow != NULL)
            spending->follow(spending->follow_context, &told);
    }
    free(call);
}

/* Its windows have what it came to. Who follows has not read that yet, and holds it until this
 * process has ended. */
static void forget_adopted(struct spending *spending, struct adopted *call)
{
    if (call->reservation != 0)
        (void)tg_bank_settle(spending->bank, call->reservation, 0, NULL);
    free(call);
}

static struct adopted *take_adopted(struct adopted_calls *adopted, uint64_t source, uint64_t call)
{
    struct adopted *found = NULL;

    pthread_mutex_lock(&adopted->lock);
    struct hash_slot *slot = find_adopted(adopted, source, call);
    if (slot != NULL) {
        found = slot->item;
        hash_table_remove(&adopted->table, slot);
    }
    pthread_mutex_unlock(&adopted->lock);
    return found;
}

void spending_adopt(struct spending *spending, uint64_t source, const struct spending_event *event,
                    tg_ms now)
{
    struct adopted_names names = {.has_key = false};

    now = spending_time(spending, now);
    /* In this order, as spending_change() takes them. */
    if (event->kind != SPENDING_SETTLED && spending->ledger != NULL)
        read_adopted(spending->ledger, event->tenant, &names);
    pthread_rwlock_rdlock(&spending->lock);
    if (event->kind != SPENDING_SETTLED) {
        adopt_sent(spending, source, event, &names, now);
    } else {
        struct adopted *call = take_adopted(&spending->adopted, source, event->call);
        if (call != NULL)
            end_adopted(spending, call, event);
    }
    pthread_rwlock_unlock(&spending->lock);
}

static struct adopted *any_adopted(struct adopted_calls *adopted, uint64_t source)
{
    struct adopted *found = NULL;

    pthread_mutex_lock(&adopted->lock);
    for (struct hash_slot *slot = hash_table_first(&adopted->table); slot && found == NULL;
         slot = hash_table_after(&adopted->table, slot))
        if (((struct adopted *)slot->item)->source == source)
            found = slot->item;
    pthread_mutex_unlock(&adopted->lock);
    return found != NULL ? take_adopted(adopted, source, found->call) : NULL;
}

size_t spending_disown(struct spending *spending, uint64_t source)
{
    struct adopted *call;
    size_t n = 0;

    pthread_rwlock_rdlock(&spending->lock);
    while ((call = any_adopted(&spending->adopted, source)) != NULL) {
        forget_adopted(spending, call);
        n++;
    }
    pthread_rwlock_unlock(&spending->lock);
    return n;
}

void spending_free_adopted(struct spending *spending)
{
    struct adopted_calls *adopted = &spending->adopted;

    for (struct hash_slot *slot = hash_table_first(&adopted->table); slot;
         slot = hash_table_after(&adopted->table, slot))
        free(slot->item);
    hash_table_fini(&adopted->table);
    pthread_mutex_destroy(&adopted->lock);
}

void spending_part(struct spending *spending, size_t before, bool leaves)
{
    bank_part(spending->bank, (struct book_part){.before = (uint8_t)num_min((int64_t)before, 63),
                                                 .leaves = leaves});
}
