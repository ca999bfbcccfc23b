/* walk.c - random limiters, clocks that go on and astray, and the counting of cases. */
#include "walk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define EPOCH_TIME INT64_C(1700000000000)
#define BINADE INT64_C(2199023255552) /* 2^41: beyond it a double has half as many fractions */

static tg_ms random_start(struct draw *draw, tg_ms scale)
{
    int64_t choice = draw_between(draw, 0, 99);

    if (choice < 10)
        return 0;
    if (choice < 50)
        return draw_between(draw, 0, 100000);
    if (choice < 90)
        return EPOCH_TIME + draw_between(draw, 0, 1000000);
    return BINADE - draw_between(draw, 0, scale + 1);
}

static void walk_one(struct walk *walk, uint64_t stream, enum tg_strategy strategy,
                     void (*visit)(struct walk *walk))
{
    walk->draw = draw_stream(walk->seed, stream);
    walk->subject = subject_random(&walk->draw, strategy);
    walk->now = random_start(&walk->draw, walk->subject.scale);
    walk->earliest = walk->latest = walk->now;
    walk->earlier = (struct tg_charge){walk->now, 0};
    visit(walk);
    subject_free(&walk->subject);
}

void walk_all(const char *promise, uint64_t seed, unsigned strategies, int walks_each,
              void (*visit)(struct walk *walk))
{
    struct walk walk = {.promise = promise, .seed = seed};
    uint64_t stream = 0;

    for (int i = 0; i < walks_each; i++) {
        for (int strategy = 0; strategy < TG_STRATEGY_COUNT; strategy++) {
            if ((strategies >> strategy) & 1u)
                walk_one(&walk, stream++, (enum tg_strategy)strategy, visit);
        }
    }
    cases_report(promise, walk.cases);
}

static tg_ms random_span(struct walk *walk)
{
    struct draw *draw = &walk->draw;
    int64_t choice = draw_between(draw, 0, 99);

    if (choice < 35)
        return 0;
    if (choice < 97)
        return draw_magnitude(draw, walk->subject.scale);
    return draw_between(draw, 1, 3 * walk->subject.scale);
}

static void set_clock(struct walk *walk, tg_ms now)
{
    walk->now = now;
    if (now < walk->earliest)
        walk->earliest = now;
    if (now > walk->latest)
        walk->latest = now;
}

void walk_forward(struct walk *walk)
{
    set_clock(walk, walk->now + random_span(walk));
}

void walk_astray(struct walk *walk)
{
    tg_ms span = random_span(walk);

    if (draw_chance(&walk->draw, 50))
        set_clock(walk, walk->now + span);
    else
        set_clock(walk, walk->now > span ? walk->now - span : 0);
}

void walk_fail(const struct walk *walk, const char *file, int line, const char *format, ...)
{
    char reason[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    print_error("%s: seed %" PRIu64 ", %s, now %" PRId64 ", case %ld\n  %s\n", walk->promise,
                walk->seed, subject_text(&walk->subject).text, walk->now, walk->cases, reason);
    _fail(file, line);
}

void cases_report(const char *promise, long cases)
{
    print_message("    %ld cases: %s\n", cases, promise);
    if (cases < CASES_WANTED)
        fail_msg("%s: %ld cases are too few", promise, cases);
}
