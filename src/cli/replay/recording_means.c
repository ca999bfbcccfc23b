/* recording_means.c - what calls of a model take on average. See recording_means.h. */
#include "cli/replay/recording_means.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "lib/core/num.h"

/* ---- learning ---- */

static struct recording_mean *mean_of(struct recording_means *means, const char *model)
{
    for (size_t i = 1; i < means->n; i++)
        if (strcmp(means->list[i].model, model) == 0)
            return &means->list[i];
    if (!array_reserve(&means->list, &means->room, means->n + 1))
        return NULL;
    means->list[means->n] = (struct recording_mean){.model = model};
    return &means->list[means->n++];
}

static void mean_add(struct recording_mean *mean, const struct recording_mean *one)
{
    mean->n += one->n;
    mean->ms += one->ms;
    mean->cost += one->cost;
    mean->used += one->used;
    mean->most += one->most;
    mean->spent += one->spent;
}

/* What one call took; n is 0 if it was not served. */
static struct recording_mean learn_call(const struct recorded_call *call)
{
    struct recording_mean one = {.n = 0};
    tg_ms began = -1;

    for (size_t i = 0; i < call->n_ops; i++) {
        const struct recorded_op *op = &call->ops[i];
        if (op->kind == RECORDED_KEY && op->came.to == RESULT_KEY && !op->hint) {
            began = op->t;
            one.model = op->model;
        } else if (op->kind == RECORDED_ADMIT && op->place == PLACE_GATE && op->cost > 0) {
            one.cost = (double)op->cost;
        } else if (op->kind == RECORDED_RESERVE && op->came.to == RESULT_RESERVED) {
            one.most = (double)op->money;
        } else if (op->kind == RECORDED_SETTLE && op->spent > 0) {
            one.spent = (double)op->spent;
        } else if (op->kind == RECORDED_RELEASE && op->place == PLACE_GATE && began >= 0) {
            one.n = op->outcome == TG_OUTCOME_OK;
            one.used = op->actual >= 0 ? (double)op->actual : one.cost;
            one.ms = (double)(op->t - began);
        }
    }
    return one;
}

bool recording_means_init(struct recording_means *means, const struct recording *recording)
{
    *means = (struct recording_means){.n = 0};
    if (!array_reserve(&means->list, &means->room, 1))
        return false;
    means->list[means->n++] = (struct recording_mean){.model = NULL};
    for (size_t i = 0; i < recording->n_calls; i++) {
        struct recording_mean one = learn_call(recording->calls[i]);
        if (one.n == 0)
            continue;
        mean_add(&means->list[0], &one);
        struct recording_mean *mean = one.model != NULL ? mean_of(means, one.model) : NULL;
        if (mean != NULL)
            mean_add(mean, &one);
    }
    return true;
}

void recording_means_fini(struct recording_means *means)
{
    free(means->list);
    *means = (struct recording_means){.n = 0};
}

/* ---- making up ---- */

/* How far it had come: stages that it has passed. */
enum passed { PASSED_CHECK, PASSED_SLOT, PASSED_GATE, PASSED_MONEY, PASSED_KEY };

static enum passed passed_by(const struct recorded_op *op)
{
    switch (op->kind) {
    case RECORDED_CHECK:
        return PASSED_CHECK;
    case RECORDED_RESERVE:
        return PASSED_MONEY;
    case RECORDED_KEY:
        return PASSED_KEY;
    default:
        return op->place == PLACE_SLOT    ? PASSED_SLOT
               : op->place == PLACE_MONEY ? PASSED_MONEY
                                          : PASSED_GATE;
    }
}

static struct recorded_op made_op(enum recorded_kind kind, enum recorded_place place, tg_ms t)
{
    return (struct recorded_op){.kind = kind,
                                .place = place,
                                .t = t,
                                .outcome = 0,
                                .cost = -1,
                                .work = -1,
                                .peek = -1,
                                .actual = -1,
                                .sample = -1,
                                .latency = -1,
                                .sent = true};
}

size_t recording_make_up(const struct recording_means *means, const struct generation *generation,
                         const struct recorded_call *call, const struct recorded_op *refused,
                         tg_ms now, struct recorded_op **made)
{
    enum { MOST = 8 };
    const struct config *config = &generation->config;
    const char *model = refused->model != NULL ? refused->model : call->model;
    size_t number = model != NULL ? config_model(config, model, strlen(model)) : CONFIG_NONE;
    const struct recording_mean *mean = &means->list[0];
    enum passed passed = passed_by(refused);
    struct recorded_op *ops = calloc(MOST, sizeof *ops);
    size_t n = 0;

    *made = ops;
    if (ops == NULL)
        return 0;
    for (size_t i = 1; model != NULL && i < means->n; i++)
        if (strcmp(means->list[i].model, model) == 0)
            mean = &means->list[i];
    double calls = mean->n > 0 ? (double)mean->n : 1;
    double ratio = mean->cost > 0 ? mean->used / mean->cost : 1;
    int64_t input = num_max(call->input_tokens, 0);
    int64_t cost = call->input_tokens >= 0 && call->max_output_tokens >= 0
                       ? num_add(input, call->max_output_tokens)
                       : num_ceil(mean->cost / calls);
    int64_t used = num_ceil((double)cost * ratio);
    tg_ms end = now + (tg_ms)(mean->ms / calls);
    tg_micro most = 0;

    if (number != CONFIG_NONE) {
        const struct tg_usage_bound bound = {.input = input,
                                             .output = num_max(call->max_output_tokens, 0)};
        most = tg_price_bound(&config->models[number].price, &bound);
    }
    bool routed = number != CONFIG_NONE;
    if (passed < PASSED_SLOT && routed) {
        ops[n] = made_op(RECORDED_ADMIT, PLACE_SLOT, now);
        ops[n].model = model;
        ops[n].work = num_max(used, 1);
        ops[n].hold = mean->ms / calls / 1000;
        ops[n++].size = input;
    }
    if (passed < PASSED_GATE) {
        ops[n] = made_op(RECORDED_ADMIT, PLACE_GATE, now);
        ops[n].cost = cost;
        ops[n].hold = mean->ms / calls / 1000;
        ops[n++].size = input;
    }
    if (passed < PASSED_MONEY && routed) {
        ops[n] = made_op(RECORDED_RESERVE, PLACE_NONE, now);
        ops[n++].money = most;
    }
    if (passed < PASSED_KEY && routed) {
        ops[n] = made_op(RECORDED_KEY, PLACE_NONE, now);
        ops[n].model = model;
        ops[n].asked = cost;
        ops[n++].tokens = used;
    }
    ops[n] = made_op(RECORDED_KEY_END, PLACE_NONE, end);
    ops[n++].tokens = used;
    ops[n] = made_op(RECORDED_SETTLE, PLACE_NONE, end);
    ops[n++].spent = mean->most > 0 ? (int64_t)((double)most * mean->spent / mean->most) : 0;
    ops[n] = made_op(RECORDED_RELEASE, PLACE_SLOT, end);
    ops[n++].work = used;
    ops[n] = made_op(RECORDED_RELEASE, PLACE_GATE, end);
    ops[n++].actual = used;
    return n;
}
