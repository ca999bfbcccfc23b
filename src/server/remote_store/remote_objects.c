/* remote_objects.c - whose objects are whose, in Redis: see remote_objects.h.
 *
 * A record is a write that stands in a list until Redis has answered it. An ask is several
 * questions, each with a redis_ask of its own; it ends for its owner with the last answer, or the
 * first that is late, and for us when none is in flight.
 *
 * Texts are written with their lengths, since names may hold any byte: "kind:n:m:" and then the
 * tenant's n bytes and the key's m. Members of a tenant's set have the hash, "n:" and the
 * provider's n bytes before that.
 */
#include "server/remote_store/remote_objects.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "lib/core/container_of.h"
#include "server/remote_store/remote_name.h"
#include "server/remote_store/scripts.h"

enum {
    NAME_BYTES = 1024,
    TEXT_BYTES = 2048,
    NUMBER_BYTES = 24,
    LISTED_MAX = 10000,   /* objects of one tenant in its set */
    UNSENT_MAX = 1 << 14, /* records that wait for Redis; what comes then is known here alone */
};

static const tg_ms AGAIN_MS = 250;

struct object_write {
    struct redis_ask ask;
    struct remote_objects *objects;
    STAILQ_ENTRY(object_write) next; /* unsent; in flight it is in no list */
    struct object_write *then;       /* sent once this one has been done; null: nothing */
    remote_object_refused *refused;  /* null: it cannot be */
    void *context;
    uint8_t hash[REMOTE_OBJECT_HASH];  /* where it can be */
    const struct redis_script *script; /* null: a command, whose words these are */
    size_t n_parts;                    /* the first is the key of a script */
    struct slice words[4];
    char bytes[];
};

struct object_question {
    struct redis_ask ask;
    struct remote_objects_ask *of;
    uint8_t hash[REMOTE_OBJECT_HASH];
    bool lists; /* it is for the set of the tenant */
};

struct remote_objects_ask {
    const struct remote_objects_ops *ops;
    void *context;
    struct slice tenant; /* whose set it is; points into `name` */
    size_t in_flight;
    bool told; /* its owner knows, or does not want to */
    char name[NAME_BYTES];
    size_t n;
    struct object_question questions[];
};

struct remote_objects {
    struct net_loop *loop;
    struct redis *redis;
    const char *prefix;
    struct net_timer again;
    size_t n_writes; /* unsent and in flight */
    STAILQ_HEAD(, object_write) unsent;
};

/* ---- names and texts ---- */

static void put_record_name(struct remote_text *to, const char *prefix,
                            const uint8_t hash[REMOTE_OBJECT_HASH])
{
    remote_text_put(to, slice_of(prefix));
    remote_text_put(to, SLICE(":object:{"));
    remote_text_name(to, (struct slice){(const char *)hash, REMOTE_OBJECT_HASH});
    remote_text_put(to, SLICE("}"));
}

static void put_set_name(struct remote_text *to, const char *prefix, struct slice tenant)
{
    remote_text_put(to, slice_of(prefix));
    remote_text_put(to, SLICE(":objects:{"));
    remote_text_name(to, tenant);
    remote_text_put(to, SLICE("}"));
}

static void put_owner(struct remote_text *to, const struct remote_object *object)
{
    char head[64];
    int n =
        snprintf(head, sizeof head, "%d:%zu:%zu:", object->kind, object->tenant.n, object->key.n);

    remote_text_put(to, (struct slice){head, (size_t)n});
    remote_text_put(to, object->tenant);
    remote_text_put(to, object->key);
}

static void put_member(struct remote_text *to, const struct remote_object *object)
{
    char head[NUMBER_BYTES];
    int n = snprintf(head, sizeof head, "%zu:", object->provider.n);

    remote_text_put(to, (struct slice){(const char *)object->hash, REMOTE_OBJECT_HASH});
    remote_text_put(to, (struct slice){head, (size_t)n});
    remote_text_put(to, object->provider);
    put_owner(to, object);
}

