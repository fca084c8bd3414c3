/* System calls by instructions of the program's own, which no hook sees, on sockets that the C library's functions have made: so
   do rustix, and with it the crates polling, async-io and smol. */
#include "listening.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>

#define ECHO_PORT 7100
#define CALLER_PORT 7101
#define ROUNDS 3

static char data[4096];

/* As syscall(2), without the C library. */
static long raw(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#else
#error "no such instruction is known here"
#endif
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

#define RAW(number, a, b, c, d, e, f) raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static int raw_set(void)
{
    int set = (int)RAW(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0);
    MUST(set);
    return set;
}

static void raw_add(int set, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(RAW(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, &event, 0, 0));
}

enum { POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL_EDGE, EPOLL_NESTED, BLOCKING, WAYS };
static const char *const names[WAYS] = {"poll",  "ppoll", "select", "pselect6",
                                        "epoll", "edge",  "nested", "blocking"};

/* Waits until there is something to read, as many seconds as nobody needs. */
static void wait_raw(int way, int fd)
{
    struct pollfd polled[2] = {{-1, POLLIN, 0}, {fd, POLLIN, 0}};
    struct timespec limit = {20, 0};
    struct timeval select_limit = {20, 0};
    struct epoll_event got = {0};
    int set = -1, outer = -1;
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    if (way >= EPOLL && way <= EPOLL_NESTED) {
        set = raw_set();
        raw_add(set, fd, way == EPOLL_EDGE ? EPOLLIN | EPOLLET : EPOLLIN);
    }
    if (way == EPOLL_NESTED) {
        outer = raw_set();
        raw_add(outer, set, EPOLLIN);
    }
    switch (way) {
    case POLL: say(names[way], RAW(SYS_poll, polled, 2, 20000, 0, 0, 0)); break;
    case PPOLL: say(names[way], RAW(SYS_ppoll, polled, 2, &limit, 0, 8, 0)); break;
    case SELECT: say(names[way], RAW(SYS_select, fd + 1, &in, 0, 0, &select_limit, 0)); break;
    case PSELECT: say(names[way], RAW(SYS_pselect6, fd + 1, &in, 0, 0, &limit, 0)); break;
    case EPOLL:
    case EPOLL_EDGE: say(names[way], RAW(SYS_epoll_wait, set, &got, 1, 20000, 0, 0)); break;
    case EPOLL_NESTED: say(names[way], RAW(SYS_epoll_pwait, outer, &got, 1, 20000, 0, 8)); break;
    }
    if (set >= 0)
        MUST(close(set));
    if (outer >= 0)
        MUST(close(outer));
}

static void datagrams(int way)
{
    int fd = bound();
    for (int round = 0; round < ROUNDS; round++) {
        ask_for(fd, 2, 20 + round, 30, 0, 0);
        if (way != BLOCKING)
            wait_raw(way, fd);
        say("recvfrom", RAW(SYS_recvfrom, fd, data, sizeof data, 0, 0, 0));
        printf("  %.8s\n", data);
        say_recv("recv", fd, sizeof data, 0);
    }
    MUST(close(fd));
}

static void datagrams_poll(void) { datagrams(POLL); }
static void datagrams_ppoll(void) { datagrams(PPOLL); }
static void datagrams_select(void) { datagrams(SELECT); }
static void datagrams_pselect(void) { datagrams(PSELECT); }
static void datagrams_epoll(void) { datagrams(EPOLL); }
static void datagrams_edge(void) { datagrams(EPOLL_EDGE); }
static void datagrams_nested(void) { datagrams(EPOLL_NESTED); }
static void datagrams_blocking(void) { datagrams(BLOCKING); }

static int connected(int port)
{
    struct sockaddr_in peer = address(PEER, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(connect(fd, generic(&peer), sizeof peer));
    return fd;
}

static void client(int way)
{
    for (int round = 0; round < ROUNDS; round++) {
        int fd = connected(ECHO_PORT);
        for (int line = 0; line < 2; line++) {
            say("send", send(fd, "a line", 6, 0));
            wait_raw(way, fd);
            /* Who waits by poll(2) may be woken before the kernel has the connection, and read from it through the library only. */
            say("recv", way == POLL ? recv(fd, data, sizeof data, 0) : RAW(SYS_recvfrom, fd, data, sizeof data, 0, 0, 0));
        }
        MUST(shutdown(fd, SHUT_WR));
        wait_raw(way, fd);
        say("read", RAW(SYS_read, fd, data, sizeof data, 0, 0, 0));
        MUST(close(fd));
    }
}

static void client_poll(void) { client(POLL); }
static void client_epoll(void) { client(EPOLL); }
static void client_edge(void) { client(EPOLL_EDGE); }

/* Accepts, and reads what the connection brings. */
static void server(int way)
{
    int fd = listening();
    for (int round = 0; round < ROUNDS; round++) {
        is_called(fd, connected(CALLER_PORT));
        if (way != BLOCKING)
            wait_raw(way, fd);
        int accepted = (int)RAW(SYS_accept4, fd, 0, 0, SOCK_CLOEXEC, 0, 0);
        MUST(accepted);
        if (way != BLOCKING)
            wait_raw(way, accepted);
        say("read", RAW(SYS_read, accepted, data, sizeof data, 0, 0, 0));
        MUST(close(accepted));
    }
    MUST(close(fd));
}

static void server_poll(void) { server(POLL); }
static void server_epoll(void) { server(EPOLL); }
static void server_blocking(void) { server(BLOCKING); }

/* As polling and its like do it: only to wait it goes past the library, and what it does with the socket goes through it. */
static void runtime(void)
{
    int fd = listening(), set = raw_set();
    struct epoll_event got = {0};
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    raw_add(set, fd, EPOLLIN);
    for (int round = 0; round < ROUNDS; round++) {
        is_called(fd, connected(CALLER_PORT));
        say("a connection", RAW(SYS_epoll_wait, set, &got, 1, 20000, 0, 0));
        int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
        MUST(accepted);
        raw_add(set, accepted, EPOLLIN | EPOLLRDHUP);
        while (recv(accepted, data, sizeof data, 0) < 0) {
            must(errno == EAGAIN, "recv", __LINE__);
            say("data", RAW(SYS_epoll_wait, set, &got, 1, 20000, 0, 0));
        }
        printf("%c\n", data[0]);
        MUST(close(accepted));
    }
    MUST(close(fd));
    MUST(close(set));
}

/* The library is not told that calls are not to wait. */
static void nonblocking(void)
{
    struct sockaddr_in peer = address(PEER, ECHO_PORT);
    int datagrams = bound(), stream = connected(ECHO_PORT), listener = listening(), later = socket(AF_INET, SOCK_STREAM, 0);
    const int all[] = {datagrams, stream, listener, later};
    for (int i = 0; i < 4; i++)
        MUST(RAW(SYS_fcntl, all[i], F_SETFL, O_NONBLOCK, 0, 0, 0));
    for (int round = 0; round < 2; round++) {
        say("recv", recv(datagrams, data, sizeof data, 0));
        say("recv", recv(stream, data, sizeof data, 0));
        say("accept", accept(listener, NULL, NULL));
    }
    say("connect", connect(later, generic(&peer), sizeof peer));
}

static int never;

static void *sleep_raw(void *unused)
{
    struct epoll_event got = {0};
    int set = raw_set();
    raw_add(set, never, EPOLLIN);
    RAW(SYS_epoll_wait, set, &got, 1, -1, 0, 0);
    return unused;
}

static void *sleep_hooked(void *argument)
{
    struct epoll_event event = {.events = EPOLLIN}, got = {0};
    int set = epoll_create1(0);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, *(int *)argument, &event));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, never, &event));
    MUST(epoll_wait(set, &got, 1, -1));
    return NULL;
}

