/* trust.c - whose statements about priority and peer are believed. See trust.h. */
#include "server/tenancy/trust.h"

#include <assert.h>
#include <netinet/in.h>
#include <string.h>

/* The bytes of an address, and their family: IPv4 even if the address came by way of IPv6. */
static const uint8_t *bytes_of(const struct sockaddr *address, int *family)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

    *family = address->sa_family;
    if (*family == AF_INET)
        return (const uint8_t *)&in->sin_addr;
    if (*family != AF_INET6)
        return NULL;
    if (!IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return in6->sin6_addr.s6_addr;
    *family = AF_INET;
    return in6->sin6_addr.s6_addr + 12;
}

static bool trust_in_range(const struct config_range *range, const uint8_t *bytes)
{
    int whole = range->bits / 8, rest = range->bits % 8;

    assert(range->bits >= 0 && range->bits <= (range->family == AF_INET ? 32 : 128));
    if (memcmp(bytes, range->address, (size_t)whole) != 0)
        return false;
    return rest == 0 || (bytes[whole] ^ range->address[whole]) >> (8 - rest) == 0;
}

bool trust_covers(const struct config *config, const struct sockaddr *address)
{
    int family = AF_UNSPEC;
    const uint8_t *bytes = address != NULL ? bytes_of(address, &family) : NULL;

    for (size_t i = 0; bytes != NULL && i < config->n_trusted; i++)
        if (config->trusted[i].family == family && trust_in_range(&config->trusted[i], bytes))
            return true;
    return false;
}

enum tg_priority trust_priority(const struct http_head *head, enum tg_priority otherwise)
{
    struct slice word = http_find(head, SLICE("x-tollgate-priority"));

    if (word.at == NULL)
        word = http_find(head, SLICE("x-deriva-priority"));
    if (word.at == NULL)
        return otherwise;
    for (int i = 0; i < TG_PRIORITY_COUNT; i++)
        if (slice_equal_nocase(word, slice_of(tg_priority_name((enum tg_priority)i))))
            return (enum tg_priority)i;
    return otherwise;
}

enum tg_priority trust_lower_priority(const struct http_head *head, enum tg_priority highest)
{
    enum tg_priority stated = trust_priority(head, highest);

    return (int)stated > (int)highest ? stated : highest;
}

struct slice trust_node(const struct http_head *head)
{
    struct slice node = http_find(head, SLICE("x-deriva-node-id"));

    return node.n <= TRUST_NODE_MAX ? node : (struct slice){NULL, 0};
}
