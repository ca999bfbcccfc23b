/* call_objects.c - objects that a provider keeps, at the places where a call names or makes them.
 *
 * Tenants share a provider's account, so what one has made is there for all of them by its id. A
 * call may name an object in its path, its query or its body; each has to be its tenant's own, or
 * to the call there is nothing: 404. What a reply makes is the tenant's from then on
 * (runtime/object_owners.h), and of a list it is shown what is its own.
 *
 *     path     /v1/files/file-abc/content: where the row has a star, a segment with the form of an
 *              id is the tenant's own. Below one of its own it may be any but another tenant's: the
 *              provider knows what belongs to an object, and we do not.
 *     query    fields that name objects, such as file_id
 *     body     the same of JSON and forms; for calls of models, where the reading of the body says
 *              that there may be some
 *     reply    of what makes: the id at its top; of GET above all objects: a list
 *
 * What nobody is known to have made is refused, unless `unknown_objects` says otherwise. Where the
 * store is Redis, all gateways are asked first: what is unknown here is noted while the request is
 * read, and looked for when all of it is there (AT_OBJECTS); then it is looked at again. A list is
 * asked for all that the tenant has made. Texts that only may name an object are held against what
 * is known here alone.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "server/dialect/object_refs.h"
#include "server/dialect/path_pattern.h"
#include "server/proxy/call.h"
#include "server/runtime/object_owners.h"

enum { UNKNOWN_MAX = 64 }; /* objects that a call may ask the remote store about */

/* ---- Whose ---- */

static bool is_unknown_allowed(const struct call *call)
{
    return call->generation->config.unknown_objects == CONFIG_OBJECTS_ALLOW;
}

/* Whether the remote store is going to say whose it is. False: it cannot be asked about it. */
static bool ask_later(struct call *call, struct slice id, bool in_path)
{
    struct call_objects *objects = &call->objects;

    assert(id.n <= OBJECT_ID_MAX); /* whoever reads requests passes over what is longer */
    if (call->gateway->remote == NULL || objects->asked || objects->n_unknown == UNKNOWN_MAX ||
        !array_reserve(&objects->unknown, &objects->unknown_room, objects->n_unknown + 1))
        return false;
    struct object_unknown *unknown = &objects->unknown[objects->n_unknown++];
    unknown->n = id.n;
    unknown->in_path = in_path;
    memcpy(unknown->id, id.at, id.n);
    return true;
}

/* Whether the call may name the object. `named`: it has to be its own. */
static bool may_name(struct call *call, struct slice id, bool named, bool in_path, bool below)
{
    struct call_objects *objects = &call->objects;
    const struct config *config = &call->generation->config;
    struct object_place place = {NULL, NULL};
    bool may = true;

    if (config->shared_objects.n > 0 &&
        config_patterns_match(&config->shared_objects, id.at, id.n)) {
        objects->shared |= named;
        return true;
    }
    switch (object_owners_find(call->gateway->owners, id, call_tenant(call)->name, objects->at,
                               &place)) {
    case OBJECT_MINE:
        if (!named)
            break;
        if (objects->provider == NULL) {
            objects->provider = place.provider;
            objects->key = place.key;
        }
        may = strcmp(objects->provider, place.provider) == 0; /* else they are at two */
        break;
    case OBJECT_OTHERS:
        may = false;
        break;
    case OBJECT_UNKNOWN:
        may = !named || ask_later(call, id, in_path) || below || is_unknown_allowed(call);
        break;
    }
    if (!may)
        snprintf(objects->missing, sizeof objects->missing, "%.*s", (int)id.n, id.at);
    return may;
}

static bool seen_in_request(void *context, struct slice id, bool named)
{
    struct call *call = context;

    return may_name(call, id, named, false, false);
}

static bool say_missing(const struct call *call, struct refusal *why)
{
    refusal_init(why, REPLY_OBJECT_NOT_FOUND, "there is no '%s' here", call->objects.missing);
    return false;
}

