/* grpc_codec.h - the texts of gRPC over HTTP/2: codes, timeouts, messages, content types, paths.
 *
 * What the protocol says in text, read and written. Nothing here allocates or keeps anything.
 */
#ifndef TG_GRPC_GRPC_CODEC_H
#define TG_GRPC_GRPC_CODEC_H

#include "io/posix/clock.h"
#include "io/text/slice.h"

/* Numbered by the protocol. */
enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

/* application/grpc and application/grpc+proto, with or without parameters. Another encoding of
 * messages (application/grpc+json) is not one that is spoken here. */
bool grpc_is_content_type(struct slice type);

/* "100m", "5S": at most eight digits and a unit, of H M S m u n. In ms, rounded up: a timeout of
 * some ns has not passed before it has begun. False: it is none. */
bool grpc_read_timeout(struct slice text, tg_ms *ms);

/* Percent-encodes what is not printable ASCII, and the percent sign. How many bytes it takes, of at
 * most `size`: what does not fit is cut off between characters. */
size_t grpc_write_message(struct slice text, char *out, size_t size);

/* "/package.Service/Method" in two. False: it has another form. */
bool grpc_split_path(struct slice path, struct slice *service, struct slice *method);

#endif
