/* cluster_model.h - models and machines, as far as the time of a step and the KV cache need them.
 *
 * A table of those that are known by name; anything else can be filled in by hand. Dense models
 * only.
 */
#ifndef TG_CLUSTER_CLUSTER_MODEL_H
#define TG_CLUSTER_CLUSTER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster_model {
    const char *name;
    int64_t layers;
    int64_t hidden;
    int64_t heads;
    int64_t kv_heads;
    int64_t head_size; /* 0: hidden / heads */
    int64_t ffn;       /* inner width of the MLP */
    int64_t vocab;
    int64_t positions;    /* the longest sequence */
    double weight_bytes;  /* bytes per parameter: 2 for bf16 */
    double kv_bytes;      /* bytes per number in the KV cache */
    bool tied_embeddings; /* one matrix for both ends */
};

struct cluster_hardware {
    const char *name;
    double tflops;
    double tflops_fp8; /* 0: none of its own */
    double memory_tbs; /* TB/s */
    double mfu_prefill;
    double mfu_decode;
    double memory_gib;
};

/* Null: no such. Letters' case does not matter. */
const struct cluster_model *cluster_model_find(const char *name);
const struct cluster_hardware *cluster_hardware_find(const char *name);

/* The tables, for whoever lists what is allowed. */
const struct cluster_model *cluster_model_list(size_t *n);
const struct cluster_hardware *cluster_hardware_list(size_t *n);

#endif
