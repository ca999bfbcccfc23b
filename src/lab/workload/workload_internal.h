/* workload_internal.h - what workload_spec.c is made of: parts of a workload file. Private to
 * it. */
#ifndef TG_WORKLOAD_WORKLOAD_INTERNAL_H
#define TG_WORKLOAD_WORKLOAD_INTERNAL_H

#include "lab/workload/workload_spec.h"

#define TIME_MAX_US 9e15

/* A workload while it is read. */
struct spec_reading {
    struct workload_spec *spec;
    struct yaml_problem *problem;
    bool first_version; /* classes have other names there */
    bool some_class, some_without;
};

/* From its arena. Null after noting that there is no memory. */
void *spec_get(struct spec_reading *reading, size_t bytes);

/* A distribution of lengths; `name` is that of its field. These: false with a problem. */
bool spec_read_length(struct spec_reading *reading, const struct yaml_node *map, const char *name,
                      struct length_law *law);

/* How a client's requests follow each other. */
bool spec_read_arrival(struct spec_reading *reading, const struct yaml_node *map,
                       struct workload_client *client);

/* When a client is there. */
bool spec_read_lifecycle(struct spec_reading *reading, const struct yaml_node *map,
                         struct workload_client *client);

/* The same of a cohort: any of these, or null. */
struct spec_rhythm {
    const struct yaml_node *diurnal, *spike, *drain;
};

bool spec_read_rhythm(struct spec_reading *reading, const struct spec_rhythm *rhythm,
                      struct workload_client *client);

#endif
