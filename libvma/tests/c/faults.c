/* Pointers that lead nowhere, or where nothing may be written: EFAULT from the kernel, on sockets of every kind. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/un.h>

/* What the compiler warns of is meant. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

enum { PAGE = 4096, BAD = 5, KINDS = 5 };

/* A null pointer, a small number, no memory, memory that ends, and memory that may only be read. */
static char *bad[BAD], *good;
static const char *const names[BAD] = {"null", "small", "nowhere", "half", "read-only"};
static const char *const kinds[KINDS] = {"accelerated", "loopback", "never bound", "unix", "pipe"};

static void make_memory(void)
{
    good = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(good + PAGE, PAGE);
    mprotect(good + 2 * PAGE, PAGE, PROT_READ);
    munmap(good + 3 * PAGE, PAGE);
    bad[1] = (char *)24;
    bad[2] = good + PAGE;
    bad[3] = good + PAGE - 2;
    bad[4] = good + 2 * PAGE;
}

static int opened(int kind)
{
    int pair[2];
    switch (kind) {
    case 0:
        return bound();
    case 1:
        return bound_to("127.0.0.1", 0);
    case 2:
        return udp();
    case 3:
        MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        return pair[0];
    default:
        MUST(pipe(pair));
        return pair[0];
    }
}

