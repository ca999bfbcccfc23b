/* descriptor_set.h - which file of contracts defines a name.
 *
 * A compiler of protobuf writes a google.protobuf.FileDescriptorSet; this finds files in it by
 * their names and by what they define, and hands them out as the bytes that they are there. It
 * walks over the bytes each time: some ten KiB, for tools that ask once.
 */
#ifndef TG_GRPC_DESCRIPTOR_SET_H
#define TG_GRPC_DESCRIPTOR_SET_H

#include "io/text/slice.h"

/* The file of that name. False: there is none. */
bool descriptor_set_find_file(struct slice set, struct slice name, struct slice *file);

/* The file that defines a service, a method, a message or an enum of that full name. */
bool descriptor_set_find_symbol(struct slice set, struct slice symbol, struct slice *file);

/* Whether a message of that full name is defined. */
bool descriptor_set_has_message(struct slice set, struct slice name);

/* The set that was made of proto/. */
struct slice descriptor_set_own(void);

#endif
