/* admit_bound_leases.c - leases that end with a connection, or hold more than a place at the gate.
 *
 * A caller that dies holding leases keeps their slots until they expire, unless it asked for them
 * to end with its connection. A lease whose cost was charged at the remote store has an account, to
 * be settled by the worker that asked. And one of a caller with slots of its own holds one of them.
 * Those leases are here: by number, for they are renewed and ended by any worker; by connection,
 * for that is how they are found when it ends; and by the time at which they expire, for then the
 * gate has ended them by itself and tells nobody. Whoever takes a lease out ends its parts.
 *
 *     leases: number ----> bound_lease <---- until: the first to expire
 *                            |    ^
 *                            v    | list
 *     connections: number -> bound_connection
 *
 * What is always true: a lease is in `leases` and in `until`; it is in the list of a connection iff
 * it has one; a connection without leases is not in `connections`.
 *
 * One lock for all workers, taken only for leases that are bound: `n` is read before a connection
 * without any would take it. A worker that binds a lease to a connection is the one that hears of
 * its end, so a zero that it reads is not older than what it has bound itself.
 */
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "server/admit/admit_internal.h"

struct bound_lease {
    tg_lease lease;
    struct bound_connection *connection; /* null: none */
    struct bound_parts parts;
    tg_ms until;
    struct heap_node at;
    LIST_ENTRY(bound_lease) beside; /* others of its connection */
    SLIST_ENTRY(bound_lease) spare;
};

struct bound_connection {
    uint64_t number;
    LIST_HEAD(, bound_lease) leases;
    SLIST_ENTRY(bound_connection) spare;
};

static bool expires_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct bound_lease *one = container_of(a, struct bound_lease, at);
    const struct bound_lease *two = container_of(b, struct bound_lease, at);

    return one->until != two->until ? one->until < two->until : one->lease < two->lease;
}

/* ---- finding ---- */

/* Numbers are spread one to one, but for the top bit, which a table does not keep. */
static struct hash_slot *lease_slot(const struct bound_leases *bound, tg_lease lease)
{
    struct hash_slot *slot = hash_table_find(&bound->leases, hash_number(lease));

    while (slot != NULL && ((struct bound_lease *)slot->item)->lease != lease)
        slot = hash_table_find_next(&bound->leases, slot);
    return slot;
}

static struct hash_slot *connection_slot(const struct bound_leases *bound, uint64_t number)
{
    struct hash_slot *slot = hash_table_find(&bound->connections, hash_number(number));

    while (slot != NULL && ((struct bound_connection *)slot->item)->number != number)
        slot = hash_table_find_next(&bound->connections, slot);
    return slot;
}

/* ---- adding and removing ---- */

static void remove_lease(struct bound_leases *bound, struct bound_lease *lease)
{
    struct bound_connection *connection = lease->connection;
    struct hash_slot *slot = lease_slot(bound, lease->lease);

    assert(slot != NULL && slot->item == lease);
    hash_table_remove(&bound->leases, slot);
    heap_remove(&bound->until, &lease->at);
    SLIST_INSERT_HEAD(&bound->spare_leases, lease, spare);
    assert(bound->leases.n == bound->until.n && bound->connections.n <= bound->leases.n + 1);
    atomic_fetch_sub_explicit(&bound->n, 1, memory_order_relaxed);
    if (connection == NULL)
        return;
    LIST_REMOVE(lease, beside);
    if (!LIST_EMPTY(&connection->leases))
        return;
    slot = connection_slot(bound, connection->number);
    assert(slot != NULL && slot->item == connection);
    hash_table_remove(&bound->connections, slot);
    SLIST_INSERT_HEAD(&bound->spare_connections, connection, spare);
}

/* Everything that an add may need, so that the add itself cannot fail half-way. */
static bool reserve(struct bound_leases *bound)
{
    struct bound_connection *connection;
    struct bound_lease *lease;

    if (SLIST_EMPTY(&bound->spare_leases)) {
        if ((lease = malloc(sizeof *lease)) == NULL)
            return false;
        SLIST_INSERT_HEAD(&bound->spare_leases, lease, spare);
    }
    if (SLIST_EMPTY(&bound->spare_connections)) {
        if ((connection = malloc(sizeof *connection)) == NULL)
            return false;
        SLIST_INSERT_HEAD(&bound->spare_connections, connection, spare);
    }
    return hash_table_reserve(&bound->leases, bound->leases.n + 1) == TG_OK &&
           hash_table_reserve(&bound->connections, bound->connections.n + 1) == TG_OK;
}

static struct bound_connection *connection_of(struct bound_leases *bound, uint64_t number)
{
    struct hash_slot *slot = connection_slot(bound, number);
    struct bound_connection *connection;

    if (slot != NULL)
        return slot->item;
    connection = SLIST_FIRST(&bound->spare_connections);
    SLIST_REMOVE_HEAD(&bound->spare_connections, spare);
    connection->number = number;
    LIST_INIT(&connection->leases);
    hash_table_insert(&bound->connections, hash_number(number))->item = connection;
    return connection;
}

