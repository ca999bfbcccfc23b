/* config_secrets.c - secrets of a configuration: read, kept apart, wiped.
 *
 * A secret is in this process as long as the configuration that holds it, and not a moment longer:
 * its bytes are on a list that config_free() walks and wipes, and what was copied of variables
 * while reading is wiped when the reading ends. Not by memset(), which a compiler may leave out
 * when nobody reads the bytes again; explicit_bzero() is the promise that it does not.
 *
 * What remains is what libyaml has copied of a secret that stands in the file itself. That is
 * warned of for other reasons.
 */
#define _DEFAULT_SOURCE /* explicit_bzero */

#include "server/config/config_reader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SECRET_BYTES_MAX = 8000,        /* what a header may carry */
    DOCUMENT_BYTES_MAX = 64 * 1024, /* a service account has 2,400 */
};

struct config_secrets {
    struct config_secrets *next;
    size_t bytes;
    char text[];
};

/* ---- Wiping ---- */

void config_wipe(void *memory, size_t bytes)
{
    if (memory != NULL && bytes > 0)
        explicit_bzero(memory, bytes);
}

void config_wipe_secrets(struct config *config)
{
    for (struct config_secrets *secret = config->secrets; secret != NULL; secret = secret->next)
        config_wipe(secret->text, secret->bytes);
    config->secrets = NULL;
}

void config_wipe_later(struct reader *reader, const char *text, size_t bytes)
{
    struct wipe *wipe = config_scratch(reader, sizeof *wipe);

    if (wipe == NULL) {
        config_wipe((char *)text, bytes); /* the reading has failed anyway */
        return;
    }
    *wipe = (struct wipe){reader->wipes, (char *)text, bytes};
    reader->wipes = wipe;
}

void config_wipe_now(struct reader *reader)
{
    for (struct wipe *wipe = reader->wipes; wipe != NULL; wipe = wipe->next)
        config_wipe(wipe->text, wipe->bytes);
    reader->wipes = NULL;
}

/* ---- Keeping ---- */

static struct config_secrets *add_secret(struct reader *reader, const char *text, size_t bytes)
{
    struct config_secrets *kept = config_alloc(reader, sizeof *kept + bytes + 1);

    if (kept == NULL)
        return NULL;
    memcpy(kept->text, text, bytes);
    kept->bytes = bytes;
    kept->next = reader->config->secrets;
    reader->config->secrets = kept;
    return kept;
}

const char *config_secret_text(struct reader *reader, const char *text)
{
    struct config_secrets *kept = add_secret(reader, text, strlen(text));

    return kept != NULL ? kept->text : "";
}

bool config_keep_secret(struct reader *reader, const char *text, size_t bytes,
                        struct config_secret *into)
{
    struct config_secrets *kept = add_secret(reader, text, bytes);

    if (kept == NULL)
        return false;
    into->bytes = kept->text;
    into->size = bytes;
    return true;
}

static bool keep_secret(struct reader *reader, const struct yaml_node *node, const char *text,
                        size_t bytes, struct config_secret *into)
{
    bool sendable = bytes <= SECRET_BYTES_MAX;

    /* What cannot stand in a header would end one if it got there. */
    for (size_t i = 0; i < bytes && sendable; i++)
        sendable = (unsigned char)text[i] >= ' ' && (unsigned char)text[i] <= '~';
    if (!sendable) {
        config_error(reader, node,
                     "%s holds a secret that cannot be sent; it must be 1 to %d printable ASCII "
                     "characters",
                     reader->path, SECRET_BYTES_MAX);
        return false;
    }
    return config_keep_secret(reader, text, bytes, into);
}

/* ---- Files ---- */

/* The first line, without what is blank at its end; one byte more than is allowed, so that too much
 * is seen to be. -1: it cannot be read. */
static ssize_t read_first_line(const char *path, char *line, size_t room)
{
    /* O_NONBLOCK: this must not wait for the other end, should it be a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    size_t used = 0;
    ssize_t got = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        do {
            got = read(fd, line + used, room - used);
            used += got > 0 ? (size_t)got : 0;
        } while ((got > 0 && used < room) || (got < 0 && errno == EINTR));
    }
    close(fd);
    if (got < 0)
        return -1;
    const char *end = used > 0 ? memchr(line, '\n', used) : NULL;
    used = end != NULL ? (size_t)(end - line) : used;
    assert(used <= room);
    while (used > 0 && strchr(" \t\r", line[used - 1]) != NULL && line[used - 1] != '\0')
        used--;
    return (ssize_t)used;
}

static bool read_secret_file(struct reader *reader, const struct yaml_node *node,
                             struct config_secret *into)
{
    char line[SECRET_BYTES_MAX + 2];
    const char *shown = node->text == node->written ? node->text + 5 : node->written;
    bool good = true;

    into->file = config_locate(reader, node->text + 5);
    if (into->file == NULL || reader->documents[reader->current].folder == NULL)
        return into->file != NULL;
    config_source_add(reader, CONFIG_SOURCE_SECRET, into->file);
    ssize_t bytes = read_first_line(into->file, line, sizeof line);
    if (bytes < 0)
        config_missing(reader, node, false, "%s: the file %.200s cannot be read", reader->path,
                       shown);
    else if (bytes == 0)
        config_missing(reader, node, false, "%s: the first line of the file %.200s is empty",
                       reader->path, shown);
    else
        good = keep_secret(reader, node, line, (size_t)bytes, into);
    config_wipe(line, sizeof line);
    return good;
}

static void warn_of_written(struct reader *reader, const struct yaml_node *node)
{
    if (node->text != node->written)
        return;
    config_warning(reader, node,
                   "%s is a secret that is written in the file; take it from ${NAME} or file:PATH",
                   reader->path);
    config_wipe_later(reader, node->text, node->bytes);
}

bool config_read_secret(struct reader *reader, const struct yaml_node *node,
                        struct config_secret *into)
{
    struct config_secret nowhere;

    if (into == NULL)
        into = &nowhere;
    *into = (struct config_secret){0};
    if (strncmp(node->text, "file:", 5) == 0)
        return read_secret_file(reader, node, into);
    warn_of_written(reader, node);
    return keep_secret(reader, node, node->text, node->bytes, into);
}

static bool read_document_file(struct reader *reader, const struct yaml_node *node,
                               struct config_secret *into)
{
    const char *shown = node->text == node->written ? node->text + 5 : node->written;
    size_t bytes = 0;
    bool good = true;

    into->file = config_locate(reader, node->text + 5);
    if (into->file == NULL || reader->documents[reader->current].folder == NULL)
        return into->file != NULL;
    config_source_add(reader, CONFIG_SOURCE_SECRET, into->file);
    char *text = config_read_whole(into->file, &bytes);
    if (text == NULL)
        config_missing(reader, node, false, "%s: the file %.200s cannot be read", reader->path,
                       shown);
    else if (bytes > DOCUMENT_BYTES_MAX)
        config_error(reader, node, "%s: the file %.200s is too large; it may have %d bytes",
                     reader->path, shown, DOCUMENT_BYTES_MAX);
    else
        good = config_keep_secret(reader, text, bytes, into);
    config_wipe(text, bytes);
    free(text);
    return good;
}

bool config_read_secret_document(struct reader *reader, const struct yaml_node *node,
                                 struct config_secret *into)
{
    struct config_secret nowhere;

    if (into == NULL)
        into = &nowhere;
    *into = (struct config_secret){0};
    if (strncmp(node->text, "file:", 5) == 0)
        return read_document_file(reader, node, into);
    warn_of_written(reader, node);
    return config_keep_secret(reader, node->text, node->bytes, into);
}
