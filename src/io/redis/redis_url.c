/* redis_url.c - where Redis is, in one line of a configuration. See redis.h for what is allowed.
 *
 * The line may hold a password, so no message repeats any of it but what comes after the last '@'.
 */
#include <stdio.h>
#include <stdlib.h>

#include "io/net/address.h"
#include "io/redis/redis.h"
#include "io/text/hex.h"
#include "lib/core/problem.h"

static const struct scheme {
    const char *name;
    enum redis_kind kind;
    bool secure, local;
    int port;
} schemes[] = {
    {"redis://", REDIS_SINGLE, false, false, 6379},
    {"rediss://", REDIS_SINGLE, true, false, 6379},
    {"redis+unix://", REDIS_SINGLE, false, true, 0},
    {"redis+cluster://", REDIS_CLUSTER, false, false, 6379},
    {"rediss+cluster://", REDIS_CLUSTER, true, false, 6379},
    {"redis+sentinel://", REDIS_SENTINEL, false, false, 26379},
    {"rediss+sentinel://", REDIS_SENTINEL, true, false, 26379},
};

/* Undoes percent-escapes. False: too long, an escape that is none, or of a zero. */
static bool unescape(struct slice text, char *to, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i];

        if (c == '%') {
            int high = i + 2 < text.n ? hex_digit(text.at[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.at[i + 2]) : -1;
            if (low < 0 || high * 16 + low == 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= room)
            return false;
        to[n++] = c;
    }
    to[n] = '\0';
    return true;
}

/* "user:password" or ":password". */
static bool read_who(struct slice who, struct redis_options *options)
{
    const char *colon = who.n > 0 ? memchr(who.at, ':', who.n) : NULL;

    if (colon == NULL)
        return false;
    struct slice user = {who.at, (size_t)(colon - who.at)};
    struct slice password = {colon + 1, who.n - user.n - 1};
    return password.n > 0 && unescape(user, options->user, sizeof options->user) &&
           unescape(password, options->password, sizeof options->password);
}

/* "name" or "name:password of the sentinels". */
static bool read_master(struct slice text, struct redis_options *options)
{
    const char *colon = text.n > 0 ? memchr(text.at, ':', text.n) : NULL;
    struct slice name = {text.at, colon != NULL ? (size_t)(colon - text.at) : text.n};

    if (colon != NULL) {
        struct slice password = {colon + 1, text.n - name.n - 1};
        if (password.n == 0 || !unescape(password, options->sentinels, sizeof options->sentinels))
            return false;
    }
    return name.n > 0 && unescape(name, options->master, sizeof options->master);
}

/* Credentials, and the name of the master, stand before the last '@'. */
static enum tg_err read_before(struct slice before, struct redis_options *options,
                               struct tg_problem *problem)
{
    struct slice who = before;

    if (options->kind == REDIS_SENTINEL) {
        size_t n = before.n;

        while (n > 0 && before.at[n - 1] != '@')
            n--;
        if (!read_master((struct slice){before.at + n, before.n - n}, options))
            return problem_say(
                problem, TG_ERR_INVALID,
                "the name of the master must be before '@', with 1 to 255 bytes, and after ':' the "
                "password of the sentinels, if they have another one than the master, of 1 to 511");
        if (n == 0)
            return TG_OK;
        who.n = n - 1;
    }
    if (!read_who(who, options))
        return problem_say(problem, TG_ERR_INVALID,
                           "before '@' there must be user:password or :password, with %%-escapes "
                           "of two digits; user up to 255 bytes, password up to 511");
    return TG_OK;
}

static enum tg_err add_host(struct slice place, int port, struct redis_options *options,
                            struct tg_problem *problem)
{
    char text[ADDRESS_HOST_BYTES + 16];
    struct redis_host *host = &options->hosts[options->n_hosts];

