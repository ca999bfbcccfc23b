/* fuzz_usage.c - any bytes as a reply: its usage is found or not, the same however it is cut.
 *
 * Where the reply is JSON, what the scan finds is what the reader finds at the top level. The first
 * byte chooses how the rest is cut.
 */
#include <stdlib.h>

#include "insist.h"
#include "server/dialect/upstream_wait.h"
#include "server/dialect/usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct usage_reading scan(struct json_reader *reader, const char *bytes, size_t n,
                                 size_t piece, struct usage_scan *room)
{
    struct usage_reading reading;

    usage_scan_init(room);
    for (size_t at = 0; at < n; at += piece)
        usage_scan_feed(room, bytes + at, piece < n - at ? piece : n - at);
    usage_scan_end(room, reader, NULL, &reading);
    return reading;
}

static bool same(const struct usage_reading *a, const struct usage_reading *b)
{
    return a->found == b->found && a->absurd == b->absurd && a->reasoning == b->reasoning &&
           memcmp(&a->usage, &b->usage, sizeof a->usage) == 0;
}

/* By the reader alone; false if this is no JSON object, or one that says more than that. */
static bool read_whole(struct json_reader *reader, const char *bytes, size_t n,
                       struct usage_reading *reading)
{
    struct json_text key;
    struct json_value value;

    *reading = (struct usage_reading){.found = false};
    if (!json_begin(reader, bytes, n, n, &value) || value.kind != JSON_OBJECT ||
        !json_enter(reader))
        return false;
    bool plain = true; /* nothing else says what was used */
    while (json_next(reader, &key, &value)) {
        plain &= !json_text_is(key, "usageMetadata") && !json_text_is(key, "tool_usage") &&
                 !json_text_is(key, "output");
        if (json_text_is(key, "usage") && value.kind == JSON_OBJECT)
            usage_read(reader, &value, reading);
    }
    return json_end(reader) && plain;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *reader;
    struct usage_scan whole;
    struct usage_scan cut;
    struct usage_reading wanted;

    if (reader == NULL)
        reader = json_reader_new();
    if (size < 1 || reader == NULL)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t n = size - 1;
    struct usage_reading one = scan(reader, bytes, n, SIZE_MAX / 2, &whole);
    struct usage_reading two = scan(reader, bytes, n, 1u + data[0] % 64, &cut);
    insist(same(&one, &two));
    insist(whole.text_bytes == cut.text_bytes && whole.error == cut.error);
    insist(whole.complete == cut.complete && whole.broken == cut.broken);
    insist(!tg_usage_absurd(&one.usage) && one.reasoning <= one.usage.output);
    insist(one.refused == two.refused && strcmp(one.tier, two.tier) == 0);
    if (read_whole(reader, bytes, n, &wanted) && !whole.too_long) {
        insist(whole.complete);
        insist(same(&one, &wanted));
    }

    /* The same bytes as a header. */
    struct http_field field = {SLICE("retry-after"), {bytes, n}};
    tg_ms until = upstream_wait(&field, 1, 1000);
    insist(until == 0 || (until >= 1000 + UPSTREAM_WAIT_MIN && until <= 1000 + UPSTREAM_WAIT_MAX));
    field.name = SLICE("x-ratelimit-reset-tokens");
    until = upstream_wait(&field, 1, 1000);
    insist(until == 0 || (until >= 1000 + UPSTREAM_WAIT_MIN && until <= 1000 + UPSTREAM_WAIT_MAX));
    (void)upstream_quota_exhausted(reader, bytes, n, n);
    return 0;
}
