/* http_origin.c - where requests go: immutable, counted, shared by all threads.
 *
 * Host, port, trust and proxy are one thing, because connections are kept for it: a connection made
 * under one trust must never serve a request that was promised another. So pools are found by the
 * origin itself, not by its host.
 */
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/http/http_client_internal.h"
#include "lib/core/problem.h"

void http_origin_options_init(struct http_origin_options *options)
{
    *options = (struct http_origin_options){0};
}

static bool is_host(const char *host)
{
    if (strncmp(host, "unix:", 5) == 0)
        return host[5] != '\0';
    for (const char *at = host; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f || strchr("/@?#[]\\", *at) != NULL)
            return false;
    return *host != '\0' && strlen(host) < ADDRESS_HOST_BYTES;
}

static enum tg_err http_origin_check(const struct http_origin_options *options,
                                     struct tg_problem *problem)
{
    if (options->host == NULL || !is_host(options->host))
        return problem_say(problem, TG_ERR_INVALID, "host '%s' is neither a name nor an address",
                           options->host != NULL ? options->host : "");
    if ((options->port < 1 || options->port > 65535) && strncmp(options->host, "unix:", 5) != 0)
        return problem_say(problem, TG_ERR_INVALID, "port %d: from 1 to 65535", options->port);
    if (options->server_name != NULL && !is_host(options->server_name))
        return problem_say(problem, TG_ERR_INVALID, "server name '%s' is not the name of a host",
                           options->server_name);
    return TG_OK;
}

/* ---- The proxy ------------------------------------------------------------------------------- */

static char *basic_credentials(const char *bytes, size_t n)
{
    static const char prefix[] = "Basic ";
    char *text = n <= INT_MAX / 2 ? malloc(sizeof prefix + (n + 2) / 3 * 4) : NULL;

    if (text == NULL)
        return NULL;
    memcpy(text, prefix, sizeof prefix - 1);
    (void)EVP_EncodeBlock((unsigned char *)text + sizeof prefix - 1, (const unsigned char *)bytes,
                          (int)n);
    return text;
}

/* The text may hold a password: no message repeats it. */
static enum tg_err set_proxy(struct http_origin *origin, const char *text,
                             struct tg_problem *problem)
{
    char host[ADDRESS_HOST_BYTES];
    int port;

    if (text == NULL || *text == '\0' || strcmp(text, "none") == 0)
        return TG_OK;
    if (strncmp(text, "http://", 7) == 0)
        text += 7;
    const char *at = strrchr(text, '@');
    const char *place = at != NULL ? at + 1 : text;
    size_t n = strcspn(place, "/");
    char where[ADDRESS_HOST_BYTES + 8];
    if (n >= sizeof where || strspn(place + n, "/") != strlen(place + n))
        goto invalid;
    memcpy(where, place, n);
    where[n] = '\0';
    if (!address_split(where, host, &port) || !is_host(host) || port == 0)
        goto invalid;
    origin->proxy_host = strdup(host);
    origin->proxy_port = port;
    if (at != NULL)
        origin->proxy_auth = basic_credentials(text, (size_t)(at - text));
    if (origin->proxy_host == NULL || (at != NULL && origin->proxy_auth == NULL))
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    return TG_OK;

invalid:
    return problem_say(problem, TG_ERR_INVALID,
                       "the proxy must be http://[user:password@]host:port or none");
}

/* ---- Making ---------------------------------------------------------------------------------- */

static char *usual_host_field(const struct http_origin_options *options)
{
    char text[ADDRESS_HOST_BYTES + 16];
    bool brackets = strchr(options->host, ':') != NULL;

    if (strncmp(options->host, "unix:", 5) == 0)
        return strdup("localhost");
    int n = snprintf(text, sizeof text, brackets ? "[%s]" : "%s", options->host);
    if (options->port != (options->tls != NULL ? 443 : 80))
        snprintf(text + n, sizeof text - (size_t)n, ":%d", options->port);
    return strdup(text);
}

enum tg_err http_origin_new(const struct http_origin_options *options, struct http_origin **made,
                            struct tg_problem *problem)
{
    enum tg_err err = http_origin_check(options, problem);

    if (err != TG_OK)
        return err;
    struct http_origin *origin = calloc(1, sizeof *origin);
    if (origin == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    atomic_init(&origin->refs, 1);
    origin->port = options->port;
    origin->http2 = options->http2;
    origin->tls = tls_context_ref(options->tls);
    origin->host = strdup(options->host);
    origin->server_name = strdup(options->server_name ? options->server_name : options->host);
    origin->host_field =
        options->host_field ? strdup(options->host_field) : usual_host_field(options);
    if (origin->host == NULL || origin->server_name == NULL || origin->host_field == NULL)
        err = problem_say(problem, TG_ERR_MEMORY, "no memory");
    else
        err = set_proxy(origin, options->proxy, problem);
    if (err != TG_OK) {
        http_origin_unref(origin);
        return err;
    }
    *made = origin;
    return TG_OK;
}

struct http_origin *http_origin_ref(struct http_origin *origin)
{
    /* Relaxed: whoever has a reference to copy knows that the origin lives. */
    atomic_fetch_add_explicit(&origin->refs, 1, memory_order_relaxed);
    return origin;
}

/* Passwords do not stay in freed memory. */
static void wipe(char *text)
{
    if (text != NULL) {
        volatile char *at = text;

        while (*at != '\0')
            *at++ = '\0';
    }
    free(text);
}

void http_origin_unref(struct http_origin *origin)
{
    /* Release what this thread did with it, acquire what the others did, before it is freed. */
    if (origin == NULL)
        return;
    int refs = atomic_fetch_sub_explicit(&origin->refs, 1, memory_order_acq_rel);
    assert(refs > 0);
    if (refs > 1)
        return;
    tls_context_unref(origin->tls);
    free(origin->host);
    free(origin->server_name);
    free(origin->host_field);
    free(origin->proxy_host);
    wipe(origin->proxy_auth);
    free(origin);
}
