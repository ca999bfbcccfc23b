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
 * What nobody is known to have made is refused, unless `unknown_objects` says otherwise.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/object_refs.h"
#include "server/dialect/path_pattern.h"
#include "server/proxy/call.h"
#include "server/runtime/object_owners.h"

/* ---- Whose ---- */

/* Another gateway of the same store may know the object: calls of models went on from one to the
 * other before owners were known, and still do unless the file says otherwise. */
static bool is_unknown_allowed(const struct call *call)
{
    switch (call->generation->config.unknown_objects) {
    case CONFIG_OBJECTS_ALLOW:
        return true;
    case CONFIG_OBJECTS_AUTO:
        return call->gateway->remote != NULL && call->passthrough == NULL;
    default:
        return false;
    }
}

/* Whether the call may name the object. `named`: it has to be its own. */
static bool may_name(struct call *call, struct slice id, bool named, bool below)
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
        may = !named || below || is_unknown_allowed(call);
        break;
    }
    if (!may)
        snprintf(objects->missing, sizeof objects->missing, "%.*s", (int)id.n, id.at);
    return may;
}

static bool seen_in_request(void *context, struct slice id, bool named)
{
    struct call *call = context;

    return may_name(call, id, named, false);
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

static bool is_star(struct slice segment)
{
    return segment.n == 1 && segment.at[0] == '*';
}

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
        if (!is_star(wanted))
            continue;
        bool named = object_is_id(segment);
        if (segment.n > OBJECT_ID_MAX || !may_name(call, segment, named, objects->in_path)) {
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

static bool type_is(struct slice type, struct slice name)
{
    return type.n >= name.n && slice_equal_nocase((struct slice){type.at, name.n}, name);
}

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

    if (type_is(type, SLICE("multipart/")))
        return object_refs_form(type, body, n, &watch);
    /* Blanks, and a byte order mark, which some readers pass over. What then begins with neither
     * brace nor bracket has no keys, unless it is text of wider characters. */
    while (at < n && strchr(" \n\r\t\xef\xbb\xbf", body[at]) != NULL)
        at++;
    if (at < n && (body[at] == '{' || body[at] == '['))
        return object_refs_json(reader, body, n, call->body.room, values, &watch);
    if (type_is(type, SLICE("application/x-www-form-urlencoded")))
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
        snprintf(problem->text, sizeof problem->text, "there is no memory to read the body");
        return false;
    case OBJECT_REFS_MALFORMED:
        break;
    }
    snprintf(problem->text, sizeof problem->text, "the body cannot be read");
    return false;
}

bool call_objects_at(const struct call *call, const struct provider *provider)
{
    return call->objects.provider == NULL ||
           strcmp(call->objects.provider, provider->config->name) == 0;
}

/* ---- The reply ---- */

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
    if (status < 200 || status >= 300 || call->in == NULL)
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
            if (objects->last.n > 0)
                object_owners_remove(call->gateway->owners, objects->last, call_tenant(call)->name,
                                     call_provider(call)->config->name);
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
}
