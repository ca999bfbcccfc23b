/* http_give_way.c - connections without an exchange, and which of them gives way to a new one.
 *
 * Whoever holds a connection without using it can make another; who has just come is about to use
 * his. So what has been silent for FRESH_MS goes first, and what is fresh is closed only when there
 * is nothing else to close:
 *
 *     1  those that were refused, and have been told so
 *     2  of strangers, then of clients that are expected: silent for FRESH_MS
 *     3  of crowds: those of strangers, and silent ones, where more than CROWD are idle; fresh ones
 *        of clients that are expected or known, where more than a part of all places are
 *     4  of clients that are known: silent for FRESH_MS
 *     5  of strangers: fresh
 *     6  of clients that are expected: fresh
 *     7  of clients that are known: between two requests
 *
 * A client is known on a connection once it has shown there who it is. Until then it is expected if
 * somebody has shown so from the same address within KNOWN_FOR_S: most likely it is the same one,
 * with one connection more. Everybody else is a stranger. Clients that are known or expected are
 * counted by who they are, from however many addresses they come; strangers by address.
 *
 * Without 3, an address that opens connections faster than they grow old would push out all that
 * are known, or, after one good request on each of its own, all that are new. Many addresses with a
 * few connections each are no crowd; if CROWD counted for a busy client too, it would be the only
 * one, and give way to them. That is so between two of its requests as well as before the first on
 * each new connection: it has most of these when it, or this machine, is at its busiest. Within 2
 * to 7 the crowd with the most goes first, and of its connections the one that has been silent for
 * longest. The most is the mean over the last MEAN_MS, and only among equals the number of now: a
 * client that makes many calls at once has many connections that are silent for some milliseconds,
 * one that keeps places has them all the time. The first bytes of a head make a connection fresh
 * again, but not those that follow: senders of slow heads would have all the places.
 *
 * A listener knows its own connections alone. Before 5, it looks whether others have idle ones:
 * then it lets the new one in beyond the bound, by 1 in 32 at most, and they make room as soon as
 * somebody comes to them.
 */
#include <limits.h>
#include <sys/socket.h>

#include "io/http/http_server_internal.h"

#define FRESH_MS 2000
#define CROWD 8
#define CROWD_PART 8 /* an eighth of all places */
#define KNOWN_FOR_S 3600
#define MEAN_MS 256
#define AHEAD_MS 60000 /* the clock of one thread before that of another, at the most */
#define MEAN_ONE 4096  /* one connection, in a mean */
#define LOOKED_AT 64   /* connections at an end of a list that are looked at for one to give way */
#define DISCARDED (1 << 20)

/* ---- Idle or not ----------------------------------------------------------------------------- */

/* Who was last known at an address: the client in the lower half of a word, and when, in s, in the
 * upper one. Relaxed, here and below: words that guard no other memory. */
static uint32_t client_at(const struct http1_conn *conn)
{
    const struct http_census *census = conn->listener->census;

    if (census == NULL || conn->address_slot < 0)
        return 0;
    uint64_t word =
        atomic_load_explicit(&census->known_at[conn->address_slot], memory_order_relaxed);
    uint32_t now = (uint32_t)(net_loop_now(conn->listener->loop) / 1000);
    return word != 0 && now - (uint32_t)(word >> 32) <= KNOWN_FOR_S ? (uint32_t)word : 0;
}

static void set_client_at(const struct http1_conn *conn)
{
    struct http_census *census = conn->listener->census;
    uint64_t now = (uint32_t)(net_loop_now(conn->listener->loop) / 1000);

    if (census != NULL && conn->address_slot >= 0)
        atomic_store_explicit(&census->known_at[conn->address_slot], now << 32 | conn->client,
                              memory_order_relaxed);
}

static enum http_idle_list list_of(const struct http1_conn *conn)
{
    if (conn->refused)
        return HTTP_IDLE_REFUSED;
    if (conn->client != 0)
        return HTTP_IDLE_KNOWN;
    return client_at(conn) != 0 ? HTTP_IDLE_EXPECTED : HTTP_IDLE_STRANGER;
}

/* Null, where its address is not counted. */
static struct http_crowd *crowd_for(const struct http1_conn *conn)
{
    struct http_census *census = conn->listener->census;
    uint32_t client = conn->client != 0 ? conn->client : client_at(conn);

    if (census == NULL || conn->address_slot < 0)
        return NULL;
    return client != 0 ? &census->clients[client % HTTP_ADDRESS_SLOTS]
                       : &census->strangers[conn->address_slot];
}

/* The idle connections of a crowd. `mean` is that of the last MEAN_MS, in 1/MEAN_ONE. */
struct crowd {
    int now;
    uint32_t mean;
};

/* The mean has its time beside it, in ms, in the upper half of one word. Up to then it holds; since
 * then there have been `now`. */