/* A number and its colon off the front of a text. */
static bool take_number(struct slice *text, size_t *number)
{
    size_t at = 0;

    *number = 0;
    for (; at < text->n && text->at[at] >= '0' && text->at[at] <= '9' && at < 9; at++)
        *number = *number * 10 + (size_t)(text->at[at] - '0');
    if (at == 0 || at == text->n || text->at[at] != ':')
        return false;
    *text = (struct slice){text->at + at + 1, text->n - at - 1};
    return true;
}

static bool take_bytes(struct slice *text, size_t n, struct slice *bytes)
{
    if (n > text->n)
        return false;
    *bytes = (struct slice){text->at, n};
    *text = (struct slice){text->at + n, text->n - n};
    return true;
}

static bool read_owner(struct slice text, struct remote_object *object)
{
    size_t kind, tenant, key;

    if (!take_number(&text, &kind) || kind > 1 || !take_number(&text, &tenant) ||
        !take_number(&text, &key) || !take_bytes(&text, tenant, &object->tenant) ||
        !take_bytes(&text, key, &object->key))
        return false;
    object->kind = (int)kind;
    return text.n == 0;
}

static bool read_member(struct slice text, struct remote_object *object)
{
    struct slice hash;
    size_t n;

    if (!take_bytes(&text, REMOTE_OBJECT_HASH, &hash))
        return false;
    memcpy(object->hash, hash.at, REMOTE_OBJECT_HASH);
    return take_number(&text, &n) && take_bytes(&text, n, &object->provider) &&
           read_owner(text, object);
}

/* ---- writing ---- */

static void send_write(struct object_write *write)
{
    struct redis *redis = write->objects->redis;

    if (write->script != NULL)
        redis_eval(redis, &write->ask, write->script, write->words, 1, write->words + 1,
                   write->n_parts - 1);
    else
        redis_command(redis, &write->ask, write->words, write->n_parts, 1);
}

static void end_write(struct object_write *write)
{
    if (write == NULL)
        return;
    assert(write->objects->n_writes > 0);
    write->objects->n_writes--;
    end_write(write->then);
    free(write);
}

/* Redis has answered. An error of the server would be the same the next time. */
static void write_done(struct object_write *write, const struct redisReply *reply)
{
    struct object_write *then = write->then;
    struct remote_object object = {.provider = write->words[1]};

    if (redis_reply_integer(reply, 0) == 1 && then != NULL) {
        write->then = NULL;
        send_write(then);
    } else if (write->refused != NULL && redis_reply_integer(reply, 1) == 0 &&
               read_owner(write->words[2], &object)) {
        memcpy(object.hash, write->hash, sizeof object.hash);
        write->refused(write->context, &object);
    }
    end_write(write);
}

static void write_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct object_write *write = container_of(ask, struct object_write, ask);
    struct remote_objects *objects = write->objects;

    if (reply != NULL) {
        write_done(write, reply);
        return;
    }
    if (redis_is_freeing(objects->redis)) {
        end_write(write);
        return;
    }
    STAILQ_INSERT_TAIL(&objects->unsent, write, next);
    if (!net_timer_is_set(&objects->again))
        net_timer_set(objects->loop, &objects->again, AGAIN_MS);
}

static void write_again(void *arg)
{
    struct remote_objects *objects = arg;
    STAILQ_HEAD(, object_write) due = STAILQ_HEAD_INITIALIZER(due);
    struct object_write *write;

    if (!redis_is_up(objects->redis, NULL)) {
        net_timer_set(objects->loop, &objects->again, AGAIN_MS);
        return;
    }
    STAILQ_CONCAT(&due, &objects->unsent);
    while ((write = STAILQ_FIRST(&due)) != NULL) {
        STAILQ_REMOVE_HEAD(&due, next);
        send_write(write);
    }
}

