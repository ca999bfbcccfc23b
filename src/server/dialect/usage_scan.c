/* usage_scan.c - finds the usage in a reply that passes by in pieces.
 *
 * A reply can have many megabytes (embeddings, images) and goes to the client as it comes, so it is
 * not kept. All that is needed is an object that stands at its top level, under one key. So this is
 * no parser but a scanner: it knows strings, escapes, nesting, and what a key is. It accepts what
 * is no JSON; the object that it finds is read by the JSON reader, which does not.
 *
 * In between it counts what a model has written, for replies without usage: strings under the keys
 * that the APIs use for text, and all that is under `input`, the arguments of Anthropic's tool
 * calls.
 *
 * A promise: however a reply is cut, the result is the same (every_cut_gives_the_same).
 */
#include "server/dialect/usage.h"

#include <assert.h>
#include <string.h>

#include "io/text/run.h"

enum state {
    BETWEEN, /* tokens; numbers and words are passed over here too */
    STRING,
    ESCAPE,  /* behind a backslash */
    UNICODE, /* the four digits behind \u */
    FINISHED,
};

enum usage_capture { CAPTURES_NOTHING, CAPTURES_USAGE, CAPTURES_TOOLS };
enum usage_word { NO_WORD, WORD_TIER, WORD_STOP, WORD_ITEM, WORD_ACTION };

void usage_scan_init(struct usage_scan *scan)
{
    memset(scan, 0, offsetof(struct usage_scan, value));
}

/* ---- Where we are ---------------------------------------------------------------------------- */

static bool in_object(const struct usage_scan *scan)
{
    int level = scan->depth - 1;

    assert(level < USAGE_DEPTH_MAX);
    return level >= 0 && (scan->objects[level / 64] >> (level % 64) & 1) != 0;
}

static bool key_is_word(const struct usage_scan *scan, const char *word, size_t n)
{
    return scan->key_n == n && memcmp(scan->key, word, n) == 0;
}
#define key_is(scan, literal) key_is_word(scan, literal, sizeof(literal) - 1)

static bool is_text_key(const struct usage_scan *scan)
{
    return key_is(scan, "content") || key_is(scan, "text") || key_is(scan, "arguments") ||
           key_is(scan, "thinking") || key_is(scan, "reasoning") || key_is(scan, "refusal") ||
           key_is(scan, "reasoning_content") || key_is(scan, "transcript");
}

static void stop(struct usage_scan *scan, bool broken)
{
    scan->state = FINISHED;
    scan->broken = broken;
    scan->complete = !broken;
}

/* ---- The value that is kept ------------------------------------------------------------------ */

/* Adds bytes to a value; of one that is too long nothing is kept. */
static void capture(struct usage_scan *scan, int capturing, const char *bytes, size_t n)
{
    if (capturing == CAPTURES_NOTHING)
        return;
    bool usage = capturing == CAPTURES_USAGE;
    size_t *used = usage ? &scan->value_n : &scan->tools_n;
    if (n > (usage ? USAGE_VALUE_MAX : USAGE_TOOLS_MAX) - *used) {
        scan->too_long |= usage;
        scan->capturing = CAPTURES_NOTHING;
        *used = 0;
        return;
    }
    memcpy((usage ? scan->value : scan->tools) + *used, bytes, n);
    *used += n;
}

/* ---- Words that are kept --------------------------------------------------------------------- */

/* The strings at the top and in the items of a response that say what is billed. */
static int word_at(const struct usage_scan *scan)
{
    if (scan->depth == 1 && in_object(scan))
        return key_is(scan, "service_tier") || key_is(scan, "serviceTier") ? WORD_TIER
               : key_is(scan, "stop_reason")                               ? WORD_STOP
                                                                           : NO_WORD;
    if (scan->depth == 3 && scan->in_items && key_is(scan, "type"))
        return WORD_ITEM;
    return scan->depth == 4 && scan->in_action && key_is(scan, "type") ? WORD_ACTION : NO_WORD;
}

static void take_word(struct usage_scan *scan, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && scan->word_n < USAGE_WORD_MAX - 1; i++)
        scan->words[scan->word_n++] = bytes[i] > ' ' && bytes[i] < 0x7f ? bytes[i] : '_';
}

static bool word_is(const struct usage_scan *scan, const char *word)
{
    return scan->word_n == strlen(word) && memcmp(scan->words, word, scan->word_n) == 0;
}

