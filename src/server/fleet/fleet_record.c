/* fleet_record.c - rows of an administrator as entries of the store. See fleet_record.h. */
#include "server/fleet/fleet_record.h"

#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "io/text/json_member.h"
#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "io/text/yaml_arena.h"
#include "lib/core/array.h"
#include "server/remote_store/remote_name.h"

const char *fleet_override_name(enum ledger_override_kind kind)
{
    static const char *const NAMES[] = {"block", "raise", "shadow"};

    assert(kind < LEDGER_OVERRIDE_COUNT);
    return NAMES[kind];
}

/* ---- a list ---- */

void fleet_entries_free(struct fleet_entries *entries)
{
    free(entries->list);
    arena_free(entries->arena);
    *entries = (struct fleet_entries){0};
}

static const char *keep(struct fleet_entries *entries, struct slice text)
{
    if (entries->arena == NULL)
        entries->arena = arena_new();
    return entries->arena != NULL ? arena_text(entries->arena, text.at, text.n) : NULL;
}

bool fleet_entries_add(struct fleet_entries *entries, struct slice name, struct slice value,
                       bool gone)
{
    struct fleet_entry entry = {
        {keep(entries, name), name.n}, {keep(entries, value), value.n}, gone};

    if (entry.name.at == NULL || entry.value.at == NULL ||
        !array_reserve(&entries->list, &entries->room, entries->n + 1))
        return false;
    entries->list[entries->n++] = entry;
    return true;
}

/* ---- writing ---- */

/* Two of LEDGER_ADMIN_TEXT_MAX could stand in a name; those of requests have a kilobyte. Longer
 * ones are told apart by their hash. */
enum { NAME_BYTES = 7000 };

struct record_name {
    char bytes[NAME_BYTES];
    struct remote_text text;
};

static void begin_name(struct record_name *name, const char *kind)
{
    name->text = (struct remote_text){name->bytes, sizeof name->bytes, 0};
    remote_text_put(&name->text, slice_of(kind));
}

static void add_name(struct record_name *name, const char *part)
{
    remote_text_put(&name->text, SLICE(":"));
    remote_text_name(&name->text, slice_of(part));
}

static void add_number(struct record_name *name, int64_t number)
{
    char text[24];
    int n = snprintf(text, sizeof text, ":%lld", (long long)number);

    remote_text_put(&name->text, (struct slice){text, (size_t)n});
}

static struct slice name_written(struct record_name *name)
{
    if (!remote_text_fits(&name->text)) {
        uint64_t hash = XXH3_64bits(name->bytes, sizeof name->bytes);
        int n = snprintf(name->bytes, sizeof name->bytes, "long:%016llx", (unsigned long long)hash);
        name->text.n = (size_t)n;
    }
    return (struct slice){name->bytes, name->text.n};
}

static void write_hash(struct json_writer *out, const char *key, const uint8_t sha256[32])
{
    char hex[LEDGER_ADMIN_HASH_DIGITS + 1];

    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", sha256[i]);
    json_member_text(out, key, hex);
}

static void write_key_row(struct record_name *name, struct json_writer *out,
                          const struct ledger_admin_key *key)
{
    static const uint8_t of_no_secret[32];

    begin_name(name, "key");
    add_name(name, key->tenant);
    add_name(name, key->name);
    json_member_text(out, "tenant", key->tenant);
    json_member_text(out, "name", key->name);
    write_hash(out, "sha256", key->text != NULL ? of_no_secret : key->sha256);
    json_member_number(out, "not_after", key->not_after);
    json_member_number(out, "made_at", key->made_at);
    if (key->text == NULL)
        return;
    write_hash(out, "own_sha256", key->sha256);
    json_write_key(out, "own");
    json_write_string(out, key->text, key->bytes);
}

static void write_topup(struct record_name *name, struct json_writer *out,
                        const struct ledger_admin_topup *topup)
{
    begin_name(name, "topup");
    add_number(name, topup->id);
    json_member_number(out, "id", topup->id);
    json_member_text(out, "tenant", topup->tenant);
    json_member_text(out, "per", tg_per_name(topup->per));
    json_member_text(out, "tz", topup->tz);
    json_member_number(out, "micro_usd", topup->micro);
    json_member_number(out, "made_at", topup->made_at);
    json_member_number(out, "ends_at", topup->ends_at);
}