/* Copies the words. Null: there is no memory, or too many wait, and it is not written. */
static struct object_write *write_new(struct remote_objects *objects,
                                      const struct redis_script *script, const struct slice *words,
                                      size_t n_parts)
{
    struct object_write *write;
    size_t bytes = 0;

    assert(n_parts <= sizeof write->words / sizeof write->words[0]);
    for (size_t i = 0; i < n_parts; i++)
        bytes += words[i].n;
    if (objects->n_writes >= UNSENT_MAX || (write = malloc(sizeof *write + bytes)) == NULL)
        return NULL;
    *write = (struct object_write){.objects = objects};
    write->script = script;
    write->n_parts = n_parts;
    bytes = 0;
    for (size_t i = 0; i < n_parts; i++) {
        memcpy(write->bytes + bytes, words[i].at, words[i].n);
        write->words[i] = (struct slice){write->bytes + bytes, words[i].n};
        bytes += words[i].n;
    }
    objects->n_writes++;
    redis_ask_init(&write->ask, write_answered, NULL);
    return write;
}

void remote_objects_put(struct remote_objects *objects, const struct remote_object *object,
                        bool listed, tg_ms life, remote_object_refused *refused, void *context)
{
    char name[NAME_BYTES], text[TEXT_BYTES], number[NUMBER_BYTES], most[NUMBER_BYTES];
    struct remote_text key = {name, sizeof name, 0}, value = {text, sizeof text, 0};
    struct slice for_ms = {number, (size_t)snprintf(number, sizeof number, "%" PRId64, life)};
    struct slice n_most = {most, (size_t)snprintf(most, sizeof most, "%d", LISTED_MAX)};
    struct object_write *write;

    put_record_name(&key, objects->prefix, object->hash);
    put_owner(&value, object);
    if (!remote_text_fits(&key) || !remote_text_fits(&value))
        return;
    write =
        write_new(objects, &script_object_put,
                  (struct slice[]){{name, key.n}, object->provider, {text, value.n}, for_ms}, 4);
    if (write == NULL)
        return;
    write->refused = refused;
    write->context = context;
    memcpy(write->hash, object->hash, sizeof write->hash);
    key.n = value.n = 0;
    put_set_name(&key, objects->prefix, object->tenant);
    put_member(&value, object);
    if (listed && remote_text_fits(&key) && remote_text_fits(&value))
        write->then =
            write_new(objects, &script_object_list,
                      (struct slice[]){{name, key.n}, {text, value.n}, for_ms, n_most}, 4);
    send_write(write);
}

static void send_command(struct remote_objects *objects, const struct slice *words, size_t n)
{
    struct object_write *write = write_new(objects, NULL, words, n);

    if (write != NULL)
        send_write(write);
}

void remote_objects_drop(struct remote_objects *objects, const struct remote_object *object)
{
    char name[NAME_BYTES], text[TEXT_BYTES];
    struct remote_text key = {name, sizeof name, 0}, member = {text, sizeof text, 0};

    put_record_name(&key, objects->prefix, object->hash);
    if (remote_text_fits(&key))
        send_command(objects, (struct slice[]){SLICE("HDEL"), {name, key.n}, object->provider}, 3);
    key.n = 0;
    put_set_name(&key, objects->prefix, object->tenant);
    put_member(&member, object);
    if (remote_text_fits(&key) && remote_text_fits(&member))
        send_command(objects, (struct slice[]){SLICE("ZREM"), {name, key.n}, {text, member.n}}, 3);
}

size_t remote_objects_unsent(const struct remote_objects *objects)
{
    return objects->n_writes;
}

/* ---- looking ---- */

static void tell(struct remote_objects_ask *ask, bool known)
{
    if (ask->told)
        return;
    ask->told = true;
    ask->ops->over(ask->context, known);
}

static void note_record(struct object_question *question, const struct redisReply *reply)
{
    struct remote_objects_ask *ask = question->of;
    struct remote_object object;

    memcpy(object.hash, question->hash, sizeof object.hash);
    for (size_t i = 0; i + 1 < redis_reply_n(reply); i += 2) {
        object.provider = redis_reply_text(redis_reply_at(reply, i));
        if (read_owner(redis_reply_text(redis_reply_at(reply, i + 1)), &object))
            ask->ops->found(ask->context, &object);
    }
}

