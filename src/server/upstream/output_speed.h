/* output_speed.h - how fast a model writes, learned from calls that have ended.
 *
 *     v = 1.25 x the fastest of the last 1,000 calls that wrote 256 tokens or more
 *
 * It is what a call that is cut without a word of its provider is booked with, a second of its time
 * after another: see call_settle.c. It must not be talked down, so
 *
 *   - the fastest counts, and not a mean, which slow calls would lower;
 *   - one tenant has a third of the calls at most: its next call takes the place of its own oldest;
 *   - below 300 calls nothing has been learned, and the rate that the configuration states holds;
 *   - a call whose client was slower than its provider is left out by the caller.
 *
 * Nor can it be talked up beyond the stated rate. Speeds are those of one choice.
 *
 * Threads: any. Adding takes a mutex and walks over the calls, about a microsecond for a call of
 * some seconds; asking is one load.
 */
#ifndef TG_UPSTREAM_OUTPUT_SPEED_H
#define TG_UPSTREAM_OUTPUT_SPEED_H

#include <stdint.h>

#include "tollgate.h"

enum {
    OUTPUT_SPEED_CALLS = 1000,                   /* the most that are remembered */
    OUTPUT_SPEED_ENOUGH = 300,                   /* fewer say nothing */
    OUTPUT_SPEED_SHARE = OUTPUT_SPEED_CALLS / 3, /* the most of one tenant */
    OUTPUT_SPEED_TOKENS = 256,                   /* a shorter reply says nothing */
    OUTPUT_SPEED_MARGIN_MS = 1000,               /* added to the time of a call that is cut */
};

struct output_speed;

/* With one reference. Null: there is no memory. */
struct output_speed *output_speed_new(void);
struct output_speed *output_speed_ref(struct output_speed *speed);
void output_speed_unref(struct output_speed *speed); /* null is fine */

/* A call of this tenant has ended: each of its choices wrote `tokens` in `took` ms, counted from
 * when the request was sent. The tenant is any number that stands for it. */
void output_speed_add(struct output_speed *speed, uint32_t tenant, int64_t tokens, tg_ms took);

/* Tokens a second of one choice: v, or `stated` where that is less, or too few calls have ended. */
double output_speed_of(const struct output_speed *speed, double stated);

/* Tokens in that time at that speed, rounded up. */
int64_t output_speed_tokens(double tokens_per_s, tg_ms took);

#endif
