/* shelf.c - a sorted row in blocks. See shelf.h. */
#include "lib/keypool/shelf.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 16 };

/* Two neighbours hold more than SHELF_MERGE; one more block is needed while one is split. */
static size_t blocks_for(size_t items)
{
    return items <= SHELF_BLOCK ? 1 : items / (SHELF_MERGE / 2) + 3;
}

bool shelf_init(struct shelf *shelf, size_t items)
{
    size_t n = blocks_for(items), block = items < SHELF_BLOCK ? items : SHELF_BLOCK;

    *shelf = (struct shelf){.heads = calloc(n, sizeof *shelf->heads),
                            .blocks = calloc(n * block + 1, sizeof *shelf->blocks)};
    if (!shelf->heads || !shelf->blocks) {
        shelf_fini(shelf);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        shelf->heads[i].items = shelf->blocks + i * block;
    return true;
}

void shelf_fini(struct shelf *shelf)
{
    free(shelf->heads);
    free(shelf->blocks);
    *shelf = (struct shelf){0};
}

/* Without a branch, which could not be foreseen. */
static bool before(const struct shelf_item *item, int64_t room, uint32_t number)
{
    return (item->room < room) | ((item->room == room) & (item->number < number));
}

/* The first block whose last item is not before this one; the last block if there is none. There
 * is a block. */
static uint32_t block_of(const struct shelf *shelf, int64_t room, uint32_t number)
{
    uint32_t low = 0, high = shelf->n_heads - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (before(&shelf->heads[middle].last, room, number))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first place in a block whose item is not before this one. */
static uint32_t place_in(const struct shelf_head *head, int64_t room, uint32_t number)
{
    const struct shelf_item *from = head->items;
    uint32_t n = head->n;

    while (n > 1) {
        uint32_t half = n / 2;
        from += before(&from[half - 1], room, number) ? half : 0;
        n -= half;
    }
    return (uint32_t)(from - head->items) + (n == 1 && before(from, room, number));
}

/* The place of an item that is there. Among few, looking at each is quicker. */
static uint32_t place_of(const struct shelf_head *head, int64_t room, uint32_t number)
{
    uint32_t place = 0;

    if (head->n > FEW)
        return place_in(head, room, number);
    while (head->items[place].number != number)
        place++;
    return place;
}

static void note_last(struct shelf_head *head)
{
    if (head->n > 0)
        head->last = head->items[head->n - 1];
}

/* Takes a block out of the row, to the free ones. */
static void drop_head(struct shelf *shelf, uint32_t b)
{
    struct shelf_head head = shelf->heads[b];

    memmove(&shelf->heads[b], &shelf->heads[b + 1], (shelf->n_heads - b - 1) * sizeof head);
    head.n = 0;
    shelf->heads[--shelf->n_heads] = head;
}

/* Makes one block of b and the one after it, if they are small. */
static bool merge(struct shelf *shelf, uint32_t b)
{
    if (b + 1 >= shelf->n_heads)
        return false;
    struct shelf_head *head = &shelf->heads[b], *next = head + 1;
    if (head->n + next->n > SHELF_MERGE)
        return false;
    memcpy(head->items + head->n, next->items, next->n * sizeof *head->items);
    head->n += next->n;
    note_last(head);
    drop_head(shelf, b + 1);
    return true;
}

/* A full block becomes two. Each of them may then be small enough for its other neighbour. */
static void split(struct shelf *shelf, uint32_t b)
{
    struct shelf_head fresh = shelf->heads[shelf->n_heads], *head = &shelf->heads[b];

    memmove(head + 2, head + 1, (shelf->n_heads - b - 1) * sizeof fresh);
    shelf->n_heads++;
    fresh.n = head->n / 2;
    head->n -= fresh.n;
    memcpy(fresh.items, head->items + head->n, fresh.n * sizeof *fresh.items);
    head[1] = fresh;
    note_last(head);
    note_last(head + 1);
    (void)merge(shelf, b + 1);
    if (b > 0)
        (void)merge(shelf, b - 1);
}

void shelf_put(struct shelf *shelf, int64_t room, uint32_t number)
{
    if (shelf->n_heads == 0)
        shelf->n_heads = 1;
    uint32_t b = block_of(shelf, room, number);
    if (shelf->heads[b].n == SHELF_BLOCK) {
        split(shelf, b);
        b = block_of(shelf, room, number);
    }
    struct shelf_head *head = &shelf->heads[b];
    uint32_t place = place_in(head, room, number);
    struct shelf_item *item = &head->items[place];
    memmove(item + 1, item, (head->n - place) * sizeof *item);
    *item = (struct shelf_item){room, number};
    head->n++;
    note_last(head);
    shelf->n++;
}

static void take_at(struct shelf *shelf, uint32_t b, uint32_t place)
{
    struct shelf_head *head = &shelf->heads[b];
    struct shelf_item *item = &head->items[place];

    memmove(item, item + 1, (head->n - place - 1) * sizeof *item);
    head->n--;
    shelf->n--;
    note_last(head);
    if (head->n == 0)
        drop_head(shelf, b);
    else if (!merge(shelf, b) && b > 0)
        (void)merge(shelf, b - 1);
}

void shelf_take(struct shelf *shelf, int64_t room, uint32_t number)
{
    uint32_t b = block_of(shelf, room, number);

    take_at(shelf, b, place_in(&shelf->heads[b], room, number));
}

/* Whether an item belongs in this block, wherever there. */
static bool belongs(const struct shelf *shelf, uint32_t b, int64_t room, uint32_t number)
{
    const struct shelf_head *head = &shelf->heads[b];

    return (b == 0 || before(&head->items[0], room, number)) &&
           (b + 1 == shelf->n_heads || !before(&head->last, room, number));
}

/* Shifts what is between the old place and the new one; that is seldom far. */
static void move_within(struct shelf_head *head, uint32_t place, int64_t to, uint32_t number)
{
    struct shelf_item *items = head->items;

    for (; place + 1 < head->n && before(&items[place + 1], to, number); place++)
        items[place] = items[place + 1];
    for (; place > 0 && !before(&items[place - 1], to, number); place--)
        items[place] = items[place - 1];
    items[place] = (struct shelf_item){to, number};
    note_last(head);
}

void shelf_move(struct shelf *shelf, int64_t from, int64_t to, uint32_t number)
{
    uint32_t b = block_of(shelf, from, number);
    uint32_t place = place_of(&shelf->heads[b], from, number);

    if (belongs(shelf, b, to, number)) {
        move_within(&shelf->heads[b], place, to, number);
        return;
    }
    take_at(shelf, b, place);
    shelf_put(shelf, to, number);
}

uint32_t shelf_count(const struct shelf *shelf, int64_t room)
{
    uint32_t n = 0, b = shelf->n_heads;

    if (b == 0 || shelf->heads[0].items[0].room >= room)
        return shelf->n;
    /* From the end, since those with room are few when time matters. */
    for (; b > 1 && shelf->heads[b - 2].last.room >= room; b--)
        n += shelf->heads[b - 1].n;
    return n + shelf->heads[b - 1].n - place_in(&shelf->heads[b - 1], room, 0);
}

uint32_t shelf_at(const struct shelf *shelf, uint32_t place)
{
    const struct shelf_head *head = shelf->heads;
    uint32_t from_end = shelf->n - 1 - place;

    if (from_end < place) {
        for (head += shelf->n_heads - 1; from_end >= head->n; head--)
            from_end -= head->n;
        return head->items[head->n - 1 - from_end].number;
    }
    for (; place >= head->n; head++)
        place -= head->n;
    return head->items[place].number;
}
