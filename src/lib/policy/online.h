/* online.h - prices that follow what is left and what is still to come. See online.c.
 *
 * Any number of threads.
 */
#ifndef TG_POLICY_ONLINE_H
#define TG_POLICY_ONLINE_H

#include "tollgate.h"

struct online;

/* From `online` and, if it has types, `workload` of the config. The config has been checked.
 * TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err online_new(const struct tg_bid_config *config, struct online **online,
                                     struct tg_problem *problem);
void online_free(struct online *online);

/* A call has come: is it worth it? Numbers are finite and not negative. `in_flight` slots are held,
 * this call's too; 0: not known. */
bool online_worth(struct online *online, double cost, double value, double hold_s,
                  int64_t in_flight, tg_ms now);

/* It was admitted, and later it ended. */
void online_admitted(struct online *online, double cost, double value, double hold_s, tg_ms now);
void online_released(struct online *online, const struct tg_spent *spent, tg_ms now);

/* It found no slot, and was not asked about; or it was worth it and a limit refused it. */
void online_refused(struct online *online, double cost, double value, double hold_s,
                    enum tg_reason reason, tg_ms now);

/* What was learned: tg_bid_save(), tg_bid_load(). */
size_t online_save(struct online *online, void *bytes, size_t room);
bool online_load(struct online *online, const void *bytes, size_t n, tg_ms now);

void online_get_guard(struct online *online, struct tg_bid_guard *guard);
void online_get_duals(struct online *online, struct tg_duals *duals);

#endif
