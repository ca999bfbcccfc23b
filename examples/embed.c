/* embed.c - a server that protects itself: it runs as many requests at once as it can do in time.
 *
 * The gate learns that number from how long requests take, and refuses the rest at once instead of
 * letting them time out. handle() may be called by any number of threads.
 *
 *     cc embed.c $(pkg-config --cflags --libs tollgate)
 */
#include <stdio.h>
#include <time.h>
#include <tollgate.h>

static tg_ms now_ms(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (tg_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const char *handle(struct tg_gate *gate)
{
    struct tg_call call;
    struct tg_answer answer;
    struct tg_release done;
    tg_call_init(&call);
    tg_release_init(&done);
    if (tg_gate_admit(gate, &call, 0, now_ms(), &answer) || !answer.decision.allowed)
        return "503 Service Unavailable";
    /* Serve the request here. The gate learns from the time until the release. */
    tg_gate_release(gate, answer.lease, now_ms(), &done);
    return "200 OK";
}

int main(void)
{
    struct tg_gate_config config;
    struct tg_gate *gate;
    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.queue_size = 0; /* no request waits */
    if (tg_gate_new(&config, &gate, NULL))
        return 1;
    puts(handle(gate));
    tg_gate_free(gate);
    return 0;
}
