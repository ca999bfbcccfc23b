/* observe.c - log, watch and traces of a gateway. See observe.h. */
#include "server/runtime/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/runtime/recorder.h"

enum { CLOSE_MS = 2000 };

int observe_record_open(const char *path, struct tg_problem *problem)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

    if (fd < 0)
        problem_fail(problem, "%s cannot be written: %s", path, strerror(errno));
    return fd;
}

static enum log_level level_of(const struct config *config)
{
    switch (config->log_level) {
    case CONFIG_DEBUG:
        return LOG_DEBUG;
    case CONFIG_WARN:
        return LOG_WARN;
    case CONFIG_ERROR:
        return LOG_ERROR;
    default:
        return LOG_INFO;
    }
}

bool gateway_observe(struct gateway *gateway, int record_fd, struct tg_problem *problem)
{
    const struct config *config = &gateway_newest(gateway)->config;
    struct log_options options;

    if (record_fd >= 0 && !recorder_begin(gateway, record_fd, problem)) {
        close(record_fd);
        return false;
    }
    log_options_init(&options);
    options.clock = &gateway->clock;
    options.level = level_of(config);
    options.json = config->log_json;
    options.record_fd = record_fd;
    problem_fail(problem, "no memory for the log");
    if (log_new(&options, &gateway->log)) {
        if (record_fd >= 0)
            close(record_fd);
        return false;
    }
    gateway->watch = watch_new(WATCH_SLOTS);
    if (config->otlp.host != NULL)
        gateway->trace = trace_new(TRACE_LANE_BYTES);
    return gateway->watch != NULL && (config->otlp.host == NULL || gateway->trace != NULL);
}

void gateway_observe_change(struct gateway *gateway, const struct config *config)
{
    if (gateway->log != NULL)
        log_configure(gateway->log, level_of(config), config->log_json);
}

void gateway_observe_end(struct gateway *gateway)
{
    trace_free(gateway->trace);
    watch_free(gateway->watch);
    recorder_end(gateway);
    if (gateway->log != NULL)
        log_close(gateway->log, CLOSE_MS);
    recorder_free(gateway->recorder);
    gateway->recorder = NULL;
    gateway->trace = NULL;
    gateway->watch = NULL;
    gateway->log = NULL;
}
