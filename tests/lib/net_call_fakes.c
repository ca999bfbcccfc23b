/* net_call_fakes.c - the world around a call in a test: its clock, its provider, the remote store,
 * its client. See net_call_kit.h.
 */
#include "net_call_kit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/container_of.h"

struct call_kit call_kit;

/* What a fake ask, ticket or key points to: never read. */
static char marker;
#define MARK ((void *)&marker)

/* ---- time ---- */

static tg_ms kit_now(struct net_loop *loop)
{
    (void)loop;
    return call_kit.now;
}

static void kit_timer_stop(struct net_loop *loop, struct net_timer *timer)
{
    (void)loop;
    if (!net_timer_is_set(timer))
        return;
    LIST_REMOVE(timer, in_slot);
    timer->in_slot.le_prev = NULL;
    call_kit.n_timers--;
}

static void kit_timer_set(struct net_loop *loop, struct net_timer *timer, tg_ms ms)
{
    kit_timer_stop(loop, timer);
    LIST_INSERT_HEAD(&call_kit.timers, timer, in_slot);
    call_kit.n_timers++;
    timer->at = call_kit.now + ms;
    call_kit.last_timer = ms;
}

void call_kit_turn(void)
{
    for (int i = 0; i < 4; i++)
        net_loop_turn(call_kit.worker.loop, false);
}

void call_kit_pass(tg_ms ms)
{
    tg_ms until = call_kit.now + ms;

    for (;;) {
        struct net_timer *first = NULL, *timer;
        LIST_FOREACH(timer, &call_kit.timers, in_slot)
            if (timer->at <= until && (!first || timer->at < first->at))
                first = timer;
        if (first == NULL)
            break;
        if (first->at > call_kit.now)
            call_kit.now = first->at;
        kit_timer_stop(NULL, first);
        first->fire(first->arg);
    }
    call_kit.now = until;
}

/* ---- the provider ---- */

static void keep_fields(const struct http_head *head, char *to, size_t size)
{
    size_t n = 0;

    to[0] = '\0';
    for (size_t i = 0; i < head->n_fields && n < size; i++)
        n += (size_t)snprintf(to + n, size - n, "%.*s: %.*s\n", (int)head->fields[i].name.n,
                              head->fields[i].name.at, (int)head->fields[i].value.n,
                              head->fields[i].value.at);
    assert_true(n < size);
}

static size_t out_write(struct http_outbound *http, struct slice bytes)
{
    struct call_out *out = container_of(http, struct call_out, out);

    assert_false(out->over);
    assert_true(out->body_n + bytes.n < sizeof out->body);
    memcpy(out->body + out->body_n, bytes.at, bytes.n);
    out->body_n += bytes.n;
    return call_kit.is_full ? HTTP_OUTPUT_HIGH + 1 : 0;
}

void call_out_room(struct call_out *out)
{
    assert_false(out->over || out->finished > 0);
    out->out.ops->room(&out->out);
}

static void out_finish(struct http_outbound *http, const struct http_field *trailers, size_t n)
{
    assert_true(trailers == NULL && n == 0);
    container_of(http, struct call_out, out)->finished++;
}

static void out_pause(struct http_outbound *http)
{
    assert_int_equal(container_of(http, struct call_out, out)->paused++, 0);
}

static void out_resume(struct http_outbound *http)
{
    container_of(http, struct call_out, out)->paused = 0;
}

static void out_cancel(struct http_outbound *http, uint32_t code)
{
    struct call_out *out = container_of(http, struct call_out, out);

    (void)code;
    out->cancelled++;
    out->over = true;
}

