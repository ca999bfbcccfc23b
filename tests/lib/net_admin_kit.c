/* net_admin_kit.c - the admin API without a socket. See net_admin_kit.h. */
#include "net_admin_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/runtime/admin_extras.h"
#include "server/serve/services.h"

/* ---- a transport that is none ---- */

static struct admin_exchange *exchange_of(const struct http_inbound *in)
{
    return (struct admin_exchange *)(uintptr_t)in;
}

static void do_nothing(struct http_inbound *in)
{
    (void)in;
}

static void keep_field(const struct http_head *head, const char *name, char *to, size_t size)
{
    struct slice value = http_find(head, slice_of(name));

    snprintf(to, size, "%.*s", (int)value.n, value.at != NULL ? value.at : "");
}

static void keep_head(struct http_inbound *in, const struct http_head *head)
{
    struct admin_exchange *exchange = exchange_of(in);

    assert_int_equal(exchange->status, 0); /* one answer */
    exchange->status = head->status;
    keep_field(head, "content-type", exchange->type, sizeof exchange->type);
    keep_field(head, "allow", exchange->allow, sizeof exchange->allow);
    keep_field(head, "www-authenticate", exchange->challenge, sizeof exchange->challenge);
}

static size_t keep_bytes(struct http_inbound *in, struct slice bytes)
{
    struct admin_exchange *exchange = exchange_of(in);

    if (exchange->body_n + bytes.n >= exchange->body_room) {
        exchange->body_room = 2 * (exchange->body_n + bytes.n + 1);
        exchange->body = realloc(exchange->body, exchange->body_room);
    }
    assert_non_null(exchange->body);
    memcpy(exchange->body + exchange->body_n, bytes.at, bytes.n);
    exchange->body_n += bytes.n;
    exchange->body[exchange->body_n] = '\0';
    return exchange->queued;
}

static void keep_end(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    (void)trailers, (void)n;
    exchange_of(in)->finished = true;
}

static void keep_abort(struct http_inbound *in, uint32_t code)
{
    (void)code;
    exchange_of(in)->finished = true;
}

static size_t say_queued(const struct http_inbound *in)
{
    return exchange_of(in)->queued;
}

static const struct sockaddr *say_peer(const struct http_inbound *in)
{
    static const struct sockaddr local = {.sa_family = AF_UNIX};

    (void)in;
    return &local;
}

static const struct http_inbound_transport transport = {.pause = do_nothing,
                                                        .resume = do_nothing,
                                                        .reply = keep_head,
                                                        .write = keep_bytes,
                                                        .finish = keep_end,
                                                        .abort = keep_abort,
                                                        .queued = say_queued,
                                                        .peer = say_peer};

/* ---- exchanges ---- */

static char authorization[256];

static void begin(struct admin_kit *kit, struct admin_exchange *exchange, const char *token,
                  const char *type, const char *method, const char *target, int64_t length)
{
    const struct admin_exchange before = *exchange;
    size_t n = 0;

    memset(exchange, 0, sizeof *exchange);
    if (exchange == &kit->exchange) { /* its room stays: no answer takes memory of the test's */
        exchange->body = before.body;
        exchange->body_room = before.body_room;
    }
    snprintf(authorization, sizeof authorization, "Bearer %s", token != NULL ? token : "");
    if (token != NULL)
        exchange->fields[n++] =
            (struct http_field){SLICE("authorization"), slice_of(authorization)};
    if (type != NULL)
        exchange->fields[n++] = (struct http_field){SLICE("content-type"), slice_of(type)};
    exchange->in = (struct http_inbound){.transport = &transport,
                                         .head = {.method = slice_of(method),
                                                  .target = slice_of(target),
                                                  .version = 11,
                                                  .fields = exchange->fields,
                                                  .n_fields = n,
                                                  .length = length},
                                         .context = kit->admin};
    admin_server_ops.begin(kit->admin, &exchange->in);
}

