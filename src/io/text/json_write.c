/* json_write.c - writing JSON, appended to a buffer that grows.
 *
 * All JSON documents that the program prints come from here, so that strings are escaped and
 * numbers are printed in one way. It appends and never looks back: a replay writes millions of
 * lines, and printf alone would take longer than all the decisions.
 */
#include "io/text/json_write.h"

/* What has to stand before a value or a key. */
static inline void separate(struct json_writer *writer)
{
    if (writer->comma)
        text_out_char(&writer->text, ',');
    writer->comma = true;
}

void json_writer_init(struct json_writer *writer)
{
    *writer = (struct json_writer){0};
}

void json_writer_fini(struct json_writer *writer)
{
    text_out_fini(&writer->text);
    json_writer_init(writer);
}

void json_writer_clear(struct json_writer *writer)
{
    writer->text.size = 0;
    writer->escapes = 0;
    writer->comma = false;
}

static void open_bracket(struct json_writer *writer, char bracket)
{
    separate(writer);
    text_out_char(&writer->text, bracket);
    writer->comma = false;
}

static void close_bracket(struct json_writer *writer, char bracket)
{
    text_out_char(&writer->text, bracket);
    writer->comma = true;
}

void json_write_object(struct json_writer *writer)
{
    open_bracket(writer, '{');
}

void json_write_object_end(struct json_writer *writer)
{
    close_bracket(writer, '}');
}

void json_write_array(struct json_writer *writer)
{
    open_bracket(writer, '[');
}

void json_write_array_end(struct json_writer *writer)
{
    close_bracket(writer, ']');
}

void json_write_string(struct json_writer *writer, const char *bytes, size_t size)
{
    separate(writer);
    size_t before = writer->text.size;
    text_out_json(&writer->text, (struct slice){bytes, size});
    if (writer->text.size > before + size + 2)
        writer->escapes += writer->text.size - before - size - 2;
}

void json_write_key(struct json_writer *writer, const char *key)
{
    separate(writer);
    text_out_json(&writer->text, slice_of(key));
    text_out_char(&writer->text, ':');
    writer->comma = false;
}

void json_write_raw(struct json_writer *writer, const char *bytes, size_t size)
{
    separate(writer);
    text_out_put(&writer->text, bytes, size);
}

void json_write_integer(struct json_writer *writer, int64_t value)
{
    separate(writer);
    text_out_number(&writer->text, value);
}

void json_write_double(struct json_writer *writer, double value)
{
    separate(writer);
    text_out_double(&writer->text, value);
}

void json_write_bool(struct json_writer *writer, bool value)
{
    separate(writer);
    text_out_text(&writer->text, value ? "true" : "false");
}

void json_write_null(struct json_writer *writer)
{
    separate(writer);
    text_out_put(&writer->text, "null", 4);
}

void json_write_line_end(struct json_writer *writer)
{
    text_out_char(&writer->text, '\n');
    writer->comma = false;
}
