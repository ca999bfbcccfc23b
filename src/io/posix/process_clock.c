/* process_clock.c - the gateway's clock and its reader of memory, for other programs: sections 1
 * and 2 of tollgate_posix.h.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/posix/clock.h"
#include "io/posix/memory.h"
#include "tollgate_posix.h"

/* ---- the clock ---- */

static pthread_once_t clock_once = PTHREAD_ONCE_INIT;
static struct clock process_clock; /* set once */

static void set_process_clock(void)
{
    clock_init(&process_clock);
}

tg_ms tg_clock_now(void)
{
    pthread_once(&clock_once, set_process_clock);
    return clock_now_ms(&process_clock);
}

tg_ms tg_clock_wall_of(tg_ms at)
{
    pthread_once(&clock_once, set_process_clock);
    clock_follow(&process_clock);
    return clock_wall_of(&process_clock, at);
}

/* ---- memory ---- */

struct tg_memory {
    struct memory reader;
    char root[]; /* ends with a 0 */
};

enum tg_err tg_memory_new(tg_ms poll, const char *root, struct tg_memory **memory)
{
    size_t bytes = root != NULL ? strlen(root) : 0;
    struct tg_memory *made;

    if (memory == NULL)
        return TG_ERR_NULL;
    if (poll < 1 || poll > TG_NUMBER_MAX / MEMORY_STALE_POLLS)
        return TG_ERR_INVALID;
    made = malloc(sizeof *made + bytes + 1);
    if (made == NULL)
        return TG_ERR_MEMORY;
    if (bytes > 0)
        memcpy(made->root, root, bytes);
    made->root[bytes] = '\0';
    memory_init(&made->reader, made->root, poll);
    *memory = made;
    return TG_OK;
}

void tg_memory_free(struct tg_memory *memory)
{
    if (memory == NULL)
        return;
    memory_fini(&memory->reader);
    free(memory);
}

double tg_memory_read(struct tg_memory *memory, tg_ms now)
{
    double used;

    if (memory == NULL)
        return NAN;
    memory_read(&memory->reader, now);
    return memory_used(&memory->reader, now, &used) ? used : NAN;
}
