/* charge.c - learning what calls use, and charging it. See charge.h. */
#include "lib/admission/charge.h"

#include <assert.h>
#include <string.h>

#include "lib/admission/stages.h"
#include "lib/core/num.h"

enum {
    PRIOR = 4,   /* so many calls the start of a mean counts for */
    MEMORY = 64, /* so many the mean is over; a power of two, so that 1 / MEMORY is exact */
    OUTLIER = 4, /* so many times the mean a call may ask for to count in full */
};

/* How an entry uses its states. */
struct entry {
    float asked;   /* mean of what calls have asked for; 0: none has ended */
    float factor;  /* mean of used to asked */
    uint64_t rest; /* overdraft in use << 8 | recently used << 7 | samples */
};

_Static_assert(sizeof(struct entry) == sizeof(union table_states), "an entry has 32 bytes");
_Static_assert(MEMORY < 1 << 7, "samples have seven bits");

#define RECENT (UINT64_C(1) << 7)

static struct entry entry_of(const struct table_slot *slot)
{
    struct entry entry;

    memcpy(&entry, &slot->states, sizeof entry);
    return entry;
}

static void entry_put(struct table_slot *slot, struct entry entry)
{
    memcpy(&slot->states, &entry, sizeof entry);
}

static int64_t entry_drawn(struct entry entry)
{
    return (int64_t)(entry.rest >> 8);
}

static uint64_t entry_samples(struct entry entry)
{
    return entry.rest & (RECENT - 1);
}

/* ---- the table ---- */

enum { CAPACITY_MIN = 16, TRIES_MAX = 64 };

void charges_init(struct charges *charges, int64_t max)
{
    *charges = (struct charges){.max = (uint32_t)max};
}

void charges_fini(struct charges *charges)
{
    table_resize(&charges->table, 0);
}

/* Forgets an entry that nothing is drawn on: the first that was not used since the hand passed it,
 * else one of those that it has passed now. False: there is none near. */
static bool forget_one(struct charges *charges)
{
    struct table *table = &charges->table;
    struct table_slot *victim = NULL;

    for (uint32_t tries = 0; tries < TRIES_MAX; tries++) {
        struct table_slot *slot = &table_slots(table)[charges->hand % table_capacity(table)];
        struct entry entry = entry_of(slot);

        charges->hand = (charges->hand + 1) % table_capacity(table);
        if (table_is_free(slot) || entry_drawn(entry) > 0)
            continue;
        victim = slot;
        if (!(entry.rest & RECENT))
            break;
        entry.rest &= ~RECENT;
        entry_put(slot, entry);
    }
    if (victim)
        table_remove(table, victim);
    return victim != NULL;
}

/* Makes sure that so many entries can be inserted. Entries may move and go. */
static bool make_room(struct charges *charges, uint32_t n)
{
    struct table *table = &charges->table;
    uint32_t capacity = table_capacity(table);

    while (table->n + n > charges->max)
        if (table->n == 0 || !forget_one(charges))
            return false;
    if (table->n + n <= capacity / 4 * 3)
        return true;
    capacity = capacity < CAPACITY_MIN ? CAPACITY_MIN : capacity;
    while (table->n + n > capacity / 4 * 3)
        capacity *= 2;
    return table_resize(table, capacity);
}

/* There is room. */
static struct table_slot *find_or_insert(struct charges *charges, struct table_id id)
{
    struct table_slot *slot = table_find(&charges->table, id);

    if (!slot) {
        slot = table_insert(&charges->table, id);
        entry_put(slot, (struct entry){0});
    }
    return slot;
}

int64_t charges_drawn(const struct charges *charges)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < table_capacity(&charges->table); i++) {
        const struct table_slot *slot = &table_slots(&charges->table)[i];
        if (!table_is_free(slot))
            sum = num_add(sum, entry_drawn(entry_of(slot)));
    }
    return sum;
}

/* ---- the mean ---- */

