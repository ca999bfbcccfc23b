/* admit_bound_leases.c - leases that are written down: they end with a connection, or have an
 * account.
 *
 * A caller that dies holding leases keeps their slots until their time is over, unless it asked for
 * them to end with its connection. And a lease whose cost was charged elsewhere has an account, to
 * be settled by the worker that has it. Those are here: by lease, for they are renewed and ended by
 * any worker; by connection, for that is how they are looked for; and in the order in which their
 * time is over, for then the gate has ended them by itself and nobody tells. Who takes a lease out
 * is the one who closes its account.
 *
 * One lock for all workers, taken only for leases that are tied: `n` is looked at before a
 * connection without any would take it. A worker that ties a lease to a connection is the one that
 * hears of its end, so a zero that it reads is not older than what it has tied itself.
 */
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "server/admit/admit_internal.h"

enum { ROOM_FIRST = 64 };

struct tie {
    tg_lease lease;
    uint64_t connection;           /* 0: none */
    struct admit_pending *account; /* null: none */
    tg_ms until;
    struct heap_node at;
    struct tie *next_lease, **from_lease; /* neighbours in its chains */
    struct tie *next_connection, **from_connection;
};

static bool ends_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct tie *one = container_of(a, struct tie, at);
    const struct tie *two = container_of(b, struct tie, at);

    return one->until != two->until ? one->until < two->until : one->lease < two->lease;
}

/* Numbers that count up, which nobody outside chooses. */
static size_t chain_of(const struct ties *ties, uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(number ^ number >> 32) & (ties->room - 1);
}

/* ---- chains ---- */

static void link_tie(struct ties *ties, struct tie *tie)
{
    struct tie **lease = &ties->leases[chain_of(ties, tie->lease)];
    struct tie **connection = &ties->connections[chain_of(ties, tie->connection)];

    tie->next_lease = *lease;
    tie->from_lease = lease;
    if (*lease != NULL)
        (*lease)->from_lease = &tie->next_lease;
    *lease = tie;
    if (tie->connection == 0)
        return;
    tie->next_connection = *connection;
    tie->from_connection = connection;
    if (*connection != NULL)
        (*connection)->from_connection = &tie->next_connection;
    *connection = tie;
}

static void unlink_tie(struct tie *tie)
{
    *tie->from_lease = tie->next_lease;
    if (tie->next_lease != NULL)
        tie->next_lease->from_lease = tie->from_lease;
    if (tie->connection == 0)
        return;
    *tie->from_connection = tie->next_connection;
    if (tie->next_connection != NULL)
        tie->next_connection->from_connection = tie->from_connection;
}

static bool admit_bound_leases_make_room(struct ties *ties)
{
    size_t room = ties->room > 0 ? 2 * ties->room : ROOM_FIRST;
    struct tie **leases, **connections;

    if (ties->until.n < ties->room)
        return true;
    leases = calloc(room, sizeof *leases);
    connections = calloc(room, sizeof(struct tie *));
    if (leases == NULL || connections == NULL) {
        free(leases);
        free(connections);
        return ties->room > 0; /* longer chains will do */
    }
    free(ties->leases);
    free(ties->connections);
    ties->leases = leases;
    ties->connections = connections;
    ties->room = room;
    for (size_t i = 0; i < ties->until.n; i++)
        link_tie(ties, container_of(ties->until.nodes[i], struct tie, at));
    return true;
}

static struct tie *admit_bound_leases_find(const struct ties *ties, tg_lease lease)
{
    struct tie *tie = ties->room > 0 ? ties->leases[chain_of(ties, lease)] : NULL;

    while (tie != NULL && tie->lease != lease)
        tie = tie->next_lease;
    return tie;
}

static void admit_bound_leases_forget(struct ties *ties, struct tie *tie)
{
    unlink_tie(tie);
    heap_remove(&ties->until, &tie->at);
    tie->next_lease = ties->spare;
    ties->spare = tie;
    atomic_fetch_sub_explicit(&ties->n, 1, memory_order_relaxed);
}

