/* path_pattern.h - paths with stars: what a passthrough serves, and what a tenant may use of it.
 *
 *     "/v1/moderations"      this path alone
 *     "/v1/files/" and "*"   /v1/files and everything below it
 *     a "*" further ahead    one segment, whatever it is
 *
 * A star is a whole segment. The last one stands for any number of segments, none too: whoever may
 * list and upload files has to reach the path above them. Any other stands for exactly one.
 *
 * Paths are compared byte by byte, and only plain ones match anything: a path with an escape, an
 * empty segment or a "." may mean one object here and another one at the provider.
 */
#ifndef TG_DIALECT_PATH_PATTERN_H
#define TG_DIALECT_PATH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "io/text/slice.h"

/* What is wrong with a pattern, in words that stand after "it must be"; null: nothing. Static. */
const char *path_pattern_problem(const char *pattern);

/* Whether a path without its query has one reading only: "/" and segments of letters, digits and
 * "-._~:@!$'()+,=" with none empty, "." or "..". */
bool path_is_plain(struct slice path);

/* The path of a target: all before its query. */
struct slice path_of_target(struct slice target);

/* The path must be plain, and the pattern without a problem, here and below. */
bool path_pattern_matches(const char *pattern, struct slice path);

/* Whether every path that matches `b` matches `a`, and whether some path matches both. */
bool path_pattern_covers(const char *a, const char *b);
bool path_pattern_overlaps(const char *a, const char *b);

/* Takes the first segment off a path or pattern. False: there is none. */
bool path_next(struct slice *rest, struct slice *segment);

#endif
