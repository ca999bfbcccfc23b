/* cmd_key.c - tollgate key: makes a virtual key for a tenant.
 *
 * The key is printed once and kept nowhere; the configuration gets its hash. Both go to stdout,
 * each on a line, so that a script can take them apart and a person can copy the second into a
 * file.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/options.h"
#include "server/tenancy/virtual_key.h"

#define NAME_MAX_BYTES 64

/* What YAML takes for a name without quotes, and what nobody has to quote in a shell. */
static bool cmd_key_is_name(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && (i == 0 || strchr("._-", name[i]) == NULL))
            return false;
    return n >= 1 && n <= NAME_MAX_BYTES && isalpha((unsigned char)name[0]);
}

static int make_key(const struct command *self, const char *name)
{
    char key[VIRTUAL_KEY_BYTES + 1];
    char hex[VIRTUAL_KEY_HEX + 1];
    uint8_t hash[VIRTUAL_KEY_HASH];

    if (!virtual_key_make(key) || !virtual_key_hash((struct slice){key, VIRTUAL_KEY_BYTES}, hash)) {
        command_say(self, "the system provides no random bytes");
        return STATUS_FAILED;
    }
    virtual_key_hex(hash, hex);
    printf("%s\n- {name: %s, sha256: \"%s\"}\n", key, name, hex);
    return STATUS_DONE;
}

static int run_key(const struct command *self, int argc, char **argv)
{
    const char *name = "default";
    const struct cli_option options[] = {{"--name", "N", &name, NULL}};
    int rest = options_read(self, options, 1, argc, argv);

    if (rest < 0)
        return STATUS_WRONG;
    if (rest != 1 || strcmp(argv[1], "new") != 0) {
        command_say(self, "the command is missing or unknown; it must be 'new' [--name N]");
        return STATUS_WRONG;
    }
    if (!cmd_key_is_name(name)) {
        command_say(self,
                    "--name takes 1 to %d letters, digits, dots, dashes and underscores, the "
                    "first a letter",
                    NAME_MAX_BYTES);
        return STATUS_WRONG;
    }
    return make_key(self, name);
}

const struct command cmd_key = {
    .name = "key",
    .arguments = "new [--name N]",
    .summary = "make a virtual key for a tenant",
    .help =
        "Prints two lines: the key, which is shown this once and kept nowhere, and the entry for\n"
        "the tenant's list of `keys` in the configuration, which has only its SHA-256. N is what\n"
        "the key is called there; by default it is `default`.\n",
    .run = run_key,
};
