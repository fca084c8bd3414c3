/* Receive calls: timeouts, flags, buffers, addresses. */
#include "case.h"

#include <sys/epoll.h>
#include <sys/select.h>

static void timeout(void)
{
    int fd = bound();
    char buffer[64];
    set_timeout(fd, 150);
    double begun = now_sec();
    say("recv", recv(fd, buffer, sizeof buffer, 0));
    say_waited("recv", begun, 150);
    /* Data ends the wait early; the next wait is a full one. */
    ask_for(fd, 1, 20, 30, 0, 0);
    say_recv("recv of a late datagram", fd, 64, 0);
    begun = now_sec();
    say("recv again", recv(fd, buffer, sizeof buffer, 0));
    say_waited("recv again", begun, 150);
    begun = now_sec();
    set_timeout(fd, 0);
    ask_for(fd, 1, 20, 300, 0, 0);
    say_recv("recv without a timeout", fd, 64, 0);
    say_waited("recv without a timeout", begun, 300);
    struct timeval timeout = {2, 1234000};
    say("setsockopt with too many microseconds", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    struct timeval read_back;
    socklen_t len = sizeof read_back;
    set_timeout(fd, 1500);
    say("getsockopt", getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &read_back, &len));
    printf("%ld.%06ld\n", (long)read_back.tv_sec, (long)read_back.tv_usec);
}

static void dontwait(void)
{
    int fd = bound();
    say_recv("empty", fd, 64, MSG_DONTWAIT);
    have(fd, 2, 30);
    say_recv("first", fd, 64, MSG_DONTWAIT);
    say_recv("second", fd, 64, MSG_DONTWAIT);
    say_recv("empty", fd, 64, MSG_DONTWAIT);
}

static void nonblocking(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in self = address(SELF, 0);
    MUST(fd);
    MUST(bind(fd, generic(&self), sizeof self));
    say_recv("SOCK_NONBLOCK", fd, 64, 0);
    MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
    printf("flags %x\n", fcntl(fd, F_GETFL));
    ask_for(fd, 1, 10, 100, 0, 0);
    say_recv("blocking", fd, 64, 0);
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    say_recv("O_NONBLOCK", fd, 64, 0);
    int off = 0, on = 1;
    MUST(ioctl(fd, FIONBIO, &off));
    ask_for(fd, 1, 10, 100, 0, 0);
    say_recv("blocking", fd, 64, 0);
    MUST(ioctl(fd, FIONBIO, &on));
    say_recv("FIONBIO", fd, 64, 0);
    printf("flags %x\n", fcntl(fd, F_GETFL));
}

static void peek(void)
{
    int fd = bound();
    ask_for(fd, 2, 40, 50, 0, 0);
    say_recv("blocking peek", fd, 64, MSG_PEEK);
    say_recv("short peek", fd, 4, MSG_PEEK);
    say_recv("peek of the whole length", fd, 4, MSG_PEEK | MSG_TRUNC);
    say_recv("peek into nothing", fd, 0, MSG_PEEK | MSG_TRUNC);
    say_recv("recv", fd, 64, 0);
    say_recv("recv", fd, 64, 0);
    say_recv("peek", fd, 64, MSG_PEEK | MSG_DONTWAIT);
}

static void truncation(void)
{
    int fd = bound();
    char buffer[64];
    have(fd, 5, 100);
    say_recv("short", fd, 10, 0);
    say_recv("short with MSG_TRUNC", fd, 10, MSG_TRUNC);
    struct iovec part = {buffer, 10};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    say("recvmsg", recvmsg(fd, &message, 0));
    printf("flags %x\n", message.msg_flags);
    say("recvmsg with MSG_TRUNC", recvmsg(fd, &message, MSG_TRUNC));
    printf("flags %x\n", message.msg_flags);
    say_recv("into nothing", fd, 0, 0);
    say_recv("then", fd, 10, MSG_DONTWAIT);
}

static void zero_length(void)
{
    int fd = bound();
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    char byte;
    int waiting = -1;
    ask(fd, 1, 0);
    await_data(fd);
    MUST(ioctl(fd, FIONREAD, &waiting));
    printf("FIONREAD %d\n", waiting);
    say("peek", recv(fd, &byte, 1, MSG_PEEK));
    say("recvfrom", recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len));
    say_address("from", &from, len);
    say_recv("empty", fd, 1, MSG_DONTWAIT);
    have(fd, 2, 0);
    say("read", read(fd, &byte, 1));
    struct iovec part = {&byte, 1};
    say("readv", readv(fd, &part, 1));
    say_recv("empty", fd, 1, MSG_DONTWAIT);
}

