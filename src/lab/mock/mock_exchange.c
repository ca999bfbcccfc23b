/* mock_exchange.c - a request as it comes in, until it is known what to do with it; and its end.
 *
 * Whether the credential is good and the quota has room is known from the head; so is the rule, if
 * the rules down to it ask for nothing of the body. Exchanges are kept for the next request, with
 * their memory: at full speed nothing is allocated.
 */
#include <assert.h>
#include <openssl/sha.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/text/json_member.h"
#include "lab/mock/mock_internal.h"
#include "lab/mock/mock_strict.h"

#define BODY_KEPT ((size_t)64 << 10) /* larger bodies are given back */
#define BODY_FIRST 4096

/* ---- Storage --------------------------------------------------------------------------------- */

static struct mock_exchange *take_exchange(struct mock_worker *worker)
{
    struct mock_exchange *x = SLIST_FIRST(&worker->spare);

    if (x != NULL) {
        SLIST_REMOVE_HEAD(&worker->spare, next);
        return x;
    }
    x = calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    x->worker = worker;
    net_timer_init(&x->timer, mock_play_timer, x);
    mock_out_init(&x->out, worker->loop, mock_play_drained, x);
    return x;
}

static void give_exchange(struct mock_exchange *x)
{
    if (x->body_capacity > BODY_KEPT) {
        free(x->body);
        x->body = NULL;
        x->body_capacity = 0;
    }
    assert(!net_timer_is_set(&x->timer) && x->out.in == NULL);
    SLIST_INSERT_HEAD(&x->worker->spare, x, next);
}

void mock_exchange_free(struct mock_exchange *x)
{
    mock_reply_fini(&x->reply);
    mock_out_fini(&x->out);
    free(x->body);
    free(x);
}

static bool add_body(struct mock_exchange *x, struct slice bytes)
{
    size_t capacity = x->body_capacity > 0 ? x->body_capacity : BODY_FIRST;

    if (bytes.n > MOCK_BODY_MAX - x->body_bytes)
        return false;
    while (capacity - x->body_bytes < bytes.n)
        capacity *= 2;
    if (capacity > x->body_capacity) {
        char *body = realloc(x->body, capacity + JSON_PADDING);
        if (body == NULL)
            return false;
        memset(body + x->body_bytes, 0, capacity + JSON_PADDING - x->body_bytes);
        x->body = body;
        x->body_capacity = capacity;
    }
    memcpy(x->body + x->body_bytes, bytes.at, bytes.n);
    x->body_bytes += bytes.n;
    assert(x->body_bytes <= x->body_capacity && x->body_bytes <= MOCK_BODY_MAX);
    return true;
}

/* ---- Who asks -------------------------------------------------------------------------------- */

static struct slice find_key(const struct http_head *head)
{
    struct slice value = http_find(head, SLICE("authorization"));

    if (value.n > 7 && slice_begins_nocase(value, SLICE("bearer ")))
        return (struct slice){value.at + 7, value.n - 7};
    if (value.at == NULL)
        value = http_find(head, SLICE("x-api-key"));
    if (value.at == NULL)
        value = http_find(head, SLICE("api-key"));
    if (value.at == NULL)
        value = http_find(head, SLICE("x-goog-api-key"));
    return value.at != NULL ? value : SLICE("");
}

static bool is_good_key(const char *keys, struct slice key)
{
    while (keys != NULL) {
        size_t n = strcspn(keys, ",");

        if (slice_equal((struct slice){keys, n}, key))
            return true;
        if (keys[n] == '\0')
            return false;
        keys += n + 1;
    }
    return true;
}

static int mock_exchange_refuse(struct mock_exchange *x)
{
    struct mock *mock = x->worker->mock;

    if (x->ask.endpoint == MOCK_TOKEN)
        return 0;
    if (!is_good_key(mock->options.keys, x->key))
        return 401;
    if (mock->options.rpm == 0)
        return 0;
    x->quota = mock_quota_take(&mock->quota, XXH3_64bits(x->key.at, x->key.n),
                               net_loop_now(x->worker->loop));
    return x->quota.allowed ? 0 : 429;
}

/* ---- What is done ---------------------------------------------------------------------------- */

/* False: only the body can tell. */
static bool find_rule(struct mock_exchange *x)
{
    struct mock_sight sight = {
        .path = x->path,
        .key = x->key,
        .has_body = x->body_done,
        .model = x->ask.model,
        .stream = x->ask.stream,
    };

    x->rule = MOCK_RULE_NONE;
    if (x->refused == 0)
        x->rule = mock_script_match(x->script, &sight, &x->next_rule);
    if (x->rule == MOCK_RULE_LATER)
        return false;
    x->action =
        x->rule == MOCK_RULE_NONE ? &x->script->otherwise : &x->script->rules[x->rule].action;
    return true;
}

