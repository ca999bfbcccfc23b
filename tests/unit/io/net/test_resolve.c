/* test_resolve.c - names to addresses while the name service answers, fails, and says nothing.
 *
 * The system's look-up is replaced by one that does what the test says: libuv, which calls it from
 * a thread of its own, finds ours first.
 */
#include "net_kit.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/net/resolve.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int status;    /* the result of look-ups: 0, or EAI_... */
    int last_byte; /* the last byte of the address that is found */
    bool stuck;    /* none ends */
    int asked;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

struct found {
    struct addrinfo info;
    struct sockaddr_in address;
};

/* Seen from outside the program, as little else of it is. */
#pragma GCC visibility push(default)

int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
                struct addrinfo **list)
{
    struct found *found = calloc(1, sizeof *found);

    (void)name, (void)hints;
    pthread_mutex_lock(&service.lock);
    service.asked++;
    pthread_cond_broadcast(&service.moved);
    while (service.stuck)
        pthread_cond_wait(&service.moved, &service.lock);
    int status = found == NULL ? EAI_MEMORY : service.status;
    if (status == 0) {
        found->address = (struct sockaddr_in){.sin_family = AF_INET,
                                              .sin_port = htons((uint16_t)atoi(port))};
        found->address.sin_addr.s_addr = htonl(0x7f000000u + (unsigned)service.last_byte);
        found->info = (struct addrinfo){.ai_family = AF_INET,
                                        .ai_socktype = SOCK_STREAM,
                                        .ai_addrlen = sizeof found->address,
                                        .ai_addr = (struct sockaddr *)&found->address};
        *list = &found->info;
    } else {
        free(found);
        errno = EIO; /* with EAI_SYSTEM */
    }
    pthread_mutex_unlock(&service.lock);
    return status;
}

void freeaddrinfo(struct addrinfo *list)
{
    free(list);
}

#pragma GCC visibility pop

static void set_service(int status, int last_byte, bool stuck)
{
    pthread_mutex_lock(&service.lock);
    service.status = status;
    service.last_byte = last_byte;
    service.stuck = stuck;
    pthread_cond_broadcast(&service.moved);
    pthread_mutex_unlock(&service.lock);
}

static int times_asked(void)
{
    pthread_mutex_lock(&service.lock);
    int asked = service.asked;
    pthread_mutex_unlock(&service.lock);
    return asked;
}

struct asker {
    struct resolve_wait wait;
    bool done;
    size_t n;
    int last_byte;
};

static void told(struct resolve_wait *wait, const struct resolve_answer *answer)
{
    struct asker *asker = (struct asker *)(void *)wait;

    asker->done = true;
    asker->n = answer->n;
    if (answer->n > 0)
        asker->last_byte = (int)(ntohl(answer->list[0].address.in.sin_addr.s_addr) & 255);
}

static void ask(struct resolver *resolver, struct asker *asker)
{
    *asker = (struct asker){.wait = {.done = told}};
    resolve(resolver, "provider.example", 443, &asker->wait);
}

/* Nothing is remembered as good: every question is a look-up. */
static void start(struct kit *kit, struct resolver *resolver)
{
    kit_init(kit);
    resolver_init(resolver, kit->loop, 0);
    resolver->again_ms = 0;
    resolver->patience_ms = 3600000;
}

static int address_of(struct kit *kit, struct resolver *resolver)
{
    struct asker asker;

    ask(resolver, &asker);
    kit_until(kit, asker.done);
    return asker.n > 0 ? asker.last_byte : 0;
}

static void what_was_found_holds_while_look_ups_fail(void **state)
{
    static const int FAILURES[] = {EAI_AGAIN, EAI_FAIL, EAI_SYSTEM, EAI_MEMORY};
    struct resolver resolver;
    struct kit kit;

    (void)state;
    start(&kit, &resolver);
    set_service(EAI_AGAIN, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 0); /* nothing was ever found */
    set_service(0, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 1);
    for (size_t i = 0; i < COUNT_OF(FAILURES); i++) {
        int before = times_asked();
        set_service(FAILURES[i], 2, false);
        assert_int_equal(address_of(&kit, &resolver), 1);
        assert_int_equal(times_asked(), before + 1);
    }
    set_service(0, 2, false);
    assert_int_equal(address_of(&kit, &resolver), 2);
    resolver_fini(&resolver);
    kit_fini(&kit);
}

static void after_a_failure_what_is_known_is_given_without_asking(void **state)
{
    struct resolver resolver;
    struct kit kit;

    (void)state;
    start(&kit, &resolver);
    set_service(0, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 1);
    resolver.again_ms = 3600000;
    set_service(EAI_AGAIN, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 1);
    int asked = times_asked();
    assert_int_equal(address_of(&kit, &resolver), 1);
    assert_int_equal(times_asked(), asked);
    resolver_fini(&resolver);
    kit_fini(&kit);
}

static void that_there_is_no_such_name_is_believed(void **state)
{
    struct resolver resolver;
    struct kit kit;

    (void)state;
    start(&kit, &resolver);
    set_service(0, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 1);
    set_service(EAI_NONAME, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 0);
    set_service(EAI_AGAIN, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 0);
    resolver_fini(&resolver);
    kit_fini(&kit);
}

static void a_look_up_that_takes_long_is_not_waited_for(void **state)
{
    struct asker first, second;
    struct resolver resolver;
    struct kit kit;

    (void)state;
    start(&kit, &resolver);
    set_service(0, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 1);
    set_service(0, 2, true);
    resolver.patience_ms = 1;
    ask(&resolver, &first);
    assert_false(first.done);
    kit_until(&kit, first.done);
    assert_int_equal(first.last_byte, 1);
    /* It is still under way: who comes now does not wait at all. */
    ask(&resolver, &second);
    assert_true(second.done);
    assert_int_equal(second.last_byte, 1);
    /* Its answer is taken when it comes. */
    resolver.keep_ms = 3600000;
    set_service(0, 2, false);
    kit_until(&kit, (ask(&resolver, &second), second.done && second.last_byte == 2));
    resolver_fini(&resolver);
    kit_fini(&kit);
}

static void a_resolver_may_end_while_it_asks(void **state)
{
    struct resolver resolver;
    struct asker asker;
    struct kit kit;

    (void)state;
    start(&kit, &resolver);
    set_service(0, 1, false);
    assert_int_equal(address_of(&kit, &resolver), 1);
    set_service(0, 1, true);
    resolver.patience_ms = 1;
    int before = times_asked();
    ask(&resolver, &asker);
    kit_until(&kit, asker.done && times_asked() > before);
    ask(&resolver, &asker);
    resolver_fini(&resolver);
    set_service(0, 1, false);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_found_holds_while_look_ups_fail),
        cmocka_unit_test(after_a_failure_what_is_known_is_given_without_asking),
        cmocka_unit_test(that_there_is_no_such_name_is_believed),
        cmocka_unit_test(a_look_up_that_takes_long_is_not_waited_for),
        cmocka_unit_test(a_resolver_may_end_while_it_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