static bool say_unreadable(const char *what, struct refusal *why)
{
    refusal_init(why, REPLY_INVALID_REQUEST, "the %s cannot be read", what);
    return false;
}

/* ---- The head ---- */

static bool check_path(struct call *call, struct refusal *why)
{
    struct call_objects *objects = &call->objects;
    struct slice path = path_of_target(call->in->head.target), wanted = {NULL, 0}, segment;
    struct slice pattern = slice_of(call->passthrough->path);
    bool below = false; /* an id has come before: what follows is a link from that object */

    while (path_next(&path, &segment)) {
        if (pattern.n > 0)
            path_next(&pattern, &wanted); /* the last star stands for all that follow */
        objects->last = (struct slice){NULL, 0};
        if (!slice_equal(wanted, SLICE("*")))
            continue;
        bool named = object_is_id(segment);
        if (segment.n > OBJECT_ID_MAX || !may_name(call, segment, named, true, objects->in_path)) {
            snprintf(objects->missing, sizeof objects->missing, "%.*s", (int)segment.n, segment.at);
            return say_missing(call, why);
        }
        objects->in_path |= objects->provider != NULL || objects->shared;
        snprintf(objects->missing, sizeof objects->missing, "%.*s", (int)segment.n, segment.at);
        if (!below)
            objects->last = segment;
        below |= named;
    }
    return true;
}

static bool is_read_only(const struct call *call)
{
    struct slice method = call->in->head.method;

    return slice_equal(method, SLICE("GET")) || slice_equal(method, SLICE("HEAD"));
}

/* Objects are where they were made, whichever provider the row names. */
static void find_home(struct call *call)
{
    const struct config *config = &call->generation->config;

    for (size_t i = 0; call->objects.provider != NULL && i < config->n_providers; i++)
        if (strcmp(config->providers[i].name, call->objects.provider) == 0)
            call->objects.home = &call->generation->providers[i];
}

bool call_objects_head(struct call *call, struct refusal *why)
{
    struct slice target = call->in->head.target, path = path_of_target(target);
    struct slice type = http_find(&call->in->head, SLICE("content-type"));
    const struct object_watch watch = {.context = call, .seen = seen_in_request, .any = true};

    call->objects.at = call_wall(call);
    if (call->passthrough == NULL || call->passthrough->shared)
        return true;
    if (type.n >= sizeof call->objects.type)
        return say_unreadable("content type", why);
    if (type.n > 0)
        memcpy(call->objects.type, type.at, type.n);
    if (!check_path(call, why))
        return false;
    find_home(call);
    if (call->objects.shared && call->objects.in_path && !is_read_only(call))
        return say_missing(call, why); /* everyone reads it, nobody here changes it */
    if (path.n == target.n)
        return true;
    struct slice query = {path.at + path.n + 1, target.n - path.n - 1};
    switch (object_refs_query(query, &watch)) {
    case OBJECT_REFS_FINE:
        return true;
    case OBJECT_REFS_STOPPED:
        return say_missing(call, why);
    default:
        return say_unreadable("query", why);
    }
}

/* ---- The body ---- */

static bool type_says_json(struct slice type)
{
    struct slice word = SLICE("json");

    for (size_t i = 0; i + word.n <= type.n; i++)
        if (slice_equal_nocase((struct slice){type.at + i, word.n}, word))
            return true;
    return false;
}

/* A form of parts is known by its type, and JSON by its looks: a provider may not ask for the type,
 * so what looks like JSON has to be readable whatever its type says. */
