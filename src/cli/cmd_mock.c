/* cmd_mock.c - `tollgate mock`: an upstream for demonstrations, tests and benchmarks.
 *
 * The first line on stdout says where it listens, once it does: a script that started it with
 * --port 0 reads the port there. It runs until SIGTERM or SIGINT, which end it as it should end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "io/text/yaml_tree.h"
#include "lab/mock/mock.h"

#define DEFAULT_PORT 9099

struct mock_arguments {
    const char *port, *workers, *latency, *tokens, *pace, *seed, *script;
    const char *keys, *models, *rpm, *record, *keep;
    const char *aws, *account, *token_life;
    bool log;
};

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool cmd_mock_read_whole(const struct command *self, const char *name, const char *text,
                                int64_t least, int64_t most, int64_t *number)
{
    char *end;

    if (text == NULL)
        return true;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*text >= '0' && *text <= '9' && errno == 0 && *end == '\0' && value >= least &&
        value <= most) {
        *number = value;
        return true;
    }
    command_say(self, "%s is '%s'; it must be a whole number from %lld to %lld", name, text,
                (long long)least, (long long)most);
    return false;
}

static bool read_pace(const struct command *self, const char *text, double *pace)
{
    char *end;

    if (text == NULL)
        return true;
    double value = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && *end == '\0' && value <= 1e6) {
        *pace = value;
        return true;
    }
    command_say(self, "--pace is '%s'; it must be tokens a second, from 0 (at once) to 1000000",
                text);
    return false;
}

static bool read_latency(const struct command *self, const char *text, struct mock_action *action)
{
    if (text == NULL || mock_latency_parse(text, action))
        return true;
    command_say(self,
                "--latency is '%s'; it must be a duration such as 20ms, exponential(MEAN) or "
                "lognormal(MEDIAN, SIGMA), such as 'lognormal(20ms, 0.5)'",
                text);
    return false;
}

static bool read_numbers(const struct command *self, const struct mock_arguments *arguments,
                         struct mock_options *options)
{
    struct mock_base *base = &options->base;
    int64_t port = DEFAULT_PORT, workers = 1, keep = (int64_t)options->keep, seed = 0;
    bool good =
        cmd_mock_read_whole(self, "--port", arguments->port, 0, 65535, &port) &&
        cmd_mock_read_whole(self, "--workers", arguments->workers, 1, MOCK_WORKERS_MAX, &workers) &&
        cmd_mock_read_whole(self, "--tokens", arguments->tokens, 0, MOCK_TOKENS_MAX,
                            &base->action.tokens) &&
        cmd_mock_read_whole(self, "--seed", arguments->seed, 0, INT64_MAX, &seed) &&
        cmd_mock_read_whole(self, "--rpm", arguments->rpm, 1, 1000000000, &options->rpm) &&
        cmd_mock_read_whole(self, "--keep", arguments->keep, 0, 10000000, &keep) &&
        cmd_mock_read_whole(self, "--token-life", arguments->token_life, 1, 86400,
                            &options->auth.token_life_s) &&
        read_pace(self, arguments->pace, &base->action.pace) &&
        read_latency(self, arguments->latency, &base->action);

    options->port = (int)port;
    options->workers = (int)workers;
    options->keep = (size_t)keep;
    base->seed = (uint64_t)seed;
    return good;
}

/* ---- The script ------------------------------------------------------------------------------ */

static void print_problem(void *context, size_t line, size_t column, const char *text)
{
    fprintf(stderr, "%s:%zu:%zu: %s\n", (const char *)context, line, column, text);
}

static char *cmd_mock_read_file(const struct command *self, const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    char *text = malloc(YAML_TREE_BYTES_MAX + 1);

    if (file == NULL || text == NULL) {
        command_say(self, "cannot read %s: %s", path, strerror(errno));
        goto free_text;
    }
    *n = fread(text, 1, YAML_TREE_BYTES_MAX + 1, file);
    if (ferror(file) || *n > YAML_TREE_BYTES_MAX) {
        command_say(self, "cannot read %s: %s", path,
                    ferror(file) ? strerror(errno) : "it is larger than 16 MiB");
        goto free_text;
    }
    fclose(file);
    return text;

free_text:
    free(text);
    if (file != NULL)
        fclose(file);
    return NULL;
}

