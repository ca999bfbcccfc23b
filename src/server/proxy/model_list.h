/* model_list.h - what `GET /v1/models` and `GET /v1/models/NAME` answer.
 *
 * A tenant sees the models that it may use and that the API it speaks can reach, and no others: a
 * model that is not listed is reported in the same way as one that does not exist.
 */
#ifndef TG_PROXY_MODEL_LIST_H
#define TG_PROXY_MODEL_LIST_H

#include "io/text/json_write.h"
#include "server/config/config.h"
#include "server/dialect/ask.h"

struct model_list {
    const struct config *config;
    const struct config_tenant *tenant; /* who asks */
    const struct config_key *key;       /* with which virtual key */
    enum wire_api api;                  /* the API that the client speaks */
};

/* Writes the whole list, in the form of the client's API. */
void model_list_write(const struct model_list *list, struct json_writer *out);

/* Writes one model by its name or alias, percent-encoded as in a path. Nothing is written if it is
 * not in the list. */
void model_list_write_one(const struct model_list *list, struct slice name,
                          struct json_writer *out);

#endif
