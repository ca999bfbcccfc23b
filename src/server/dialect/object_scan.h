/* object_scan.h - the objects in a reply that passes by in pieces: those made, those listed.
 *
 * A reply to whoever makes an object has its id at the top: {"id": "file-abc", ...}. So have, under
 * names of their own, the files that a batch has written. object_scan_ids() tells them.
 *
 * A list has objects of everyone who shares the provider's account. object_scan_list() passes on
 * those of one owner:
 *
 *     {"object": "list", "data": [{"id": "a", ...}, {"id": "b", ...}], "last_id": "b"}
 *     {"object": "list", "data": [{"id": "a", ...}], "last_id": "a"}
 *
 * Every array at the top is such a list, and so is a document that is one. An object is passed on
 * once its id is known to be the owner's, else not: one without an id, or with more than
 * OBJECT_HELD_MAX bytes in front of it, is nobody's. `first_id` and `last_id` become those of the
 * objects passed on, or null. All other bytes pass as they are, and all bytes of what begins with
 * neither brace nor bracket.
 *
 * However a reply is cut, the result is the same.
 */
#ifndef TG_DIALECT_OBJECT_SCAN_H
#define TG_DIALECT_OBJECT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/slice.h"

#define OBJECT_ID_MAX 128 /* bytes; what is longer is no id */
#define OBJECT_HELD_MAX ((size_t)64 << 10)
#define OBJECT_SCAN_DEPTH 64
#define OBJECT_SCAN_KEY 24
#define OBJECT_SCAN_OUT 1024

struct object_scan {
    /* Given by the owner: */
    void *context;
    void (*made)(void *context, struct slice id);    /* object_scan_ids() */
    bool (*is_mine)(void *context, struct slice id); /* object_scan_list() */
    void (*pass)(void *context, struct slice bytes); /* object_scan_list() */

    /* The scanner's own: */
    int state;
    int depth;
    uint64_t objects; /* bits: which levels are objects */
    bool in_key;      /* the next string is a key, or this one is */
    bool replaced;    /* the string is first_id or last_id */
    bool over;        /* the document has ended */
    int list_depth;   /* the level whose elements are judged; 0: none yet */
    int element;      /* enum object_element */
    bool any;         /* an element of this list was passed on */
    size_t key_n, text_n;
    char key[OBJECT_SCAN_KEY];
    char text[OBJECT_ID_MAX + 1];
    size_t first_n, last_n; /* ids of elements passed on */
    char first[OBJECT_ID_MAX], last[OBJECT_ID_MAX];
    char *held; /* what has come of an element without an id */
    size_t held_n, held_room;
    size_t out_n;
    char out[OBJECT_SCAN_OUT];
};

void object_scan_init(struct object_scan *scan);
void object_scan_fini(struct object_scan *scan);

/* Calls made() for the ids at the top of the document. */
void object_scan_ids(struct object_scan *scan, const char *bytes, size_t n);

/* Calls pass() with what is for the client. */
void object_scan_list(struct object_scan *scan, const char *bytes, size_t n);

/* Nothing more is passed on. */
void object_scan_drop(struct object_scan *scan);

/* Whether a name in a path or body may be the id of an object: not if it is a word of lower-case
 * letters, "-" and "_", as the names of actions and collections are. */
bool object_is_id(struct slice name);

#endif
