/* route_way.h - how a call in its client's dialect reaches a provider: as it came, translated, or
 * not at all.
 *
 *     client calls        openai      openai-chat  openai-responses  anthropic   gemini
 *     chat completions    same        same         translated        translated  translated
 *     responses           same        translated   same              translated  translated
 *     messages            as chat     as chat      as a response     same        translated
 *     count_tokens        estimated   estimated    estimated         same        translated
 *     completions,        same        same         same              -           -
 *     embeddings
 */
#ifndef TG_UPSTREAM_ROUTE_WAY_H
#define TG_UPSTREAM_ROUTE_WAY_H

#include "server/config/config.h"
#include "server/dialect/translate/dialects.h"

enum route_way {
    WAY_SAME,       /* the bytes pass as they are */
    WAY_TRANSLATED, /* between two dialects */
    WAY_ESTIMATED,  /* tokens are counted here, because the provider counts none */
    WAY_NONE,
};

/* The dialect of a client that calls the endpoint. False: it has none that could be translated. */
bool route_way_client(enum endpoint endpoint, enum dialect *client);

/* Which way a call takes. `to` is set where it is translated. */
enum route_way route_way(const struct config_provider *provider, enum endpoint endpoint,
                         enum dialect *to);

/* What the provider and its model take, for translate/. Texts are the configuration's. */
void route_way_target(const struct config_provider *provider, const struct config_model *model,
                      struct neutral_target *target);

/* The key of a chat that bounds its output, as the provider calls it. Static. */
const char *route_way_chat_bound(const struct config_provider *provider);

#endif