static struct mock_script *load_script(const struct command *self, const char *path,
                                       const struct mock_base *base)
{
    struct mock_script *script;
    char name[] = "script", *text;
    size_t n;

    if (path == NULL)
        return mock_script_read(base, "", 0, print_problem, name);
    text = cmd_mock_read_file(self, path, &n);
    if (text == NULL)
        return NULL;
    script = mock_script_read(base, text, n, print_problem, (void *)(uintptr_t)path);
    free(text);
    return script;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void wait_for_end(const sigset_t *signals)
{
    int which;

    while (sigwait(signals, &which) == EINTR)
        continue;
}

static int serve(const struct command *self, const struct mock_options *options,
                 struct mock_script *script)
{
    struct tg_problem problem = {""};
    struct mock *mock;
    sigset_t signals;

    /* Blocked before any thread starts, so that none of them is killed. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (mock_start(options, script, &mock, &problem) != TG_OK) {
        command_say(self, "%s", problem.text);
        return STATUS_FAILED;
    }
    printf("listening on 127.0.0.1:%d\n", mock_port(mock));
    fflush(stdout);
    wait_for_end(&signals);
    if (mock_stop(mock))
        return STATUS_DONE;
    command_say(self, "not every record could be written");
    return STATUS_FAILED;
}

static int open_and_serve(const struct command *self, const struct mock_arguments *arguments,
                          struct mock_options *options)
{
    struct mock_script *script = load_script(self, arguments->script, &options->base);
    int status;

    if (script == NULL)
        return STATUS_WRONG;
    if (arguments->log)
        options->record = stdout;
    if (arguments->record != NULL)
        options->record = fopen(arguments->record, "w");
    if (arguments->record != NULL && options->record == NULL) {
        command_say(self, "cannot write %s: %s", arguments->record, strerror(errno));
        mock_script_free(script);
        return STATUS_WRONG;
    }
    status = serve(self, options, script);
    if (arguments->record != NULL && fclose(options->record) != 0)
        status = STATUS_FAILED;
    return status;
}

static bool read_arguments(const struct command *self, int argc, char **argv,
                           struct mock_arguments *arguments)
{
    const struct cli_option known[] = {
        {"--port", "N", &arguments->port, NULL},
        {"--latency", "TIME", &arguments->latency, NULL},
        {"--tokens", "N", &arguments->tokens, NULL},
        {"--pace", "RATE", &arguments->pace, NULL},
        {"--script", "FILE", &arguments->script, NULL},
        {"--seed", "N", &arguments->seed, NULL},
        {"--keys", "K1,K2", &arguments->keys, NULL},
        {"--models", "M1,M2", &arguments->models, NULL},
        {"--rpm", "N", &arguments->rpm, NULL},
        {"--record", "FILE", &arguments->record, NULL},
        {"--log", NULL, NULL, &arguments->log},
        {"--keep", "N", &arguments->keep, NULL},
        {"--workers", "N", &arguments->workers, NULL},
        {"--aws", "ID:SECRET", &arguments->aws, NULL},
        {"--service-account", "FILE", &arguments->account, NULL},
        {"--token-life", "S", &arguments->token_life, NULL},
    };
    int rest = options_read(self, known, sizeof known / sizeof known[0], argc, argv);

    if (rest > 0)
        command_say(self, "unexpected argument '%s'; only options are allowed", argv[1]);
    else if (rest == 0 && arguments->log && arguments->record != NULL)
        command_say(self, "--log and --record FILE exclude each other");
    else
        return rest == 0;
    return false;
}

/* Ended by a 0. Null: there is none, or it cannot be read, which was said. */
static char *read_account(const struct command *self, const struct mock_arguments *arguments)
{
    size_t n;
    char *text =
        arguments->account != NULL ? cmd_mock_read_file(self, arguments->account, &n) : NULL;

    if (text != NULL)
        text[n < YAML_TREE_BYTES_MAX ? n : YAML_TREE_BYTES_MAX] = '\0';
    return text;
}

static int run_mock(const struct command *self, int argc, char **argv)
{
    struct mock_arguments arguments = {0};
    struct mock_options options;

    mock_options_init(&options);
    if (!read_arguments(self, argc, argv, &arguments) || !read_numbers(self, &arguments, &options))
        return STATUS_WRONG;
    options.keys = arguments.keys;
    options.auth.aws = arguments.aws;
    if (arguments.models != NULL)
        options.models = arguments.models;
    char *account = read_account(self, &arguments);
    if (account == NULL && arguments.account != NULL)
        return STATUS_WRONG;
    options.auth.account = account;
    int status = open_and_serve(self, &arguments, &options);
    free(account);
    return status;
}

const struct command cmd_mock = {
    .name = "mock",
    .arguments = "[--port N] [--latency TIME] [--script FILE] [...]",
    .summary = "an upstream that speaks all APIs and follows a script",
    .help =
        "Answers the endpoints of the OpenAI, Anthropic and Gemini APIs on 127.0.0.1, streamed or\n"
        "not, with words that follow from the request, and remembers what it was asked. The first\n"
        "line on stdout says where it listens. SIGTERM and SIGINT end it.\n"
        "\n"
        "  --port N        default 9099; 0: any free one\n"
        "  --latency TIME  to the first byte: 20ms, exponential(20ms), lognormal(20ms, 0.5)\n"
        "  --tokens N      of output, where the call does not bound them below; default 16\n"
        "  --pace RATE     tokens a second; default 0: at once\n"
        "  --script FILE   rules for errors, faults and everything else; see docs/mock.md\n"
        "  --seed N        of chance and of the words; default 0, a script's own goes before it\n"
        "  --keys K1,K2    credentials that are good, all others get 401; default: all are\n"
        "  --models M1,M2  what GET /v1/models lists; any model is answered\n"
        "  --rpm N         requests a minute for each key, then 429\n"
        "  --record FILE   one JSON line for each request that ended\n"
        "  --log           the same to stdout\n"
        "  --keep N        how many of them GET /mock/requests gives; default 10000\n"
        "  --workers N     threads; default 1\n"
        "  --aws ID:SECRET requests must be signed with that key (SigV4), or get 403; with\n"
        "                  ID:SECRET:TOKEN also have that session token\n"
        "  --service-account FILE\n"
        "                  POST /token gives access tokens to who has its key, and paths of\n"
        "                  Vertex AI need one\n"
        "  --token-life S  how long these are good; default 3600\n"
        "\n"
        "GET /mock/requests gives what it saw, POST /mock/script replaces the script, and\n"
        "POST /mock/reset forgets requests and counts.\n"
        "\n"
        "Exit status: 0 ended by a signal; 1 the port cannot be had, or a record could not be\n"
        "written; 2 the command line or the script is wrong.\n",
    .run = run_mock,
};
