/* cmd_sim.c - `tollgate sim`: a cluster, its load and an admission policy, before they meet.
 *
 * Here is what is done with one run; sim_settings.c has the options, sim_load.c the requests,
 * sim_many.c comparisons and sweeps, and the cluster is src/lab/cluster/cluster.h.
 */
#include <errno.h>
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/output.h"
#include "cli/common/replace_file.h"
#include "cli/sim/sim_effect.h"
#include "cli/sim/sim_many.h"
#include "cli/sim/sim_run.h"
#include "cli/sim/sim_scenario.h"
#include "io/text/svg.h"

static int print_json(const struct command *self, const struct sim_run *run)
{
    struct json_writer out;

    json_writer_init(&out);
    sim_write_json(&out, run);
    bool sent = output_send(&out);
    json_writer_fini(&out);
    return sent ? STATUS_DONE : output_failed(self);
}

static bool plot(const struct command *self, const char *path, const struct sim_run *run)
{
    struct svg svg;

    sim_draw(&svg, run);
    bool written = sim_plot_write(self, path, &svg);
    svg_fini(&svg);
    return written;
}

static int give(const struct command *self, const struct sim_settings *settings,
                const struct sim_run *run)
{
    if (settings->results != NULL && !sim_write_results(self, settings->results, run))
        return STATUS_FAILED;
    if (settings->plot != NULL && !plot(self, settings->plot, run))
        return STATUS_FAILED;
    if (settings->json)
        return print_json(self, run);
    sim_print(run);
    return STATUS_DONE;
}

/* A path that is wrong is better said before the run than after it. */
static bool paths_are_good(const struct command *self, const struct sim_settings *settings)
{
    const char *const paths[] = {settings->plot, settings->results};

    for (size_t i = 0; i < 2; i++)
        if (paths[i] != NULL && !replace_file_check(paths[i])) {
            command_say(self, "cannot write %s: %s", paths[i], strerror(errno));
            return false;
        }
    return true;
}

static int run_one(const struct command *self, const struct sim_asked *asked,
                   struct sim_settings *settings)
{
    struct workload workload;
    struct sim_run run = {.settings = NULL};
    struct sim_effects effects = {.why = {NULL}};

    sim_effects_collect(&effects, asked, settings);
    if (!sim_effects_check(&effects, self))
        return STATUS_WRONG;
    if (!paths_are_good(self, settings))
        return STATUS_FAILED;
    int status = sim_load_make(self, settings, &workload);
    if (status == STATUS_DONE)
        status = sim_run_init(&run, self, settings, &workload, settings);
    if (status == STATUS_DONE)
        status = give(self, settings, &run);
    sim_run_fini(&run);
    workload_fini(&workload);
    return status;
}

static int run_sim(const struct command *self, int argc, char **argv)
{
    struct sim_asked asked;
    struct sim_settings settings;

    if (sim_asks_for_scenario(argc, argv))
        return sim_run_scenarios(self, argc, argv);
    if (!sim_asked_read(self, argc, argv, &asked))
        return STATUS_WRONG;
    int status = STATUS_WRONG;
    if (sim_settings_make(self, &asked, &settings))
        status = settings.compare != NULL || settings.sweep != NULL
                     ? sim_run_many(self, &asked, &settings)
                     : run_one(self, &asked, &settings);
    sim_settings_fini(&settings);
    return status;
}

