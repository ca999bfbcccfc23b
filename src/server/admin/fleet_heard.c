/* fleet_heard.c - who of a fleet has answered a question. See fleet_heard.h. */
#include "server/admin/fleet_heard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "server/ledger/ledger.h"
#include "server/runtime/gateway.h"

/* The entry of an id, made if there is none: there is room. */
static struct heard *heard_get(struct fleet_heard *heard, const char *id)
{
    struct heard *one = fleet_heard_find(heard, id);

    if (one != NULL)
        return one;
    heard->list[heard->n] = (struct heard){.id = id, .name = id};
    return &heard->list[heard->n++];
}

struct heard *fleet_heard_find(const struct fleet_heard *heard, const char *id)
{
    for (size_t i = 0; i < heard->n; i++)
        if (strcmp(heard->list[i].id, id) == 0)
            return &heard->list[i];
    return NULL;
}

bool fleet_heard_init(struct fleet_heard *heard, const struct gateway *gateway,
                      const struct fleet_replies *replies, tg_ms now)
{
    struct fleet_view view = {.name = ""};

    *heard = (struct fleet_heard){.away = replies->away, .busy = replies->busy};
    if (gateway->fleet != NULL)
        fleet_get_view(gateway->fleet, &view);
    heard->since = now - view.reported_at;
    heard->list = calloc(view.n_reports + replies->n + 1, sizeof *heard->list);
    if (heard->list == NULL)
        return false;
    snprintf(heard->alone, sizeof heard->alone, "%016" PRIx64,
             gateway->ledger != NULL ? ledger_id(gateway->ledger) : 0);
    struct heard *self = heard_get(heard, view.id != NULL ? view.id : heard->alone);
    self->is_self = true;
    self->name = view.name;
    for (size_t i = 0; i < view.n_reports; i++) {
        struct heard *one = heard_get(heard, view.reports[i].id);
        one->report = &view.reports[i];
        if (!one->is_self && *one->report->name != '\0')
            one->name = one->report->name;
    }
    for (size_t i = 0; i < replies->n; i++) {
        struct heard *one = heard_get(heard, replies->list[i].id);
        if (!one->has_answered)
            one->text = replies->list[i].text;
        one->has_answered = true;
    }
    return true;
}

void fleet_heard_fini(struct fleet_heard *heard)
{
    free(heard->list);
    heard->list = NULL;
    heard->n = 0;
}

static tg_ms silent_for(const struct fleet_heard *heard, const struct heard *one)
{
    return one->is_self || one->report == NULL ? 0 : one->report->silent + heard->since;
}

/* "self", "answered", "late", ... */
static const char *fleet_heard_answer(const struct fleet_heard *heard, const struct heard *one)
{
    if (one->is_self)
        return "self";
    if (one->is_unreadable)
        return "unreadable";
    if (one->has_answered)
        return "answered";
    assert(one->report != NULL);
    if (silent_for(heard, one) > FLEET_SILENT_MS)
        return "silent";
    if (!one->report->answers)
        return "unable";
    return heard->away || heard->busy ? "unasked" : "late";
}

bool fleet_heard_is_complete(const struct fleet_heard *heard)
{
    bool complete = !heard->away && !heard->busy;

    for (size_t i = 0; i < heard->n; i++) {
        const char *answer = fleet_heard_answer(heard, &heard->list[i]);
        complete &= strcmp(answer, "self") == 0 || strcmp(answer, "answered") == 0 ||
                    strcmp(answer, "silent") == 0;
    }
    return complete;
}

void fleet_heard_write(struct json_writer *out, const struct fleet_heard *heard,
                       const struct heard *one)
{
    json_member_text(out, "id", one->id);
    json_member_text(out, "name", one->name);
    json_member_text(out, "program",
                     one->is_self          ? tg_version()
                     : one->report != NULL ? one->report->program
                                           : NULL);
    json_member_text(out, "answer", fleet_heard_answer(heard, one));
    json_member_number(out, "silent_ms", silent_for(heard, one));
}
