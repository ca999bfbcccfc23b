/* room_index.h - keys in the order of their room: how many have enough, and which is the n-th of
 * them.
 *
 * To draw evenly among the keys that can serve a call of so many tokens one must know how many they
 * are. Drawing from all, and again when one has too little room, takes long exactly when it
 * matters, with nearly all keys nearly full. Classes of room (powers of two) only move that to the
 * one class in which the call falls: traffic of one size leaves all full keys with the same rest,
 * in the same class as the next call. In sorted order those with enough room are simply the last
 * ones.
 *
 * The order is kept in blocks of up to 64 items, so that one that moves shifts at most a block and
 * not the row. With up to 64 keys there is one block; with a thousand, about thirty, whose sizes
 * are added up. All blocks are there from the beginning, so nothing is allocated later: two
 * neighbours always hold more than ROOM_INDEX_MERGE items, which bounds their number.
 *
 * Order: room, then number. Numbers rather than addresses, so that a run can be repeated. Not
 * synchronised.
 */
#ifndef TG_KEYPOOL_ROOM_INDEX_H
#define TG_KEYPOOL_ROOM_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROOM_INDEX_BLOCK = 64, ROOM_INDEX_MERGE = 48 };

struct room_index_item {
    int64_t room;
    uint32_t number;
};

struct room_index_head {
    struct room_index_item *items; /* a block */
    struct room_index_item last;   /* the last of it, so that most blocks need not be looked at */
    uint32_t n;
};

struct room_index {
    struct room_index_head *heads; /* those in use first; the others hold the free blocks */
    struct room_index_item *blocks;
    uint32_t n_heads;
    uint32_t n;
};

/* For at most so many items. False: no memory. */
bool room_index_init(struct room_index *room_index, size_t items);
void room_index_fini(struct room_index *room_index);

void room_index_put(struct room_index *room_index, int64_t room, uint32_t number);

/* It must be there, with this room. */
void room_index_take(struct room_index *room_index, int64_t room, uint32_t number);
void room_index_move(struct room_index *room_index, int64_t from, int64_t to, uint32_t number);

/* For tests: asserts that the row is sorted, and its blocks are as large as they should be. */
void room_index_assert_order(const struct room_index *room_index);

/* How many have at least so much room. */
uint32_t room_index_count(const struct room_index *room_index, int64_t room);

/* The number at a place, from 0, the least room first. */
uint32_t room_index_at(const struct room_index *room_index, uint32_t place);

#endif
