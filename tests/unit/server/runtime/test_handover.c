/* test_handover.c - a process that is about to take over is gone at each step of the handshake in
 * turn: the old one goes on as if nothing had happened, and hands over to the next that comes.
 *
 * The new process is this test, which speaks the frames itself, and has a ledger of its own where
 * its lock matters. What never comes ends in the time limit of the test's runner.
 */
#include "takeover_kit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "server/ledger/ledger_internal.h"
#include "server/ledger/spending.h"
#include "server/runtime/handover.h"
#include "server/runtime/worker.h"
#include "server/serve/services.h"

static struct world {
    struct gateway *gateway;
    struct worker worker;
    struct control control;
    struct clock clock;
    struct takeover_folder place;
    atomic_bool retired;
} world;

static struct takeover_frame frame;

static void has_retired(void *arg)
{
    (void)arg;
    atomic_store(&world.retired, true);
}

static int open_world_with(tg_ms late_ms, tg_ms turn_ms, size_t events_max)
{
    struct config_problems problems;
    struct tg_problem problem = {""};
    struct config config;

    memset(&world, 0, sizeof world);
    takeover_folder_make(&world.place, "handover");
    if (config_load(world.place.path, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    clock_init(&world.clock);
    if (!gateway_new(&services, &config, &world.clock, 2, &world.gateway, &problem) ||
        !worker_init(&world.worker, world.gateway, 0, &world.worker, &problem) ||
        !control_init(&world.control, world.gateway, &world.worker, 1, world.place.path, &problem))
        fail_msg("%s", problem.text);
    world.control.handover = handover_new(&world.control, has_retired, NULL);
    assert_non_null(world.control.handover);
    handover_set_bounds(world.control.handover, late_ms, turn_ms, events_max);
    assert_true(control_start(&world.control));
    assert_true(worker_start(&world.worker));
    return 0;
}

static int open_world(void **state)
{
    (void)state;
    return open_world_with(60000, 60000, 64 << 20);
}

/* Every step of the other process is late. */
static int open_hasty_world(void **state)
{
    (void)state;
    return open_world_with(1, 1, 64 << 20);
}

/* The step in which nobody accepts is late. */
static int open_impatient_world(void **state)
{
    (void)state;
    return open_world_with(60000, 1, 64 << 20);
}

static int open_small_world(void **state)
{
    (void)state;
    return open_world_with(60000, 60000, 16384);
}

static int close_world(void **state)
{
    (void)state;

    net_loop_stop(world.worker.loop);
    worker_join(&world.worker);
    control_stop(&world.control);
    worker_fini(&world.worker);
    control_fini(&world.control);
    gateway_free(world.gateway);
    takeover_folder_remove(&world.place);
    return 0;
}

/* ---- the new process ---- */

enum step { CONNECTED,
            GREETED,
            OFFERED,
            READ,
            READY,
            COMMITTED,
            TAKING,
            HELD,
            STEPS };

/* What a takeover has to do with: sockets, and the lock of the ledger. The control thread opens
 * files of its own when it first looks at the memory, at any time in a test. */
static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    char link[300];
    int n = 0;

    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
        link[bytes > 0 ? bytes : 0] = '\0';
        n += strncmp(link, "socket:", 7) == 0 || strstr(link, ".lock") != NULL;
    }
    closedir(folder);
    return n;
}

static int join(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", world.place.socket);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void await(int fd, enum takeover_type type)
{
    do {
        assert_int_equal(takeover_receive(fd, &frame), 1);
        takeover_close_fds(&frame);
        if (frame.type == TAKEOVER_REFUSED)
            fail_msg("%.*s", (int)frame.n, frame.payload);
    } while (frame.type != type);
}

static void greet(int fd, uint32_t version)
{
    struct takeover_hello hello = {.version = version, .pid = 1};

    memcpy(hello.magic, "TGTAKE", 7);
    (void)takeover_send(fd, TAKEOVER_HELLO, &hello, sizeof hello, NULL, 0);
}

/* Goes so far, and returns the link. */
static int go(enum step last)
{
    struct takeover_ready ready = {.gateway = ""};
    int fd = join();

    if (last >= GREETED)
        greet(fd, TAKEOVER_VERSION);
    if (last >= OFFERED)
        await(fd, TAKEOVER_OFFERED);
    if (last >= READ)
        assert_int_equal(takeover_send(fd, TAKEOVER_READ, NULL, 0, NULL, 0), 1);
    if (last >= READY)
        assert_int_equal(takeover_send(fd, TAKEOVER_READY, &ready, sizeof ready, NULL, 0), 1);
    if (last >= COMMITTED)
        await(fd, TAKEOVER_COMMIT);
    if (last >= TAKING)
        assert_int_equal(takeover_send(fd, TAKEOVER_TAKING, NULL, 0, NULL, 0), 1);
    if (last >= HELD)
        await(fd, TAKEOVER_HOLDING);
    return fd;
}

/* Goes the whole way: the old one has retired when it comes back. */
static int go_and_serve(void)
{
    int fd = go(HELD);

    assert_false(atomic_load(&world.retired));
    assert_int_equal(takeover_send(fd, TAKEOVER_TAKEN, NULL, 0, NULL, 0), 1);
    await(fd, TAKEOVER_RETIRED);
    while (!atomic_load(&world.retired))
        sched_yield();
    return fd;
}

/* Comes back when the gateway has answered a client that it has accepted. */
static void await_served(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)http_listener_port(
                                      world.worker.listener))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char bytes[16];

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(fd, "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n", 35), 35);
    assert_true(read(fd, bytes, sizeof bytes) > 0);
    close(fd);
}