static bool admit_bound_leases_add(struct ties *ties, const struct tie *like)
{
    struct tie *tie = ties->spare;

    if (!admit_bound_leases_make_room(ties))
        return false;
    if (tie != NULL)
        ties->spare = tie->next_lease;
    else if ((tie = malloc(sizeof *tie)) == NULL)
        return false;
    *tie = *like;
    if (!heap_add(&ties->until, &tie->at)) {
        free(tie);
        return false;
    }
    link_tie(ties, tie);
    atomic_fetch_add_explicit(&ties->n, 1, memory_order_relaxed);
    return true;
}

/* ---- all ---- */

void ties_init(struct ties *ties)
{
    pthread_mutex_init(&ties->lock, NULL);
    heap_init(&ties->until, ends_before);
}

void ties_fini(struct ties *ties)
{
    struct tie *next;

    for (size_t i = 0; i < ties->until.n; i++)
        free(container_of(ties->until.nodes[i], struct tie, at));
    for (struct tie *tie = ties->spare; tie; tie = next) {
        next = tie->next_lease;
        free(tie);
    }
    heap_fini(&ties->until);
    free(ties->leases);
    free(ties->connections);
    pthread_mutex_destroy(&ties->lock);
}

bool ties_add(struct ties *ties, tg_lease lease, uint64_t connection, struct admit_pending *account,
              tg_ms until)
{
    const struct tie like = {
        .lease = lease, .connection = connection, .account = account, .until = until};

    pthread_mutex_lock(&ties->lock);
    bool fine = admit_bound_leases_add(ties, &like);
    pthread_mutex_unlock(&ties->lock);
    return fine;
}

void ties_renew(struct ties *ties, tg_lease lease, tg_ms until)
{
    pthread_mutex_lock(&ties->lock);
    struct tie *tie = admit_bound_leases_find(ties, lease);
    if (tie != NULL) {
        tie->until = until;
        heap_moved(&ties->until, &tie->at);
    }
    pthread_mutex_unlock(&ties->lock);
}

struct admit_pending *ties_drop(struct ties *ties, tg_lease lease)
{
    struct admit_pending *account = NULL;

    pthread_mutex_lock(&ties->lock);
    struct tie *tie = admit_bound_leases_find(ties, lease);
    if (tie != NULL) {
        account = tie->account;
        admit_bound_leases_forget(ties, tie);
    }
    pthread_mutex_unlock(&ties->lock);
    return account;
}

static struct tie *find_connection(const struct ties *ties, uint64_t connection)
{
    struct tie *tie = ties->room > 0 ? ties->connections[chain_of(ties, connection)] : NULL;

    while (tie != NULL && tie->connection != connection)
        tie = tie->next_connection;
    return tie;
}

bool ties_has(struct ties *ties, uint64_t connection)
{
    if (atomic_load_explicit(&ties->n, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&ties->lock);
    bool has = find_connection(ties, connection) != NULL;
    pthread_mutex_unlock(&ties->lock);
    return has;
}

tg_lease ties_take(struct ties *ties, uint64_t connection, struct admit_pending **account)
{
    tg_lease lease = 0;

    if (atomic_load_explicit(&ties->n, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&ties->lock);
    struct tie *tie = find_connection(ties, connection);
    if (tie != NULL) {
        lease = tie->lease;
        *account = tie->account;
        admit_bound_leases_forget(ties, tie);
    }
    pthread_mutex_unlock(&ties->lock);
    return lease;
}

void ties_expire(struct ties *ties, tg_ms now, void (*close)(struct admit_pending *account))
{
    struct heap_node *first;

    if (atomic_load_explicit(&ties->n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&ties->lock);
    while ((first = heap_first(&ties->until)) != NULL &&
           container_of(first, struct tie, at)->until <= now) {
        struct tie *tie = container_of(first, struct tie, at);
        if (tie->account != NULL)
            close(tie->account);
        admit_bound_leases_forget(ties, tie);
    }
    pthread_mutex_unlock(&ties->lock);
}
