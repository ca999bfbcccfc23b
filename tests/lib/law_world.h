/* law_world.h - a law in front of a server in virtual time, without a gate.
 *
 * The server is as fast as it can be with up to `capacity` calls, and shares beyond that. As many
 * calls run as the limit allows and as are offered; who finds no slot is refused, one every 4 ms.
 */
#ifndef LAW_WORLD_H
#define LAW_WORLD_H

#include "draw.h"
#include "lib/concurrency/laws.h"

enum { LAW_WORLD_CALLS = 1100 };

struct law_server {
    const char *name;
    double base_ms;
    double spread;       /* a call takes from 1 - spread to 1 + spread times the base */
    int64_t capacity;    /* calls */
    int64_t offered;     /* calls that want to run at once */
    tg_ms changes_at;    /* then it is another; 0: never */
    int64_t capacity_to; /* calls */
    double slower;       /* times as long, although the server is not full */
    tg_ms first_byte;    /* what a first byte takes of a stream without load; 0: no streams */
    int drop_percent;    /* calls that end as dropped while there are more than the capacity */
    tg_ms step;          /* the clock goes back by so much every 3 s, and ahead by the double */
};

struct law_call {
    tg_ms started_at, first_at, ends_at;
    int64_t in_flight_at_start;
    bool dropped;
};

struct law_world {
    struct law law;
    struct draw draw;
    struct law_server server; /* may be changed between runs */
    struct law_call calls[LAW_WORLD_CALLS];
    int64_t n;
    tg_ms now;    /* the world's time */
    tg_ms offset; /* added for the clock that the law is shown */
};

void law_world_open(struct law_world *world, const struct tg_law_config *config,
                    const struct law_server *server);

/* Fails the test if the limit is ever outside of [min, max]. */
void law_world_run(struct law_world *world, tg_ms ms);

void law_world_close(struct law_world *world);

#endif /* LAW_WORLD_H */