static void note_set(struct object_question *question, const struct redisReply *reply)
{
    struct remote_objects_ask *ask = question->of;
    struct remote_object object;

    for (size_t i = 0; i < redis_reply_n(reply); i++)
        if (read_member(redis_reply_text(redis_reply_at(reply, i)), &object) &&
            slice_equal(object.tenant, ask->tenant))
            ask->ops->found(ask->context, &object);
}

static void question_answered(struct redis_ask *redis_ask, const struct redisReply *reply)
{
    struct object_question *question = container_of(redis_ask, struct object_question, ask);
    struct remote_objects_ask *ask = question->of;

    assert(ask->in_flight > 0);
    ask->in_flight--;
    if (redis_reply_is_error(reply))
        tell(ask, false);
    else if (!ask->told)
        (question->lists ? note_set : note_record)(question, reply);
    if (ask->in_flight > 0)
        return;
    tell(ask, true);
    free(ask);
}

static void question_late(struct redis_ask *redis_ask)
{
    tell(container_of(redis_ask, struct object_question, ask)->of, false);
}

struct remote_objects_ask *remote_objects_find(struct remote_objects *objects,
                                               const uint8_t (*hashes)[REMOTE_OBJECT_HASH],
                                               size_t n, struct slice tenant,
                                               const struct remote_objects_ops *ops, void *context)
{
    size_t n_all = n + (tenant.n > 0);
    struct remote_objects_ask *ask = malloc(sizeof *ask + n_all * sizeof ask->questions[0]);
    struct remote_text name;

    if (ask == NULL || n_all == 0 || tenant.n > sizeof ask->name ||
        !redis_is_up(objects->redis, NULL)) {
        free(ask);
        return NULL;
    }
    *ask = (struct remote_objects_ask){.ops = ops, .context = context, .n = n_all};
    memcpy(ask->name, tenant.n > 0 ? tenant.at : "", tenant.n);
    ask->tenant = (struct slice){ask->name, tenant.n};
    ask->in_flight = n_all;
    for (size_t i = 0; i < n_all; i++) {
        struct object_question *question = &ask->questions[i];
        char text[NAME_BYTES];
        name = (struct remote_text){text, sizeof text, 0};
        question->of = ask;
        question->lists = i == n;
        redis_ask_init(&question->ask, question_answered, question_late);
        if (i < n) {
            memcpy(question->hash, hashes[i], sizeof question->hash);
            put_record_name(&name, objects->prefix, hashes[i]);
        } else {
            put_set_name(&name, objects->prefix, tenant);
        }
        name.n = remote_text_fits(&name) ? name.n : sizeof text;
        if (i < n)
            redis_command(objects->redis, &question->ask,
                          (struct slice[]){SLICE("HGETALL"), {text, name.n}}, 2, 1);
        else
            redis_command(
                objects->redis, &question->ask,
                (struct slice[]){SLICE("ZRANGE"), {text, name.n}, SLICE("0"), SLICE("-1")}, 4, 1);
    }
    return ask;
}

void remote_objects_cancel(struct remote_objects_ask *ask)
{
    ask->told = true;
}

/* ---- life ---- */

enum tg_err remote_objects_new(struct net_loop *loop, struct redis *redis, const char *prefix,
                               struct remote_objects **made)
{
    struct remote_objects *objects = calloc(1, sizeof *objects);

    if (objects == NULL)
        return TG_ERR_MEMORY;
    objects->loop = loop;
    objects->redis = redis;
    objects->prefix = prefix;
    STAILQ_INIT(&objects->unsent);
    net_timer_init(&objects->again, write_again, objects);
    *made = objects;
    return TG_OK;
}

void remote_objects_free(struct remote_objects *objects)
{
    struct object_write *write;

    if (objects == NULL)
        return;
    net_timer_stop(objects->loop, &objects->again);
    while ((write = STAILQ_FIRST(&objects->unsent)) != NULL) {
        STAILQ_REMOVE_HEAD(&objects->unsent, next);
        end_write(write);
    }
    assert(objects->n_writes == 0);
    free(objects);
}
