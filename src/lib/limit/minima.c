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

static void minima_insert(struct minima *minima, int64_t place, struct minimum added)
{
    struct minimum all[MINIMA_MAX + 1];
    int64_t n = minima->n + 1, joined = -1;

    for (int64_t i = 0; i < n; i++)
        all[i] = i < place ? minima->list[i] : i == place ? added : minima->list[i - 1];
    if (n > MINIMA_MAX) {
        n--;
        joined = n - 1;
        for (int64_t i = joined - 1; i >= 0; i--)
            if (all[i + 1].deficit - all[i].deficit < all[joined + 1].deficit - all[joined].deficit)
                joined = i;
        all[joined].at = all[joined + 1].at;
        for (int64_t i = joined + 1; i < n; i++)
            all[i] = all[i + 1];
    }
    for (int64_t i = 0; i < n; i++)
        minima->list[i] = all[i];
    minima->n = n;
    assert(minima_rise(minima));
}

void minima_push(struct minima *minima, tg_ms now, double at, double deficit)
{
    struct minimum *list = minima->list;

    if (minima->n > 0)
        at = fmax(at, list[minima->n - 1].at);
    if (at > (double)now)
        minima->stepped = num_max(minima->stepped, now);
    while (minima->n > 0 && list[minima->n - 1].deficit >= deficit)
        minima->n--;
    /* If two minima have one time, the first is the lower, and is found first. */
    if (minima->n > 0 && list[minima->n - 1].at >= at)
        return;
    if (minima->n < MINIMA_MAX) /* nearly always */
        list[minima->n++] = (struct minimum){at, deficit};
    else
        minima_insert(minima, minima->n, (struct minimum){at, deficit});
    assert(minima_rise(minima));
}

void minima_owe(struct minima *minima, tg_ms now, double at, double deficit,
                struct tg_charge charge, double more)
{
    struct minimum *list = minima->list;
    double charged_at = (double)charge.at;
    int64_t n = minima->n, i = n;

    while (i > 0 && list[i - 1].at > charged_at)
        i--;
    bool has_own = i > 0 && list[i - 1].at >= charged_at;
    if (charge.cost == 0 || !(deficit > 0) || charge.at <= minima->stepped ||
        (i == n && !has_own)) {
        minima_push(minima, now, at, deficit);
        return;
    }
    if (i == n)
        return;
    struct minimum own = {charged_at, list[i].deficit};
    for (int64_t j = i; j < n; j++)
        list[j].deficit += more;
    if (!has_own)
        minima_insert(minima, i, own);
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
