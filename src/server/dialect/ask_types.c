/* ask_types.c - the types of tools and parts that are known, from the providers' own SDKs.
 *
 * A list of what is known, not of what is dangerous: a type that appears after this was written is
 * new to us, and bound.c then assumes the worst of it.
 */
#include "server/dialect/ask_internal.h"

enum ask_media ask_media_of(struct json_text type)
{
    static const char *const images[] = {"image_url",           "input_image",           "image",
                                         "computer_screenshot", "image_generation_call", NULL};
    static const char *const audios[] = {"input_audio", "audio", NULL};
    static const char *const files[] = {"file",  "input_file", "document", "container_upload",
                                        "video", "video_url",  NULL};
    /* In the order in which they are met. */
    static const char *const texts[] = {
        "text", "input_text", "output_text", "message", "tool_use", "tool_result", "function",
        "function_call", "function_call_output", "reasoning", "summary_text", "reasoning_text",
        "thinking", "redacted_thinking", "refusal", "custom", "custom_tool_call",
        "custom_tool_call_output", "compaction", "content", "search_result", "item_reference",
        /* tools that the provider ran, and what came of it */
        "server_tool_use", "web_search_call", "web_search_tool_result", "web_search_result",
        "web_search_tool_result_error", "web_fetch_tool_result", "web_fetch_result",
        "code_execution_tool_result", "code_execution_result", "bash_code_execution_tool_result",
        "bash_code_execution_result", "text_editor_code_execution_tool_result",
        "tool_search_tool_result", "tool_reference", "mcp_tool_use", "mcp_tool_result",
        "file_search_call", "computer_call", "computer_call_output", "code_interpreter_call",
        "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output",
        "apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_call",
        "mcp_approval_request", "mcp_approval_response", "tool_search_call", "tool_search_output",
        "logs",
        /* citations */
        "url_citation", "file_citation", "container_file_citation", "file_path", "char_location",
        "page_location", "content_block_location", "web_search_result_location",
        "search_result_location", "url",
        /* what a computer was told to do */
        "click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait",
        NULL};

    if (json_text_is(type, "text") || ask_is_one_of(type, texts))
        return ASK_NO_MEDIA;
    if (ask_is_one_of(type, images))
        return ASK_IMAGE;
    if (ask_is_one_of(type, audios))
        return ASK_AUDIO;
    return ask_is_one_of(type, files) ? ASK_FILE : ASK_NEW_MEDIA;
}

/* Tokens of hidden descriptions are Anthropic's documented ones, a fifth more where they are said
 * to be "about" that. A type is a name, or begins with one that ends in "_": a date follows. */
enum ask_tool ask_tool_of(struct json_text type, int64_t *hidden)
{
    static const struct {
        const char *name;
        enum ask_tool tool;
        int64_t hidden;
    } types[] = {
        {"function", ASK_TOOL_CLIENT, 0},
        {"custom", ASK_TOOL_CLIENT, 0},
        {"namespace", ASK_TOOL_CLIENT, 0},
        {"local_shell", ASK_TOOL_CLIENT, 900},
        {"apply_patch", ASK_TOOL_CLIENT, 900},
        {"computer", ASK_TOOL_CLIENT, 1300},
        {"computer_use_preview", ASK_TOOL_CLIENT, 1300},
        {"computer_toolset_", ASK_TOOL_CLIENT, 5600},
        {"browser_toolset_", ASK_TOOL_CLIENT, 9100},
        {"computer_", ASK_TOOL_CLIENT, 1300},
        {"bash_", ASK_TOOL_CLIENT, 325},
        {"text_editor_", ASK_TOOL_CLIENT, 700},
        {"memory_", ASK_TOOL_CLIENT, 900},
        {"web_search", ASK_TOOL_HOSTED, 0},
        {"web_search_", ASK_TOOL_HOSTED, 0},
        {"web_fetch_", ASK_TOOL_HOSTED, 0},
        {"file_search", ASK_TOOL_HOSTED, 0},
        {"tool_search", ASK_TOOL_HOSTED, 0},
        {"tool_search_tool_", ASK_TOOL_HOSTED, 0},
        {"mcp", ASK_TOOL_HOSTED, 0},
        {"mcp_toolset", ASK_TOOL_HOSTED, 0},
        {"code_interpreter", ASK_TOOL_CODE, 0},
        {"code_execution_", ASK_TOOL_CODE, 0},
        {"shell", ASK_TOOL_CODE, 0},
        {"image_generation", ASK_TOOL_IMAGE, 0},
        {"advisor_", ASK_TOOL_ADVISOR, 0},
    };

    *hidden = 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *name = types[i].name;
        if (type.size == 0 || *name != *type.bytes)
            continue;
        bool dated = name[strlen(name) - 1] == '_';
        if (dated ? json_text_begins(type, name) : json_text_is(type, name)) {
            *hidden = types[i].hidden;
            return types[i].tool;
        }
    }
    return ASK_TOOL_NEW;
}