static struct http_outbound *kit_send(struct http_client *client, struct http_origin *origin,
                                      const struct http_head *head,
                                      const struct http_timeouts *timeouts,
                                      const struct http_client_ops *ops, void *owner)
{
    struct slice key = http_find(head, SLICE("authorization"));

    (void)client, (void)origin;
    if (call_kit.send_fails)
        return NULL;
    assert_true(call_kit.n_outs < CALL_KIT_OUTS);
    struct call_out *out = &call_kit.outs[call_kit.n_outs++];
    *out = (struct call_out){
        .out = {.ops = ops, .owner = owner}, .timeouts = *timeouts, .length = head->length};
    out->target_n = head->target.n;
    snprintf(out->target, sizeof out->target, "%.*s", (int)head->target.n, head->target.at);
    keep_fields(head, out->request, sizeof out->request);
    snprintf(out->authorization, sizeof out->authorization, "%.*s", (int)key.n, key.at);
    return &out->out;
}

struct call_out *call_kit_out(void)
{
    assert_true(call_kit.n_outs > 0);
    return &call_kit.outs[call_kit.n_outs - 1];
}

void call_out_says(const char *name, const char *value)
{
    assert_true(call_kit.n_reply < COUNT_OF(call_kit.reply));
    call_kit.reply[call_kit.n_reply++] = (struct http_field){slice_of(name), slice_of(value)};
}

void call_out_head(struct call_out *out, int status, const char *type)
{
    assert_false(out->over);
    out->out.sent = out->out.head_seen = true;
    out->fields[0] = (struct http_field){SLICE("content-type"), slice_of(type)};
    memcpy(out->fields + 1, call_kit.reply, sizeof call_kit.reply);
    out->head = (struct http_head){
        .status = status, .fields = out->fields, .n_fields = 1 + call_kit.n_reply, .length = -1};
    out->out.ops->head(&out->out, &out->head);
}

void call_out_data(struct call_out *out, const char *text)
{
    assert_false(out->over);
    out->out.ops->data(&out->out, slice_of(text));
}

void call_out_end(struct call_out *out)
{
    assert_false(out->over);
    out->out.ops->end(&out->out);
    out->over = true;
}

void call_out_fail(struct call_out *out, enum http_why why)
{
    assert_false(out->over);
    out->out.ops->failed(&out->out, why, "");
    out->over = true;
}

void call_out_reply(struct call_out *out, int status, const char *type, const char *text)
{
    call_out_head(out, status, type);
    if (!out->over && text[0] != '\0')
        call_out_data(out, text);
    if (!out->over)
        call_out_end(out);
}

/* ---- the remote store ---- */

static enum tg_err remote_error(enum call_remote how)
{
    if (how != REMOTE_FAILS)
        return TG_OK;
    return call_kit.failure ? call_kit.failure : TG_ERR_STORE;
}

static void say_limits(enum call_remote how, struct remote_claim *debit, enum tg_err *err,
                       struct tg_axes *axes)
{
    memset(axes, 0, sizeof *axes);
    *err = remote_error(how);
    axes->present = 1U << TG_AXIS_RATE;
    axes->decision[TG_AXIS_RATE] =
        how == REMOTE_SAYS_YES ? ALLOWED(10, 9, call_kit.now) : DENIED(10, 0, call_kit.now, 5);
    if (how == REMOTE_SAYS_YES) {
        debit->state = CLAIM_CHARGED;
        call_kit.limits_held++;
    }
}

static bool kit_limits_refused(struct remote_port *port, const struct remote_terms *terms,
                               const struct tg_debit *what, struct tg_axes *axes)
{
    (void)port, (void)terms, (void)what;
    if (!call_kit.limits_known)
        return false;
    *axes = (struct tg_axes){.present = 1u << TG_AXIS_RATE};
    axes->decision[TG_AXIS_RATE] = DENIED(10, 0, call_kit.now + 2000, 1500);
    return true;
}

static bool kit_limits_take(struct remote_port *port, struct remote_claim *debit,
                            const struct remote_terms *terms, const struct tg_debit *what,
                            void (*decided)(struct remote_claim *debit, enum tg_err err,
                                            const struct tg_axes *axes),
                            enum tg_err *err, struct tg_axes *axes)
{
    *debit =
        (struct remote_claim){.decided = decided, .port = port, .terms = terms, .debit = *what};
    if (call_kit.limits == REMOTE_SAYS_LATER) {
        assert_null(call_kit.limits_asked);
        call_kit.limits_asked = debit;
        debit->state = CLAIM_ASKING;
        return false;
    }
    say_limits(call_kit.limits, debit, err, axes);
    return true;
}