void admin_exchange_begin(struct admin_kit *kit, struct admin_exchange *exchange,
                          const char *method, const char *target, const char *token)
{
    begin(kit, exchange, token, NULL, method, target, 0);
}

void admin_exchange_gone(struct admin_exchange *exchange)
{
    admin_server_ops.gone(&exchange->in, HTTP_HANGUP);
    free(exchange->body);
    exchange->body = NULL;
}

void admin_kit_turn(struct admin_kit *kit)
{
    for (int i = 0; i < 8; i++)
        net_loop_turn(kit->loop, false);
}

int admin_kit_ask_as(struct admin_kit *kit, const char *token, const char *type, const char *method,
                     const char *target, const char *body)
{
    struct admin_exchange *exchange = &kit->exchange;

    begin(kit, exchange, token, type, method, target, body != NULL ? (int64_t)strlen(body) : 0);
    /* In two pieces, as a network may. */
    for (size_t half = 0; body != NULL && half < 2 && !exchange->finished; half++) {
        size_t n = strlen(body), middle = n / 2;
        struct slice piece = {half == 0 ? body : body + middle, half == 0 ? middle : n - middle};
        if (piece.n > 0)
            admin_server_ops.data(&exchange->in, piece);
    }
    if (!exchange->finished)
        admin_server_ops.end(&exchange->in);
    for (int i = 0; i < 10000 && exchange->status == 0; i++)
        net_loop_turn(kit->loop, kit->threads);
    admin_kit_turn(kit);
    admin_server_ops.gone(&exchange->in, HTTP_DONE);
    assert_int_not_equal(exchange->status, 0);
    return exchange->status;
}

int admin_kit_ask(struct admin_kit *kit, const char *method, const char *target, const char *body)
{
    return admin_kit_ask_as(kit, ADMIN_TOKEN, body != NULL ? "application/json" : NULL, method,
                            target, body);
}

bool admin_kit_said(const struct admin_kit *kit, const char *text)
{
    return kit->exchange.body != NULL && strstr(kit->exchange.body, text) != NULL;
}

/* ---- reloads ---- */

static struct generation *read_again(struct admin_kit *kit, struct config_problems *problems,
                                     struct tg_problem *failure)
{
    struct generation *made = NULL;
    struct admin_extras extras;
    struct config config;
    tg_ms now = clock_now_ms(&kit->clock);

    memset(problems, 0, sizeof *problems);
    failure->text[0] = '\0';
    if (!admin_extras_read(kit->gateway->ledger, now, &extras, failure))
        return NULL;
    bool good =
        config_load_with(kit->path, extras.list, extras.n, &config, problems) == CONFIG_READ;
    admin_extras_free(&extras);
    if (!good) {
        config_free(&config);
        return NULL;
    }
    if (!generation_new(kit->gateway, &config, kit->generation, &made, failure))
        return NULL;
    if (!kit->breaks && generation_apply(made, kit->generation, now, failure))
        return made;
    if (kit->breaks)
        snprintf(failure->text, sizeof failure->text, "it was to fail");
    kit->breaks = false;
    limit_book_forget(kit->gateway->book);
    generation_free(made);
    return NULL;
}

static void run_reload(void *arg)
{
    struct admin_kit *kit = arg;
    struct config_problems problems;
    struct tg_problem failure;
    struct generation *made = read_again(kit, &problems, &failure);
    struct reload_result result = {.ok = made != NULL, .problems = &problems};
    struct generation *before = kit->generation;

    if (made != NULL) {
        LIST_INSERT_HEAD(&kit->gateway->generations, made, link);
        kit->generation = made;
        generation_leave(before, 0);
    }
    result.generation = kit->generation->number;
    result.failure = failure.text[0] != '\0' ? failure.text : NULL;
    memcpy(result.hash, kit->generation->config.hash, sizeof result.hash);
    kit->reloads++;
    reload_done *done = kit->done;
    kit->done = NULL;
    if (done != NULL)
        done(kit->context, &result);
    config_problems_free(&problems);
}