static void mock_exchange_begin(void *context, struct http_inbound *in)
{
    struct mock_worker *worker = context;
    struct mock_exchange *x = take_exchange(worker);
    const char *query = memchr(in->head.target.at, '?', in->head.target.n);

    in->owner = x;
    if (x == NULL) {
        http_inbound_abort(in);
        return;
    }
    x->in = in;
    x->stage = MOCK_READING;
    x->path = in->head.target;
    if (query != NULL)
        x->path.n = (size_t)(query - x->path.at);
    x->control = x->path.n > 6 && memcmp(x->path.at, "/mock/", 6) == 0;
    x->body_bytes = 0;
    x->body_done = x->too_large = x->faulted = false;
    x->problem = NULL;
    x->action = NULL;
    x->next_rule = 0;
    x->rule = MOCK_RULE_NONE;
    x->status = 0;
    x->event = x->sent_bytes = 0;
    x->refused = 0;
    mock_ask_head(&x->ask, &in->head);
    if (x->control)
        return;
    x->number = mock_records_begin(&worker->mock->records, &x->age);
    x->begun_at = net_loop_now(worker->loop);
    /* Acquire: pairs with the store in mock_set_script(), which made the script before it. */
    x->script = atomic_load_explicit(&worker->mock->script, memory_order_acquire);
    x->key = find_key(&in->head);
    x->refused = mock_exchange_refuse(x);
    if (find_rule(x) && x->action->early) {
        http_inbound_pause(in);
        mock_play(x);
    }
}

static void mock_exchange_data(struct http_inbound *in, struct slice bytes)
{
    struct mock_exchange *x = in->owner;

    if (x == NULL || x->too_large)
        return;
    x->too_large = !add_body(x, bytes);
    if (x->action == NULL || x->stage != MOCK_READING || x->action->read_pause_ms == 0)
        return;
    http_inbound_pause(in);
    net_timer_set(x->worker->loop, &x->timer, x->action->read_pause_ms);
}

static bool wants_body(const struct mock_ask *ask)
{
    return ask->method_ok && ask->endpoint >= MOCK_CHAT && ask->endpoint <= MOCK_COUNT_TOKENS;
}

static void mock_exchange_end(struct http_inbound *in)
{
    struct mock_exchange *x = in->owner;

    if (x == NULL)
        return;
    assert(!x->body_done);
    x->body_done = true;
    if (x->control) {
        mock_control(x);
        return;
    }
    if (x->stage != MOCK_READING)
        return;
    if (x->refused == 0 && x->ask.endpoint != MOCK_TOKEN)
        x->refused =
            mock_auth_check(&x->worker->mock->auth, &x->in->head, x->key,
                            (struct slice){x->body_bytes > 0 ? x->body : "", x->body_bytes},
                            clock_wall_of(&x->worker->mock->clock, net_loop_now(x->worker->loop)));
    x->ask.hash = XXH3_64bits_withSeed(
        x->body, x->body_bytes, XXH3_64bits_withSeed(x->path.at, x->path.n, x->script->seed));
    if (wants_body(&x->ask) && !x->too_large)
        x->problem =
            mock_ask_body(&x->ask, x->worker->reader, x->body_bytes > 0 ? x->body : "",
                          x->body_bytes, x->body_bytes > 0 ? x->body_capacity + JSON_PADDING : 0);
    if (x->action == NULL)
        find_rule(x);
    if (x->action->strict && x->problem == NULL && x->refused == 0 && wants_body(&x->ask))
        x->problem = mock_strict_problem(&x->ask, x->worker->reader, x->body, x->body_bytes,
                                         x->body_capacity + JSON_PADDING);
    mock_play(x);
}

static void mock_exchange_room(struct http_inbound *in)
{
    struct mock_exchange *x = in->owner;

    if (x != NULL && !x->control)
        mock_play_room(x);
}

static void mock_exchange_gone(struct http_inbound *in, enum http_why why)
{
    struct mock_exchange *x = in->owner;

    if (x == NULL)
        return;
    net_timer_stop(x->worker->loop, &x->timer);
    mock_out_end(&x->out);
    if (!x->control) {
        struct mock_records *records = &x->worker->mock->records;
        bool wanted = mock_records_wanted(records);
        mock_records_end(records, x->age, wanted ? mock_describe(x, why) : SLICE(""));
    }
    give_exchange(x);
}

const struct http_server_ops mock_server_ops = {
    .begin = mock_exchange_begin,
    .data = mock_exchange_data,
    .end = mock_exchange_end,
    .room = mock_exchange_room,
    .gone = mock_exchange_gone,
};

/* ---- What is remembered ---------------------------------------------------------------------- */