static void learn(struct entry *entry, double prior, double asked, double used)
{
    uint64_t samples = entry_samples(*entry);

    assert(asked > 0 && used > 0 && prior > 0);
    if (samples == 0) {
        entry->asked = (float)asked;
        entry->factor = (float)prior;
        samples = PRIOR;
    }
    double mean = (double)entry->asked, sum = (double)entry->factor * mean;
    if (used > TG_FACTOR_MAX * asked)
        used = TG_FACTOR_MAX * asked;
    if (asked > OUTLIER * mean) {
        used *= OUTLIER * mean / asked;
        asked = OUTLIER * mean;
    }
    samples += samples < MEMORY;
    double weight = samples == MEMORY ? 1.0 / MEMORY : 1.0 / (double)samples;
    sum += (used - sum) * weight;
    mean += (asked - mean) * weight;
    entry->asked = (float)mean;
    entry->factor = (float)(sum / mean);
    entry->rest = (entry->rest & ~(2 * RECENT - 1)) | RECENT | samples;
}

/* The start of a mean, as a ticket keeps it. */
static const double PRIOR_UNIT = 1.0 / 16384;

/* Takes back what the ticket draws on the overdraft of one scope. */
static void give_back_one(struct ticket *ticket, unsigned scope, struct entry *entry)
{
    int64_t units = ticket_asked(ticket) - ticket->claim.cost;

    assert(ticket->drawn_from & 1u << scope && entry_drawn(*entry) >= units);
    entry->rest -= (uint64_t)units << 8;
    ticket->drawn_from &= (uint16_t) ~(1u << scope);
    ticket->draws = ticket->drawn_from != 0;
}

/* The slot is that of calls like the ticket's. */
static void learn_at(struct table_slot *slot, struct ticket *ticket, int64_t used)
{
    struct entry entry = entry_of(slot);

    learn(&entry, ticket->prior * PRIOR_UNIT, (double)ticket_asked(ticket), (double)used);
    if (ticket->draws && !ticket->has_like && ticket->drawn_from & 1)
        give_back_one(ticket, 0, &entry); /* it is at hand */
    entry_put(slot, entry);
}

/* Apart, since it is not the rule: what calls functions has registers to save. */
static __attribute__((noinline)) void learn_first(struct charges *charges, struct table_id id,
                                                  struct ticket *ticket, int64_t used)
{
    if (make_room(charges, 1))
        learn_at(find_or_insert(charges, id), ticket, used);
}

void charge_learn(struct tg_gate *gate, struct ticket *ticket, int64_t used)
{
    struct charges *charges = &gate->charges;
    struct table_id id = ticket->has_like ? ticket->like : ticket->claim.ids[0];

    assert(used > 0);
    if (ticket_asked(ticket) <= 0)
        return;
    struct table_slot *slot = table_find(&charges->table, id);
    if (slot)
        learn_at(slot, ticket, used);
    else
        learn_first(charges, id, ticket, used);
}

/* ---- the charge ---- */

/* A charge, and whose overdrafts it draws on. */
struct charge {
    int64_t units;
    uint16_t drawn_from;
};

/* What bounds the charges of a scope. False: nobody knows. */
static bool scope_bounds(const struct tg_gate *gate, const struct tg_scope *scope,
                         struct limit_bounds *bounds)
{
    if (scope->ceiling > 0)
        *bounds = (struct limit_bounds){scope->ceiling, scope->overdraft};
    else if (gate->store)
        *bounds = limit_sets_get(&gate->store->common.sets, scope->limits)->bounds;
    else
        return false;
    return bounds->ceiling > 0;
}

/* What a call is charged that is expected to use so much. `ids` are those of its scopes; `slots`
 * gets the entries of those it draws on, or null, and has that of the first if it is known. */
static struct charge charge_for(const struct tg_gate *gate, const struct tg_debit *debit,
                                const struct table_id *ids, int64_t expected,
                                struct table_slot **slots)
{
    struct charge whole = {.units = debit->cost}, charge = {.units = expected};
    int64_t room = num_less(debit->cost, expected), ceiling = TG_NUMBER_MAX;
    struct limit_bounds bounds;

    for (size_t i = 0; i < debit->n_scopes; i++) {
        if (!scope_bounds(gate, &debit->scopes[i], &bounds))
            return whole;
        ceiling = num_min(ceiling, bounds.ceiling);
        if (room == 0 || bounds.overdraft == TG_NUMBER_MAX)
            continue;
        if (i > 0 || !slots[0])
            slots[i] = table_find(&gate->charges.table, ids[i]);
        int64_t drawn = slots[i] ? entry_drawn(entry_of(slots[i])) : 0;
        room = num_min(room, num_less(bounds.overdraft, drawn));
        charge.drawn_from |= (uint16_t)(1u << i);
    }
    if (debit->cost > ceiling)
        return whole;
    if (expected > debit->cost)
        return (struct charge){.units = num_min(expected, ceiling)};
    if (room == 0)
        return whole;
    charge.units = debit->cost - room;
    return charge;
}

