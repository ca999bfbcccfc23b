/* server.c - a server in virtual time. See server.h.
 *
 * A shared server keeps one clock, the work that each call in it has been given so far: a call that
 * comes when that is g and needs s ends when it is g + s, so that a call costs O(log n) though all
 * the others slow down with each that comes.
 */
#include "lab/scenario/server.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/core/array.h"

/* ---- Agenda ---------------------------------------------------------------------------------- */

static bool agenda_before(const struct agenda_item *a, const struct agenda_item *b)
{
    return a->at < b->at || (a->at <= b->at && a->number < b->number);
}

bool agenda_add(struct agenda *agenda, double at, void *what, uint64_t detail)
{
    struct agenda_item item = {at, agenda->numbers++, what, detail};

    if (!array_reserve(&agenda->items, &agenda->capacity, agenda->n + 1))
        return false;
    size_t i = agenda->n++;
    while (i > 0 && agenda_before(&item, &agenda->items[(i - 1) / 2])) {
        agenda->items[i] = agenda->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    agenda->items[i] = item;
    return true;
}

struct agenda_item agenda_take(struct agenda *agenda)
{
    assert(agenda->n > 0);
    struct agenda_item first = agenda->items[0], last = agenda->items[--agenda->n];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < agenda->n; i = child) {
        if (child + 1 < agenda->n &&
            agenda_before(&agenda->items[child + 1], &agenda->items[child]))
            child++;
        if (!agenda_before(&agenda->items[child], &last))
            break;
        agenda->items[i] = agenda->items[child];
    }
    agenda->items[i] = last;
    assert(agenda->n == 0 || agenda_before(&first, &agenda->items[0]));
    return first;
}

void agenda_fini(struct agenda *agenda)
{
    free(agenda->items);
    *agenda = (struct agenda){0};
}

/* ---- Server ---------------------------------------------------------------------------------- */

void server_init(struct server *server, bool shared)
{
    *server = (struct server){.shared = shared};
    STAILQ_INIT(&server->queue);
}

void server_fini(struct server *server)
{
    agenda_fini(&server->running);
}

/* The part of a worker that each call gets. */
static double speed(const struct server *server)
{
    double calls = (double)server->busy;

    return calls <= server->workers ? 1 : server->workers / calls;
}

void server_advance(struct server *server, double now_ms)
{
    assert(now_ms >= server->now_ms);
    if (server->shared)
        server->given_ms += (now_ms - server->now_ms) * speed(server);
    server->now_ms = now_ms;
}

void server_add_work(struct server *server, double ms)
{
    server->extra_ms += ms;
}

static void server_start(struct server *server, struct server_call *call)
{
    double from = server->shared ? server->given_ms : server->now_ms;
    double service = call->service_ms + server->extra_ms;

    call->started_ms = server->now_ms;
    server->extra_ms = 0;
    server->busy++;
    if (!agenda_add(&server->running, from + service, call, 0))
        server->out_of_memory = true;
    if (server->started != NULL)
        server->started(server->context, call);
}

static void server_dispatch(struct server *server)
{
    struct server_call *call;

    while ((call = STAILQ_FIRST(&server->queue)) != NULL &&
           (server->shared || (double)server->busy < server->workers)) {
        STAILQ_REMOVE_HEAD(&server->queue, next);
        server_start(server, call);
    }
}

void server_enter(struct server *server, struct server_call *call)
{
    STAILQ_INSERT_TAIL(&server->queue, call, next);
    server_dispatch(server);
}

double server_next_ms(const struct server *server)
{
    if (server->running.n == 0)
        return INFINITY;
    double at = server->running.items[0].at;
    if (!server->shared)
        return at;
    return server->now_ms + fmax(0, at - server->given_ms) / speed(server);
}

struct server_call *server_end_service(struct server *server)
{
    struct server_call *call = agenda_take(&server->running).what;

    assert(server->busy > 0);
    server->busy--;
    server_dispatch(server);
    return call;
}
