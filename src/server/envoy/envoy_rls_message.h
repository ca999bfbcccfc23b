/* envoy_rls_message.h - requests and replies of the rate limit service as JSON.
 *
 * The JSON of protobuf: a field is known by its name in the contract and by the same in lower camel
 * case, numbers may stand in quotes, units are names or numbers; what is written is in camel case,
 * and what is 0 or empty is left out.
 *
 *     {"domain": "mail", "descriptors": [{"entries": [{"key": "to", "value": "1"}]}]}
 *     {"overallCode": "OK", "statuses": [{"code": "OK", "currentLimit": {...}, ...}]}
 */
#ifndef TG_ENVOY_ENVOY_RLS_MESSAGE_H
#define TG_ENVOY_ENVOY_RLS_MESSAGE_H

#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "server/envoy/envoy_rls.h"

#define ENVOY_RLS_ENTRIES_MAX 1024 /* in all descriptors of a request together */

/* A request that was read, with all that it points to: one block, ended by free(). Not to be
 * moved. */
struct envoy_rls_message {
    struct envoy_rls_request request;
    struct envoy_rls_descriptor descriptors[ENVOY_RLS_DESCRIPTORS_MAX];
    struct envoy_rls_entry entries[ENVOY_RLS_ENTRIES_MAX];
    size_t n_descriptors, n_entries;
    char *text; /* room for the texts behind the struct, as long as the body */
    size_t used;
};

/* Null: `problem` says what is wrong, and for want of memory is "". From the start of the body on,
 * `readable` bytes may be read. */
struct envoy_rls_message *envoy_rls_read(struct json_reader *reader, struct slice body,
                                         size_t readable, char problem[ENVOY_RLS_MESSAGE_MAX]);

/* The reply must be ENVOY_RLS_DECIDED. */
void envoy_rls_write(struct json_writer *out, const struct envoy_rls_reply *reply);

#endif
