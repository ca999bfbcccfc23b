/* admin_query.h - names in a path and parameters in a query, decoded from percent-encoding. */
#ifndef TG_ADMIN_ADMIN_QUERY_H
#define TG_ADMIN_ADMIN_QUERY_H

#include <stdbool.h>

#include "io/text/slice.h"

/* Decodes %XX, and with `plus` a + as a space. False: it is malformed, holds a zero, or is longer
 * than `size` - 1. */
bool admin_decode(struct slice text, bool plus, char *to, size_t size);

/* The value of a parameter in a query. False: there is none, or it cannot be decoded, which
 * admin_query_check() has told before. */
bool admin_query_get(struct slice query, const char *name, char *to, size_t size);

/* Whether all parameters are among `names`, separated by spaces, each once, and can be decoded into
 * `size` bytes. `wrong` gets the name of the first that is not. */
bool admin_query_check(struct slice query, const char *names, size_t size, char wrong[64]);

#endif
