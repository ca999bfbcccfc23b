/* grpc_inflate.c - a message that is compressed by gzip: see grpc_inflate.h.
 *
 * Few clients compress: the state (some 40 KiB) and the room for a message are made when the first
 * one does, and kept. The room bounds what a small message can become.
 */
#include "io/grpc/grpc_inflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

struct grpc_inflate {
    z_stream stream;
    char room[]; /* `most` bytes */
};

enum { GZIP_ALONE = 16 + MAX_WBITS }; /* no raw deflate and no zlib */

static struct grpc_inflate *new_inflate(size_t most)
{
    struct grpc_inflate *inflate = calloc(1, sizeof *inflate + most);

    if (inflate == NULL || inflateInit2(&inflate->stream, GZIP_ALONE) == Z_OK)
        return inflate;
    free(inflate);
    return NULL;
}

void grpc_inflate_free(struct grpc_inflate *inflate)
{
    if (inflate == NULL)
        return;
    inflateEnd(&inflate->stream);
    free(inflate);
}

enum grpc_inflated grpc_inflate(struct grpc_inflate **made, size_t most, struct slice *bytes)
{
    if (*made == NULL)
        *made = new_inflate(most);
    if (*made == NULL)
        return GRPC_INFLATE_NO_MEMORY;
    z_stream *stream = &(*made)->stream;
    if (inflateReset(stream) != Z_OK)
        return GRPC_INFLATE_NO_MEMORY;
    stream->next_in = (Bytef *)(uintptr_t)bytes->at;
    stream->avail_in = (uInt)bytes->n;
    stream->next_out = (Bytef *)(*made)->room;
    stream->avail_out = (uInt)most;
    int state = inflate(stream, Z_FINISH);
    if (state == Z_MEM_ERROR)
        return GRPC_INFLATE_NO_MEMORY;
    if (state == Z_BUF_ERROR && stream->avail_out == 0)
        return GRPC_INFLATE_TOO_LARGE;
    if (state != Z_STREAM_END || stream->avail_in > 0)
        return GRPC_INFLATE_BROKEN;
    *bytes = (struct slice){(*made)->room, most - stream->avail_out};
    return GRPC_INFLATED;
}
