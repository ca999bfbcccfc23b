/* trace_parent.c - whose trace a request belongs to. See trace_parent.h.
 *
 * Anybody may send such a field. What is not exactly as the standard has it is as if it were not
 * there: it decides nothing but the numbers under which a request can be found again.
 */
#include "server/obs/trace_parent.h"

#include <assert.h>
#include <string.h>

#include "io/text/text_out.h"

enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53 };

/* The value of a hexadecimal digit; -1: it is none, nor is a capital letter. */
static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *text, uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(16 * high + low);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Later versions may have more behind, after a dash; ff is none. */
static bool read_parent(struct slice text, struct trace_ids *ids)
{
    uint8_t version, flags;

    if (text.n < TRACE_PARENT_BYTES || !read_hex(text.at + VERSION_AT, &version, 1) ||
        version == 0xff || (text.n > TRACE_PARENT_BYTES && version == 0))
        return false;
    if (text.n > TRACE_PARENT_BYTES && text.at[TRACE_PARENT_BYTES] != '-')
        return false;
    if (text.at[TRACE_AT - 1] != '-' || text.at[SPAN_AT - 1] != '-' || text.at[FLAGS_AT - 1] != '-')
        return false;
    if (!read_hex(text.at + TRACE_AT, ids->trace_id, sizeof ids->trace_id) ||
        !read_hex(text.at + SPAN_AT, ids->parent_id, sizeof ids->parent_id) ||
        !read_hex(text.at + FLAGS_AT, &flags, 1))
        return false;
    ids->sampled = flags & 1;
    return !is_zero(ids->trace_id, sizeof ids->trace_id) &&
           !is_zero(ids->parent_id, sizeof ids->parent_id);
}

void trace_ids_init(struct trace_ids *ids, struct slice traceparent, bool begin,
                    const uint64_t random[3])
{
    uint64_t some[3] = {random[0] | 1, random[1], random[2] | 1}; /* 0 is not a number of theirs */

    if (!read_parent(traceparent, ids)) {
        memset(ids, 0, sizeof *ids);
        if (!begin)
            return;
        memcpy(ids->trace_id, some, sizeof ids->trace_id);
        ids->sampled = true;
    }
    memcpy(ids->span_id, &some[2], sizeof ids->span_id);
}

bool trace_ids_present(const struct trace_ids *ids)
{
    return !is_zero(ids->trace_id, sizeof ids->trace_id);
}

void trace_parent_write(const struct trace_ids *ids, char text[TRACE_PARENT_BYTES])
{
    struct text_out out;

    text_out_fixed(&out, text, TRACE_PARENT_BYTES);
    text_out_text(&out, "00-");
    text_out_hex(&out, ids->trace_id, sizeof ids->trace_id);
    text_out_char(&out, '-');
    text_out_hex(&out, ids->span_id, sizeof ids->span_id);
    text_out_text(&out, ids->sampled ? "-01" : "-00");
    assert(!out.failed && out.size == TRACE_PARENT_BYTES);
}