    if (options->n_hosts == REDIS_HOSTS_MAX)
        return problem_say(problem, TG_ERR_INVALID, "more than %d servers", REDIS_HOSTS_MAX);
    if (place.n == 0 || place.n + 8 >= sizeof text)
        goto invalid;
    memcpy(text, place.at, place.n);
    text[place.n] = '\0';
    const char *end = strrchr(text, ']');
    if (strchr(end != NULL ? end : text, ':') == NULL)
        snprintf(text + place.n, 8, ":%d", port);
    if (strpbrk(text, " \t@?#%\\") != NULL || !address_split(text, host->name, &host->port) ||
        host->port == 0)
        goto invalid;
    options->n_hosts++;
    return TG_OK;

invalid:
    return problem_say(problem, TG_ERR_INVALID, "'%.*s' is not host:port",
                       place.n < 100 ? (int)place.n : 100, place.at);
}

static enum tg_err read_hosts(struct slice hosts, int port, struct redis_options *options,
                              struct tg_problem *problem)
{
    const char *at = hosts.at, *end = hosts.at + hosts.n;

    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        enum tg_err err = add_host((struct slice){at, (size_t)(stop - at)}, port, options, problem);

        if (err != TG_OK || comma == NULL)
            return err;
        at = comma + 1;
    }
}

static enum tg_err read_db(const char *text, struct redis_options *options,
                           struct tg_problem *problem)
{
    char *end;

    if (*text == '\0')
        return TG_OK;
    long n = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    if (n < 0 || n > 65535 || *end != '\0')
        return problem_say(problem, TG_ERR_INVALID, "'/%.40s' is not the number of a database",
                           text);
    if (n != 0 && options->kind == REDIS_CLUSTER)
        return problem_say(problem, TG_ERR_INVALID, "a cluster has no database but 0");
    options->db = (int)n;
    return TG_OK;
}

static enum tg_err read_path(const char *path, struct redis_options *options,
                             struct tg_problem *problem)
{
    union address address;
    socklen_t n;

    options->n_hosts = 1;
    int length = snprintf(options->hosts[0].name, sizeof options->hosts[0].name, "unix:%s", path);
    if (*path != '/' || (size_t)length >= sizeof options->hosts[0].name ||
        !address_parse(options->hosts[0].name, 0, &address, &n))
        return problem_say(problem, TG_ERR_INVALID,
                           "'%.100s' is not the path of a socket: it must begin with '/' and have "
                           "at most 107 bytes",
                           path);
    return TG_OK;
}

static enum tg_err read_rest(const struct scheme *scheme, const char *rest,
                             struct redis_options *options, struct tg_problem *problem)
{
    const char *at = strrchr(rest, '@'), *places = at != NULL ? at + 1 : rest;
    enum tg_err err = TG_OK;

    if (at != NULL || options->kind == REDIS_SENTINEL)
        err = read_before((struct slice){rest, at != NULL ? (size_t)(at - rest) : 0}, options,
                          problem);
    if (err != TG_OK)
        return err;
    if (scheme->local)
        return read_path(places, options, problem);
    size_t n = strcspn(places, "/");
    err = read_hosts((struct slice){places, n}, scheme->port, options, problem);
    if (err == TG_OK && options->kind == REDIS_SINGLE && options->n_hosts != 1)
        err = problem_say(problem, TG_ERR_INVALID,
                          "several servers: redis+cluster:// or redis+sentinel://");
    return err != TG_OK || places[n] == '\0' ? err : read_db(places + n + 1, options, problem);
}

enum tg_err redis_url_read(const char *url, struct redis_options *options,
                           struct tg_problem *problem)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const struct scheme *scheme = &schemes[i];
        size_t n = strlen(scheme->name);
        struct redis_options read = *options;

        if (strncmp(url, scheme->name, n) != 0)
            continue;
        read.kind = scheme->kind;
        read.secure = scheme->secure;
        read.n_hosts = 0;
        read.db = 0;
        read.user[0] = read.password[0] = read.sentinels[0] = read.master[0] = '\0';
        enum tg_err err = read_rest(scheme, url + n, &read, problem);
        if (err == TG_OK)
            *options = read;
        redis_options_wipe(&read);
        return err;
    }
    return problem_say(problem, TG_ERR_INVALID,
                       "it must begin with redis://, rediss://, redis+unix://, redis+cluster://, "
                       "rediss+cluster://, redis+sentinel:// or rediss+sentinel://");
}
