/* test_config_files.c - which files a configuration was made of: includes, names, stamps, hash. */
#include "config_folder.h"

static void put(const struct read *read, const char *name, const char *text)
{
    char path[128];
    FILE *file = fopen(path_of(read, name, path), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static enum config_result load(struct read *read)
{
    char path[128];

    return config_load(path_of(read, "c.yaml", path), &read->config, &read->problems);
}

static void must_be_read(enum config_result result, const struct read *read)
{
    if (result != CONFIG_READ)
        fail_msg("%s", read->problems.n > 0 ? read->problems.list[0].text : "?");
}

static bool says(const struct read *read, const char *file, const char *words)
{
    for (size_t i = 0; i < read->problems.n; i++) {
        const struct config_problem *problem = &read->problems.list[i];
        const char *slash = strrchr(problem->file, '/');
        if (slash != NULL && strcmp(slash + 1, file) == 0 && strstr(problem->text, words) != NULL)
            return true;
    }
    return false;
}

/* ---- Includes ---- */

static void includes_begin_at_the_file_they_stand_in(void **state)
{
    char path[128];
    struct read read;

    (void)state;
    open_folder(&read);
    assert_int_equal(mkdir(path_of(&read, "in", path), 0700), 0);
    assert_int_equal(mkdir(path_of(&read, "in/deep", path), 0700), 0);
    put(&read, "c.yaml", "include: [in/*.yaml]\ntenants: [{name: a}]\n");
    put(&read, "in/b.yaml", "include: [deep/*.yaml]\ntenants: [{name: b, parent: d}]\n");
    put(&read, "in/c.yaml", "tenants: [{name: c}]\n");
    put(&read, "in/deep/d.yaml", "tenants: [{name: d}]\n");
    must_be_read(load(&read), &read);
    assert_int_equal(read.config.n_tenants, 4);
    assert_string_equal(read.config.tenants[0].name, "a");
    assert_string_equal(read.config.tenants[1].name, "b");
    assert_string_equal(read.config.tenants[2].name, "c");
    assert_string_equal(read.config.tenants[3].name, "d");
    assert_int_equal(read.config.tenants[1].parent, 3);
    assert_int_equal(read.config.n_sources, 4);
    close_config(&read);
    empty_folder(read.folder);
}

static void a_circle_of_includes_is_refused(void **state)
{
    static const char circle[] = "includes must not go in a circle";
    struct read read;

    (void)state;
    open_folder(&read);
    put(&read, "c.yaml", "include: [b.yaml]\n");
    put(&read, "b.yaml", "include: [./c.yaml]\n");
    assert_int_equal(load(&read), CONFIG_WRONG);
    assert_int_equal(read.problems.n, 1);
    assert_true(says(&read, "b.yaml", circle));
    close_config(&read);
    put(&read, "c.yaml", "include: ['*.yaml']\n");
    put(&read, "b.yaml", "{}");
    assert_int_equal(load(&read), CONFIG_WRONG);
    assert_true(says(&read, "c.yaml", circle));
    close_config(&read);
    empty_folder(read.folder);
}

static void a_file_is_read_once_whatever_it_is_called(void **state)
{
    char path[128], link[128];
    struct read read;

    (void)state;
    open_folder(&read);
    put(&read, "c.yaml", "\ninclude: [a.yaml, b.yaml]\n");
    put(&read, "a.yaml", "tenants: [{name: a}]\n");
    assert_int_equal(symlink(path_of(&read, "a.yaml", path), path_of(&read, "b.yaml", link)), 0);
    assert_int_equal(load(&read), CONFIG_WRONG);
    assert_int_equal(read.problems.n, 1);
    assert_true(says(&read, "c.yaml", "c.yaml:2; once is allowed"));
    close_config(&read);
    empty_folder(read.folder);
}

/* ---- Sources ---- */

static const struct config_source *source(const struct read *read, const char *name)
{
    for (size_t i = 0; i < read->config.n_sources; i++) {
        const char *slash = strrchr(read->config.sources[i].path, '/');
        if (strcmp(slash + 1, name) == 0)
            return &read->config.sources[i];
    }
    return NULL;
}

static void every_file_is_a_source(void **state)
{
    struct read read;

    (void)state;
    open_folder(&read);
    put(&read, "c.yaml",
        "include: [t.yaml]\n"
        "admin_auth: {token: \"file:token\"}\n"
        "listen: {tls: {cert: cert.pem, key: key.pem}}\n"
        "providers: {p: {base_url: \"http://h\", api: openai, tls: {ca: ca.pem},\n"
        "  keys: [{name: k, secret: \"file:none\"}]},\n"
        "  q: {base_url: \"http://h\", api: openai, tls: {ca: system}}}\n");
    put(&read, "t.yaml", "tenants: [{name: a}]\n");
    put(&read, "token", "a-long-token-of-an-administrator\n");
    put(&read, "cert.pem", "x");
    put(&read, "key.pem", "x");
    put(&read, "ca.pem", "x");
    must_be_read(load(&read), &read);
    static const struct {
        const char *name;
        enum config_source_kind kind;
    } rows[] = {
        {"c.yaml", CONFIG_SOURCE_FILE},
        {"t.yaml", CONFIG_SOURCE_FILE},
        {"token", CONFIG_SOURCE_SECRET},
        {"cert.pem", CONFIG_SOURCE_CERTIFICATE},
        {"key.pem", CONFIG_SOURCE_CERTIFICATE},
        {"ca.pem", CONFIG_SOURCE_CERTIFICATE},
        {"none", CONFIG_SOURCE_SECRET},
    };
    assert_int_equal(read.config.n_sources, COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_non_null(source(&read, rows[i].name));
        assert_int_equal(source(&read, rows[i].name)->kind, rows[i].kind);
        assert_false(config_source_changed(source(&read, rows[i].name)));
    }
    assert_ptr_equal(source(&read, "c.yaml"), &read.config.sources[0]);
    assert_ptr_equal(source(&read, "t.yaml"), &read.config.sources[1]);
    close_config(&read);
    empty_folder(read.folder);
}

static void a_change_of_a_file_is_seen(void **state)
{
    char path[128], other[128];
    struct read read;

    (void)state;
    open_folder(&read);
    put(&read, "c.yaml",
        "admin_auth: {token: \"file:token\"}\n"
        "providers: {p: {base_url: \"http://h\", api: openai,\n"
        "  keys: [{name: k, secret: \"file:later\"}, {name: l, secret: \"file:gone\"}]}}\n");
    put(&read, "token", "a-long-token-of-an-administrator\n");
    put(&read, "gone", "sk-1\n");
    must_be_read(load(&read), &read);
    put(&read, "later", "sk-2\n");
    assert_int_equal(unlink(path_of(&read, "gone", path)), 0);
    put(&read, "new", "a-long-token-of-an-administrator\n"); /* the same bytes in another file */
    assert_int_equal(rename(path_of(&read, "new", path), path_of(&read, "token", other)), 0);
    assert_true(config_source_changed(source(&read, "later")));
    assert_true(config_source_changed(source(&read, "gone")));
    assert_true(config_source_changed(source(&read, "token")));
    assert_false(config_source_changed(source(&read, "c.yaml")));
    close_config(&read);
    empty_folder(read.folder);
}

/* ---- The hash ---- */

static void the_hash_is_that_of_the_files_one_after_the_other(void **state)
{
    /* printf 'include: [t.yaml]\ntenants: []\n' | sha256sum */
    static const char want[] = "d77a5b6da7a7f2ae8ffcee3e92569fc9f76fedeec23a594c92b0ffd8efcd7136";
    struct read read;

    (void)state;
    open_folder(&read);
    put(&read, "c.yaml", "include: [t.yaml]\n");
    put(&read, "t.yaml", "tenants: []\n");
    must_be_read(load(&read), &read);
    assert_string_equal(read.config.hash, want);
    close_config(&read);
    put(&read, "t.yaml", "tenants: [] \n");
    must_be_read(load(&read), &read);
    assert_string_not_equal(read.config.hash, want);
    close_config(&read);
    empty_folder(read.folder);
}

static void the_hash_knows_nothing_of_secrets(void **state)
{
    char before[CONFIG_HASH_HEX + 1];
    struct read read;

    (void)state;
    open_folder(&read);
    put(&read, "c.yaml", "admin_auth: {token: \"file:token\"}\n");
    put(&read, "token", "a-long-token-of-an-administrator\n");
    must_be_read(load(&read), &read);
    memcpy(before, read.config.hash, sizeof before);
    close_config(&read);
    put(&read, "token", "a-new-token-of-an-administrator!\n");
    must_be_read(load(&read), &read);
    assert_string_equal(read.config.hash, before);
    close_config(&read);
    empty_folder(read.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(includes_begin_at_the_file_they_stand_in),
        cmocka_unit_test(a_circle_of_includes_is_refused),
        cmocka_unit_test(a_file_is_read_once_whatever_it_is_called),
        cmocka_unit_test(every_file_is_a_source),
        cmocka_unit_test(a_change_of_a_file_is_seen),
        cmocka_unit_test(the_hash_is_that_of_the_files_one_after_the_other),
        cmocka_unit_test(the_hash_knows_nothing_of_secrets),
    };

    return cmocka_run_group_tests_name("config files", tests, NULL, NULL);
}
