/* request_head.c - the head of a call: what is wrong with it before its body. See its header. */
#include "server/dialect/request_head.h"

bool request_head_is_single(const struct http_head *head)
{
    struct slice coding = http_find(head, SLICE("content-encoding"));

    return (coding.n == 0 || slice_equal_nocase(coding, SLICE("identity"))) &&
           http_count(head, SLICE("content-type")) <= 1 &&
           http_count(head, SLICE("content-encoding")) <= 1 &&
           !http_has_token(head, SLICE("connection"), SLICE("content-type"));
}

bool request_head_is_json(const struct http_head *head)
{
    struct slice type = http_find(head, SLICE("content-type"));
    const char *more = type.n > 0 ? memchr(type.at, ';', type.n) : NULL;

    if (more != NULL)
        type.n = (size_t)(more - type.at);
    while (type.n > 0 && (type.at[type.n - 1] == ' ' || type.at[type.n - 1] == '\t'))
        type.n--;
    return (type.at == NULL || slice_equal_nocase(type, SLICE("application/json"))) &&
           request_head_is_single(head);
}

/* A proxy that adds a header where it should replace it would let a client's own stand first. */
struct slice request_head_twice(const struct http_head *head, struct slice user)
{
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
    static const struct slice names[] = {
        NAME("x-request-timeout-ms"), NAME("x-stainless-timeout"), NAME("x-stainless-retry-count"),
        NAME("x-tollgate-priority"),  NAME("x-tollgate-value"),    NAME("x-deriva-priority"),
        NAME("x-deriva-node-id"),
    };
#undef NAME
    unsigned found = 0;
    size_t users = 0;

    for (size_t i = 0; i < head->n_fields; i++) {
        struct slice name = head->fields[i].name;
        users += user.n > 0 && slice_equal(name, user);
        if (users > 1)
            return user;
        if (name.n < 2 || name.at[0] != 'x' || name.at[1] != '-')
            continue;
        for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++)
            if (slice_equal(name, names[k])) {
                if (found >> k & 1)
                    return names[k];
                found |= 1u << k;
            }
    }
    return (struct slice){NULL, 0};
}
