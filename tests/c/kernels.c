/* Sockets that stay the kernel's for one reason or another, beside one that is accelerated: what calls on them return. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>

#define KINDS 4

static const char *const kinds[KINDS] = {"loopback", "SO_PEEK_OFF", "never bound", "accelerated"};

static int opened(int kind)
{
    int fd = udp(), off = -1;
    struct sockaddr_in self = address(kind == 0 ? "127.0.0.1" : SELF, 0);
    if (kind == 1)
        MUST(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof off));
    if (kind != 2)
        MUST(bind(fd, generic(&self), sizeof self));
    return fd;
}

/* A datagram of 5 bytes for each socket but the one that is not bound. */
static void fill(int kind, int fd, int count)
{
    if (kind == 0) {
        struct sockaddr_in self = address("127.0.0.1", port_of(fd));
        for (int i = 0; i < count; i++)
            MUST(sendto(fd, "abcde", 5, 0, generic(&self), sizeof self));
    } else if (kind != 2) {
        have(fd, count, 5);
    }
}

/* Lengths of addresses and messages, with room for more, for less, and for none. */
static void names(void)
{
    static const socklen_t rooms[] = {128, 16, 4, 0};
    int accelerated = bound();
    for (int kind = 0; kind < KINDS; kind++) {
        int fd = opened(kind);
        printf("%s\n", kinds[kind]);
        fill(kind, fd, 9);
        for (int i = 0; i < 4; i++) {
            struct sockaddr_storage from;
            char buffer[64];
            memset(&from, 0, sizeof from);
            socklen_t len = rooms[i];
            say(" recvfrom", recvfrom(fd, buffer, sizeof buffer, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
            printf("  len %u family %d\n", len, from.ss_family);
            struct iovec part = {buffer, 3};
            struct msghdr message = {.msg_name = &from, .msg_namelen = rooms[i], .msg_iov = &part, .msg_iovlen = 1,
                                     .msg_flags = 0x55};
            say(" recvmsg", recvmsg(fd, &message, MSG_DONTWAIT));
            printf("  len %u flags %x control %zu\n", message.msg_namelen, message.msg_flags, message.msg_controllen);
        }
        say(" recvfrom without a name", recvfrom(fd, NULL, 0, MSG_DONTWAIT, NULL, NULL));
        close(fd);
    }
    close(accelerated);
}

static void many(void)
{
    int accelerated = bound();
    for (int kind = 0; kind < KINDS; kind++) {
        int fd = opened(kind);
        printf("%s\n", kinds[kind]);
        fill(kind, fd, 3);
        static char buffers[4][8];
        struct sockaddr_storage from[4];
        struct iovec parts[4];
        struct mmsghdr messages[4];
        memset(messages, 0, sizeof messages);
        for (int i = 0; i < 4; i++) {
            parts[i] = (struct iovec){buffers[i], i == 1 ? 2 : 8};
            messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i], .msg_namelen = i == 2 ? 4 : sizeof from[i],
                                                  .msg_iov = &parts[i], .msg_iovlen = 1};
        }
        say(" recvmmsg", recvmmsg(fd, messages, 4, MSG_DONTWAIT, NULL));
        for (int i = 0; i < 4; i++)
            printf("  %u bytes, name %u, flags %x\n", messages[i].msg_len, messages[i].msg_hdr.msg_namelen,
                   messages[i].msg_hdr.msg_flags);
        close(fd);
    }
    close(accelerated);
}

/* What a wait costs: no processor, and the thread is put to sleep once. */
struct cost {
    double cpu_sec;
    long sleeps;
};

