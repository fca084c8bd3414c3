/* Several threads on one socket. */
#include "case.h"
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int fd = -1;
static int set = -1;

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, run, argument);
    must(errno == 0, "pthread_create", __LINE__);
    return thread;
}

static long join(pthread_t thread)
{
    void *result;
    errno = pthread_join(thread, &result);
    must(errno == 0, "pthread_join", __LINE__);
    return (long)result;
}

static void *receive_once(void *unused)
{
    (void)unused;
    char buffer[64];
    return (void *)recv(fd, buffer, sizeof buffer, 0);
}

/* The receiver sleeps before the socket has an address. */
static void unbound(void)
{
    fd = udp();
    pthread_t thread = start(receive_once, NULL);
    sleep_msec(200);
    ask(fd, 1, 33);
    say("received", join(thread));
    MUST(close(fd));

    fd = udp();
    thread = start(receive_once, NULL);
    sleep_msec(200);
    struct sockaddr_in self = address(SELF, 7130);
    MUST(bind(fd, generic(&self), sizeof self));
    int other = bound();
    ask_for(other, 1, 34, 0, 0, 7130);
    say("received after bind", join(thread));
    MUST(close(fd));

    fd = udp();
    thread = start(receive_once, NULL);
    sleep_msec(200);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(connect(fd, generic(&peer), sizeof peer));
    MUST(send(fd, "hello", 5, 0));
    say("received after connect", join(thread));
}

static void *poll_once(void *unused)
{
    (void)unused;
    struct pollfd polled = {fd, POLLIN, 0};
    return (void *)(long)poll(&polled, 1, -1);
}

static void *epoll_once(void *unused)
{
    (void)unused;
    struct epoll_event event;
    return (void *)(long)epoll_wait(set, &event, 1, -1);
}

/* poll and epoll sleep before the socket has an address, or is in the set. */
static void late_poll(void)
{
    fd = udp();
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t poller = start(poll_once, NULL), early = start(epoll_once, NULL);
    sleep_msec(200);
    int other = bound();
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, other, &event));
    sleep_msec(200);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    sleep_msec(200);
    ask(fd, 1, 35);
    say("poll", join(poller));
    say("epoll_wait", join(early));
    say_recv("recv", fd, 64, 0);
}

static void *epoll_for_a_while(void *unused)
{
    (void)unused;
    struct epoll_event event;
    return (void *)(long)epoll_wait(set, &event, 1, 20000);
}

/* Threads wait in the kernel for a set whose members are not accelerated; one comes to be. */
static void late_member(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    for (int round = 0; round < 4; round++) {
        fd = udp();
        set = epoll_create1(0);
        int local = bound_to("127.0.0.1", 0), one_shot = round % 2 ? (int)EPOLLONESHOT : 0;
        event.events = EPOLLIN | (uint32_t)one_shot;
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, local, &event));
        if (round < 2)
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            threads[i] = start(i == 1 ? epoll_for_a_while : epoll_once, NULL);
        sleep_msec(150);
        struct sockaddr_in self = address(SELF, 0);
        MUST(bind(fd, generic(&self), sizeof self));
        if (round >= 2)
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        sleep_msec(round == 0 ? 0 : 150);
        for (int i = 0; i < 3; i++) {
            ask(fd, 1, 20);
            if (one_shot) {
                sleep_msec(50);
                say_recv("recv", fd, 64, 0);
                MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
            }
        }
        for (int i = 0; i < 3; i++)
            say("epoll_wait", join(threads[i]));
        close(fd);
        close(local);
        close(set);
    }
}

static void *select_once(void *unused)
{
    (void)unused;
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    return (void *)(long)select(fd + 1, &in, NULL, NULL, NULL);
}

static void *read_once(void *unused)
{
    (void)unused;
    char buffer[64];
    return (void *)read(fd, buffer, sizeof buffer);
}

