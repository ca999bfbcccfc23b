/* server.h - a server in virtual time: workers with a queue, or workers that all calls share.
 *
 * First in first out: a call that starts holds a worker for its service. Shared: every call starts
 * at once, and n calls on W workers each get min(1, W / n) of one. After its service a call may
 * stay for a delay that needs no worker.
 *
 * Work that refusing has made (server_add_work) is done by the next call to start, on top of its
 * own service. When workers get fewer, running calls finish and nothing starts in their place; more
 * workers start at the next call that comes or ends.
 *
 * Calls are the owner's, with a struct server_call in them. Time is a double in ms. Events at the
 * same time happen in the order in which they were scheduled.
 */
#ifndef TG_SCENARIO_SERVER_H
#define TG_SCENARIO_SERVER_H

#include <sys/queue.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Something that will happen, in a binary heap ordered by time and then by number. */
struct agenda_item {
    double at;
    uint64_t number;
    void *what;
    uint64_t detail; /* the owner's */
};

struct agenda {
    struct agenda_item *items;
    size_t n, capacity;
    uint64_t numbers;
};

/* False: no memory. */
bool agenda_add(struct agenda *agenda, double at, void *what, uint64_t detail);
struct agenda_item agenda_take(struct agenda *agenda);
void agenda_fini(struct agenda *agenda);

struct server_call {
    double service_ms;
    double started_ms; /* when its service began; refusing makes it longer, and no later */
    STAILQ_ENTRY(server_call) next;
};

struct server {
    bool shared;
    double workers;
    double now_ms;
    double extra_ms; /* work that refusing has made */
    int64_t busy;    /* calls in service */
    STAILQ_HEAD(, server_call) queue;

    /* Those in service, by the time at which that ends; if shared, by the work that each call has
     * been given until then, `given_ms` now. */
    struct agenda running;
    double given_ms;
    bool out_of_memory;

    /* A service has begun. It must not call the server. Null: nobody wants to know. */
    void (*started)(void *context, struct server_call *call);
    void *context;
};

void server_init(struct server *server, bool shared);
void server_fini(struct server *server);

/* The time is now `now_ms`, at most server_next_ms(). */
void server_advance(struct server *server, double now_ms);

void server_add_work(struct server *server, double ms);

/* A call comes. */
void server_enter(struct server *server, struct server_call *call);

/* When the next service ends; INFINITY: nothing runs. */
double server_next_ms(const struct server *server);

/* Ends the service that ends now, and starts the next call. */
struct server_call *server_end_service(struct server *server);

#endif