static void write_hash(struct json_writer *line, const char *key, struct slice bytes)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    char digits[2 * SHA256_DIGEST_LENGTH];
    struct text_out text;

    SHA256((const unsigned char *)bytes.at, bytes.n, hash);
    text_out_fixed(&text, digits, sizeof digits);
    text_out_hex(&text, hash, sizeof hash);
    json_write_key(line, key);
    json_write_string(line, text.bytes, text.size);
}

static void mock_exchange_write_text(struct json_writer *line, const char *key, struct slice text)
{
    json_write_key(line, key);
    json_write_string(line, text.at, text.n);
}

static bool is_credential(struct slice name)
{
    return slice_equal(name, SLICE("authorization")) || slice_equal(name, SLICE("x-api-key")) ||
           slice_equal(name, SLICE("api-key")) || slice_equal(name, SLICE("x-goog-api-key"));
}

/* Credentials are written as the hash of the key, without `Bearer`, and never as the key. */
static void write_headers(struct json_writer *line, const struct http_head *head)
{
    json_write_key(line, "credentials");
    json_write_array(line);
    for (size_t i = 0; i < head->n_fields; i++) {
        struct http_field one = head->fields[i];
        struct http_head alone = {.fields = &one, .n_fields = 1};

        if (!is_credential(one.name))
            continue;
        json_write_object(line);
        mock_exchange_write_text(line, "header", one.name);
        write_hash(line, "sha256", find_key(&alone));
        json_write_object_end(line);
    }
    json_write_array_end(line);
    json_write_key(line, "headers");
    json_write_array(line);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (is_credential(head->fields[i].name))
            continue;
        json_write_array(line);
        json_write_string(line, head->fields[i].name.at, head->fields[i].name.n);
        json_write_string(line, head->fields[i].value.at, head->fields[i].value.n);
        json_write_array_end(line);
    }
    json_write_array_end(line);
}

static const char *ending(const struct mock_exchange *x, enum http_why why)
{
    if (x->stage == MOCK_ENDED && why == HTTP_DONE)
        return x->faulted ? "cut" : "completed";
    if (x->stage == MOCK_BREAKING && why == HTTP_ABORTED)
        return "cut";
    return why == HTTP_ABORTED ? "stopped" : "aborted";
}

static const char *phase(const struct mock_exchange *x)
{
    if (x->stage == MOCK_READING)
        return "request";
    if (x->status == 0)
        return "before_headers";
    if (x->event == 0)
        return "before_events";
    return x->stage == MOCK_ENDED ? "end" : "events";
}

static int64_t key_number(const char *keys, struct slice key)
{
    int64_t number = 1;

    for (; keys != NULL; number++) {
        size_t n = strcspn(keys, ",");
        if (slice_equal((struct slice){keys, n}, key))
            return number;
        keys = keys[n] == ',' ? keys + n + 1 : NULL;
    }
    return 0;
}

struct slice mock_describe(struct mock_exchange *x, enum http_why why)
{
    struct json_writer *line = &x->worker->line;
    const struct mock *mock = x->worker->mock;

    json_writer_clear(line);
    json_write_object(line);
    json_member_number(line, "id", (int64_t)x->number);
    mock_exchange_write_text(line, "method", x->in->head.method);
    mock_exchange_write_text(line, "path", x->in->head.target);
    json_member_number(line, "key", key_number(mock->options.keys, x->key));
    write_headers(line, &x->in->head);
    json_member_number(line, "body_bytes", (int64_t)x->body_bytes);
    write_hash(line, "body_sha256", (struct slice){x->body, x->body_bytes});
    mock_exchange_write_text(line, "model", slice_of(x->ask.model));
    json_member_flag(line, "stream", x->ask.stream);
    json_member_number(line, "rule", x->rule < x->script->n_rules ? (int64_t)x->rule + 1 : 0);
    json_member_number(line, "status", x->status);
    mock_exchange_write_text(line, "ended", slice_of(ending(x, why)));
    mock_exchange_write_text(line, "phase", slice_of(phase(x)));
    mock_exchange_write_text(line, "why", slice_of(http_why_text(why)));
    json_member_number(line, "events", x->event);
    json_member_number(line, "sent_bytes", x->sent_bytes);
    json_member_number(line, "begun_ms", x->begun_at - mock->started_at);
    json_write_key(line, "first_byte_ms");
    if (x->status != 0)
        json_write_integer(line, x->first_byte_at - mock->started_at);
    else
        json_write_null(line);
    json_member_number(line, "ended_ms", net_loop_now(x->worker->loop) - mock->started_at);
    json_write_object_end(line);
    return (struct slice){line->text.bytes, line->text.failed ? 0 : line->text.size};
}