static void *receive_message_once(void *unused)
{
    (void)unused;
    char buffer[64];
    struct iovec part = {buffer, sizeof buffer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return (void *)recvmsg(fd, &message, 0);
}

static int cleaned;

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static void *wait_with_cleanup(void *run)
{
    pthread_cleanup_push(clean, NULL);
    ((void *(*)(void *))run)(NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel_each(void *(*run)(void *), int msec)
{
    void *(*waits[])(void *) = {receive_once, poll_once, epoll_once, select_once, read_once, receive_message_once};
    const char *names[] = {"recv", "poll", "epoll_wait", "select", "read", "recvmsg"};
    for (int i = 0; i < 6; i++) {
        cleaned = 0;
        pthread_t thread = start(run, (void *)waits[i]);
        sleep_msec(msec);
        errno = pthread_cancel(thread);
        must(errno == 0, "pthread_cancel", __LINE__);
        long result = join(thread);
        printf("%s cancelled %d cleaned %d\n", names[i], result == (long)PTHREAD_CANCELED, cleaned);
        have(fd, 1, 20 + i);
        struct epoll_event event;
        say("  epoll_wait", epoll_wait(set, &event, 1, 2000));
        say_recv("  recv", fd, 64, 0);
    }
}

static void cancelled(void)
{
    fd = bound();
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    cancel_each(wait_with_cleanup, 150);
    cancel_each(wait_with_cleanup, 150);
}

static void *wait_with_asynchronous_cancellation(void *run)
{
    int old = -1;
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    ((void *(*)(void *))run)(NULL);
    pthread_cleanup_pop(0);
    return (void *)(long)old;
}

/* Cancelled wherever the thread is: in a system call, or in a library that polls. */
static void cancelled_anywhere(void)
{
    fd = bound();
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 4; i++)
        cancel_each(wait_with_asynchronous_cancellation, 20 + i);
}

/* Cancelled before the call: the call is where it happens. */
static void *cancel_itself(void *run)
{
    pthread_cleanup_push(clean, NULL);
    pthread_cancel(pthread_self());
    ((void *(*)(void *))run)(NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled_before(void)
{
    fd = bound();
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    cancel_each(cancel_itself, 20);
}

/* Calls that are cancellation points and need not wait. `fd` is the socket. */
#define AT_ONCE(CALL)                                                                                                                  \
    CALL(send, send(fd, "x", 1, 0))                                                                                                    \
    CALL(sendto, sendto(fd, "x", 1, 0, NULL, 0))                                                                                       \
    CALL(sendmsg, sendmsg(fd, &message.msg_hdr, 0))                                                                                    \
    CALL(sendmmsg, sendmmsg(fd, &message, 1, 0))                                                                                       \
    CALL(write, write(fd, "x", 1))                                                                                                     \
    CALL(writev, writev(fd, &part, 1))                                                                                                 \
    CALL(pwritev2, pwritev2(fd, &part, 1, -1, 0))                                                                                      \
    CALL(recv, recv(fd, buffer, 1, 0))                                                                                                 \
    CALL(recv_dontwait, recv(fd, buffer, 1, MSG_DONTWAIT))                                                                             \
    CALL(recvfrom, recvfrom(fd, buffer, 1, 0, NULL, NULL))                                                                             \
    CALL(recvmsg, recvmsg(fd, &message.msg_hdr, 0))                                                                                    \
    CALL(recvmmsg, recvmmsg(fd, &message, 1, MSG_DONTWAIT, NULL))                                                                      \
    CALL(read, read(fd, buffer, 1))                                                                                                    \
    CALL(readv, readv(fd, &part, 1))                                                                                                   \
    CALL(preadv2, preadv2(fd, &part, 1, -1, 0))                                                                                        \
    CALL(poll, poll(&polled, 1, 0))                                                                                                    \
    CALL(ppoll, ppoll(&polled, 1, &no_time, NULL))                                                                                     \
    CALL(select, select(fd + 1, &in, NULL, NULL, &no_timeval))                                                                         \
    CALL(pselect, pselect(fd + 1, &in, NULL, NULL, &no_time, NULL))                                                                    \
    CALL(epoll_wait, epoll_wait(set, &event, 1, 0))                                                                                    \
    CALL(epoll_pwait, epoll_pwait(set, &event, 1, 0, NULL))

enum at_once {
#define CALL(name, expression) AT_ONCE_##name,
    AT_ONCE(CALL)
#undef CALL
    AT_ONCE_COUNT
};

static const char *const at_once_names[] = {
#define CALL(name, expression) #name,
    AT_ONCE(CALL)
#undef CALL
};

static long call_at_once(enum at_once call)
{
    char buffer[8] = "x";
    struct iovec part = {buffer, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct pollfd polled = {fd, POLLIN, 0};
    struct epoll_event event;
    struct timespec no_time = {0, 0};
    struct timeval no_timeval = {0, 0};
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    switch (call) {
#define CALL(name, expression)                                                                                                         \
    case AT_ONCE_##name:                                                                                                               \
        return (long)(expression);
        AT_ONCE(CALL)
#undef CALL
    default:
        return -1;
    }
}

/* A request is there, and the thread accepts none: the call does all its work. Then it does. */
static void *cancel_itself_at_once(void *call)
{
    pthread_cleanup_push(clean, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    say(at_once_names[(long)call], call_at_once((enum at_once)(long)call));
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    call_at_once((enum at_once)(long)call);
    pthread_cleanup_pop(0);
    return NULL;
}

/* Calls that need not wait are cancellation points all the same, and a cancelled one has done nothing. */
static void cancel_calls_at_once(void)
{
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (long call = 0; call < AT_ONCE_COUNT; call++) {
        cleaned = 0;
        long result = join(start(cancel_itself_at_once, (void *)call));
        printf("  cancelled %d cleaned %d\n", result == (long)PTHREAD_CANCELED, cleaned);
    }
    int left = 0;
    char buffer[64];
    sleep_msec(100);
    while (recv(fd, buffer, 1, MSG_DONTWAIT) > 0)
        left++;
    printf("left %d\n", left);
    close(set);
    close(fd);
}

static const char *number_path(int number)
{
    static char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    return path;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int number = 0; number < 1100; number++)
        count += access(number_path(number), F_OK) == 0;
    return count;
}

/* What 100 threads had while they slept is given back. */
static void cancelled_leave_nothing(void)
{
    fd = bound();
    int before = 0;
    for (int i = 0; i < 110; i++) {
        pthread_t thread = start(receive_once, NULL);
        sleep_msec(3);
        must((errno = pthread_cancel(thread)) == 0, "pthread_cancel", __LINE__);
        join(thread);
        if (i == 10)
            before = open_descriptors();
    }
    int more = open_descriptors() - before;
    printf("more than a few descriptors: %d\n", more > 5);
    if (more)
        fprintf(stderr, "%d more descriptors\n", more);
}

static void cancelled_at_once(void)
{
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    fd = bound();
    have(fd, 30, 2);
    MUST(connect(fd, generic(&peer), sizeof peer));
    cancel_calls_at_once();
}

static void stream_cancelled_at_once(void)
{
    char script[32];
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    int listener = socket(AF_INET, SOCK_STREAM, 0), asking = bound();
    struct sockaddr_in self = address(SELF, 0);
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 5));
    MUST(connect(asking, generic(&peer), sizeof peer));
    int len = snprintf(script, sizeof script, "C %d 0", port_of(listener));
    MUST(send(asking, script, (size_t)len, 0));
    fd = accept(listener, NULL, NULL);
    MUST(fd);
    MUST(send(fd, "123456789012345678901234567890", 30, 0));
    await_data(fd);
    sleep_msec(200);
    cancel_calls_at_once();
    close(listener);
    close(asking);
}

#define LETTERS 26

static int seen[4][LETTERS];

static void *receive_until_long(void *index)
{
    int *mine = seen[(long)index];
    char buffer[128];
    for (;;) {
        ssize_t len = recv(fd, buffer, sizeof buffer, 0);
        if (len == 100)
            return NULL;
        if (len > 0)
            __atomic_fetch_add(&mine[buffer[0] - 'a'], 1, __ATOMIC_RELAXED);
    }
}

static int total(void)
{
    int sum = 0;
    for (int thread = 0; thread < 4; thread++)
        for (int letter = 0; letter < LETTERS; letter++)
            sum += __atomic_load_n(&seen[thread][letter], __ATOMIC_RELAXED);
    return sum;
}

static int early;

/* The same, with poll in front: one of the others may be faster with the datagram that it told of. */
static void *poll_until_long(void *index)
{
    int *mine = seen[(long)index];
    char buffer[128];
    for (;;) {
        struct pollfd polled = {fd, POLLIN, 0};
        if (poll(&polled, 1, 300000) == 0)
            __atomic_fetch_add(&early, 1, __ATOMIC_RELAXED);
        ssize_t len = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (len == 100)
            return NULL;
        if (len > 0)
            __atomic_fetch_add(&mine[buffer[0] - 'a'], 1, __ATOMIC_RELAXED);
    }
}

/* Every datagram goes to one of the receivers, none to two. */
static void receive_with(void *(*run)(void *))
{
    pthread_t threads[4];
    fd = bound();
    for (long i = 0; i < 4; i++)
        threads[i] = start(run, (void *)i);
    for (int round = 1; round <= 40; round++) {
        ask(fd, LETTERS, 30);
        for (int wait = 0; wait < 2000 && total() < round * LETTERS; wait++)
            sleep_msec(1);
    }
    for (int letter = 0; letter < LETTERS; letter++) {
        int sum = 0;
        for (int thread = 0; thread < 4; thread++)
            sum += seen[thread][letter];
        if (sum != 40)
            printf("%c came %d times\n", 'a' + letter, sum);
    }
    printf("%d in all\n", total());
    /* Four more end the threads. */
    for (int i = 0; i < 4; i++)
        ask(fd, 1, 100);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    printf("%d ends of the time before its end\n", early);
}

static void several_receivers(void)
{
    receive_with(receive_until_long);
}

static void several_pollers(void)
{
    receive_with(poll_until_long);
}

static int stop;
static int drained;

static void *drain(void *unused)
{
    (void)unused;
    char buffer[128];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        ssize_t len = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (len == 30)
            __atomic_fetch_add(&drained, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* One thread sleeps in recv while another takes what comes; when that one ends, the sleeper still gets its turn. */
static void sleeper_and_drainer(void)
{
    fd = bound();
    pthread_t sleeper = start(receive_until_long, (void *)0), drainer = start(drain, NULL);
    int expected = 0;
    for (int round = 0; round < 20; round++) {
        ask(fd, LETTERS, 30);
        expected += LETTERS;
        for (int wait = 0; wait < 2000 && total() + __atomic_load_n(&drained, __ATOMIC_RELAXED) < expected; wait++)
            sleep_msec(1);
    }
    printf("%d in all\n", total() + drained);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    join(drainer);
    sleep_msec(200);
    ask(fd, 1, 100);
    join(sleeper);
}

static void *serve_one_shot(void *index)
{
    int *mine = seen[(long)index];
    struct epoll_event event;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (epoll_wait(set, &event, 1, 200) != 1)
            continue;
        char buffer[128];
        ssize_t len;
        while ((len = recv(event.data.fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
            __atomic_fetch_add(&mine[buffer[0] - 'a'], 1, __ATOMIC_RELAXED);
        struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = event.data.fd};
        MUST(epoll_ctl(set, EPOLL_CTL_MOD, event.data.fd, &again));
    }
    return NULL;
}

/* The usual server: one set, several threads, EPOLLONESHOT. */
static void one_shot_pool(void)
{
    int fds[3];
    pthread_t threads[4];
    set = epoll_create1(0);
    for (int i = 0; i < 3; i++) {
        fds[i] = bound();
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fds[i]};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event));
    }
    for (long i = 0; i < 4; i++)
        threads[i] = start(serve_one_shot, (void *)i);
    for (int round = 1; round <= 30; round++) {
        for (int i = 0; i < 3; i++)
            ask(fds[i], 10, 30);
        for (int wait = 0; wait < 2000 && total() < round * 30; wait++)
            sleep_msec(1);
    }
    printf("%d in all\n", total());
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
}

static pthread_key_t key;

static void *use_sockets_at_the_end(void *unused)
{
    pthread_setspecific(key, unused);
    return NULL;
}

static void at_thread_end(void *unused)
{
    (void)unused;
    int own = bound();
    set_timeout(own, 2000);
    ask(own, 1, 44);
    say_recv("in a destructor", own, 64, 0);
    MUST(close(own));
}

/* Sockets are used where thread-local objects are gone already. */
static void destructor(void)
{
    fd = bound();
    pthread_key_create(&key, at_thread_end);
    for (int i = 0; i < 3; i++)
        join(start(use_sockets_at_the_end, &key));
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
}

/* shutdown ends a wait. */
static void shut_down(void)
{
    fd = udp();
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(connect(fd, generic(&peer), sizeof peer));
    pthread_t thread = start(receive_once, NULL);
    sleep_msec(200);
    say("shutdown", shutdown(fd, SHUT_RD));
    say("recv", join(thread));
    struct pollfd polled = {fd, POLLIN, 0};
    say("poll", poll(&polled, 1, 1000));
    printf("%x\n", polled.revents);
    say("shutdown for writing", shutdown(fd, SHUT_WR));
    say("send", send(fd, "x", 1, MSG_NOSIGNAL));
    int other = bound();
    say("shutdown of an unconnected one", shutdown(other, SHUT_RDWR));
}

/* Threads with an epoll set each, of which some are busy with something else when a datagram comes for another. */
#define SETS 4

static struct {
    int fd, pipe[2];
} members[SETS];
static _Atomic int arrived, rounds_lost, sets_end;

static void *with_a_set(void *number)
{
    int own = (int)(long)number, set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = members[own].fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, members[own].fd, &event));
    event.data.fd = members[own].pipe[0];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, members[own].pipe[0], &event));
    char buffer[64];
    while (!sets_end) {
        int found = epoll_wait(set, &event, 1, own == 0 ? 1 : 10000);
        if (found <= 0)
            continue;
        if (event.data.fd == members[own].fd) {
            MUST(recv(members[own].fd, buffer, sizeof buffer, 0));
            arrived++;
            continue;
        }
        /* Does not come back before the other has its datagram, unless that does not happen. */
        int before = 0;
        MUST(read(members[own].pipe[0], &before, sizeof before));
        double begun = now_sec();
        while (arrived == before && !sets_end && now_sec() - begun < 5)
            usleep(100);
        rounds_lost += now_sec() - begun >= 5;
    }
    close(set);
    return NULL;
}

