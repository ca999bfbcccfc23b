/* container_of.h - from a member to the struct that it is in.
 *
 * Nodes of heaps and lists, timers and requests stand inside the structs they are for; a callback
 * gets the member and wants the whole. For lists use <sys/queue.h>: LIST_ENTRY inserts and removes
 * anywhere in constant time, TAILQ_ENTRY also at the end, STAILQ_ENTRY is a queue that is only
 * removed from at its head.
 *
 *     struct call *call = container_of(debit, struct call, debit);
 *
 * The pointer's type is checked against the member's; a pointer to const gives up its const, as in
 * strchr(), since the struct was not const where it was made.
 */
#ifndef TG_CORE_CONTAINER_OF_H
#define TG_CORE_CONTAINER_OF_H

#include <stddef.h>

/* The sizeof evaluates nothing: it is there for the compiler to compare the two types. */
#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member) -                                   \
                      0 * sizeof(0 ? (pointer) : &((type *)0)->member)))

#endif
