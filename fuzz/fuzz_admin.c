/* fuzz_admin.c - any request to the admin API, with its token: one answer, and the right one.
 *
 * Right is a status that the route may have, and a body that is what its content type says.
 *
 * Input: "METHOD TARGET", a newline, and the body. The gateway behind it is real and has no worker;
 * the configuration is read for each change, and reloads are said to have gone well, or not. After
 * some requests all is made anew, so that what they left does not grow without end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "insist.h"
#include "server/admin/admin_server.h"
#include "server/explain/explain.h"
#include "server/obs/watch.h"
#include "server/runtime/gateway.h"
#include "server/serve/services.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOKEN "0123456789abcdef"
#define ANEW_AFTER 200

static const char YAML[] =
    "ledger: {path: \":memory:\"}\n"
    "admin_auth: {token: \"" TOKEN "\"}\n"
    "gate: {peers: {}, memory: {}, rate: {strategy: gcra, limit: 60, period: 60s}}\n"
    "providers: {demo: {base_url: \"http://127.0.0.1:9\", api: openai, keys: [{name: k, secret: "
    "x}]}}\n"
    "models: {m: {provider: demo, price: {input: 1, output: 1}}}\n"
    "tenants:\n"
    "  - {name: p, budgets: [{usd: 9, per: day}, {usd: 9, per: total}]}\n"
    "  - {name: t, parent: p, limits: [{rpm: 5}], users: {from: \"header:x-u\", each: {rpm: 2}}}\n";

struct exchange {
    struct http_inbound in; /* first */
    struct http_field fields[2];
    int status;
    bool is_json;
    char *body;
    size_t n;
    bool finished;
};

static struct world {
    char path[64];
    struct clock clock;
    struct net_loop *loop;
    struct gateway *gateway;
    struct admin *admin;
    struct explainer explainer;
    struct json_reader *reader;
    struct watch *watch;
    struct net_post post;
    reload_done *done;
    void *context;
    uint64_t requests;
} world;

/* ---- a transport that is none ---- */

static void do_nothing(struct http_inbound *in)
{
    (void)in;
}

static void keep_head(struct http_inbound *in, const struct http_head *head)
{
    struct exchange *exchange = (struct exchange *)in;

    insist(exchange->status == 0);
    exchange->status = head->status;
    exchange->is_json =
        slice_equal(http_find(head, SLICE("content-type")), SLICE("application/json"));
}

static size_t keep_bytes(struct http_inbound *in, struct slice bytes)
{
    struct exchange *exchange = (struct exchange *)in;

    insist(exchange->status != 0);
    exchange->body = realloc(exchange->body, exchange->n + bytes.n + 1);
    insist(exchange->body != NULL);
    memcpy(exchange->body + exchange->n, bytes.at, bytes.n);
    exchange->n += bytes.n;
    return 0;
}

static void keep_end(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    (void)trailers, (void)n;
    ((struct exchange *)in)->finished = true;
}

static void keep_abort(struct http_inbound *in, uint32_t code)
{
    (void)code;
    ((struct exchange *)in)->finished = true;
}

static size_t none_queued(const struct http_inbound *in)
{
    (void)in;
    return 0;
}

static const struct sockaddr *no_peer(const struct http_inbound *in)
{
    (void)in;
    return NULL;
}

static const struct http_inbound_transport transport = {
    do_nothing, do_nothing, keep_head, keep_bytes, keep_end, keep_abort, none_queued, no_peer};

/* ---- the world ---- */

/* Every fifth does not hold, so that changes are undone, too. */
static void reloaded(void *arg)
{
    static const struct config_problems none;
    struct reload_result result = {
        .ok = world.requests % 5 != 0, .generation = 1, .problems = &none, .failure = "so it is"};
    reload_done *done = world.done;

    (void)arg;
    world.done = NULL;
    if (done != NULL)
        done(world.context, &result);
}

static bool reload(void *host, const char *why, reload_done *done, void *context)
{
    (void)host, (void)why;
    world.done = done;
    world.context = context;
    net_loop_post(world.loop, &world.post);
    return true;
}

static void forget(void *host, const void *context)
{
    (void)host;
    if (world.context == context)
        world.done = NULL;
}

static struct generation *generation(void *host)
{
    (void)host;
    return gateway_newest(world.gateway);
}

