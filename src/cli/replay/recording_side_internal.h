/* recording_side_internal.h - the parts of a side: its verdicts and its configurations. */
#ifndef TG_REPLAY_RECORDING_SIDE_INTERNAL_H
#define TG_REPLAY_RECORDING_SIDE_INTERNAL_H

#include "cli/replay/recording_actor.h"

/* ---- recording_verdict.c ---- */

bool recording_is_in_memory(const struct recording *recording); /* not recorded with Redis */

/* Why an operation differs: the first cause that applies, since a recording cannot know which of
 * them it was. Static. */
const char *recording_cause_of(const struct recording_side *side, const struct recorded_op *op);

/* Counts the operation, and notes whether what came of it differs from what was recorded. */
void recording_compare(struct actor *actor, const struct recorded_op *op,
                       const struct recorded_outcome *came);

/* Sets the verdict of a call to what an operation says of it, if it says anything. */
void recording_judge(const char **verdict, const struct recorded_op *op,
                     const struct recorded_outcome *came);

/* ---- recording_config.c ---- */

/* The configuration of this number; another one than the recording's has no others. */
struct generation *recording_generation_of(const struct recording_side *side, uint64_t number);

/* What is in force from here on goes by the next number. False: no memory. */
bool recording_note_generation(struct recording_side *side);

/* Reads a file, with what the API had made by `t` if it had this hash then, which `same` says. On
 * false, too, the configuration is to be freed. */
bool recording_load(const struct recording_side *side, const char *path, const char *hash, tg_ms t,
                    struct config *config, bool *same);

/* Leaves out of a configuration what only `serve` needs. */
void recording_make_virtual(struct config *config);

/* Does what reload.c did. False: there is no such file, or it cannot be put in force. */
bool recording_reload(struct recording_side *side, const struct recorded_op *op);

#endif
