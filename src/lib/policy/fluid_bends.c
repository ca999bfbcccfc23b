/* fluid_bends.c - the lowest point of a convex line made of straight pieces.
 *
 * Its pieces are not sorted, and need not be: as quickselect, this splits the bends by a middle one
 * and goes on in the half where the slope changes its sign, so that all of it takes a time that
 * grows with the number of bends and no more. It counts from the far end, where the slope is known
 * best; see fluid_simplex.c.
 */
#include "lib/policy/fluid_bends.h"

#include <assert.h>

static bool bend_before(const struct fluid_bend *a, const struct fluid_bend *b)
{
    return a->at < b->at || (a->at == b->at && a->type < b->type);
}

static void swap_bends(struct fluid_bend *a, struct fluid_bend *b)
{
    struct fluid_bend kept = *a;

    *a = *b;
    *b = kept;
}

/* Puts a middle one of `n` where all before it come before it; returns its place. */
static size_t split_bends(struct fluid_bend *bends, size_t n)
{
    size_t last = n - 1, middle = n / 2, place = 0;

    if (bend_before(&bends[middle], &bends[0]))
        swap_bends(&bends[middle], &bends[0]);
    if (bend_before(&bends[last], &bends[middle]))
        swap_bends(&bends[last], &bends[middle]);
    if (bend_before(&bends[middle], &bends[0]))
        swap_bends(&bends[middle], &bends[0]);
    swap_bends(&bends[middle], &bends[last]);
    for (size_t i = 0; i < last; i++)
        if (bend_before(&bends[i], &bends[last]))
            swap_bends(&bends[i], &bends[place++]);
    swap_bends(&bends[place], &bends[last]);
    return place;
}

size_t fluid_bends_lowest(struct fluid_bend *bends, size_t n, double slope)
{
    size_t begin = 0, end = n;

    if (slope < 0)
        return n;
    while (begin < end) {
        size_t place = begin + split_bends(bends + begin, end - begin);
        assert(place < end && bends[place].turn >= 0);
        double turn = 0;
        for (size_t i = place + 1; i < end; i++)
            turn += bends[i].turn;
        if (slope - turn < 0) {
            begin = place + 1;
        } else if (slope - turn - bends[place].turn < 0) {
            return place;
        } else {
            slope -= turn + bends[place].turn;
            end = place;
        }
    }
    return begin;
}
