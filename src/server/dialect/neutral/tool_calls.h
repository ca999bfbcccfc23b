/* tool_calls.h - names, ids and arguments of tool calls, as each dialect allows them. */
#ifndef TG_NEUTRAL_TOOL_CALLS_H
#define TG_NEUTRAL_TOOL_CALLS_H

#include "io/text/json_read.h"
#include "server/dialect/neutral/neutral.h"

#define TOOL_NAME_MAX 128
#define CALL_ID_MAX 48

/* The name of a tool as a dialect allows it. It is the same if that is allowed; otherwise its head
 * and a hash, in `room`. */
struct slice neutral_tool_name(struct slice name, enum dialect to, char room[TOOL_NAME_MAX]);

/* The id of a call as a dialect allows it: the same, or a hash. Calls and results are written by
 * it alike, so that they pair without a table. */
struct slice neutral_call_id(struct slice id, enum dialect to, enum neutral_ids ids,
                             char room[CALL_ID_MAX]);

/* Forgets the reader's document. */
bool is_json_object(struct json_reader *json, struct slice text);

#endif
