/* remote_money_args.h - the keys and arguments of a script about money, as text. Private to
 * remote_money*.c. */
#ifndef TG_REMOTE_STORE_REMOTE_MONEY_ARGS_H
#define TG_REMOTE_STORE_REMOTE_MONEY_ARGS_H

#include "server/remote_store/remote_money_internal.h"

/* The longest script takes so many: money_reserve.lua, or money_block.lua. */
enum {
    ARGS_MAX = 7 + 5 * MONEY_WINDOWS_MAX,
    ARGS_OF_BLOCKS = 6 + 13 * BLOCK_WINDOWS_MAX,
    ARGS_DIGITS = 20,
};

_Static_assert((int)ARGS_MAX >= (int)ARGS_OF_BLOCKS, "all of them have room");

struct money_args {
    size_t n_keys, n, used;
    struct slice keys[2 * MONEY_WINDOWS_MAX];
    struct slice list[ARGS_MAX];
    char text[ARGS_MAX * ARGS_DIGITS];
};

static inline void money_args_init(struct money_args *args)
{
    args->n_keys = args->n = args->used = 0;
}

static inline void money_args_text(struct money_args *args, const char *text, size_t n)
{
    args->list[args->n++] = (struct slice){text, n};
}

/* From -1 to TG_NUMBER_MAX. */
void money_args_number(struct money_args *args, int64_t number);

/* Hash and set of a window. */
static inline void money_args_window(struct money_args *args, const struct sum *sum)
{
    args->keys[args->n_keys++] = sum_hash_key(sum);
    args->keys[args->n_keys++] = sum_set_key(sum);
}

/* The whole numbers of a reply, n of them at least: a verdict that may be -1 or -2, and others that
 * may not be negative. False: it is no such reply. */
bool money_args_read(const struct redisReply *reply, size_t n, int64_t *numbers);

#endif
