/* remote_name.c - names of Redis' keys. See remote_name.h. */
#include "server/remote_store/remote_name.h"

void remote_text_put(struct remote_text *text, struct slice more)
{
    size_t left = text->n < text->room ? text->room - text->n : 0;

    if (more.n > 0 && left > 0)
        memcpy(text->at + text->n, more.at, more.n < left ? more.n : left);
    text->n += more.n;
}

static bool remote_name_is_plain(unsigned char c)
{
    return c > ' ' && c < 0x7f && c != '%' && c != '{' && c != '}' && c != ':';
}

void remote_text_name(struct remote_text *text, struct slice name)
{
    static const char HEX[] = "0123456789ABCDEF";

    /* An empty tag is none: the whole key would decide the slot. */
    if (name.n == 0)
        remote_text_put(text, SLICE("%"));
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.at[i];
        char escaped[3] = {'%', HEX[c >> 4], HEX[c & 15]};
        if (remote_name_is_plain(c))
            remote_text_put(text, (struct slice){name.at + i, 1});
        else
            remote_text_put(text, (struct slice){escaped, 3});
    }
}
