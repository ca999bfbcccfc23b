/* test_takeover.c - the process that is being taken over refuses, goes on, or dies, at each step of
 * the handshake in turn: the new one serves if, and only if, the old one does not, and then with
 * all that the old one had spent and reserved.
 *
 * The old process is a thread of this test, which speaks the frames itself and has a ledger with a
 * call in flight.
 */
#include "takeover_kit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "server/ledger/ledger_internal.h"
#include "server/ledger/spending.h"
#include "server/runtime/takeover.h"
#include "server/runtime/worker.h"
#include "server/serve/services.h"

enum { BUDGET = 1000000,
       SPENT = 300,
       RESERVED = 40 };

/* What the old process does in the place of what it should say. */
enum ending { REFUSES,
              GOES_ON, /* without a word */
              DIES };

static struct old {
    struct ledger *ledger;
    struct takeover_folder place;
    int listening;
    enum takeover_type last; /* says up to this */
    enum ending ending;
    bool is_dead;
    pthread_t thread;
} old;

static struct takeover_frame heard;

static int open_old(void **state)
{
    struct ledger_config config;
    struct ledger_tenant_spec tenant = {"a", LEDGER_NO_PARENT, 0, 0, NULL, NULL};
    struct tg_problem problem = {""};
    struct ledger_entry entry = {.micro = SPENT};
    (void)state;

    memset(&old, 0, sizeof old);
    takeover_folder_make(&old.place, "takeover");
    ledger_config_init(&config);
    config.path = old.place.ledger;
    config.slots = 64;
    if (!ledger_open(&config, &old.ledger, &problem) ||
        !ledger_add_tenants(old.ledger, &tenant, 1, &problem))
        fail_msg("%s", problem.text);
    entry.tenant = tenant.number;
    assert_true(ledger_take_room(old.ledger));
    ledger_append(old.ledger, &entry);
    assert_true(ledger_take_room(old.ledger));
    entry.micro = RESERVED;
    assert_int_not_equal(ledger_open_call(old.ledger, &entry), 0);
    old.listening = takeover_listen(old.place.socket, SOCK_SEQPACKET, &problem);
    assert_true(old.listening >= 0);
    return 0;
}

static int close_old(void **state)
{
    (void)state;

    close(old.listening);
    if (!old.is_dead)
        ledger_free_left(old.ledger);
    takeover_folder_remove(&old.place);
    return 0;
}

/* ---- the old process ---- */

static void hear(int fd, enum takeover_type type)
{
    if (takeover_receive(fd, &heard) != 1 || heard.type != type)
        abort();
    takeover_close_fds(&heard);
}

static bool say(int fd, enum takeover_type type, const void *payload, size_t n)
{
    if (takeover_send(fd, type, payload, n, NULL, 0) != 1)
        abort();
    return type != old.last;
}

static bool offer(int fd)
{
    struct takeover_offer what = {.pid = 4711, .epoch_ns = 0, .seed = 1, .journal = 0};
    int lock = ledger_lock_fd(old.ledger);

    hear(fd, TAKEOVER_HELLO);
    (void)say(fd, TAKEOVER_OFFER, &what, sizeof what);
    if (takeover_send(fd, TAKEOVER_LOCK, NULL, 0, &lock, 1) != 1)
        abort();
    return say(fd, TAKEOVER_OFFERED, NULL, 0);
}

static void end_as_told(int fd)
{
    static const char why[] = "has not begun to serve in time";

    if (old.ending == REFUSES)
        (void)takeover_send(fd, TAKEOVER_REFUSED, why, strlen(why), NULL, 0);
    if (old.ending == DIES) {
        ledger_free_left(old.ledger);
        old.is_dead = true;
    }
    close(fd);
}

static void *be_old(void *arg)
{
    int fd;
    (void)arg;

    while ((fd = accept(old.listening, NULL, NULL)) < 0)
        sched_yield();
    if (offer(fd)) {
        hear(fd, TAKEOVER_READ);
        hear(fd, TAKEOVER_READY);
        if (say(fd, TAKEOVER_COMMIT, NULL, 0)) {
            hear(fd, TAKEOVER_TAKING);
            if (say(fd, TAKEOVER_HOLDING, NULL, 0)) {
                hear(fd, TAKEOVER_TAKEN);
                (void)say(fd, TAKEOVER_RETIRED, NULL, 0);
            }
        }
    }
    end_as_told(fd);
    return NULL;
}

/* ---- the new one ---- */

