/* replace_file.c - writing a whole file at once.
 *
 * The bytes go to a new file beside the old one, to the disk, and then under its name: whoever
 * reads it meanwhile, and whatever goes wrong, half a file is never seen. A link stays a link, and
 * what it points to is replaced.
 */
#define _XOPEN_SOURCE 700 /* realpath() */

#include "cli/common/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100

static bool replace_file_write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* Where the file is, links followed; to be freed. `device`: it is there and not a regular file. */
static char *find_place(const char *path, bool *device)
{
    struct stat status;

    *device = false;
    if (stat(path, &status) != 0)
        return errno == ENOENT ? strdup(path) : NULL;
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return NULL;
    }
    *device = !S_ISREG(status.st_mode);
    return *device ? strdup(path) : realpath(path, NULL);
}

/* Makes a file beside `place` that was not there; its name is to be freed. -1: errno. */
static int open_beside(const char *place, char **name)
{
    size_t size = strlen(place) + 64;
    int fd = -1;

    *name = malloc(size);
    if (*name == NULL)
        return -1;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        snprintf(*name, size, "%s.%ld-%d.tmp", place, (long)getpid(), i);
        fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

static bool write_device(const char *place, const char *bytes, size_t size)
{
    int fd = open(place, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && replace_file_write_all(fd, bytes, size);

    return fd >= 0 && close(fd) == 0 && written;
}

static bool write_beside(const char *place, const char *bytes, size_t size)
{
    char *name;
    int fd = open_beside(place, &name);
    bool written = fd >= 0 && replace_file_write_all(fd, bytes, size) && fsync(fd) == 0;
    int why = errno;

    if (fd >= 0 && close(fd) != 0 && written) {
        written = false;
        why = errno;
    }
    if (written && rename(name, place) != 0) {
        written = false;
        why = errno;
    }
    if (fd >= 0 && !written)
        unlink(name);
    free(name);
    errno = why;
    return written;
}

bool replace_file_check(const char *path)
{
    bool device;
    char *place = find_place(path, &device), *name = NULL;
    int fd = -1;

    if (place == NULL)
        return false;
    if (device) {
        fd = access(place, W_OK);
    } else {
        fd = open_beside(place, &name);
        if (fd >= 0) {
            close(fd);
            unlink(name);
        }
    }
    int why = errno;
    free(name);
    free(place);
    errno = why;
    return fd >= 0;
}

bool replace_file(const char *path, const char *bytes, size_t size)
{
    bool device;
    char *place = find_place(path, &device);

    if (place == NULL)
        return false;
    bool written = device ? write_device(place, bytes, size) : write_beside(place, bytes, size);
    int why = errno;
    free(place);
    errno = why;
    return written;
}