static enum object_refs scan_passthrough(struct call *call, struct json_reader *reader,
                                         size_t values)
{
    const struct object_watch watch = {.context = call, .seen = seen_in_request, .any = true};
    struct slice type = slice_of(call->objects.type);
    const char *body = call->body.bytes;
    size_t n = call->body.n, at = 0;

    if (slice_begins_nocase(type, SLICE("multipart/")))
        return object_refs_form(reader, type, body, n, call->body.room, values, &watch);
    /* Blanks, and a byte order mark, which some readers pass over. What then begins with neither
     * brace nor bracket has no keys, unless it is text of wider characters. */
    while (at < n && strchr(" \n\r\t\xef\xbb\xbf", body[at]) != NULL)
        at++;
    if (at < n && (body[at] == '{' || body[at] == '['))
        return object_refs_json(reader, body, n, call->body.room, values, &watch);
    if (slice_begins_nocase(type, SLICE("application/x-www-form-urlencoded")))
        return object_refs_query((struct slice){body, n}, &watch);
    return at < n && type_says_json(type) ? OBJECT_REFS_MALFORMED : OBJECT_REFS_FINE;
}

/* Whether the body of a call to a model may name objects: what has none is not walked twice. */
static bool may_have_objects(const struct ask *ask)
{
    const unsigned features = ASK_STORED | ASK_CONVERSATION | ASK_THREAD | ASK_CONTAINER |
                              ASK_CACHED_CONTENT | ASK_CODE | ASK_NEW_KEY | ASK_NEW_PART |
                              ASK_NEW_TOOL;

    return (ask->features & features) != 0 || ask->hosted_tools > 0 || ask->files > 0 ||
           ask->images > 0 || ask->audios > 0;
}

bool call_objects_body(struct call *call, struct json_reader *reader, size_t values,
                       struct ask_problem *problem)
{
    const struct object_watch watch = {.context = call, .seen = seen_in_request};
    enum object_refs refs = OBJECT_REFS_FINE;

    if (call->passthrough != NULL)
        refs = scan_passthrough(call, reader, values);
    else if (may_have_objects(&call->ask))
        refs = object_refs_json(reader, call->body.bytes, call->body.n, call->body.room, values,
                                &watch);
    *problem = (struct ask_problem){.too_many = refs == OBJECT_REFS_TOO_MANY,
                                    .no_memory = refs == OBJECT_REFS_NO_MEMORY};
    switch (refs) {
    case OBJECT_REFS_FINE:
        return true;
    case OBJECT_REFS_STOPPED:
        problem->not_found = true;
        snprintf(problem->text, sizeof problem->text, "there is no '%s' here",
                 call->objects.missing);
        return false;
    case OBJECT_REFS_TOO_MANY:
        snprintf(problem->text, sizeof problem->text, "the body has too many values");
        return false;
    case OBJECT_REFS_NO_MEMORY:
        return false;
    case OBJECT_REFS_MALFORMED:
        break;
    }
    snprintf(problem->text, sizeof problem->text, "the body cannot be read");
    return false;
}

/* ---- The remote store ---- */

/* A list of what the tenant has made. */
static bool wants_list(const struct call *call)
{
    for (size_t i = 0; i < call->objects.n_unknown; i++)
        if (call->objects.unknown[i].in_path)
            return false;
    return call->passthrough != NULL && !call->passthrough->shared && !call->objects.in_path &&
           is_read_only(call);
}

enum call_verdict call_objects_ask(struct call *call)
{
    struct call_objects *objects = &call->objects;
    uint8_t hashes[UNKNOWN_MAX][REMOTE_OBJECT_HASH];
    struct slice lister = {NULL, 0};

    if (call->gateway->remote == NULL || objects->asked)
        return CALL_PASSES;
    if (wants_list(call))
        lister = slice_of(call_tenant(call)->name);
    if (objects->n_unknown == 0 && lister.n == 0)
        return CALL_PASSES;
    objects->asked = true;
    for (size_t i = 0; i < objects->n_unknown; i++)
        object_owners_hash((struct slice){objects->unknown[i].id, objects->unknown[i].n},
                           hashes[i]);
    call->asked_at = call_now(call);
    objects->ask =
        call->env->objects_find(call->worker->port, (const uint8_t(*)[REMOTE_OBJECT_HASH])hashes,
                                objects->n_unknown, lister, call->env->objects, call);
    return objects->ask != NULL ? CALL_WAITS : call_objects_answered(call, false);
}

