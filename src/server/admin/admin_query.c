/* admin_query.c - names in a path and parameters in a query, decoded: see admin_query.h. */
#include "server/admin/admin_query.h"
#include "io/text/hex.h"

#include <stdio.h>
#include <string.h>

/* ---- decoding ---- */

bool admin_decode(struct slice text, bool plus, char *to, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i];
        if (plus && c == '+')
            c = ' ';
        if (c == '%') {
            int high = i + 1 < text.n ? hex_digit(text.at[i + 1]) : -1;
            int low = i + 2 < text.n ? hex_digit(text.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        to[n++] = c;
    }
    to[n] = '\0';
    return true;
}

/* ---- queries ---- */

/* Takes the next parameter off a query. */
static bool next_parameter(struct slice *query, struct slice *name, struct slice *value)
{
    while (query->n > 0) {
        const char *amp = memchr(query->at, '&', query->n);
        struct slice one = {query->at, amp ? (size_t)(amp - query->at) : query->n};
        size_t taken = one.n + (amp ? 1 : 0);
        query->at += taken;
        query->n -= taken;
        if (one.n == 0)
            continue;
        const char *is = memchr(one.at, '=', one.n);
        *name = (struct slice){one.at, is ? (size_t)(is - one.at) : one.n};
        *value = is ? (struct slice){is + 1, one.n - name->n - 1} : (struct slice){one.at, 0};
        return true;
    }
    return false;
}

bool admin_query_get(struct slice query, const char *name, char *to, size_t size)
{
    struct slice key, value;

    while (next_parameter(&query, &key, &value))
        if (slice_equal(key, slice_of(name)))
            return admin_decode(value, true, to, size);
    return false;
}

static bool is_among(struct slice name, const char *names)
{
    while (*names != '\0') {
        size_t n = strcspn(names, " ");
        if (slice_equal(name, (struct slice){names, n}))
            return true;
        names += n + (names[n] == ' ');
    }
    return false;
}

static bool comes_again(struct slice query, struct slice name)
{
    struct slice key, value;

    while (next_parameter(&query, &key, &value))
        if (slice_equal(key, name))
            return true;
    return false;
}

/* Whether the value could be decoded, without a place for it. */
static bool is_decodable(struct slice value, size_t size)
{
    char piece[4];
    size_t n = 0;

    for (size_t i = 0; i < value.n; n++) {
        size_t bytes = value.at[i] == '%' ? 3 : 1;
        if (i + bytes > value.n ||
            !admin_decode((struct slice){value.at + i, bytes}, true, piece, sizeof piece))
            return false;
        i += bytes;
    }
    return n < size;
}

bool admin_query_check(struct slice query, const char *names, size_t size, char wrong[64])
{
    struct slice name, value;

    while (next_parameter(&query, &name, &value))
        if (!is_among(name, names) || comes_again(query, name) || !is_decodable(value, size)) {
            snprintf(wrong, 64, "%.*s", name.n < 63 ? (int)name.n : 63, name.at);
            return false;
        }
    return true;
}
