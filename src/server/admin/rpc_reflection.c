/* rpc_reflection.c - grpc.reflection.v1.ServerReflection and its older name v1alpha: which services
 * there are, and the files that define them. See proto/grpc/reflection/v1.
 *
 * No token: it tells what stands in proto/, and nothing of what the gateway does. Every question
 * has one answer, in the order of the questions; the answer repeats the question, as clients expect
 * of it.
 */
#include <assert.h>
#include <grpc/reflection/v1/reflection.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "io/grpc/descriptor_set.h"
#include "server/admin/rpc_monitor_internal.h"
#include "server/runtime/service.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;
#define ASKS(word) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##word
#define SAYS(word) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##word

enum { SERVICES_MAX = 32 };

/* Messages have no const; what is sent is only read. */
static char *unchanged(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void send_error(struct grpc_call *call, reflection_response *response, enum grpc_code code,
                       const char *what, const char *name)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    char text[200];

    snprintf(text, sizeof text, "there is no %s %.100s here", what, name);
    error.error_code = (int32_t)code;
    error.error_message = code == GRPC_NOT_FOUND ? text : unchanged(what);
    response->message_response_case = SAYS(ERROR_RESPONSE);
    response->error_response = &error;
    grpc_send(call, &response->base);
}

static void send_file(struct grpc_call *call, reflection_response *response, struct slice file)
{
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes = {file.n, (uint8_t *)(uintptr_t)file.at};

    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    response->message_response_case = SAYS(FILE_DESCRIPTOR_RESPONSE);
    response->file_descriptor_response = &files;
    grpc_send(call, &response->base);
}

static void send_services(struct grpc_call *call, reflection_response *response)
{
    const struct service_table *table = rpc_worker(call)->gateway->services;
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse services[SERVICES_MAX], *listed[SERVICES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < table->n; i++)
        for (size_t k = 0; k < table->list[i]->n_rpcs && n < SERVICES_MAX; k++) {
            grpc__reflection__v1__service_response__init(&services[n]);
            services[n].name = unchanged(table->list[i]->rpcs[k]->name);
            listed[n] = &services[n];
            n++;
        }
    assert(n < SERVICES_MAX);
    list.n_service = n;
    list.service = listed;
    response->message_response_case = SAYS(LIST_SERVICES_RESPONSE);
    response->list_services_response = &list;
    grpc_send(call, &response->base);
}

/* The contracts have no extensions, so a type that exists has none. */
static void send_extensions(struct grpc_call *call, reflection_response *response, const char *type)
{
    Grpc__Reflection__V1__ExtensionNumberResponse numbers =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;

    if (!descriptor_set_has_message(descriptor_set_own(), slice_of(type))) {
        send_error(call, response, GRPC_NOT_FOUND, "message", type);
        return;
    }
    numbers.base_type_name = unchanged(type);
    response->message_response_case = SAYS(ALL_EXTENSION_NUMBERS_RESPONSE);
    response->all_extension_numbers_response = &numbers;
    grpc_send(call, &response->base);
}

static void rpc_reflection_ask(struct grpc_call *call, const ProtobufCMessage *message)
{
    const reflection_request *request = (const void *)message;
    reflection_response response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    struct slice file;

    /* Who sends many questions and reads no answers would have them all kept here. */
    if (!grpc_has_room(call)) {
        grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "read the answers before you ask more");
        return;
    }
    response.valid_host = request->host;
    response.original_request = (reflection_request *)(uintptr_t)request;
    switch (request->message_request_case) {
    case ASKS(FILE_BY_FILENAME):
        if (descriptor_set_find_file(descriptor_set_own(), slice_of(request->file_by_filename),
                                     &file))
            send_file(call, &response, file);
        else
            send_error(call, &response, GRPC_NOT_FOUND, "file", request->file_by_filename);
        break;
    case ASKS(FILE_CONTAINING_SYMBOL):
        if (descriptor_set_find_symbol(descriptor_set_own(),
                                       slice_of(request->file_containing_symbol), &file))
            send_file(call, &response, file);
        else
            send_error(call, &response, GRPC_NOT_FOUND, "symbol", request->file_containing_symbol);
        break;
    case ASKS(FILE_CONTAINING_EXTENSION):
        send_error(call, &response, GRPC_NOT_FOUND, "extension of",
                   request->file_containing_extension->containing_type);
        break;
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        send_extensions(call, &response, request->all_extension_numbers_of_type);
        break;
    case ASKS(LIST_SERVICES):
        send_services(call, &response);
        break;
    default:
        send_error(call, &response, GRPC_INVALID_ARGUMENT, "this kind of request is not known", "");
        break;
    }
}

/* Who asks goes on only after the answers; at the end of the gateway there is nothing to wait
 * for. */
static void rpc_reflection_drain(struct grpc_call *call)
{
    grpc_finish(call, GRPC_UNAVAILABLE, "the server is shutting down");
}

static const struct grpc_method METHODS[] = {
    {.name = "ServerReflectionInfo",
     .request = &grpc__reflection__v1__server_reflection_request__descriptor,
     .many = true,
     .message = rpc_reflection_ask,
     .drain = rpc_reflection_drain},
};

const struct grpc_service rpc_reflection = {"grpc.reflection.v1.ServerReflection", METHODS,
                                            sizeof METHODS / sizeof METHODS[0]};
/* The messages of both are the same, name by name and number by number. */
const struct grpc_service rpc_reflection_alpha = {"grpc.reflection.v1alpha.ServerReflection",
                                                  METHODS, sizeof METHODS / sizeof METHODS[0]};
