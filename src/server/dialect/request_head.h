/* request_head.h - the head of a call: what is wrong with it before a byte of its body is read. */
#ifndef TG_DIALECT_REQUEST_HEAD_H
#define TG_DIALECT_REQUEST_HEAD_H

#include "io/http/http.h"

/* Whether the body is said to be JSON, and to be encoded in no way: by one header each. What is
 * said to be something else than it is would be read by us, and not by the provider. */
bool request_head_is_json(const struct http_head *head);

/* The name of a header that we act on and that comes twice; `at` is null: there is none. Of two,
 * one program takes the first, another the last. `user` may be empty: the header that names users.
 */
struct slice request_head_twice(const struct http_head *head, struct slice user);

/* Whether its body is not encoded, and what it is is said at most once. */
bool request_head_is_single(const struct http_head *head);

#endif