static int64_t expected_use(int64_t asked, double factor)
{
    return num_ceil((double)asked * factor);
}

/* Counts what a call draws on its overdrafts, whose entries are in `slots`, or null. False: there
 * is no room to. */
static bool overdraft_draw(struct charges *charges, const struct table_id *ids, unsigned from,
                           int64_t units, struct table_slot **slots)
{
    bool missing = false;

    for (unsigned bits = from; bits; bits &= bits - 1)
        missing |= !slots[__builtin_ctz(bits)];
    if (missing && !make_room(charges, (uint32_t)__builtin_popcount(from)))
        return false;
    for (unsigned bits = from; bits; bits &= bits - 1) {
        int i = __builtin_ctz(bits);
        struct table_slot *slot = missing ? find_or_insert(charges, ids[i]) : slots[i];
        struct entry entry = entry_of(slot);
        entry.rest += (uint64_t)units << 8;
        entry_put(slot, entry);
    }
    return true;
}

void charge_give_back(struct tg_gate *gate, struct ticket *ticket)
{
    for (unsigned bits = ticket->drawn_from; bits; bits &= bits - 1) {
        unsigned i = (unsigned)__builtin_ctz(bits);
        struct table_slot *slot = table_find(&gate->charges.table, ticket->claim.ids[i]);
        assert(slot);
        struct entry entry = entry_of(slot);
        give_back_one(ticket, i, &entry);
        entry_put(slot, entry);
    }
    assert(!ticket->draws);
}

/* The entry of calls like this one; null: none has ended, or all were forgotten. */
static struct table_slot *like_slot(const struct passage *passage)
{
    return table_find(&passage->gate->charges.table,
                      passage->has_like ? passage->like : passage->named->ids[0]);
}

static double factor_of(const struct table_slot *slot, const struct tg_factor *bounds)
{
    double factor = bounds->start;

    if (slot && entry_samples(entry_of(slot)) > 0)
        factor = (double)entry_of(slot).factor;
    return factor < bounds->min ? bounds->min : factor > bounds->max ? bounds->max : factor;
}

/* Charges a call that has scopes. `like` is the entry of calls like it, or null. */
static double charge_by(const struct passage *passage, struct ticket *ticket, double factor,
                        struct table_slot *like)
{
    const struct tg_debit *debit = &passage->call->debit;
    struct claim *named = passage->named;
    struct table_slot *slots[TG_SCOPES_MAX];

    slots[0] = passage->has_like ? NULL : like;
    struct charge charge =
        charge_for(passage->gate, debit, named->ids, expected_use(debit->cost, factor), slots);
    if (charge.drawn_from != 0) {
        ticket->draws = overdraft_draw(&passage->gate->charges, named->ids, charge.drawn_from,
                                       debit->cost - charge.units, slots);
        if (!ticket->draws)
            return factor;
        ticket->drawn_from = charge.drawn_from;
    }
    named->cost = ticket->claim.cost = charge.units;
    return factor;
}

double charge_choose(const struct passage *passage, struct ticket *ticket)
{
    const struct tg_factor *bounds = charge_bounds(passage->call);

    assert(!ticket->draws && ticket_asked(ticket) == passage->call->debit.cost);
    ticket->has_like = passage->has_like;
    if (passage->has_like)
        ticket->like = passage->like;
    ticket->prior = (uint16_t)(bounds->start / PRIOR_UNIT);
    struct table_slot *like = like_slot(passage);
    double factor = factor_of(like, bounds);
    if (passage->named && (factor < 1 || factor > 1))
        return charge_by(passage, ticket, factor, like);
    return factor;
}

void charge_expect(const struct passage *passage, struct tg_expectation *expectation)
{
    const struct tg_debit *debit = &passage->call->debit;
    struct table_slot *slots[TG_SCOPES_MAX], *like = like_slot(passage);
    double factor = factor_of(like, charge_bounds(passage->call));
    int64_t expected = expected_use(debit->cost, factor);
    struct charge charge = {.units = debit->cost};

    slots[0] = passage->has_like ? NULL : like;
    if (passage->named && (factor < 1 || factor > 1))
        charge = charge_for(passage->gate, debit, passage->named->ids, expected, slots);
    *expectation = (struct tg_expectation){factor, expected, charge.units};
}
