/* grpc_cut.c - texts that seem to end before they do: those with a zero byte in them.
 *
 * A text of protobuf may have any characters, a zero among them; the codec makes a string of C out
 * of it, which ends there. "victim\0x" would so become "victim", and a name that somebody chose be
 * that of somebody else. So who decides by texts asks for the field that has one.
 *
 * Most messages have no zero byte anywhere, which memchr() says. In the others it is mostly one of
 * a number: the fields are walked through as they arrived, and texts looked into.
 */
#include <string.h>

#include "io/grpc/grpc_internal.h"

enum { DEPTH_MAX = 8 }; /* deeper than any message that is taken here */

enum { WIRE_VARINT, WIRE_8, WIRE_BYTES, WIRE_4 = 5 };

/* False: it does not end here. */
static bool read_varint(struct slice *left, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; shift < 64 && left->n > 0; shift += 7) {
        unsigned char byte = (unsigned char)*left->at;
        left->at++;
        left->n--;
        *number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* What stands behind a tag. False: there is no such kind, or it does not end here. */
static bool grpc_cut_read_field(struct slice *left, unsigned kind, struct slice *bytes)
{
    uint64_t number = 0;

    *bytes = (struct slice){NULL, 0};
    if (kind == WIRE_VARINT)
        return read_varint(left, &number);
    if (kind == WIRE_8 || kind == WIRE_4)
        number = kind == WIRE_8 ? 8 : 4;
    else if (kind != WIRE_BYTES || !read_varint(left, &number))
        return false;
    if (number > left->n)
        return false;
    *bytes = (struct slice){left->at, (size_t)number};
    left->at += number;
    left->n -= (size_t)number;
    return true;
}

static const char *grpc_cut_find(const ProtobufCMessageDescriptor *type, struct slice left,
                                 int depth)
{
    const char *found = NULL;
    struct slice bytes;
    uint64_t tag;

    while (found == NULL && left.n > 0 && read_varint(&left, &tag) &&
           grpc_cut_read_field(&left, (unsigned)(tag & 7), &bytes)) {
        const ProtobufCFieldDescriptor *field =
            (tag & 7) == WIRE_BYTES && bytes.n > 0 && tag >> 3 <= UINT32_MAX
                ? protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3))
                : NULL;
        if (field == NULL || memchr(bytes.at, 0, bytes.n) == NULL)
            continue;
        if (field->type == PROTOBUF_C_TYPE_STRING)
            found = field->name;
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth < DEPTH_MAX)
            found = grpc_cut_find(field->descriptor, bytes, depth + 1);
    }
    return found;
}

const char *grpc_find_cut(const ProtobufCMessageDescriptor *type, struct slice message)
{
    if (message.n == 0 || memchr(message.at, 0, message.n) == NULL)
        return NULL;
    return grpc_cut_find(type, message, 0);
}
