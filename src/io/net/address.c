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

/* Without what stands around it: "[::1]:443" is "::1", "10.0.0.1:443" is "10.0.0.1". False: it is
 * too long for an address. */
static bool unwrap(const char *at, size_t n, char figures[INET6_ADDRSTRLEN])
{
    const char *colon = memchr(at, ':', n), *end = at + n;

    if (n > 0 && at[0] == '[') {
        end = memchr(at, ']', n);
        at++;
    } else if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) == NULL) {
        end = colon;
    }
    if (end == NULL || end - at >= INET6_ADDRSTRLEN)
        return false;
    memcpy(figures, at, (size_t)(end - at));
    figures[end - at] = '\0';
    return true;
}

bool address_client(const char *at, size_t n, char text[ADDRESS_CLIENT_BYTES])
{
    char figures[INET6_ADDRSTRLEN];
    struct in6_addr six;
    struct in_addr four;

    if (n == 0 || !unwrap(at, n, figures))
        return false;
    if (inet_pton(AF_INET, figures, &four) == 1)
        return inet_ntop(AF_INET, &four, text, INET6_ADDRSTRLEN) != NULL;
    if (inet_pton(AF_INET6, figures, &six) != 1)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&six))
        return inet_ntop(AF_INET, six.s6_addr + 12, text, INET6_ADDRSTRLEN) != NULL;
    memset(six.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &six, text, INET6_ADDRSTRLEN);
    strcat(text, "/64");
    return true;
}
