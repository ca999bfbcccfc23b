/* cluster_model.c - models and machines. See cluster_model.h.
 *
 * The numbers of the models are those of their published configurations, the machines' those of
 * their data sheets without sparsity; the MFUs are BLIS's. Only qwen/qwen3-14b on H100 has been
 * held against BLIS, run by run.
 */
#include "lab/cluster/cluster_model.h"

#include <strings.h>

/* name, layers, hidden, heads, kv heads, head size, ffn, vocabulary, positions, tied */
#define MODEL(n, l, d, h, kv, hs, f, v, p, t)                                                      \
    {                                                                                              \
        .name = n, .layers = l, .hidden = d, .heads = h, .kv_heads = kv, .head_size = hs,          \
        .ffn = f, .vocab = v, .positions = p, .weight_bytes = 2, .kv_bytes = 2,                    \
        .tied_embeddings = t                                                                       \
    }

static const struct cluster_model models[] = {
    MODEL("qwen/qwen3-14b", 40, 5120, 40, 8, 0, 17408, 151936, 40960, false),
    MODEL("qwen/qwen3-8b", 36, 4096, 32, 8, 0, 12288, 151936, 40960, false),
    MODEL("qwen/qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 40960, false),
    MODEL("qwen/qwen2.5-7b-instruct", 28, 3584, 28, 4, 0, 18944, 152064, 32768, false),
    MODEL("meta-llama/llama-3.1-8b-instruct", 32, 4096, 32, 8, 0, 14336, 128256, 131072, false),
    MODEL("meta-llama/llama-3.1-70b-instruct", 80, 8192, 64, 8, 0, 28672, 128256, 131072, false),
    MODEL("meta-llama/llama-2-7b-hf", 32, 4096, 32, 32, 0, 11008, 32000, 4096, false),
    MODEL("meta-llama/llama-2-70b-hf", 80, 8192, 64, 8, 0, 28672, 32000, 4096, false),
    MODEL("mistralai/mistral-nemo-instruct-2407", 40, 5120, 32, 8, 128, 14336, 131072, 131072,
          false),
    MODEL("01-ai/yi-34b", 60, 7168, 56, 8, 0, 20480, 64000, 4096, false),
};

static const struct cluster_hardware machines[] = {
    {"H100", 989.5, 1979, 3.35, 0.45, 0.30, 80},
    {"A100-SXM", 312, 0, 2.039, 0.38, 0.18, 80},
    {"A100-80", 312, 0, 2.039, 0.38, 0.18, 80},
    {"L40S", 362.05, 733, 0.864, 0.32, 0.08, 48},
};

const struct cluster_model *cluster_model_list(size_t *n)
{
    *n = sizeof models / sizeof *models;
    return models;
}

const struct cluster_hardware *cluster_hardware_list(size_t *n)
{
    *n = sizeof machines / sizeof *machines;
    return machines;
}

const struct cluster_model *cluster_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcasecmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const struct cluster_hardware *cluster_hardware_find(const char *name)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (strcasecmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}
