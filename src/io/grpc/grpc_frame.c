/* grpc_frame.c - messages out of a stream of bytes. See grpc_frame.h.
 *
 * Nearly every message lies whole in the piece that brings it: that way copies nothing. A cut one
 * goes through `at`, head first: n counts from the head's first byte, so that a head that is cut
 * itself is no case of its own. A message handed out of `at` is done with at the next call, by n
 * being 0 again; the memory is kept until the end for the next that is cut.
 */
#include "io/grpc/grpc_frame.h"

#include <assert.h>
#include <stdlib.h>

void grpc_frames_init(struct grpc_frames *frames, size_t max)
{
    frames->piece = (struct slice){"", 0};
    frames->max = max;
    frames->left = NULL;
    frames->may_compress = false;
    frames->compressed = false;
    frames->n = 0;
    frames->capacity = sizeof frames->inside;
    frames->at = frames->inside;
    frames->ended = GRPC_FRAME;
}

void grpc_frames_fini(struct grpc_frames *frames)
{
    if (frames->at != frames->inside) {
        if (frames->left != NULL)
            *frames->left += frames->capacity;
        free(frames->at);
    }
    grpc_frames_init(frames, frames->max);
}

void grpc_frames_feed(struct grpc_frames *frames, struct slice piece)
{
    assert(frames->piece.n == 0 || frames->ended != GRPC_FRAME); /* read to its end */
    frames->piece = piece;
}

/* Reads the head of a message. */
static enum grpc_frame_state read_frame_head(struct grpc_frames *frames, const char *head,
                                             size_t *length)
{
    const unsigned char *byte = (const unsigned char *)head;

    *length = (size_t)byte[1] << 24 | (size_t)byte[2] << 16 | (size_t)byte[3] << 8 | byte[4];
    frames->compressed = byte[0] == 1;
    if (byte[0] > 1 || (frames->compressed && !frames->may_compress))
        frames->ended = GRPC_FRAME_COMPRESSED;
    else if (*length > frames->max)
        frames->ended = GRPC_FRAME_TOO_LARGE;
    return frames->ended;
}

static bool reserve_gathered(struct grpc_frames *frames, size_t bytes)
{
    size_t capacity = frames->capacity;

    assert(bytes <= GRPC_FRAME_HEAD + frames->max);
    while (capacity < bytes)
        capacity *= 2;
    if (capacity == frames->capacity)
        return true;
    bool inside = frames->at == frames->inside;
    size_t more = inside ? capacity : capacity - frames->capacity;
    /* The size is chosen here and not in array.h: what it costs is counted before it is taken. */
    if (frames->left != NULL && *frames->left < more)
        return false;
    char *at = realloc(inside ? NULL : frames->at, capacity);
    if (at == NULL)
        return false;
    if (frames->left != NULL)
        *frames->left -= more;
    if (inside)
        memcpy(at, frames->inside, frames->n);
    frames->at = at;
    frames->capacity = capacity;
    return true;
}

static void skip(struct grpc_frames *frames, size_t n)
{
    frames->piece.at += n;
    frames->piece.n -= n;
}

/* Gathers as much of the piece as is missing to `want` bytes. */
static bool gather(struct grpc_frames *frames, size_t want)
{
    assert(frames->n <= want);
    size_t take = want - frames->n < frames->piece.n ? want - frames->n : frames->piece.n;

    if (!reserve_gathered(frames, frames->n + take))
        return false;
    memcpy(frames->at + frames->n, frames->piece.at, take);
    frames->n += take;
    assert(frames->n <= frames->capacity && frames->n <= GRPC_FRAME_HEAD + frames->max);
    skip(frames, take);
    return true;
}

/* Continues a message that has been begun. */
static enum grpc_frame_state next_gathered(struct grpc_frames *frames, struct slice *message)
{
    size_t length;

    if (frames->n < GRPC_FRAME_HEAD && !gather(frames, GRPC_FRAME_HEAD))
        return frames->ended = GRPC_FRAME_NO_MEMORY;
    if (frames->n < GRPC_FRAME_HEAD)
        return GRPC_FRAME_MORE;
    if (read_frame_head(frames, frames->at, &length) != GRPC_FRAME)
        return frames->ended;
    if (!gather(frames, GRPC_FRAME_HEAD + length))
        return frames->ended = GRPC_FRAME_NO_MEMORY;
    if (frames->n < GRPC_FRAME_HEAD + length)
        return GRPC_FRAME_MORE;
    *message = (struct slice){frames->at + GRPC_FRAME_HEAD, length};
    frames->n = 0;
    return GRPC_FRAME;
}

enum grpc_frame_state grpc_frames_next(struct grpc_frames *frames, struct slice *message)
{
    size_t length;

    if (frames->ended != GRPC_FRAME)
        return frames->ended;
    if (frames->n > 0 || (frames->piece.n > 0 && frames->piece.n < GRPC_FRAME_HEAD))
        return next_gathered(frames, message);
    if (frames->piece.n == 0)
        return GRPC_FRAME_MORE;
    if (read_frame_head(frames, frames->piece.at, &length) != GRPC_FRAME)
        return frames->ended;
    if (frames->piece.n < GRPC_FRAME_HEAD + length)
        return next_gathered(frames, message);
    *message = (struct slice){frames->piece.at + GRPC_FRAME_HEAD, length};
    skip(frames, GRPC_FRAME_HEAD + length);
    return GRPC_FRAME;
}

bool grpc_frames_keep(struct grpc_frames *frames, struct slice *message)
{
    if (message->at == frames->at + GRPC_FRAME_HEAD)
        return true;
    if (!reserve_gathered(frames, GRPC_FRAME_HEAD + message->n))
        return false;
    if (message->n > 0)
        memcpy(frames->at + GRPC_FRAME_HEAD, message->at, message->n);
    message->at = frames->at + GRPC_FRAME_HEAD;
    return true;
}
