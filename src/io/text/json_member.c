/* json_member.c - a member of a JSON object, key and value, with one call. See json_member.h. */
#include "io/text/json_member.h"

#include <string.h>

void json_member_text(struct json_writer *out, const char *key, const char *text)
{
    json_write_key(out, key);
    if (text != NULL)
        json_write_string(out, text, strlen(text));
    else
        json_write_null(out);
}

void json_member_number(struct json_writer *out, const char *key, int64_t number)
{
    json_write_key(out, key);
    json_write_integer(out, number);
}

void json_member_real(struct json_writer *out, const char *key, double number)
{
    json_write_key(out, key);
    json_write_double(out, number);
}

void json_member_flag(struct json_writer *out, const char *key, bool flag)
{
    json_write_key(out, key);
    json_write_bool(out, flag);
}

void json_member_null(struct json_writer *out, const char *key)
{
    json_write_key(out, key);
    json_write_null(out);
}

void json_member_unless(struct json_writer *out, const char *key, int64_t number, int64_t none)
{
    if (number == none)
        json_member_null(out, key);
    else
        json_member_number(out, key, number);
}