static void sets_of_their_own(void)
{
    pthread_t threads[SETS];
    for (int i = 0; i < SETS; i++) {
        members[i].fd = bound();
        MUST(pipe(members[i].pipe));
    }
    for (long i = 0; i < SETS; i++)
        pthread_create(&threads[i], NULL, with_a_set, (void *)i);
    sleep_msec(200);
    for (int round = 0; round < 400; round++) {
        int waits = round % SETS, other = (waits + 1 + round / SETS % (SETS - 1)) % SETS, before = arrived;
        ask_for(members[waits].fd, 1, 20, 0, 0, 0);
        double until = now_sec() + round % 40 * 2e-6;
        while (now_sec() < until) {
        }
        MUST(write(members[other].pipe[1], &before, sizeof before));
        for (double begun = now_sec(); arrived == before && now_sec() - begun < 20;)
            usleep(50);
        if (arrived != before + 1)
            printf("round %d: %d\n", round, arrived - before);
    }
    sets_end = 1;
    int none = -1;
    for (int i = 0; i < SETS; i++)
        MUST(write(members[i].pipe[1], &none, sizeof none));
    for (int i = 0; i < SETS; i++)
        pthread_join(threads[i], NULL);
    printf("lost wake-ups: %d\n", rounds_lost);
}

