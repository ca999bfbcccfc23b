/* resolve.c - names to addresses, without waiting: on libuv's threads, remembered for a while.
 *
 * getaddrinfo knows what the machine is set up for (files, name services, preferences of RFC 6724),
 * so it is asked, on libuv's pool of threads. It does not say how long an answer is good; half a
 * minute is short enough for providers that move traffic by DNS, and spares a look-up for nearly
 * every new connection. An answer that is older is used while there is no newer one to be had (as
 * in RFC 8767): a look-up that fails may take longer than a connection may, so there is a time
 * after which nobody waits for it any more. Rejected: to use old answers always, and to look up
 * behind; the first call after an idle hour would go where the provider was an hour ago.
 *
 * The addresses are reordered so that families take turns: if one of them leads nowhere, the second
 * attempt already tries the other.
 */
#include "io/net/resolve.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 256 /* kept; those not in use are dropped beyond */
#define PATIENCE_MS 1000
#define AGAIN_MS 1000

struct resolve_name {
    SLIST_ENTRY(resolve_name) next;
    struct resolver *resolver; /* null: freed, and this follows when the look-up ends */
    LIST_HEAD(, resolve_wait) waiting;
    bool asking; /* a look-up is under way */
    bool late;   /* it takes so long that the old answer is given out */
    struct net_timer patience;
    tg_ms good_until;
    struct resolve_answer answer; /* the last that had addresses, if there was one */
    uv_getaddrinfo_t request;
    int port;
    char host[]; /* with its zero */
};

void resolver_init(struct resolver *resolver, struct net_loop *loop, tg_ms keep_ms)
{
    *resolver = (struct resolver){
        .loop = loop, .keep_ms = keep_ms, .patience_ms = PATIENCE_MS, .again_ms = AGAIN_MS};
}

void resolver_fini(struct resolver *resolver)
{
    struct resolve_name *name;

    while ((name = SLIST_FIRST(&resolver->names)) != NULL) {
        assert(LIST_EMPTY(&name->waiting));
        SLIST_REMOVE_HEAD(&resolver->names, next);
        name->resolver = NULL;
        net_timer_stop(resolver->loop, &name->patience);
        if (name->asking)
            uv_cancel((uv_req_t *)&name->request);
        else
            free(name);
    }
}

static void add_address(struct resolve_answer *answer, const struct addrinfo *info)
{
    assert(answer->n <= RESOLVE_ADDRESSES_MAX);
    if (answer->n == RESOLVE_ADDRESSES_MAX || info->ai_addrlen > sizeof(union address))
        return;
    memcpy(&answer->list[answer->n].address, info->ai_addr, info->ai_addrlen);
    answer->list[answer->n].bytes = info->ai_addrlen;
    answer->n++;
}

/* The next of a family, or of any other than that; null: none. */
static const struct addrinfo *next_of(const struct addrinfo *info, int family, bool other)
{
    while (info != NULL && (info->ai_family == family) == other)
        info = info->ai_next;
    return info;
}

static void take_in_turns(struct resolve_answer *answer, const struct addrinfo *list)
{
    answer->n = 0;
    if (list == NULL)
        return;
    const struct addrinfo *a = list, *b = next_of(list, list->ai_family, true);
    while (a != NULL || b != NULL) {
        if (a != NULL) {
            add_address(answer, a);
            a = next_of(a->ai_next, list->ai_family, false);
        }
        if (b != NULL) {
            add_address(answer, b);
            b = next_of(b->ai_next, list->ai_family, true);
        }
    }
}

static void resolve_report(struct resolve_name *name)
{
    struct resolve_wait *wait;

    while ((wait = LIST_FIRST(&name->waiting)) != NULL) {
        resolve_cancel(wait);
        wait->done(wait, &name->answer);
    }
}

static void is_late(void *arg)
{
    struct resolve_name *name = arg;

    name->late = true;
    resolve_report(name);
}

/* The name service has said that there is none, and has not merely failed to say anything. */
static bool is_denied(int status)
{
    return status == UV_EAI_NONAME || status == UV_EAI_NODATA || status == UV_EAI_ADDRFAMILY;
}

