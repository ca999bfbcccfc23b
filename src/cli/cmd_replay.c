/* cmd_replay.c - `tollgate replay`: what a limiter or a whole gate would have decided on a trace.
 *
 * The trace brings its own clock, so a week of traffic is decided in seconds, and twice the same
 * trace gives the same bytes. Here is what the command line says; replay_limiter.c, replay_gate.c
 * and replay_compare.c do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/replay/recording.h"
#include "cli/replay/replay_modes.h"
#include "tollgate.h"

/* What the command line asks for. */
struct asked {
    const char *spec, *config, *reloaded, *compare, *seed_text, *store, *prefix;
    uint64_t seed;
    struct tg_limiter limiter;
};

/* The limiter of a spec; false after saying what is wrong with it. */
static bool read_limiter(const struct command *command, const char *spec,
                         struct tg_limiter *limiter)
{
    struct tg_limiter_config config;
    struct tg_problem problem;

    if (tg_limiter_config_parse(&config, spec, &problem) == TG_OK &&
        tg_limiter_init(limiter, &config, &problem) == TG_OK)
        return true;
    command_say(command, "--limiter: %s", problem.text);
    return false;
}

/* A whole number that fits. */
static bool read_seed(const struct command *command, const char *text, uint64_t *seed)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0) {
        *seed = value;
        return true;
    }
    command_say(command, "--seed is '%s'; it must be a whole number from 0 to %llu", text,
                (unsigned long long)UINT64_MAX);
    return false;
}

static bool check_asked(const struct command *command, struct asked *asked)
{
    if (asked->spec == NULL && asked->config == NULL) {
        command_say(command,
                    "-c FILE or --limiter SPEC is missing; `tollgate help replay` says more");
        return false;
    }
    if (asked->spec != NULL && asked->config != NULL) {
        command_say(command, "-c decides by a whole gate, --limiter SPEC by one limiter; not both");
        return false;
    }
    if (asked->config == NULL &&
        (asked->compare != NULL || asked->seed_text != NULL || asked->reloaded != NULL)) {
        command_say(command, "%s needs -c FILE",
                    asked->compare != NULL     ? "--compare"
                    : asked->seed_text != NULL ? "--seed"
                                               : "--reloaded");
        return false;
    }
    if (asked->prefix != NULL && asked->compare != NULL) {
        command_say(command, "--store-prefix is for one configuration; it cannot be used with "
                             "--compare, which has two");
        return false;
    }
    if (asked->store == NULL && asked->prefix != NULL) {
        command_say(command, "--store-prefix needs --store URL");
        return false;
    }
    if (asked->seed_text != NULL && !read_seed(command, asked->seed_text, &asked->seed))
        return false;
    return asked->spec == NULL || read_limiter(command, asked->spec, &asked->limiter);
}

/* `second`: of the second configuration, if there is one. */
static int replay_lines(struct replay_input *input, const struct asked *asked,
                        struct replay_store *store, struct replay_store *second)
{
    struct line first;
    int status;

    if (asked->spec != NULL)
        return replay_by_limiter(input, &asked->limiter, store);
    if (replay_input_peek(input, &first, &status) && recording_is_first(input->reader, &first)) {
        if (store == NULL && asked->seed_text == NULL)
            return replay_recording(input, asked->config, asked->reloaded, asked->compare);
        command_say(input->command, "%s: a recording of serve has its own %s; leave out %s",
                    input->name, store != NULL ? "store" : "chance",
                    store != NULL ? "--store" : "--seed");
        return STATUS_WRONG;
    }
    if (asked->reloaded != NULL) {
        command_say(input->command, "%s: --reloaded is for a recording of serve", input->name);
        return STATUS_WRONG;
    }
    if (asked->compare != NULL)
        return replay_by_both(input, asked->config, asked->compare, asked->seed, store, second);
    return replay_by_gate(input, asked->config, asked->seed, store);
}

/* The same with the limits in Redis: of two configurations, each has its keys to itself. */
static int replay_on_store(struct replay_input *input, const struct asked *asked)
{
    struct replay_store *store, *second = NULL;
    int status;

    store = replay_store_open(input->command, asked->store, asked->prefix, &status);
    if (store != NULL && asked->compare != NULL)
        second = replay_store_open(input->command, asked->store, NULL, &status);
    if (store != NULL && (second != NULL || asked->compare == NULL))
        status = replay_lines(input, asked, store, second);
    if (!replay_store_close(second, status))
        status = STATUS_FAILED;
    return replay_store_close(store, status) ? status : STATUS_FAILED;
}

static int replay_trace(const struct command *command, const struct asked *asked, const char *name,
                        int fd)
{
    struct replay_input input;
    int status = STATUS_FAILED;

    if (replay_input_init(&input, command, name, fd))
        status = asked->store != NULL ? replay_on_store(&input, asked)
                                      : replay_lines(&input, asked, NULL, NULL);
    replay_input_fini(&input);
    return status;
}

