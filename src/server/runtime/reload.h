/* reload.h - a new configuration for a gateway that runs.
 *
 *     IDLE --request--> READING --read, valid, in force--> TELLING --all workers have it--> IDLE
 *                          `--wrong: nothing has changed--> IDLE
 *
 * Reading ten thousand tenants takes a good part of a second, so a thread of its own does it, and
 * puts the new generation in force; the control thread then tells each worker, which takes it at
 * its next turn. Calls that run end under the one they began with. One is read at a time; requests
 * that come meanwhile are answered by the next reading, since the file may have changed after this
 * one read it.
 *
 * Everything here belongs to the control thread.
 */
#ifndef TG_RUNTIME_RELOAD_H
#define TG_RUNTIME_RELOAD_H

#include "server/runtime/generation.h"

struct control;
struct reload;

#define RELOAD_RESTART_MAX 17

struct reload_result {
    bool ok;
    uint64_t generation; /* the number of the one in force now */
    char hash[CONFIG_HASH_HEX + 1];
    const struct config_problems *problems; /* errors if it is not ok, and warnings */
    const char *failure; /* not ok, and nothing is wrong with the files: why; else null */
    const char *restart[RELOAD_RESTART_MAX]; /* what has changed and needs a restart: "workers" */
    size_t n_restart;
};

/* The result is good for the time of the call. */
typedef void reload_done(void *context, const struct reload_result *result);

/* Before the first thread runs: adds to the first generation, made from the files, what an
 * administrator has made and the ledger kept. False: `problems` or `failure` say why. The problems
 * have to be freed. */
bool reload_at_start(struct gateway *gateway, const char *path, struct config_problems *problems,
                     struct tg_problem *failure);

/* `path` null: there is nothing to read, and every request fails. Null: no memory. */
struct reload *reload_new(struct control *control, const char *path);
void reload_free(struct reload *reload);

/* `why` is for the log; static. `done` may be null. False: no memory, and done() will not come. */
bool reload_request(struct reload *reload, const char *why, reload_done *done, void *context);

/* Whoever asked has gone: done() does not come for it. */
void reload_forget(struct reload *reload, const void *context);

/* Whether one may be asked for that nobody has asked for: none is under way, and the last one did
 * not fail a moment ago. */
bool reload_may_try(const struct reload *reload);

#endif
