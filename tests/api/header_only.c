/* header_only.c - the public headers stand alone: nothing is included before them or besides. */
#include <tollgate_posix.h>

/* Every public type is complete where the header says so, and has the fields it promises. */
struct header_only {
    struct tg_decision decision;
    struct tg_problem problem;
    struct tg_limiter_config limiter_config;
    struct tg_limiter limiter;
    struct tg_charge charge;
    struct tg_store_config store_config;
    struct tg_limit limit;
    struct tg_scope scope;
    struct tg_debit debit;
    struct tg_store_stats stats;
    struct tg_store *store;
    tg_ms ms;
    tg_limits limits;
};

struct header_only header_only_instance;
