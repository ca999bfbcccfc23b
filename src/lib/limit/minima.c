/* minima.c - the suffix minima of a bucket's deficit. See minima.h. */
#include "lib/limit/minima.h"

#include <math.h>

static bool minima_rise(const struct minima *minima)
{
    for (int64_t i = 1; i < minima->n; i++)
        if (!(minima->list[i - 1].at < minima->list[i].at &&
              minima->list[i - 1].deficit <= minima->list[i].deficit))
            return false;
    return minima->n >= 0 && minima->n <= MINIMA_MAX;
}

/* Joins the two of `list`, which is full, and `last` that differ least. */
static void minima_join(struct minimum *list, struct minimum last)
{
    int join = MINIMA_MAX - 1;
    double least = last.deficit - list[join].deficit;

    for (int i = MINIMA_MAX - 2; i >= 0; i--)
        if (list[i + 1].deficit - list[i].deficit < least) {
            least = list[i + 1].deficit - list[i].deficit;
            join = i;
        }
    for (int i = join; i < MINIMA_MAX; i++) {
        struct minimum next = i + 1 < MINIMA_MAX ? list[i + 1] : last;
        list[i].at = next.at;
        if (i > join)
            list[i].deficit = next.deficit;
    }
}

void minima_push(struct minima *minima, double at, double deficit)
{
    struct minimum last = {at, deficit};

    if (minima->n > 0)
        last.at = fmax(last.at, minima->list[minima->n - 1].at);
    while (minima->n > 0 && minima->list[minima->n - 1].deficit >= deficit)
        minima->n--;
    /* Of two minima at one time, the first is the lower, and is found first. */
    if (minima->n > 0 && minima->list[minima->n - 1].at >= last.at)
        return;
    if (minima->n == MINIMA_MAX)
        minima_join(minima->list, last);
    else
        minima->list[minima->n++] = last;
    assert(minima_rise(minima));
}

double minima_settle(struct minima *minima, tg_ms charged_at, double unused, double deficit)
{
    struct minimum *list = minima->list;
    int64_t n = minima->n, i = 0;
    double back = fmin(unused, deficit);

    while (i < n && list[i].at <= (double)charged_at)
        i++;
    if (i < n)
        back = fmin(back, list[i].deficit);
    if (!(back > 0))
        return 0;
    for (int64_t j = i; j < n; j++)
        list[j].deficit -= back;

    int64_t kept = i;
    while (i < n && kept > 0 && list[kept - 1].deficit >= list[i].deficit)
        kept--;
    for (int64_t j = i; kept < i && j < n; j++)
        list[kept + j - i] = list[j];
    minima->n -= i - kept;
    assert(minima_rise(minima));
    return back;
}
