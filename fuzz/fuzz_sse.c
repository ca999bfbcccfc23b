/* fuzz_sse.c - any bytes as a stream of events, cut in any way: the same events, and every byte
 * once.
 *
 * The first two bytes choose the endpoint and how the rest is cut. Whole and cut, the stream must
 * give the same events and the same reading.
 */
#include <stdlib.h>

#include "insist.h"
#include "server/dialect/meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PRIME UINT64_C(1099511628211)

/* What a stream came to. */
struct sum {
    uint64_t events; /* a hash of names and data, in order */
    size_t raw;      /* bytes passed on so far */
    struct meter meter;
};

static uint64_t mix(uint64_t hash, struct slice slice)
{
    hash = (hash ^ slice.n) * PRIME;
    for (size_t i = 0; i < slice.n; i++)
        hash = (hash ^ (unsigned char)slice.at[i]) * PRIME;
    return hash;
}

static void take(struct sum *sum, struct json_reader *reader, const struct sse_event *event,
                 const char *whole, size_t n)
{
    struct meter_event seen;

    insist(event->raw.n > 0 && event->raw.n <= n - sum->raw);
    insist(memcmp(event->raw.at, whole + sum->raw, event->raw.n) == 0);
    sum->raw += event->raw.n;
    if (event->kind == SSE_EVENT)
        sum->events = mix(mix(sum->events, event->name), event->data);
    meter_take(&sum->meter, reader, event, &seen);
    insist(!seen.retryable || seen.error);
    insist(memchr(seen.error_type, '\0', sizeof seen.error_type) != NULL);
}

static struct sum run(struct json_reader *reader, enum endpoint endpoint, const char *bytes,
                      size_t n, size_t piece)
{
    struct sum sum = {0, 0, {.events = 0}};
    struct sse sse;
    struct sse_event event;

    sse_init(&sse);
    meter_init(&sum.meter, endpoint);
    for (size_t at = 0; at < n; at += piece) {
        size_t now = piece < n - at ? piece : n - at;
        char *exact = malloc(now);
        memcpy(exact, bytes + at, now);
        sse_feed(&sse, exact, now);
        while (sse_next(&sse, &event))
            take(&sum, reader, &event, bytes, n);
        free(exact);
    }
    while (sse_end(&sse, &event))
        take(&sum, reader, &event, bytes, n);
    insist(sum.raw == n);
    sse_fini(&sse);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *reader;

    if (reader == NULL)
        reader = json_reader_new();
    if (size < 2 || reader == NULL)
        return 0;
    enum endpoint endpoint = (enum endpoint)(data[0] % ENDPOINT_COUNT);
    const char *bytes = (const char *)data + 2;
    struct sum whole = run(reader, endpoint, bytes, size - 2, SIZE_MAX / 2);
    struct sum cut = run(reader, endpoint, bytes, size - 2, 1u + data[1] % 64);
    insist(whole.events == cut.events);
    insist(whole.meter.text_bytes == cut.meter.text_bytes && whole.meter.text_bytes >= 0);
    insist(whole.meter.ended == cut.meter.ended && whole.meter.error == cut.meter.error);
    insist(whole.meter.reading.usage.input == cut.meter.reading.usage.input);
    insist(whole.meter.reading.usage.output == cut.meter.reading.usage.output);
    insist(!tg_usage_absurd(&whole.meter.reading.usage));
    return 0;
}
