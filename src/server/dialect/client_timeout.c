/* client_timeout.c - how long a client is going to wait. See client_timeout.h. */
#include "server/dialect/client_timeout.h"

static tg_ms header_number(const struct http_head *head, struct slice name, tg_ms unit)
{
    struct slice text = http_find(head, name);
    tg_ms value = 0;

    if (text.n == 0 || text.n > 9)
        return 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 0;
        value = value * 10 + (text.at[i] - '0');
    }
    return value * unit;
}

void client_timeout_read(const struct http_head *head, struct client_timeout *timeout)
{
    timeout->whole = header_number(head, SLICE("x-request-timeout-ms"), 1);
    timeout->first = timeout->whole > 0 ? timeout->whole
                                        : header_number(head, SLICE("x-stainless-timeout"), 1000);
}
