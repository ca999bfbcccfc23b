/* remote_money_args.c - numbers to text for scripts, and their replies to numbers. */
#include "server/remote_store/remote_money_args.h"

#include <assert.h>

void money_args_number(struct money_args *args, int64_t number)
{
    assert(args->used + ARGS_DIGITS <= sizeof args->text);
    char *end = args->text + args->used + ARGS_DIGITS, *at = end;
    uint64_t rest = (uint64_t)(number < 0 ? -number : number);

    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--at = '-';
    args->used += ARGS_DIGITS;
    money_args_text(args, at, (size_t)(end - at));
}

bool money_args_read(const struct redisReply *reply, size_t n, int64_t *numbers)
{
    if (redis_reply_is_error(reply) || redis_reply_n(reply) < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        numbers[i] = redis_reply_integer(redis_reply_at(reply, i), -3);
        if (numbers[i] < (i == 0 ? -2 : 0) || numbers[i] > TG_NUMBER_MAX)
            return false;
    }
    return true;
}
