/* config_weak_keys.c - keys and tokens that anybody guesses: hashes of well-known words.
 *
 * A hash in a configuration looks like any other, and what is copied from an example works: that is
 * how a gateway ends up open to "secret". So the words that people and examples use are hashed here
 * and searched for. A list can only know what it lists, but it costs nothing, and a key that
 * `tollgate key new` made is never on it.
 */
#include "server/config/config_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

/* clang-format off */
static const char *const words[] = {
    "", "1", "123", "1234", "12345", "123456", "12345678", "123456789", "abc", "abc123",
    "admin", "administrator", "api-key", "api_key", "apikey", "bar", "baz", "changeit",
    "changeme", "change-me", "change_me", "default", "demo", "dev", "development", "dummy",
    "EMPTY", "empty", "example", "fake", "foo", "foobar", "hello", "hunter2", "key", "letmein",
    "local", "localhost", "master", "mykey", "my-key", "my-secret", "my-secret-key", "none",
    "null", "open-sesame", "openai", "opensesame", "pass", "password", "password1",
    "placeholder", "prod", "production", "qwerty", "root", "sample", "secret", "sk-1234",
    "sk-123456", "sk-demo", "sk-dummy", "sk-example", "sk-fake", "sk-local",
    "sk-no-key-required", "sk-placeholder", "sk-test", "sk-tollgate", "sk-xxx", "sk-xxxx",
    "sk-xxxxxxxx", "string", "team-a", "tenant", "test", "test-key", "test1234", "testing",
    "testkey", "tg-demo", "tg-test", "token", "tollgate", "user", "virtual-key", "x", "xxx",
    "YOUR_API_KEY", "your-api-key", "your-key", "your-key-here",
};
/* clang-format on */

enum { WORDS = sizeof words / sizeof words[0], TOKEN_BYTES_MIN = 16, HASH_BYTES = 32 };

struct known {
    uint8_t hash[HASH_BYTES];
    const char *word;
};

static int config_weak_keys_compare(const void *a, const void *b)
{
    const struct known *left = a, *right = b;

    return memcmp(left->hash, right->hash, sizeof left->hash);
}

static struct known *hash_words(struct reader *reader)
{
    struct known *known = config_scratch(reader, WORDS * sizeof *known);

    for (size_t i = 0; known != NULL && i < WORDS; i++) {
        known[i].word = words[i];
        if (EVP_Digest(words[i], strlen(words[i]), known[i].hash, NULL, EVP_sha256(), NULL) != 1)
            known = NULL;
    }
    if (known != NULL)
        qsort(known, WORDS, sizeof *known, config_weak_keys_compare);
    return known;
}

static const char *find_word(const struct known *known, const uint8_t hash[HASH_BYTES])
{
    struct known wanted;
    const struct known *found;

    memcpy(wanted.hash, hash, sizeof wanted.hash);
    found = bsearch(&wanted, known, WORDS, sizeof *known, config_weak_keys_compare);
    return found != NULL ? found->word : NULL;
}

static void check_callers(struct reader *reader, const struct known *known)
{
    struct config_walk walk = CONFIG_LIST("callers");
    const struct yaml_node *node;

    while ((node = config_walk_next(reader, &walk)) != NULL) {
        assert(walk.n <= reader->config->n_callers);
        const char *word = find_word(known, reader->config->callers[walk.n - 1].token_sha256);
        if (word != NULL)
            config_warning(reader, config_child_or_self(node, "token_sha256"),
                           "this is the hash of \"%s\", which anybody can guess; make another "
                           "token with `tollgate key new`",
                           word);
    }
}

static void check_keys(struct reader *reader, const struct known *known, size_t tenant)
{
    const struct config_tenant *of = &reader->config->tenants[tenant];
    const struct yaml_node *list = yaml_tree_get(reader->places[tenant].node, "keys");
    const struct yaml_node *node = list != NULL ? list->first : NULL;

    reader->current = reader->places[tenant].document;
    for (size_t i = 0; i < of->n_keys && node != NULL; i++, node = node->next) {
        const char *word = find_word(known, of->keys[i].sha256);
        if (word != NULL)
            config_warning(reader, config_child_or_self(node, "sha256"),
                           "this is the hash of \"%s\", which anybody can guess; make another key "
                           "with `tollgate key new`",
                           word);
    }
}

/* A token that is there and could be guessed; or none, where there is a listener for it. */
static void check_admin(struct reader *reader)
{
    const struct config_secret *token = &reader->config->admin_token;
    bool given = false;

    for (size_t i = 0; i < reader->first_extra; i++)
        given = given || yaml_tree_get(reader->documents[i].root, "admin_auth") != NULL;
    for (size_t i = 0; i < reader->first_extra; i++) {
        const struct yaml_node *root = reader->documents[i].root;
        const struct yaml_node *auth = yaml_tree_get(root, "admin_auth");
        const struct yaml_node *admin = yaml_tree_get(yaml_tree_get(root, "listen"), "admin");
        reader->current = i;
        if (auth != NULL && token->bytes != NULL && token->size < TOKEN_BYTES_MIN)
            config_warning(reader, config_child_or_self(auth, "token"),
                           "admin_auth.token has fewer than %d characters; it can be guessed",
                           TOKEN_BYTES_MIN);
        if (admin != NULL && !given)
            config_warning(reader, admin,
                           "listen.admin is given and admin_auth.token is not: nobody may "
                           "use the admin API");
    }
}

void config_warn_of_weak_keys(struct reader *reader)
{
    const struct config *config = reader->config;
    bool hashes = config->n_callers > 0;
    const struct known *known;

    check_admin(reader);
    for (size_t i = 0; i < config->n_tenants && !hashes; i++)
        hashes = config->tenants[i].n_keys > 0;
    if (!hashes)
        return;
    known = hash_words(reader);
    if (known == NULL) {
        reader->no_memory = true;
        return;
    }
    check_callers(reader, known);
    for (size_t i = 0; i < config->n_tenants; i++)
        check_keys(reader, known, i);
}
