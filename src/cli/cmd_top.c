/* cmd_top.c - `tollgate top`: a gateway, or all that share a store, live, in a terminal.
 *
 * Reads the admin API's snapshot, of all gateways or of one, again and again and draws it: what the
 * dashboard shows, for whoever is on the machine already. On a terminal it takes the screen; where
 * stdin or stdout is none, or with --once, it prints one snapshot as text and ends.
 *
 * A gateway that does not answer from the start is an error. One that stops answering later is
 * shown as such, above what it said last, and asked again: restarts are what one watches for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/top/top_link.h"
#include "cli/top/top_term.h"
#include "cli/top/top_view.h"
#include "server/config/config_values.h"

#define TOKEN_VARIABLE "TOLLGATE_ADMIN_TOKEN"
#define INTERVAL_DEFAULT_MS 1000
#define INTERVAL_MIN_MS 100
#define INTERVAL_MAX_MS 3600000

struct top_arguments {
    const char *admin, *token, *ca, *cert, *key, *interval;
    bool once, gateway;
};

struct top {
    const struct command *self;
    const char *url;
    tg_ms interval;
    bool screen; /* the terminal is ours; otherwise one snapshot is printed */
    bool colour;
    bool fleet; /* all gateways are shown */
    struct net_loop *loop;
    struct net_timer timer;
    struct top_link link;
    struct top_term term;
    struct json_reader *reader;
    struct top_snapshot *shown, *read; /* what is on the screen; what is being read */
    bool has_shown;
    tg_ms shown_at;
    struct top_view view;
    struct top_paper paper;
    int escape; /* how much of an arrow's bytes has come */
    char trouble[256];
    int status;
};

/* ---- Ending ---------------------------------------------------------------------------------- */

