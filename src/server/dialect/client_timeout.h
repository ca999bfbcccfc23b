/* client_timeout.h - how long a client is going to wait, as far as its headers say. */
#ifndef TG_DIALECT_CLIENT_TIMEOUT_H
#define TG_DIALECT_CLIENT_TIMEOUT_H

#include "io/http/http.h"
#include "tollgate.h"

struct client_timeout {
    tg_ms whole; /* for the whole reply, from x-request-timeout-ms; 0: not stated */
    tg_ms
        first; /* for the head of the reply: the same, else x-stainless-timeout, which SDKs send in
                    seconds; 0: not stated */
};

void client_timeout_read(const struct http_head *head, struct client_timeout *timeout);

#endif
