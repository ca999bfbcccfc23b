/* ask_watch.h - which fields of a body rules name, and what the one walk over it has seen of them.
 *
 *     struct ask_watch watch;                     made once, by whoever reads the configuration
 *     ask_watch_init(&watch);
 *     ask_watch_add(&watch, "max_tokens", false, &field);
 *     ask_watch_value(&watch, field, &value, &bit);
 *     ...
 *     ask_read_watching(reader, values, endpoint, ..., &watch, seen, &ask, &problem)
 *     if (seen[field].n > 0 && seen[field].high > 8000) ...
 *
 * A field is named as in the neutral form, with dots between a key and one in it; ask_watch.c has
 * the table from neutral names to the spelling of each API. Arrays are passed through: `tools.type`
 * is the type of each tool. What is compared with values that rules know is compared on the way,
 * and kept as a bit for each of them, so nothing of a body has to be kept. Where no rule names
 * anything in an object, the walk pays one comparison a value for all this.
 *
 * The names belong to whoever gave them, and must stay.
 */
#ifndef TG_DIALECT_ASK_WATCH_H
#define TG_DIALECT_ASK_WATCH_H

#include "server/dialect/ask.h"

#define ASK_WATCH_FIELDS_MAX 40  /* fields and headers that all rules together name */
#define ASK_WATCH_VALUES_MAX 64  /* values that they name of one field */
#define ASK_WATCH_ALL_VALUES 512 /* and of all fields together */
#define ASK_WATCH_NODES_MAX 256
#define ASK_WATCH_DEPTH_MAX 4 /* names in one path */
#define ASK_WATCH_NAME_MAX 64 /* bytes of a name, with its dots */

/* A value that rules name. */
struct watch_value {
    enum json_kind kind; /* JSON_BOOL, JSON_DOUBLE for all numbers, JSON_STRING */
    bool boolean;
    double number;
    struct slice text;
    size_t next; /* the next one of its field; 0: none */
};

struct watch_field {
    const char *name; /* its neutral name; a header in lower case */
    bool is_header;
    size_t values;   /* the first of its values; 0: none */
    size_t n_values; /* their bits go from 0 to this */
};

#define ASK_WATCH_NONE SIZE_MAX

/* A key on the way to a field. */
struct watch_node {
    char name[ASK_WATCH_NAME_MAX];
    size_t n;
    size_t field;       /* ASK_WATCH_NONE: others are below it alone */
    unsigned endpoints; /* where it has this meaning: bits 1 << endpoint */
    size_t below;       /* the first key within it; 0: none */
    size_t next;        /* the next key of the same object; 0: none */
};

struct ask_watch {
    struct watch_field fields[ASK_WATCH_FIELDS_MAX];
    size_t n_fields;
    struct watch_value values[ASK_WATCH_ALL_VALUES]; /* the first is not used */
    size_t n_values;
    struct watch_node nodes[ASK_WATCH_NODES_MAX]; /* the first is the body itself */
    size_t n_nodes;
};

/* What a body has of one field. Null is as good as nothing. */
struct ask_seen {
    size_t n;              /* values; an array counts, and so do those in it */
    uint64_t values;       /* those that rules name: a bit for each */
    unsigned kinds;        /* bits 1 << enum json_kind; all numbers are JSON_DOUBLE */
    double low, high;      /* the numbers among them */
    struct ask_span span;  /* the value that stands in no array, or null; the last of several.
                             An object or array: its first byte alone */
    unsigned places;       /* how many spans there were */
    struct ask_span other; /* the first value that no rule names; n is 0 for none */
    bool filled;           /* an object: there is a key in it */
};

void ask_watch_init(struct ask_watch *watch);

/* The number of a field, which is added unless it is there. False: its name is none (1 to
 * ASK_WATCH_DEPTH_MAX keys, dots between), or there are too many. */
bool ask_watch_add(struct ask_watch *watch, const char *name, bool is_header, size_t *field);

/* The bit of a value, which is added unless it is there. False: there are too many. */
bool ask_watch_value(struct ask_watch *watch, size_t field, const struct watch_value *value,
                     unsigned *bit);

/* The bit of a value; false: no rule names it. */
bool ask_watch_find(const struct ask_watch *watch, size_t field, const struct watch_value *value,
                    unsigned *bit);

/* The number of a field that was added; ASK_WATCH_NONE: it was not. */
size_t ask_watch_field(const struct ask_watch *watch, struct slice name, bool is_header);

/* How a field is written where a call has none: "max_tokens" as "max_output_tokens". Null: calls of
 * that endpoint have no such field. Static, or the name itself. */
const char *ask_watch_spelling(const char *name, enum endpoint endpoint);

/* The neutral name that a spelling stands for, "max_output_tokens" for "max_tokens"; else the name
 * itself. */
const char *ask_watch_neutral(const char *name);

/* ---- For ask_read.c -------------------------------------------------------------------------- */

/* The node of a key in the object of `around`; null: nobody asks for it. */
const struct watch_node *ask_watch_key(const struct ask_watch *watch,
                                       const struct watch_node *around, struct json_text key);

/* Whether a key in the object of `around` is one that is asked for, but for the case of letters:
 * that one. Else null. */
const char *ask_watch_variant(const struct ask_watch *watch, const struct watch_node *around,
                              struct json_text key);

/* Notes a value of `node`. `in_array`: it is in an array, and not in the object itself. */
void ask_watch_note(const struct ask_watch *watch, const struct watch_node *node,
                    enum endpoint endpoint, const struct json_value *value, struct ask_span span,
                    bool in_array, struct ask_seen *seen);

/* Whether a key may be another one in other letters: it has a capital, or a byte above ASCII. */
static inline bool ask_key_is_odd(struct json_text key)
{
    unsigned odd = 0;

    for (size_t i = 0; i < key.size; i++)
        odd |= (unsigned)((unsigned char)key.bytes[i] - 'A') < 26 || (key.bytes[i] & 0x80) != 0;
    return odd != 0;
}

/* Whether a key is `name` but for the case of letters, as by Go's encoding/json, and not `name`
 * itself: U+017F is an s there and U+212A a k; U+0130 and U+0131 are an i elsewhere. */
bool ask_key_is_variant(struct json_text key, struct slice name);

#endif
