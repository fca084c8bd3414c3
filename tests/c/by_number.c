/* System calls by number, through syscall(2), on sockets that the C library's functions have made. */
#include "listening.h"
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#define ECHO_PORT 7100
#define CALLER_PORT 7101

static char data[256];
static const struct timespec two_seconds = {2, 0};

static int connected(int port)
{
    struct sockaddr_in peer = address(PEER, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    say("connect", syscall(SYS_connect, fd, &peer, sizeof peer));
    set_timeout(fd, 4000);
    return fd;
}

/* Each way to wait, for what comes with a delay. */
static void wait_for(int way, int fd)
{
    struct pollfd polled = {fd, POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7}, got = {0};
    struct timespec rest = two_seconds;
    struct timeval limit = {2, 0};
    unsigned long mask = 0;
    struct {
        void *mask;
        size_t len;
    } six = {&mask, sizeof mask};
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    int set = -1;
    if (way >= 4) {
        set = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
        MUST(set);
        say("  epoll_ctl", syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, &event));
    }
    switch (way) {
    case 0: say("  poll", syscall(SYS_poll, &polled, 1, 2000)); break;
    case 1: say("  ppoll", syscall(SYS_ppoll, &polled, 1, &rest, &mask, sizeof mask)); break;
    case 2: say("  select", syscall(SYS_select, fd + 1, &in, NULL, NULL, &limit)); break;
    case 3: say("  pselect6", syscall(SYS_pselect6, fd + 1, &in, NULL, NULL, &rest, &six)); break;
    case 4: say("  epoll_wait", syscall(SYS_epoll_wait, set, &got, 1, 2000)); break;
    case 5: say("  epoll_pwait", syscall(SYS_epoll_pwait, set, &got, 1, 2000, &mask, sizeof mask)); break;
    case 6: say("  epoll_pwait2", syscall(SYS_epoll_pwait2, set, &got, 1, &two_seconds, NULL, 0)); break;
    }
    if (way == 1 || way == 3)
        printf("  time is left: %d\n", rest.tv_sec < 2 && (rest.tv_sec > 0 || rest.tv_nsec > 0));
    if (way >= 4)
        printf("  data %u\n", got.data.u32);
    if (set >= 0)
        MUST(close(set));
}

enum { WAYS = 7 };

/* A mask of another size is refused, and a bad address. */
static void refusals(int fd)
{
    struct pollfd polled = {fd, POLLIN, 0};
    unsigned long mask = 0;
    struct timespec none = {0, 0};
    say("ppoll, a long mask", syscall(SYS_ppoll, &polled, 1, &none, &mask, 128));
    say("poll, a bad address", syscall(SYS_poll, (void *)8, 1, 0));
    say("epoll_ctl, no set", syscall(SYS_epoll_ctl, fd, EPOLL_CTL_ADD, fd, NULL));
    say("accept4, no listener", syscall(SYS_accept4, fd, NULL, NULL, 0));
    say("fcntl, unknown", syscall(SYS_fcntl, fd, 9999, 0));
    say("read, no descriptor", syscall(SYS_read, -1, data, 1));
    say("no such call", syscall(511));
    say("nor this", syscall(100000));
}

static void stream(void)
{
    int fd = connected(ECHO_PORT), value = 0;
    socklen_t len = sizeof value;
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct sockaddr_in name;
    for (int way = 0; way < WAYS; way++) {
        say("write", syscall(SYS_write, fd, "a line", 6));
        wait_for(way, fd);
        say("recvfrom", syscall(SYS_recvfrom, fd, data, sizeof data, 0, NULL, NULL));
    }
    part.iov_len = 5;
    say("writev", syscall(SYS_writev, fd, &part, 1));
    say("sendmsg", syscall(SYS_sendmsg, fd, &message, 0));
    say("sendto", syscall(SYS_sendto, fd, "12345", 5, 0, NULL, 0));
    say("pwritev2", syscall(SYS_pwritev2, fd, &part, 1, -1L, -1L, 0));
    say("read", syscall(SYS_read, fd, data, 5));
    say("readv", syscall(SYS_readv, fd, &part, 1));
    say("recvmsg", syscall(SYS_recvmsg, fd, &message, MSG_WAITALL));
    say("preadv2", syscall(SYS_preadv2, fd, &part, 1, -1L, -1L, 0));
    say("getsockopt", syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &value, &len));
    value = 1;
    say("setsockopt", syscall(SYS_setsockopt, fd, IPPROTO_TCP, 1, &value, sizeof value));
    len = sizeof name;
    say("getpeername", syscall(SYS_getpeername, fd, &name, &len));
    printf("%d\n", ntohs(name.sin_port));
    len = sizeof name;
    say("getsockname", syscall(SYS_getsockname, fd, &name, &len));
    say("ioctl", syscall(SYS_ioctl, fd, FIONREAD, &value));
    printf("%d\n", value);
    say("fcntl", syscall(SYS_fcntl, fd, F_SETFL, O_NONBLOCK));
    say("read", syscall(SYS_read, fd, data, 5));
    say("fcntl", syscall(SYS_fcntl, fd, F_SETFL, 0));
    refusals(fd);
    int copy = (int)syscall(SYS_dup, fd);
    MUST(copy);
    say("write, to the copy", syscall(SYS_write, copy, "copy", 4));
    say("recv", recv(fd, data, 4, MSG_WAITALL));
    say("shutdown", syscall(SYS_shutdown, fd, SHUT_WR));
    say("read", syscall(SYS_read, copy, data, 5));
    MUST(close(copy));
    MUST(close(fd));
}

static void listener(void)
{
    struct sockaddr_in own = address(SELF, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    say("bind", syscall(SYS_bind, fd, &own, sizeof own));
    say("listen", syscall(SYS_listen, fd, 8));
    for (int way = 0; way < WAYS; way++) {
        is_called(fd, connected(CALLER_PORT));
        wait_for(way, fd);
        int accepted = way % 2 ? (int)syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC)
                               : (int)syscall(SYS_accept, fd, NULL, NULL);
        MUST(accepted);
        wait_for(way, accepted);
        say("read", syscall(SYS_read, accepted, data, sizeof data));
        MUST(close(accepted));
    }
    MUST(close(fd));
}

static void datagrams(void)
{
    int fd = bound();
    for (int way = 0; way < WAYS; way++) {
        ask_for(fd, 1, 20 + way, 50, 0, 0);
        wait_for(way, fd);
        say("recvfrom", syscall(SYS_recvfrom, fd, data, sizeof data, MSG_DONTWAIT, NULL, NULL));
    }
    refusals(fd);
    MUST(close(fd));
}

static void *wait_in_thread(void *argument)
{
    struct epoll_event got = {0};
    long count = syscall(SYS_epoll_wait, *(int *)argument, &got, 1, 4000);
    return (void *)count;
}

/* A thread waits for a set when the first socket of all comes into it. It cannot be cancelled there. */
static void early_waiter(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = (int)syscall(SYS_epoll_create1, 0);
    pthread_t thread;
    MUST(set);
    pthread_create(&thread, NULL, wait_in_thread, &set);
    sleep_msec(100);
    int fd = connected(ECHO_PORT);
    MUST(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, &event));
    sleep_msec(50);
    pthread_cancel(thread);
    sleep_msec(50);
    say("send", send(fd, "x", 1, 0));
    void *result;
    pthread_join(thread, &result);
    printf("in the thread: %ld, cancelled: %d\n", (long)result, result == PTHREAD_CANCELED);
}

CASES({"stream", stream}, {"listener", listener}, {"datagrams", datagrams}, {"early_waiter", early_waiter})
