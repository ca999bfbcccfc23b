/* observe.h - log, watch and traces of a gateway: from its first thread to its last. */
#ifndef TG_RUNTIME_OBSERVE_H
#define TG_RUNTIME_OBSERVE_H

#include "server/runtime/gateway.h"

/* Opens the file that arrivals are recorded in, for gateway_observe(). What is in it is kept.
 * While another process records there, it is FILE.1, or the next that is free, which is said. -1:
 * `problem` says why it cannot be written. */
int observe_record_open(const char *path, struct tg_problem *problem);

/* Makes them, by the first generation's configuration. `record_fd` is taken over, also on false;
 * -1: nothing is recorded. False: there is no memory, or no thread. */
bool gateway_observe(struct gateway *gateway, int record_fd, struct tg_problem *problem);

/* A new generation is in force: its level and format of the log. */
void gateway_observe_change(struct gateway *gateway, const struct config *config);

/* Frees them, and writes what is left of the log, for at most two seconds. */
void gateway_observe_end(struct gateway *gateway);

#endif
