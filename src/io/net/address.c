/* address.c - "host:port" and what the system makes of it. No name is looked up here. */
#include "io/net/address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static bool read_port(const char *text, int *port)
{
    int n = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || n > 65535)
            return false;
        n = n * 10 + (*text - '0');
    }
    *port = n;
    return n <= 65535;
}

bool address_split(const char *text, char host[ADDRESS_HOST_BYTES], int *port)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;

    if (colon == NULL)
        return false;
    if (*text == '[') {
        begin = text + 1;
        end = colon - 1;
        if (end <= begin || *end != ']')
            return false;
    } else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
        return false; /* IPv6 without brackets: which colon is the port's? */
    }
    size_t n = (size_t)(end - begin);
    if (n == 0 || n >= ADDRESS_HOST_BYTES)
        return false;
    memcpy(host, begin, n);
    host[n] = '\0';
    return read_port(colon + 1, port);
}

bool address_parse(const char *host, int port, union address *address, socklen_t *n)
{
    memset(address, 0, sizeof *address);
    if (strncmp(host, "unix:", 5) == 0) {
        if (strlen(host + 5) >= sizeof address->un.sun_path || host[5] == '\0')
            return false;
        address->un.sun_family = AF_UNIX;
        strcpy(address->un.sun_path, host + 5);
        *n = (socklen_t)sizeof address->un;
        return true;
    }
    if (inet_pton(AF_INET, host, &address->in.sin_addr) == 1) {
        address->in.sin_family = AF_INET;
        address->in.sin_port = htons((unsigned short)port);
        *n = (socklen_t)sizeof address->in;
        return true;
    }
    if (inet_pton(AF_INET6, host, &address->in6.sin6_addr) == 1) {
        address->in6.sin6_family = AF_INET6;
        address->in6.sin6_port = htons((unsigned short)port);
        *n = (socklen_t)sizeof address->in6;
        return true;
    }
    return false;
}

void address_text(const struct sockaddr *address, char text[INET6_ADDRSTRLEN])
{
    const union address *any = (const union address *)(const void *)address;

    strcpy(text, "unix");
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &any->in.sin_addr, text, INET6_ADDRSTRLEN);
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &any->in6.sin6_addr, text, INET6_ADDRSTRLEN);
}