/* The next one is heard once the one before is gone, and refused until then. */
static int go_when_free(void)
{
    for (;;) {
        int fd = join();
        greet(fd, TAKEOVER_VERSION);
        do {
            if (takeover_receive(fd, &frame) != 1)
                frame.type = TAKEOVER_REFUSED;
            takeover_close_fds(&frame);
        } while (frame.type != TAKEOVER_REFUSED && frame.type != TAKEOVER_OFFERED);
        if (frame.type == TAKEOVER_OFFERED)
            return fd;
        close(fd);
        sched_yield();
    }
}

static void await_as_before(void)
{
    while (atomic_load(&world.gateway->handing_over))
        sched_yield();
    assert_false(atomic_load(&world.retired));
}

/* ---- promises ---- */

static void who_is_gone_at_any_step_has_changed_nothing(void **state)
{
    int before;
    (void)state;

    close(go_when_free()); /* what is opened once is open now */
    await_as_before();
    before = count_descriptors();
    for (int last = CONNECTED; last < STEPS; last++) {
        close(go((enum step)last));
        close(go_when_free());
        await_as_before();
        await_served();
    }
    while (count_descriptors() > before)
        sched_yield();
}

static void another_version_is_refused_with_a_text(void **state)
{
    int fd = join();
    (void)state;

    greet(fd, TAKEOVER_VERSION + 1);
    assert_int_equal(takeover_receive(fd, &frame), 1);
    assert_int_equal(frame.type, TAKEOVER_REFUSED);
    frame.payload[frame.n] = '\0';
    assert_non_null(strstr(frame.payload, "by version 4 of the protocol"));
    close(fd);
    await_as_before();
}

static void a_second_one_is_refused_while_the_first_is_at_it(void **state)
{
    int first = go(OFFERED), second = join();
    (void)state;

    assert_int_equal(takeover_receive(second, &frame), 1);
    assert_int_equal(frame.type, TAKEOVER_REFUSED);
    close(second);
    close(first);
    await_as_before();
}

static void who_serves_makes_the_old_one_retire(void **state)
{
    (void)state;
    close(go_and_serve());
}

static void await_refused(int fd, const char *words)
{
    do {
        assert_int_equal(takeover_receive(fd, &frame), 1);
        takeover_close_fds(&frame);
    } while (frame.type != TAKEOVER_REFUSED);
    frame.payload[frame.n] = '\0';
    assert_non_null(strstr(frame.payload, words));
    assert_int_equal(takeover_receive(fd, &frame), -1);
}

static void who_is_late_is_told_that_the_old_one_goes_on(void **state)
{
    int fd = go(GREETED);
    (void)state;

    await_refused(fd, "has not begun to serve in time");
    close(fd);
    await_as_before();
    await_served();
}

/* It lives, and its link stays open: it hangs while nobody accepts. */
static void who_hangs_while_nobody_accepts_is_not_waited_for(void **state)
{
    int fd = go(HELD);
    (void)state;

    await_served();
    await_refused(fd, "has not begun to serve in time");
    assert_int_equal(takeover_send(fd, TAKEOVER_TAKEN, NULL, 0, NULL, 0), -1);
    await_as_before();
    close(fd);
    close(go_when_free());
    await_as_before();
    await_served();
}

static void who_says_that_it_has_taken_before_all_hold_is_refused(void **state)
{
    int fd = go(COMMITTED);
    (void)state;

    assert_int_equal(takeover_send(fd, TAKEOVER_TAKEN, NULL, 0, NULL, 0), 1);
    await_refused(fd, "sent a message that was not expected");
    close(fd);
    await_as_before();
    await_served();
}

static void settle_one(void)
{
    struct spending *spending = world.gateway->spending;
    struct spending_call call = {.tenant = "a", .hint = SPENDING_TOP, .money = 1};
    struct spending_use use = {.spent = 0};
    struct spending_ticket ticket = {0};
    struct tg_money_answer answer = {0};
    tg_ms now = clock_now_ms(&world.clock);

    assert_int_equal(spending_reserve(spending, &call, now, &ticket, &answer), TG_OK);
    spending_send(spending, &ticket, &use, now);
    assert_true(spending_settle(spending, &ticket, &use, now));
}

static void who_does_not_take_what_it_is_told_loses_the_link(void **state)
{
    int fd = go_and_serve(), got;
    size_t told = 0;
    (void)state;

    for (int i = 0; i < 60000; i++) /* 10 MB in all */
        settle_one();
    while ((got = takeover_receive(fd, &frame)) == 1)
        told += frame.n;
    assert_int_equal(got, -1);
    assert_true(told < 4 << 20);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_gone_at_any_step_has_changed_nothing, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(another_version_is_refused_with_a_text, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_second_one_is_refused_while_the_first_is_at_it,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(who_serves_makes_the_old_one_retire, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(who_is_late_is_told_that_the_old_one_goes_on,
                                        open_hasty_world, close_world),
        cmocka_unit_test_setup_teardown(who_hangs_while_nobody_accepts_is_not_waited_for,
                                        open_impatient_world, close_world),
        cmocka_unit_test_setup_teardown(who_says_that_it_has_taken_before_all_hold_is_refused,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(who_does_not_take_what_it_is_told_loses_the_link,
                                        open_small_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
