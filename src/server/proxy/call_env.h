/* call_env.h - what a call needs from the world around it, and what that tells it.
 *
 * With another table a call can be driven without a network: tests/lib/net_call_fakes.c.
 */
#ifndef TG_PROXY_CALL_ENV_H
#define TG_PROXY_CALL_ENV_H

#include "io/http/http_client.h"
#include "io/net/work_pool.h"
#include "server/remote/remote.h"

/* What comes with an event. */
struct call_input {
    struct slice bytes;                  /* BODY, REPLY_DATA */
    const struct http_head *head;        /* REPLY_HEAD: there until the exchange ends */
    enum http_why why;                   /* REPLY_FAILED, GONE */
    const char *text;                    /* REPLY_FAILED: the same for people; null: nothing */
    enum tg_err err;                     /* LIMITS, MONEY, KEY: why there is no decision */
    const struct tg_axes *axes;          /* LIMITS, without an error */
    const struct tg_money_answer *money; /* MONEY, without an error */
    const struct tg_key_hold *hold;      /* KEY: others leave no room in it; null: it is granted */
    bool known;                          /* OBJECTS: the remote store has answered */
};

/* What a call needs from outside. Each has the signature and the promises of the function of the
 * gateway that call_env has in its place. */
struct call_env {
    /* Where the events come to that the call has asked for: functions of call_step.c. */
    const struct http_client_ops *reply;
    void (*limits_decided)(struct remote_claim *debit, enum tg_err err, const struct tg_axes *axes);
    void (*money_decided)(struct remote_reservation *money, enum tg_err err,
                          const struct tg_money_answer *answer);
    void (*key_decided)(struct remote_key_claim *key, enum tg_err err,
                        const struct tg_key_hold *hold);
    const struct remote_objects_ops *objects;
    void (*parsed)(void *call);

    /* The gateway's pool of threads. */
    bool (*job_put)(struct net_pool *pool, struct net_lane *lane, struct net_job *job);
    bool (*job_cancel)(struct net_pool *pool, struct net_job *job);
    void (*job_end)(struct net_pool *pool, struct net_job *job);

    tg_ms (*now)(struct net_loop *loop);
    void (*timer_set)(struct net_loop *loop, struct net_timer *timer, tg_ms ms);
    void (*timer_stop)(struct net_loop *loop, struct net_timer *timer);
    struct http_outbound *(*send)(struct http_client *client, struct http_origin *origin,
                                  const struct http_head *head,
                                  const struct http_timeouts *timeouts,
                                  const struct http_client_ops *ops, void *owner);
    size_t (*out_write)(struct http_outbound *out, struct slice bytes);
    void (*out_finish)(struct http_outbound *out, const struct http_field *trailers, size_t n);
    void (*out_pause)(struct http_outbound *out);
    void (*out_resume)(struct http_outbound *out);
    void (*out_cancel)(struct http_outbound *out, uint32_t code);
    bool (*limits_refused)(struct remote_port *port, const struct remote_terms *terms,
                           const struct tg_debit *what, struct tg_axes *axes);
    bool (*limits_take)(struct remote_port *port, struct remote_claim *debit,
                        const struct remote_terms *terms, const struct tg_debit *what,
                        void (*decided)(struct remote_claim *debit, enum tg_err err,
                                        const struct tg_axes *axes),
                        enum tg_err *err, struct tg_axes *axes);
    void (*limits_settle)(struct remote_claim *debit, int64_t actual);
    void (*limits_refund)(struct remote_claim *debit);
    bool (*money_take)(struct remote_port *port, struct remote_reservation *money,
                       const struct remote_terms *terms, const struct spending_call *call,
                       void (*decided)(struct remote_reservation *money, enum tg_err err,
                                       const struct tg_money_answer *answer),
                       enum tg_err *err, struct tg_money_answer *answer);
    void (*money_settle)(struct remote_reservation *money, tg_micro spent);
    bool (*key_take)(struct remote_port *port, struct remote_key_claim *key,
                     const struct remote_terms *terms, struct tg_keyring *ring, tg_key_lease lease,
                     atomic_llong *asked_at, tg_ms patience,
                     void (*decided)(struct remote_key_claim *key, enum tg_err err,
                                     const struct tg_key_hold *hold),
                     enum tg_err *err);
    void (*key_give)(struct remote_key_claim *key, struct tg_keyring *ring, tg_key_lease lease,
                     tg_ms now, const struct tg_key_report *report);
    struct remote_objects_ask *(*objects_find)(struct remote_port *port,
                                               const uint8_t (*hashes)[REMOTE_OBJECT_HASH],
                                               size_t n, struct slice tenant,
                                               const struct remote_objects_ops *ops, void *context);
    void (*objects_cancel)(struct remote_objects_ask *ask);
    void (*objects_put)(struct remote_port *port, const struct remote_object *object, bool listed,
                        tg_ms life, remote_object_refused *refused, void *context);
    void (*objects_drop)(struct remote_port *port, const struct remote_object *object);
};

extern const struct call_env call_env; /* the gateway's own: a loop, a client, Redis */

#endif
