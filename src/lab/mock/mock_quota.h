/* mock_quota.h - requests a minute for each key, as a provider counts them. */
#ifndef TG_MOCK_MOCK_QUOTA_H
#define TG_MOCK_MOCK_QUOTA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tollgate.h"

#define MOCK_QUOTA_KEYS 256 /* the least recently begun minute makes room for another key */

struct mock_quota {
    pthread_mutex_t lock;
    int64_t rpm; /* 0: no limit, and nothing is counted */
    struct mock_minute {
        uint64_t key; /* a hash; 0: free */
        tg_ms begun;
        int64_t used;
    } minutes[MOCK_QUOTA_KEYS];
};

struct mock_quota_answer {
    bool allowed;
    int64_t remaining;
    tg_ms reset_ms; /* until the key's minute ends */
};

void mock_quota_init(struct mock_quota *quota, int64_t rpm);
void mock_quota_fini(struct mock_quota *quota);
void mock_quota_reset(struct mock_quota *quota);

/* Takes one request of the minute that began with the key's first. */
struct mock_quota_answer mock_quota_take(struct mock_quota *quota, uint64_t key, tg_ms now);

#endif
