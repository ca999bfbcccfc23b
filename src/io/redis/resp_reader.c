/* resp_reader.c - replies, parsed by hiredis into an arena that is emptied for each. See resp.h.
 *
 * A reply is looked at once, by whoever asked, and then forgotten: one region of memory for all its
 * parts is enough, and is kept from reply to reply. Only a reply that does not fit takes more, and
 * gives it back.
 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/redis/resp.h"

#define CHUNK_BYTES 4096

struct chunk {
    struct chunk *next;
    size_t used, capacity;
    max_align_t bytes[];
};

struct resp_reader {
    redisReader *hiredis;
    redisReplyObjectFunctions functions;
    struct chunk *first; /* kept */
    struct chunk *now;   /* where memory is taken from; `first`, or what follows it */
    size_t taken;        /* bytes, of the reply that is being read */
    const char *problem; /* null: hiredis has it */
};

static struct chunk *chunk_new(size_t capacity)
{
    struct chunk *chunk = malloc(sizeof *chunk + capacity);

    if (chunk != NULL)
        *chunk = (struct chunk){.capacity = capacity};
    return chunk;
}

static void *resp_reader_take(struct resp_reader *reader, size_t bytes)
{
    struct chunk *chunk = reader->now;

    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (bytes > RESP_REPLY_MAX - reader->taken) {
        reader->problem = "a reply that is too large";
        return NULL;
    }
    if (chunk->capacity - chunk->used < bytes) {
        chunk = chunk_new(bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        chunk->next = reader->first->next;
        reader->first->next = chunk;
        reader->now = chunk;
    }
    assert(chunk->used + bytes <= chunk->capacity);
    void *memory = (char *)chunk->bytes + chunk->used;
    chunk->used += bytes;
    reader->taken += bytes;
    return memory;
}

static void empty(struct resp_reader *reader)
{
    while (reader->first->next != NULL) {
        struct chunk *chunk = reader->first->next;

        reader->first->next = chunk->next;
        free(chunk);
    }
    reader->first->used = 0;
    reader->now = reader->first;
    reader->taken = 0;
}

/* ---- What hiredis asks for ------------------------------------------------------------------- */

static redisReply *create(const redisReadTask *task, int type)
{
    redisReply *reply = resp_reader_take(task->privdata, sizeof *reply);

    if (reply == NULL)
        return NULL;
    *reply = (redisReply){.type = type};
    if (task->parent != NULL) {
        redisReply *parent = task->parent->obj;
        assert((size_t)task->idx < parent->elements);
        parent->element[task->idx] = reply;
    }
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t n)
{
    char *copy = resp_reader_take(task->privdata, n + 1);
    redisReply *reply = copy != NULL ? create(task, task->type) : NULL;

    if (reply == NULL)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    reply->str = copy;
    reply->len = n;
    return reply;
}

static void *create_array(const redisReadTask *task, int n)
{
    struct resp_reader *reader = task->privdata;

    if (n < 0 || n > RESP_ARRAY_MAX) {
        reader->problem = "a reply that is too large";
        return NULL;
    }
    redisReply *reply = create(task, REDIS_REPLY_ARRAY);
    if (reply == NULL || n == 0)
        return reply;
    reply->element = resp_reader_take(reader, (size_t)n * sizeof(redisReply *));
    if (reply->element == NULL)
        return NULL;
    memset(reply->element, 0, (size_t)n * sizeof(redisReply *));
    reply->elements = (size_t)n;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *reply = create(task, REDIS_REPLY_INTEGER);

    if (reply != NULL)
        reply->integer = value;
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    return create(task, REDIS_REPLY_NIL);
}

static void free_nothing(void *reply)
{
    (void)reply;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct resp_reader *resp_reader_new(void)
{
    struct resp_reader *reader = calloc(1, sizeof *reader);

    if (reader == NULL)
        return NULL;
    reader->first = reader->now = chunk_new(CHUNK_BYTES);
    reader->functions = (redisReplyObjectFunctions){
        .createString = create_string,
        .createArray = create_array,
        .createInteger = create_integer,
        .createNil = create_nil,
        .freeObject = free_nothing,
    };
    reader->hiredis = redisReaderCreateWithFunctions(&reader->functions);
    if (reader->first == NULL || reader->hiredis == NULL) {
        resp_reader_free(reader);
        return NULL;
    }
    reader->hiredis->privdata = reader;
    return reader;
}

void resp_reader_free(struct resp_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->hiredis != NULL)
        redisReaderFree(reader->hiredis);
    if (reader->first != NULL)
        empty(reader);
    free(reader->first);
    free(reader);
}

bool resp_reader_feed(struct resp_reader *reader, const char *bytes, size_t n)
{
    redisReader *hiredis = reader->hiredis;

    if (hiredis->len - hiredis->pos + n > RESP_REPLY_MAX) {
        reader->problem = "a reply that is too large";
        return false;
    }
    return redisReaderFeed(hiredis, bytes, n) == REDIS_OK;
}

bool resp_reader_next(struct resp_reader *reader, const struct redisReply **reply)
{
    void *found = NULL;

    /* A reply that is half read stays: hiredis continues with it. */
    if (reader->hiredis->ridx == -1)
        empty(reader);
    if (redisReaderGetReply(reader->hiredis, &found) != REDIS_OK)
        return false;
    *reply = found;
    return true;
}

const char *resp_reader_problem(const struct resp_reader *reader)
{
    return reader->problem != NULL ? reader->problem : reader->hiredis->errstr;
}
