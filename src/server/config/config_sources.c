/* config_sources.c - the files that a configuration was made of, as they were: names, stamps, hash.
 *
 * A stamp is taken before a file is read. One that changes in between then differs from its stamp,
 * and whoever watches sees it: at worst a file is read once more than it had to be.
 */
#define _DEFAULT_SOURCE /* st_mtim */

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#include "io/text/text_out.h"
#include "server/config/config_reader.h"

/* ---- Names and stamps ---- */

struct source {
    struct source *next;
    struct config_source kept;
};

static void take_stamp(const char *path, struct config_source *source)
{
    struct stat about;

    memset(&source->stamp, 0, sizeof source->stamp);
    if (stat(path, &about) != 0)
        return;
    source->stamp.mtime_ns = about.st_mtim.tv_sec * INT64_C(1000000000) + about.st_mtim.tv_nsec;
    source->stamp.bytes = about.st_size;
    source->stamp.device = about.st_dev;
    source->stamp.inode = about.st_ino;
}

bool config_source_changed(const struct config_source *source)
{
    struct config_source now;

    take_stamp(source->path, &now);
    return now.stamp.mtime_ns != source->stamp.mtime_ns || now.stamp.bytes != source->stamp.bytes ||
           now.stamp.device != source->stamp.device || now.stamp.inode != source->stamp.inode;
}

void config_source_add(struct reader *reader, enum config_source_kind kind, const char *path)
{
    struct source *source = config_scratch(reader, sizeof *source);

    if (source == NULL)
        return;
    source->kept.kind = kind;
    source->kept.path = config_text(reader, path);
    take_stamp(path, &source->kept);
    source->next = reader->sources;
    reader->sources = source;
    reader->n_sources++;
    reader->n_files += kind == CONFIG_SOURCE_FILE;
}

/* The last one is first in the list, and files go before the others. */
void config_sources_keep(struct reader *reader)
{
    size_t file = reader->n_files, other = reader->n_sources;
    struct config_source *list = config_alloc(reader, (other + 1) * sizeof *list);

    if (list == NULL)
        return;
    for (const struct source *source = reader->sources; source != NULL; source = source->next)
        list[source->kept.kind == CONFIG_SOURCE_FILE ? --file : --other] = source->kept;
    assert(file == 0 && other == reader->n_files); /* each has its place */
    reader->config->sources = list;
    reader->config->n_sources = reader->n_sources;
}

/* ---- The hash ---- */

bool config_digest_begin(struct reader *reader)
{
    reader->digest = EVP_MD_CTX_new();
    return reader->digest != NULL && EVP_DigestInit_ex(reader->digest, EVP_sha256(), NULL) == 1;
}

void config_digest_add(struct reader *reader, const void *bytes, size_t n)
{
    if (n > 0 && EVP_DigestUpdate(reader->digest, bytes, n) != 1)
        reader->no_memory = true;
}

void config_digest_end(struct reader *reader)
{
    uint8_t hash[CONFIG_HASH_HEX / 2];
    struct text_out text;

    text_out_fixed(&text, reader->config->hash, CONFIG_HASH_HEX);
    if (reader->digest != NULL && EVP_DigestFinal_ex(reader->digest, hash, NULL) == 1)
        text_out_hex(&text, hash, sizeof hash);
    else
        reader->no_memory = true;
    assert(!text.failed);
    EVP_MD_CTX_free(reader->digest);
    reader->digest = NULL;
}
