/* bench_config.c - how long a large configuration takes to read.
 *
 * Ten thousand tenants in two hundred included files, each with keys, patterns, limits, users,
 * budgets, and one in ten the parent of the others: what `tollgate check` does, and what a reload
 * does before anything changes. The median of a few readings, since one takes long enough to be
 * timed; in time of the processor, which is all that it takes once the files are in memory.
 */
#include "benches.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/config/config.h"

enum { TENANTS = 10000, EACH_FILE = 50, MODELS = 100, ROUNDS = 5 };

static const char *folder_of_temporaries(void)
{
    const char *folder = getenv("TMPDIR");

    return folder != NULL && strlen(folder) < 100 ? folder : "/tmp";
}

static bool write_first(const char *folder)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/tollgate.yaml", folder);
    file = fopen(path, "w");
    if (file == NULL)
        return false;
    fputs("include: [\"t.d/*.yaml\"]\n"
          "gate: {peers: {}, rate: {strategy: gcra, limit: 60, period: 60s}}\n"
          "providers: {p: {base_url: \"http://127.0.0.1:1\", api: openai}}\nmodels:\n",
          file);
    for (int i = 0; i < MODELS; i++)
        fprintf(file, "  m%d: {provider: p, price: {input: 1, output: 2}, fallback: [m%d]}\n", i,
                (i + 1) % MODELS);
    return fclose(file) == 0;
}

static void write_tenant(FILE *file, int i)
{
    fprintf(file, "  - name: tenant-%d\n", i);
    if (i % 10 != 0)
        fprintf(file, "    parent: tenant-%d\n", i / 10 * 10);
    fprintf(file,
            "    keys: [{name: prod, sha256: \"%064x\", not_after: \"2099-01-01T00:00:00Z\"},\n"
            "      {name: next, sha256: \"%064x\"}]\n"
            "    models: [\"m*\", \"!m%d\"]\n"
            "    concurrency: 16\n"
            "    rate: {strategy: gcra, limit: 600, period: 60s}\n"
            "    cost: {strategy: token_bucket, capacity: 200000, refill: 3333}\n"
            "    limits: [{rpd: 20000}, {models: [\"m1*\"], tpm: 50000, rpm: 20}]\n"
            "    users: {from: \"header:x-tollgate-user\", each: {rpm: 30}}\n"
            "    budgets: [{usd: 50, per: day}, {usd: 800, per: month, tz: UTC}]\n",
            (unsigned)i + 1, (unsigned)(i + 1 + TENANTS), i % MODELS);
}

static bool write_tenants(const char *folder)
{
    for (int first = 0; first < TENANTS; first += EACH_FILE) {
        char path[256];
        FILE *file;
        snprintf(path, sizeof path, "%s/t.d/%05d.yaml", folder, first);
        file = fopen(path, "w");
        if (file == NULL)
            return false;
        fputs("tenants:\n", file);
        for (int i = first; i < first + EACH_FILE; i++)
            write_tenant(file, i);
        if (fclose(file) != 0)
            return false;
    }
    return true;
}

static void remove_all(const char *folder)
{
    char path[256];

    for (int first = 0; first < TENANTS; first += EACH_FILE) {
        snprintf(path, sizeof path, "%s/t.d/%05d.yaml", folder, first);
        (void)unlink(path);
    }
    snprintf(path, sizeof path, "%s/tollgate.yaml", folder);
    (void)unlink(path);
    snprintf(path, sizeof path, "%s/t.d", folder);
    (void)rmdir(path);
    (void)rmdir(folder);
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* NaN: it could not be read. */
static double read_once(const char *folder)
{
    char path[256];
    struct config config;
    struct config_problems problems;
    double began = now_ms();

    snprintf(path, sizeof path, "%s/tollgate.yaml", folder);
    enum config_result result = config_load(path, &config, &problems);
    bool whole = result == CONFIG_READ && config.n_tenants == TENANTS;
    config_free(&config);
    config_problems_free(&problems);
    return whole ? now_ms() - began : NAN;
}

static int bench_config_compare(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static struct measured config_read(void)
{
    char folder[160];
    double took[ROUNDS];

    int bytes = snprintf(folder, sizeof folder - 6, "%s/tollgate-bench-", folder_of_temporaries());
    memset(folder + bytes, 'X', 6); /* to be replaced */
    folder[bytes + 6] = '\0';
    if (mkdtemp(folder) == NULL)
        return measure_count(NAN);
    char inner[256];
    snprintf(inner, sizeof inner, "%s/t.d", folder);
    bool made = mkdir(inner, 0700) == 0 && write_first(folder) && write_tenants(folder);
    for (int i = 0; i < ROUNDS; i++)
        took[i] = made ? read_once(folder) : NAN;
    remove_all(folder);
    qsort(took, ROUNDS, sizeof took[0], bench_config_compare);
    return measure_count(took[ROUNDS / 2]);
}

const struct bench benches_of_config[] = {
    {"config_read", "10,000 tenants in 200 files, read and checked: time of the CPU", "ms", 1000,
     config_read},
    {NULL, NULL, NULL, 0, NULL},
};
