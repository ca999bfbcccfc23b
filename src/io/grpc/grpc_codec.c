/* grpc_codec.c - the words of gRPC over HTTP/2. See grpc_codec.h. */
#include "io/grpc/grpc_codec.h"

#include "io/http/http.h"

bool grpc_is_content_type(struct slice type)
{
    const char *end = type.at != NULL ? memchr(type.at, ';', type.n) : NULL;

    if (end != NULL)
        type.n = (size_t)(end - type.at);
    while (type.n > 0 && (type.at[type.n - 1] == ' ' || type.at[type.n - 1] == '\t'))
        type.n--;
    return slice_equal_nocase(type, SLICE("application/grpc")) ||
           slice_equal_nocase(type, SLICE("application/grpc+proto"));
}

/* ---- timeouts ---- */

enum { TIMEOUT_DIGITS = 8, NS_A_MS = 1000000 };

/* 0: there is no such unit. */
static int64_t ns_of_unit(char unit)
{
    switch (unit) {
    case 'H':
        return (int64_t)3600 * 1000 * NS_A_MS;
    case 'M':
        return (int64_t)60 * 1000 * NS_A_MS;
    case 'S':
        return (int64_t)1000 * NS_A_MS;
    case 'm':
        return NS_A_MS;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

/* Eight digits of hours are 3.6e20 ns, which int64 does not hold: units from a ms upwards are
 * multiplied in ms. */
bool grpc_read_timeout(struct slice text, tg_ms *ms)
{
    int64_t number = 0;

    if (text.n < 2 || text.n > TIMEOUT_DIGITS + 1)
        return false;
    for (size_t i = 0; i + 1 < text.n; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        number = number * 10 + (text.at[i] - '0');
    }
    int64_t unit = ns_of_unit(text.at[text.n - 1]);
    if (unit == 0)
        return false;
    *ms = unit >= NS_A_MS ? number * (unit / NS_A_MS) : (number * unit + NS_A_MS - 1) / NS_A_MS;
    return true;
}

/* ---- messages ---- */

static bool grpc_codec_is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e && c != '%';
}

size_t grpc_write_message(struct slice text, char *out, size_t size)
{
    static const char HEX[] = "0123456789ABCDEF";
    size_t n = 0, whole = 0;

    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.at[i];
        size_t need = grpc_codec_is_plain(c) ? 1 : 3;
        /* Up to here all characters are whole: bytes of the form 10xxxxxx go on with one. */
        if ((c & 0xc0) != 0x80)
            whole = n;
        if (n + need > size)
            return whole;
        if (need == 1) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = HEX[c >> 4];
            out[n++] = HEX[c & 15];
        }
    }
    return n;
}

/* ---- paths ---- */

bool grpc_split_path(struct slice path, struct slice *service, struct slice *method)
{
    if (path.n < 4 || path.at[0] != '/')
        return false;
    const char *end = path.at + path.n;
    const char *second = memchr(path.at + 1, '/', path.n - 1);
    if (second == NULL || second == path.at + 1 || second + 1 == end)
        return false;
    *service = (struct slice){path.at + 1, (size_t)(second - path.at) - 1};
    *method = (struct slice){second + 1, (size_t)(end - second) - 1};
    return memchr(method->at, '/', method->n) == NULL;
}
