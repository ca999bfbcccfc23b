/* net_frames.h - HTTP/2 by hand: frames put together byte by byte, and taken apart again.
 *
 * For the side of a connection that is not under test. It knows no rules, so that it can break
 * them. Header blocks that it writes use neither table nor Huffman; those that it reads are decoded
 * by nghttp2.
 */
#ifndef NET_FRAMES_H
#define NET_FRAMES_H

#include <nghttp2/nghttp2.h>

#include "net_kit.h"

#define FRAMES_STREAMS 4096

enum {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_PRIORITY = 2,
    FRAME_RST = 3,
    FRAME_SETTINGS = 4,
    FRAME_PING = 6,
    FRAME_GOAWAY = 7,
    FRAME_WINDOW = 8,
    FRAME_CONTINUATION = 9,
};

enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4, FLAG_PADDED = 8 };

/* What came on a stream. */
struct frames_stream {
    int status; /* status in the last head that had one */
    int heads;  /* header blocks */
    size_t data_bytes;
    bool ended, reset;
    uint32_t code;   /* error code of the reset */
    char text[1024]; /* fields, "name: value\n" each, of all blocks */
};

struct frames {
    struct kit *kit;
    struct kit_raw *raw;
    size_t at; /* in what arrived */
    nghttp2_hd_inflater *inflater;
    size_t seen[16]; /* frames by type */
    size_t acks;     /* acknowledgements of settings and pings */
    bool goaway;
    uint32_t goaway_code;
    uint32_t max_streams;                         /* what the peer announced; 0: nothing */
    struct frames_stream streams[FRAMES_STREAMS]; /* by (id - 1) / 2 */
};

/* A client on a connection to the kit's listener, which has said its preface and empty settings. */
struct frames *frames_client(struct kit *kit);

/* A server on a connection that came; it has said empty settings. */
struct frames *frames_server(struct kit *kit, struct kit_raw *raw);
void frames_free(struct frames *frames);

void frames_put(struct frames *frames, int type, int flags, uint32_t id, const void *payload,
                size_t n);

/* A number of four bytes as the payload: WINDOW_UPDATE, RST_STREAM. */
void frames_put_u32(struct frames *frames, int type, uint32_t id, uint32_t number);
void frames_put_setting(struct frames *frames, int id, uint32_t value);

/* A header block: name and value in turn, ended by a null. Put at `at`; returns where it ends. */
size_t frames_block(char *block, size_t at, const char *const *words);
void frames_put_head(struct frames *frames, int flags, uint32_t id, const char *const *words);

/* POST / with an authority. */
void frames_post(struct frames *frames, uint32_t id, bool end);

/* Takes apart what has arrived. */
void frames_read(struct frames *frames);
struct frames_stream *frames_at(struct frames *frames, uint32_t id);

#define frames_until(frames, so) kit_until((frames)->kit, (frames_read(frames), (so)))

/* Drives until the reply on a stream is whole. */
#define frames_expect_status(frames, id, number)                                                   \
    do {                                                                                           \
        frames_until(frames, frames_at(frames, id)->ended);                                        \
        assert_int_equal(frames_at(frames, id)->status, number);                                   \
    } while (0)

#endif
