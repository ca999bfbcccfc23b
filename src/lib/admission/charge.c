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

static struct table_id like_of_ticket(const struct ticket *ticket)
{
    return ticket->has_like ? ticket->like : ticket->claim.ids[0];
}

void charge_learn(struct tg_gate *gate, struct ticket *ticket, int64_t used)
{
    struct charges *charges = &gate->charges;
    int64_t asked = ticket_asked(ticket);
    struct table_id id = like_of_ticket(ticket);
    struct table_slot *slot = table_find(&charges->table, id);

    if (asked <= 0 || used <= 0)
        return;
    if (!slot && make_room(charges, 1))
        slot = find_or_insert(charges, id);
    if (!slot)
        return;
    struct entry entry = entry_of(slot);
    learn(&entry, ticket->prior * PRIOR_UNIT, (double)asked, (double)used);
    entry_put(slot, entry);
}

static double factor_of(const struct charges *charges, struct table_id like,
                        struct tg_factor bounds)
{
    const struct table_slot *slot = table_find(&charges->table, like);
    double factor = bounds.start;

    if (slot && entry_samples(entry_of(slot)) > 0)
        factor = (double)entry_of(slot).factor;
    return factor < bounds.min ? bounds.min : factor > bounds.max ? bounds.max : factor;
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

static int64_t drawn_on(const struct charges *charges, struct table_id id)
{
    const struct table_slot *slot = table_find(&charges->table, id);

    return slot ? entry_drawn(entry_of(slot)) : 0;
}

/* What a call is charged that is expected to use so much. `ids` are those of its scopes. */
static struct charge charge_for(const struct tg_gate *gate, const struct tg_debit *debit,
                                const struct table_id *ids, int64_t expected)
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
        room = num_min(room, num_less(bounds.overdraft, drawn_on(&gate->charges, ids[i])));
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

/* Counts what the ticket draws on its overdrafts. False: there is no room to. */
static bool overdraft_draw(struct charges *charges, const struct table_id *ids, unsigned from,
                           int64_t units)
{
    bool missing = false;

    for (unsigned bits = from; bits; bits &= bits - 1)
        missing |= !table_find(&charges->table, ids[__builtin_ctz(bits)]);
    if (missing && !make_room(charges, (uint32_t)__builtin_popcount(from)))
        return false;
    for (unsigned bits = from; bits; bits &= bits - 1) {
        struct table_slot *slot = find_or_insert(charges, ids[__builtin_ctz(bits)]);
        struct entry entry = entry_of(slot);
        entry.rest += (uint64_t)units << 8;
        entry_put(slot, entry);
    }
    return true;
}

void charge_give_back(struct tg_gate *gate, struct ticket *ticket)
{
    uint64_t units = (uint64_t)(ticket_asked(ticket) - ticket->claim.cost);

    for (unsigned bits = ticket->drawn_from; bits; bits &= bits - 1) {
        struct table_slot *slot =
            table_find(&gate->charges.table, ticket->claim.ids[__builtin_ctz(bits)]);
        assert(slot && entry_drawn(entry_of(slot)) >= (int64_t)units);
        struct entry entry = entry_of(slot);
        entry.rest -= units << 8;
        entry_put(slot, entry);
    }
    ticket->draws = false;
}

static double passage_factor(const struct passage *passage)
{
    const struct table_id like = passage->has_like ? passage->like : passage->named->ids[0];

    return factor_of(&passage->gate->charges, like, charge_bounds(passage->call));
}

double charge_choose(const struct passage *passage, struct ticket *ticket)
{
    struct charges *charges = &passage->gate->charges;
    const struct tg_call *call = passage->call;
    struct claim *named = passage->named;
    double factor = passage_factor(passage);
    struct charge charge = {.units = call->debit.cost};

    assert(!ticket->draws && ticket_asked(ticket) == call->debit.cost);
    ticket->has_like = passage->has_like;
    if (passage->has_like)
        ticket->like = passage->like;
    ticket->prior = (uint16_t)(charge_bounds(call).start / PRIOR_UNIT);
    if (!named || !(factor < 1 || factor > 1))
        return factor;
    charge =
        charge_for(passage->gate, &call->debit, named->ids, expected_use(call->debit.cost, factor));
    if (charge.drawn_from != 0 &&
        !overdraft_draw(charges, named->ids, charge.drawn_from, call->debit.cost - charge.units))
        charge = (struct charge){.units = call->debit.cost};
    ticket->draws = charge.drawn_from != 0;
    if (ticket->draws)
        ticket->drawn_from = charge.drawn_from;
    named->cost = charge.units;
    return factor;
}

void charge_expect(const struct passage *passage, struct tg_expectation *expectation)
{
    const struct tg_debit *debit = &passage->call->debit;
    double factor = passage_factor(passage);
    int64_t expected = expected_use(debit->cost, factor);
    struct charge charge = {.units = debit->cost};

    if (passage->named && (factor < 1 || factor > 1))
        charge = charge_for(passage->gate, debit, passage->named->ids, expected);
    *expectation = (struct tg_expectation){factor, expected, charge.units};
}
