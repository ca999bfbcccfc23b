/* resp.h - the words of Redis: commands written, replies read, errors told apart.
 *
 * Commands are written by us, into memory that is there already: hiredis would allocate for each.
 * Replies are parsed by hiredis, which asks us for the memory of each: it comes from an arena that
 * is emptied when the next reply is read, so that a warm connection allocates nothing. The arena
 * and the unread bytes are bounded: a few bytes of garbage can announce gigabytes.
 */
#ifndef TG_REDIS_RESP_H
#define TG_REDIS_RESP_H

#include <hiredis/hiredis.h>
#include <stdint.h>

#include "io/text/slice.h"

/* ---- Commands -------------------------------------------------------------------------------- */

/* Bytes of "*n\r\n", and of a word with its length. */
size_t resp_head_bytes(size_t n);
size_t resp_word_bytes(size_t n);

/* Each writes at `at` and returns the place after. */
char *resp_put_head(char *at, size_t n);
char *resp_put_word(char *at, struct slice word);

size_t resp_command_bytes(const struct slice *words, size_t n);
char *resp_put_command(char *at, const struct slice *words, size_t n);

/* Memory for commands: sizes are powers of two, and what is given back is kept for the next. */
#define RESP_SIZES 8
#define RESP_SIZE_MIN 256
#define RESP_KEPT_MAX 1024 /* for each size */

struct resp_pool {
    struct resp_spare *spare[RESP_SIZES];
    size_t n[RESP_SIZES];
};

char *resp_pool_take(struct resp_pool *pool, size_t bytes); /* null: no memory */
void resp_pool_give(struct resp_pool *pool, char *memory,
                    size_t bytes); /* the size that was taken */
void resp_pool_fini(struct resp_pool *pool);

/* ---- Replies --------------------------------------------------------------------------------- */

#define RESP_REPLY_MAX (8u << 20) /* bytes of one reply, on the wire and in memory */
#define RESP_ARRAY_MAX 65536      /* elements of one array */

struct resp_reader;

struct resp_reader *resp_reader_new(void); /* null: no memory */
void resp_reader_free(struct resp_reader *reader);

/* False: what came is none of ours; resp_reader_problem() says why, and there is no way on. */
bool resp_reader_feed(struct resp_reader *reader, const char *bytes, size_t n);

/* The next reply, good until the next call. Null in `reply`: there is none yet. False as above. */
bool resp_reader_next(struct resp_reader *reader, const struct redisReply **reply);
const char *resp_reader_problem(const struct resp_reader *reader);

/* ---- Errors ---------------------------------------------------------------------------------- */

enum resp_error {
    RESP_FINE,  /* no error at all */
    RESP_ERROR, /* one that is between the asker and the server */
    RESP_NOSCRIPT,
    RESP_MOVED,
    RESP_ASK,
    RESP_TRYAGAIN,
    RESP_CLUSTERDOWN,
    RESP_READONLY,
    RESP_NOAUTH,
    RESP_NOPERM,     /* the command, or one of the script's, or a key; or it has no such command */
    RESP_NO_EVALSHA, /* the same of EVALSHA: the text may be allowed */
    RESP_UNWELL,     /* LOADING, MASTERDOWN, OOM, MISCONF, NOREPLICAS, BUSY */
};

enum resp_error resp_error_of(const struct redisReply *reply);

/* "MOVED 3999 127.0.0.1:6381". `host` is cut out of the text, and empty if it is the same as that
 * of the server that answered. False: it makes no sense. */
bool resp_read_redirect(const struct redisReply *reply, unsigned *slot, struct slice *host,
                        int *port);

#endif