static struct cost cost_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct cost){(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                             (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
                         usage.ru_nvcsw};
}

/* A library that sleeps right away, but in pieces, sleeps more often. Now and then the kernel itself has the thread wait for another:
   the internal one may be starting, and both map memory. */
static void say_cost(const char *what, struct cost begun, long sleeps_max)
{
    struct cost now = cost_now();
    double msec = (now.cpu_sec - begun.cpu_sec) * 1000;
    long sleeps = now.sleeps - begun.sleeps;
    printf("%s: %s, %s\n", what, msec < 10 ? "no processor" : "polled",
           sleeps <= sleeps_max + 2 ? "slept through" : "slept in pieces");
    if (msec >= 10 || sleeps > sleeps_max)
        fprintf(stderr, "%s: %.1f ms of processor, slept %ld times\n", what, msec, sleeps);
}

static void epoll_waits(void)
{
    int accelerated = bound(), pipes[2];
    MUST(pipe(pipes));
    for (int kind = 0; kind < KINDS - 1; kind++) {
        int fd = opened(kind), set = epoll_create1(0);
        printf("%s\n", kinds[kind]);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd}, events[4];
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event));
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        double begun = now_sec();
        struct cost cost = cost_now();
        say(" epoll_wait", epoll_wait(set, events, 4, 250));
        say_waited(" epoll_wait", begun, 250);
        say_cost(" epoll_wait", cost, 1);
        sigset_t mask;
        sigemptyset(&mask);
        cost = cost_now();
        say(" epoll_pwait", epoll_pwait(set, events, 4, 100, &mask));
        say_cost(" epoll_pwait", cost, 1);
        if (kind != 2) {
            cost = cost_now();
            if (kind == 0) {
                fill(kind, fd, 1);
            } else {
                ask_for(fd, 1, 5, 100, 0, 0);
            }
            say(" with a datagram", epoll_wait(set, events, 4, -1));
            printf("  %d %x\n", events[0].data.fd == fd, events[0].events);
            say_cost(" with a datagram", cost, 1);
            say_recv(" recv", fd, 8, MSG_DONTWAIT);
        }
        say(" at once", epoll_wait(set, events, 4, 0));
        close(set);
        close(fd);
    }
    close(accelerated);
}

/* The kernel socket of a one-shot registration is spent in a wait of the kernel's; the socket is accelerated afterwards. */
static void spent_before(void)
{
    int fd = udp(), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLIN | EPOLLONESHOT, .data.fd = fd}, events[4];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    say("writable", epoll_wait(set, events, 4, 1000));
    printf("%x\n", events[0].events);
    struct sockaddr_in self = address(SELF, 0);
    MUST(bind(fd, generic(&self), sizeof self));
    have(fd, 1, 5);
    say("spent", epoll_wait(set, events, 4, 100));
    event.events = EPOLLIN | EPOLLONESHOT;
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    say("armed again", epoll_wait(set, events, 4, 1000));
    printf("%x\n", events[0].events);
    say_recv("recv", fd, 8, 0);
}

static void polls(void)
{
    int accelerated = bound(), pipes[2];
    MUST(pipe(pipes));
    for (int kind = 0; kind < KINDS - 1; kind++) {
        int fd = opened(kind);
        printf("%s\n", kinds[kind]);
        struct pollfd polled[2] = {{pipes[0], POLLIN, 0}, {fd, POLLIN, 0}};
        double begun = now_sec();
        struct cost cost = cost_now();
        say(" poll", poll(polled, 2, 250));
        say_waited(" poll", begun, 250);
        say_cost(" poll", cost, 1);
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(pipes[0], &readable);
        FD_SET(fd, &readable);
        struct timeval timeout = {0, 150000};
        cost = cost_now();
        say(" select", select((fd > pipes[0] ? fd : pipes[0]) + 1, &readable, NULL, NULL, &timeout));
        say_cost(" select", cost, 1);
        char byte;
        set_timeout(fd, 150);
        cost = cost_now();
        say(" recv", recv(fd, &byte, 1, 0));
        say_cost(" recv", cost, 1);
        close(fd);
    }
    close(accelerated);
}

CASES({"names", names}, {"many", many}, {"epoll_waits", epoll_waits}, {"spent_before", spent_before}, {"polls", polls})
