/* embed_cxx.cc - the header as C++17, and a C++ program that links: the decision algebra, and a
 * version that is the one of the header. */
#include <cstring>
#include <tollgate.h>

static bool same(const tg_decision &a, const tg_decision &b)
{
    return a.allowed == b.allowed && a.limit == b.limit && a.remaining == b.remaining &&
           a.reset_at == b.reset_at && a.retry_after_ms == b.retry_after_ms;
}

int main()
{
    const tg_decision deny = {false, 10, 0, 1100, 100};
    if (!same(tg_decision_combine(TG_ALLOW_FULL, deny), deny))
        return 1;
    if (!same(tg_decision_fold(nullptr, 0), TG_ALLOW_FULL))
        return 1;
    if (std::strcmp(tg_strategy_name(TG_TOKEN_BUCKET), "token_bucket") != 0)
        return 1;
    return std::strcmp(tg_version(), TG_VERSION) == 0 ? 0 : 1;
}