static void open_world(void)
{
    struct config_problems problems;
    struct tg_problem problem;
    struct config config;

    insist(config_load(world.path, &config, &problems) == CONFIG_READ);
    config_problems_free(&problems);
    insist(net_loop_new(&world.clock, &world.loop) == TG_OK);
    insist(gateway_new(&services, &config, &world.clock, 1, &world.gateway, &problem));
    net_post_init(&world.post, reloaded, NULL);
    world.watch = watch_new(16);
    insist(world.watch != NULL);
    const struct explainer of = {.loop = world.loop, .gateway = world.gateway};
    insist(explainer_init(&world.explainer, &of));
    struct admin_options options = {.loop = world.loop,
                                    .gateway = world.gateway,
                                    .watch = world.watch,
                                    .config_path = world.path,
                                    .generation = generation,
                                    .reload = reload,
                                    .forget = forget,
                                    .explainer = &world.explainer,
                                    .in_place = true};
    insist(admin_new(&options, &world.admin, &problem) == TG_OK);
}

static void close_world(void)
{
    admin_free(world.admin);
    explainer_fini(&world.explainer);
    watch_free(world.watch);
    gateway_free(world.gateway);
    net_loop_free(world.loop);
}

static void remove_file(void)
{
    unlink(world.path);
}

static void begin_once(void)
{
    int n = snprintf(world.path, sizeof world.path, "/tmp/fuzz-admin-");

    memset(world.path + n, 'X', 6); /* to be replaced */
    int fd = mkstemp(world.path);
    insist(fd >= 0);
    insist(write(fd, YAML, sizeof YAML - 1) == (ssize_t)sizeof YAML - 1);
    close(fd);
    atexit(remove_file);
    clock_init(&world.clock);
    world.reader = json_reader_new();
    open_world();
}

/* ---- one request ---- */

static void check_body(const struct exchange *exchange)
{
    struct json_value root;

    if (!exchange->is_json)
        return;
    json_begin(world.reader, exchange->body, exchange->n, exchange->n, &root);
    insist(root.kind == JSON_OBJECT);
    insist(json_end(world.reader));
}

static void check_status(const struct exchange *exchange, struct slice method, struct slice target)
{
    const char *query = memchr(target.at, '?', target.n);
    struct slice path = {target.at, query ? (size_t)(query - target.at) : target.n};
    struct slice names[ADMIN_NAMES_MAX];
    char allow[64];
    const struct admin_route *route = admin_route_find(method, path, names, allow);

    if (route == NULL) {
        insist(exchange->status == 404 || exchange->status == 405 || exchange->status == 200);
        return;
    }
    for (int i = 0; i < ADMIN_STATUSES_MAX && route->statuses[i] != 0; i++)
        if (route->statuses[i] == exchange->status)
            return;
    insist(exchange->status == 404); /* a name that cannot be decoded */
}

static void ask(struct slice method, struct slice target, struct slice body)
{
    struct exchange exchange = {0};

    exchange.fields[0] = (struct http_field){SLICE("authorization"), SLICE("Bearer " TOKEN)};
    exchange.fields[1] = (struct http_field){SLICE("content-type"), SLICE("application/json")};
    exchange.in = (struct http_inbound){.transport = &transport,
                                        .head = {.method = method,
                                                 .target = target,
                                                 .fields = exchange.fields,
                                                 .n_fields = 2,
                                                 .length = (int64_t)body.n},
                                        .context = world.admin};
    admin_server_ops.begin(world.admin, &exchange.in);
    if (!exchange.finished && body.n > 0)
        admin_server_ops.data(&exchange.in, body);
    if (!exchange.finished)
        admin_server_ops.end(&exchange.in);
    for (int i = 0; i < 16 && exchange.status == 0; i++)
        net_loop_turn(world.loop, false);
    insist(exchange.status != 0);
    check_status(&exchange, method, target);
    check_body(&exchange);
    admin_server_ops.gone(&exchange.in, HTTP_DONE);
    for (int i = 0; i < 4; i++)
        net_loop_turn(world.loop, false);
    free(exchange.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *line = size > 0 ? memchr(text, '\n', size) : NULL;
    size_t head = line ? (size_t)(line - text) : size;
    const char *space = head > 0 ? memchr(text, ' ', head) : NULL;

    if (space == NULL || (size_t)(space - text) + 1 >= head)
        return 0;
    if (world.path[0] == '\0')
        begin_once();
    if (++world.requests % ANEW_AFTER == 0) {
        close_world();
        open_world();
    }
    struct slice method = {text, (size_t)(space - text)};
    struct slice target = {space + 1, head - method.n - 1};
    struct slice body = {line ? line + 1 : "", line ? size - head - 1 : 0};
    ask(method, target, body);
    return 0;
}
