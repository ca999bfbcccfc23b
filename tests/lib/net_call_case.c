/* net_call_case.c - what most tests of a call have in common. See net_call_case.h. */
#include "net_call_case.h"

#include <string.h>

struct call_client client, other;

void begin(const struct call_kit_config *config)
{
    call_kit_open(config);
    memset(&client, 0, sizeof client);
    memset(&other, 0, sizeof other);
}

void end(void)
{
    struct call *calls[] = {client.call, other.call};

    call_kit_expect_idle(calls, other.call != NULL ? 2 : 1);
    call_kit_close();
}

void reply_and_end(int status, const char *type, const char *text)
{
    call_out_reply(call_kit_out(), status, type, text);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
}

void expect_state(enum call_state state)
{
    assert_string_equal(call_state_name(client.call->state), call_state_name(state));
}

void expect_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("%s\nis not in\n%s", part, text);
}

void expect_not_in(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("%s\nis in\n%s", part, text);
}
