/* Threads that close, copy and reuse descriptors while others use them. */
#include "case.h"
#include <sys/epoll.h>

/* A number that stands for many things in turn. */
#define NUMBER 70

/* More than an answer takes on a machine that stands still for seconds. */
#define PATIENCE_MSEC 20000

static int fd = -1;
static int stop;
static int wrong;

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, run, argument);
    must(errno == 0, "pthread_create", __LINE__);
    return thread;
}

static int stopped(void)
{
    return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void join_all(pthread_t *threads, int count)
{
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void is_wrong(const char *what, long result)
{
    if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 5)
        fprintf(stderr, "%s: %ld %s\n", what, result, strerrorname_np(errno));
}

static int works(int fd, int len)
{
    set_timeout(fd, PATIENCE_MSEC);
    ask(fd, 1, len);
    return (int)say_recv("  recv", fd, 64, 0);
}

static void *use_number(void *unused)
{
    (void)unused;
    while (!stopped()) {
        char buffer[64];
        long result = recv(NUMBER, buffer, sizeof buffer, MSG_DONTWAIT);
        if (result >= 0 ? result != 20 || (buffer[0] != 'a' && buffer[0] != 'b') : errno != EAGAIN && errno != EBADF && errno != ENOTSOCK)
            is_wrong("recv", result);
        struct pollfd polled[2] = {{NUMBER, POLLIN, 0}, {0, 0, 0}};
        result = poll(polled, 2, 0);
        if (result < 0)
            is_wrong("poll", result);
        int waiting = 0;
        result = ioctl(NUMBER, FIONREAD, &waiting);
        if (result < 0 && errno != EBADF && errno != ENOTTY)
            is_wrong("ioctl", result);
        if (send(NUMBER, "x", 1, 0) >= 0 || (errno != EDESTADDRREQ && errno != EBADF && errno != ENOTSOCK))
            is_wrong("send", 0);
    }
    return NULL;
}

/* Closed, replaced and opened anew under the eyes of others. */
static void one_number(void)
{
    int file = open("/dev/null", O_RDWR);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start(use_number, NULL);
    for (int round = 0; round < 150; round++) {
        int fresh = bound();
        if (round % 2)
            MUST(dup2(fresh, NUMBER));
        else
            MUST(dup3(fresh, NUMBER, O_CLOEXEC));
        MUST(close(fresh));
        ask(NUMBER, 2, 20);
        switch (round % 4) {
        case 0:
            MUST(close(NUMBER));
            break;
        case 1:
            MUST(dup2(file, NUMBER));
            break;
        case 2:
            MUST(close_range(NUMBER, NUMBER + 5, 0));
            break;
        default:
            sleep_msec(1);
        }
    }
    join_all(threads, 2);
    printf("wrong %d\n", wrong);
    works(bound(), 10);
}

static void *open_files(void *unused)
{
    (void)unused;
    while (!stopped()) {
        char line[64] = "";
        int file = open("/proc/self/comm", O_RDONLY);
        long result = read(file, line, sizeof line);
        if (result != 6 || strcmp(line, "races\n") != 0)
            is_wrong("read", result);
        if (close(file) < 0)
            is_wrong("close", file);
    }
    return NULL;
}

/* Sockets and files take turns at the lowest numbers. */
static void many_numbers(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start(open_files, NULL);
    for (int round = 0; round < 120; round++) {
        int fds[3];
        char buffer[64];
        for (int i = 0; i < 3; i++)
            fds[i] = bound();
        set_timeout(fds[1], PATIENCE_MSEC);
        ask(fds[1], 1, 20);
        if (recv(fds[1], buffer, sizeof buffer, 0) != 20)
            is_wrong("recv", round);
        for (int i = 0; i < 3; i++)
            MUST(close(fds[i]));
    }
    join_all(threads, 2);
    printf("wrong %d\n", wrong);
    works(bound(), 10);
}

static void *copy_it(void *unused)
{
    (void)unused;
    while (!stopped()) {
        int copy = dup(fd), second = fcntl(copy, F_DUPFD_CLOEXEC, 100);
        if (copy < 0 || second < 0)
            is_wrong("dup", copy);
        close(copy);
        struct pollfd polled = {second, POLLIN, 0};
        if (poll(&polled, 1, 0) < 0 || polled.revents & POLLNVAL)
            is_wrong("poll", polled.revents);
        close(second);
    }
    return NULL;
}

/* Nothing is lost while copies of the socket come and go. */
static void copies(void)
{
    enum { BURSTS = 20, BURST = 25 };
    int received = 0;
    pthread_t threads[3];
    fd = bound();
    set_timeout(fd, PATIENCE_MSEC);
    for (int i = 0; i < 3; i++)
        threads[i] = start(copy_it, NULL);
    for (int burst = 0; burst < BURSTS; burst++) {
        char buffer[64];
        ask(fd, BURST, 20);
        for (int i = 0; i < BURST; i++)
            received += recv(fd, buffer, sizeof buffer, 0) == 20;
    }
    join_all(threads, 3);
    printf("received %d wrong %d\n", received, wrong);
    works(fd, 10);
}

static int set = -1;

static void *wait_for_set(void *unused)
{
    (void)unused;
    while (!stopped()) {
        struct epoll_event events[4];
        int count = epoll_wait(set, events, 4, 1);
        if (count < 0)
            is_wrong("epoll_wait", count);
        for (int i = 0; i < count; i++) {
            char buffer[64];
            long result = recv((int)events[i].data.u32, buffer, sizeof buffer, MSG_DONTWAIT);
            if (result < 0 && errno != EAGAIN && errno != EBADF && errno != ENOTSOCK)
                is_wrong("recv", result);
        }
    }
    return NULL;
}

/* Members of a set are closed and their numbers used again, while threads wait for it. */
static void members(void)
{
    pthread_t threads[2];
    int stays = bound();
    set = epoll_create1(0);
    MUST(set);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (unsigned)stays};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, stays, &event));
    for (int i = 0; i < 2; i++)
        threads[i] = start(wait_for_set, NULL);
    for (int round = 0; round < 120; round++) {
        int member = bound(), pipes[2];
        event.data.u32 = (unsigned)member;
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, member, &event));
        ask(member, 2, 20);
        if (round % 2)
            MUST(epoll_ctl(set, EPOLL_CTL_DEL, member, NULL));
        MUST(close(member));
        MUST(pipe(pipes));
        MUST(close(pipes[0]));
        MUST(close(pipes[1]));
    }
    join_all(threads, 2);
    printf("wrong %d\n", wrong);
    ask(stays, 1, 20);
    struct epoll_event found;
    say("epoll_wait", epoll_wait(set, &found, 1, PATIENCE_MSEC));
    say_recv("recv", stays, 64, MSG_DONTWAIT);
    works(bound(), 10);
}

CASES({"one_number", one_number}, {"many_numbers", many_numbers}, {"copies", copies}, {"members", members})
