/* remote_money_dead.c - blocks of processes that are dead for good: seen, and written off.
 *
 * What a process holds ends by its own word or that of its ledger. Where both are lost, an operator
 * has the last: its blocks are named by what this process remembers of them, so that one that has
 * spoken since is not taken for dead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/remote_store/remote_money_internal.h"

static bool money_memory_next(const char **at, struct memory_block *block)
{
    while (**at != '\0') {
        const char *line = *at, *end = strchr(line, ';');
        if (!end)
            return false;
        *at = end + 1;
        const char *space = memchr(line + 2, ' ', (size_t)(end - line - 2));
        if (line[0] != 'e' || !space ||
            sscanf(space, " %" SCNd64 " %" SCNd64, &block->number, &block->micro) != 2)
            continue;
        block->process = (struct slice){line + 2, (size_t)(space - line - 2)};
        return true;
    }
    return false;
}

void remote_money_each_block(struct remote_money *money, remote_money_block_fn *fn, void *context)
{
    struct sum *sum;

    pthread_mutex_lock(&money->lock);
    TAILQ_FOREACH(sum, &money->sums.ring, ring) {
        const char *at = sum->block.memory;
        struct memory_block block;
        while (at && money_memory_next(&at, &block))
            if (block.micro > 0)
                fn(context, sum_hash_key(sum), block.process, block.micro, block.number / 1000);
    }
    pthread_mutex_unlock(&money->lock);
}

/* The lock is held. False: there is no memory. */
static bool write_off(struct remote_money *money, struct sum *sum, const struct memory_block *dead)
{
    size_t bytes = dead->process.n + 32;
    char *text = malloc(bytes);

    if (!text)
        return false;
    snprintf(text, bytes, "w %.*s %" PRId64 " 0;", (int)dead->process.n, dead->process.at,
             dead->number);
    free(sum->block.written_off);
    sum->block.written_off = text;
    money_block_activate(money, sum);
    sum->block.retold = money->retell - 1; /* it is told with what is remembered */
    return true;
}

size_t remote_money_write_off(struct remote_money *money, struct slice process, tg_micro *micro)
{
    struct sum *sum;
    size_t n = 0;

    *micro = 0;
    pthread_mutex_lock(&money->lock);
    TAILQ_FOREACH(sum, &money->sums.ring, ring) {
        const char *at = sum->block.memory;
        struct memory_block block;
        while (at && money_memory_next(&at, &block))
            if (block.micro > 0 && slice_equal(block.process, process) &&
                write_off(money, sum, &block)) {
                *micro = num_add(*micro, block.micro);
                n++;
            }
    }
    pthread_mutex_unlock(&money->lock);
    return n;
}
