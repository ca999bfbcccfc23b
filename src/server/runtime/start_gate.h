/* start_gate.h - threads that are there, and wait until they may run.
 *
 * A process that takes over must not find out that the system has no thread for it after the other
 * one has stopped: its threads are made first, and wait here.
 */
#ifndef TG_RUNTIME_START_GATE_H
#define TG_RUNTIME_START_GATE_H

#include <pthread.h>
#include <stdbool.h>

struct start_gate {
    pthread_mutex_t lock;
    pthread_cond_t decided;
    bool is_open, is_abandoned;
};

void start_gate_init(struct start_gate *gate);
void start_gate_fini(struct start_gate *gate);

/* On each thread: waits. False: there is nothing to do, and it ends. Null: it runs at once. */
bool start_gate_wait(struct start_gate *gate);

/* Lets all run; or, where that has not come, lets all end. */
void start_gate_open(struct start_gate *gate);
void start_gate_abandon(struct start_gate *gate);

#endif
