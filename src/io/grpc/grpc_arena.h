/* grpc_arena.h - memory for one message at a time: what a codec asks for, given back all at once.
 *
 *     message = protobuf_c_message_unpack(descriptor, &arena->allocator, n, bytes);
 *     ... used ...
 *     grpc_arena_reset(arena);                     message and all its strings are gone
 *
 * A message of thirty bytes is a dozen small allocations. Here each is an addition, and after the
 * first message there is no call of malloc. `max` bounds what a message can become: two bytes on
 * the wire may stand for a struct and a list, so the size of a message does not bound it. Above
 * that there is no memory, and the codec says so.
 */
#ifndef TG_GRPC_GRPC_ARENA_H
#define TG_GRPC_GRPC_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include <protobuf-c/protobuf-c.h>

struct grpc_arena_extra;

struct grpc_arena {
    ProtobufCAllocator allocator; /* alloc and free of this; its data is the arena */
    size_t used, capacity;        /* bytes of `block` */
    size_t extra_bytes, max;
    SLIST_HEAD(, grpc_arena_extra) extra; /* blocks for what is larger, until the reset */
    char *block;                          /* stays */
};

/* False: no memory. `capacity` stays allocated; `max` is for all together. Not to be moved. */
bool grpc_arena_init(struct grpc_arena *arena, size_t capacity, size_t max);
void grpc_arena_fini(struct grpc_arena *arena);

void grpc_arena_reset(struct grpc_arena *arena);

#endif