/* Threads with a socket each, which wait in several ways: whoever a datagram is for gets it, whatever becomes of the others. */
#define HERD 20

enum { RECV, POLL, SELECT, EPOLL, RECV_WITH_TIMEOUT, WAYS };

static struct {
    int fd, way;
    pthread_t thread;
    _Atomic int arrived, is_gone;
} herd[HERD];
static _Atomic int herd_ends;
static _Thread_local sigjmp_buf out_of_the_call;

static void wait_in_a_way(int fd, int way, int set)
{
    struct pollfd polled[] = {{fd, POLLIN, 0}, {0, 0, 0}};
    struct epoll_event event;
    fd_set read;
    FD_ZERO(&read);
    FD_SET(fd, &read);
    if (way == POLL)
        MUST(poll(polled, 2, -1));
    else if (way == SELECT)
        MUST(select(fd + 1, &read, NULL, NULL, NULL));
    else if (way == EPOLL)
        MUST(epoll_wait(set, &event, 1, -1));
}

static void *one_of_the_herd(void *number)
{
    int own = (int)(long)number, fd = herd[own].fd, set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    if (herd[own].way == RECV_WITH_TIMEOUT)
        set_timeout(fd, 30);
    if (sigsetjmp(out_of_the_call, 1)) {
        herd[own].is_gone = 1;
        while (!herd_ends)
            sleep_msec(10);
        return NULL;
    }
    while (!herd_ends) {
        char buffer[64];
        wait_in_a_way(fd, herd[own].way, set);
        ssize_t len = recv(fd, buffer, sizeof buffer, 0);
        if (len < 0)
            continue;
        herd[own].arrived++;
        /* It is busy with something else for a while. */
        for (double until = now_sec() + (len == 21 ? 0.02 : 0); now_sec() < until;) {
        }
    }
    close(set);
    return NULL;
}