/* Sockets that are not read for a while, while other threads wait for something else, by the C library and past it: not a sign of
   anything. */
static void unread(void)
{
    int quiet = bound(), datagrams = bound(), stream = connected(ECHO_PORT);
    pthread_t threads[2];
    never = eventfd(0, 0);
    pthread_create(&threads[0], NULL, sleep_raw, NULL);
    pthread_create(&threads[1], NULL, sleep_hooked, &quiet);
    for (int round = 0; round < 2; round++) {
        ask(datagrams, 3, 30);
        say("send", send(stream, "a line", 6, 0));
        sleep_msec(1000);
        for (int i = 0; i < 3; i++)
            say_recv("recv", datagrams, sizeof data, 0);
        say("recv", recv(stream, data, sizeof data, 0));
    }
    MUST(eventfd_write(never, 1));
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

CASES({"datagrams_poll", datagrams_poll}, {"datagrams_ppoll", datagrams_ppoll}, {"datagrams_select", datagrams_select},
      {"datagrams_pselect", datagrams_pselect}, {"datagrams_epoll", datagrams_epoll}, {"datagrams_edge", datagrams_edge},
      {"datagrams_nested", datagrams_nested}, {"datagrams_blocking", datagrams_blocking}, {"client_poll", client_poll},
      {"client_epoll", client_epoll}, {"client_edge", client_edge}, {"server_poll", server_poll},
      {"server_epoll", server_epoll}, {"server_blocking", server_blocking}, {"runtime", runtime},
      {"nonblocking", nonblocking}, {"unread", unread})
