/* web_files.c - the dashboard's files: finding one of a handful. */
#include "server/admin/web_files.h"

const struct web_file *web_file_find(struct slice path)
{
    for (size_t i = 0; i < web_files_n; i++)
        if (slice_equal(path, slice_of(web_files[i].path)))
            return &web_files[i];
    return NULL;
}
