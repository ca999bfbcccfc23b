/* net_replay.c - `tollgate replay` inside a test. */
#include "net_replay.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"

enum { ARGS_MAX = 16, FILE_MAX = 1 << 20 };

void net_replay_open(struct net_replay *replay)
{
    const char *in = getenv("TMPDIR");
    int n = snprintf(replay->folder, sizeof replay->folder - 6, "%.60s/replay-",
                     in != NULL ? in : "/tmp");

    memset(replay->folder + n, 'X', 6); /* to be replaced */
    assert_non_null(getcwd(replay->before, sizeof replay->before));
    assert_non_null(mkdtemp(replay->folder));
    assert_int_equal(chdir(replay->folder), 0);
}

void net_replay_close(struct net_replay *replay)
{
    DIR *folder = opendir(".");

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        (void)unlink(entry->d_name);
    if (folder != NULL)
        closedir(folder);
    assert_int_equal(chdir(replay->before), 0);
    rmdir(replay->folder);
}

void net_replay_write(const char *name, const char *text, size_t n)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    fclose(file);
}

char *net_replay_read(const char *name, size_t *n)
{
    FILE *file = fopen(name, "r");
    char *text = malloc(FILE_MAX);

    assert_non_null(file);
    assert_non_null(text);
    *n = fread(text, 1, FILE_MAX - 1, file);
    text[*n] = '\0';
    fclose(file);
    return text;
}

int net_replay_exchange(int standard, const char *name)
{
    int kept = dup(standard);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(kept >= 0 && fd >= 0);
    dup2(fd, standard);
    close(fd);
    return kept;
}

void net_replay_change_back(int standard, int kept)
{
    dup2(kept, standard);
    close(kept);
}

int net_replay_run(const char *out, ...)
{
    char *args[ARGS_MAX] = {(char *)(uintptr_t) "replay"};
    int n = 1;
    va_list list;

    va_start(list, out);
    while (n < ARGS_MAX - 1 && (args[n] = va_arg(list, char *)) != NULL)
        n++;
    va_end(list);
    fflush(stdout);
    int kept = net_replay_exchange(STDOUT_FILENO, out);
    int kept_err = net_replay_exchange(STDERR_FILENO, "errors");
    int status = cmd_replay.run(&cmd_replay, n, args);
    fflush(stdout);
    net_replay_change_back(STDOUT_FILENO, kept);
    net_replay_change_back(STDERR_FILENO, kept_err);
    return status;
}
