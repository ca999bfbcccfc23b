/* admin_page.c - the dashboard and its files, as the build has laid them into the program.
 *
 * They hold nothing of this gateway, so they need no token: the page asks for it, and sends it with
 * what it asks of the API.
 */
#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/web_files.h"

static bool is_get(const struct http_inbound *in)
{
    return slice_equal(in->head.method, SLICE("GET")) ||
           slice_equal(in->head.method, SLICE("HEAD"));
}

bool admin_page_file(struct http_inbound *in, struct slice path)
{
    const struct web_file *file = web_file_find(path);

    if (file == NULL)
        return false;
    if (!is_get(in)) {
        admin_reply_method(in, "GET, HEAD");
        return true;
    }
    bool known = slice_equal(http_find(&in->head, SLICE("if-none-match")), slice_of(file->etag));
    struct http_field fields[] = {
        {SLICE("content-type"), slice_of(file->type)},
        {SLICE("etag"), slice_of(file->etag)},
        {SLICE("cache-control"), SLICE(WEB_FILE_CACHE)},
        {SLICE("content-security-policy"), SLICE(WEB_FILE_POLICY)},
        {SLICE("x-content-type-options"), SLICE("nosniff")},
        {SLICE("referrer-policy"), SLICE("no-referrer")},
    };
    struct http_head head = {.status = known ? 304 : 200,
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof fields[0]};
    http_inbound_send(in, &head, known ? (struct slice){"", 0} : web_file_bytes(file));
    return true;
}

void admin_page(struct admin_call *call)
{
    if (!admin_page_file(call->in, SLICE("/")))
        admin_reply_error(call->in, 404, "not_found", "this program has no dashboard in it");
}
