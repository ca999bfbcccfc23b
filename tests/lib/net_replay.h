/* net_replay.h - `tollgate replay` inside a test: files of its own, and what it prints in a file.
 *
 *     net_replay_open(&replay)
 *     net_replay_write(&replay, "gate.yaml", text, n)
 *     status = net_replay_run(&replay, "out", "-c", "gate.yaml", "trace.jsonl", NULL)
 */
#ifndef NET_REPLAY_H
#define NET_REPLAY_H

#include "check.h"

struct net_replay {
    char folder[96];
    char before[512]; /* where the test was */
};

/* Goes to a folder of its own, and back. */
void net_replay_open(struct net_replay *replay);
void net_replay_close(struct net_replay *replay);

void net_replay_write(const char *name, const char *text, size_t n);

/* Ended by a zero that is not counted; to be freed. */
char *net_replay_read(const char *name, size_t *n);

/* Arguments are ended by a null. What it prints goes to the file `out`, what it says to "errors".
 * Returns its status. */
int net_replay_run(const char *out, ...);

/* Lets one of the standard files be another for a while. */
int net_replay_exchange(int standard, const char *name);
void net_replay_change_back(int standard, int kept);

#endif /* NET_REPLAY_H */
