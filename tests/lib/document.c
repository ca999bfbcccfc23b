/* document.c - documents of which a part is made from tables of the program. See document.h. */
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text;
    long bytes;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    bytes = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    return text;
}

void expect_document(const char *path, const char *begin, const char *end, const char *want,
                     size_t bytes)
{
    char *text = read_file(path);
    const char *from = strstr(text, begin), *to = strstr(text, end);

    assert_true(from != NULL && to != NULL && from < to);
    from += strlen(begin);
    if (getenv("TG_UPDATE_GOLDEN") != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "%.*s%.*s%s", (int)(from - text), text, (int)bytes, want, to);
        assert_int_equal(fclose(file), 0);
    } else if ((size_t)(to - from) != bytes || memcmp(from, want, bytes) != 0) {
        fail_msg("%s is not what the program says; TG_UPDATE_GOLDEN=1 with this test writes it",
                 path);
    }
    free(text);
}