static void take_answer(struct resolve_name *name, int status, const struct addrinfo *list)
{
    const struct resolver *resolver = name->resolver;
    tg_ms now = net_loop_now(resolver->loop);

    if (status == 0 || is_denied(status) || name->answer.n == 0) {
        take_in_turns(&name->answer, status == 0 ? list : NULL);
        name->answer.text = status == 0 ? "no address" : uv_strerror(status);
        name->good_until = now + resolver->keep_ms;
    } else {
        name->good_until = now + resolver->again_ms;
    }
}

static void resolve_answered(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct resolve_name *name = request->data;
    struct resolver *resolver = name->resolver;

    assert(name->asking);
    name->asking = false;
    if (resolver == NULL) {
        uv_freeaddrinfo(list);
        free(name);
        return;
    }
    name->late = false;
    net_timer_stop(resolver->loop, &name->patience);
    take_answer(name, status, list);
    uv_freeaddrinfo(list);
    struct net_loop *loop = resolver->loop;
    resolve_report(name);
    net_loop_settle(loop);
}

/* Drops names that nobody asks for, once there are many. */
static void drop_unused_names(struct resolver *resolver)
{
    struct resolve_name *name = SLIST_FIRST(&resolver->names), *next;

    for (size_t n = 0; name != NULL; name = next) {
        next = SLIST_NEXT(name, next);
        if (++n < NAMES_MAX || name->asking)
            continue;
        assert(LIST_EMPTY(&name->waiting) && !net_timer_is_set(&name->patience));
        SLIST_REMOVE(&resolver->names, name, resolve_name, next);
        free(name);
    }
}

static struct resolve_name *resolve_find_name(struct resolver *resolver, const char *host, int port)
{
    struct resolve_name *name;
    size_t n = strlen(host) + 1;

    SLIST_FOREACH(name, &resolver->names, next)
        if (name->port == port && strcmp(name->host, host) == 0)
            return name;
    drop_unused_names(resolver);
    name = calloc(1, sizeof *name + n);
    if (name == NULL)
        return NULL;
    memcpy(name->host, host, n);
    name->port = port;
    name->resolver = resolver;
    net_timer_init(&name->patience, is_late, name);
    SLIST_INSERT_HEAD(&resolver->names, name, next);
    return name;
}

static bool resolve_ask(struct resolve_name *name)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char port[8];

    if (name->asking)
        return true;
    snprintf(port, sizeof port, "%d", name->port);
    name->request.data = name;
    name->asking = uv_getaddrinfo(&name->resolver->loop->uv, &name->request, resolve_answered,
                                  name->host, port, &hints) == 0;
    if (name->asking && name->answer.n > 0)
        net_timer_set(name->resolver->loop, &name->patience, name->resolver->patience_ms);
    return name->asking;
}

void resolve_cancel(struct resolve_wait *wait)
{
    if (wait->among.le_prev == NULL)
        return;
    LIST_REMOVE(wait, among);
    wait->among.le_prev = NULL;
}

void resolve(struct resolver *resolver, const char *host, int port, struct resolve_wait *wait)
{
    struct resolve_answer fixed = {.n = 1};

    assert(wait->among.le_prev == NULL && wait->done != NULL);
    if (address_parse(host, port, &fixed.list[0].address, &fixed.list[0].bytes)) {
        wait->done(wait, &fixed);
        return;
    }
    struct resolve_name *name = resolve_find_name(resolver, host, port);
    if (name != NULL && name->answer.n > 0 && net_loop_now(resolver->loop) < name->good_until) {
        wait->done(wait, &name->answer);
        return;
    }
    bool asked = name != NULL && resolve_ask(name);
    if (name != NULL && name->answer.n > 0 && (!asked || name->late)) {
        wait->done(wait, &name->answer);
        return;
    }
    if (!asked) {
        fixed = (struct resolve_answer){.n = 0, .text = "the name cannot be looked up"};
        wait->done(wait, &fixed);
        return;
    }
    assert(name->asking);
    LIST_INSERT_HEAD(&name->waiting, wait, among);
}