struct new
{
    struct gateway *gateway;
    struct worker worker;
    struct control control;
    struct inherited inherited;
    struct takeover *takeover;
};

static void make_new(struct new *new, struct tg_problem *problem)
{
    struct config_problems problems;
    struct config config;
    struct clock clock;

    if (config_load(old.place.path, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    clock_init(&clock);
    inherited_init(&new->inherited);
    if (!takeover_begin(old.place.ledger, false, &new->inherited, &clock, &new->takeover, problem))
        fail_msg("%s", problem->text);
    assert_non_null(new->takeover);
    takeover_set_patience(new->takeover, old.ending == DIES ? 60000 : 0);
    /* Who dies before the ledger is opened is dead by then. */
    if (old.last == TAKEOVER_OFFERED)
        pthread_join(old.thread, NULL);
    if (!gateway_new_from(&services, &config, &clock, 2, &new->inherited, &new->gateway, problem))
        fail_msg("%s", problem->text);
    takeover_read(new->takeover);
    if (!worker_init(&new->worker, new->gateway, 0, &new->worker, problem) ||
        !control_init(&new->control, new->gateway, &new->worker, 1, old.place.path, problem))
        fail_msg("%s", problem->text);
}

static void free_new(struct new *new)
{
    new->gateway->inherited = NULL;
    inherited_fini(&new->inherited);
    takeover_free(new->takeover);
    worker_fini(&new->worker);
    control_fini(&new->control);
    gateway_free(new->gateway);
}

static tg_micro left_of(struct new *new)
{
    struct spending_call call = {.tenant = "a", .hint = SPENDING_TOP, .money = 1};
    tg_micro left = -1;
    double part;

    assert_int_equal(spending_left(new->gateway->spending, &call,
                                   clock_now_ms(&new->gateway->clock), &left, &part),
                     TG_OK);
    return left;
}

/* Whether the new one serves; what is left of the budget then. */
static bool take_over(enum takeover_type last, enum ending ending, tg_micro *left, char text[300])
{
    struct tg_problem problem = {""};
    struct new new = {.gateway = NULL};

    old.last = last;
    old.ending = ending;
    assert_int_equal(pthread_create(&old.thread, NULL, be_old, NULL), 0);
    make_new(&new, &problem);
    bool serves = takeover_serve(new.takeover, &new.control, &problem);
    if (last != TAKEOVER_OFFERED)
        pthread_join(old.thread, NULL);
    snprintf(text, 300, "%.299s", problem.text);
    *left = left_of(&new);
    free_new(&new);
    return serves;
}

/* ---- promises ---- */

static const enum takeover_type STEPS[] = {TAKEOVER_OFFERED, TAKEOVER_COMMIT, TAKEOVER_HOLDING};

static void in_each_step(enum ending ending, bool serves, const char *words)
{
    tg_micro left;
    char text[300];

    for (size_t i = 0; i < COUNT_OF(STEPS); i++) {
        assert_int_equal(open_old(NULL), 0);
        assert_int_equal(take_over(STEPS[i], ending, &left, text), serves);
        if (words != NULL && strstr(text, words) == NULL)
            fail_msg("not the message: %s", text);
        if (serves)
            assert_int_equal(left, BUDGET - SPENT - RESERVED);
        assert_int_equal(close_old(NULL), 0);
    }
}

static void who_is_refused_does_not_serve(void **state)
{
    (void)state;
    in_each_step(REFUSES, false, "this process has not begun to serve in time");
}

static void who_loses_the_link_to_a_living_process_does_not_serve(void **state)
{
    (void)state;
    in_each_step(GOES_ON, false, "process 4711 goes on, and this one ends");
}

static void who_takes_over_from_a_dead_process_serves_with_what_it_had_reserved(void **state)
{
    (void)state;
    in_each_step(DIES, true, NULL);
}

/* It has heard that the old one has retired: whatever happens to the link then. */
static void from_retired_on_the_new_one_serves(void **state)
{
    tg_micro left;
    char text[300];
    (void)state;

    for (int ending = GOES_ON; ending <= DIES; ending++) {
        assert_int_equal(open_old(NULL), 0);
        assert_true(take_over(TAKEOVER_RETIRED, (enum ending)ending, &left, text));
        assert_int_equal(close_old(NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_refused_does_not_serve),
        cmocka_unit_test(who_loses_the_link_to_a_living_process_does_not_serve),
        cmocka_unit_test(who_takes_over_from_a_dead_process_serves_with_what_it_had_reserved),
        cmocka_unit_test(from_retired_on_the_new_one_serves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
