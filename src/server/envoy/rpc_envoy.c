/* rpc_envoy.c - Envoy's rate limit service over gRPC: messages of rls.proto to structs of
 * envoy_rls.h, and back.
 *
 * A question may have to wait for its store, and its texts must stay until then: they are copied,
 * once, into one block that is freed after the answer.
 */
#include <assert.h>
#include <envoy/service/ratelimit/v3/rls.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "server/envoy/envoy_rls_internal.h"
#include "server/envoy/envoy_rls_metadata.h"
#include "server/runtime/rpc.h"

typedef Envoy__Service__Ratelimit__V3__RateLimitRequest rls_request;
typedef Envoy__Service__Ratelimit__V3__RateLimitDescriptor rls_descriptor;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse rls_response;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit rls_limit;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus rls_status;
typedef Envoy__Service__Ratelimit__V3__Duration rls_duration;
typedef Envoy__Service__Ratelimit__V3__HeaderValue rls_header;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__Code rls_code;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit__Unit rls_unit;
#define RLS(name) envoy__service__ratelimit__v3__##name

/* ---- the question ---- */

struct question {
    struct envoy_rls_request request;
    struct envoy_rls_descriptor *descriptors;
    struct envoy_rls_entry *entries;
    char *text; /* the rest of the block that is not used yet */
};

struct asking {
    struct question *question; /* null: it has been answered */
    struct envoy_rls_pending *pending;
};

_Static_assert(sizeof(struct asking) <= GRPC_STATE_BYTES, "it is the state of a call");

static struct asking *asking_of(struct grpc_call *call)
{
    return (struct asking *)(void *)call->state;
}

static struct slice copy(struct question *question, const char *text)
{
    struct slice copied = {question->text, strlen(text)};

    memcpy(question->text, text, copied.n);
    question->text += copied.n;
    return copied;
}

/* One block: the struct, descriptors, entries, text. A message bounds it: see GRPC_MESSAGE_MAX. */
static struct question *new_question(const rls_request *from)
{
    size_t n_entries = 0, n_text = strlen(from->domain);

    for (size_t i = 0; i < from->n_descriptors; i++) {
        const rls_descriptor *descriptor = from->descriptors[i];
        n_entries += descriptor->n_entries;
        for (size_t k = 0; k < descriptor->n_entries; k++)
            n_text += strlen(descriptor->entries[k]->key) + strlen(descriptor->entries[k]->value);
    }
    struct question *question =
        malloc(sizeof *question + from->n_descriptors * sizeof *question->descriptors +
               n_entries * sizeof *question->entries + n_text);
    if (question == NULL)
        return NULL;
    question->descriptors = (struct envoy_rls_descriptor *)(void *)(question + 1);
    question->entries =
        (struct envoy_rls_entry *)(void *)(question->descriptors + from->n_descriptors);
    question->text = (char *)(question->entries + n_entries);
    return question;
}

static void read_descriptor(struct question *question, const rls_descriptor *from,
                            struct envoy_rls_descriptor *to)
{
    *to = (struct envoy_rls_descriptor){.entries = question->entries, .n_entries = from->n_entries};
    for (size_t i = 0; i < from->n_entries; i++) {
        question->entries->key = copy(question, from->entries[i]->key);
        question->entries->value = copy(question, from->entries[i]->value);
        question->entries++;
    }
    to->has_hits = from->hits_addend != NULL;
    to->hits = to->has_hits ? from->hits_addend->value : 0;
    to->has_limit = from->limit != NULL;
    to->requests_per_unit = to->has_limit ? from->limit->requests_per_unit : 0;
    to->unit = to->has_limit ? from->limit->unit : 0;
    if (to->has_limit && from->limit->unit_multiplier != NULL)
        to->unit_multiplier = from->limit->unit_multiplier->value;
    to->negative = from->is_negative_hits;
}

static struct question *read_question(const rls_request *from)
{
    struct question *question = new_question(from);

    if (question == NULL)
        return NULL;
    question->request = (struct envoy_rls_request){.domain = copy(question, from->domain),
                                                   .descriptors = question->descriptors,
                                                   .n_descriptors = from->n_descriptors,
                                                   .hits = from->hits_addend};
    for (size_t i = 0; i < from->n_descriptors; i++)
        read_descriptor(question, from->descriptors[i], &question->descriptors[i]);
    /* The entries end where the texts began: every one that was counted has been read. */
    assert((char *)question->entries == question->request.domain.at);
    return question;
}

/* ---- the answer ---- */

/* A message and all that it points to. Names of rules and headers are slices; a message needs them
 * with a zero at their end. */
struct answer {
    rls_response message;
    rls_status statuses[ENVOY_RLS_DESCRIPTORS_MAX], *status_list[ENVOY_RLS_DESCRIPTORS_MAX];
    rls_limit limits[ENVOY_RLS_DESCRIPTORS_MAX];
    rls_duration durations[ENVOY_RLS_DESCRIPTORS_MAX];
    rls_header headers[ENVOY_RLS_HEADERS_MAX], *header_list[ENVOY_RLS_HEADERS_MAX];
    size_t used;
    char text[8 << 10];
};