static void end_with(struct top *top, int status)
{
    top->status = status;
    net_loop_stop(top->loop);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw(struct top *top)
{
    size_t rows = 0, columns = 0;

    if (top->screen)
        top_term_size(&rows, &columns);
    top->view.trouble = top->trouble;
    top->view.age_ms = net_loop_now(top->loop) - top->shown_at;
    top_paper_begin(&top->paper, rows, columns, top->screen, top->colour);
    top_view_draw(&top->view, top->has_shown ? top->shown : NULL, &top->paper);
    top_paper_end(&top->paper);
    if (top->screen)
        top_term_show(top->paper.bytes, top->paper.n);
    else
        fwrite(top->paper.bytes, 1, top->paper.n, stdout);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* Whether anything can come of asking again. */
static bool is_final(const struct top *top, int status)
{
    return !top->screen || !top->has_shown || status == 401 || status == 403;
}

static void explain_status(struct top *top, const struct top_reply *reply)
{
    char message[200];

    top_error_read(top->reader, reply->body, message, sizeof message);
    if (reply->status == 0)
        snprintf(top->trouble, sizeof top->trouble, "no answer: %s", reply->why);
    else if (reply->status == 401)
        snprintf(top->trouble, sizeof top->trouble,
                 "the token is missing or wrong (401): give it by --token FILE or " TOKEN_VARIABLE);
    else if (message[0] != '\0')
        snprintf(top->trouble, sizeof top->trouble, "status %d: %s", reply->status, message);
    else
        snprintf(top->trouble, sizeof top->trouble,
                 "status %d: this is not an admin listener of tollgate", reply->status);
}

static bool take_snapshot(struct top *top, const struct top_reply *reply)
{
    struct top_snapshot *read = top->read;
    char why[160];

    if (reply->status != 200) {
        explain_status(top, reply);
        return false;
    }
    if (!top_snapshot_read(top->reader, reply->body, read, why, sizeof why)) {
        snprintf(top->trouble, sizeof top->trouble, "this is not an admin listener of tollgate: %s",
                 why);
        return false;
    }
    top->read = top->shown;
    top->shown = read;
    top->has_shown = true;
    top->shown_at = net_loop_now(top->loop);
    top->trouble[0] = '\0';
    return true;
}

static void take_reply(void *context, const struct top_reply *reply)
{
    struct top *top = context;
    bool good = take_snapshot(top, reply);

    if (!good && is_final(top, reply->status)) {
        end_with(top, STATUS_FAILED);
        return;
    }
    draw(top);
    if (top->screen)
        net_timer_set(top->loop, &top->timer, top->interval);
    else
        end_with(top, STATUS_DONE);
}

static void ask_again(void *arg)
{
    struct top *top = arg;

    top_link_fetch(&top->link, top->fleet);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void scroll_by(struct top *top, int rows)
{
    if (rows > 0)
        top->view.scroll += (size_t)rows;
    else if (top->view.scroll > 0)
        top->view.scroll--;
}

static void show_table(struct top *top, size_t table)
{
    top->view.table = table;
    top->view.scroll = 0;
}

static void take_key(struct top *top, unsigned char key)
{
    /* An arrow is ESC [ A or ESC [ B. */
    if (key == 033 || (top->escape == 1 && key == '[')) {
        top->escape = key == 033 ? 1 : 2;
        return;
    }
    if (key == 'q' || key == 'Q')
        end_with(top, STATUS_DONE);
    else if (key == 'g')
        top->fleet = !top->fleet;
    else if (key == '0')
        show_table(top, TOP_VIEW_ALL);
    else if (key >= '1' && key < '1' + TOP_TABLES)
        show_table(top, (size_t)(key - '1'));
    else if (key == 'j' || (top->escape == 2 && key == 'B'))
        scroll_by(top, 1);
    else if (key == 'k' || (top->escape == 2 && key == 'A'))
        scroll_by(top, -1);
    top->escape = 0;
}

static void take_event(void *context, enum top_event event, unsigned char key)
{
    struct top *top = context;

    if (event == TOP_END)
        end_with(top, STATUS_DONE);
    if (event == TOP_KEY)
        take_key(top, key);
    draw(top);
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool make_parts(struct top *top)
{
    top->reader = json_reader_new();
    top->shown = malloc(sizeof *top->shown);
    top->read = malloc(sizeof *top->read);
    if (top->reader != NULL && top->shown != NULL && top->read != NULL)
        return true;
    command_say(top->self, "out of memory");
    return false;
}

/* The terminal comes before the first question: threads that the network starts must find its
 * signals blocked, or one of them would die of them, and the screen stay as it is. */
static int watch(struct top *top, const struct top_address *address)
{
    struct tg_problem problem = {""};

    if (!top_link_open(&top->link, top->loop, address, take_reply, top, &problem)) {
        command_say(top->self, "%s", problem.text);
        return STATUS_WRONG;
    }
    net_timer_init(&top->timer, ask_again, top);
    if (top->screen)
        top->screen = top_term_open(&top->term, top->loop, take_event, top);
    if (top->screen)
        draw(top);
    top_link_fetch(&top->link, top->fleet);
    net_loop_run(top->loop);
    top_term_close(&top->term);
    net_timer_stop(top->loop, &top->timer);
    top_link_close(&top->link);
    if (top->status != STATUS_DONE)
        command_say(top->self, "%s: %s", top->url, top->trouble);
    return top->status;
}

static int cmd_top_run_with(struct top *top, const struct top_address *address)
{
    struct clock clock;
    int status = STATUS_FAILED;

    clock_init(&clock);
    if (make_parts(top)) {
        if (net_loop_new(&clock, &top->loop) == TG_OK) {
            status = watch(top, address);
            net_loop_free(top->loop);
        } else {
            command_say(top->self, "out of memory or of descriptors");
        }
    }
    json_reader_free(top->reader);
    free(top->shown);
    free(top->read);
    top_paper_fini(&top->paper);
    return status;
}

/* ---- The command line ------------------------------------------------------------------------ */

static bool read_arguments(const struct command *self, int argc, char **argv,
                           struct top_arguments *arguments)
{
    const struct cli_option known[] = {
        {"--admin", "URL", &arguments->admin, NULL},
        {"--token", "FILE", &arguments->token, NULL},
        {"--ca", "FILE", &arguments->ca, NULL},
        {"--cert", "FILE", &arguments->cert, NULL},
        {"--key", "FILE", &arguments->key, NULL},
        {"--interval", "TIME", &arguments->interval, NULL},
        {"--gateway", NULL, NULL, &arguments->gateway},
        {"--once", NULL, NULL, &arguments->once},
    };
    int rest = options_read(self, known, sizeof known / sizeof known[0], argc, argv);

    if (rest > 0)
        command_say(self, "unexpected argument '%s'; only options are allowed", argv[1]);
    return rest == 0;
}

static bool read_interval(const struct command *self, const char *text, tg_ms *interval)
{
    *interval = INTERVAL_DEFAULT_MS;
    if (text == NULL || (value_duration(text, interval) && *interval >= INTERVAL_MIN_MS &&
                         *interval <= INTERVAL_MAX_MS))
        return true;
    command_say(self, "--interval is '%s'; it takes a time from 100ms to 1h", text);
    return false;
}

/* The first line, as `serve` reads it. Not said again in any message. */
static bool read_token_file(const struct command *self, const char *path, char *token, size_t bytes)
{
    FILE *file = fopen(path, "r");
    bool read;

    if (file == NULL) {
        command_say(self, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    errno = 0;
    read = fgets(token, (int)bytes, file) != NULL;
    if (ferror(file))
        command_say(self, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    if (read)
        token[strcspn(token, "\r\n")] = '\0';
    if (read && strlen(token) + 1 < bytes && value_is_line(token) && token[0] != '\0')
        return true;
    command_say(self, "%s: its first line is not a token", path);
    return false;
}

static bool read_token(const struct command *self, const char *path, char *token, size_t bytes,
                       const char **found)
{
    *found = getenv(TOKEN_VARIABLE);
    if (path != NULL) {
        *found = token;
        return read_token_file(self, path, token, bytes);
    }
    if (*found == NULL || value_is_line(*found))
        return true;
    command_say(self, TOKEN_VARIABLE " holds control characters, which a token cannot have");
    return false;
}

static int run_top(const struct command *self, int argc, char **argv)
{
    struct top_arguments arguments = {0};
    char token[TOP_TOKEN_MAX];
    struct top_address address = {.url = TOP_URL_DEFAULT};
    struct top top = {.self = self, .view = {.table = TOP_VIEW_ALL}};

    if (!read_arguments(self, argc, argv, &arguments) ||
        !read_interval(self, arguments.interval, &top.interval) ||
        !read_token(self, arguments.token, token, sizeof token, &address.token))
        return STATUS_WRONG;
    if ((arguments.cert == NULL) != (arguments.key == NULL)) {
        command_say(self, "--cert and --key belong together");
        return STATUS_WRONG;
    }
    if (arguments.admin != NULL)
        address.url = arguments.admin;
    address.ca = arguments.ca;
    address.cert = arguments.cert;
    address.key = arguments.key;
    top.fleet = !arguments.gateway;
    top.url = top.view.url = address.url;
    top.screen = !arguments.once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    top.colour = getenv("NO_COLOR") == NULL;
    return cmd_top_run_with(&top, &address);
}

const struct command cmd_top = {
    .name = "top",
    .arguments = "[--admin URL] [--token FILE] [--ca FILE] [--cert FILE --key FILE] [--interval "
                 "TIME] [--gateway] [--once]",
    .summary = "a live view of a gateway, or of all, in the terminal",
    .help =
        "Asks the admin listener of `tollgate serve` for a snapshot, again and again: rates and\n"
        "refusals by reason, limits and calls in flight, queues, the providers' keys with what is\n"
        "in their way and for how long, budgets, the busiest tenants, and the latest refusals\n"
        "with their explanation. What needs a look comes first in each table. Where gateways "
        "share\n"
        "a store, all of them are shown as one, whichever is asked, with a row for each.\n"
        "\n"
        "  --admin URL      default " TOP_URL_DEFAULT "; https is verified\n"
        "  --token FILE     its first line is the token; default: the variable\n"
        "                   " TOKEN_VARIABLE "\n"
        "  --ca FILE        certificates to trust with https; default: the system's\n"
        "  --cert FILE      the certificate to show with https, with --key FILE: for a listener\n"
        "                   that asks for one\n"
        "  --interval TIME  between two snapshots; default 1s, 100ms to 1h\n"
        "  --gateway        the one that is asked, alone\n"
        "  --once           prints one snapshot as text and ends; so it does without a terminal\n"
        "\n"
        "Keys: 1 to 6 show one table whole, 0 all of them, j and k or the arrows scroll, g shows "
        "one\n"
        "gateway or all, q quits.\n"
        "The terminal is given back as it was, also after a signal. NO_COLOR leaves out colours.\n"
        "\n"
        "Exit status: 0 ended by q or a signal, or the snapshot was printed; 1 nobody answers, or\n"
        "not as the admin listener does, or the token is wrong; 2 the command line is wrong.\n",
    .run = run_top,
};
