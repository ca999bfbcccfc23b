/* sized.c - see sized.h. */
#include "lib/core/sized.h"

#include <string.h>

#include "lib/core/problem.h"

/* No struct of any version is as large; what was never initialized often says more. */
enum { SIZE_MAX_OF_STRUCTS = 65536 };

void sized_init(void *to, size_t size, const void *defaults, size_t ours, size_t first)
{
    if (!to || size < sizeof size || size > SIZE_MAX_OF_STRUCTS)
        return;
    if (size != ours)
        memset(to, 0, size);
    if (size < first)
        return;
    memcpy(to, defaults, size < ours ? size : ours);
    memcpy(to, &size, sizeof size);
}

bool sized_read(void *to, size_t ours, const void *from, size_t first)
{
    const char *bytes = from;
    size_t size;

    memcpy(&size, from, sizeof size);
    if (size < first || size > SIZE_MAX_OF_STRUCTS)
        return false;
    for (size_t i = ours; i < size; i++)
        if (bytes[i] != 0)
            return false;
    memset(to, 0, ours);
    memcpy(to, from, size < ours ? size : ours);
    return true;
}

enum tg_err sized_check(void *to, size_t ours, const void *from, size_t first, const char *name,
                        struct tg_problem *problem)
{
    size_t size;

    if (!from)
        return problem_say(problem, TG_ERR_NULL, "struct %s: %s", name, tg_strerror(TG_ERR_NULL));
    if (sized_read(to, ours, from, first))
        return TG_OK;
    memcpy(&size, from, sizeof size);
    if (size > ours && size <= SIZE_MAX_OF_STRUCTS)
        return problem_say(problem, TG_ERR_UNINITIALIZED,
                           "struct %s: it has members that are not known to this library, which is "
                           "version %s",
                           name, TG_VERSION);
    return problem_say(problem, TG_ERR_UNINITIALIZED,
                       "struct %s: struct_size is %zu; call %s_init() first", name, size, name);
}

void sized_give(void *to, size_t size, const void *from, size_t ours)
{
    if (!to || size > SIZE_MAX_OF_STRUCTS)
        return;
    memcpy(to, from, size < ours ? size : ours);
    if (size > ours)
        memset((char *)to + ours, 0, size - ours);
}