static void names(void)
{
    int fd = bound();
    struct sockaddr_in from;
    char buffer[64];
    have(fd, 6, 16);
    socklen_t len = sizeof from;
    say("recvfrom", recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len));
    say_address("from", &from, len);
    memset(&from, 0, sizeof from);
    len = 4;
    say("short name", recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len));
    say_address("from", &from, len);
    memset(&from, 0xff, sizeof from);
    len = 0;
    say("no room", recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len));
    printf("len %u family %d\n", len, from.sin_family);
    say("no name", recvfrom(fd, buffer, sizeof buffer, 0, NULL, NULL));
    len = 77;
    say("no name but a length", recvfrom(fd, buffer, sizeof buffer, 0, NULL, &len));
    printf("len %u\n", len);
    struct sockaddr_storage large;
    len = sizeof large;
    say("large name", recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&large, &len));
    printf("len %u\n", len);
    len = sizeof from;
    say("empty", recvfrom(fd, buffer, sizeof buffer, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
}

static void scatter(void)
{
    int fd = bound();
    char a[5] = "", b[5] = "", c[100] = "";
    struct sockaddr_in from;
    char control[64];
    struct iovec parts[4] = {{a, 4}, {NULL, 0}, {b, 4}, {c, 20}};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = parts, .msg_iovlen = 4,
                             .msg_control = control, .msg_controllen = sizeof control, .msg_flags = 0x55};
    have(fd, 5, 26);
    say("recvmsg", recvmsg(fd, &message, 0));
    printf("%s %s %s flags %x control %zu\n", a, b, c, message.msg_flags, message.msg_controllen);
    say_address("from", &from, message.msg_namelen);
    message.msg_iovlen = 3;
    message.msg_name = NULL;
    message.msg_namelen = 55;
    say("short recvmsg", recvmsg(fd, &message, 0));
    printf("%s %s flags %x name length %u\n", a, b, message.msg_flags, message.msg_namelen);
    message.msg_iovlen = 0;
    say("recvmsg without buffers", recvmsg(fd, &message, 0));
    printf("flags %x\n", message.msg_flags);
    message.msg_iov = NULL;
    say("recvmsg without a list", recvmsg(fd, &message, 0));
    say("readv", readv(fd, parts, 4));
    printf("%s %s %s\n", a, b, c);
    message.msg_iovlen = 1025;
    message.msg_iov = parts;
    say("too many buffers", recvmsg(fd, &message, MSG_DONTWAIT));
}

static void reads(void)
{
    int fd = bound();
    char buffer[64];
    struct iovec nothing[2] = {{buffer, 0}, {NULL, 0}};
    have(fd, 2, 26);
    say("read of nothing", read(fd, buffer, 0));
    say("readv of nothing", readv(fd, nothing, 2));
    say("readv of no parts", readv(fd, nothing, 0));
    say("short read", read(fd, buffer, 8));
    printf("%.8s\n", buffer);
    say("read", read(fd, buffer, sizeof buffer));
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    say("read of nothing there", read(fd, buffer, sizeof buffer));
}

static void say_messages(int count, struct mmsghdr *messages)
{
    for (int i = 0; i < count; i++)
        printf("  %u bytes flags %x %.4s\n", messages[i].msg_len, messages[i].msg_hdr.msg_flags,
               (char *)messages[i].msg_hdr.msg_iov->iov_base);
}

static void many(void)
{
    int fd = bound();
    static char buffers[8][32];
    struct iovec parts[8];
    struct mmsghdr messages[8];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 8; i++) {
        parts[i] = (struct iovec){buffers[i], i % 2 ? 32 : 8};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    say("nothing there", recvmmsg(fd, messages, 8, MSG_DONTWAIT, NULL));
    have(fd, 3, 20);
    int count = (int)say("MSG_WAITFORONE", recvmmsg(fd, messages, 8, MSG_WAITFORONE, NULL));
    say_messages(count, messages);
    ask_for(fd, 4, 20, 50, 0, 0);
    count = (int)say("all four", recvmmsg(fd, messages, 4, 0, NULL));
    say_messages(count, messages);
    have(fd, 2, 20);
    count = (int)say("MSG_DONTWAIT", recvmmsg(fd, messages, 8, MSG_DONTWAIT, NULL));
    say_messages(count, messages);
    have(fd, 1, 20);
    struct timespec timeout = {0, 0};
    count = (int)say("no time", recvmmsg(fd, messages, 8, 0, &timeout));
    say_messages(count, messages);
    set_timeout(fd, 100);
    ask(fd, 2, 20);
    count = (int)say("until SO_RCVTIMEO", recvmmsg(fd, messages, 8, 0, NULL));
    say_messages(count, messages);
    say("nothing until SO_RCVTIMEO", recvmmsg(fd, messages, 8, 0, NULL));
    say("none", recvmmsg(fd, messages, 0, MSG_DONTWAIT, NULL));
}