static void write_override(struct record_name *name, struct json_writer *out,
                           const struct ledger_admin_override *override)
{
    begin_name(name, "override");
    add_number(name, override->id);
    json_member_number(out, "id", override->id);
    json_member_text(out, "tenant", override->tenant);
    json_member_text(out, "key", override->key);
    json_member_text(out, "kind", fleet_override_name(override->kind));
    json_member_number(out, "micro_usd", override->micro);
    json_member_text(out, "per", tg_per_name(override->per));
    json_member_text(out, "tz", override->tz);
    json_member_text(out, "reason", override->reason);
    json_member_number(out, "made_at", override->made_at);
    json_member_number(out, "ends_at", override->ends_at);
}

static void write_row(struct record_name *name, struct json_writer *out,
                      const struct ledger_fleet_row *row)
{
    switch (row->kind) {
    case LEDGER_FLEET_TENANT:
        begin_name(name, "tenant");
        add_name(name, row->tenant.name);
        json_member_text(out, "name", row->tenant.name);
        json_write_key(out, "text");
        json_write_string(out, row->tenant.text != NULL ? row->tenant.text : "", row->tenant.bytes);
        json_member_number(out, "changed_at", row->tenant.changed_at);
        return;
    case LEDGER_FLEET_KEY:
        write_key_row(name, out, &row->key);
        return;
    case LEDGER_FLEET_TOPUP:
        write_topup(name, out, &row->topup);
        return;
    case LEDGER_FLEET_DISABLED:
        begin_name(name, "disabled");
        add_name(name, row->disabled.provider);
        add_name(name, row->disabled.name);
        json_member_text(out, "provider", row->disabled.provider);
        json_member_text(out, "name", row->disabled.name);
        json_member_number(out, "made_at", row->disabled.made_at);
        return;
    case LEDGER_FLEET_OVERRIDE:
        write_override(name, out, &row->override);
        return;
    }
}

bool fleet_entries_add_row(struct fleet_entries *entries, const struct ledger_fleet_row *row)
{
    struct json_writer out;
    struct record_name name;

    json_writer_init(&out);
    json_write_object(&out);
    write_row(&name, &out, row);
    json_write_object_end(&out);
    bool added = !out.text.failed &&
                 fleet_entries_add(entries, name_written(&name),
                                   (struct slice){out.text.bytes, out.text.size}, row->gone);
    json_writer_fini(&out);
    return added;
}

bool fleet_rows_of(const struct ledger_admin *all, struct ledger_fleet_row **rows, size_t *n)
{
    size_t room = all->n_tenants + all->n_keys + all->n_topups + all->n_disabled + all->n_overrides;
    struct ledger_fleet_row *list = calloc(room + 1, sizeof *list);
    size_t used = 0;

    if (list == NULL)
        return false;
    for (size_t i = 0; i < all->n_tenants; i++)
        list[used++] =
            (struct ledger_fleet_row){.kind = LEDGER_FLEET_TENANT, .tenant = all->tenants[i]};
    for (size_t i = 0; i < all->n_keys; i++)
        list[used++] = (struct ledger_fleet_row){.kind = LEDGER_FLEET_KEY, .key = all->keys[i]};
    for (size_t i = 0; i < all->n_topups; i++)
        list[used++] =
            (struct ledger_fleet_row){.kind = LEDGER_FLEET_TOPUP, .topup = all->topups[i]};
    for (size_t i = 0; i < all->n_disabled; i++)
        list[used++] =
            (struct ledger_fleet_row){.kind = LEDGER_FLEET_DISABLED, .disabled = all->disabled[i]};
    for (size_t i = 0; i < all->n_overrides; i++)
        list[used++] =
            (struct ledger_fleet_row){.kind = LEDGER_FLEET_OVERRIDE, .override = all->overrides[i]};
    assert(used == room);
    *rows = list;
    *n = used;
    return true;
}

bool fleet_entries_add_all(struct fleet_entries *entries, const struct ledger_admin *all)
{
    struct ledger_fleet_row *rows;
    bool added = true;
    size_t n;

    if (!fleet_rows_of(all, &rows, &n))
        return false;
    for (size_t i = 0; added && i < n; i++)
        added = fleet_entries_add_row(entries, &rows[i]);
    free(rows);
    return added;
}

