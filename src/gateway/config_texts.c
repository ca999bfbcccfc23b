/* config_texts.c - texts that have a form: names, addresses, networks, URLs, patterns. */
#include "gateway/config_values.h"

#include <arpa/inet.h>
#include <string.h>

enum { NAME_BYTES_MAX = 128 };

static bool starts_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

static bool is_graphic(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return false;
    return true;
}

bool value_is_name(const char *text)
{
    size_t bytes = strlen(text);

    if (bytes == 0 || bytes > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* By its form alone: which zones there are is for the system to say. */
bool value_is_zone(const char *text)
{
    if (*text == '\0' || *text == '/' || strstr(text, "..") != NULL)
        return false;
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
           strlen(text);
}

static bool is_port(const char *text)
{
    int64_t port;

    return value_count(text, &port) && port <= 65535;
}

/* HOST:PORT in `bytes` bytes; HOST is a name, an IPv4 address, or an IPv6 address in brackets. */
static bool is_host(const char *text, size_t bytes)
{
    char inner[64];
    struct in6_addr address;

    if (bytes == 0)
        return false;
    if (text[0] != '[')
        return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") >=
               bytes;
    if (text[bytes - 1] != ']' || bytes < 3 || bytes - 2 >= sizeof inner)
        return false;
    memcpy(inner, text + 1, bytes - 2);
    inner[bytes - 2] = '\0';
    return inet_pton(AF_INET6, inner, &address) == 1;
}

bool value_is_address(const char *text)
{
    const char *colon = strrchr(text, ':');

    return colon != NULL && is_host(text, (size_t)(colon - text)) && is_port(colon + 1);
}

bool value_is_network(const char *text)
{
    char address[64];
    unsigned char parsed[16];
    size_t bytes = strcspn(text, "/");
    int64_t prefix = 0;

    if (bytes >= sizeof address)
        return false;
    memcpy(address, text, bytes);
    address[bytes] = '\0';
    if (text[bytes] == '/' && !value_count(text + bytes + 1, &prefix))
        return false;
    if (inet_pton(AF_INET, address, parsed) == 1)
        return prefix <= 32;
    return inet_pton(AF_INET6, address, parsed) == 1 && prefix <= 128;
}

/* No user in it: a secret would stand in every message that names the URL. */
bool value_is_url(const char *text)
{
    const char *host = starts_with(text, "https://")  ? text + 8
                       : starts_with(text, "http://") ? text + 7
                                                      : NULL;
    size_t bytes, name;

    if (host == NULL || !is_graphic(host))
        return false;
    bytes = strcspn(host, "/?#");
    name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    if (name > bytes || !is_host(host, name))
        return false;
    if (name == bytes)
        return true;
    char port[8];
    if (host[name] != ':' || bytes - name - 1 >= sizeof port)
        return false;
    memcpy(port, host + name + 1, bytes - name - 1);
    port[bytes - name - 1] = '\0';
    return is_port(port);
}

bool value_is_store(const char *text)
{
    static const char *const schemes[] = {"redis://", "rediss://", "redis+cluster://",
                                          "redis+sentinel://"};

    if (strcmp(text, "memory") == 0)
        return true;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (starts_with(text, schemes[i]))
            return text[strlen(schemes[i])] != '\0' && is_graphic(text);
    return false;
}

bool value_is_pattern(const char *text)
{
    return value_is_name(text + (*text == '!'));
}

bool value_is_header(const char *text, const char **name)
{
    static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "!#$%&'*+-.^_`|~";

    if (!starts_with(text, "header:"))
        return false;
    *name = text + strlen("header:");
    return **name != '\0' && strlen(*name) <= NAME_BYTES_MAX &&
           strspn(*name, token) == strlen(*name);
}