static bool add_lease(struct bound_leases *bound, tg_lease number, uint64_t connection,
                      const struct bound_parts *parts, tg_ms until)
{
    struct bound_lease *lease;

    assert(lease_slot(bound, number) == NULL); /* a lease is minted once */
    if (!reserve(bound))
        return false;
    lease = SLIST_FIRST(&bound->spare_leases);
    lease->lease = number;
    lease->parts = *parts;
    lease->until = until;
    lease->connection = NULL;
    if (!heap_add(&bound->until, &lease->at))
        return false; /* and it stays spare */
    SLIST_REMOVE_HEAD(&bound->spare_leases, spare);
    hash_table_insert(&bound->leases, hash_number(number))->item = lease;
    if (connection != 0) {
        lease->connection = connection_of(bound, connection);
        LIST_INSERT_HEAD(&lease->connection->leases, lease, beside);
    }
    atomic_fetch_add_explicit(&bound->n, 1, memory_order_relaxed);
    return true;
}

/* ---- the interface ---- */

void bound_leases_init(struct bound_leases *bound)
{
    pthread_mutex_init(&bound->lock, NULL);
    heap_init(&bound->until, expires_before);
    SLIST_INIT(&bound->spare_leases);
    SLIST_INIT(&bound->spare_connections);
}

void bound_leases_fini(struct bound_leases *bound)
{
    struct bound_connection *connection;
    struct bound_lease *lease;

    while (bound->until.n > 0) {
        lease = container_of(bound->until.nodes[0], struct bound_lease, at);
        remove_lease(bound, lease);
        if (lease->parts.slots != NULL)
            slots_unref(lease->parts.slots);
    }
    assert(bound->leases.n == 0 && bound->connections.n == 0);
    while ((lease = SLIST_FIRST(&bound->spare_leases)) != NULL) {
        SLIST_REMOVE_HEAD(&bound->spare_leases, spare);
        free(lease);
    }
    while ((connection = SLIST_FIRST(&bound->spare_connections)) != NULL) {
        SLIST_REMOVE_HEAD(&bound->spare_connections, spare);
        free(connection);
    }
    heap_fini(&bound->until);
    hash_table_fini(&bound->leases);
    hash_table_fini(&bound->connections);
    pthread_mutex_destroy(&bound->lock);
}

bool bound_leases_add(struct bound_leases *bound, tg_lease lease, uint64_t connection,
                      const struct bound_parts *parts, tg_ms until)
{
    pthread_mutex_lock(&bound->lock);
    bool added = add_lease(bound, lease, connection, parts, until);
    pthread_mutex_unlock(&bound->lock);
    return added;
}

void bound_leases_renew(struct bound_leases *bound, tg_lease lease, tg_ms now, tg_ms until)
{
    pthread_mutex_lock(&bound->lock);
    struct hash_slot *slot = lease_slot(bound, lease);
    if (slot != NULL) {
        struct bound_lease *found = slot->item;
        found->until = until;
        heap_moved(&bound->until, &found->at);
        if (found->parts.slots != NULL)
            tg_gate_renew(found->parts.slots->gate, found->parts.slot, now, until - now);
    }
    pthread_mutex_unlock(&bound->lock);
}

struct bound_parts bound_leases_drop(struct bound_leases *bound, tg_lease lease)
{
    struct bound_parts parts = {0};

    pthread_mutex_lock(&bound->lock);
    struct hash_slot *slot = lease_slot(bound, lease);
    if (slot != NULL) {
        struct bound_lease *found = slot->item;
        parts = found->parts;
        remove_lease(bound, found);
    }
    pthread_mutex_unlock(&bound->lock);
    return parts;
}

bool bound_leases_has(struct bound_leases *bound, uint64_t connection)
{
    if (atomic_load_explicit(&bound->n, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&bound->lock);
    bool has = connection_slot(bound, connection) != NULL;
    pthread_mutex_unlock(&bound->lock);
    return has;
}

tg_lease bound_leases_take(struct bound_leases *bound, uint64_t connection,
                           struct bound_parts *parts)
{
    tg_lease number = 0;

    if (atomic_load_explicit(&bound->n, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&bound->lock);
    struct hash_slot *slot = connection_slot(bound, connection);
    if (slot != NULL) {
        struct bound_lease *first = LIST_FIRST(&((struct bound_connection *)slot->item)->leases);
        assert(first != NULL);
        number = first->lease;
        *parts = first->parts;
        remove_lease(bound, first);
    }
    pthread_mutex_unlock(&bound->lock);
    return number;
}

tg_lease bound_leases_take_expired(struct bound_leases *bound, tg_ms now, struct bound_parts *parts)
{
    struct heap_node *first;
    tg_lease number = 0;

    if (atomic_load_explicit(&bound->n, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&bound->lock);
    if ((first = heap_first(&bound->until)) != NULL &&
        container_of(first, struct bound_lease, at)->until <= now) {
        struct bound_lease *lease = container_of(first, struct bound_lease, at);
        number = lease->lease;
        *parts = lease->parts;
        remove_lease(bound, lease);
    }
    pthread_mutex_unlock(&bound->lock);
    return number;
}
