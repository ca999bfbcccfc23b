/* config_serve.c - what `serve` takes where a configuration is silent.
 *
 * In the library, and in a replay of a plain trace, a stage whose section is absent is off, and
 * waits are some ms: they know nothing of what is behind the gate. A gateway for language models
 * does. Its calls take seconds, so with waits of some ms nobody would ever wait, and then there
 * would be neither priority nor fairness; and a bound on all calls together keeps it from taking on
 * more than it has memory for.
 */
#include "server/config/config.h"

static void serve_waits(struct config_concurrency *concurrency)
{
    for (int i = 0; i < CONFIG_PRIORITIES; i++)
        if (concurrency->queue.wait[i] == CONFIG_WAIT_ABSENT)
            concurrency->queue.wait[i] = TG_WAIT_AUTO;
}

void config_serve_defaults(struct config *config)
{
    struct config_concurrency *gate = &config->gate.concurrency;

    gate->assumed = !gate->present;
    gate->present = true; /* with the defaults of the schema: none, at most 1024 */
    serve_waits(gate);
    for (size_t i = 0; i < config->n_models; i++)
        serve_waits(&config->models[i].concurrency);
    for (size_t i = 0; i < config->n_protect; i++)
        serve_waits(&config->protect[i].concurrency);
    for (size_t i = 0; i < config->n_callers; i++)
        serve_waits(&config->callers[i].concurrency);
}
