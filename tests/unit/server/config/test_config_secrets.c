/* test_config_secrets.c - secrets: where they come from, what cannot be one, how they end.
 *
 * The program's own explicit_bzero() stands in for that of the C library and remembers what it was
 * given: memory that has been freed cannot be looked at.
 */
#include "config_folder.h"

#define SECRET "sk-7d1f-very-secret"

static size_t wiped; /* memory that held SECRET */

void explicit_bzero(void *memory, size_t bytes);
void __explicit_bzero_chk(void *memory, size_t bytes, size_t room);

void explicit_bzero(void *memory, size_t bytes)
{
    volatile unsigned char *at = memory;
    const size_t n = strlen(SECRET);

    for (size_t i = 0; i + n <= bytes; i++)
        wiped += memcmp((const char *)memory + i, SECRET, n) == 0;
    for (size_t i = 0; i < bytes; i++)
        at[i] = 0;
}

/* What it is called where the compiler knows how much room there is. */
void __explicit_bzero_chk(void *memory, size_t bytes, size_t room)
{
    (void)room;
    explicit_bzero(memory, bytes);
}

static void put(const struct read *read, const char *name, const char *text, size_t bytes)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", read->folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static enum config_result load(struct read *read, const char *text)
{
    char path[128];

    put(read, "c.yaml", text, strlen(text));
    snprintf(path, sizeof path, "%s/c.yaml", read->folder);
    return config_load(path, &read->config, &read->problems);
}

static void must_be(enum config_result got, enum config_result want, const struct read *read)
{
    if (got != want)
        fail_msg("%s", read->problems.n > 0 ? read->problems.list[0].text : "there is no problem");
}

/* ---- Where from ---- */

static void a_file_gives_its_first_line(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {SECRET, SECRET},
        {SECRET "\n", SECRET},
        {SECRET "\r\nmore\n", SECRET},
        {SECRET " \t\n", SECRET},
        {" a b and some more words\n", " a b and some more words"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        char path[128];

        open_folder(&read);
        put(&read, "s.txt", rows[i].text, strlen(rows[i].text));
        must_be(load(&read, "admin_auth: {token: \"file:s.txt\"}\n"), CONFIG_READ, &read);
        const struct config_secret *secret = &read.config.admin_token;
        assert_int_equal(read.problems.n, 0);
        assert_int_equal(secret->size, strlen(rows[i].want));
        assert_string_equal(secret->bytes, rows[i].want);
        snprintf(path, sizeof path, "%s/s.txt", read.folder);
        assert_string_equal(secret->file, path);
        close_config(&read);
        empty_folder(read.folder);
    }
}

static void a_variable_gives_all_of_it(void **state)
{
    struct read read;

    (void)state;
    open_folder(&read);
    setenv("TG_TEST_SECRET", SECRET, 1);
    must_be(load(&read, "admin_auth: {token: \"${TG_TEST_SECRET}\"}\n"), CONFIG_READ, &read);
    assert_string_equal(read.config.admin_token.bytes, SECRET);
    assert_null(read.config.admin_token.file);
    assert_int_equal(read.problems.n, 0);
    close_config(&read);

    setenv("TG_TEST_SECRET", "s", 1); /* what names a file may be a variable too */
    put(&read, "s.txt", SECRET, strlen(SECRET));
    must_be(load(&read, "admin_auth: {token: \"file:${TG_TEST_SECRET}.txt\"}\n"), CONFIG_READ,
            &read);
    assert_string_equal(read.config.admin_token.bytes, SECRET);
    close_config(&read);
    empty_folder(read.folder);
}

static void what_is_not_there_is_missing(void **state)
{
    struct read read;

    (void)state;
    open_folder(&read);
    must_be(load(&read, "admin_auth: {token: \"file:s.txt\"}\n"), CONFIG_READ, &read);
    assert_int_equal(read.problems.n, 1);
    assert_true(read.problems.list[0].missing);
    assert_null(read.config.admin_token.bytes);
    close_config(&read);

    put(&read, "s.txt", "\n" SECRET, strlen(SECRET) + 1);
    must_be(load(&read, "admin_auth: {token: \"file:s.txt\"}\n"), CONFIG_READ, &read);
    assert_int_equal(read.problems.n, 1);
    assert_true(read.problems.list[0].missing);
    assert_int_equal(read.problems.list[0].line, 1);
    assert_int_equal(read.problems.list[0].column, 21);
    assert_null(read.config.admin_token.bytes);
    close_config(&read);
    empty_folder(read.folder);
}

