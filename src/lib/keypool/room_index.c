/* room_index.c - a sorted row in blocks. See room_index.h. */
#include "lib/keypool/room_index.h"

#include <assert.h>
#include <string.h>

#include "lib/core/allocator.h"

enum { FEW = 16 };

/* Two neighbours hold more than ROOM_INDEX_MERGE; one more block is needed while one is split. */
static size_t blocks_for(size_t items)
{
    return items <= ROOM_INDEX_BLOCK ? 1 : items / (ROOM_INDEX_MERGE / 2) + 3;
}

bool room_index_init(struct room_index *room_index, size_t items)
{
    size_t n = blocks_for(items), block = items < ROOM_INDEX_BLOCK ? items : ROOM_INDEX_BLOCK;

    *room_index =
        (struct room_index){.heads = mem_calloc(n, sizeof *room_index->heads),
                            .blocks = mem_calloc(n * block + 1, sizeof *room_index->blocks)};
    if (!room_index->heads || !room_index->blocks) {
        room_index_fini(room_index);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        room_index->heads[i].items = room_index->blocks + i * block;
    return true;
}

void room_index_fini(struct room_index *room_index)
{
    mem_free(room_index->heads);
    mem_free(room_index->blocks);
    *room_index = (struct room_index){0};
}

/* Without a branch, which could not be foreseen. */
static bool before(const struct room_index_item *item, int64_t room, uint32_t number)
{
    return (item->room < room) | ((item->room == room) & (item->number < number));
}

/* The first block whose last item is not before this one; the last block if there is none. There
 * is a block. */
static uint32_t block_of(const struct room_index *room_index, int64_t room, uint32_t number)
{
    uint32_t low = 0, high = room_index->n_heads - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (before(&room_index->heads[middle].last, room, number))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first place in a block whose item is not before this one. */
static uint32_t place_in(const struct room_index_head *head, int64_t room, uint32_t number)
{
    const struct room_index_item *from = head->items;
    uint32_t n = head->n;

    while (n > 1) {
        uint32_t half = n / 2;
        from += before(&from[half - 1], room, number) ? half : 0;
        n -= half;
    }
    return (uint32_t)(from - head->items) + (n == 1 && before(from, room, number));
}

/* The place of an item that is there. Among few, looking at each is quicker. */
static uint32_t room_index_place_of(const struct room_index_head *head, int64_t room,
                                    uint32_t number)
{
    uint32_t place = 0;

    if (head->n > FEW)
        return place_in(head, room, number);
    while (head->items[place].number != number) {
        place++;
        assert(place < head->n);
    }
    return place;
}

static void note_last(struct room_index_head *head)
{
    if (head->n > 0)
        head->last = head->items[head->n - 1];
}

/* Takes a block out of the row, to the free ones. */
static void drop_head(struct room_index *room_index, uint32_t b)
{
    struct room_index_head head = room_index->heads[b];

    memmove(&room_index->heads[b], &room_index->heads[b + 1],
            (room_index->n_heads - b - 1) * sizeof head);
    head.n = 0;
    room_index->heads[--room_index->n_heads] = head;
}

/* Makes one block of b and the one after it, if they are small. */
static bool merge(struct room_index *room_index, uint32_t b)
{
    if (b + 1 >= room_index->n_heads)
        return false;
    struct room_index_head *head = &room_index->heads[b], *next = head + 1;
    if (head->n + next->n > ROOM_INDEX_MERGE)
        return false;
    memcpy(head->items + head->n, next->items, next->n * sizeof *head->items);
    head->n += next->n;
    note_last(head);
    drop_head(room_index, b + 1);
    return true;
}

/* A full block becomes two. Each of them may then be small enough for its other neighbour. */
static void split(struct room_index *room_index, uint32_t b)
{
    struct room_index_head fresh = room_index->heads[room_index->n_heads],
                           *head = &room_index->heads[b];

    memmove(head + 2, head + 1, (room_index->n_heads - b - 1) * sizeof fresh);
    room_index->n_heads++;
    fresh.n = head->n / 2;
    head->n -= fresh.n;
    memcpy(fresh.items, head->items + head->n, fresh.n * sizeof *fresh.items);
    head[1] = fresh;
    note_last(head);
    note_last(head + 1);
    (void)merge(room_index, b + 1);
    if (b > 0)
        (void)merge(room_index, b - 1);
}

void room_index_put(struct room_index *room_index, int64_t room, uint32_t number)
{
    if (room_index->n_heads == 0)
        room_index->n_heads = 1;
    uint32_t b = block_of(room_index, room, number);
    if (room_index->heads[b].n == ROOM_INDEX_BLOCK) {
        split(room_index, b);
        b = block_of(room_index, room, number);
    }
    struct room_index_head *head = &room_index->heads[b];
    assert(head->n < ROOM_INDEX_BLOCK);
    uint32_t place = place_in(head, room, number);
    struct room_index_item *item = &head->items[place];
    memmove(item + 1, item, (head->n - place) * sizeof *item);
    *item = (struct room_index_item){room, number};
    head->n++;
    note_last(head);
    room_index->n++;
}

static void take_at(struct room_index *room_index, uint32_t b, uint32_t place)
{
    struct room_index_head *head = &room_index->heads[b];
    struct room_index_item *item = &head->items[place];

    assert(b < room_index->n_heads && place < head->n && room_index->n > 0);
    memmove(item, item + 1, (head->n - place - 1) * sizeof *item);
    head->n--;
    room_index->n--;
    note_last(head);
    if (head->n == 0)
        drop_head(room_index, b);
    else if (!merge(room_index, b) && b > 0)
        (void)merge(room_index, b - 1);
}

void room_index_take(struct room_index *room_index, int64_t room, uint32_t number)
{
    uint32_t b = block_of(room_index, room, number);

    assert(room_index->n_heads > 0 && room >= 0);
    take_at(room_index, b, place_in(&room_index->heads[b], room, number));
}

/* Whether an item belongs in this block, wherever there. */
static bool belongs(const struct room_index *room_index, uint32_t b, int64_t room, uint32_t number)
{
    const struct room_index_head *head = &room_index->heads[b];

    return (b == 0 || before(&head->items[0], room, number)) &&
           (b + 1 == room_index->n_heads || !before(&head->last, room, number));
}

/* Shifts what is between the old place and the new one; that is seldom far. */
static void move_within(struct room_index_head *head, uint32_t place, int64_t to, uint32_t number)
{
    struct room_index_item *items = head->items;

    for (; place + 1 < head->n && before(&items[place + 1], to, number); place++)
        items[place] = items[place + 1];
    for (; place > 0 && !before(&items[place - 1], to, number); place--)
        items[place] = items[place - 1];
    items[place] = (struct room_index_item){to, number};
    note_last(head);
}

void room_index_move(struct room_index *room_index, int64_t from, int64_t to, uint32_t number)
{
    uint32_t b = block_of(room_index, from, number);
    uint32_t place = room_index_place_of(&room_index->heads[b], from, number);

    assert(room_index->heads[b].items[place].room == from);
    assert(room_index->heads[b].items[place].number == number);
    if (belongs(room_index, b, to, number)) {
        move_within(&room_index->heads[b], place, to, number);
        return;
    }
    take_at(room_index, b, place);
    room_index_put(room_index, to, number);
}

void room_index_assert_order(const struct room_index *room_index)
{
    const struct room_index_item *last = NULL;
    uint32_t n = 0;

    for (uint32_t b = 0; b < room_index->n_heads; b++) {
        const struct room_index_head *head = &room_index->heads[b];

        assert(head->n > 0 && head->n <= ROOM_INDEX_BLOCK);
        assert(b == 0 || room_index->heads[b - 1].n + head->n > ROOM_INDEX_MERGE);
        for (uint32_t i = 0; i < head->n; last = &head->items[i++])
            assert(!last || before(last, head->items[i].room, head->items[i].number));
        assert(head->last.room == last->room && head->last.number == last->number);
        n += head->n;
    }
    assert(n == room_index->n);
    (void)last, (void)n;
}

uint32_t room_index_count(const struct room_index *room_index, int64_t room)
{
    uint32_t n = 0, b = room_index->n_heads;

    if (b == 0 || room_index->heads[0].items[0].room >= room)
        return room_index->n;
    /* From the end, since those with room are few when time matters. */
    for (; b > 1 && room_index->heads[b - 2].last.room >= room; b--)
        n += room_index->heads[b - 1].n;
    return n + room_index->heads[b - 1].n - place_in(&room_index->heads[b - 1], room, 0);
}

uint32_t room_index_at(const struct room_index *room_index, uint32_t place)
{
    assert(place < room_index->n);
    const struct room_index_head *head = room_index->heads;
    uint32_t from_end = room_index->n - 1 - place;

    if (from_end < place) {
        for (head += room_index->n_heads - 1; from_end >= head->n; head--)
            from_end -= head->n;
        return head->items[head->n - 1 - from_end].number;
    }
    for (; place >= head->n; head++)
        place -= head->n;
    return head->items[place].number;
}
