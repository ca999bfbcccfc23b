/* recording_config.c - the configurations that a recording ran under, put in force again.
 *
 * A recording says by number which configuration a call began under, and by its hash which file was
 * read at a reload. The file is looked for among those that the command was given. What only
 * `serve` needs of it is left out, because nothing is connected here.
 *
 * What the API made was read with the file. It is in the ledger that the file names, as it is now:
 * if it was the same then, the hash says so.
 */
#include <stdio.h>
#include <string.h>

#include "cli/common/gate_config.h"
#include "cli/replay/recording_side_internal.h"
#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/runtime/admin_extras.h"

/* The configuration of this number; another one than the recording's has no others. */
struct generation *recording_generation_of(const struct recording_side *side, uint64_t number)
{
    for (size_t i = side->n_generations; i > 0; i--)
        if (side->generations[i - 1].number == number)
            return side->generations[i - 1].generation;
    return gateway_newest(side->gateway);
}

/* What is in force from here on goes by the next number. */
bool recording_note_generation(struct recording_side *side)
{
    uint64_t last = side->n_generations > 0 ? side->generations[side->n_generations - 1].number
                                            : side->recording->generation - 1;

    if (!array_reserve(&side->generations, &side->generations_room, side->n_generations + 1))
        return false;
    side->generations[side->n_generations++] =
        (struct recording_generation){last + 1, gateway_newest(side->gateway)};
    return true;
}

/* What only `serve` needs is left out: nothing is connected, and no file but the configuration's is
 * read. */
void recording_make_virtual(struct config *config)
{
    config->store.url = "memory";
    config->store.two_tier = false;
    config->ledger.failure = CONFIG_FAIL_OPEN;
    config->listen.tls.cert = config->listen.admin_tls.cert = NULL;
    for (size_t i = 0; i < config->n_providers; i++)
        config->providers[i].base.tls = false;
    for (size_t i = 0; i < config->n_protect; i++)
        config->protect[i].upstream.tls = false;
}

/* The file with what the API had made, if that has this hash. On false `config` is as it was. */
static bool load_with_ledger(const char *path, const char *hash, tg_ms wall, struct config *config)
{
    struct ledger_view *view = NULL;
    struct tg_problem ignored;
    struct admin_extras extras;
    struct config made;
    bool same = false;

    if (config->ledger.path == NULL || !ledger_view_open(config->ledger.path, &view, &ignored))
        return false;
    if (admin_extras_view(view, wall, &extras, &ignored)) {
        same = extras.n > 0 && gate_config_load_with(NULL, path, extras.list, extras.n, &made) &&
               strcmp(made.hash, hash) == 0;
        if (extras.n > 0 && !same)
            config_free(&made);
        admin_extras_free(&extras);
    }
    ledger_view_close(view);
    if (same) {
        config_free(config);
        *config = made;
    }
    return same;
}

bool recording_load(const struct recording_side *side, const char *path, const char *hash, tg_ms t,
                    struct config *config, bool *same)
{
    bool good = gate_config_load(side->command, path, config);

    *same = good && (strcmp(config->hash, hash) == 0 ||
                     load_with_ledger(path, hash, t + side->recording->ahead_ms, config));
    return good;
}

/* The file that was read then: by its hash, among those that were given. */
static bool find_reloaded(const struct recording_side *side, const struct recorded_op *op,
                          struct config *config)
{
    const char *at = side->reloaded;
    char path[1024];
    bool same;

    (void)recording_load(side, side->path, op->detail, op->t, config, &same);
    while (!same && at != NULL && *at != '\0') {
        size_t n = strcspn(at, ",");
        snprintf(path, sizeof path, "%.*s", (int)n, at);
        if (n < sizeof path) {
            config_free(config);
            (void)recording_load(side, path, op->detail, op->t, config, &same);
        }
        at += n + (at[n] == ',');
    }
    if (!same)
        config_free(config);
    return same;
}

/* What reload.c does. False: there is no such file, or it cannot be put in force. */
bool recording_reload(struct recording_side *side, const struct recorded_op *op)
{
    struct generation *before = gateway_newest(side->gateway), *made;
    struct tg_problem problem;
    struct config config;

    if (op->detail == NULL || !find_reloaded(side, op, &config))
        return false;
    recording_make_virtual(&config);
    if (!generation_new(side->gateway, &config, before, &made, &problem))
        return false;
    if (!generation_apply(made, before, op->t, &problem)) {
        generation_free(made);
        return false;
    }
    LIST_INSERT_HEAD(&side->gateway->generations, made, link);
    return true;
}
