/* admit_read.h - parses what a caller asks, in JSON or in a query, for admit_api.c.
 *
 * The names and meanings are those of proto/tollgate/v1/admission.proto. A field that is not known
 * is an error, for in a message of ten fields it is more likely to be misspelt than to be new.
 */
#ifndef TG_ADMIT_ADMIT_READ_H
#define TG_ADMIT_ADMIT_READ_H

#include "io/text/json_read.h"
#include "server/admit/admit.h"

/* A message of any kind: each kind sets some members, the others have their defaults. Texts point
 * into the reader, or into the message itself, which then must not move. */
struct admit_message {
    /* Admit and peek: */
    struct admit_ask ask;     /* without connection and deadline, which these two stand for */
    int64_t timeout_ms;       /* 0: none */
    bool end_with_connection; /* default false */

    /* Release: */
    struct slice lease;
    struct tg_release release;

    /* Heartbeat: */
    struct slice leases[ADMIT_HEARTBEAT_MAX];
    size_t n_leases;

    char room[4 * ADMIT_NAME_MAX]; /* texts of a query, percent-decoded */
    size_t used;
};

enum admit_kind { ADMIT_ASK, ADMIT_RELEASE, ADMIT_HEARTBEAT };

/* False: `why` says what is wrong, with the field's name. */
bool admit_read(struct json_reader *reader, struct slice body, size_t readable,
                enum admit_kind kind, struct admit_message *message, struct refusal *why);

/* Reads a GET: `?tenant=team-a&cost=3`, and headers x-tollgate-tenant, -user, -model and -cost,
 * which no client of a proxy can inject. */
bool admit_read_query(const struct http_head *head, struct admit_message *message,
                      struct refusal *why);

#endif