void call_kit_answer_limits(enum call_remote how)
{
    struct remote_claim *debit = call_kit.limits_asked;
    struct tg_axes axes;
    enum tg_err err;

    assert_non_null(debit);
    call_kit.limits_asked = NULL;
    debit->state = CLAIM_IDLE;
    say_limits(how, debit, &err, &axes);
    debit->decided(debit, err, &axes);
}

static void limits_end(struct remote_claim *debit)
{
    if (debit->state == CLAIM_ASKING) {
        assert_ptr_equal(call_kit.limits_asked, debit);
        call_kit.limits_asked = NULL;
    } else {
        assert_int_equal(debit->state, CLAIM_CHARGED);
        call_kit.limits_held--;
    }
    debit->state = CLAIM_IDLE;
}

static void kit_limits_settle(struct remote_claim *debit, int64_t actual)
{
    call_kit.limits_actual = actual;
    call_kit.limits_settled++;
    limits_end(debit);
}

static void kit_limits_refund(struct remote_claim *debit)
{
    call_kit.limits_refunded++;
    limits_end(debit);
}

static void say_money(enum call_remote how, struct remote_reservation *money, enum tg_err *err,
                      struct tg_money_answer *answer)
{
    *answer = call_kit.money_no;
    *err = remote_error(how);
    if (how == REMOTE_SAYS_YES) {
        answer->reservation = 1;
        answer->reserved = money->call.money;
        money->ticket = MARK;
        call_kit.money_held++;
    }
}

static bool kit_money_take(struct remote_port *port, struct remote_reservation *money,
                           const struct remote_terms *terms, const struct spending_call *call,
                           void (*decided)(struct remote_reservation *money, enum tg_err err,
                                           const struct tg_money_answer *answer),
                           enum tg_err *err, struct tg_money_answer *answer)
{
    *money = (struct remote_reservation){
        .decided = decided, .port = port, .terms = terms, .call = *call};
    if (call_kit.money == REMOTE_SAYS_LATER) {
        assert_null(call_kit.money_asked);
        call_kit.money_asked = money;
        money->ask = MARK;
        return false;
    }
    say_money(call_kit.money, money, err, answer);
    return true;
}

void call_kit_answer_money(enum call_remote how)
{
    struct remote_reservation *money = call_kit.money_asked;
    struct tg_money_answer answer;
    enum tg_err err;

    assert_non_null(money);
    call_kit.money_asked = NULL;
    money->ask = NULL;
    say_money(how, money, &err, &answer);
    money->decided(money, err, &answer);
}

static void kit_money_settle(struct remote_reservation *money, tg_micro spent)
{
    if (money->ask != NULL) {
        assert_ptr_equal(call_kit.money_asked, money);
        call_kit.money_asked = NULL;
    }
    if (money->ticket != NULL) {
        call_kit.money_held--;
        call_kit.money_settled = spent;
    }
    money->ask = NULL;
    money->ticket = NULL;
}

static bool kit_key_take(struct remote_port *port, struct remote_key_claim *key,
                         const struct remote_terms *terms, struct tg_keyring *ring,
                         tg_key_lease lease, atomic_llong *asked_at, tg_ms patience,
                         void (*decided)(struct remote_key_claim *key, enum tg_err err,
                                         const struct tg_key_hold *hold),
                         enum tg_err *err)
{
    (void)ring;
    call_kit.patience = patience;
    assert_true(lease != 0);
    *key = (struct remote_key_claim){
        .decided = decided, .port = port, .terms = terms, .asked_at = asked_at};
    if (call_kit.key == REMOTE_SAYS_YES) {
        key->held = MARK;
        call_kit.keys_held++;
        *err = TG_OK;
        return true;
    }
    if (call_kit.key == REMOTE_FAILS) {
        *err = remote_error(REMOTE_FAILS);
        return true;
    }
    assert_null(call_kit.key_asked); /* a no is never told at once */
    call_kit.key_asked = key;
    key->asked = MARK;
    return false;
}

