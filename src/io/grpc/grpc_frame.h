/* grpc_frame.h - messages out of a stream of bytes that comes in pieces of any size.
 *
 *     | compressed: 1 byte | length: 4 bytes, big endian | the message ... |
 *
 *     grpc_frames_feed(&frames, bytes);
 *     while ((state = grpc_frames_next(&frames, &message)) == GRPC_FRAME)
 *         ...                                  `message` is good until the next call
 *
 * A message that lies whole in a piece is handed out where it lies. One that is cut is gathered,
 * and memory is taken as its bytes come, not as its length says: who promises much and sends
 * nothing costs nothing. Every piece has to be read to its end (GRPC_FRAME_MORE) before the next is
 * fed.
 */
#ifndef TG_GRPC_GRPC_FRAME_H
#define TG_GRPC_GRPC_FRAME_H

#include <stdint.h>

#include "io/text/slice.h"

#define GRPC_FRAME_HEAD 5
#define GRPC_FRAME_INSIDE 256 /* bytes that are gathered without taking memory */

enum grpc_frame_state {
    GRPC_FRAME,            /* here is one */
    GRPC_FRAME_MORE,       /* not yet */
    GRPC_FRAME_COMPRESSED, /* it is compressed, and may not be. This and the next are for good */
    GRPC_FRAME_TOO_LARGE,
    GRPC_FRAME_NO_MEMORY,
};

struct grpc_frames {
    struct slice piece; /* what has not been read of the piece */
    size_t max;         /* bytes of a message */
    size_t *left;       /* bytes that all who share it may still take; null: any; init clears it */
    bool may_compress;  /* messages may be compressed; init: they may not */
    bool compressed;    /* the one that was handed out last is */
    size_t n;           /* bytes gathered, the head included */
    size_t capacity;
    char *at;                       /* `inside`, or memory of its own */
    enum grpc_frame_state ended;    /* why nothing more is read; GRPC_FRAME: it is */
    char inside[GRPC_FRAME_INSIDE]; /* not to be moved: `at` points here */
};

void grpc_frames_init(struct grpc_frames *frames, size_t max);
void grpc_frames_fini(struct grpc_frames *frames);

void grpc_frames_feed(struct grpc_frames *frames, struct slice piece);
enum grpc_frame_state grpc_frames_next(struct grpc_frames *frames, struct slice *message);

/* The message that was handed out last stays where it is after the piece it came in has gone, and
 * until another comes. False: no memory. */
bool grpc_frames_keep(struct grpc_frames *frames, struct slice *message);

/* Nothing has been begun that has not come to its end. */
static inline bool grpc_frames_between(const struct grpc_frames *frames)
{
    return frames->n == 0;
}

/* The head of a message of n bytes that is not compressed. */
static inline void grpc_frame_put_head(char head[GRPC_FRAME_HEAD], uint32_t n)
{
    head[0] = 0;
    head[1] = (char)(n >> 24);
    head[2] = (char)(n >> 16);
    head[3] = (char)(n >> 8);
    head[4] = (char)n;
}

#endif
