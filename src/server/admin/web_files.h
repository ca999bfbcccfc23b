/* web_files.h - the dashboard's files, as they stand in the program.
 *
 * They are part of the binary: nothing has to be installed beside it, nothing is read when a page
 * is asked for, and the page is always that of the program it shows. The bytes are laid into the
 * program by the build (tools/embed, from web/ and from Debian's package of the chart library) and
 * never change while it runs. For any thread.
 */
#ifndef TG_ADMIN_WEB_FILES_H
#define TG_ADMIN_WEB_FILES_H

#include <stddef.h>

#include "io/text/slice.h"

struct web_file {
    const char *path; /* "/", "/app.js": what is asked for, without a query */
    const char *type; /* the value of content-type */
    const char *etag; /* in its quotes; other bytes, another tag */
    const unsigned char *bytes, *end;
};

/* Null: there is no such file. `path` is that of a request's target, without `?` and the rest. */
const struct web_file *web_file_find(struct slice path);

static inline struct slice web_file_bytes(const struct web_file *file)
{
    return (struct slice){(const char *)file->bytes, (size_t)(file->end - file->bytes)};
}

/* What every one of them is sent with, beside content-type and etag: scripts, styles and calls of
 * this host alone, none of them inline; in no frame; and the browser asks again each time, which
 * the etag makes cheap. */
#define WEB_FILE_POLICY                                                                            \
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "                 \
    "frame-ancestors 'none'"
#define WEB_FILE_CACHE "no-cache"

/* All of them, for tests: what the build wrote. */
extern const struct web_file web_files[];
extern const size_t web_files_n;

#endif