static void say_left(const struct timespec *timeout)
{
    long sec = (long)timeout->tv_sec;
    printf("  left: %s s, %s\n", sec < 0 ? "no" : sec == 0 ? "0" : sec < 100 ? "some" : "many",
           timeout->tv_nsec < 0 || timeout->tv_nsec > 999999999 ? "odd" : timeout->tv_nsec ? "some" : "none");
}

static void say_ready(const char *what, int fd, const int sets[2])
{
    struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
    long count = poll(&polled, 1, 0);
    printf("%s: poll %ld %x\n", what, count, (unsigned)polled.revents);
    polled.events = 0;
    count = poll(&polled, 1, 0);
    printf("  poll for nothing %ld %x\n", count, (unsigned)polled.revents);
    fd_set in, out, other;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    out = other = in;
    struct timeval none = {0, 0};
    count = select(fd + 1, &in, &out, &other, &none);
    printf("  select %ld %d %d %d\n", count, FD_ISSET(fd, &in) != 0, FD_ISSET(fd, &out) != 0, FD_ISSET(fd, &other) != 0);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {0};
        count = epoll_wait(sets[i], &event, 1, 0);
        printf("  epoll %ld %x\n", count, (unsigned)event.events);
    }
}

/* An error that recvmmsg keeps for the next call, as poll, select and epoll show it: the socket has it like any other. */
static void many_errors_shown(void)
{
    char room[2][32];
    struct iovec parts[2] = {{room[0], 32}, {(void *)8, 32}};
    for (int way = 0; way < 3; way++) {
        int fd = bound(), sets[2] = {epoll_create1(0), epoll_create1(0)};
        struct epoll_event level = {.events = EPOLLIN}, edge = {.events = EPOLLIN | EPOLLET};
        MUST(epoll_ctl(sets[0], EPOLL_CTL_ADD, fd, &level));
        MUST(epoll_ctl(sets[1], EPOLL_CTL_ADD, fd, &edge));
        have(fd, 2, 20);
        say_ready("before", fd, sets);
        struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}},
                                      {.msg_hdr = {.msg_iov = &parts[1], .msg_iovlen = 1}}};
        say("two", recvmmsg(fd, messages, 2, MSG_DONTWAIT, NULL));
        say_ready("with an error", fd, sets);
        say_ready("again", fd, sets);
        int error = -1;
        socklen_t len = sizeof error;
        if (way == 0)
            say_recv("recv", fd, 32, MSG_DONTWAIT);
        else if (way == 1)
            printf("SO_ERROR: %ld %s\n", (long)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), strerrorname_np(error));
        else
            say("recvmmsg", recvmmsg(fd, messages, 2, MSG_DONTWAIT, NULL));
        say_ready("without", fd, sets);
        say_recv("what is left", fd, 32, MSG_DONTWAIT);
        have(fd, 1, 20);
        say_ready("and one more", fd, sets);
        close(fd);
        close(sets[0]);
        close(sets[1]);
    }
}

