/* law_world.c - a law in front of a server in virtual time. See law_world.h. */
#include "law_world.h"

#include <math.h>
#include <string.h>

#include "check.h"

static void start(struct law_world *world)
{
    const struct law_server *server = &world->server;
    struct law_call *call = &world->calls[world->n++];
    bool changed = server->changes_at > 0 && world->now >= server->changes_at;
    int64_t capacity = changed ? server->capacity_to : server->capacity;
    double crowd = fmax(1, (double)world->n / (double)capacity);
    double factor = 1 + server->spread * (2 * draw_unit(&world->draw) - 1);
    double took = server->base_ms * (changed ? server->slower : 1) * factor;

    *call = (struct law_call){
        .started_at = world->now,
        .first_at = -1,
        .ends_at = world->now + (tg_ms)ceil(took * crowd),
        .in_flight_at_start = world->n,
        .dropped = crowd > 1 && draw_chance(&world->draw, server->drop_percent),
    };
    if (server->first_byte > 0) { /* what waits, waits for its first byte */
        double wait = server->base_ms * (crowd - 1) + (double)server->first_byte;
        call->first_at = world->now + (tg_ms)ceil(wait);
        call->ends_at = call->first_at + (tg_ms)ceil(took);
    }
    law_started(&world->law, world->now + world->offset, world->n);
}

static struct law_sample sample_of(const struct law_world *world, const struct law_call *call)
{
    double ms = (double)(world->now - call->started_at);

    return (struct law_sample){
        .now = world->now + world->offset,
        .sample_ms = ms,
        .sojourn_ms = ms,
        .in_flight = world->n,
        .in_flight_at_start = call->in_flight_at_start,
        .dropped = call->dropped,
    };
}

static void end_due(struct law_world *world)
{
    for (int64_t i = 0; i < world->n;) {
        struct law_call *call = &world->calls[i];
        struct law_sample sample = sample_of(world, call);
        if (call->first_at == world->now) {
            sample.still_runs = true;
            sample.dropped = false;
            law_first_byte(&world->law, &sample, 8);
        }
        if (call->ends_at > world->now) {
            i++;
            continue;
        }
        bool streamed = call->first_at >= 0;
        sample.still_runs = false;
        if (!streamed)
            law_finished(&world->law, &sample);
        *call = world->calls[--world->n];
        law_left(&world->law, world->now + world->offset, world->n,
                 streamed ? sample.sojourn_ms : -1);
    }
}

static void step_clock(struct law_world *world)
{
    tg_ms step = world->server.step;

    if (step > 0 && world->now % 3000 == 1000)
        world->offset -= step;
    if (step > 0 && world->now % 3000 == 2000)
        world->offset += 2 * step;
}

void law_world_open(struct law_world *world, const struct tg_law_config *config,
                    const struct law_server *server)
{
    struct tg_problem problem = {""};

    memset(world, 0, sizeof *world);
    world->server = *server;
    world->draw = draw_stream(11, 0);
    world->offset = 100000;
    if (law_init(&world->law, config, 1, &problem) != TG_OK)
        fail_msg("%s", problem.text);
}

void law_world_run(struct law_world *world, tg_ms ms)
{
    const struct tg_law_config *config = &world->law.config;

    for (tg_ms until = world->now + ms; world->now < until; world->now++) {
        step_clock(world);
        end_due(world);
        while (world->n < world->server.offered && world->n < law_limit(&world->law))
            start(world);
        if (world->n < world->server.offered && world->now % 4 == 0)
            law_rejected(&world->law, world->now + world->offset);
        assert_true(law_limit(&world->law) >= config->min && law_limit(&world->law) <= config->max);
    }
}

void law_world_close(struct law_world *world)
{
    law_fini(&world->law);
}