/* ---- What cannot be one ---- */

static void what_cannot_be_sent_is_refused(void **state)
{
    static const char *const rows[] = {"a\rX-Evil: 1", "a\x01", "\xc3\xbc", "a\x7f"};
    struct read read;
    char *long_one = malloc(8002);

    (void)state;
    assert_non_null(long_one);
    open_folder(&read);
    for (size_t i = 0; i <= COUNT_OF(rows); i++) {
        memset(long_one, 'x', 8001);
        if (i < COUNT_OF(rows))
            put(&read, "s.txt", rows[i], strlen(rows[i]));
        else
            put(&read, "s.txt", long_one, 8001);
        must_be(load(&read, "admin_auth: {token: \"file:s.txt\"}\n"), CONFIG_WRONG, &read);
        assert_non_null(strstr(read.problems.list[0].text, "cannot be sent"));
        assert_null(strstr(read.problems.list[0].text, "Evil"));
        close_config(&read);
    }
    put(&read, "s.txt", "a\0b", 3);
    must_be(load(&read, "admin_auth: {token: \"file:s.txt\"}\n"), CONFIG_WRONG, &read);
    close_config(&read);
    setenv("TG_TEST_SECRET", "a\nX-Evil: 1", 1);
    must_be(load(&read, "admin_auth: {token: \"${TG_TEST_SECRET}\"}\n"), CONFIG_WRONG, &read);
    assert_null(strstr(read.problems.list[0].text, "Evil"));
    close_config(&read);
    put(&read, "s.txt", long_one, 8000);
    must_be(load(&read, "admin_auth: {token: \"file:s.txt\"}\n"), CONFIG_READ, &read);
    close_config(&read);
    empty_folder(read.folder);
    free(long_one);
}

/* ---- Wiped ---- */

static void a_secret_is_wiped_when_its_configuration_ends(void **state)
{
    struct read read;

    (void)state;
    open_folder(&read);
    setenv("TG_TEST_SECRET", SECRET, 1);
    put(&read, "s.txt", SECRET "\n", strlen(SECRET) + 1);
    wiped = 0;
    must_be(load(&read, "providers: {p: {base_url: \"http://h\", api: openai, keys: [\n"
                        "  {name: a, secret: \"file:s.txt\"},\n"
                        "  {name: b, secret: \"${TG_TEST_SECRET}\"}]}}\n"),
            CONFIG_READ, &read);
    /* The line of the file; the variable put in place, and the copy that was kept for reading. */
    assert_int_equal(wiped, 3);
    assert_string_equal(read.config.providers[0].keys[0].secret.bytes, SECRET);
    assert_string_equal(read.config.providers[0].keys[1].secret.bytes, SECRET);
    wiped = 0;
    config_free(&read.config);
    assert_int_equal(wiped, 2);
    close_config(&read);
    assert_int_equal(wiped, 2);
    empty_folder(read.folder);
}

static void a_secret_is_wiped_when_the_reading_fails(void **state)
{
    struct read read;

    (void)state;
    open_folder(&read);
    setenv("TG_TEST_SECRET", SECRET, 1);
    wiped = 0;
    must_be(load(&read, "admin_auth: {token: \"${TG_TEST_SECRET}\"}\nwrong: 1\n"), CONFIG_WRONG,
            &read);
    assert_int_equal(wiped, 3); /* put in place, kept for reading, kept for use */
    close_config(&read);
    wiped = 0;
    must_be(load(&read, "admin_auth: {token: " SECRET "}\n"), CONFIG_READ, &read);
    assert_int_equal(wiped, 2); /* the file and its tree */
    close_config(&read);
    assert_int_equal(wiped, 3);
    empty_folder(read.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_its_first_line),
        cmocka_unit_test(a_variable_gives_all_of_it),
        cmocka_unit_test(what_is_not_there_is_missing),
        cmocka_unit_test(what_cannot_be_sent_is_refused),
        cmocka_unit_test(a_secret_is_wiped_when_its_configuration_ends),
        cmocka_unit_test(a_secret_is_wiped_when_the_reading_fails),
    };

    return cmocka_run_group_tests_name("config secrets", tests, NULL, NULL);
}
