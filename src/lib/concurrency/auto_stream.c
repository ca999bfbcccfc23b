/* auto_stream.c - the law `auto` where first bytes are heard: calls that wait, by Little's law.
 *
 *     waiting = rate of first bytes * (median of the time to a first byte - its base)
 *
 * over windows of 24 first bytes. The answers' lengths do not come in at all. The limit is lowered
 * by about what waits, and raised while it binds and nothing waits:
 *
 *     waiting > 2 room            min(limit, in flight) - 0.7 (waiting - room), and first bytes of
 *                                 calls admitted before now do not count: they are late in any
 *                                 case, and one cut would be answered by three more
 *     waiting > 1.3 room          - 1
 *     bound, waiting < 0.2 room   * 1.1 + 1; * 1.5 + 1 while nothing ever waited
 *     bound at times, waiting < room    + 1
 *
 *     room = max(1.5, 0.03 limit)
 */
#include "lib/concurrency/auto_internal.h"

#include <assert.h>
#include <math.h>

static const double MEAN_WEIGHT = 1.0 / 30;
static const double ROOM_LEAST = 1.5, ROOM_PART = 0.03, SOME = 1.3;

/* First bytes that will do after two bases and a second. */
enum { WINDOW_LEAST = 8 };

static double next_limit(struct auto_law *law, double limit)
{
    struct auto_stream *stream = &law->stream;
    double ms = law->at - stream->from_at;
    double rate = (double)stream->n / fmax(ms, 1);
    double waiting = rate * fmax(0, first_bytes_median(stream->over_ms, stream->n));
    double pinned = (law->counts.pinned_ms - stream->pinned_from_ms) / fmax(ms, 1);
    double room = fmax(ROOM_LEAST, ROOM_PART * limit);

    stream->allowed_ms = SOME * room / rate;
    if (waiting > room)
        stream->is_confined = true;
    if (waiting > 2 * room) {
        stream->cut_at = law->at;
        return fmin(limit, (double)law->in_flight) - 0.7 * (waiting - room);
    }
    if (waiting > SOME * room)
        return limit - 1;
    if (pinned > 0.5 && waiting < 0.2 * room)
        return limit * (stream->is_confined ? 1.1 : 1.5) + 1;
    return pinned > 0.02 && waiting < room ? limit + 1 : limit;
}

double auto_stream_first_byte(struct auto_law *law, double ms, double base, double limit)
{
    struct auto_stream *stream = &law->stream;

    if (stream->is_open && law->at - ms < stream->cut_at)
        return limit;
    if (!stream->is_open)
        *stream = (struct auto_stream){.is_open = true,
                                       .mean_ms = ms,
                                       .base_ms = base,
                                       .from_at = law->at,
                                       .pinned_from_ms = law->counts.pinned_ms,
                                       .cut_at = law->at - ms};
    stream->mean_ms += (ms - stream->mean_ms) * MEAN_WEIGHT;
    stream->base_ms += (base - stream->base_ms) * MEAN_WEIGHT;
    stream->over_ms[stream->n++] = ms - base;
    if (stream->n < AUTO_STREAM_WINDOW &&
        (stream->n < WINDOW_LEAST || law->at - stream->from_at < 2 * stream->base_ms + 1000))
        return limit;
    limit = next_limit(law, limit);
    stream->from_at = law->at;
    stream->pinned_from_ms = law->counts.pinned_ms;
    stream->n = 0;
    return limit;
}
