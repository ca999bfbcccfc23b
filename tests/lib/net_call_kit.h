/* net_call_kit.h - calls of the proxy without a network: a gateway whose clients, providers, clock
 * and remote store are the test's.
 *
 * The gate, the routes' gates, the ring of keys, the bank and the ledger (in memory) are the real
 * ones, so that what a call holds can be counted there. Clients and providers are structs that
 * write down what they are told. Time stands still unless call_kit_pass() moves it. There is one
 * kit at a time.
 */
#ifndef NET_CALL_KIT_H
#define NET_CALL_KIT_H

#include "check.h"
#include "server/ledger/ledger_internal.h"
#include "server/proxy/call.h"
#include "server/proxy/proxy.h"

#define CALL_KIT_KEY "tg-virtual-key-of-tenant-one"

/* Words that most tests use. */
#define JSON "application/json"
#define EVENT_STREAM "text/event-stream"
#define CHUNK "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define ERROR_EVENT "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n"
#define ONE_SLOT "concurrency: {law: fixed, initial: 1, min: 1, max: 1}"
#define LONG_WAIT "queue: {wait: {high: 1h, normal: 1h, low: 1h}}"

/* Another provider, of the other API, and its model. */
#define ANTHROPIC_PROVIDER                                                                         \
    "  q: {api: anthropic, base_url: \"http://127.0.0.1:1/base\", "                                \
    "keys: [{name: a1, secret: \"${CALL_KIT_SECRET}\"}]}\n"
#define ANTHROPIC_MODEL "  opus: {provider: q, price: {input: 1, output: 2}}\n"
#define MESSAGES_BODY                                                                              \
    "{\"model\":\"opus\",\"max_tokens\":10,"                                                       \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

enum { CALL_KIT_OUTS = 16, CALL_KIT_SENT = 96 * 1024, CALL_KIT_GOT = 96 * 1024 }; /* bytes */

/* Chats with that model, which have to be translated, and what its provider answers. */
#define CHAT_WITH_OPUS                                                                             \
    "{\"model\":\"opus\",\"max_tokens\":10,"                                                       \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define STREAM_OF_OPUS                                                                             \
    "{\"model\":\"opus\",\"max_tokens\":10,\"stream\":true,"                                       \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define MESSAGE                                                                                    \
    "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"o\","               \
    "\"content\":[{\"type\":\"text\",\"text\":\"hello\"}],\"stop_reason\":\"end_turn\","           \
    "\"stop_sequence\":null,\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}"
#define MESSAGE_START                                                                              \
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","       \
    "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"o\",\"content\":[],"                  \
    "\"stop_reason\":null,\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n"
#define MESSAGE_TEXT                                                                               \
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"             \
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"                                     \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"             \
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n"
#define MESSAGE_STOP                                                                               \
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"           \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"          \
    "\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}\n\n"                    \
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
#define MESSAGE_ERROR                                                                              \
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","            \
    "\"message\":\"busy\"}}\n\n"

/* A client and its request. */
struct call_client {
    struct http_inbound in;
    struct http_field fields[12];
    char head[4096];   /* fields of the reply: "name: value\n" each */
    struct call *call; /* valid until it is freed; then the worker's spare */
    int status;        /* 0: no reply yet */
    int64_t length;    /* the length that its head states; -1: none */
    char reason[64];   /* x-tollgate-reason of the reply */
    char model[64];    /* x-tollgate-model of the reply */
    char body[CALL_KIT_GOT];
    size_t body_n;
    int finished, aborted; /* how often */
    size_t queued;         /* what a write returns: bytes that the client has not taken */
};

/* A request to a provider. */
struct call_out {
    struct http_outbound out;
    struct http_head head; /* the head of the reply */
    struct http_field fields[8];
    char target[256], authorization[64];
    size_t target_n;     /* bytes of its target, of which the first are above */
    char request[16384]; /* "name: value\n" of each of its fields */
    char body[CALL_KIT_SENT];
    size_t body_n;
    struct http_timeouts timeouts;
    int64_t length;                  /* the length that its head states */
    int finished, cancelled, paused; /* how often; paused: pauses less resumes */
    bool over;                       /* it has ended, failed or been cancelled */
};