/* What the request names, looked at with what is known now. */
static bool check_again(struct call *call, struct refusal *why)
{
    struct call_objects *objects = &call->objects;
    const struct provider *provider;

    objects->provider = objects->key = NULL;
    objects->in_path = objects->shared = false;
    if (call->passthrough != NULL && !check_path(call, why))
        return false;
    find_home(call);
    for (size_t i = 0; i < objects->n_unknown; i++) {
        const struct object_unknown *unknown = &objects->unknown[i];
        if (!unknown->in_path &&
            !may_name(call, (struct slice){unknown->id, unknown->n}, true, false, false))
            return say_missing(call, why);
    }
    provider = call->passthrough != NULL ? call_provider(call) : call->route->provider;
    if (call_objects_at(call, provider))
        return true;
    refusal_init(why, REPLY_OBJECT_NOT_FOUND, "the object that this call names is at provider %s%s",
                 objects->provider, call->route != NULL ? ", and its model is not" : "");
    return false;
}

enum call_verdict call_objects_answered(struct call *call, bool known)
{
    struct call_objects *objects = &call->objects;
    struct refusal why;

    objects->ask = NULL;
    call->store_ms += call_now(call) - call->asked_at;
    if (objects->n_unknown == 0)
        return CALL_PASSES; /* a list: without the store it shows what was made here */
    if (known && check_again(call, &why))
        return CALL_PASSES;
    if (!known)
        refusal_init(&why, REPLY_STORE_UNAVAILABLE,
                     "whose '%.*s' is cannot be asked: the store does not answer",
                     (int)objects->unknown[0].n, objects->unknown[0].id);
    call_refuse(call, &why);
    return CALL_ANSWERED;
}

bool call_objects_at(const struct call *call, const struct provider *provider)
{
    return call->objects.provider == NULL ||
           strcmp(call->objects.provider, provider->config->name) == 0;
}

/* ---- The reply ---- */

/* The object as other gateways know it. */
static struct remote_object shared_object(const struct call *call, struct slice id, bool response)
{
    struct remote_object object = {.tenant = slice_of(call_tenant(call)->name),
                                   .provider = slice_of(call_provider(call)->config->name),
                                   .key = slice_of(call->attempt.owner->config->name),
                                   .kind = response ? OBJECT_RESPONSE : OBJECT_OTHER};

    object_owners_hash(id, object.hash);
    return object;
}

static void another_was_first(void *owners, const struct remote_object *object)
{
    object_owners_unlearn(owners, object->hash, object->tenant, object->provider);
}

static void made(void *context, struct slice id)
{
    struct call *call = context;
    const struct attempt *attempt = &call->attempt;
    bool response =
        call->endpoint == ENDPOINT_RESPONSES || (id.n > 5 && memcmp(id.at, "resp_", 5) == 0);

    assert(attempt->owner != NULL);
    object_owners_add(call->gateway->owners, id, response ? OBJECT_RESPONSE : OBJECT_OTHER,
                      call_tenant(call)->name, call_provider(call)->config->name,
                      attempt->owner->config->name, call_wall(call));
    if (call->gateway->remote != NULL) {
        const struct remote_object object = shared_object(call, id, response);
        call->env->objects_put(call->worker->port, &object, !response,
                               response ? OBJECT_RESPONSE_MS : OBJECT_OTHER_MS, another_was_first,
                               call->gateway->owners);
    }
    call->objects.learned = true;
    if (call->endpoint == ENDPOINT_RESPONSES && id.n <= sizeof call->objects.made) {
        memcpy(call->objects.made, id.at, id.n);
        call->objects.made_n = id.n;
    }
}

