/* mock_records.h - what the mock saw: one JSON line for each request that ended.
 *
 * Shared by all workers, under one lock that is held for a copy. The last lines are kept for who
 * asks; all go to a file, if there is one.
 */
#ifndef TG_MOCK_MOCK_RECORDS_H
#define TG_MOCK_MOCK_RECORDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "io/text/text_out.h"

struct mock_records {
    pthread_mutex_t lock; /* guards what follows, but for the two counts */
    struct text_out *kept;
    size_t keep;    /* how many at most */
    uint64_t added; /* lines since the start or the reset; the last `keep` of them are here */
    FILE *to;       /* borrowed; null: none */
    bool failed;    /* a line could not be written */
    unsigned age;   /* how often it was reset */
    atomic_ullong begun, ended;
};

/* False: no memory. */
bool mock_records_init(struct mock_records *records, size_t keep, FILE *to);
void mock_records_fini(struct mock_records *records);

/* A request begins: its number, from 1, and the age to end it with. */
uint64_t mock_records_begin(struct mock_records *records, unsigned *age);

/* A request has ended. One that began before a reset leaves nothing. */
void mock_records_end(struct mock_records *records, unsigned age, struct slice line);

/* Whether anybody will read the lines. */
bool mock_records_wanted(const struct mock_records *records);

/* `{"begun":2,"ended":1,"requests":[...]}`, the oldest first. */
void mock_records_write(struct mock_records *records, struct text_out *out);

void mock_records_reset(struct mock_records *records);

#endif
