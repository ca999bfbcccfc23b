/* cluster_latency.c - how long an instance takes. See cluster_latency.h.
 *
 * The formulas are BLIS's, for dense models without data parallelism. In trained-physics a chunk
 * of a prompt is charged with attention over the whole prompt, however much of it is there yet:
 * that is how the coefficients were fitted.
 */
#include "lab/cluster/cluster_latency.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define KV_ELEMENT_BYTES 2.0

/* Fitted once, for all models and machines. */
static const double trained_alpha[3] = {15563.199579, 777.3455, 45.907545};
static const double trained_beta[11] = {0.152128,    0,          1.36252915, 0.752037,
                                        32.09546717, 4.41684444, 126.024825, 481.8613888,
                                        0,           1.94710771, 0.752037};

/* Towards zero; what an int64_t cannot hold becomes its largest. */
static int64_t whole_us(double us)
{
    if (!(us > 0))
        return 0;
    return us < 9e18 ? (int64_t)us : INT64_MAX;
}

static void set_coefficients(struct latency *latency, const struct cluster_config *config)
{
    bool trained = config->latency == CLUSTER_TRAINED_PHYSICS;

    if (config->own_coefficients) {
        memcpy(latency->alpha, config->alpha, sizeof latency->alpha);
        memcpy(latency->beta, config->beta, sizeof latency->beta);
    } else if (trained) {
        memcpy(latency->alpha, trained_alpha, sizeof latency->alpha);
        memcpy(latency->beta, trained_beta, sizeof latency->beta);
    }
    latency->queueing_us = trained ? whole_us(latency->alpha[0]) : 0;
    latency->after_us = trained ? whole_us(latency->alpha[1]) : 0;
    latency->token_us = whole_us(latency->alpha[2]);
}

/* What does not change from step to step. */
static void set_weights(struct latency *latency)
{
    double l = latency->layers, d = latency->hidden, kv = latency->kv_width, f = latency->ffn;
    double attention = l * d * (2 * d + 2 * kv) * latency->weight_bytes / latency->tp;
    double mlp = l * 1 * 3 * d * f * latency->weight_bytes / latency->tp;

    latency->weight_us = (attention + mlp) / latency->bytes_us;
    latency->weights = ((d * (d + 2 * kv) + d * d) * l + 2 * d * f * l) * latency->weight_bytes;
}

void latency_init(struct latency *latency, const struct cluster_config *config)
{
    const struct cluster_model *model = &config->model;
    const struct cluster_hardware *machine = &config->hardware;
    bool fp8 = model->weight_bytes == 1 && machine->tflops_fp8 > 0;
    double tflops = fp8 ? machine->tflops_fp8 : machine->tflops;

    *latency = (struct latency){.kind = config->latency};
    set_coefficients(latency, config);
    latency->layers = (double)model->layers;
    latency->hidden = (double)model->hidden;
    latency->heads = (double)model->heads;
    latency->kv_heads = (double)(model->kv_heads > 0 ? model->kv_heads : model->heads);
    latency->head = (double)(model->hidden / model->heads);
    latency->kv_width = latency->kv_heads * latency->head;
    latency->ffn = (double)model->ffn;
    latency->tp = (double)config->tensor_parallel;
    latency->weight_bytes = model->weight_bytes;
    latency->bytes = model->kv_bytes;
    latency->flops_us = tflops * 1e6;
    latency->bytes_us = machine->memory_tbs * 1e6;
    latency->flops_prefill_s = tflops * 1e12 * machine->mfu_prefill;
    latency->flops_decode_s = tflops * 1e12 * machine->mfu_decode;
    latency->bytes_s = machine->memory_tbs * 1e12;
    set_weights(latency);
}

int64_t latency_queueing(const struct latency *latency, int64_t input_tokens)
{
    if (latency->kind == CLUSTER_TRAINED_PHYSICS)
        return latency->queueing_us;
    return whole_us(latency->alpha[0] + latency->alpha[1] * (double)input_tokens);
}

/* ---- Roofline -------------------------------------------------------------------------------- */

static double flops_of(const struct latency *latency, double tokens, double context)
{
    double l = latency->layers, d = latency->hidden, h = latency->heads, head = d / h;
    double kv = latency->kv_heads * head;
    double seen = tokens > 1 ? context + (tokens - 1) / 2.0 : context;
    double matrices = (2 * tokens * (d * d + 2 * d * kv) + 2 * tokens * d * d) * l;
    double vectors = (5 * h * tokens * seen + 2 * tokens * d) * l;

    matrices += 4 * h * tokens * seen * head * l;
    matrices += 2 * tokens * (2 * d * latency->ffn) * l;
    return matrices + vectors;
}

