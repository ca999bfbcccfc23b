/* expected_cost.h - what part of its bound a call is likely to cost, for `reserve: expected`.
 *
 *     share = the 95th percentile of cost / bound over the last 64 calls of a tenant with a model
 *
 * in thousandths, rounded up; 1000 below 16 calls, and never below 50, so that what calls in flight
 * cost above what is reserved for them is at most 19 times that. A tenant can bring its own share
 * down with cheap calls, but no other's.
 *
 * 1,024 pairs of tenant and model are remembered. One that comes when there is no room replaces
 * another, which begins again with 1000: more is reserved for it, never less.
 *
 * Threads: any. Adding takes a mutex and sorts 64 numbers, some microseconds for a call of some
 * seconds; asking is four loads at most.
 */
#ifndef TG_RUNTIME_EXPECTED_COST_H
#define TG_RUNTIME_EXPECTED_COST_H

#include <stdint.h>

#include "tollgate.h"

enum {
    EXPECTED_COST_CALLS = 64,   /* the most that are remembered of a pair */
    EXPECTED_COST_ENOUGH = 16,  /* fewer say nothing */
    EXPECTED_COST_PERCENT = 95, /* how many in a hundred calls cost the share or less */
    EXPECTED_COST_LEAST = 50,   /* thousandths */
};

struct expected_cost;

/* Null: there is no memory. */
struct expected_cost *expected_cost_new(uint64_t seed);
void expected_cost_free(struct expected_cost *expected); /* null is fine */

/* What stands for a tenant with a model of a provider; never 0. */
uint64_t expected_cost_pair(const struct expected_cost *expected, const char *tenant,
                            const char *model, const char *provider);

/* A call has ended that could have cost `most`, above 0, and cost `spent`. */
void expected_cost_add(struct expected_cost *expected, uint64_t pair, tg_micro spent,
                       tg_micro most);

/* The share, EXPECTED_COST_LEAST to 1000. */
int64_t expected_cost_share(const struct expected_cost *expected, uint64_t pair);

/* The share of an amount, rounded up; and the largest amount whose share is no more than `part`. */
tg_micro expected_cost_part(tg_micro whole, int64_t share);
tg_micro expected_cost_whole(tg_micro part, int64_t share);

#endif