static int run_replay(const struct command *self, int argc, char **argv)
{
    struct asked asked = {.spec = NULL};
    const struct cli_option options[] = {
        {"-c", "FILE", &asked.config, NULL},
        {"--limiter", "SPEC", &asked.spec, NULL},
        {"--seed", "N", &asked.seed_text, NULL},
        {"--compare", "FILE2", &asked.compare, NULL},
        {"--store", "URL", &asked.store, NULL},
        {"--store-prefix", "P", &asked.prefix, NULL},
        {"--reloaded", "FILES", &asked.reloaded, NULL},
    };
    int operands = options_read(self, options, 7, argc, argv);

    if (operands < 0)
        return STATUS_WRONG;
    if (operands > 1) {
        command_say(self, "one trace at a time; '%s' is a second one", argv[2]);
        return STATUS_WRONG;
    }
    if (!check_asked(self, &asked))
        return STATUS_WRONG;
    if (operands == 0 || strcmp(argv[1], "-") == 0)
        return replay_trace(self, &asked, "<stdin>", STDIN_FILENO);

    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        command_say(self, "%s: %s", argv[1], strerror(errno));
        return STATUS_WRONG;
    }
    int status = replay_trace(self, &asked, argv[1], fd);
    close(fd);
    return status;
}

const struct command cmd_replay = {
    .name = "replay",
    .arguments =
        "(-c FILE [--reloaded FILES] [--seed N] [--compare FILE2] | --limiter SPEC) [--store "
        "URL] [TRACE]",
    .summary = "decide the calls of a trace in virtual time, JSON lines in and out",
    .help =
        "Reads the file TRACE, or stdin if it is left out or `-`: one call on each line,\n"
        "\n"
        "  {\"t\":1000,\"key\":\"a\",\"cost\":1}\n"
        "\n"
        "  t     when it comes, in whole milliseconds; required\n"
        "  key   whose limit it counts against; default \"\"\n"
        "  cost  units it takes; default 1\n"
        "\n"
        "and prints one decision for each, in order; times in milliseconds:\n"
        "\n"
        "  {\"allowed\":true,\"limit\":5,\"remaining\":4,\"reset_at\":1100,\"retry_after\":0}\n"
        "\n"
        "A retry_after of 9007199254740991 means never: the call costs more than the limit.\n"
        "\n"
        "SPEC is one of these, with your numbers (times in milliseconds, refill a second):\n"
        "\n"
        "  gcra:limit=10,period=1000,burst=5\n"
        "  token_bucket:capacity=10,refill=5\n"
        "  fixed_window:limit=5,window=1000\n"
        "  sliding_window:limit=10,window=1000,buckets=10\n"
        "  sliding_log:limit=5,window=1000\n"
        "  token_budget:budget=100,window=60000\n"
        "\n"
        "With -c the whole gate of a configuration decides; docs/gate.md says how. Lines then\n"
        "also carry\n"
        "\n"
        "  op        admit (default), first_byte, release, memory or limits\n"
        "  id        names a call, for its release; a string or a whole number\n"
        "  priority  high, normal (default) or low\n"
        "  peer, model, user\n"
        "  size      tokens of the prompt: its first byte is compared with that of its like\n"
        "  value, hold   what the call is worth, and the seconds it holds its slot\n"
        "  outcome   of a release: ok (default), dropped or cancelled\n"
        "  actual    of a release: the cost that it really had\n"
        "  sample    of a first_byte or release: the latency in ms; default: the time since\n"
        "            admission; after a first_byte a release has none\n"
        "  used      of memory: the used part, from 0 to 1; null: not known\n"
        "\n"
        "and key is the name of a tenant. Lines come in the order of decisions and add \"t\",\n"
        "\"id\", \"reason\", \"binding_axis\", \"policy_denied\", \"would_deny\" and \"axes\".\n"
        "A limits line prints\n"
        "\n"
        "  {\"t\":1000,\"concurrency_limit\":128,\"in_flight\":3,\"queued\":0}\n"
        "\n"
        "--seed seeds chance. --compare prints what FILE2 would have decided differently, by\n"
        "tenant, and no decisions; the exit status is 1 if anything differs.\n"
        "\n"
        "A recording of `serve --record` is known by its first line. Its operations are repeated\n"
        "on the gates, keys and budgets of the whole configuration: each call is printed with\n"
        "what is decided now and what was recorded, and if they differ, why. FILE is the\n"
        "configuration that serve began with; --reloaded names those that it read later, with\n"
        "commas between them. See docs/recordings.md.\n"
        "\n"
        "--store keeps rate and cost in Redis, with the clock of the trace; what is printed is\n"
        "the same to the byte. URL is one of\n"
        "\n"
        "  redis://[user:password@]host:port[/db]    rediss://... with TLS\n"
        "  redis+cluster://host:port,...             redis+sentinel://name@host:port,...\n"
        "  redis+unix:///path\n"
        "\n"
        "name:password@... where the sentinels have another password than the master. Who signs\n"
        "the certificates of rediss is known to the system, or named by SSL_CERT_FILE.\n"
        "\n"
        "A run has its keys to itself and removes them at its end. With --store-prefix P they\n"
        "begin with P, are found again by the next run, and stay.\n",
    .run = run_replay,
};
