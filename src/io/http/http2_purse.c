/* http2_purse.c - something that a peer may do so often in one go, and so often a second.
 *
 * Filled by time, and by the peer's good deeds: who does real work may also do more that makes
 * work for us. A bucket of the library would do the first alone.
 */
#include "io/http/http2_purse.h"

#define MUCH 1000000000 /* with an hour's worth of it, no sum overflows */
#define HOUR_MS 3600000

void http2_purse_init(struct http2_purse *purse, size_t most, size_t per_s, tg_ms now)
{
    purse->most = (int64_t)(most < MUCH ? most : MUCH) * 1000;
    purse->per_s = (int64_t)(per_s < MUCH ? per_s : MUCH);
    purse->left = purse->most;
    purse->at = now;
}

void http2_purse_fill(struct http2_purse *purse, int64_t thousandths)
{
    purse->left += thousandths;
    if (purse->left > purse->most)
        purse->left = purse->most;
}

bool http2_purse_pay(struct http2_purse *purse, tg_ms now)
{
    tg_ms past = now - purse->at;

    if (past > 0) {
        purse->at = now;
        http2_purse_fill(purse, (past < HOUR_MS ? past : HOUR_MS) * purse->per_s);
    }
    purse->left -= 1000;
    return purse->left >= 0;
}
