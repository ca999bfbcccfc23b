/* recording_side.h - a gateway in virtual time that is told what a recording says.
 *
 * It is the gateway of `serve` (runtime/gateway.h) without its threads and sockets: the same gates,
 * keys and budgets, made from a configuration by the same code.
 *
 *     in step     every operation of the recording is repeated, in the order of the numbers, with
 *                 its time; and its result is compared. With the configuration that was in force
 *                 they are the same.
 *     astray      a call that was decided otherwise goes on by itself, in virtual time: it waits as
 *                 long as it has to, then does what was recorded, that much later or earlier; what
 *                 it did not do then, because it was refused, is made up from the mean of the calls
 *                 of its model.
 */
#ifndef TG_REPLAY_RECORDING_SIDE_H
#define TG_REPLAY_RECORDING_SIDE_H

#include "cli/common/command.h"
#include "cli/replay/recording_means.h"
#include "lib/core/hash_table.h"
#include "lib/core/heap.h"
#include "server/runtime/gateway.h"

struct actor;

/* What a side made of an operation, where that is not what was recorded. */
struct recording_difference {
    const struct recorded_op *op;
    struct recorded_outcome came;
    const char *cause; /* static */
};

/* What it made of a call. */
struct recording_verdict {
    const char *recorded,
        *replayed; /* "admitted", a reason, or "left"; static or the recording's */
    bool differs;  /* in any operation: then, the first: */
    struct recording_difference first;
};

struct recording_generation {
    uint64_t number; /* in the recording */
    struct generation *generation;
};

struct recording_side {
    const struct command *command;
    const char *path;
    const char *reloaded; /* files that were read later, with commas; null: none */
    const struct recording *recording;
    struct gateway *gateway;
    bool exact;         /* a call that waits goes on when it did then, and not when it could */
    bool config_is_its; /* the configuration is the one that it was recorded with */
    tg_ms now;
    struct heap astray; /* actors that go on by themselves, by the time of their next step */
    struct actor *woken, *actors;
    struct tg_probe probe;
    struct recording_means means;
    struct hash_table leases; /* those that callers of Admit have, by their names of then */
    struct recording_generation *generations; /* the one at the start, then reloads */
    size_t n_generations, generations_room;
    uint64_t reloads; /* those that were repeated */
    bool no_memory;
    const char *changed; /* what has changed, so that the configuration is not the one in force */
    bool differed;
    uint64_t n_ops; /* operations that were compared */
    void (*ended)(void *context, const struct recorded_call *call,
                  const struct recording_verdict *verdict);
    void *context;
};

/* Whether it was recorded with this configuration. */
bool recording_is_of(const struct recording *recording, const struct command *command,
                     const char *path);

/* `as_told`: where a remote store decided rate and cost and this is the configuration that was in
 * force, its answers are taken as recorded; else they are decided in memory. `ended` is called once
 * for each call, in the order of their last operations. False after saying what is wrong: `status`
 * is what to end with. */
bool recording_side_init(struct recording_side *side, const struct command *command,
                         const char *path, const struct recording *recording, bool as_told,
                         void (*ended)(void *context, const struct recorded_call *call,
                                       const struct recording_verdict *verdict),
                         void *context, int *status);
void recording_side_fini(struct recording_side *side);

/* Runs all of it. False: no memory. */
bool recording_side_run(struct recording_side *side);

#endif
