/* grpc_inflate.h - a message that is compressed by gzip, as it was before.
 *
 * One for all calls of a server: a message is used up before the next is given out.
 */
#ifndef TG_GRPC_GRPC_INFLATE_H
#define TG_GRPC_GRPC_INFLATE_H

#include "io/text/slice.h"

struct grpc_inflate;

enum grpc_inflated {
    GRPC_INFLATED,
    GRPC_INFLATE_BROKEN,    /* no gzip, cut off, or followed by something else */
    GRPC_INFLATE_TOO_LARGE, /* it would have more than `most` bytes */
    GRPC_INFLATE_NO_MEMORY,
};

/* `bytes` become those of the message, good until the next call. `*inflate` is made at the first
 * one; `most` has to be the same for all. */
enum grpc_inflated grpc_inflate(struct grpc_inflate **inflate, size_t most, struct slice *bytes);

void grpc_inflate_free(struct grpc_inflate *inflate);

#endif
