/* sim_names.h - options of `tollgate sim` that are names, or lists of names with numbers. */
#ifndef TG_SIM_SIM_NAMES_H
#define TG_SIM_SIM_NAMES_H

#include <stdbool.h>

#include "cli/common/command.h"

struct sim_settings;

/* Sets what `text` names; `option` is for messages. False after saying what is allowed. */
typedef bool sim_set_word(const struct command *command, const char *option, const char *text,
                          struct sim_settings *settings);

sim_set_word sim_set_workload;
sim_set_word sim_set_model;
sim_set_word sim_set_hardware;
sim_set_word sim_set_latency;
sim_set_word sim_set_scheduler;
sim_set_word sim_set_preemption;
sim_set_word sim_set_routing;
sim_set_word sim_set_scorers; /* "queue-depth:2,kv-utilization:1" */
sim_set_word sim_set_admission;
sim_set_word sim_set_sample;
sim_set_word sim_set_detector;
sim_set_word sim_set_dispatch;
sim_set_word sim_set_fairness;
sim_set_word sim_set_targets;   /* "critical=100000,standard=500ms": us, or with a unit */
sim_set_word sim_set_good_ttft; /* "critical=100ms,standard=1s" */
sim_set_word sim_set_good_itl;
sim_set_word sim_set_good_e2e;

#endif
