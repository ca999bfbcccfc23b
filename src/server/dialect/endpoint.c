/* endpoint.c - which call a request line is.
 *
 * A path that is nearly one of ours is none: "/v1//messages" or "/v1/messages/" may mean something
 * to a provider and nothing here, and what is not known is not forwarded unmetered. So paths are
 * compared byte by byte, before any escape in them is resolved.
 */
#include "io/text/hex.h"
#include "server/dialect/ask.h"
#include "server/dialect/path_pattern.h"

struct row {
    const char *name, *path, *allow;
    enum wire_api api;
};

static const struct row rows[ENDPOINT_COUNT] = {
    [ENDPOINT_NONE] = {"none", NULL, NULL, WIRE_OPENAI},
    [ENDPOINT_CHAT] = {"chat", "/v1/chat/completions", "POST", WIRE_OPENAI},
    [ENDPOINT_COMPLETIONS] = {"completions", "/v1/completions", "POST", WIRE_OPENAI},
    [ENDPOINT_RESPONSES] = {"responses", "/v1/responses", "POST", WIRE_OPENAI},
    [ENDPOINT_EMBEDDINGS] = {"embeddings", "/v1/embeddings", "POST", WIRE_OPENAI},
    [ENDPOINT_MESSAGES] = {"messages", "/v1/messages", "POST", WIRE_ANTHROPIC},
    [ENDPOINT_COUNT_TOKENS] = {"count_tokens", "/v1/messages/count_tokens", "POST", WIRE_ANTHROPIC},
    [ENDPOINT_MODELS] = {"models", "/v1/models", "GET", WIRE_OPENAI},
    [ENDPOINT_MODEL] = {"model", NULL, "GET", WIRE_OPENAI},
};

static bool slice_is(struct slice slice, const char *text)
{
    return slice.n == strlen(text) && memcmp(slice.at, text, slice.n) == 0;
}

static enum endpoint find_path(struct slice path, struct slice *model)
{
    static const char models[] = "/v1/models/";
    size_t n = sizeof models - 1;

    for (int i = 0; i < ENDPOINT_COUNT; i++)
        if (rows[i].path != NULL && slice_is(path, rows[i].path))
            return (enum endpoint)i;
    if (path.n > n && memcmp(path.at, models, n) == 0) {
        *model = (struct slice){path.at + n, path.n - n};
        return ENDPOINT_MODEL;
    }
    return ENDPOINT_NONE;
}

struct endpoint_match endpoint_of(struct slice method, struct slice target)
{
    struct endpoint_match match = {.endpoint = ENDPOINT_NONE, .method_ok = true};
    const char *query = target.n > 0 ? memchr(target.at, '?', target.n) : NULL;
    struct slice path = {target.at, query != NULL ? (size_t)(query - target.at) : target.n};

    match.endpoint = find_path(path, &match.model);
    match.allow = rows[match.endpoint].allow;
    if (match.allow != NULL) /* HEAD is GET whose body is not sent, for whoever answers here */
        match.method_ok = slice_is(method, match.allow) ||
                          (slice_is(method, "HEAD") && strcmp(match.allow, "GET") == 0);
    return match;
}

enum wire_api endpoint_api(enum endpoint endpoint)
{
    return (unsigned)endpoint < ENDPOINT_COUNT ? rows[endpoint].api : WIRE_OPENAI;
}

const char *endpoint_path(enum endpoint endpoint)
{
    return (unsigned)endpoint < ENDPOINT_COUNT ? rows[endpoint].path : NULL;
}

const char *endpoint_name(enum endpoint endpoint)
{
    return rows[(unsigned)endpoint < ENDPOINT_COUNT ? endpoint : ENDPOINT_NONE].name;
}

bool endpoint_starts_work(struct slice path)
{
    static const char *const names[] = {"batches", "fine_tuning", "runs", "evals", "videos"};
    struct slice segment;

    while (path_next(&path, &segment))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (slice_is(segment, names[i]))
                return true;
    return false;
}

bool endpoint_unescape(struct slice part, char *text, size_t size, size_t *n)
{
    size_t out = 0;

    for (size_t i = 0; i < part.n; i++) {
        char c = part.at[i];
        if (c == '%') {
            int high = part.n - i > 2 ? hex_digit(part.at[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(part.at[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || out == size)
            return false;
        text[out++] = c;
    }
    *n = out;
    return true;
}
