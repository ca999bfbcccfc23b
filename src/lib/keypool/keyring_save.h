/* keyring_save.h - what a ring knows of its keys, for another process that takes over from this
 * one.
 *
 * Calls and tokens of the last minute, what cools, breakers, latencies, who is suspended: of keys
 * and groups, found by their names. Calls in flight are not handed over: they end where they
 * began, and what they were charged is in the minute. Times are of the steady clock, which both
 * must share.
 *
 * Not in tollgate.h: the bytes are for the same build of the library on the same machine.
 */
#ifndef TG_KEYPOOL_KEYRING_SAVE_H
#define TG_KEYPOOL_KEYRING_SAVE_H

#include "tollgate.h"

/* The bytes are to be freed. TG_ERR_MEMORY. */
enum tg_err keyring_save(struct tg_keyring *ring, tg_ms now, char **bytes, size_t *n);

/* Into a ring of which nothing is known yet. Who is not in it is passed over. */
void keyring_load(struct tg_keyring *ring, const char *bytes, size_t n, tg_ms now);

#endif
