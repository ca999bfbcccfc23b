/* config_folder.h - configurations whose files stand in a folder of the test's own. */
#ifndef CONFIG_FOLDER_H
#define CONFIG_FOLDER_H

#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config/config.h"

struct read {
    struct config config;
    struct config_problems problems;
    char folder[64];
};

static inline void open_folder(struct read *read)
{
    const char *in = getenv("TMPDIR");
    int bytes =
        snprintf(read->folder, sizeof read->folder, "%.40s/config-", in != NULL ? in : "/tmp");

    memset(read->folder + bytes, 'X', 6); /* to be replaced */
    read->folder[bytes + 6] = '\0';
    assert_non_null(mkdtemp(read->folder));
}

static inline const char *path_of(const struct read *read, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", read->folder, name);
    return path;
}

static inline void close_config(struct read *read)
{
    config_free(&read->config);
    config_problems_free(&read->problems);
}

static inline void empty_folder(const char *folder)
{
    DIR *list = opendir(folder);
    char path[1024];

    assert_non_null(list);
    for (struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%.500s/%s", folder, entry->d_name);
        if (unlink(path) != 0)
            empty_folder(path);
    }
    closedir(list);
    assert_int_equal(rmdir(folder), 0);
}

#endif
