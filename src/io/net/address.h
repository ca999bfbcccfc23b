/* address.h - "host:port" and what the system makes of it. */
#ifndef TG_NET_ADDRESS_H
#define TG_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESS_HOST_BYTES 256

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

/* "127.0.0.1:8080", "[::1]:8080", "name:8080". The host without brackets. False: neither. */
bool address_split(const char *text, char host[ADDRESS_HOST_BYTES], int *port);

/* Reads an IPv4 or IPv6 address in figures, or "unix:PATH". False: it is a name. */
bool address_parse(const char *host, int port, union address *address, socklen_t *n);

/* "127.0.0.1", "::1", "unix": without the port. */
void address_text(const struct sockaddr *address, char text[INET6_ADDRSTRLEN]);

#define ADDRESS_CLIENT_BYTES (INET6_ADDRSTRLEN + sizeof "/64")

/* One name for each client, however its address is written: "10.0.0.1", "2001:db8::/64". Takes an
 * address in figures, with a port or in brackets, too; of IPv6 the network of 64 bits, for a client
 * has all addresses of it. False: it is none. */
bool address_client(const char *at, size_t n, char text[ADDRESS_CLIENT_BYTES]);

#endif
