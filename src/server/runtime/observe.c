/* observe.c - log, watch and traces of a gateway. See observe.h. */
#include "server/runtime/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"
#include "server/runtime/recorder.h"

enum { CLOSE_MS = 2000 };

enum { RECORD_FILES_MAX = 100 };

/* Whether nobody else records to it; from then on nobody does. What is no file is nobody's. */
static bool is_own_record(int fd)
{
    struct stat status;

    return fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Lines of two processes in one file could not be told apart: while one that is being taken over
 * still records, the next one has FILE.1, and so on. */
int observe_record_open(const char *path, struct tg_problem *problem)
{
    char name[4200];

    snprintf(name, sizeof name, "%.4096s", path);
    for (int i = 1; i <= RECORD_FILES_MAX; i++) {
        int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
        if (fd < 0) {
            problem_fail(problem, "%s cannot be written: %s", name, strerror(errno));
            return -1;
        }
        if (is_own_record(fd)) {
            if (i > 1)
                fprintf(stderr, "tollgate: another process records to %s; this one to %s\n", path,
                        name);
            return fd;
        }
        close(fd);
        snprintf(name, sizeof name, "%.4096s.%d", path, i);
    }
    problem_fail(problem, "%s and %d files beside it are in use by other processes", path,
                 RECORD_FILES_MAX);
    return -1;
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
