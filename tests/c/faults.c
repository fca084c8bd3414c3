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

/* A copy of a value at an odd address, with nothing behind it. */
static void *odd(const void *value, size_t len)
{
    return memcpy(good + PAGE - 1 - len, value, len);
}

/* The kernel takes pointers to any address. */
static void unaligned(void)
{
    make_memory();
    int fd = bound(), set = epoll_create1(0), waiting = -1, pair[2];
    char data[2][16] = {{0}}, *more = good + 1;
    struct sockaddr_in peer = address(PEER, 7999), from;
    struct iovec parts[2] = {{data[0], 4}, {data[1], 16}};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iovlen = 2};
    struct mmsghdr messages[2];
    struct timespec time = {1, 0};
    have(fd, 6, 9);
    void *time_at = odd(&time, sizeof time);
    message.msg_iov = memcpy(more, parts, sizeof parts);
    struct msghdr *message_at = (void *)memcpy(more + 101, &message, sizeof message);
    say("recvmsg", recvmsg(fd, message_at, 0));
    memcpy(&message, message_at, sizeof message);
    say_address("from", &from, message.msg_namelen);
    for (int i = 0; i < 2; i++)
        messages[i] = (struct mmsghdr){.msg_hdr = message};
    struct mmsghdr *list = (void *)memcpy(more + 301, messages, sizeof messages);
    say("recvmmsg", recvmmsg(fd, list, 2, 0, time_at));
    memcpy(messages, list, sizeof messages);
    printf("lengths %u %u\n", messages[0].msg_len, messages[1].msg_len);
    memcpy(&time, time_at, sizeof time);
    printf("time left %d\n", time.tv_sec == 0 && time.tv_nsec > 0);
    say("FIONREAD", ioctl(fd, FIONREAD, odd(&waiting, sizeof waiting)));
    memcpy(&waiting, good + PAGE - 1 - sizeof waiting, sizeof waiting);
    say("waiting", waiting);
    socklen_t len = sizeof from, *len_at = odd(&len, sizeof len);
    say("recvfrom", recvfrom(fd, data[0], 16, 0, (struct sockaddr *)(more + 1), len_at));
    memcpy(&len, len_at, sizeof len);
    say("length", len);
    say("readv", readv(fd, message.msg_iov, 2));

    messages[0].msg_hdr.msg_name = memcpy(more + 601, &peer, sizeof peer);
    messages[0].msg_hdr.msg_namelen = sizeof peer;
    messages[1] = messages[0];
    memcpy(list, messages, sizeof messages);
    memset(parts, 0, sizeof parts);
    say("sendmsg", sendmsg(fd, &list->msg_hdr, 0));
    say("sendmmsg", sendmmsg(fd, list, 2, 0));
    memcpy(messages, list, sizeof messages);
    printf("lengths %u %u\n", messages[0].msg_len, messages[1].msg_len);

    struct pollfd polled[2] = {{fd, POLLIN, 0}, {fd, POLLOUT, 0}};
    struct pollfd *polled_at = odd(polled, sizeof polled);
    say("poll", poll(polled_at, 2, 1000));
    memcpy(polled, polled_at, sizeof polled);
    printf("%x %x\n", polled[0].revents, polled[1].revents);
    void *second_time = memcpy(more, &(struct timespec){1, 0}, sizeof time);
    say("ppoll", ppoll(polled_at, 2, second_time, NULL));
    memcpy(polled, polled_at, sizeof polled);
    printf("%x %x\n", polled[0].revents, polled[1].revents);

    fd_set sets[3];
    memset(sets, 0, sizeof sets);
    for (int i = 0; i < 3; i++)
        FD_SET(fd, &sets[i]);
    fd_set *sets_at = (void *)memcpy(more + 201, sets, sizeof sets);
    void *interval = memcpy(more, &(struct timeval){1, 0}, sizeof(struct timeval));
    say("select", select(fd + 1, sets_at, sets_at + 1, sets_at + 2, interval));
    memcpy(sets, sets_at, sizeof sets);
    printf("%d %d %d\n", FD_ISSET(fd, &sets[0]), FD_ISSET(fd, &sets[1]), FD_ISSET(fd, &sets[2]));
    say("pselect", pselect(fd + 1, sets_at, NULL, NULL, second_time, NULL));

    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, events[2] = {{0}};
    say("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, fd, odd(&event, sizeof event)));
    struct epoll_event *events_at = odd(events, sizeof events);
    say("epoll_wait", epoll_wait(set, events_at, 2, 1000));
    memcpy(events, events_at, sizeof events);
    printf("%x %d\n", events[0].events, (int)events[0].data.u64);

    /* A descriptor in a message. */
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct cmsghdr *header = (struct cmsghdr *)control;
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    struct iovec byte = {data[0], 1};
    message = (struct msghdr){.msg_iov = &byte, .msg_iovlen = 1, .msg_control = odd(control, sizeof control), .msg_controllen = sizeof control};
    say("a descriptor", sendmsg(pair[0], &message, 0));
    memset(message.msg_control, 0, sizeof control);
    say("a descriptor", recvmsg(pair[1], &message, 0));
    memcpy(control, message.msg_control, sizeof control);
    int copy = -1;
    memcpy(&copy, CMSG_DATA(header), sizeof copy);
    set_timeout(copy, 2000);
    ask(copy, 1, 11);
    say_recv("through the copy", copy, 16, 0);
}

CASES({"sending", sending}, {"receiving", receiving}, {"waiting", waiting}, {"unaligned", unaligned})