/* ---- what was there before a store ---- */

static struct slice ledger_name(char text[40], uint64_t ledger)
{
    int n = snprintf(text, 40, "ledger:%llu", (unsigned long long)ledger);

    return (struct slice){text, (size_t)n};
}

bool fleet_entries_add_ledger(struct fleet_entries *entries, uint64_t ledger, tg_ms now)
{
    char name[40], value[48];
    int n = snprintf(value, sizeof value, "{\"at\":%lld}", (long long)now);

    return fleet_entries_add(entries, ledger_name(name, ledger), (struct slice){value, (size_t)n},
                             false);
}

static bool has_name(const struct fleet_entries *entries, struct slice name)
{
    for (size_t i = 0; i < entries->n; i++)
        if (slice_equal(entries->list[i].name, name))
            return true;
    return false;
}

/* What a top-up is, but for its number; equal ones of one ledger are told apart by how many came
 * before. Above the numbers that changes get. */
static int64_t number_of_contents(const struct ledger_admin_topup *topup, size_t before)
{
    XXH64_hash_t hash = XXH3_64bits(topup->tenant, strlen(topup->tenant));
    const int64_t rest[] = {topup->per, topup->micro, topup->ends_at, (int64_t)before};

    hash = XXH3_64bits_withSeed(topup->tz, strlen(topup->tz), hash);
    hash = XXH3_64bits_withSeed(rest, sizeof rest, hash);
    return (int64_t)(hash >> 12 & 0xffffffffffff) | INT64_C(1) << 50;
}

static bool same_topup(const struct ledger_admin_topup *a, const struct ledger_admin_topup *b)
{
    return a->per == b->per && a->micro == b->micro && a->ends_at == b->ends_at &&
           strcmp(a->tenant, b->tenant) == 0 && strcmp(a->tz, b->tz) == 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->n < y->n ? x->n : y->n);

    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

/* A ledger may have a hundred thousand keys, and so may the store. */
static bool drop_known(struct fleet_entries *own, const struct fleet_entries *there)
{
    struct slice *names = calloc(there->n + 1, sizeof *names);
    size_t kept = 0;

    if (names == NULL)
        return false;
    for (size_t i = 0; i < there->n; i++)
        names[i] = there->list[i].name;
    qsort(names, there->n, sizeof *names, compare_names);
    for (size_t i = 0; i < own->n; i++)
        if (bsearch(&own->list[i].name, names, there->n, sizeof *names, compare_names) == NULL)
            own->list[kept++] = own->list[i];
    own->n = kept;
    free(names);
    return true;
}

bool fleet_entries_unmoved(struct fleet_entries *unmoved, const struct fleet_entries *there,
                           const struct ledger_admin *own, uint64_t ledger, tg_ms now)
{
    struct ledger_fleet_row *rows;
    char name[40];
    bool added = true;
    size_t n;

    if (has_name(there, ledger_name(name, ledger)))
        return true;
    if (!fleet_rows_of(own, &rows, &n))
        return false;
    for (size_t i = 0; added && i < n; i++) {
        struct ledger_fleet_row row = rows[i];
        if (row.kind == LEDGER_FLEET_TOPUP) {
            size_t before = 0;
            for (size_t k = 0; k < i; k++)
                before +=
                    rows[k].kind == LEDGER_FLEET_TOPUP && same_topup(&rows[k].topup, &row.topup);
            row.topup.id = number_of_contents(&row.topup, before);
        }
        if (row.kind == LEDGER_FLEET_OVERRIDE)
            row.override.id = row.override.made_at; /* its own number means nothing to others */
        added = fleet_entries_add_row(unmoved, &row);
    }
    free(rows);
    return added && drop_known(unmoved, there) && fleet_entries_add_ledger(unmoved, ledger, now);
}

/* ---- reading ---- */

/* Members of an entry, as far as one is known. */
struct members {
    const char *name, *text, *tenant, *per, *tz, *provider, *key, *kind, *reason, *own;
    size_t text_bytes, own_bytes;
    int64_t id, changed_at, not_after, made_at, micro_usd, ends_at;
    uint8_t sha256[32], own_sha256[32];
    bool has_hash, has_own_hash, failed;
};

