/* estimate.c - how many tokens a call may take, before anybody has counted them.
 *
 * A tokenizer of our own would be wrong for every model but one, and slow. Bytes over a divisor are
 * off by some tens of percent, the same way for the same kind of text; the overbook factor learns
 * that from what calls turn out to use, and what is charged is settled.
 */
#include "server/dialect/estimate.h"

#include <assert.h>

#include "lib/core/num.h"

void estimate_rule_init(struct estimate_rule *rule)
{
    *rule = (struct estimate_rule){.bytes_per_token = 4, .image = 1500};
}

static int64_t within(int64_t count)
{
    return num_max(0, num_min(count, TG_NUMBER_MAX));
}

int64_t estimate_text(int64_t bytes, const struct estimate_rule *rule)
{
    double divisor = rule->bytes_per_token > 0 ? rule->bytes_per_token : 4;

    return num_ceil((double)within(bytes) / divisor);
}

int64_t estimate_prompt(const struct ask *ask, const struct estimate_rule *rule)
{
    int64_t media = num_add(within(ask->images), within(ask->audios));
    int64_t files = num_times(within(ask->files), within(rule->image));
    int64_t tokens = estimate_text(ask->text_bytes, rule);

    tokens = num_add(tokens, within(ask->token_ids));
    tokens = num_add(tokens, num_times(within(ask->messages), ESTIMATE_MESSAGE_TOKENS));
    tokens = num_add(tokens, num_max(files, within(ask->file_bytes) / ESTIMATE_FILE_BYTES));
    return num_add(tokens, num_times(media, within(rule->image)));
}

bool estimate_has_output(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_CHAT || endpoint == ENDPOINT_COMPLETIONS ||
           endpoint == ENDPOINT_RESPONSES || endpoint == ENDPOINT_MESSAGES;
}

int64_t estimate_output(const struct ask *ask, int64_t assumed)
{
    if (!estimate_has_output(ask->endpoint))
        return 0;
    return num_times(num_times(within(ask->max_output >= 0 ? ask->max_output : assumed),
                               num_max(1, within(ask->choices))),
                     num_max(1, within(ask->prompts)));
}