void call_kit_answer_key(enum call_remote how)
{
    struct remote_key_claim *key = call_kit.key_asked;
    struct tg_key_hold hold = {.why = TG_HOLD_BUSY, .until = call_kit.now + 1000, .room = -1};

    assert_non_null(key);
    call_kit.key_asked = NULL;
    key->asked = NULL;
    if (how == REMOTE_SAYS_YES) {
        key->held = MARK;
        call_kit.keys_held++;
    }
    key->decided(key, remote_error(how), how == REMOTE_SAYS_NO ? &hold : NULL);
}

static void kit_key_give(struct remote_key_claim *key, struct tg_keyring *ring, tg_key_lease lease,
                         tg_ms now, const struct tg_key_report *report)
{
    call_kit.report = *report;
    assert_true(tg_keyring_release(ring, lease, now, report)); /* once */
    if (key->asked != NULL) {
        assert_ptr_equal(call_kit.key_asked, key);
        call_kit.key_asked = NULL;
    }
    if (key->held != NULL)
        call_kit.keys_held--;
    key->asked = key->held = NULL;
}

/* Never answered from inside. */
static struct remote_objects_ask *kit_objects_find(struct remote_port *port,
                                                   const uint8_t (*hashes)[REMOTE_OBJECT_HASH],
                                                   size_t n, struct slice tenant,
                                                   const struct remote_objects_ops *ops,
                                                   void *context)
{
    struct call_kit_objects *asked = &call_kit.objects_asked;

    (void)port;
    assert_true(n <= COUNT_OF(asked->hashes) && (n > 0 || tenant.n > 0));
    assert_null(asked->ops);
    if (call_kit.objects_away)
        return NULL;
    *asked = (struct call_kit_objects){.ops = ops, .context = context, .n = n};
    memcpy(asked->hashes, hashes, n * sizeof hashes[0]);
    snprintf(asked->lister, sizeof asked->lister, "%.*s", (int)tenant.n, tenant.n ? tenant.at : "");
    return MARK;
}

static void kit_objects_cancel(struct remote_objects_ask *ask)
{
    assert_ptr_equal(ask, MARK);
    assert_non_null(call_kit.objects_asked.ops);
    call_kit.objects_asked.ops = NULL;
}

static void answer_objects(const char *tenant, bool known)
{
    struct call_kit_objects asked = call_kit.objects_asked;
    struct remote_object object = {.provider = SLICE("p"), .key = SLICE("k1"), .kind = 1};

    if (call_kit.objects_provider != NULL)
        object.provider = slice_of(call_kit.objects_provider);
    assert_non_null(asked.ops);
    for (size_t i = 0; tenant != NULL && i < asked.n; i++) {
        object.tenant = slice_of(tenant);
        memcpy(object.hash, asked.hashes[i], sizeof object.hash);
        asked.ops->found(asked.context, &object);
    }
    call_kit.objects_asked.ops = NULL;
    asked.ops->over(asked.context, known);
}

void call_kit_answer_objects(enum call_remote how)
{
    answer_objects(how == REMOTE_SAYS_YES ? "one" : NULL, how != REMOTE_FAILS);
}

void call_kit_answer_objects_of(const char *tenant)
{
    answer_objects(tenant, true);
}

static void kit_objects_put(struct remote_port *port, const struct remote_object *object,
                            bool listed, tg_ms life, remote_object_refused *refused, void *context)
{
    (void)port, (void)listed, (void)life;
    call_kit.objects_put++;
    call_kit.put = *object;
    call_kit.put_refused = refused;
    call_kit.put_context = context;
}

static void kit_objects_drop(struct remote_port *port, const struct remote_object *object)
{
    (void)port;
    call_kit.objects_dropped++;
    call_kit.dropped = *object;
}

/* ---- the pool ---- */