static void gather(int count, int (*way)(int))
{
    for (int i = 0; i < count; i++) {
        herd[i].fd = bound();
        herd[i].way = way(i);
        herd[i].thread = start(one_of_the_herd, (void *)(long)i);
    }
    sleep_msec(200);
}

static int any_way(int i)
{
    return i % WAYS;
}

static int only_recv(int i)
{
    (void)i;
    return RECV;
}

/* Whether the one gets a datagram. */
static int gets(int one, int len)
{
    int before = herd[one].arrived;
    ask(herd[one].fd, 1, len);
    for (double begun = now_sec(); herd[one].arrived == before && now_sec() - begun < 10;)
        usleep(50);
    return herd[one].arrived == before + 1;
}

static void end_herd(int count)
{
    herd_ends = 1;
    for (int i = 0; i < count; i++)
        if (!herd[i].is_gone)
            ask(herd[i].fd, 1, 20);
    for (int i = 0; i < count; i++)
        join(herd[i].thread);
}

static void a_herd(void)
{
    unsigned seed = 1;
    int lost = 0;
    gather(HERD, any_way);
    for (int round = 0; round < 400; round++) {
        /* The same one for a while, which so comes to lead, then others. */
        int one = round % 8 < 4 ? round / 8 % HERD : rand_r(&seed) % HERD;
        lost += !gets(one, round % 5 == 0 ? 21 : 20);
        if (round % 40 == 0)
            sleep_msec(30);
    }
    printf("lost: %d\n", lost);
    end_herd(HERD);
}