/* The provider has taken what was written. */
void call_out_room(struct call_out *out);

/* How the remote store answers what it is asked next. */
enum call_remote { REMOTE_SAYS_YES, REMOTE_SAYS_NO, REMOTE_FAILS, REMOTE_SAYS_LATER };

struct call_kit {
    struct gateway *gateway;
    struct worker worker;
    tg_ms now;
    struct call_out outs[CALL_KIT_OUTS];
    size_t n_outs;
    struct http_field more[10]; /* fields that the next clients, ... */
    size_t n_more;
    struct http_field reply[7]; /* ... and the next replies of providers have besides */
    size_t n_reply;
    bool has_address;              /* clients come from 127.0.0.1, not from a Unix socket */
    bool send_fails;               /* there is no memory for a request to a provider */
    bool is_full;                  /* providers take no more than they are written at once */
    LIST_HEAD(, net_timer) timers; /* those that are set */
    size_t n_timers;
    tg_ms last_timer; /* the time that the last timer was set for, from then on */

    enum call_remote limits, money, key;
    bool limits_known;                 /* the remote store has refused the rate a moment ago */
    struct remote_claim *limits_asked; /* waits for an answer; null: nobody does */
    struct remote_reservation *money_asked;
    struct remote_key_claim *key_asked;
    bool objects_away;            /* the remote store cannot be asked about objects */
    const char *objects_provider; /* where those are that it knows; null: at `p` */
    struct call_kit_objects {
        const struct remote_objects_ops *ops; /* null: nobody waits for an answer */
        void *context;
        uint8_t hashes[64][REMOTE_OBJECT_HASH];
        size_t n;
        char lister[64];
    } objects_asked;
    int objects_put, objects_dropped;
    struct remote_object put, dropped; /* the last; their texts are the configuration's */
    remote_object_refused *put_refused;
    void *put_context;
    int limits_held, money_held, keys_held; /* granted by the remote store, not given back yet */
    int limits_settled, limits_refunded;
    int64_t limits_actual;           /* the cost that was settled last */
    tg_micro money_settled;          /* the last sum */
    enum tg_err failure;             /* the error of REMOTE_FAILS; 0: TG_ERR_STORE */
    struct tg_money_answer money_no; /* the answer of REMOTE_SAYS_NO, without a reservation */
    tg_ms patience;                  /* how long the last key may be waited for */
    struct tg_key_report report;     /* what was said of the key that was given back last */

    struct net_job *job; /* a body that waits for, or is read by, a thread of the pool; or null */
    bool job_runs;       /* the thread has begun */
    bool no_threads;     /* there is no thread for the next */

    int64_t past_rate, past_cost; /* used by calls that call_kit_expect_idle() has seen */
    tg_micro past_spent;
};

extern struct call_kit call_kit;

/* What differs from the usual configuration: two models, `first` and `second`, of one provider with
 * two keys, and one tenant with limits of rate and cost and a budget. Null: nothing. */
struct call_kit_config {
    const char *gate;        /* settings of `gate`: "concurrency: {max: 1}" */
    const char *first;       /* settings of the model `first`: "retries: 0, fallback: [second]" */
    const char *second;      /* settings of the model `second` */
    const char *provider;    /* settings of the provider */
    const char *key;         /* settings of its keys */
    const char *virtual_key; /* settings of the tenant's key */
    const char *tenant;      /* settings of the tenant; the default is a budget of 100 dollars */
    const char *providers;   /* more providers */
    const char *models;      /* more models */
    const char *top;         /* more of the file */
    bool remote;             /* the store is remote, and answers what the kit says */
};

extern const struct call_env call_kit_env;

void call_kit_open(const struct call_kit_config *config);
void call_kit_close(void);

/* Puts another configuration in force, for the clients that come from now on. */
void call_kit_reload(const struct call_kit_config *config);

/* Gives the gateway a log, which records arrivals or does not, a watch and, with `otlp`, traces. */
void call_kit_observe(bool recorded);

/* The line that the log, or the recording if there is one, got last. */
const char *call_kit_line(void);

/* Records, too; and the last line of the recording that has operations. */
void call_kit_record(void);
const char *call_kit_recorded(void);