static uint64_t mean_at(uint64_t word, int now, uint32_t at)
{
    uint32_t since = at - (uint32_t)(word >> 32);
    int64_t mean = (uint32_t)word;

    if (word != 0 && (since == 0 || since > UINT32_MAX - AHEAD_MS))
        return word;
    if (since > MEAN_MS)
        since = MEAN_MS;
    mean += ((int64_t)now * MEAN_ONE - mean) * since / MEAN_MS;
    return (uint64_t)at << 32 | (uint32_t)mean;
}

/* None, where it is not counted. */
static struct crowd crowd_of(const struct http1_conn *conn)
{
    const struct http_crowd *crowd = conn->crowd;

    if (crowd == NULL)
        return (struct crowd){0, 0};
    int now = atomic_load_explicit(&crowd->idle, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&crowd->mean, memory_order_relaxed);
    word = mean_at(word, now, (uint32_t)net_loop_now(conn->listener->loop));
    return (struct crowd){now, (uint32_t)word};
}

static void count_crowd(struct http1_conn *conn, int change)
{
    uint32_t at = (uint32_t)net_loop_now(conn->listener->loop);
    unsigned long long word = atomic_load_explicit(&conn->crowd->mean, memory_order_relaxed);
    int before = atomic_fetch_add_explicit(&conn->crowd->idle, change, memory_order_relaxed);

    /* Where another thread was faster, its word holds: they differ by less than one connection. */
    (void)atomic_compare_exchange_strong_explicit(&conn->crowd->mean, &word,
                                                  mean_at(word, before, at), memory_order_relaxed,
                                                  memory_order_relaxed);
}

static void count_idle(struct http1_conn *conn, int change)
{
    if (conn->listener->census == NULL || conn->refused)
        return;
    conn->listener->n_idle += change;
    atomic_fetch_add_explicit(&conn->listener->census->idle, change, memory_order_relaxed);
    if (conn->crowd != NULL)
        count_crowd(conn, change);
}

/* It is where it was counted, whatever has become known of its address since. */
static void enter_idle(struct http1_conn *conn)
{
    conn->idle_list = list_of(conn);
    conn->crowd = crowd_for(conn);
    TAILQ_INSERT_TAIL(&conn->listener->idle[conn->idle_list], conn, in_idle);
    count_idle(conn, 1);
    conn->idle = true;
}

static void leave_idle(struct http1_conn *conn)
{
    TAILQ_REMOVE(&conn->listener->idle[conn->idle_list], conn, in_idle);
    count_idle(conn, -1);
    conn->idle = false;
}

void http_conn_set_idle(struct http1_conn *conn, bool idle)
{
    if (conn->idle == idle)
        return;
    if (!idle) {
        leave_idle(conn);
        return;
    }
    conn->idle_since = net_loop_now(conn->listener->loop);
    enter_idle(conn);
}

void http_conn_refresh(struct http1_conn *conn)
{
    if (!conn->idle)
        return;
    http_conn_set_idle(conn, false);
    http_conn_set_idle(conn, true);
}

void http_conn_set_client(struct http1_conn *conn, uint32_t client)
{
    bool idle = conn->idle;

    http_conn_set_idle(conn, false);
    conn->client = client;
    set_client_at(conn);
    http_conn_set_idle(conn, idle);
}

void http_conn_set_refused(struct http1_conn *conn)
{
    bool idle = conn->idle;

    http_conn_set_idle(conn, false);
    conn->refused = true;
    http_conn_set_idle(conn, idle);
}

void http_conn_set_address(struct http1_conn *conn, int slot)
{
    bool idle = conn->idle;

    http_conn_set_idle(conn, false);
    conn->address_slot = slot;
    http_conn_set_idle(conn, idle);
}

/* ---- Which one ------------------------------------------------------------------------------- */

struct http_rank {
    enum http_idle_list list;
    bool fresh;
    bool last; /* those of other listeners go before */
};

static bool is_fresh(const struct http1_conn *conn)
{
    return net_loop_now(conn->listener->loop) - conn->idle_since < FRESH_MS;
}

static const struct crowd NOBODY = {-1, 0};

static bool is_more(struct crowd a, struct crowd b)
{
    uint32_t mean_a = a.mean / MEAN_ONE, mean_b = b.mean / MEAN_ONE;

    return mean_a != mean_b ? mean_a > mean_b : a.now > b.now;
}

