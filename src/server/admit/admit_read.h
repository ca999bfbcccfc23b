/* admit_read.h - what a caller says, in JSON or in a query, for admit_api.c.
 *
 * The names and meanings are those of proto/tollgate/v1/admission.proto. A field that is not known
 * is an error, for in a message of ten fields it is more likely to be misspelt than to be new.
 */
#ifndef TG_ADMIT_ADMIT_READ_H
#define TG_ADMIT_ADMIT_READ_H

#include "io/text/json_read.h"
#include "server/admit/admit.h"

/* One of them all: of each kind some members are set, the others have their defaults. Texts point
 * into the reader, or into the message itself, which is then not to be moved. */
struct admit_message {
    struct admit_ask ask;     /* of admit and peek; without connection and deadline: */
    int64_t timeout_ms;       /* 0: none */
    bool end_with_connection; /* or not */

    struct slice lease;        /* of release */
    struct tg_release release; /* of release */

    struct slice leases[ADMIT_HEARTBEAT_MAX]; /* of heartbeat */
    size_t n_leases;

    char room[4 * ADMIT_NAME_MAX]; /* of a query, without its escapes */
    size_t used;
};

enum admit_kind { ADMIT_ASK, ADMIT_RELEASE, ADMIT_HEARTBEAT };

/* False: `why` says what is wrong, with the field's name. */
bool admit_read(struct json_reader *reader, struct slice body, size_t readable,
                enum admit_kind kind, struct admit_message *message, struct refusal *why);

/* Of GET: `?tenant=team-a&cost=3`, and headers x-tollgate-tenant, -user, -model and -cost, which no
 * client of a proxy can reach over into. */
bool admit_read_query(const struct http_head *head, struct admit_message *message,
                      struct refusal *why);

#endif
