/* minute.c - a sliding minute of whole seconds. See minute.h. */
#include "lib/keypool/minute.h"

static void minute_forget(struct minute *minute, int64_t second)
{
    if (!(minute->filled & minute_bit(second)))
        return;
    minute->sum -= minute->counts[minute_slot(second)];
    minute->counts[minute_slot(second)] = 0;
    minute->filled &= ~minute_bit(second);
    assert(minute->sum >= 0 && (minute->filled || minute->sum == 0));
}

void minute_roll(struct minute *minute, int64_t second)
{
    int64_t last = num_min(second - MINUTE_SPAN, minute->head);

    if (second <= minute->head)
        return;
    if (minute->filled)
        for (int64_t gone = minute->head - MINUTE_SPAN + 1; gone <= last; gone++)
            minute_forget(minute, gone);
    minute->head = second;
}

int64_t minute_when(const struct minute *minute, int64_t limit, int64_t need)
{
    int64_t left = minute->sum, second = minute->head - MINUTE_SPAN, at = minute->head;

    assert(need <= limit);

    while (left > limit - need) {
        second = minute_filled_from(minute, second + 1);
        left -= minute->counts[minute_slot(second)];
        at = second + MINUTE_SPAN;
    }
    return at;
}
