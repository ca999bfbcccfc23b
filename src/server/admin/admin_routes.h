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
    int statuses[ADMIN_STATUSES_MAX]; /* the statuses it may answer with, besides 405; ended by 0 */
    const char *query;  /* names of its parameters, separated by blanks; null: it has none */
    const char *action; /* what the audit log calls it; null: it changes nothing */
};

extern const struct admin_route admin_routes[];
extern const size_t admin_routes_n;

/* The route of a path without its query, and the names in it, still encoded. Null: there is none;
 * then `allow` says for which methods there is one, "" if for none. */
const struct admin_route *admin_route_find(struct slice method, struct slice path,
                                           struct slice names[ADMIN_NAMES_MAX], char allow[64]);

#endif