static void end_word(struct usage_scan *scan)
{
    switch ((enum usage_word)scan->word) {
    case WORD_TIER:
        memcpy(scan->tier, scan->words, scan->word_n);
        scan->tier[scan->word_n] = '\0';
        break;
    case WORD_STOP:
        scan->refused = word_is(scan, "refusal");
        break;
    case WORD_ITEM:
        scan->searches += word_is(scan, "file_search_call");
        break;
    case WORD_ACTION:
        scan->searches += word_is(scan, "search");
        break;
    case NO_WORD:
        break;
    }
    scan->word = NO_WORD;
}

/* The first byte of a value, wherever it stands. Whether the value is kept from here on. */
static bool begin_value(struct usage_scan *scan, char c)
{
    bool top = scan->depth == 1 && in_object(scan), kept = false;

    scan->expecting = false;
    if (top && (key_is(scan, "usage") || key_is(scan, "usageMetadata"))) {
        kept = true;
        scan->capturing = CAPTURES_USAGE;
        scan->too_long = false;
        scan->value_n = 0;
    } else if (top && key_is(scan, "tool_usage")) {
        kept = true;
        scan->capturing = CAPTURES_TOOLS;
        scan->tools_n = 0;
    }
    if (top)
        scan->in_items = key_is(scan, "output");
    if (scan->depth == 3)
        scan->in_action = scan->in_items && c == '{' && key_is(scan, "action");
    scan->word = c == '"' ? word_at(scan) : NO_WORD;
    scan->word_n = 0;
    if (top && key_is(scan, "error"))
        scan->error = c != 'n';
    if (c == '{' && scan->input_depth == 0 && key_is(scan, "input"))
        scan->input_depth = scan->depth + 1;
    scan->counted = c == '"' && (scan->input_depth > 0 || is_text_key(scan));
    return kept;
}

/* ---- Nesting --------------------------------------------------------------------------------- */

static void open_level(struct usage_scan *scan, bool object)
{
    if (scan->depth == USAGE_DEPTH_MAX) {
        stop(scan, true);
        return;
    }
    uint64_t bit = UINT64_C(1) << (scan->depth % 64);
    uint64_t *word = &scan->objects[scan->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    scan->depth++;
    scan->in_key = object;
    scan->expecting = !object;
}

static void close_level(struct usage_scan *scan, bool object)
{
    if (scan->depth == 0 || in_object(scan) != object) {
        stop(scan, true);
        return;
    }
    assert(scan->input_depth <= scan->depth); /* it ends with the level it began at */
    if (scan->depth == scan->input_depth)
        scan->input_depth = 0;
    scan->depth--;
    scan->in_key = false;
    scan->expecting = false;
    if (scan->depth == 0)
        stop(scan, false);
}

/* Some put one in front of JSON, and readers pass over it. */
static bool is_mark(struct usage_scan *scan, char c)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (c == mark[scan->mark]) {
        scan->mark++;
        return true;
    }
    scan->mark = 3;
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips the rest of a number, behind a digit: its value does not matter, and vectors consist of
 * them. Returns how many bytes were taken. */
static size_t take_number(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && (is_digit(bytes[i]) || bytes[i] == '.'))
        i++;
    return i;
}

