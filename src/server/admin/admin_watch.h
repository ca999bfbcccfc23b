/* admin_watch.h - /api/v1/watch: denials as they happen, as server-sent events.
 *
 * Denials are in a ring that the workers write (obs/watch.h) and that belongs to nobody who reads.
 * A watcher is a place in it, and what its connection has not taken yet: at most WATCH_OUT_MAX
 * bytes. Who reads too slowly is passed over by the ring, is told how many it has missed, and goes
 * on with what is there; nothing is kept for it.
 *
 * Watchers are looked after every WATCH_EVERY ms, and only while there are any.
 */
#ifndef TG_ADMIN_ADMIN_WATCH_H
#define TG_ADMIN_ADMIN_WATCH_H

#include "io/net/loop.h"

#define ADMIN_WATCHERS_MAX 16
#define ADMIN_WATCH_OUT_MAX ((size_t)64 << 10)
#define ADMIN_WATCH_AT_ONCE 100 /* denials for one watcher in one turn: a thousand a second */
#define ADMIN_WATCH_EVERY 100   /* ms */
#define ADMIN_WATCH_ALIVE 15000 /* ms without a byte, after which there is a comment */

struct admin;
struct admin_call;
struct admin_watcher;

struct admin_watchers {
    struct admin *admin;
    struct admin_watcher *first;
    size_t n;
    struct net_timer timer;
};

void admin_watchers_init(struct admin_watchers *watchers, struct admin *admin);

/* Their exchanges are gone. */
void admin_watchers_fini(struct admin_watchers *watchers);

/* What has come since the last time; for tests also by hand. */
void admin_watchers_turn(struct admin_watchers *watchers);

/* The exchange of a call is gone; does nothing if it was no watcher's. */
void admin_watch_gone(struct admin_call *call);

#endif
