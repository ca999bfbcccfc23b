/* observe.h - log, watch and traces of a gateway: from its first thread to its last. */
#ifndef TG_RUNTIME_OBSERVE_H
#define TG_RUNTIME_OBSERVE_H

#include "server/runtime/gateway.h"

/* Where arrivals are recorded, to be given to gateway_observe(). -1: `problem` says why it cannot
 * be written. What the file has is kept. */
int observe_record_open(const char *path, struct tg_problem *problem);

/* Makes them, by the configuration that the gateway began with. `record_fd` is taken over, also on
 * false: there is no memory, or no thread. -1: nothing is recorded. */
bool gateway_observe(struct gateway *gateway, int record_fd, struct tg_problem *problem);

/* What the log is told by the configuration may change at any time. */
void gateway_observe_change(struct gateway *gateway, const struct config *config);

/* Writes what is there to be written, for at most a moment. */
void gateway_observe_end(struct gateway *gateway);

#endif