/* Timeouts of recvmmsg: any number, and what is left of them. */
static void many_times(void)
{
    static const struct timespec times[] = {{0x7fffffffffffffff, 999999999}, {0x7fffffffffffffff, 0}, {1L << 40, 5},
                                            {-1, 0}, {0, -1}, {0, 1000000000}, {5, 0x7fffffffffffffff}, {0, 0}, {0, 1},
                                            {20, 0}, {-0x7fffffffffffffff - 1, 0}};
    int fd = bound();
    char buffers[2][32];
    struct iovec parts[2] = {{buffers[0], 32}, {buffers[1], 32}};
    struct mmsghdr messages[2];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 2; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct timespec timeout = times[i];
        have(fd, 2, 9);
        say("two there", recvmmsg(fd, messages, 2, 0, &timeout));
        say_left(&timeout);
        timeout = times[i];
        say("the rest", recvmmsg(fd, messages, 2, MSG_DONTWAIT, &timeout));
        say_left(&timeout);
        timeout = times[i];
        say("none asked for", recvmmsg(fd, messages, 0, MSG_DONTWAIT, &timeout));
        say_left(&timeout);
        while (recv(fd, buffers[0], 32, MSG_DONTWAIT) >= 0) {
        }
    }
    say("none asked for, no list", recvmmsg(fd, NULL, 0, 0, NULL));
    say("none of a file", recvmmsg(1, NULL, 0, 0, NULL));
    say("none of nothing", recvmmsg(987, NULL, 0, 0, NULL));
    struct timespec timeout = {3, 0};
    ask_for(fd, 1, 9, 120, 0, 0);
    ask_for(fd, 1, 9, 240, 0, 0);
    say("in time", recvmmsg(fd, messages, 2, 0, &timeout));
    say_left(&timeout);
    timeout = (struct timespec){0, 50000000};
    ask_for(fd, 2, 9, 120, 0, 0);
    say("too late", recvmmsg(fd, messages, 2, 0, &timeout));
    say_left(&timeout);
}