const struct command cmd_sim = {
    .name = "sim",
    .arguments = "[OPTIONS]",
    .summary = "a cluster, its load and an admission policy in virtual time",
    .help =
        "Requests arrive, are admitted or refused, routed, batched and served; in virtual time, "
        "by\n"
        "the rules of the simulator BLIS, to the microsecond. docs/simulator.md is a tour.\n"
        "\n"
        "The load is a trace, a description, or constant arrivals with gaussian lengths:\n"
        "\n"
        "  --trace FILE            BLIS's CSV, or JSON lines as `tollgate serve --record` writes\n"
        "                          and `tollgate replay` reads them; `-` is stdin\n"
        "  --workload-spec FILE    BLIS's YAML, version 2\n"
        "  --workload NAME         distribution (default), chatbot, contentgen, summarization,\n"
        "                          multidoc\n"
        "  --rate R                requests a second, default 1\n"
        "  --num-requests N        default 100, or all of the file\n"
        "  --seed N                default 42, or the file's\n"
        "  --timeout SECONDS       default 300 without a file\n"
        "  --prompt-tokens N, --output-tokens N, each also with -stdev, -min and -max;\n"
        "  --prefix-tokens N       shared by all\n"
        "  --horizon US            when it ends; default: when all is done\n"
        "\n"
        "Admission:\n"
        "\n"
        "  --admission-policy P    always-admit (default), token-bucket, reject-all, tier-shed,\n"
        "                          gaie-legacy, gate\n"
        "  --token-bucket-capacity TOKENS (10000), --token-bucket-refill-rate A_SECOND (1000)\n"
        "  --policy-config FILE    BLIS's policy file; also tier-shed, gaie-legacy, tenant "
        "budgets\n"
        "  -c FILE                 the configuration whose gate decides, for gate\n"
        "  --law-sample S          what the gate's law is fed: e2e (default) or ttft\n"
        "  --retry                 refused clients come again, as the refusal says\n"
        "  --max-retries N (2), --retry-backoff MS (1000), --retry-jitter PART (0)\n"
        "  --admission-latency US, --routing-latency US\n"
        "\n"
        "The gateway queue, in place of a policy:\n"
        "\n"
        "  --flow-control          with --saturation-detector never, utilization or concurrency,\n"
        "  --queue-depth-threshold, --kv-cache-util-threshold, --max-concurrency,\n"
        "  --max-gateway-queue-depth, --per-band-capacity, --queue-shedding, --request-ttl US,\n"
        "  --dispatch-tick-interval US, --in-flight-eviction, --usage-limit-threshold,\n"
        "  --dispatch-order fifo|priority|slo-deadline, --slo-targets CLASS=US,...,\n"
        "  --fairness-policy global-strict|round-robin\n"
        "\n"
        "The cluster:\n"
        "\n"
        "  --model NAME (qwen/qwen3-14b), --hardware NAME (H100), --tp N (1)\n"
        "  --latency-model M       trained-physics (default) or roofline\n"
        "  --num-instances N (1), --max-num-seqs N (256), --max-num-batched-tokens N (2048),\n"
        "  --long-prefill-token-threshold N,\n"
        "  --block-size-in-tokens N (16), --total-kv-blocks N, --max-model-len N,\n"
        "  --gpu-memory-utilization PART (0.9)\n"
        "  --routing-policy P      round-robin (default), least-loaded, weighted, always-busiest\n"
        "  --routing-scorers NAME:WEIGHT,...\n"
        "  --scheduler S           fcfs (default), priority-fcfs, sjf, reverse-priority\n"
        "  --preemption-policy P   fcfs (default) or priority\n"
        "  --snapshot-refresh-interval US (50000), --cache-signal-delay US (50000)\n"
        "\n"
        "Output:\n"
        "\n"
        "  --json                  one object in place of the table\n"
        "  --results FILE          a JSON line for each request\n"
        "  --plot FILE.svg         draw it\n"
        "  --slo-ttft CLASS=TIME,... --slo-itl, --slo-e2e   what counts as good\n"
        "  --compare FILE,FILE     the same load under several policy files or gates\n"
        "  --sweep NAME=FROM:TO:xFACTOR (or +STEP)   under several values of an option, such as\n"
        "                          token-bucket-capacity=1000:100000:x2\n"
        "\n"
        "Laws in overload, in place of all that (docs/scenarios.md):\n"
        "\n"
        "  --scenario NAME,...|all, or fair, limit-use; `list` shows them\n"
        "  --law LAW[:initial=N][:min=N][:max=N][:window=MS][:wait=MS|auto],...\n"
        "  --seed N (1), --seeds K (5), --deadline MS (100), --tell-deadline,\n"
        "  --scale-capacity F, --scale-time F, --json, --plot FILE.svg\n"
        "\n"
        "US are microseconds. The same options give the same output; one without effect is an "
        "error.\n",
    .run = run_sim,
};