static void sending(void)
{
    int accelerated = bound();
    make_memory();
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < BAD; i++) {
            int fd = opened(kind);
            char data[8] = "abcdefg", *at = bad[i];
            struct sockaddr_in peer = address(PEER, 7999);
            struct iovec part = {data, 8}, wrong = {at, 8};
            struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &part, .msg_iovlen = 1}, m;
            struct mmsghdr messages[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
            printf("%s, %s\n", kinds[kind], names[i]);
            say(" send", send(fd, at, 8, MSG_DONTWAIT));
            say(" sendto", sendto(fd, at, 8, MSG_DONTWAIT, generic(&peer), sizeof peer));
            say(" sendto a name", sendto(fd, data, 8, MSG_DONTWAIT, (struct sockaddr *)at, sizeof peer));
            say(" nothing", sendto(fd, at, 0, MSG_DONTWAIT, generic(&peer), sizeof peer) < 0);
            say(" sendmsg", sendmsg(fd, (struct msghdr *)at, MSG_DONTWAIT));
            m = message, m.msg_iov = (struct iovec *)at;
            say(" sendmsg list", sendmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_iov = &wrong;
            say(" sendmsg part", sendmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_name = at;
            say(" sendmsg name", i == 0 ? 0 : sendmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_control = at;
            m.msg_controllen = 32;
            say(" sendmsg control", i == 4 ? 0 : sendmsg(fd, &m, MSG_DONTWAIT));
            m.msg_controllen = (size_t)1 << 40;
            say(" sendmsg huge control", sendmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_iovlen = (size_t)1 << 60;
            say(" sendmsg huge list", sendmsg(fd, &m, MSG_DONTWAIT));
            part.iov_len = (size_t)-1;
            say(" sendmsg negative part", sendmsg(fd, &message, MSG_DONTWAIT));
            part.iov_len = 8;
            say(" sendmmsg", sendmmsg(fd, (struct mmsghdr *)at, 2, MSG_DONTWAIT));
            messages[0].msg_hdr.msg_iov = &wrong;
            say(" sendmmsg part", sendmmsg(fd, messages, 2, MSG_DONTWAIT));
            if (kind != 4) {
                say(" write", write(fd, at, 8));
                say(" writev", writev(fd, (struct iovec *)at, 2));
                say(" writev huge", writev(fd, &part, 1 << 30));
            }
            if (i == 0 || i > 2)
                say(" FIOASYNC", ioctl(fd, FIOASYNC, at) < 0 && errno == EFAULT);
            say(" FIOASYNC nowhere", ioctl(fd, FIOASYNC, bad[2]));
            say(" FIONREAD", ioctl(fd, FIONREAD, at));
            close(fd);
        }
    close(accelerated);
}

static void receiving(void)
{
    int accelerated = bound();
    make_memory();
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < BAD; i++) {
            int fd = opened(kind);
            char data[16], *at = bad[i];
            struct sockaddr_in from;
            socklen_t len = sizeof from;
            struct iovec part = {data, 16}, wrong = {at, 16}, halves[2] = {{data, 4}, {at, 12}};
            struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1}, m;
            printf("%s, %s\n", kinds[kind], names[i]);
            if (kind == 0) {
                have(fd, 12, 12);
            } else {
                struct sockaddr_in self = address("127.0.0.1", port_of(fd));
                for (int k = 0; k < 12; k++)
                    MUST(sendto(fd, "abcdefghijkl", 12, 0, generic(&self), sizeof self));
            }
            say(" recv", recv(fd, at, 16, 0));
            say(" recvfrom a name", recvfrom(fd, data, 16, 0, (struct sockaddr *)at, &len));
            say(" recvfrom a length", recvfrom(fd, data, 16, 0, (struct sockaddr *)&from, (socklen_t *)at));
            say(" recvmsg", recvmsg(fd, (struct msghdr *)at, MSG_DONTWAIT));
            m = message, m.msg_iov = (struct iovec *)at;
            say(" recvmsg list", recvmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_iov = &wrong;
            say(" recvmsg part", recvmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_iov = halves;
            m.msg_iovlen = 2;
            say(" recvmsg parts", recvmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_name = at;
            say(" recvmsg name", recvmsg(fd, &m, MSG_DONTWAIT));
            m = message, m.msg_control = at;
            m.msg_controllen = 32;
            say(" recvmsg control", recvmsg(fd, &m, MSG_DONTWAIT));
            part.iov_len = (size_t)-1;
            say(" recvmsg negative part", recvmsg(fd, &message, MSG_DONTWAIT));
            part.iov_len = 16;
            struct mmsghdr messages[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
            struct timespec timeout = {1, 0};
            say(" recvmmsg", recvmmsg(fd, (struct mmsghdr *)at, 2, MSG_DONTWAIT, NULL));
            say(" recvmmsg time", i == 0 ? 0 : recvmmsg(fd, messages, 2, MSG_DONTWAIT, (struct timespec *)bad[i < 4 ? i : 2]));
            messages[1].msg_hdr.msg_iov = &wrong;
            messages[0].msg_hdr.msg_namelen = sizeof from;
            say(" recvmmsg second", recvmmsg(fd, messages, 1, MSG_DONTWAIT, &timeout));
            say(" readv", readv(fd, (struct iovec *)at, 2));
            say(" readv huge", readv(fd, &part, 1 << 30));
            say(" recv of any length", recv(fd, good, (size_t)-1, MSG_DONTWAIT));
            say_recv(" what is left", fd, 16, MSG_DONTWAIT);
            close(fd);
        }
    close(accelerated);
}

static void waiting(void)
{
    int accelerated = bound();
    make_memory();
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < BAD; i++) {
            int fd = opened(kind), set = epoll_create1(0);
            char *at = bad[i];
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT}, events[2];
            struct pollfd polled = {fd, POLLIN, 0};
            struct timespec time = {0, 10000000};
            printf("%s, %s\n", kinds[kind], names[i]);
            say(" poll", poll((struct pollfd *)at, 1, 10));
            say(" poll of many", poll(&polled, (nfds_t)1 << 30, 0));
            say(" poll of very many", poll(&polled, (nfds_t)-1, 0));
            say(" ppoll", ppoll((struct pollfd *)at, 1, &time, NULL));
            /* The C library itself reads the timeouts of ppoll and select. */
            if (i != 0 && i != 4)
                say(" ppoll mask", ppoll(&polled, 1, &time, (sigset_t *)at));
            /* The kernel looks at sets of as many descriptors as its table has room for. */
            struct timeval soon = {0, 10000};
            if (i != 0) {
                say(" select", select(fd + 1, (fd_set *)at, NULL, NULL, &soon));
                say(" select out", select(fd + 1, NULL, (fd_set *)at, NULL, &soon));
            }
            say(" epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, fd, i == 4 ? NULL : (struct epoll_event *)at));
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
            if (kind != 0 || i != 3)
                say(" epoll_wait", kind == 4 ? 0 : epoll_wait(set, (struct epoll_event *)at, 1, 10));
            say(" epoll_wait of too many", epoll_wait(set, events, 0x7fffffff, 0) < 0);
            say(" epoll_wait of none", epoll_wait(set, events, 0, 0));
            if (i != 0 && i != 4) {
                say(" epoll_pwait2 time", epoll_pwait2(set, events, 2, (struct timespec *)at, NULL));
                say(" epoll_pwait mask", epoll_pwait(set, events, 2, 10, (sigset_t *)at));
            }
            say(" epoll_ctl del", epoll_ctl(set, EPOLL_CTL_DEL, fd, (struct epoll_event *)at));
            close(set);
            close(fd);
        }
    close(accelerated);
}

CASES({"sending", sending}, {"receiving", receiving}, {"waiting", waiting})