static bool kit_job_put(struct net_pool *pool, struct net_lane *lane, struct net_job *job)
{
    assert_true(pool != NULL && lane != NULL && call_kit.job == NULL);
    if (call_kit.no_threads)
        return false;
    call_kit.job = job;
    call_kit.job_runs = false;
    return true;
}

static bool kit_job_cancel(struct net_pool *pool, struct net_job *job)
{
    (void)pool;
    assert_ptr_equal(call_kit.job, job);
    if (!call_kit.job_runs)
        call_kit.job = NULL;
    return !call_kit.job_runs;
}

static void kit_job_end(struct net_pool *pool, struct net_job *job)
{
    (void)pool;
    assert_ptr_equal(call_kit.job, job);
    call_kit.job = NULL;
}

void call_kit_parse(void)
{
    struct net_job *job = call_kit.job;

    assert_non_null(job);
    job->run(job, call_kit.worker.reader);
    call_kit.job = NULL;
    job->done.run(job->done.arg);
}

const char *call_kit_long_body(void)
{
    static char body[64 * 1024];
    size_t n = (size_t)snprintf(body, sizeof body,
                                "{\"model\":\"first\",\"messages\":[{\"role\":\"user\","
                                "\"content\":\"hi\"}],\"max_tokens\":10,\"x\":[1");

    for (int i = 0; i < 9000; i++)
        n += (size_t)snprintf(body + n, sizeof body - n, ",1");
    snprintf(body + n, sizeof body - n, "]}");
    return body;
}

const char *call_kit_large_body(void)
{
    enum { TEXT = 66 * 1024 };
    static char body[TEXT + 256];
    size_t n = (size_t)snprintf(body, sizeof body,
                                "{\"model\":\"opus\",\"max_tokens\":10,\"messages\":[{\"role\":"
                                "\"user\",\"content\":\"");

    memset(body + n, 'a', TEXT);
    snprintf(body + n + TEXT, sizeof body - n - TEXT, "\"}]}");
    return body;
}

const char *call_kit_unbounded_body(void)
{
    static const char bound[] = "\"max_tokens\":10,";
    static char body[68 * 1024];

    snprintf(body, sizeof body, "%s", call_kit_large_body());
    memset(strstr(body, bound), ' ', sizeof bound - 1);
    return body;
}

const struct call_env call_kit_env = {.reply = &call_client_ops,
                                      .limits_decided = call_limits_decided,
                                      .money_decided = call_money_decided,
                                      .key_decided = call_key_decided,
                                      .objects = &call_objects_ops,
                                      .parsed = call_parsed,
                                      .job_put = kit_job_put,
                                      .job_cancel = kit_job_cancel,
                                      .job_end = kit_job_end,
                                      .now = kit_now,
                                      .timer_set = kit_timer_set,
                                      .timer_stop = kit_timer_stop,
                                      .send = kit_send,
                                      .out_write = out_write,
                                      .out_finish = out_finish,
                                      .out_pause = out_pause,
                                      .out_resume = out_resume,
                                      .out_cancel = out_cancel,
                                      .limits_refused = kit_limits_refused,
                                      .limits_take = kit_limits_take,
                                      .limits_settle = kit_limits_settle,
                                      .limits_refund = kit_limits_refund,
                                      .money_take = kit_money_take,
                                      .money_settle = kit_money_settle,
                                      .key_take = kit_key_take,
                                      .key_give = kit_key_give,
                                      .objects_find = kit_objects_find,
                                      .objects_cancel = kit_objects_cancel,
                                      .objects_put = kit_objects_put,
                                      .objects_drop = kit_objects_drop};

/* ---- the client ---- */

static struct call_client *client_of(const struct http_inbound *in)
{
    return container_of((struct http_inbound *)(uintptr_t)in, struct call_client, in);
}

static void keep_field(const struct http_head *head, struct slice name, char *to, size_t size)
{
    struct slice value = http_find(head, name);

    snprintf(to, size, "%.*s", (int)value.n, value.at != NULL ? value.at : "");
}