/* Whether a value that is kept begins with this byte. */
static bool take_between(struct usage_scan *scan, char c)
{
    bool begins = false;

    if (scan->mark < 3 && is_mark(scan, c))
        return false;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        return false;
    if (scan->depth == 0 && c != '{') {
        stop(scan, true);
        return false;
    }
    /* The captured value ends at the comma or brace behind it, which is not part of it. */
    if (scan->depth == 1 && (c == ',' || c == '}'))
        scan->capturing = CAPTURES_NOTHING;
    if (scan->expecting && c != ']')
        begins = begin_value(scan, c);
    if (c == '"') {
        scan->state = STRING;
        if (scan->in_key)
            scan->key_n = 0;
    } else if (c == '{' || c == '[') {
        open_level(scan, c == '{');
    } else if (c == '}' || c == ']') {
        close_level(scan, c == '}');
    } else if (c == ':') {
        scan->in_key = false;
        scan->expecting = true;
    } else if (c == ',') {
        scan->in_key = in_object(scan);
        scan->expecting = !scan->in_key;
    }
    return begins;
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* A key that is too long is none of those we know: its length says so. */
static void take_key(struct usage_scan *scan, char c)
{
    if (scan->key_n < USAGE_KEY_MAX)
        scan->key[scan->key_n++] = c;
}

/* Returns how many bytes were taken. */
static size_t take_string(struct usage_scan *scan, const char *bytes, size_t n)
{
    size_t run = run_without(bytes, n, '"', '\\');

    if (scan->in_key) {
        size_t room = USAGE_KEY_MAX - scan->key_n, taken = run < room ? run : room;
        memcpy(scan->key + scan->key_n, bytes, taken);
        scan->key_n += taken;
    } else if (scan->counted) {
        scan->text_bytes += (int64_t)run;
    } else if (scan->word != NO_WORD) {
        take_word(scan, bytes, run);
    }
    if (run == n)
        return run;
    scan->state = bytes[run] == '"' ? BETWEEN : ESCAPE;
    if (scan->state == BETWEEN && !scan->in_key)
        end_word(scan);
    return run + 1;
}

static void take_escape(struct usage_scan *scan, char c)
{
    scan->state = c == 'u' ? UNICODE : STRING;
    scan->escape_left = 4;
    scan->escape_value = 0;
    if (c == 'u')
        return;
    scan->text_bytes += !scan->in_key && scan->counted;
    if (scan->in_key)
        take_key(scan, c == '"' || c == '\\' || c == '/' ? c : '\n');
}

static void take_unicode(struct usage_scan *scan, char c)
{
    unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : ((unsigned)c | 0x20) - 'a' + 10;

    scan->escape_value = (scan->escape_value << 4 | (digit & 15)) & 0xffff;
    assert(scan->escape_left > 0);
    if (--scan->escape_left > 0)
        return;
    scan->state = STRING;
    if (scan->in_key) /* the keys we know are all ASCII */
        take_key(scan, scan->escape_value < 0x80 ? (char)scan->escape_value : '\x7f');
    else if (scan->counted) /* half a pair is 2 bytes of 4 */
        scan->text_bytes += scan->escape_value < 0x80                                        ? 1
                            : scan->escape_value < 0x800 || scan->escape_value >> 11 == 0x1b ? 2
                                                                                             : 3;
}

/* ---- The interface --------------------------------------------------------------------------- */

void usage_scan_feed(struct usage_scan *scan, const char *bytes, size_t n)
{
    size_t i = 0, from = 0; /* from where on the value is not kept yet that is being captured */

    while (i < n && scan->state != FINISHED) {
        int capturing = scan->capturing;
        bool begins;
        switch ((enum state)scan->state) {
        case BETWEEN:
            begins = take_between(scan, bytes[i++]);
            if (scan->capturing != capturing) /* one ends before this byte */
                capture(scan, capturing, bytes + from, i - 1 - from);
            if (begins)
                from = i - 1;
            if (is_digit(bytes[i - 1]) && scan->state == BETWEEN)
                i += take_number(bytes + i, n - i);
            break;
        case STRING:
            i += take_string(scan, bytes + i, n - i);
            break;
        case ESCAPE:
            take_escape(scan, bytes[i++]);
            break;
        case UNICODE:
            take_unicode(scan, bytes[i++]);
            break;
        case FINISHED:
            break;
        }
    }
    capture(scan, scan->capturing, bytes + from, i - from);
}

/* The reader wants an object or array, and null is neither. */
void usage_scan_end(struct usage_scan *scan, struct json_reader *reader,
                    struct usage_passes *passes, struct usage_reading *reading)
{
    struct usage_reading found = {.refused = scan->refused, .passes = passes};
    struct json_value value;

    *reading = (struct usage_reading){.refused = scan->refused};
    if (passes != NULL)
        passes->n = 0;
    if (scan->capturing != CAPTURES_NOTHING || scan->value_n == 0 || scan->value[0] != '{')
        return;
    if (!json_begin(reader, scan->value, scan->value_n, sizeof scan->value, &value))
        return;
    usage_read(reader, &value, &found);
    if (!json_end(reader))
        return;
    if (found.tier[0] == '\0')
        memcpy(found.tier, scan->tier, sizeof found.tier);
    if (!found.absurd && found.usage.tool_calls < scan->searches)
        found.usage.tool_calls = scan->searches;
    *reading = found;
    if (scan->tools_n == 0 || scan->tools[0] != '{' ||
        !json_begin(reader, scan->tools, scan->tools_n, sizeof scan->tools, &value))
        return;
    usage_read_tools(reader, &value, &found);
    if (json_end(reader))
        *reading = found;
}
