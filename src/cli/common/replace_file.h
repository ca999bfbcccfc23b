/* replace_file.h - writing a whole file at once: readers see the old one or the new one. */
#ifndef TG_COMMON_REPLACE_FILE_H
#define TG_COMMON_REPLACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether it could be written, asked before the work that makes its content. False: errno. */
bool replace_file_check(const char *path);

/* Writes the file, in place of what is there. On false errno says why, and what was there is as it
 * was. What is no regular file, such as a pipe or a terminal, is written to. */
bool replace_file(const char *path, const char *bytes, size_t size);

#endif
