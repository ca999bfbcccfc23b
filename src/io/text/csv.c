/* csv.c - fields of comma-separated values. See csv.h. */
#include "io/text/csv.h"

void csv_put(struct text_out *out, struct slice field)
{
    bool formula = field.n > 0 && memchr("=+-@\t\r", field.at[0], 6) != NULL;

    text_out_text(out, formula ? "\"'" : "\"");
    while (field.n > 0) {
        const char *quote = memchr(field.at, '"', field.n);
        size_t n = quote != NULL ? (size_t)(quote - field.at) + 1 : field.n;
        text_out_slice(out, (struct slice){field.at, n});
        if (quote != NULL)
            text_out_text(out, "\"");
        field.at += n;
        field.n -= n;
    }
    text_out_text(out, "\"");
}
