/* keyed.h - stores, sets of limits and debits, short.
 *
 * Functions that begin with must_ fail the test if the store answers with an error.
 */
#ifndef KEYED_H
#define KEYED_H

#include "check.h"

/* A store of so many bytes and shards. */
struct tg_store *must_store(size_t memory_bytes, uint32_t shards);

/* One limit, and sets of one and of many. */
struct tg_limit limit_on(enum tg_axis axis, const char *spec);
tg_limits must_define(struct tg_store *store, const struct tg_limit *limits, size_t n);
tg_limits must_define_one(struct tg_store *store, enum tg_axis axis, const char *spec);

/* A scope whose key is a string. */
struct tg_scope scope_of(tg_limits limits, const char *key);

/* What a call with one scope asks for. The scope must outlive the debit. */
struct tg_debit debit_of(const struct tg_scope *scope, int64_t cost);

/* Calls with one scope. */
struct tg_decision must_take(struct tg_store *store, tg_limits limits, const char *key,
                             int64_t cost, tg_ms now);
struct tg_decision must_peek(struct tg_store *store, tg_limits limits, const char *key,
                             int64_t cost, tg_ms now);
void must_refund(struct tg_store *store, tg_limits limits, const char *key, int64_t cost, tg_ms now,
                 tg_ms charged_at);
void must_settle(struct tg_store *store, tg_limits limits, const char *key, int64_t cost, tg_ms now,
                 tg_ms charged_at, int64_t actual);

/* The same for keys that are numbers: "k000...0042", 32 bytes long. */
enum { NUMBERED_KEY_BYTES = 32 };

struct numbered_key {
    char text[NUMBERED_KEY_BYTES + 1];
};

struct numbered_key numbered_key(uint64_t number);
enum tg_err take_numbered(struct tg_store *store, tg_limits limits, uint64_t number, int64_t cost,
                          tg_ms now, struct tg_decision *decision);

struct tg_store_stats stats_of(struct tg_store *store);

#endif /* KEYED_H */
