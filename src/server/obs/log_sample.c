/* log_sample.c - when many are refused, a line stands for several. See log_sample.h. */
#include "server/obs/log_sample.h"

#include <assert.h>
#include <string.h>

static struct log_sample *log_sample_find(struct log_sampler *sampler, const char *reason)
{
    struct log_sample *last = &sampler->of[LOG_SAMPLE_REASONS - 1];

    for (struct log_sample *at = sampler->of; at < last; at++) {
        if (at->reason == NULL)
            at->reason = reason;
        if (at->reason == reason || strcmp(at->reason, reason) == 0)
            return at;
    }
    last->reason = "other";
    return last;
}

uint64_t log_sampler_take(struct log_sampler *sampler, const char *reason, tg_ms now)
{
    struct log_sample *sample = log_sample_find(sampler, reason);
    uint64_t stands_for = sample->left_out + 1;

    if (sample->second != now / 1000) {
        sample->second = now / 1000;
        sample->n = 0;
    }
    sample->n++;
    if (sample->n > LOG_SAMPLE_FIRST && stands_for < LOG_SAMPLE_EACH) {
        sample->left_out++;
        return 0;
    }
    assert(stands_for >= 1 && stands_for <= LOG_SAMPLE_EACH);
    sample->left_out = 0;
    return stands_for;
}

bool log_sampler_left(const struct log_sampler *sampler, size_t *i, const char **reason,
                      uint64_t *left_out)
{
    for (; *i < LOG_SAMPLE_REASONS; ++*i)
        if (sampler->of[*i].left_out > 0) {
            *reason = sampler->of[*i].reason;
            *left_out = sampler->of[(*i)++].left_out;
            return true;
        }
    return false;
}