static void add_roofline(const struct latency *latency, struct latency_batch *batch,
                         int64_t new_tokens, int64_t progress, double flops_s)
{
    double tokens = (double)new_tokens, context = (double)progress;
    double token_bytes = 2 * latency->layers * latency->kv_heads *
                         (latency->hidden / latency->heads) * latency->bytes;
    double moved = latency->weights + token_bytes * tokens + token_bytes * context +
                   latency->layers * latency->hidden * latency->bytes * tokens;

    batch->compute_s += flops_of(latency, tokens, context) / latency->tp / flops_s;
    batch->moved += (moved - latency->weights) / latency->tp;
}

static int64_t roofline_step(const struct latency *latency, const struct latency_batch *batch)
{
    double moving_s = (latency->weights / latency->tp + batch->moved) / latency->bytes_s;
    double us = fmax(batch->compute_s, moving_s) * 1e6;

    return batch->requests > 0 ? whole_us(us) : 0;
}

/* ---- Trained physics ------------------------------------------------------------------------- */

/* To exchange what `tokens` have computed among the parts of a model that is split. */
static double exchange_us(const struct latency *latency, double tokens)
{
    double tp = latency->tp;
    double once = latency->layers * tokens * latency->hidden * latency->bytes * 2.0 *
                  ((tp - 1) / tp) / latency->bytes_us;

    return tp > 1 ? once + once : 0;
}

/* Matrices and MLP over so many tokens, and `attention` on top. */
static double compute_us(const struct latency *latency, double tokens, double attention)
{
    double l = latency->layers, d = latency->hidden, kv = latency->kv_width, tp = latency->tp;
    double projections = l * 2 * tokens * d * (2 * d + 2 * kv) / tp;
    double mlp = l * tokens * 1 * 6 * d * latency->ffn / tp;

    return (projections + attention + mlp) / latency->flops_us;
}

static double prefill_us(const struct latency *latency, const struct latency_batch *batch)
{
    double p = batch->prefill_tokens;
    double written = latency->layers * 2 * (latency->kv_width / latency->tp) * p * KV_ELEMENT_BYTES;

    if (!(p > 0))
        return 0;
    return latency->beta[0] * compute_us(latency, p, latency->layers * batch->attention) +
           latency->beta[8] * (written / latency->bytes_us);
}

static double decode_us(const struct latency *latency, const struct latency_batch *batch)
{
    double l = latency->layers, n = batch->decodes, ctx = batch->context;
    double attention = l * 4 * (latency->heads / latency->tp) * ctx * latency->head;
    double read = l * 2 * (latency->kv_width / latency->tp) * KV_ELEMENT_BYTES * (ctx + n);

    if (!(n > 0))
        return 0;
    return latency->beta[1] * compute_us(latency, n, attention) +
           latency->beta[9] * (read / latency->bytes_us);
}

static int64_t trained_step(const struct latency *latency, const struct latency_batch *batch)
{
    const double *beta = latency->beta;
    double tokens = batch->prefill_tokens + batch->decodes;
    double us = prefill_us(latency, batch) + decode_us(latency, batch) +
                beta[2] * latency->weight_us + beta[3] * exchange_us(latency, tokens) +
                beta[4] * latency->layers + beta[5] * batch->requests + beta[6];

    return batch->requests > 0 ? whole_us(us) : 0;
}

/* ---- Both ------------------------------------------------------------------------------------ */

void latency_add_prefill(const struct latency *latency, struct latency_batch *batch, int64_t tokens,
                         int64_t progress, int64_t input)
{
    double t = (double)tokens, s = (double)input;

    batch->requests++;
    if (latency->kind == CLUSTER_ROOFLINE) {
        add_roofline(latency, batch, tokens, progress, latency->flops_prefill_s);
        return;
    }
    batch->prefill_tokens += t;
    batch->attention += 4 * (latency->heads / latency->tp) * t * (s + t / 2) * latency->head;
}

void latency_add_decode(const struct latency *latency, struct latency_batch *batch,
                        int64_t progress)
{
    batch->requests++;
    add_roofline(latency, batch, 1, progress, latency->flops_decode_s);
}

void latency_add_decodes(struct latency_batch *batch, int64_t n, int64_t context)
{
    batch->requests += (double)n;
    batch->decodes += (double)n;
    batch->context += (double)context;
}

int64_t latency_step(const struct latency *latency, const struct latency_batch *batch)
{
    int64_t us = latency->kind == CLUSTER_ROOFLINE ? roofline_step(latency, batch)
                                                   : trained_step(latency, batch);

    assert(batch->requests >= 0 && us >= 0);
    return us > 1 ? us : 1;
}
