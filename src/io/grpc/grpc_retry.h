/* grpc_retry.h - when a refused client may come back, in the trailers that clients read.
 *
 *     grpc-retry-after-ms: 1234            ours: the wait in ms
 *     grpc-retry-pushback-ms: 1234         stock clients with a retry policy wait that long and no
 *                                          shorter; -1: they do not repeat the call
 *     grpc-status-details-bin              a google.rpc.Status with a RetryInfo, for programs
 */
#ifndef TG_GRPC_GRPC_RETRY_H
#define TG_GRPC_GRPC_RETRY_H

#include "io/grpc/grpc_codec.h"
#include "io/http/http.h"

#define GRPC_RETRY_TRAILERS 3
#define GRPC_RETRY_TEXT_MAX 512 /* bytes of a message in the details */
#define GRPC_RETRY_ROOM (4 * ((GRPC_RETRY_TEXT_MAX + 128) / 3 + 1) + 1) /* in base64, and a zero */

struct grpc_retry {
    size_t n;
    struct http_field
        fields[GRPC_RETRY_TRAILERS]; /* point into this struct: it is not to be moved */
    char digits[HTTP_NUMBER_MAX];
    char details[GRPC_RETRY_ROOM];
};

/* The trailers of a refusal with this code and message. `wait` in ms; 0: waiting does not help, and
 * the client is told not to repeat the call. */
void grpc_retry_write(enum grpc_code code, const char *text, tg_ms wait, struct grpc_retry *retry);

#endif