/* Threads that are cancelled in their sleep, the last that has received among them, leave the others their packets. */
static void herd_is_cancelled(void)
{
    int count = 8, lost = 0;
    gather(count, only_recv);
    for (int i = 0; i + 1 < count; i++) {
        lost += !gets(i, 20);
        sleep_msec(20);
        MUST(pthread_cancel(herd[i].thread));
        if (i % 2)
            printf("cancelled: %d\n", join(herd[i].thread) == (long)PTHREAD_CANCELED);
        for (int other = i + 1; other < count; other++)
            lost += !gets(other, 20);
    }
    printf("lost: %d\n", lost);
}

static void leave_the_call(int unused)
{
    (void)unused;
    siglongjmp(out_of_the_call, 1);
}

/* The same for threads whose handlers leave their sleep with longjmp. */
static void herd_jumps(void)
{
    int count = 6, lost = 0;
    signal(SIGUSR1, leave_the_call);
    gather(count, any_way);
    for (int i = 0; i + 1 < count; i++) {
        lost += !gets(i, 20);
        sleep_msec(20);
        pthread_kill(herd[i].thread, SIGUSR1);
        for (double begun = now_sec(); !herd[i].is_gone && now_sec() - begun < 10;)
            usleep(50);
        for (int other = i + 1; other < count; other++)
            lost += !gets(other, 20);
    }
    printf("lost: %d\n", lost);
    end_herd(count);
}

/* A child that does nothing with the sockets takes no packets of its parent's threads. */
static void herd_forks(void)
{
    int count = 6, lost = 0;
    gather(count, any_way);
    for (int i = 0; i < count; i++)
        lost += !gets(i, 20);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sleep_msec(300);
        _exit(0);
    }
    for (int round = 0; round < 30; round++)
        lost += !gets(round % count, 20);
    MUST(waitpid(child, NULL, 0));
    for (int round = 0; round < 30; round++)
        lost += !gets(round * 5 % count, 20);
    printf("lost: %d\n", lost);
    end_herd(count);
}

CASES({"unbound", unbound}, {"late_poll", late_poll}, {"late_member", late_member}, {"cancelled", cancelled}, {"cancelled_anywhere", cancelled_anywhere},
      {"cancelled_before", cancelled_before}, {"cancelled_at_once", cancelled_at_once}, {"cancelled_leave_nothing", cancelled_leave_nothing},
      {"stream_cancelled_at_once", stream_cancelled_at_once}, {"several_receivers", several_receivers},
      {"several_pollers", several_pollers},
      {"sleeper_and_drainer", sleeper_and_drainer}, {"one_shot_pool", one_shot_pool}, {"destructor", destructor},
      {"shut_down", shut_down},
      {"sets_of_their_own", sets_of_their_own}, {"a_herd", a_herd}, {"herd_is_cancelled", herd_is_cancelled}, {"herd_jumps", herd_jumps},
      {"herd_forks", herd_forks})
