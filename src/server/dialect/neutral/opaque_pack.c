/* opaque_pack.c - what one provider wants back, carried by clients that know nothing of it. */
#include "server/dialect/neutral/opaque_pack.h"

#include <string.h>

#define ID_PREFIX "tg1g"
#define TEXT_PREFIX "tg1."

static const char *const kind_names[] = {"none", "signature", "redacted", "encrypted", "thought"};

static bool is_base64(struct slice text)
{
    size_t n = text.n;

    while (n > 0 && text.n - n < 2 && text.at[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        char c = text.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '+' || c == '/'))
            return false;
    }
    return n > 0 && (text.n % 4 == 0 || n == text.n);
}

void opaque_pack_id(struct text_out *out, struct slice id, struct slice signature)
{
    /* Padding is put back by the length, so a text that should have had it and had none is not
     * carried. */
    if (!is_base64(signature) || signature.n % 4 != 0) {
        text_out_slice(out, id);
        return;
    }
    text_out_text(out, ID_PREFIX);
    text_out_unsigned(out, id.n);
    text_out_char(out, '_');
    text_out_slice(out, id);
    for (size_t i = 0; i < signature.n && signature.at[i] != '='; i++) {
        char c = signature.at[i];
        text_out_char(out, (char)(c == '+' ? '-' : c == '/' ? '_' : c));
    }
}

bool opaque_unpack_id(struct slice id, struct slice *bare, struct slice *signature)
{
    size_t at = sizeof ID_PREFIX - 1, n = 0, first = at;

    if (id.n < at || memcmp(id.at, ID_PREFIX, at) != 0)
        return false;
    while (at < id.n && at - first < 6 && id.at[at] >= '0' && id.at[at] <= '9')
        n = n * 10 + (size_t)(id.at[at++] - '0');
    if (at == first || at == id.n || id.at[at] != '_')
        return false;
    at++;
    if (n == 0 || n >= id.n - at)
        return false;
    *bare = (struct slice){id.at + at, n};
    *signature = (struct slice){id.at + at + n, id.n - at - n};
    return true;
}

size_t opaque_unpack_signature(struct slice signature, char *room)
{
    size_t n = signature.n;

    for (size_t i = 0; i < n; i++) {
        char c = signature.at[i];
        room[i] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    while (n % 4 != 0)
        room[n++] = '=';
    return n;
}

void opaque_pack(struct text_out *out, enum neutral_opaque kind, enum dialect dialect,
                 struct slice provider, struct slice text)
{
    text_out_format(out, TEXT_PREFIX "%s.%s.", dialect_name(dialect), kind_names[kind]);
    for (size_t i = 0; i < provider.n; i++)
        text_out_char(out, (char)(provider.at[i] == '.' ? '_' : provider.at[i]));
    text_out_char(out, '.');
    text_out_slice(out, text);
}

/* The word before the next point, which is passed over. */
static bool next_word(struct slice *rest, struct slice *word)
{
    const char *point = rest->n > 0 ? memchr(rest->at, '.', rest->n) : NULL;

    if (point == NULL)
        return false;
    *word = (struct slice){rest->at, (size_t)(point - rest->at)};
    *rest = (struct slice){point + 1, rest->n - word->n - 1};
    return true;
}

void opaque_unpack(struct slice text, enum neutral_opaque *kind, enum dialect *dialect,
                   struct slice *provider, struct slice *carried)
{
    size_t prefix = sizeof TEXT_PREFIX - 1;
    struct slice words[3];
    enum dialect d = 0;
    size_t k = 0;

    if (text.n < prefix || memcmp(text.at, TEXT_PREFIX, prefix) != 0)
        return;
    struct slice rest = {text.at + prefix, text.n - prefix};
    for (int i = 0; i < 3; i++)
        if (!next_word(&rest, &words[i]))
            return;
    while (d < DIALECT_COUNT && !slice_equal(words[0], slice_of(dialect_name(d))))
        d++;
    while (k < sizeof kind_names / sizeof kind_names[0] &&
           !slice_equal(words[1], slice_of(kind_names[k])))
        k++;
    if (d == DIALECT_COUNT || k == sizeof kind_names / sizeof kind_names[0])
        return;
    *kind = (enum neutral_opaque)k;
    *dialect = d;
    *provider = words[2];
    *carried = rest;
}

/* By its digit, which is the rarest of its characters in texts. */
bool opaque_is_in(struct slice body)
{
    const char *from = body.at, *end = body.at + body.n;

    while (from < end && (from = memchr(from, '1', (size_t)(end - from))) != NULL) {
        if (from - body.at >= 3 && from[-1] == 'g' && from[-2] == 't' &&
            (from[-3] == '"' || from[-3] == '_'))
            return true;
        from++;
    }
    return false;
}