/* A list shows the tenant its own, what is shared, and where the file says so what nobody is known
 * to have made. */
static bool is_mine(void *context, struct slice id)
{
    struct call *call = context;
    const struct config *config = &call->generation->config;

    if (config->shared_objects.n > 0 && config_patterns_match(&config->shared_objects, id.at, id.n))
        return true;
    switch (object_owners_find(call->gateway->owners, id, call_tenant(call)->name, call_wall(call),
                               NULL)) {
    case OBJECT_MINE:
        return true;
    case OBJECT_OTHERS:
        return false;
    default:
        return is_unknown_allowed(call);
    }
}

/* Without memory, a list shows nothing and nothing is learned. */
void call_objects_reply(struct call *call, int status, void (*pass)(void *call, struct slice bytes))
{
    struct call_objects *objects = &call->objects;

    objects->lists = objects->learns = objects->learned = false;
    objects->made_n = 0;
    if (status < 200 || status >= 300 || call->in == NULL || call->translation != NULL)
        return;
    bool listing = call->passthrough != NULL && !call->passthrough->shared && is_read_only(call) &&
                   !objects->in_path;
    bool unreadable = call->attempt.packed || call->attempt.events || status == 206;
    if (listing)
        call->attempt.events = false; /* a list is passed on by the filter alone */
    if (call->attempt.events)
        return;
    if (call->passthrough != NULL && !call->passthrough->shared) {
        objects->lists = listing;
        objects->learns = !objects->lists && !call->attempt.packed;
        if (slice_equal(call->in->head.method, SLICE("DELETE"))) {
            objects->learns = false;
            if (objects->last.n > 0 &&
                object_owners_remove(call->gateway->owners, objects->last, call_tenant(call)->name,
                                     call_provider(call)->config->name) &&
                call->gateway->remote != NULL) {
                struct remote_object object = shared_object(call, objects->last, false);
                if (objects->key != NULL) /* it was made with that one */
                    object.key = slice_of(objects->key);
                call->env->objects_drop(call->worker->port, &object);
            }
        }
    } else if (call->passthrough == NULL) {
        objects->learns = call->endpoint == ENDPOINT_RESPONSES && !call->attempt.packed;
    }
    if (!objects->lists && !objects->learns)
        return;
    if (objects->scan == NULL)
        objects->scan = malloc(sizeof *objects->scan);
    if (objects->scan == NULL)
        return;
    object_scan_init(objects->scan);
    objects->scan->context = call;
    objects->scan->made = made;
    objects->scan->is_mine = is_mine;
    objects->scan->pass = pass;
    if (objects->lists && unreadable)
        object_scan_drop(objects->scan); /* nobody here can read whose they are */
}

bool call_objects_data(struct call *call, struct slice bytes)
{
    struct call_objects *objects = &call->objects;

    if (objects->lists) {
        if (objects->scan != NULL)
            object_scan_list(objects->scan, bytes.at, bytes.n);
        return true;
    }
    /* The id of a response is all that there is to learn of it, and long texts follow. */
    if (objects->learns && objects->scan != NULL &&
        !(objects->learned && call->endpoint == ENDPOINT_RESPONSES))
        object_scan_ids(objects->scan, bytes.at, bytes.n);
    return false;
}

void call_objects_event(struct call *call)
{
    if (call->endpoint == ENDPOINT_RESPONSES && call->meter.id_n > 0 && !call->objects.learned)
        made(call, (struct slice){call->meter.id, call->meter.id_n});
}

void call_objects_free(struct call *call)
{
    if (call->objects.scan != NULL)
        object_scan_fini(call->objects.scan);
    free(call->objects.scan);
    call->objects.scan = NULL;
    if (call->objects.ask != NULL)
        call->env->objects_cancel(call->objects.ask);
    call->objects.ask = NULL;
    free(call->objects.unknown);
    call->objects.unknown = NULL;
    call->objects.n_unknown = call->objects.unknown_room = 0;
}