/* "" where there is no room: a name is only for people. */
static char *end_with_zero(struct answer *answer, struct slice text)
{
    char *at = answer->text + answer->used;

    if (text.n == 0 || text.n >= sizeof answer->text - answer->used)
        return (char *)(uintptr_t) "";
    memcpy(at, text.at, text.n);
    at[text.n] = '\0';
    answer->used += text.n + 1;
    return at;
}

static void write_limit(struct answer *answer, const struct envoy_rls_status *from, size_t i)
{
    rls_limit *limit = &answer->limits[i];
    rls_duration *duration = &answer->durations[i];

    RLS(rate_limit_response__rate_limit__init)(limit);
    limit->requests_per_unit = from->requests_per_unit;
    limit->unit = (rls_unit)from->unit;
    limit->name = end_with_zero(answer, from->name);
    RLS(duration__init)(duration);
    duration->seconds = from->until_reset / 1000;
    duration->nanos = (int32_t)(from->until_reset % 1000) * 1000000;
    answer->statuses[i].current_limit = limit;
    answer->statuses[i].duration_until_reset = duration;
}

static void write_answer(const struct envoy_rls_reply *reply, struct answer *answer)
{
    RLS(rate_limit_response__init)(&answer->message);
    answer->used = 0;
    answer->message.overall_code = (rls_code)reply->overall;
    answer->message.statuses = answer->status_list;
    answer->message.n_statuses = reply->n_statuses;
    for (size_t i = 0; i < reply->n_statuses; i++) {
        rls_status *status = &answer->statuses[i];
        RLS(rate_limit_response__descriptor_status__init)(status);
        status->code = (rls_code)reply->statuses[i].code;
        status->limit_remaining = reply->statuses[i].limit_remaining;
        if (reply->statuses[i].has_limit)
            write_limit(answer, &reply->statuses[i], i);
        answer->status_list[i] = status;
    }
    answer->message.response_headers_to_add = answer->header_list;
    answer->message.n_response_headers_to_add = reply->n_headers;
    for (size_t i = 0; i < reply->n_headers; i++) {
        RLS(header_value__init)(&answer->headers[i]);
        answer->headers[i].key = end_with_zero(answer, reply->headers[i].name);
        answer->headers[i].value = end_with_zero(answer, reply->headers[i].value);
        answer->header_list[i] = &answer->headers[i];
    }
}

static void answer_call(struct grpc_call *call, const struct envoy_rls_reply *reply)
{
    struct arena *arena = reply->metadata != NULL ? arena_new() : NULL;
    struct answer answer;

    write_answer(reply, &answer);
    if (arena != NULL)
        answer.message.dynamic_metadata = envoy_metadata_make(arena, reply);
    grpc_reply(call, &answer.message.base);
    arena_free(arena);
}

static void rpc_envoy_decided(void *context, const struct envoy_rls_reply *reply)
{
    struct grpc_call *call = context;
    struct asking *asking = asking_of(call);
    struct question *question = asking->question; /* the metadata describe it */

    assert(question != NULL);
    *asking = (struct asking){0};
    if (reply->result == ENVOY_RLS_DECIDED)
        answer_call(call, reply);
    else
        grpc_finish(call,
                    reply->result == ENVOY_RLS_INVALID ? GRPC_INVALID_ARGUMENT : GRPC_UNAVAILABLE,
                    reply->message);
    free(question);
}

/* ---- the method ---- */

static void rpc_envoy_begin(struct grpc_call *call)
{
    if (!envoy_rls_may_ask(rpc_worker(call), &call->in->head))
        grpc_finish(call, GRPC_UNAUTHENTICATED,
                    "envoy_rls.auth is callers: send authorization: Bearer TOKEN of one");
}

static void rpc_envoy_ask(struct grpc_call *call, const ProtobufCMessage *message)
{
    struct asking *asking = asking_of(call);

    assert(asking->question == NULL && asking->pending == NULL);
    asking->question = read_question((const void *)message);
    if (asking->question == NULL) {
        grpc_finish(call, GRPC_UNAVAILABLE, "there is no memory for a question");
        return;
    }
    struct envoy_rls_pending *pending =
        envoy_rls_decide(rpc_worker(call), &asking->question->request, rpc_envoy_decided, call);
    asking->pending = pending;
}

static void rpc_envoy_cancel(struct grpc_call *call)
{
    struct asking *asking = asking_of(call);

    if (asking->pending != NULL)
        envoy_rls_cancel(asking->pending);
    free(asking->question);
    *asking = (struct asking){0};
}

static const struct grpc_method METHODS[] = {
    {.name = "ShouldRateLimit",
     .request = &envoy__service__ratelimit__v3__rate_limit_request__descriptor,
     .begin = rpc_envoy_begin,
     .message = rpc_envoy_ask,
     .cancel = rpc_envoy_cancel},
};

const struct grpc_service rpc_envoy = {"envoy.service.ratelimit.v3.RateLimitService", METHODS,
                                       sizeof METHODS / sizeof METHODS[0]};
