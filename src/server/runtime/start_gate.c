/* start_gate.c - threads that are there, and wait until they may run: see start_gate.h. */
#include "server/runtime/start_gate.h"

#include <stddef.h>

void start_gate_init(struct start_gate *gate)
{
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->decided, NULL);
    gate->is_open = gate->is_abandoned = false;
}

void start_gate_fini(struct start_gate *gate)
{
    pthread_cond_destroy(&gate->decided);
    pthread_mutex_destroy(&gate->lock);
}

bool start_gate_wait(struct start_gate *gate)
{
    if (gate == NULL)
        return true;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open && !gate->is_abandoned)
        pthread_cond_wait(&gate->decided, &gate->lock);
    bool runs = gate->is_open;
    pthread_mutex_unlock(&gate->lock);
    return runs;
}

static void start_gate_decide(struct start_gate *gate, bool *how)
{
    pthread_mutex_lock(&gate->lock);
    *how = true;
    pthread_cond_broadcast(&gate->decided);
    pthread_mutex_unlock(&gate->lock);
}

void start_gate_open(struct start_gate *gate)
{
    start_gate_decide(gate, &gate->is_open);
}

void start_gate_abandon(struct start_gate *gate)
{
    start_gate_decide(gate, &gate->is_abandoned);
}