static void record_read_text(struct fleet_entries *entries, struct members *members,
                             struct json_text key, struct json_text text)
{
    const struct {
        const char *name;
        const char **place;
        size_t *bytes;
    } texts[] = {{"name", &members->name, NULL},     {"text", &members->text, &members->text_bytes},
                 {"tenant", &members->tenant, NULL}, {"per", &members->per, NULL},
                 {"tz", &members->tz, NULL},         {"provider", &members->provider, NULL},
                 {"key", &members->key, NULL},       {"kind", &members->kind, NULL},
                 {"reason", &members->reason, NULL}, {"own", &members->own, &members->own_bytes}};

    if (json_text_is(key, "sha256"))
        members->has_hash = ledger_admin_read_hash(text.bytes, text.size, members->sha256);
    if (json_text_is(key, "own_sha256"))
        members->has_own_hash = ledger_admin_read_hash(text.bytes, text.size, members->own_sha256);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (json_text_is(key, texts[i].name)) {
            *texts[i].place = keep(entries, (struct slice){text.bytes, text.size});
            members->failed |= *texts[i].place == NULL;
            if (texts[i].bytes != NULL)
                *texts[i].bytes = text.size;
        }
}

static void read_number(struct members *members, struct json_text key, int64_t number)
{
    const struct {
        const char *name;
        int64_t *place;
    } numbers[] = {{"id", &members->id},
                   {"changed_at", &members->changed_at},
                   {"not_after", &members->not_after},
                   {"made_at", &members->made_at},
                   {"micro_usd", &members->micro_usd},
                   {"ends_at", &members->ends_at}};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (json_text_is(key, numbers[i].name))
            *numbers[i].place = number;
}

static bool read_members(struct json_reader *reader, struct fleet_entries *entries,
                         struct slice text, struct members *members)
{
    struct json_value value;
    struct json_text key;

    *members = (struct members){.not_after = TG_NUMBER_MAX, .ends_at = TG_NUMBER_MAX};
    json_begin(reader, text.at, text.n, text.n, &value);
    if (value.kind != JSON_OBJECT || !json_enter(reader))
        return json_end(reader) && false;
    while (json_next(reader, &key, &value)) {
        if (value.kind == JSON_STRING)
            record_read_text(entries, members, key, value.string);
        else if (value.kind == JSON_INTEGER)
            read_number(members, key, value.integer);
    }
    return json_end(reader);
}

static bool read_per(const char *text, enum tg_per *per)
{
    for (int i = 0; text != NULL && i < TG_PER_COUNT; i++)
        if (strcmp(text, tg_per_name((enum tg_per)i)) == 0) {
            *per = (enum tg_per)i;
            return true;
        }
    return false;
}

/* A kind that this program does not know blocks: it was made to take something away. */
static enum ledger_override_kind override_kind(const char *text)
{
    for (int i = 0; i < LEDGER_OVERRIDE_COUNT; i++)
        if (strcmp(text, fleet_override_name((enum ledger_override_kind)i)) == 0)
            return (enum ledger_override_kind)i;
    return LEDGER_OVERRIDE_BLOCK;
}

static bool record_has_kind(struct slice name, const char *prefix)
{
    size_t n = strlen(prefix);

    return name.n > n && memcmp(name.at, prefix, n) == 0;
}

static bool row_of_key(const struct members *members, struct ledger_fleet_row *row)
{
    bool own = members->own != NULL;

    row->kind = LEDGER_FLEET_KEY;
    row->key = (struct ledger_admin_key){.tenant = members->tenant,
                                         .name = members->name,
                                         .text = members->own,
                                         .bytes = members->own_bytes,
                                         .not_after = members->not_after,
                                         .made_at = members->made_at};
    memcpy(row->key.sha256, own ? members->own_sha256 : members->sha256, sizeof row->key.sha256);
    return !own ||
           (members->has_own_hash && memchr(members->own, '\0', members->own_bytes) == NULL);
}

static bool row_of_money(struct slice name, const struct members *members,
                         struct ledger_fleet_row *row)
{
    enum tg_per per = TG_PER_DAY;

