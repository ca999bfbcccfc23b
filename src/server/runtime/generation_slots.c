/* generation_slots.c - how many calls of each kind run at once: of a model, a protected route, a
 * caller of Admit.
 *
 * All calls together stand under `gate.concurrency`, at the gateway's gate. A law needs work of one
 * kind to learn from, so what is of one kind has slots of its own before that gate: each model,
 * each protected route, and each caller that asks for them. They outlast a generation, because they
 * count: the next one finds them by the name of their owner. `gate.queue` is the form of all
 * queues.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation_internal.h"

void slots_name(const struct slots_entry *entry, char name[SLOTS_NAME_MAX])
{
    static const char *const owners[] = {[SLOTS_PROTECT] = "protect ", [SLOTS_CALLER] = "caller "};

    if (entry->owner == SLOTS_MODEL)
        snprintf(name, SLOTS_NAME_MAX, "%s/%s", entry->provider, entry->name);
    else
        snprintf(name, SLOTS_NAME_MAX, "%s%s", owners[entry->owner], entry->name);
}

/* ---- references ---- */

void slots_ref(struct slots *slots)
{
    int refs = atomic_fetch_add(&slots->refs, 1);

    assert(refs > 0);
    (void)refs;
}

void slots_unref(struct slots *slots)
{
    int refs = atomic_fetch_sub(&slots->refs, 1);

    assert(refs > 0);
    if (refs > 1)
        return;
    tg_gate_free(slots->gate);
    free(slots);
}

/* ---- making ---- */

static void slots_config(const struct generation *generation,
                         const struct config_concurrency *concurrency,
                         struct tg_gate_config *config)
{
    const struct config_gate alone = {.lease_ttl = generation->config.gate.lease_ttl,
                                      .concurrency = *concurrency};

    assert(concurrency->present);
    scopes_gate_config(&alone, config);
    config->seed = generation->gateway->seed;
    config->chance = generation->gateway->chance;
    config->wake = generation->gateway->wake;
    remote_divide_law(generation->gateway->remote, concurrency, &config->concurrency.law);
}

static struct slots *slots_new(const struct generation *generation, const struct slots_entry *entry,
                               struct tg_problem *problem)
{
    struct slots *slots = calloc(1, sizeof *slots);
    struct tg_gate_config config;
    struct tg_problem why = {"no memory"};

    slots_config(generation, entry->config, &config);
    if (slots != NULL && tg_gate_new(&config, &slots->gate, &why) == TG_OK) {
        atomic_init(&slots->refs, 1);
        return slots;
    }
    free(slots);
    (void)problem_fail(problem, "%s: %s", entry->name, why.text);
    return NULL;
}

/* Adds an entry, with the slots of before, if there are some. Null: `problem` says why. */
static struct slots *add_slots(struct generation *generation, struct slots_entry entry,
                               struct slots *before, struct tg_problem *problem)
{
    if (before != NULL)
        slots_ref(before);
    entry.slots = before != NULL ? before : slots_new(generation, &entry, problem);
    if (entry.slots != NULL)
        generation->slots[generation->n_slots++] = entry;
    return entry.slots;
}

static bool add_route(struct generation *generation, struct route *route,
                      const struct route *before, struct tg_problem *problem)
{
    const struct slots_entry entry = {.config = &route->config->concurrency,
                                      .owner = SLOTS_MODEL,
                                      .name = route->config->name,
                                      .provider = route->provider->config->name};

    route->slots = add_slots(generation, entry, before ? before->slots : NULL, problem);
    return route->slots != NULL;
}

static bool add_protected(struct generation *generation, struct protected_route *route,
                          const struct generation *before, struct tg_problem *problem)
{
    const struct slots_entry entry = {.config = &route->config->concurrency,
                                      .owner = SLOTS_PROTECT,
                                      .name = route->config->prefix};
    struct slots *old = NULL;

    for (size_t i = 0; before && i < before->config.n_protect; i++)
        if (strcmp(before->config.protect[i].prefix, route->config->prefix) == 0)
            old = before->protect[i].slots;
    route->slots = add_slots(generation, entry, old, problem);
    return route->slots != NULL;
}

static struct slots *slots_of_caller(const struct generation *generation, const char *name)
{
    for (size_t i = 0; i < generation->config.n_callers; i++)
        if (generation->caller_slots[i] != NULL &&
            strcmp(generation->config.callers[i].name, name) == 0)
            return generation->caller_slots[i];
    return NULL;
}

/* A caller is its name: two entries of one name, while a token is replaced, have one set of slots,
 * with the settings of the first that states some. */
static bool add_caller(struct generation *generation, size_t number,
                       const struct generation *before, struct tg_problem *problem)
{
    const struct config_caller *caller = &generation->config.callers[number];
    struct slots **slots = &generation->caller_slots[number];

    *slots = slots_of_caller(generation, caller->name);
    if (*slots != NULL || !caller->concurrency.present)
        return true;
    *slots =
        add_slots(generation,
                  (struct slots_entry){
                      .config = &caller->concurrency, .owner = SLOTS_CALLER, .name = caller->name},
                  before ? slots_of_caller(before, caller->name) : NULL, problem);
    for (size_t i = 0; i < number; i++)
        if (strcmp(generation->config.callers[i].name, caller->name) == 0)
            generation->caller_slots[i] = *slots;
    return *slots != NULL;
}

bool generation_make_slots(struct generation *generation, const struct generation *before,
                           struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    size_t most = config->n_models + 2 + config->n_protect + config->n_callers;
    bool fine = true;

    generation->caller_slots = calloc(config->n_callers + 1, sizeof(struct slots *));
    generation->slots = calloc(most, sizeof *generation->slots);
    if (generation->caller_slots == NULL || generation->slots == NULL)
        return problem_fail(problem, "concurrency: no memory");
    for (size_t i = 0; fine && i < config->n_models; i++) {
        struct route *route = &generation->routes[i];
        fine = add_route(generation, route, generation_route_before(before, route), problem);
    }
    for (int i = 0; fine && i < 2; i++)
        if (generation->unknown[i].provider != NULL)
            fine = add_route(generation, &generation->unknown[i],
                             before ? &before->unknown[i] : NULL, problem);
    for (size_t i = 0; fine && i < config->n_protect; i++)
        fine = add_protected(generation, &generation->protect[i], before, problem);
    for (size_t i = 0; fine && i < config->n_callers; i++)
        fine = add_caller(generation, i, before, problem);
    assert(generation->n_slots <= most);
    return fine;
}

/* ---- in force ---- */

/* They were made with settings like these, so what can go wrong is memory. */
bool generation_set_slots(struct generation *generation, tg_ms now, struct tg_problem *problem)
{
    struct tg_gate_config config;
    struct tg_problem why;

    for (size_t i = 0; i < generation->n_slots; i++) {
        const struct slots_entry *entry = &generation->slots[i];
        slots_config(generation, entry->config, &config);
        if (tg_gate_reconfigure(entry->slots->gate, &config, now, &why) != TG_OK)
            return problem_fail(problem, "%s: %s", entry->name, why.text);
    }
    return true;
}

void generation_free_slots(struct generation *generation)
{
    for (size_t i = 0; i < generation->n_slots; i++)
        slots_unref(generation->slots[i].slots);
    free(generation->slots);
    free(generation->caller_slots);
}
