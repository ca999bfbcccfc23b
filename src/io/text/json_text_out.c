/* json_text_out.c - text as a JSON string, into a buffer of the caller's.
 *
 * json_write.h appends to memory that grows, which is right for reports; a refusal under overload
 * must not ask for memory. DEL is escaped too: these strings end up in logs and terminals.
 */
#include "io/text/json_text_out.h"

#include <stdio.h>
#include <string.h>

#include "io/text/utf8.h"

/* One character, escaped; how many bytes of text it took. `escaped` has room for any. */
static size_t escape_one(const char *text, size_t left, char escaped[8], size_t *n)
{
    size_t bytes = utf8_bytes(text, left);
    unsigned char c = (unsigned char)*text;

    if (bytes == 0) {
        memcpy(escaped, "\xef\xbf\xbd", 3);
        *n = 3;
        return 1;
    }
    if (bytes > 1 || (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)) {
        memcpy(escaped, text, bytes);
        *n = bytes;
    } else if (c == '"' || c == '\\') {
        escaped[0] = '\\';
        escaped[1] = (char)c;
        *n = 2;
    } else {
        *n = (size_t)snprintf(escaped, 8, "\\u%04x", c);
    }
    return bytes;
}

size_t json_text_out(const char *text, size_t n, char *out, size_t size)
{
    size_t used = 0;
    char escaped[8];
    size_t more;

    out[used++] = '"';
    for (size_t i = 0; i < n;) {
        i += escape_one(text + i, n - i, escaped, &more);
        if (used + more + 1 > size)
            break;
        memcpy(out + used, escaped, more);
        used += more;
    }
    out[used++] = '"';
    return used;
}
