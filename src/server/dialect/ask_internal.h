/* ask_internal.h - the types of tools and parts that ask_measure.c knows. */
#ifndef TG_DIALECT_ASK_INTERNAL_H
#define TG_DIALECT_ASK_INTERNAL_H

#include "server/dialect/ask.h"

enum ask_media { ASK_NO_MEDIA, ASK_IMAGE, ASK_AUDIO, ASK_FILE, ASK_NEW_MEDIA };

/* What a part or item of a prompt is, by its type: ASK_NO_MEDIA is text in some form,
 * ASK_NEW_MEDIA what we do not know. */
enum ask_media ask_media_of(struct json_text type);

/* Who runs a tool, and what that means for the bill. */
enum ask_tool {
    ASK_TOOL_NONE,    /* it has no type */
    ASK_TOOL_CLIENT,  /* the client does */
    ASK_TOOL_HOSTED,  /* the provider does: each use is a further pass */
    ASK_TOOL_CODE,    /* the same, in a container that is billed by time */
    ASK_TOOL_IMAGE,   /* makes images with another model */
    ASK_TOOL_ADVISOR, /* asks another model */
    ASK_TOOL_NEW,     /* nobody knows */
};

/* `hidden` is set to the tokens that its description adds to the prompt. */
enum ask_tool ask_tool_of(struct json_text type, int64_t *hidden);

static inline bool ask_is_one_of(struct json_text text, const char *const words[])
{
    for (size_t i = 0; words[i] != NULL && text.size > 0; i++)
        if (words[i][0] == text.bytes[0] && json_text_is(text, words[i]))
            return true;
    return false;
}

#endif
