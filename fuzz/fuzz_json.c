/* fuzz_json.c - any bytes as JSON: read, written, and read again.
 *
 * A document that is accepted when all of it is entered is accepted when all of it is passed over;
 * what was read is written as JSON, and reading that gives the same once more.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "io/text/json_read.h"
#include "io/text/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_scalar(struct json_writer *out, const struct json_value *value)
{
    switch (value->kind) {
    case JSON_BOOL:
        json_write_bool(out, value->boolean);
        break;
    case JSON_INTEGER:
        json_write_integer(out, value->integer);
        break;
    case JSON_DOUBLE:
        json_write_double(out, value->real);
        break;
    case JSON_STRING:
        json_write_string(out, value->string.bytes, value->string.size);
        break;
    default: /* a huge number has no value that could be written */
        json_write_null(out);
        break;
    }
}

/* The keys of the reader have a size, those of the writer end with 0. */
static void write_key(struct json_writer *out, struct json_text key)
{
    char name[256];
    size_t n = 0;

    for (; n < key.size && n < sizeof name - 1; n++)
        name[n] = key.bytes[n] == '\0' ? '0' : key.bytes[n];
    name[n] = '\0';
    json_write_key(out, name);
}

/* Enters everything, as deep as it goes, and writes what is there. */
static void copy_value(struct json_reader *reader, const struct json_value *value,
                       struct json_writer *out)
{
    struct json_text key;
    struct json_value inner;
    bool object = value->kind == JSON_OBJECT;

    if (!object && value->kind != JSON_ARRAY) {
        write_scalar(out, value);
        return;
    }
    if (object)
        json_write_object(out);
    else
        json_write_array(out);
    if (json_enter(reader)) {
        while (json_next(reader, &key, &inner)) {
            if (object)
                write_key(out, key);
            copy_value(reader, &inner, out);
        }
    }
    if (object)
        json_write_object_end(out);
    else
        json_write_array_end(out);
}

static bool copy(struct json_reader *reader, const char *text, size_t bytes,
                 struct json_writer *out)
{
    struct json_value root;

    json_writer_clear(out);
    if (json_begin(reader, text, bytes, bytes, &root))
        copy_value(reader, &root, out);
    if (json_end(reader))
        return true;
    const struct json_problem *problem = json_reader_problem(reader);
    insist(problem != NULL && problem->offset <= bytes);
    return false;
}

static bool pass(struct json_reader *reader, const char *text, size_t bytes)
{
    struct json_value root;

    json_begin(reader, text, bytes, bytes, &root);
    return json_end(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *reader; /* kept, as in a process that reads many documents */
    static struct json_writer first, second;

    if (reader == NULL)
        insist((reader = json_reader_new()) != NULL);

    bool good = copy(reader, (const char *)data, size, &first);
    bool passed = pass(reader, (const char *)data, size);
    insist(passed || !good);
    if (!good)
        return 0;
    /* Keys that were cut to 255 bytes may have become the same. */
    if (copy(reader, first.text.bytes, first.text.size, &second)) {
        insist(first.text.size == second.text.size);
        insist(memcmp(first.text.bytes, second.text.bytes, first.text.size) == 0);
    } else {
        insist(strstr(json_reader_problem(reader)->text, "twice") != NULL);
    }
    return 0;
}
