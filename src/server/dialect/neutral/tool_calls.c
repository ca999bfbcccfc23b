/* tool_calls.c - names, ids and arguments of tool calls, as each dialect allows them.
 *
 * Ids and names that a provider would refuse are replaced by hashes of them. A hash needs no table:
 * the same call has the same id in every turn of a conversation, on every gateway, and the name of
 * a tool is found again by hashing the request's tools.
 */
#include "server/dialect/neutral/tool_calls.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static void put_hash(char *at, struct slice text, size_t digits)
{
    static const char hex[] = "0123456789abcdef";
    XXH128_hash_t hash = XXH3_128bits(text.at, text.n);
    uint64_t words[2] = {hash.high64, hash.low64};

    for (size_t i = 0; i < digits; i++)
        at[i] = hex[words[i / 16] >> (60 - i % 16 * 4) & 15];
}

struct slice neutral_tool_name(struct slice name, enum dialect to, char room[TOOL_NAME_MAX])
{
    size_t most = to == DIALECT_ANTHROPIC ? 128 : 64, head = 55;
    bool fits = name.n > 0 && name.n <= most;

    for (size_t i = 0; i < name.n && fits; i++)
        fits = is_name_char(name.at[i]);
    if (to == DIALECT_GEMINI && name.n > 0)
        fits = fits && (name.at[0] == '_' || (name.at[0] | 0x20) >= 'a');
    if (fits)
        return name;
    size_t n = name.n < head ? name.n : head;
    for (size_t i = 0; i < n; i++)
        room[i] = (char)(is_name_char(name.at[i]) ? name.at[i] : '_');
    if (n > 0 && to == DIALECT_GEMINI && (room[0] | 0x20) < 'a')
        room[0] = '_';
    room[n] = '_';
    put_hash(room + n + 1, name, 8);
    return (struct slice){room, n + 9};
}

struct slice neutral_call_id(struct slice id, enum dialect to, enum neutral_ids ids,
                             char room[CALL_ID_MAX])
{
    bool fits = id.n > 0;

    for (size_t i = 0; i < id.n && fits && (to == DIALECT_ANTHROPIC || ids == IDS_ALNUM9); i++)
        fits =
            is_name_char(id.at[i]) && (ids != IDS_ALNUM9 || (id.at[i] != '_' && id.at[i] != '-'));
    if (ids == IDS_ALNUM9)
        fits = fits && id.n == 9;
    else if (to == DIALECT_CHAT || to == DIALECT_RESPONSES)
        fits = fits && id.n <= 64;
    if (fits)
        return id;
    if (ids == IDS_ALNUM9) {
        put_hash(room, id, 9);
        return (struct slice){room, 9};
    }
    memcpy(room, "call_", 5);
    put_hash(room + 5, id, 32);
    return (struct slice){room, 37};
}

bool is_json_object(struct json_reader *json, struct slice text)
{
    struct json_value root;

    return json_begin(json, text.at, text.n, text.n, &root) && root.kind == JSON_OBJECT &&
           json_end(json);
}
