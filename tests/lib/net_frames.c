/* net_frames.c - HTTP/2 by hand. See net_frames.h. */
#include "net_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct frames *frames_new(struct kit *kit, struct kit_raw *raw)
{
    struct frames *frames = calloc(1, sizeof *frames);

    assert_non_null(frames);
    frames->kit = kit;
    frames->raw = raw;
    assert_int_equal(nghttp2_hd_inflate_new(&frames->inflater), 0);
    return frames;
}

struct frames *frames_client(struct kit *kit)
{
    struct frames *frames = frames_new(kit, kit_connect(kit));

    kit_put(kit, frames->raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frames_put(frames, FRAME_SETTINGS, 0, 0, NULL, 0);
    return frames;
}

struct frames *frames_server(struct kit *kit, struct kit_raw *raw)
{
    struct frames *frames = frames_new(kit, raw);

    kit_until(kit, raw->n >= 24);
    assert_memory_equal(raw->got, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frames->at = 24;
    frames_put(frames, FRAME_SETTINGS, 0, 0, NULL, 0);
    return frames;
}

void frames_free(struct frames *frames)
{
    nghttp2_hd_inflate_del(frames->inflater);
    free(frames);
}

/* ---- Together -------------------------------------------------------------------------------- */

static void put_u32(unsigned char *to, uint32_t number)
{
    to[0] = (unsigned char)(number >> 24);
    to[1] = (unsigned char)(number >> 16);
    to[2] = (unsigned char)(number >> 8);
    to[3] = (unsigned char)number;
}

void frames_put(struct frames *frames, int type, int flags, uint32_t id, const void *payload,
                size_t n)
{
    unsigned char head[9] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n,
                             (unsigned char)type, (unsigned char)flags};

    put_u32(head + 5, id);
    kit_put_bytes(frames->kit, frames->raw, (const char *)head, sizeof head);
    if (n > 0)
        kit_put_bytes(frames->kit, frames->raw, payload, n);
}

void frames_put_u32(struct frames *frames, int type, uint32_t id, uint32_t number)
{
    unsigned char payload[4];

    put_u32(payload, number);
    frames_put(frames, type, 0, id, payload, sizeof payload);
}

void frames_put_setting(struct frames *frames, int id, uint32_t value)
{
    unsigned char payload[6] = {(unsigned char)(id >> 8), (unsigned char)id};

    put_u32(payload + 2, value);
    frames_put(frames, FRAME_SETTINGS, 0, 0, payload, sizeof payload);
}

static size_t put_text(char *block, size_t at, const char *text)
{
    size_t n = strlen(text);

    /* A length of seven bits, and what is more than that in seven more each. */
    if (n < 127) {
        block[at++] = (char)n;
    } else {
        size_t more = n - 127;

        block[at++] = 127;
        for (; more >= 128; more /= 128)
            block[at++] = (char)(more % 128 + 128);
        block[at++] = (char)more;
    }
    memcpy(block + at, text, n);
    return at + n;
}

size_t frames_block(char *block, size_t at, const char *const *words)
{
    for (; *words != NULL; words += 2) {
        block[at++] = 0; /* a literal that is not to be remembered */
        at = put_text(block, at, words[0]);
        at = put_text(block, at, words[1]);
    }
    return at;
}

void frames_put_head(struct frames *frames, int flags, uint32_t id, const char *const *words)
{
    static char block[16384];

    frames_put(frames, FRAME_HEADERS, flags | FLAG_END_HEADERS, id, block,
               frames_block(block, 0, words));
}

void frames_post(struct frames *frames, uint32_t id, bool end)
{
    static const char *const words[] = {":method", "POST",       ":scheme", "http", ":path",
                                        "/x",      ":authority", "a",       NULL};

    frames_put_head(frames, end ? FLAG_END_STREAM : 0, id, words);
}

/* ---- Apart ----------------------------------------------------------------------------------- */

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

struct frames_stream *frames_at(struct frames *frames, uint32_t id)
{
    size_t i = (id - 1) / 2;

    assert_true(i < FRAMES_STREAMS);
    return &frames->streams[i];
}

static void note_field(struct frames_stream *stream, const nghttp2_nv *nv)
{
    size_t n = strlen(stream->text);

    if (nv->namelen == 7 && memcmp(nv->name, ":status", 7) == 0)
        stream->status = atoi((const char *)nv->value);
    snprintf(stream->text + n, sizeof stream->text - n, "%.*s: %.*s\n", (int)nv->namelen,
             (const char *)nv->name, (int)nv->valuelen, (const char *)nv->value);
}

static void read_block(struct frames *frames, struct frames_stream *stream,
                       const unsigned char *block, size_t n)
{
    int flags = 0;

    stream->heads++;
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv nv;
        ssize_t used = nghttp2_hd_inflate_hd2(frames->inflater, &nv, &flags, block, n, 1);

        assert_true(used >= 0);
        block += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            note_field(stream, &nv);
    }
    nghttp2_hd_inflate_end_headers(frames->inflater);
}

static void read_settings(struct frames *frames, const unsigned char *payload, size_t n)
{
    for (size_t i = 0; i + 6 <= n; i += 6)
        if (payload[i] == 0 && payload[i + 1] == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            frames->max_streams = get_u32(payload + i + 2);
}

static void read_frame(struct frames *frames, int type, int flags, uint32_t id,
                       const unsigned char *payload, size_t n)
{
    struct frames_stream *stream = id > 0 ? frames_at(frames, id) : NULL;

    if (type < 16)
        frames->seen[type]++;
    if ((type == FRAME_SETTINGS || type == FRAME_PING) && (flags & FLAG_ACK))
        frames->acks++;
    else if (type == FRAME_SETTINGS)
        read_settings(frames, payload, n);
    if (type == FRAME_GOAWAY) {
        frames->goaway = true;
        frames->goaway_code = get_u32(payload + 4);
    }
    if (stream == NULL)
        return;
    if (type == FRAME_HEADERS)
        read_block(frames, stream, payload, n);
    if (type == FRAME_DATA)
        stream->data_bytes += n;
    if ((type == FRAME_HEADERS || type == FRAME_DATA) && (flags & FLAG_END_STREAM))
        stream->ended = true;
    if (type == FRAME_RST) {
        stream->reset = true;
        stream->code = get_u32(payload);
    }
}

void frames_read(struct frames *frames)
{
    for (;;) {
        const unsigned char *at = (const unsigned char *)frames->raw->got + frames->at;
        size_t left = frames->raw->n - frames->at;

        if (left < 9)
            return;
        size_t n = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        if (left < 9 + n)
            return;
        read_frame(frames, at[3], at[4], get_u32(at + 5) & 0x7fffffff, at + 9, n);
        frames->at += 9 + n;
    }
}
