/* json_member.h - a member of a JSON object, key and value, with one call.
 *
 *     json_member_text(&out, "tenant", name);        "tenant":"team-a"
 */
#ifndef TG_TEXT_JSON_MEMBER_H
#define TG_TEXT_JSON_MEMBER_H

#include "io/text/json_write.h"

/* A string, or null where there is none. */
void json_member_text(struct json_writer *out, const char *key, const char *text);

void json_member_number(struct json_writer *out, const char *key, int64_t number);
void json_member_real(struct json_writer *out, const char *key, double number);
void json_member_flag(struct json_writer *out, const char *key, bool flag);
void json_member_null(struct json_writer *out, const char *key);

/* A number, or null where it is `none`. */
void json_member_unless(struct json_writer *out, const char *key, int64_t number, int64_t none);

#endif
