/* admin_routes.h - the paths of the admin API as data: method, path, answers, who gives them.
 *
 * docs/openapi.yaml says the same, and test_admin_routes.c holds both together.
 */
#ifndef TG_ADMIN_ADMIN_ROUTES_H
#define TG_ADMIN_ADMIN_ROUTES_H

#include <stdbool.h>

#include "io/text/slice.h"

struct admin_call;

#define ADMIN_STATUSES_MAX 12
#define ADMIN_NAMES_MAX 2

struct admin_route {
    const char *method; /* GET also stands for HEAD */
    const char *path;   /* "/api/v1/tenants/{tenant}": a name in braces is one segment */
    bool body;          /* JSON is wanted */
    void (*run)(struct admin_call *call);
    int statuses[ADMIN_STATUSES_MAX]; /* that it may answer, besides 405; ended by 0 */
};

extern const struct admin_route admin_routes[];
extern const size_t admin_routes_n;

/* The route of a path without its query, and the names in it, still encoded. Null: there is none;
 * then `allow` says for which methods there is one, "" if for none. */
const struct admin_route *admin_route_find(struct slice method, struct slice path,
                                           struct slice names[ADMIN_NAMES_MAX], char allow[64]);

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
