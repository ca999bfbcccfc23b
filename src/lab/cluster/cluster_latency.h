/* cluster_latency.h - how long an instance takes: for a step, and around it.
 *
 * Two models of a step, both of a transformer's arithmetic and its traffic to memory:
 *
 *     trained-physics   a sum of such terms with coefficients fitted to measurements
 *     roofline          the larger of computing and moving, with the machine's efficiency
 *
 * What they see of a batch are those requests that get tokens in the step. Sums are made in BLIS's
 * order: a double that is cut to whole microseconds must not differ in its last bit. The sums of
 * trained-physics are whole, so there the order does not matter.
 */
#ifndef TG_CLUSTER_CLUSTER_LATENCY_H
#define TG_CLUSTER_CLUSTER_LATENCY_H

#include "lab/cluster/cluster.h"

struct latency {
    enum cluster_latency kind;
    double alpha[3], beta[11];
    int64_t queueing_us; /* trained-physics: from arrival to the wait queue */
    int64_t token_us;    /* after every token */
    int64_t after_us;    /* after the last token */

    /* The model and the machine as doubles: */
    double layers, hidden, heads, kv_heads, head, kv_width, ffn, tp, weight_bytes, bytes;
    double flops_us, bytes_us;                       /* in one microsecond, of trained-physics */
    double flops_prefill_s, flops_decode_s, bytes_s; /* in one second, of roofline */
    double weight_us;                                /* trained-physics: to read the weights */
    double weights;                                  /* roofline: bytes of them */
};

void latency_init(struct latency *latency, const struct cluster_config *config);

/* From a request's arrival at the instance until it stands in the wait queue. */
int64_t latency_queueing(const struct latency *latency, int64_t input_tokens);

/* What a step is made of. Begin with zeros and add the prefills, then the decodes. */
struct latency_batch {
    double requests, prefill_tokens, attention; /* for trained-physics */
    double decodes, context;
    double compute_s, moved; /* for roofline */
};

/* `tokens` of a prompt of `input`, of which `progress` were there before. */
void latency_add_prefill(const struct latency *latency, struct latency_batch *batch, int64_t tokens,
                         int64_t progress, int64_t input);

/* One token after `progress`. For trained-physics it is enough to add `n` at once, by the sum of
 * what they have before. */
void latency_add_decode(const struct latency *latency, struct latency_batch *batch,
                        int64_t progress);
void latency_add_decodes(struct latency_batch *batch, int64_t n, int64_t context);

/* 1 or more. */
int64_t latency_step(const struct latency *latency, const struct latency_batch *batch);

#endif
