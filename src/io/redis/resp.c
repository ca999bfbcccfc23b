/* resp.c - the words of Redis: commands written, errors told apart. See resp.h. */
#include "io/redis/resp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Commands -------------------------------------------------------------------------------- */

static size_t digits_of(size_t n)
{
    size_t digits = 1;

    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

static char *resp_put_number(char *at, char mark, size_t n)
{
    size_t digits = digits_of(n);

    *at++ = mark;
    for (size_t i = digits; i-- > 0; n /= 10)
        at[i] = (char)('0' + n % 10);
    memcpy(at + digits, "\r\n", 2);
    return at + digits + 2;
}

size_t resp_head_bytes(size_t n)
{
    return 1 + digits_of(n) + 2;
}

size_t resp_word_bytes(size_t n)
{
    return resp_head_bytes(n) + n + 2;
}

char *resp_put_head(char *at, size_t n)
{
    return resp_put_number(at, '*', n);
}

char *resp_put_word(char *at, struct slice word)
{
    at = resp_put_number(at, '$', word.n);
    if (word.n > 0)
        memcpy(at, word.at, word.n);
    memcpy(at + word.n, "\r\n", 2);
    return at + word.n + 2;
}

size_t resp_command_bytes(const struct slice *words, size_t n)
{
    size_t bytes = resp_head_bytes(n);

    for (size_t i = 0; i < n; i++)
        bytes += resp_word_bytes(words[i].n);
    return bytes;
}

char *resp_put_command(char *at, const struct slice *words, size_t n)
{
    at = resp_put_head(at, n);
    for (size_t i = 0; i < n; i++)
        at = resp_put_word(at, words[i]);
    return at;
}

/* ---- Memory for commands --------------------------------------------------------------------- */

struct resp_spare {
    struct resp_spare *next;
};

/* RESP_SIZES: too large to be kept. */
static size_t size_class(size_t bytes)
{
    size_t class = 0;

    while (class < RESP_SIZES && ((size_t)RESP_SIZE_MIN << class) < bytes)
        class ++;
    return class;
}

char *resp_pool_take(struct resp_pool *pool, size_t bytes)
{
    size_t class = size_class(bytes);

    if (class == RESP_SIZES)
        return malloc(bytes);
    struct resp_spare *spare = pool->spare[class];
    if (spare == NULL)
        return malloc((size_t)RESP_SIZE_MIN << class);
    assert(pool->n[class] > 0);
    pool->spare[class] = spare->next;
    pool->n[class]--;
    return (char *)spare;
}

void resp_pool_give(struct resp_pool *pool, char *memory, size_t bytes)
{
    size_t class = size_class(bytes);

    if (memory == NULL || class == RESP_SIZES || pool->n[class] >= RESP_KEPT_MAX) {
        free(memory);
        return;
    }
    struct resp_spare *spare = (struct resp_spare *)(void *)memory;
    spare->next = pool->spare[class];
    pool->spare[class] = spare;
    pool->n[class]++;
}

void resp_pool_fini(struct resp_pool *pool)
{
    for (size_t class = 0; class < RESP_SIZES; class ++) {
        while (pool->spare[class] != NULL) {
            struct resp_spare *spare = pool->spare[class];

            pool->spare[class] = spare->next;
            free(spare);
        }
        pool->n[class] = 0;
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum resp_error error;
} errors[] = {
    {"NOSCRIPT", RESP_NOSCRIPT},       {"MOVED", RESP_MOVED},       {"ASK", RESP_ASK},
    {"TRYAGAIN", RESP_TRYAGAIN},       {"READONLY", RESP_READONLY}, {"NOAUTH", RESP_NOAUTH},
    {"CLUSTERDOWN", RESP_CLUSTERDOWN}, {"NOPERM", RESP_NOPERM},     {"LOADING", RESP_UNWELL},
    {"MASTERDOWN", RESP_UNWELL},       {"OOM", RESP_UNWELL},        {"MISCONF", RESP_UNWELL},
    {"NOREPLICAS", RESP_UNWELL},       {"BUSY", RESP_UNWELL},
};

static enum resp_error error_of_word(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strlen(errors[i].word) == n && memcmp(errors[i].word, text, n) == 0)
            return errors[i].error;
    return RESP_ERROR;
}

/* Before Redis 7 an error inside a script stood behind "ERR Error running script (call to ...): ",
 * with its dash. */
static enum resp_error error_in_script(const char *text)
{
    const char *dash = strstr(text, ": -");
    enum resp_error error =
        dash != NULL ? error_of_word(dash + 3, strcspn(dash + 3, " ")) : RESP_ERROR;

    return error == RESP_READONLY || error == RESP_UNWELL || error == RESP_NOPERM ? error
                                                                                  : RESP_ERROR;
}

/* What a user may not do in a script, or a server cannot, has no word of its own in most versions.
 */
static bool is_forbidden_in_script(const char *text)
{
    return strstr(text, "can't run this command") != NULL ||
           strstr(text, "Unknown Redis command called from") != NULL ||
           strstr(text, "ACL failure in script") != NULL ||
           strstr(text, "can't access at least one of the keys") != NULL;
}

/* The command is named as it was sent, or in small letters. */
static bool names_evalsha(const char *text)
{
    return strstr(text, "'evalsha'") != NULL || strstr(text, "'EVALSHA'") != NULL ||
           strstr(text, "`EVALSHA`") != NULL;
}

static enum resp_error error_of_text(const char *text)
{
    enum resp_error error = error_of_word(text, strcspn(text, " "));

    if (error == RESP_ERROR && strncmp(text, "ERR Error running script", 24) == 0)
        error = error_in_script(text);
    if (error == RESP_ERROR &&
        (strncmp(text, "ERR unknown command", 19) == 0 || is_forbidden_in_script(text)))
        error = RESP_NOPERM;
    return error == RESP_NOPERM && names_evalsha(text) ? RESP_NO_EVALSHA : error;
}

enum resp_error resp_error_of(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR ? error_of_text(reply->str) : RESP_FINE;
}

static bool resp_read_number(const char *from, const char *to, unsigned max, unsigned *number)
{
    unsigned n = 0;

    if (from == to || to - from > 6)
        return false;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9')
            return false;
        n = n * 10 + (unsigned)(*from - '0');
    }
    *number = n;
    return n <= max;
}

bool resp_read_redirect(const struct redisReply *reply, unsigned *slot, struct slice *host,
                        int *port)
{
    const char *end = reply->str + reply->len, *number = strchr(reply->str, ' ');
    const char *space = number != NULL ? strchr(number + 1, ' ') : NULL;
    const char *colon = space != NULL ? strrchr(space, ':') : NULL;
    unsigned n;

    if (colon == NULL || !resp_read_number(number + 1, space, 16383, slot) ||
        !resp_read_number(colon + 1, end, 65535, &n) || n == 0)
        return false;
    *host = (struct slice){space + 1, (size_t)(colon - space - 1)};
    *port = (int)n;
    return host->n < 256;
}
