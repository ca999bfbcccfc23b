/* remote_key_windows.h - calls and tokens a minute of a provider's key, as limits that are leased.
 *
 * With two tiers the windows of keys and of their groups are limits like any other: a debit of one
 * call and its tokens at the key and at its group, spent from blocks (remote_blocks.h). Each group,
 * and each key without one, is a root of its own, and so a hash slot of its own.
 */
#ifndef TG_REMOTE_REMOTE_KEY_WINDOWS_H
#define TG_REMOTE_REMOTE_KEY_WINDOWS_H

#include "server/remote_store/remote_limits.h"

enum { KEY_WINDOW_SCOPES = 2, KEY_WINDOW_NAME = 640 };

/* It points into itself, and to the terms that it was made of. */
struct remote_key_windows {
    struct remote_debit debit;
    struct remote_scope scopes[KEY_WINDOW_SCOPES];
    bool of_group[KEY_WINDOW_SCOPES];
    struct tg_limit limits[KEY_WINDOW_SCOPES][2];
    char root[KEY_WINDOW_NAME], key[KEY_WINDOW_NAME];
};

/* False: neither the key nor its group has such a limit, or their names are too long. */
bool remote_key_windows_init(struct remote_key_windows *windows, const struct tg_key_terms *terms);

/* A refusal, as it is reported to the keyring. */
struct tg_key_hold remote_key_windows_hold(const struct remote_key_windows *windows,
                                           const struct tg_axes *axes, tg_ms now);

#endif