/* Bytes have come that nobody has read: it is about to be used. */
static bool is_speaking(const struct http1_conn *conn)
{
    char byte;

    return conn->wire.fd >= 0 && conn->phase != HTTP1_LINGER &&
           recv(conn->wire.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Whoever was a stranger when it came may be expected by now. */
static bool is_expected_now(struct http1_conn *conn)
{
    if (conn->idle_list != HTTP_IDLE_STRANGER || list_of(conn) == HTTP_IDLE_STRANGER)
        return false;
    leave_idle(conn);
    enter_idle(conn);
    return true;
}

/* Whether it may give way: of this rank, of a crowd of more than `least`, and more than `other`. */
static bool may_go(struct http1_conn *conn, const struct http_rank *rank, int least,
                   struct crowd other)
{
    struct crowd crowd = crowd_of(conn);

    if (is_expected_now(conn) || is_fresh(conn) != rank->fresh || crowd.now <= least ||
        !is_more(crowd, other) || is_speaking(conn))
        return false;
    if (rank->list != HTTP_IDLE_KNOWN || !http1_conn_is_kept(conn))
        return true;
    http_conn_refresh(conn); /* its owner wants it to stay: behind the others */
    return false;
}

/* The one of the largest crowd, of those that may go; the longest idle of these. */
static struct http1_conn *find_idle(struct http_listener *listener, const struct http_rank *rank,
                                    int least, struct crowd other)
{
    struct http1_conn *found = NULL, *conn = TAILQ_FIRST(&listener->idle[rank->list]), *next;

    for (int i = 0; conn != NULL && i < LOOKED_AT; i++, conn = next) {
        next = TAILQ_NEXT(conn, in_idle);
        if (!rank->fresh && is_fresh(conn))
            break; /* and so are those behind it */
        if (may_go(conn, rank, least, other)) {
            found = conn;
            other = crowd_of(conn);
        }
    }
    return found;
}

/* The same among the newest. Whoever makes many has some there, however many older ones others
 * have that must not go. */
static struct http1_conn *find_newest(struct http_listener *listener, const struct http_rank *rank,
                                      int least, struct crowd other)
{
    struct http1_conn *found = NULL, *next;
    struct http1_conn *conn = TAILQ_LAST(&listener->idle[rank->list], http_idle);

    for (int i = 0; conn != NULL && i < LOOKED_AT; i++, conn = next) {
        next = TAILQ_PREV(conn, http_idle, in_idle);
        if (may_go(conn, rank, least, other)) {
            found = conn;
            other = crowd_of(conn);
        }
    }
    return found;
}

static bool others_have_idle_ones(const struct http_listener *listener)
{
    struct http_census *census = listener->census;

    if (census == NULL)
        return false;
    long long open = atomic_load_explicit(&census->open, memory_order_relaxed);
    long long max = atomic_load_explicit(&census->max, memory_order_relaxed);
    return max > 0 && open <= max + max / 32 &&
           atomic_load_explicit(&census->idle, memory_order_relaxed) > listener->n_idle;
}

static void close_for_another(struct http1_conn *conn)
{
    /* Bytes that are not read would have the system send RST, before which a reply may be lost. */
    http1_conn_excuse(conn, "there are too many connections");
    if (conn->wire.fd >= 0)
        (void)recv(conn->wire.fd, NULL, DISCARDED, MSG_TRUNC | MSG_DONTWAIT);
    http1_conn_end(conn, HTTP_TIMEOUT);
}

bool http_end_refused(struct http_listener *listener)
{
    struct http1_conn *conn = TAILQ_FIRST(&listener->idle[HTTP_IDLE_REFUSED]);

    if (conn != NULL)
        close_for_another(conn);
    return conn != NULL;
}

/* From how many idle connections on it is a crowd, for connections of this rank. */
static int crowd_from(const struct http_listener *listener, const struct http_rank *rank)
{
    struct http_census *census = listener->census;

    if (rank->list == HTTP_IDLE_STRANGER || !rank->fresh || census == NULL)
        return CROWD;
    long long part = atomic_load_explicit(&census->max, memory_order_relaxed) / CROWD_PART;
    return part > INT_MAX ? INT_MAX : part > CROWD ? (int)part : CROWD;
}

/* A connection of the largest crowd. */
static struct http1_conn *find_crowded(struct http_listener *listener,
                                       const struct http_rank *ranks, size_t n)
{
    struct http1_conn *found = NULL;
    struct crowd other = NOBODY;

    for (size_t i = 0; i < n; i++) {
        int least = crowd_from(listener, &ranks[i]);
        struct http1_conn *conn = find_idle(listener, &ranks[i], least, other);
        if (conn == NULL && ranks[i].fresh)
            conn = find_newest(listener, &ranks[i], least, other);
        if (conn != NULL) {
            found = conn;
            other = crowd_of(conn);
        }
    }
    return found;
}

enum http_way http_give_way(struct http_listener *listener)
{
    static const struct http_rank order[] = {
        {HTTP_IDLE_STRANGER, false, false}, {HTTP_IDLE_EXPECTED, false, false},
        {HTTP_IDLE_KNOWN, false, false},    {HTTP_IDLE_STRANGER, true, true},
        {HTTP_IDLE_EXPECTED, true, true},   {HTTP_IDLE_KNOWN, true, true},
    };
    struct http1_conn *conn = NULL;

    if (http_end_refused(listener))
        return HTTP_WAY_MADE;
    for (size_t i = 0; conn == NULL && i < sizeof order / sizeof order[0]; i++) {
        if (order[i].last && others_have_idle_ones(listener))
            return HTTP_WAY_ELSEWHERE;
        conn = find_idle(listener, &order[i], -1, NOBODY);
        if (conn == NULL && i == 1)
            conn = find_crowded(listener, order + 2, 4);
    }
    if (conn != NULL)
        close_for_another(conn);
    return conn != NULL ? HTTP_WAY_MADE : HTTP_WAY_NONE;
}
