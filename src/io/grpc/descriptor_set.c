/* descriptor_set.c - which file of contracts defines a name: see descriptor_set.h.
 *
 * Of each message of descriptor.proto the walk needs a name and the lists of what it defines:
 *
 *     FileDescriptorSet      file = 1
 *     FileDescriptorProto    name = 1, package = 2, message_type = 4, enum_type = 5, service = 6
 *     DescriptorProto        name = 1, nested_type = 3, enum_type = 4
 *     EnumDescriptorProto    name = 1
 *     ServiceDescriptorProto name = 1, method = 2
 *     MethodDescriptorProto  name = 1
 *
 * All of these fields are length-delimited; others are stepped over. Bytes that are cut off end the
 * walk as if nothing came after them.
 */
#include "io/grpc/descriptor_set.h"

#include <stdint.h>

extern const char descriptor_set_bytes[], descriptor_set_end[];

struct slice descriptor_set_own(void)
{
    return (struct slice){descriptor_set_bytes,
                          (size_t)(descriptor_set_end - descriptor_set_bytes)};
}

/* ---- fields on the wire ---- */

static bool take_varint(struct slice *rest, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; shift < 64 && rest->n > 0; shift += 7) {
        unsigned char byte = (unsigned char)*rest->at++;
        rest->n--;
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next field that is length-delimited. False: there is none. */
static bool next_field(struct slice *rest, uint64_t *number, struct slice *value)
{
    uint64_t tag, n;

    while (take_varint(rest, &tag)) {
        *number = tag >> 3;
        n = 0;
        if ((tag & 7) == 1)
            n = 8;
        else if ((tag & 7) == 5)
            n = 4;
        else if (!take_varint(rest, &n))
            return false;
        else if ((tag & 7) == 0)
            n = 0;
        if (n > rest->n)
            return false;
        *value = (struct slice){rest->at, (size_t)n};
        rest->at += n;
        rest->n -= (size_t)n;
        if ((tag & 7) == 2)
            return true;
    }
    return false;
}

static struct slice text_of(struct slice message, uint64_t wanted)
{
    uint64_t number;
    struct slice value;

    while (next_field(&message, &number, &value))
        if (number == wanted)
            return value;
    return (struct slice){"", 0};
}

/* ---- names ---- */

/* Takes `name` and a point from the front of `symbol`; what is left of "a" after "a" is nothing. An
 * empty name, of a file without a package, takes nothing. */
static bool take_name(struct slice *symbol, struct slice name)
{
    if (name.n == 0)
        return true;
    if (symbol->n < name.n || !slice_equal((struct slice){symbol->at, name.n}, name) ||
        (symbol->n > name.n && symbol->at[name.n] != '.') || symbol->n == name.n + 1)
        return false;
    size_t n = symbol->n > name.n ? name.n + 1 : name.n;
    *symbol = (struct slice){symbol->at + n, symbol->n - n};
    return true;
}

/* Whether this message, or one inside it, has the name; `enums`: or an enum inside it. */
static bool message_defines(struct slice message, struct slice symbol, bool enums, unsigned depth)
{
    uint64_t number;
    struct slice value;

    if (!take_name(&symbol, text_of(message, 1)))
        return false;
    if (symbol.n == 0)
        return true;
    while (next_field(&message, &number, &value))
        if ((number == 3 && depth > 0 && message_defines(value, symbol, enums, depth - 1)) ||
            (number == 4 && enums && slice_equal(text_of(value, 1), symbol)))
            return true;
    return false;
}

static bool service_defines(struct slice service, struct slice symbol)
{
    uint64_t number;
    struct slice value;

    if (!take_name(&symbol, text_of(service, 1)))
        return false;
    if (symbol.n == 0)
        return true;
    while (next_field(&service, &number, &value))
        if (number == 2 && slice_equal(text_of(value, 1), symbol))
            return true;
    return false;
}

enum { DEPTH_MAX = 16 };

static bool file_defines(struct slice file, struct slice symbol, bool messages_alone)
{
    uint64_t number;
    struct slice value;

    if (!take_name(&symbol, text_of(file, 2)) || symbol.n == 0)
        return false;
    while (next_field(&file, &number, &value))
        if ((number == 4 && message_defines(value, symbol, !messages_alone, DEPTH_MAX)) ||
            (number == 5 && !messages_alone && slice_equal(text_of(value, 1), symbol)) ||
            (number == 6 && !messages_alone && service_defines(value, symbol)))
            return true;
    return false;
}

/* ---- questions ---- */

bool descriptor_set_find_file(struct slice set, struct slice name, struct slice *file)
{
    uint64_t number;

    while (next_field(&set, &number, file))
        if (number == 1 && name.n > 0 && slice_equal(text_of(*file, 1), name))
            return true;
    return false;
}

bool descriptor_set_find_symbol(struct slice set, struct slice symbol, struct slice *file)
{
    uint64_t number;

    while (next_field(&set, &number, file))
        if (number == 1 && symbol.n > 0 && file_defines(*file, symbol, false))
            return true;
    return false;
}

bool descriptor_set_has_message(struct slice set, struct slice name)
{
    struct slice file;
    uint64_t number;

    while (next_field(&set, &number, &file))
        if (number == 1 && name.n > 0 && file_defines(file, name, true))
            return true;
    return false;
}
