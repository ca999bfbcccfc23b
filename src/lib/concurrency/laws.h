/* laws.h - makes a law from a configuration, and gives a running law a new one.
 *
 * It stands above the laws, which know law.h and nothing of each other.
 */
#ifndef TG_CONCURRENCY_LAWS_H
#define TG_CONCURRENCY_LAWS_H

#include "lib/concurrency/law.h"

/* The seed feeds the law's jitter alone. Time begins with the first event.
 *
 * TG_ERR_INVALID as tg_law_config_check(); TG_ERR_MEMORY. Then there is nothing to fini. */
TG_MUST_CHECK enum tg_err law_init(struct law *law, const struct tg_law_config *config,
                                   uint64_t seed, struct tg_problem *problem);

/* New parameters for a running law; `config` has passed tg_law_config_check().
 *
 *   the same law    all state is kept: samples, baseline, window, probe. The learned limit is
 *                   clamped into the new [min, max]; `initial` is not looked at again, but by
 *                   fixed, whose limit it is. A shorter rtt_window forgets the oldest samples.
 *   another law     starts afresh from the current limit, clamped, without the probe's cut; no
 *                   sample is carried over. After `none`, whose limit is no knowledge, from
 *                   `initial`.
 *
 * Calls in flight are the gate's: none is lost. False, and nothing has changed, if a longer sample
 * window finds no memory. */
TG_MUST_CHECK bool law_reconfigure(struct law *law, const struct tg_law_config *config);

#endif
