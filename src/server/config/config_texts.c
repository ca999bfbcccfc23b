/* config_texts.c - texts that have a form: names, addresses, networks, URLs, patterns. */
#include "server/config/config_values.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "io/text/utf8.h"

enum { NAME_BYTES_MAX = 128 };

static bool starts_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

static bool is_graphic(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

/* Also of those above ASCII, U+0080 to U+009F: they would reach logs and terminals. */
static bool has_control(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f ||
            ((unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0))
            return true;
    return false;
}

/* A file is UTF-8, a variable may be anything. */
bool value_is_name(const char *text)
{
    size_t bytes = strlen(text);

    return bytes > 0 && bytes <= NAME_BYTES_MAX && !has_control(text) &&
           utf8_valid(text, bytes) == bytes;
}

bool value_is_line(const char *text)
{
    return !has_control(text) && utf8_valid(text, strlen(text)) == strlen(text);
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

static bool is_token(const char *text)
{
    static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "!#$%&'*+-.^_`|~";

    return *text != '\0' && strlen(text) <= NAME_BYTES_MAX && strspn(text, token) == strlen(text);
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

    if (starts_with(text, "unix:"))
        return text[5] != '\0';
    if (starts_with(text, "*:"))
        return is_port(colon + 1);
    return colon != NULL && is_host(text, (size_t)(colon - text)) && is_port(colon + 1);
}

bool value_network(const char *text, struct config_range *range)
{
    struct config_range read = {.family = AF_INET};
    char address[64];
    size_t bytes = strcspn(text, "/");
    int64_t prefix = -1, most = 32;

    if (bytes >= sizeof address)
        return false;
    memcpy(address, text, bytes);
    address[bytes] = '\0';
    if (text[bytes] == '/' && !value_count(text + bytes + 1, &prefix))
        return false;
    if (inet_pton(AF_INET, address, read.address) != 1) {
        read.family = AF_INET6;
        most = 128;
        if (inet_pton(AF_INET6, address, read.address) != 1)
            return false;
    }
    if (prefix > most)
        return false;
    read.bits = (int)(prefix >= 0 ? prefix : most);
    assert(read.bits >= 0 && read.bits <= most);
    for (int i = read.bits; i < 128; i++)
        read.address[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
    *range = read;
    return true;
}

bool value_is_path(const char *text)
{
    return *text == '/' && is_graphic(text) && strpbrk(text, "?#\\") == NULL;
}

/* ":8080", or nothing, in `bytes` bytes. */
static bool read_port(const char *text, size_t bytes, int *port)
{
    char digits[8];
    int64_t number;

    if (bytes == 0)
        return true;
    if (text[0] != ':' || bytes - 1 >= sizeof digits)
        return false;
    memcpy(digits, text + 1, bytes - 1);
    digits[bytes - 1] = '\0';
    if (!value_count(digits, &number) || number < 1 || number > 65535)
        return false;
    *port = (int)number;
    return true;
}

/* No user in it: a secret would stand in every message that names the URL. */
bool value_url(const char *text, struct value_url *url)
{
    struct value_url read = {.tls = starts_with(text, "https://")};
    const char *host = text + (read.tls ? strlen("https://") : strlen("http://"));
    size_t bytes, name;

    if ((!read.tls && !starts_with(text, "http://")) || !is_graphic(host))
        return false;
    bytes = strcspn(host, "/?#");
    name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    read.port = read.tls ? 443 : 80;
    if (name > bytes || !is_host(host, name) || !read_port(host + name, bytes - name, &read.port))
        return false;
    read.host = host + (host[0] == '[');
    read.host_bytes = name - (host[0] == '[' ? 2 : 0);
    read.path = host + bytes;
    read.path_bytes = strcspn(read.path, "?#");
    read.has_query = read.path[read.path_bytes] != '\0';
    while (read.path_bytes > 0 && read.path[read.path_bytes - 1] == '/')
        read.path_bytes--;
    *url = read;
    return true;
}

bool value_is_store(const char *text)
{
    static const char *const schemes[] = {
        "redis://",          "rediss://",         "redis+unix://",     "redis+cluster://",
        "rediss+cluster://", "redis+sentinel://", "rediss+sentinel://"};

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

bool value_is_field(const char *text)
{
    return is_token(text);
}

bool value_is_header(const char *text, const char **name)
{
    if (!starts_with(text, "header:"))
        return false;
    *name = text + strlen("header:");
    return is_token(*name);
}
