/* top_link.c - the admin listener as `tollgate top` asks it: one GET at a time, on a loop.
 *
 * The connection is kept between two questions. A kept one that the other side has closed in the
 * meantime is asked again on a new one, once: reading twice does no harm.
 */
#include "cli/top/top_link.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/net/tls.h"
#include "io/text/json_read.h"
#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/config/config_values.h"

#define BODY_MAX ((size_t)16 << 20) /* a snapshot is bounded far below this */
#define PATH "/api/v1/snapshot"
#define FLEET_PATH PATH "?scope=fleet"

static const struct http_timeouts patience = {
    .connect = 3000, .first_byte = 5000, .idle = 5000, .total = 10000};

/* ---- The reply ------------------------------------------------------------------------------- */

static void top_link_tell(struct top_link *link, int status, const char *why)
{
    struct top_reply reply = {status, {link->body, link->n}, why};

    link->out = NULL;
    link->done(link->context, &reply);
}

static void take_head(struct http_outbound *out, const struct http_head *head)
{
    struct top_link *link = out->owner;

    link->status = head->status;
}

/* With room for the padding that the JSON reader reads. */
static bool top_link_make_room(struct top_link *link, size_t more)
{
    return array_reserve(&link->body, &link->capacity, link->n + more + JSON_PADDING);
}

static void take_data(struct http_outbound *out, struct slice bytes)
{
    struct top_link *link = out->owner;

    if (link->too_long || bytes.n > BODY_MAX - link->n || !top_link_make_room(link, bytes.n)) {
        link->too_long = true;
        return;
    }
    memcpy(link->body + link->n, bytes.at, bytes.n);
    link->n += bytes.n;
}

static void take_end(struct http_outbound *out)
{
    struct top_link *link = out->owner;

    if (link->too_long)
        top_link_tell(link, 0, "the reply is longer than any snapshot");
    else
        top_link_tell(link, link->status, "");
}

static void send_request(struct top_link *link);

static void take_failure(struct http_outbound *out, enum http_why why, const char *text)
{
    struct top_link *link = out->owner;

    if (why == HTTP_RESET && out->reused && !out->head_seen)
        send_request(link);
    else
        top_link_tell(link, 0, text);
}

static const struct http_client_ops link_ops = {
    .head = take_head, .data = take_data, .end = take_end, .failed = take_failure};

/* ---- The question ---------------------------------------------------------------------------- */

static void send_request(struct top_link *link)
{
    struct http_fields fields;
    struct http_head head = {.method = SLICE("GET"),
                             .target = slice_of(link->targets[link->fleet])};

    http_fields_init(&fields);
    http_fields_add(&fields, SLICE("accept"), SLICE("application/json"));
    if (link->authorization != NULL)
        http_fields_add(&fields, SLICE("authorization"), slice_of(link->authorization));
    head.fields = fields.list;
    head.n_fields = fields.n;
    link->n = 0;
    link->too_long = false;
    link->out = http_send(link->client, link->origin, &head, &patience, &link_ops, link);
    if (link->out == NULL)
        top_link_tell(link, 0, "out of memory");
}

void top_link_fetch(struct top_link *link, bool fleet)
{
    if (link->out != NULL)
        return;
    link->fleet = fleet;
    send_request(link);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static char *joined(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b);
    char *both = malloc(n + m + 1);

    if (both == NULL)
        return NULL;
    memcpy(both, a, n);
    memcpy(both + n, b, m + 1);
    return both;
}

static bool make_origin(struct top_link *link, const struct value_url *url,
                        const struct top_address *address, struct tg_problem *problem)
{
    struct http_origin_options options;
    struct tls_context *tls = NULL;
    char *host = joined(url->host, url->host_bytes, "");
    bool made = host != NULL;

    http_origin_options_init(&options);
    if (made && url->tls)
        made = tls_client_new(address->ca, address->cert, address->key, &tls, problem) == TG_OK;
    options.host = host;
    options.port = url->port;
    options.tls = tls;
    if (made)
        made = http_origin_new(&options, &link->origin, problem) == TG_OK;
    tls_context_unref(tls);
    free(host);
    return made;
}

static bool read_url(struct top_link *link, const struct top_address *address,
                     struct tg_problem *problem)
{
    struct value_url url;

    if (!value_url(address->url, &url) || url.has_query) {
        return problem_fail(problem,
                            "'%.100s' is not a URL like " TOP_URL_DEFAULT " or https://host:9090",
                            address->url);
    }
    link->targets[false] = joined(url.path, url.path_bytes, PATH);
    link->targets[true] = joined(url.path, url.path_bytes, FLEET_PATH);
    return link->targets[false] != NULL && link->targets[true] != NULL &&
           make_origin(link, &url, address, problem);
}

bool top_link_open(struct top_link *link, struct net_loop *loop, const struct top_address *address,
                   top_link_done *done, void *context, struct tg_problem *problem)
{
    struct http_client_options options;

    *link = (struct top_link){.loop = loop, .done = done, .context = context};
    http_client_options_init(&options);
    options.idle_max = 1;
    problem_fail(problem, "out of memory");
    if (address->token != NULL)
        link->authorization = joined("Bearer ", strlen("Bearer "), address->token);
    if ((address->token == NULL || link->authorization != NULL) &&
        read_url(link, address, problem) && top_link_make_room(link, 0) &&
        http_client_new(loop, &options, &link->client) == TG_OK)
        return true;
    top_link_close(link);
    return false;
}

void top_link_close(struct top_link *link)
{
    if (link->out != NULL)
        http_outbound_cancel(link->out);
    if (link->client != NULL)
        http_client_free(link->client);
    if (link->origin != NULL)
        http_origin_unref(link->origin);
    free(link->targets[false]);
    free(link->targets[true]);
    if (link->authorization != NULL)
        memset(link->authorization, 0, strlen(link->authorization));
    free(link->authorization);
    free(link->body);
    *link = (struct top_link){0};
}