static bool ask_reload(void *host, const char *why, reload_done *done, void *context)
{
    struct admin_kit *kit = host;

    (void)why;
    kit->done = done;
    kit->context = context;
    net_loop_post(kit->loop, &kit->reload);
    return true;
}

static void forget_reload(void *host, const void *context)
{
    struct admin_kit *kit = host;

    if (kit->context == context)
        kit->done = NULL;
}

static struct generation *say_generation(void *host)
{
    return ((struct admin_kit *)host)->generation;
}

/* ---- life ---- */

void admin_kit_write(struct admin_kit *kit, const char *yaml)
{
    FILE *file = fopen(kit->path, "w");

    assert_non_null(file);
    fprintf(file,
            "listen: {gateway: \"127.0.0.1:0\"}\n"
            "ledger: {path: \":memory:\"}\n"
            "admin_auth: {token: \"%s\"}\n"
            "%s",
            ADMIN_TOKEN, yaml);
    fclose(file);
}

static void open_gateway(struct admin_kit *kit)
{
    struct tg_problem problem = {""};
    struct config_problems problems;
    struct config config;

    if (config_load(kit->path, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.n > 0 ? problems.list[0].text : "no problem given");
    config_problems_free(&problems);
    if (!gateway_new(&services, &config, &kit->clock, 1, &kit->gateway, &problem))
        fail_msg("%s", problem.text);
    kit->generation = gateway_newest(kit->gateway);
    kit->gateway->control = kit->loop;
}

void admin_kit_open(struct admin_kit *kit, const char *yaml)
{
    admin_kit_open_with(kit, yaml, false);
}

void admin_kit_open_with(struct admin_kit *kit, const char *yaml, bool threads)
{
    const char *tmp = getenv("TMPDIR");
    struct metrics_config metrics;
    struct tg_problem problem = {""};

    memset(kit, 0, sizeof *kit);
    kit->threads = threads;
    int n = snprintf(kit->folder, sizeof kit->folder, "%.160s/admin-", tmp ? tmp : "/tmp");
    memset(kit->folder + n, 'X', 6);
    assert_non_null(mkdtemp(kit->folder));
    snprintf(kit->path, sizeof kit->path, "%s/t.yaml", kit->folder);
    admin_kit_write(kit, yaml);
    clock_init(&kit->clock);
    assert_int_equal(net_loop_new(&kit->clock, &kit->loop), TG_OK);
    net_post_init(&kit->reload, run_reload, kit);
    open_gateway(kit);
    metrics_config_init(&metrics);
    metrics.shards = 1;
    kit->metrics = metrics_new(&metrics);
    kit->watch = watch_new(64);
    const struct explainer of = {.loop = kit->loop, .gateway = kit->gateway};
    assert_true(explainer_init(&kit->explainer, &of));
    struct admin_options options = {.loop = kit->loop,
                                    .gateway = kit->gateway,
                                    .metrics = kit->metrics,
                                    .watch = kit->watch,
                                    .config_path = kit->path,
                                    .generation = say_generation,
                                    .reload = ask_reload,
                                    .forget = forget_reload,
                                    .host = kit,
                                    .explainer = &kit->explainer,
                                    .in_place = !threads};
    if (admin_new(&options, &kit->admin, &problem))
        fail_msg("%s", problem.text);
}

void admin_kit_close(struct admin_kit *kit)
{
    free(kit->exchange.body);
    admin_free(kit->admin);
    explainer_fini(&kit->explainer);
    watch_free(kit->watch);
    metrics_free(kit->metrics);
    admin_kit_turn(kit);
    kit->gateway->control = NULL;
    gateway_free(kit->gateway);
    net_loop_free(kit->loop);
    unlink(kit->path);
    assert_int_equal(rmdir(kit->folder), 0);
}
