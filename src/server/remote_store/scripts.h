/* scripts.h - the scripts that Redis runs for us, from the folder lua/.
 *
 * tools/embed-lua lays them into the program when it is built, with what they include. A script
 * that is not declared here does not exist: one line each.
 */
#ifndef TG_REMOTE_STORE_SCRIPTS_H
#define TG_REMOTE_STORE_SCRIPTS_H

#include "io/redis/redis.h"

/* Rate and cost of a call: remote_limits.h. */
extern const struct redis_script script_take;
extern const struct redis_script script_refund;
extern const struct redis_script script_settle;
extern const struct redis_script script_owe;

/* Keys of providers that several nodes use: remote_keys.h. Nodes: remote_nodes.h. */
extern const struct redis_script script_key_take;
extern const struct redis_script script_key_give;
extern const struct redis_script script_key_renew;
extern const struct redis_script script_node_beat;

/* Owners of objects: remote_objects.h. */
extern const struct redis_script script_object_put;
extern const struct redis_script script_object_list;

/* Blocks of units, spent by nodes themselves: remote_blocks.h. */
extern const struct redis_script script_block;

/* Budgets: remote_money.h. */
extern const struct redis_script script_money_reserve;
extern const struct redis_script script_money_note;
extern const struct redis_script script_money_lower;
extern const struct redis_script script_money_block;

/* What the administrators of all gateways made: server/fleet/fleet.h. */
extern const struct redis_script script_fleet_change;
extern const struct redis_script script_fleet_read;
extern const struct redis_script script_fleet_report;

/* What one gateway asks all others: server/fleet/fleet_question.h. */
extern const struct redis_script script_fleet_ask;
extern const struct redis_script script_fleet_answer;
extern const struct redis_script script_fleet_collect;

#endif
