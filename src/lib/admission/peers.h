/* peers.h - how many calls each peer has, waiting or running.
 *
 * Counted from the moment a call is let past, so that whoever fills the queue is counted for it.
 * The table is bounded, since whoever can invent names could otherwise fill memory: peers beyond
 * the bound are counted together, as one. A peer whose last call has gone is kept, with nothing
 * counted, until there is need of its place or the owner tidies: a peer that comes and goes should
 * not have to be put in and taken out each time.
 */
#ifndef TG_ADMISSION_PEERS_H
#define TG_ADMISSION_PEERS_H

#include "lib/store/table.h"

struct peers {
    struct table table;
    int64_t idle;   /* entries without calls */
    int64_t others; /* calls of peers that found no place */
};

void peers_init(struct peers *peers);
void peers_fini(struct peers *peers);

/* How many calls the peer has, under the name by which it would be counted: `*id` becomes the
 * common one where the table is full. */
int64_t peers_count(struct peers *peers, struct table_id *id, int64_t max_peers);

/* One more. False: no memory. */
bool peers_add(struct peers *peers, struct table_id id);

/* One less. */
void peers_drop(struct peers *peers, struct table_id id);

/* Takes out peers that have no calls, and gives back memory. */
void peers_tidy(struct peers *peers);

/* How many calls a peer has under its own name. */
int64_t peers_calls(const struct peers *peers, struct table_id id);

/* How many peers have calls, and how many calls. */
void peers_sum(const struct peers *peers, int64_t *n, int64_t *calls);

#endif
