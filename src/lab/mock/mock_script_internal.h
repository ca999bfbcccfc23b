/* mock_script_internal.h - what the files that read a script share. */
#ifndef TG_MOCK_MOCK_SCRIPT_INTERNAL_H
#define TG_MOCK_MOCK_SCRIPT_INTERNAL_H

#include "io/text/yaml_tree.h"
#include "lab/mock/mock_script.h"

struct script_reading {
    struct mock_script *script;
    mock_script_report *report;
    void *context;
    bool wrong; /* something was reported */
};

/* Reports what is wrong there. */
void script_say(struct script_reading *reading, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Texts that are values; the result is untouched if it is none ---- */

/* The text of a node; "" for anything else. */
const char *script_text_of(const struct yaml_node *node);
bool script_count(const char *text, int64_t most, int64_t *count);
bool script_real(const char *text, double most, double *number); /* 0 or more */

/* ---- Members of a map; what is wrong is reported with the member's name ---- */

void script_read_count(struct script_reading *reading, const struct yaml_node *node, int64_t most,
                       int64_t *count);
void script_read_duration(struct script_reading *reading, const struct yaml_node *node,
                          int64_t *ms);
void script_read_bool(struct script_reading *reading, const struct yaml_node *node, bool *value);
void script_read_text(struct script_reading *reading, const struct yaml_node *node,
                      const char **text);
/* The place of a word in a list that ends in null; `value` if it is not there. */
int script_read_word(struct script_reading *reading, const struct yaml_node *node,
                     const char *const *words, int value);

/* A map of actions, laid over what is there. */
void script_read_action(struct script_reading *reading, const struct yaml_node *node,
                        struct mock_action *action);

#endif