static void in_reply(struct http_inbound *in, const struct http_head *head)
{
    struct call_client *client = client_of(in);

    assert_int_equal(client->status, 0); /* one reply */
    client->status = head->status;
    client->length = head->length;
    keep_fields(head, client->head, sizeof client->head);
    keep_field(head, SLICE("x-tollgate-reason"), client->reason, sizeof client->reason);
    keep_field(head, SLICE("x-tollgate-model"), client->model, sizeof client->model);
}

static size_t in_write(struct http_inbound *in, struct slice bytes)
{
    struct call_client *client = client_of(in);

    assert_true(client->status != 0 && client->finished == 0 && client->aborted == 0);
    assert_true(client->body_n + bytes.n < sizeof client->body);
    memcpy(client->body + client->body_n, bytes.at, bytes.n);
    client->body_n += bytes.n;
    client->body[client->body_n] = '\0';
    return client->queued;
}

static void in_finish(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    assert_true(trailers == NULL && n == 0);
    assert_int_equal(client_of(in)->finished++, 0);
}

static void in_abort(struct http_inbound *in, uint32_t code)
{
    (void)code;
    assert_int_equal(client_of(in)->aborted++, 0);
}

static const struct sockaddr *in_peer(const struct http_inbound *in)
{
    static const struct sockaddr local = {.sa_family = AF_UNIX};
    static struct sockaddr_in inet = {.sin_family = AF_INET};

    (void)in;
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return call_kit.has_address ? (const struct sockaddr *)&inet : &local;
}

static const struct http_inbound_transport in_transport = {
    .reply = in_reply, .write = in_write, .finish = in_finish, .abort = in_abort, .peer = in_peer};

void call_client_says(const char *name, const char *value)
{
    assert_true(call_kit.n_more < COUNT_OF(call_kit.more));
    call_kit.more[call_kit.n_more++] = (struct http_field){slice_of(name), slice_of(value)};
}

static void client_prepare(struct call_client *client, const char *method, const char *target,
                           int64_t length)
{
    memset(client, 0, sizeof *client);
    client->fields[0] = (struct http_field){SLICE("authorization"), SLICE("Bearer " CALL_KIT_KEY)};
    client->fields[1] = (struct http_field){SLICE("content-type"), SLICE("application/json")};
    memcpy(client->fields + 2, call_kit.more, sizeof call_kit.more);
    client->in = (struct http_inbound){.transport = &in_transport,
                                       .head = {.method = slice_of(method),
                                                .target = slice_of(target),
                                                .version = 11,
                                                .fields = client->fields,
                                                .n_fields = 2 + call_kit.n_more,
                                                .length = length}};
}

void call_client_begin_at(struct call_client *client, const char *method, const char *target,
                          int64_t length)
{
    client_prepare(client, method, target, length);
    client->call = call_new(&call_kit.worker, &client->in, &call_kit_env);
    if (client->call != NULL)
        call_step(client->call, CALL_ON_HEAD, NULL);
}

void call_client_begin(struct call_client *client, int64_t length)
{
    call_client_begin_at(client, "POST", "/v1/chat/completions", length);
}

void call_client_new(struct call_client *client)
{
    client_prepare(client, "POST", "/v1/chat/completions", -1);
    client->call = call_new(&call_kit.worker, &client->in, &call_kit_env);
    assert_non_null(client->call);
}

void call_client_body(struct call_client *client, const char *text)
{
    call_step(client->call, CALL_ON_BODY, &(struct call_input){.bytes = slice_of(text)});
}

void call_client_end(struct call_client *client)
{
    call_step(client->call, CALL_ON_BODY_END, NULL);
}

void call_client_gone(struct call_client *client, enum http_why why)
{
    call_step(client->call, CALL_ON_GONE, &(struct call_input){.why = why});
}

void call_client_ask(struct call_client *client, const char *body)
{
    call_client_ask_at(client, "/v1/chat/completions", body);
}

void call_client_ask_at(struct call_client *client, const char *target, const char *body)
{
    call_client_begin_at(client, "POST", target, (int64_t)strlen(body));
    if (client->call != NULL)
        call_client_body(client, body);
    if (client->call != NULL)
        call_client_end(client);
}
