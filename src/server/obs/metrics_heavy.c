/* metrics_heavy.c - who is heavy among the many. See metrics_heavy.h.
 *
 * 64 counters are searched in some tens of ns, and only for names that have no number of
 * their own: no list ordered by count is worth its keep.
 */
#include "server/obs/metrics_heavy.h"

#include <assert.h>

static int metrics_heavy_place_of(const struct heavy *heavy, uint64_t hash)
{
    for (int i = 0; i < HEAVY_COUNTERS; i++)
        if (heavy->hashes[i] == hash && heavy->counts[i] > 0)
            return i;
    return -1;
}

static int lowest(const struct heavy *heavy)
{
    int low = 0;

    for (int i = 1; i < HEAVY_COUNTERS; i++)
        if (heavy->counts[i] < heavy->counts[low])
            low = i;
    return low;
}

static void halve(struct heavy *heavy)
{
    for (int i = 0; i < HEAVY_COUNTERS; i++) {
        heavy->errors[i] -= heavy->errors[i] / 2; /* up, and the count down: never too heavy */
        heavy->counts[i] /= 2;
        if (heavy->errors[i] > heavy->counts[i])
            heavy->errors[i] = heavy->counts[i];
    }
    heavy->total /= 2;
}

bool heavy_add(struct heavy *heavy, uint64_t hash)
{
    int i = metrics_heavy_place_of(heavy, hash);

    if (i < 0) {
        i = lowest(heavy);
        heavy->hashes[i] = hash;
        heavy->errors[i] = heavy->counts[i];
    }
    heavy->counts[i]++;
    if (++heavy->total >= HEAVY_WINDOW)
        halve(heavy);
    assert(heavy->errors[i] <= heavy->counts[i]);
    uint32_t sure = heavy->counts[i] - heavy->errors[i];
    return sure >= HEAVY_LEAST && sure >= heavy->total / HEAVY_COUNTERS;
}