    if (members->id < 1 || members->tenant == NULL || !read_per(members->per, &per) ||
        members->tz == NULL)
        return false;
    if (record_has_kind(name, "topup:")) {
        row->kind = LEDGER_FLEET_TOPUP;
        row->topup = (struct ledger_admin_topup){
            members->id,      members->tenant, per, members->tz, members->micro_usd,
            members->made_at, members->ends_at};
        return members->micro_usd >= 0;
    }
    if (!record_has_kind(name, "override:") || members->kind == NULL)
        return false;
    row->kind = LEDGER_FLEET_OVERRIDE;
    row->override =
        (struct ledger_admin_override){.id = members->id,
                                       .tenant = members->tenant,
                                       .key = members->key != NULL ? members->key : "",
                                       .kind = override_kind(members->kind),
                                       .micro = members->micro_usd,
                                       .per = per,
                                       .tz = members->tz,
                                       .reason = members->reason != NULL ? members->reason : "",
                                       .made_at = members->made_at,
                                       .ends_at = members->ends_at};
    return members->micro_usd >= 0;
}

/* Entries with a long name tell what they are by their members. */
static bool record_row_of(struct slice name, const struct members *members,
                          struct ledger_fleet_row *row)
{
    bool is_long = record_has_kind(name, "long:");

    if (members->name != NULL && members->text != NULL &&
        (is_long || record_has_kind(name, "tenant:"))) {
        row->kind = LEDGER_FLEET_TENANT;
        row->tenant = (struct ledger_admin_tenant){members->name, members->text,
                                                   members->text_bytes, members->changed_at};
        return memchr(members->text, '\0', members->text_bytes) == NULL;
    }
    if (members->name != NULL && members->provider != NULL &&
        (is_long || record_has_kind(name, "disabled:"))) {
        row->kind = LEDGER_FLEET_DISABLED;
        row->disabled =
            (struct ledger_admin_disabled){members->provider, members->name, members->made_at};
        return true;
    }
    if (members->name != NULL && members->tenant != NULL && members->has_hash &&
        (is_long || record_has_kind(name, "key:")))
        return row_of_key(members, row);
    return row_of_money(name, members, row);
}

bool fleet_entries_rows(struct fleet_entries *entries, struct ledger_fleet_row **rows, size_t *n,
                        size_t *strange)
{
    struct json_reader *reader = json_reader_new();
    struct ledger_fleet_row *list = calloc(entries->n + 1, sizeof *list);
    struct members members;
    size_t used = 0;
    bool failed = reader == NULL || list == NULL;

    *strange = 0;
    for (size_t i = 0; !failed && i < entries->n; i++) {
        const struct fleet_entry *entry = &entries->list[i];
        bool read = read_members(reader, entries, entry->value, &members);
        failed = members.failed;
        list[used].gone = entry->gone;
        if (read && record_row_of(entry->name, &members, &list[used]))
            used++;
        else if (!record_has_kind(entry->name, "ledger:"))
            ++*strange;
    }
    json_reader_free(reader);
    if (failed) {
        free(list);
        return false;
    }
    *rows = list;
    *n = used;
    return true;
}

/* ---- comparing ---- */

/* A sum of hashes is the same in any order. */
static bool hash_rows(const struct ledger_fleet_row *rows, size_t n, uint64_t *sum)
{
    struct fleet_entries entries = {0};
    bool added = true;

    *sum = 0;
    for (size_t i = 0; added && i < n; i++)
        added = fleet_entries_add_row(&entries, &rows[i]);
    for (size_t i = 0; i < entries.n; i++)
        *sum += XXH3_64bits(entries.list[i].value.at, entries.list[i].value.n);
    fleet_entries_free(&entries);
    return added;
}

bool fleet_rows_equal(const struct ledger_fleet_row *a, size_t n_a, const struct ledger_admin *b)
{
    struct ledger_fleet_row *rows;
    uint64_t sum_a, sum_b;
    size_t n;

    if (!fleet_rows_of(b, &rows, &n))
        return false;
    bool equal =
        n == n_a && hash_rows(a, n_a, &sum_a) && hash_rows(rows, n, &sum_b) && sum_a == sum_b;
    free(rows);
    return equal;
}