/* An error behind the first message is the next call's. */
static void many_errors(void)
{
    static const char *const next[] = {"recv", "recvmmsg", "poll", "select", "SO_ERROR"};
    char buffers[2][32];
    struct iovec parts[2] = {{buffers[0], 32}, {(void *)8, 32}};
    struct mmsghdr messages[2];
    for (size_t how = 0; how < sizeof next / sizeof *next; how++) {
        int fd = bound(), error = -1;
        socklen_t len = sizeof error;
        memset(messages, 0, sizeof messages);
        for (int i = 0; i < 2; i++)
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        have(fd, 4, 9);
        printf("%s\n", next[how]);
        say(" recvmmsg", recvmmsg(fd, messages, 2, MSG_DONTWAIT, NULL));
        struct pollfd polled = {fd, how % 2 ? POLLIN : POLLOUT, 0};
        if (how == 2) {
            say(" poll", poll(&polled, 1, 1000));
            printf("  error shown: %d\n", (polled.revents & POLLERR) != 0);
        }
        if (how == 3) {
            fd_set readable, odd;
            FD_ZERO(&readable);
            FD_SET(fd, &readable);
            odd = readable;
            struct timeval timeout = {1, 0};
            say(" select", select(fd + 1, &readable, NULL, &odd, &timeout));
        }
        if (how == 4) {
            say(" getsockopt", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
            printf("  error %d, length %u\n", error, len);
            say(" again", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
            printf("  error %d\n", error);
        }
        parts[1].iov_base = buffers[1];
        if (how == 1)
            say(" recvmmsg again", recvmmsg(fd, messages, 2, MSG_DONTWAIT, NULL));
        say_recv(" recv", fd, 32, MSG_DONTWAIT);
        say_recv(" recv", fd, 32, MSG_DONTWAIT);
        say_recv(" recv", fd, 32, MSG_DONTWAIT);
        parts[1].iov_base = (void *)8;
        MUST(close(fd));
    }
}

static void fionread(void)
{
    int fd = bound();
    int waiting = -1;
    MUST(ioctl(fd, FIONREAD, &waiting));
    printf("empty %d\n", waiting);
    have(fd, 2, 33);
    MUST(ioctl(fd, FIONREAD, &waiting));
    printf("next %d\n", waiting);
    say_recv("recv", fd, 64, 0);
    MUST(ioctl(fd, FIONREAD, &waiting));
    printf("next %d\n", waiting);
}

/* Flags that UDP does not look at: a call with them waits as any. */
static void odd_flags(void)
{
    static const int flags[] = {0, MSG_OOB, MSG_MORE, MSG_DONTROUTE, MSG_EOR, MSG_CONFIRM, MSG_CTRUNC, MSG_PROXY, MSG_SYN,
                                MSG_RST, MSG_FIN, MSG_WAITFORONE, MSG_BATCH, MSG_ZEROCOPY, MSG_FASTOPEN, MSG_CMSG_CLOEXEC,
                                0x10, 0x80000, 0x8000000, 0x7ffd9f9d};
    int fd = bound();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        char buffer[64];
        struct iovec part = {buffer, 4};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        printf("%x\n", flags[i]);
        ask_for(fd, 2, 9, 30, 0, 0);
        say(" recv", recv(fd, buffer, sizeof buffer, flags[i]));
        say(" recvmsg", recvmsg(fd, &message, flags[i]));
        printf("  flags %x\n", message.msg_flags);
        say(" nothing", recv(fd, buffer, sizeof buffer, flags[i] | MSG_DONTWAIT));
    }
}

static void odd_arguments(void)
{
    int fd = bound();
    char buffer[64];
    struct sockaddr_in from;
    say("MSG_OOB", recv(fd, buffer, sizeof buffer, MSG_OOB | MSG_DONTWAIT));
    say("MSG_ERRQUEUE", recv(fd, buffer, sizeof buffer, MSG_ERRQUEUE));
    say("recvmsg of null", recvmsg(fd, NULL, MSG_DONTWAIT));
    socklen_t negative = (socklen_t)-1;
    have(fd, 3, 20);
    say("MSG_WAITALL", recv(fd, buffer, sizeof buffer, MSG_WAITALL));
    say("negative name length",
        recvfrom(fd, buffer, sizeof buffer, MSG_DONTWAIT, (struct sockaddr *)&from, &negative));
    say("null buffer", recv(fd, NULL, 10, MSG_DONTWAIT));
    say_recv("then", fd, 64, MSG_DONTWAIT);
    say("closed", recv(500, buffer, sizeof buffer, 0));
    say("a file", recv(1, buffer, sizeof buffer, 0));
}

/* How a busy server asks for its next datagram. */
enum how { BLOCKING, POLL, EPOLL, PEEK_FIRST, HOWS };
static const char *const how_names[] = {"blocking", "poll", "epoll", "peek first"};

/* Receives one datagram, which is there: says which letter it begins with. */
static char next_letter(int fd, enum how how, int epoll)
{
    struct pollfd polled = {fd, POLLIN, 0};
    struct epoll_event event;
    char letter = '?', peeked = '?';
    if (how == POLL)
        MUST(poll(&polled, 1, 2000));
    if (how == EPOLL)
        MUST(epoll_wait(epoll, &event, 1, 2000));
    if (how == PEEK_FIRST)
        MUST(recv(fd, &peeked, 1, MSG_PEEK));
    MUST(recv(fd, &letter, 1, how == POLL || how == EPOLL ? MSG_DONTWAIT : 0));
    if (how == PEEK_FIRST && letter != peeked)
        printf("peeked %c, received %c\n", peeked, letter);
    return letter;
}

/* A server that is never idle, because one way of the host brings more than it takes: what comes by the other is served. */
static void saturated_by(int from_outside)
{
    for (enum how how = BLOCKING; how < HOWS; how++) {
        int fd = bound(), local = bound(), epoll = epoll_create1(0), is_served = 0, received = 0, large = 1 << 20;
        struct sockaddr_in self = address(SELF, port_of(fd));
        struct epoll_event event = {.events = EPOLLIN};
        MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof large));
        MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
        if (from_outside)
            have(fd, 1000, 1);
        for (int i = 0; i < (from_outside ? 1 : 100); i++)
            MUST(sendto(local, "L", 1, 0, generic(&self), sizeof self));
        if (!from_outside)
            ask(fd, 1, 1);
        for (double end = now_sec() + 1; !is_served && now_sec() < end;) {
            if ((next_letter(fd, how, epoll) == 'L') == from_outside)
                is_served = 1;
            else if (from_outside && ++received % 100 == 0)
                ask(fd, 1000, 1);
            else if (!from_outside)
                MUST(sendto(local, "L", 1, 0, generic(&self), sizeof self));
        }
        printf("%s: the other way is %s\n", how_names[how], is_served ? "served" : "not served");
        close(epoll);
        close(local);
        close(fd);
    }
}

static void saturated_from_outside(void)
{
    saturated_by(1);
}

static void saturated_by_the_host(void)
{
    saturated_by(0);
}

CASES({"timeout", timeout}, {"dontwait", dontwait}, {"nonblocking", nonblocking}, {"peek", peek},
      {"truncation", truncation}, {"zero_length", zero_length}, {"names", names}, {"scatter", scatter},
      {"reads", reads}, {"many", many}, {"many_times", many_times}, {"many_errors", many_errors}, {"many_errors_shown", many_errors_shown},
      {"fionread", fionread}, {"odd_flags", odd_flags}, {"odd_arguments", odd_arguments},
      {"saturated_from_outside", saturated_from_outside}, {"saturated_by_the_host", saturated_by_the_host})
