/* fd_poll.h - a descriptor of somebody else's on a loop: says when it can be read or written.
 *
 * For sockets that carry more than a stream of bytes, as descriptors and messages with an end.
 */
#ifndef TG_NET_FD_POLL_H
#define TG_NET_FD_POLL_H

#include "io/net/loop.h"

struct net_poll;

enum { NET_POLL_READ = 1, NET_POLL_WRITE = 2 };

/* On the loop's thread. It may free the poll. */
typedef void net_poll_fn(void *arg, unsigned events);

/* The descriptor is borrowed, must not block, and is closed after net_poll_free(). Nothing is
 * watched for yet. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err net_poll_new(struct net_loop *loop, int fd, net_poll_fn *fn, void *arg,
                                       struct net_poll **poll);

/* What to wait for, until it is changed; 0: nothing. */
void net_poll_watch(struct net_poll *poll, unsigned events);

/* Null is fine. */
void net_poll_free(struct net_poll *poll);

#endif
