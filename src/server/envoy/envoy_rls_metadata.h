/* envoy_rls_metadata.h - dynamic metadata of the rate limit service: for filters and logs of Envoy
 * that come after it.
 *
 * The names are those of envoyproxy/ratelimit, so that what reads them still works:
 *
 *     {"domain": "d", "descriptors": [{"entries": ["key=value"], "hitsAddend": 5}],
 *      "quotaModeEnabled": true, "quotaModeViolations": [0]}
 *
 * The last is the numbers of descriptors whose rule has `quota_mode` and is over its limit.
 */
#ifndef TG_ENVOY_ENVOY_RLS_METADATA_H
#define TG_ENVOY_ENVOY_RLS_METADATA_H

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include "io/text/json_write.h"
#include "io/text/yaml_arena.h"
#include "server/envoy/envoy_rls.h"

/* The metadata of a reply, in the arena's memory; null: it has none, or there is no memory. */
Envoy__Service__Ratelimit__V3__Struct *envoy_metadata_make(struct arena *arena,
                                                           const struct envoy_rls_reply *reply);

/* Writes the same as a member of an object, "dynamicMetadata"; nothing where there is none. */
void envoy_metadata_write(struct json_writer *out, const struct envoy_rls_reply *reply);

#endif