/* Moves the clock, firing the timers that are due in their order. */
void call_kit_pass(tg_ms ms);

/* Lets happen what was posted to the loop: wakes of gates. */
void call_kit_turn(void);

/* ---- clients ---- */

#define CALL_KIT_BODY                                                                              \
    "{\"model\":\"first\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"                  \
    "\"max_tokens\":10}"
#define CALL_KIT_STREAM                                                                            \
    "{\"model\":\"first\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"  \
    "\"max_tokens\":10}"

#define CALL_KIT_NAMES                                                                             \
    "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10,"                              \
    "\"previous_response_id\":\"resp_1\"}"

/* The head of a POST to /v1/chat/completions with a body of that length; -1: not stated. */
void call_client_begin(struct call_client *client, int64_t length);
void call_client_begin_at(struct call_client *client, const char *method, const char *target,
                          int64_t length);

/* The same without an event: a call in the state NEW. */
void call_client_new(struct call_client *client);

void call_client_body(struct call_client *client, const char *text);
void call_client_end(struct call_client *client);
void call_client_gone(struct call_client *client, enum http_why why);

/* A field that the next clients send. */
void call_client_says(const char *name, const char *value);

/* All of a request. */
void call_client_ask_at(struct call_client *client, const char *target, const char *body);
void call_client_ask(struct call_client *client, const char *body);

/* A body like CALL_KIT_BODY with so many values that it is read on a thread of the pool. Static. */
const char *call_kit_long_body(void);

/* A chat with the model `opus`, so long that it is translated on a thread of the pool. Static. */
const char *call_kit_large_body(void);
const char *call_kit_unbounded_body(void); /* the same without a bound of its output */

/* The thread reads the body, or translates it, and the call is told. */
void call_kit_parse(void);

/* ---- providers ---- */

/* The last request that was sent. */
struct call_out *call_kit_out(void);

/* A field that the next replies have. */
void call_out_says(const char *name, const char *value);

/* The head of a reply, with a content type and the fields in call_kit.reply. */
void call_out_head(struct call_out *out, int status, const char *type);
void call_out_data(struct call_out *out, const char *text);
void call_out_end(struct call_out *out);
void call_out_fail(struct call_out *out, enum http_why why);

/* A whole reply. */
void call_out_reply(struct call_out *out, int status, const char *type, const char *text);

#define CALL_KIT_REPLY                                                                             \
    "{\"id\":\"x\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","                 \
    "\"content\":\"hello\"}}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,"             \
    "\"total_tokens\":8}}"
enum { CALL_KIT_USED = 8, CALL_KIT_MICRO = 5 * 1 + 3 * 2 }; /* tokens and money of that reply */

/* ---- access tokens ---- */

/* From now on the keys of the provider `p` want a token, and there is none yet. */
void call_kit_want_token(void);

/* Their tokens have come, or cannot be had; whoever waits is told. */
void call_kit_give_token(bool good);

/* ---- the remote store, which has been asked ---- */

void call_kit_answer_limits(enum call_remote how);
void call_kit_answer_money(enum call_remote how);
void call_kit_answer_key(enum call_remote how);

/* They are the tenant's, or nobody's; REMOTE_FAILS: there is no answer. */
void call_kit_answer_objects(enum call_remote how);
void call_kit_answer_objects_of(const char *tenant);

/* ---- what is held ---- */

/* Fails the test unless every slot, lease, key, reservation, byte, generation and timer has been
 * given back, and the limits and the budget are charged with what `calls`, which have just ended,
 * and those before them have used. Forgets the requests that were sent. */
void call_kit_expect_idle(struct call *const *calls, size_t n);

/* For one call. */
void call_kit_expect_released(const struct call_client *client);

/* The entry of the ledger with this number, from 1 on. There are no more than `n`. */
void call_kit_expect_entries(uint64_t n);
struct ledger_entry call_kit_entry(uint64_t number);

/* Fails the test unless the metrics have that line: "name{label=\"x\"} 1". */
void call_kit_expect_metric(const char *line);

int64_t call_kit_rate_used(const struct call *call);
int64_t call_kit_cost_used(const struct call *call);
tg_micro call_kit_money_settled(void);

#endif
