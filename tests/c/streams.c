// TCP as a program sees it. Every octet is checked; what is said is the same with and without the library.
//
//   streams <case> <address> <port>     a client of an echo server
//   streams serve <address> <port>      an echo server for a number of connections, one after the other

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.h"

#define LEN 600000

static struct sockaddr_in peer;

static unsigned char octet(size_t i) { return (unsigned char)(i * 131 + (i >> 8) * 7 + (i >> 16)); }

static void check(int ok, const char *what) {
    if (!ok) {
        printf("%s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static int connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    return fd;
}

// Sends from `*sent` on and receives from `*received` on until that is `until`, as the socket allows.
static void exchange(int fd, size_t *sent, size_t *received, size_t until) {
    static unsigned char buffer[70000];
    while (*received < until) {
        struct pollfd polled = {fd, POLLIN | (*sent < LEN ? POLLOUT : 0), 0};
        check(poll(&polled, 1, 10000) == 1, "poll");
        check((polled.revents & (POLLERR | POLLNVAL)) == 0, "poll's events");
        if (polled.revents & POLLOUT) {
            size_t len = LEN - *sent < sizeof buffer ? LEN - *sent : sizeof buffer;
            for (size_t i = 0; i < len; i++) buffer[i] = octet(*sent + i);
            ssize_t count = send(fd, buffer, len, MSG_DONTWAIT);
            check(count > 0 || errno == EAGAIN, "send");
            if (count > 0) *sent += (size_t)count;
        }
        if (polled.revents & POLLIN) {
            size_t most = until - *received < sizeof buffer ? until - *received : sizeof buffer;
            ssize_t count = recv(fd, buffer, most, MSG_DONTWAIT);
            check(count > 0, "recv");
            for (ssize_t i = 0; i < count; i++)
                check(buffer[i] == octet(*received + (size_t)i), "an octet");
            *received += (size_t)count;
        }
    }
}

static void end(int fd) {
    char rest;
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    check(recv(fd, &rest, 1, 0) == 0, "the end");
    check(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "a send behind the end");
    check(close(fd) == 0, "close");
}

static void plain(void) {
    size_t sent = 0, received = 0;
    int fd = connected();
    exchange(fd, &sent, &received, LEN);
    end(fd);
    puts("all octets");
}

// Closed by number, as libuv does it: the peer is told at once.
static void closed_by_number(void) {
    for (int i = 0; i < 8; i++) {
        int fd = connected();
        check(send(fd, "x", 1, 0) == 1, "send");
        check(syscall(SYS_close, fd) == 0, "close");
        check(syscall(SYS_close, fd) == -1 && errno == EBADF, "close, twice");
        check(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EBADF, "send on nothing");
    }
    // The peer's answers have time to come.
    usleep(100000);
    puts("closed");
}

// The C library writes and reads standard streams past every hook.
static void standard_streams(void) {
    char line[100];
    int fd = connected(), output = dup(1);
    check(dup2(fd, 0) == 0 && dup2(fd, 1) == 1, "dup2");
    check(printf("a line\n") == 7 && fflush(stdout) == 0, "printf");
    check(fgets(line, sizeof line, stdin) != NULL, "fgets");
    check(write(fd, "another\n", 8) == 8, "write");
    char rest[100] = {0};
    for (size_t got = 0; got < 8;) {
        ssize_t count = read(0, rest + got, sizeof rest - got);
        check(count > 0, "read");
        got += (size_t)count;
    }
    check(dup2(output, 1) == 1, "dup2");
    printf("%s%s", line, rest);
}

// The kernel has it from the middle on.
static void option(void) {
    size_t sent = 0, received = 0;
    int fd = connected();
    exchange(fd, &sent, &received, LEN / 3);
    int mark = 0;
    check(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0, "SO_MARK");
    exchange(fd, &sent, &received, LEN);
    end(fd);
    puts("all octets");
}

// A child goes on with it while the parent waits, and the parent when it has ended.
static void forked(void) {
    size_t sent = 0, received = 0;
    int fd = connected(), pipes[2], status;
    check(pipe(pipes) == 0, "pipe");
    exchange(fd, &sent, &received, LEN / 3);
    pid_t child = fork();
    if (child == 0) {
        exchange(fd, &sent, &received, LEN / 3 * 2);
        size_t both[2] = {sent, received};
        check(write(pipes[1], both, sizeof both) == sizeof both, "write");
        _exit(0);
    }
    size_t both[2];
    check(read(pipes[0], both, sizeof both) == sizeof both, "read");
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    sent = both[0];
    received = both[1];
    exchange(fd, &sent, &received, LEN);
    end(fd);
    puts("all octets");
}

// A parent that closes at once leaves the connection to its child.
static void inherited(void) {
    size_t sent = 0, received = 0;
    int fd = connected(), status;
    exchange(fd, &sent, &received, LEN / 3);
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        exchange(fd, &sent, &received, LEN);
        end(fd);
        _exit(0);
    }
    check(close(fd) == 0, "close");
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    puts("all octets");
}

// Another process, which was there before, is given the descriptor and goes on, and then the first one.
static void passed(void) {
    size_t progress[2] = {0, 0};
    int pair[2], status;
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {progress, sizeof progress};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    pid_t child = fork();
    if (child == 0) {
        check(recvmsg(pair[1], &message, 0) == sizeof progress, "recvmsg");
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        exchange(fd, &progress[0], &progress[1], LEN / 3 * 2);
        check(write(pair[1], progress, sizeof progress) == sizeof progress, "write");
        _exit(0);
    }
    int fd = connected();
    exchange(fd, &progress[0], &progress[1], LEN / 3);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    check(sendmsg(pair[0], &message, 0) == sizeof progress, "sendmsg");
    check(read(pair[0], progress, sizeof progress) == sizeof progress, "read");
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    exchange(fd, &progress[0], &progress[1], LEN);
    end(fd);
    puts("all octets");
}

static void edges(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), set = epoll_create1(0), error = -1;
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {.u64 = 77}}, got;
    int first = connect(fd, (struct sockaddr *)&peer, sizeof peer);
    check(first == 0 || errno == EINPROGRESS, "connect");
    check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "EPOLL_CTL_ADD");
    check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == -1 && errno == EEXIST, "a second ADD");
    check(epoll_wait(set, &got, 1, 5000) == 1, "epoll_wait");
    printf("connected: %x, data %d\n", got.events, (int)got.data.u64);
    socklen_t len = sizeof error;
    check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0, "SO_ERROR");
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "the end of connect");
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == -1 && errno == EISCONN, "EISCONN");
    check(epoll_wait(set, &got, 1, 50) == 0, "no new edge");
    check(send(fd, "hello", 5, 0) == 5, "send");
    check(epoll_wait(set, &got, 1, 5000) == 1, "an edge");
    printf("answered: %x\n", got.events);
    int ready = 0;
    check(ioctl(fd, FIONREAD, &ready) == 0, "FIONREAD");
    char text[8] = "";
    check(recv(fd, text, 8, MSG_PEEK) == 5 && recv(fd, text, 8, 0) == 5, "recv");
    check(recv(fd, text, 8, 0) == -1 && errno == EAGAIN, "nothing more");
    printf("%d octets: %.5s\n", ready, text);
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    do
        check(epoll_wait(set, &got, 1, 5000) == 1, "the end");
    while (!(got.events & EPOLLHUP));
    printf("ended: %x\n", got.events);
    struct tcp_info info;
    len = sizeof info;
    check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0, "TCP_INFO");
    check(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0, "EPOLL_CTL_DEL");
    close(fd);
}

// A buffer of which only the beginning can be used.
static void room(void) {
    int fd = connected();
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(page != MAP_FAILED && munmap(page + 4096, 4096) == 0, "a page");
    struct pollfd polled = {fd, POLLIN, 0};
    for (int i = 0; i < 2; i++) {
        check(send(fd, "hello", 5, 0) == 5, "send");
        check(poll(&polled, 1, 5000) == 1, "poll");
        printf("peeked: %zd\n", recv(fd, page, 8192, MSG_PEEK));
        printf("received: %zd\n", recv(fd, page + (i ? 4090 : 0), 8192, 0));
    }
    close(fd);
}

// What only the kernel does on the way out: a close that waits, zero copy, a first message with the handshake, control data.
static void ways_out(void) {
    static char text[70000];
    int fd = connected(), on = 1;
    struct linger linger = {1, 5};
    check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    check(send(fd, text, sizeof text, 0) == sizeof text, "send");
    printf("a close that waits: %d\n", close(fd));
    fd = connected();
    linger.l_linger = 0;
    check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    printf("a close that resets: %d\n", close(fd));
    fd = connected();
    printf("MSG_ZEROCOPY without the option: %zd\n", send(fd, text, 100, MSG_ZEROCOPY));
    printf("received: %zd\n", recv(fd, text, 100, MSG_WAITALL));
    check(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0, "SO_ZEROCOPY");
    printf("MSG_ZEROCOPY: %zd\n", send(fd, text, 100, MSG_ZEROCOPY));
    printf("received: %zd\n", recv(fd, text, 100, MSG_WAITALL));
    struct pollfd polled = {fd, 0, 0};
    check(poll(&polled, 1, 5000) == 1, "poll");
    char control[200];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    printf("a notice: %zd, flags %x\n", recvmsg(fd, &message, MSG_ERRQUEUE), message.msg_flags);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    ssize_t sent = sendto(fd, text, 100, MSG_FASTOPEN, (struct sockaddr *)&peer, sizeof peer);
    printf("MSG_FASTOPEN: %zd\n", sent);
    printf("received: %zd\n", recv(fd, text, 100, MSG_WAITALL));
    close(fd);
    fd = connected();
    struct iovec part = {text, 100};
    struct {
        struct cmsghdr header;
        unsigned flags;
    } stamp = {{CMSG_LEN(sizeof(unsigned)), SOL_SOCKET, SO_TIMESTAMPING}, 0};
    struct msghdr with_control = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &stamp, .msg_controllen = CMSG_SPACE(sizeof(unsigned))};
    ssize_t with = sendmsg(fd, &with_control, 0);
    printf("control data: %zd\n", with);
    printf("received: %zd\n", recv(fd, text, (size_t)(with > 0 ? with : 0), MSG_WAITALL));
    close(fd);
}

static int control(int set, int operation, int fd, unsigned events, unsigned long data) {
    struct epoll_event event = {events, {.u64 = data}};
    return epoll_ctl(set, operation, fd, &event) == 0 ? 0 : errno;
}

static void waited(int set, const char *what, int timeout) {
    struct epoll_event got[4];
    int count = epoll_wait(set, got, 4, timeout);
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %x of %d", got[i].events, (int)got[i].data.u64);
    puts(count == 0 ? " nothing" : "");
}

// Into a set and out of it, again and again; with `mark` the kernel has the connection from the middle on, with `copy` another descriptor.
static void sets(int mark, int copy) {
    int fd = connected(), set = epoll_create1(0), value = 0;
    char text[8];
    printf("MOD and DEL before ADD: %d %d\n", control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 1), control(set, EPOLL_CTL_DEL, fd, 0, 0));
    for (int i = 0; i < 3; i++) {
        printf("ADD: %d, again %d\n", control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 10 + i), control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 5));
        waited(set, "before an answer", 20);
        check(send(fd, "hello", 5, 0) == 5, "send");
        waited(set, "an answer", 5000);
        printf("MOD: %d\n", control(set, EPOLL_CTL_MOD, fd, EPOLLOUT, 20 + i));
        waited(set, "room", 5000);
        printf("MOD without an event: %d\n", epoll_ctl(set, EPOLL_CTL_MOD, fd, NULL) == 0 ? 0 : errno);
        printf("DEL: %d, again %d, MOD %d\n", control(set, EPOLL_CTL_DEL, fd, 0, 0), control(set, EPOLL_CTL_DEL, fd, 0, 0),
               control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 1));
        waited(set, "out of the set", 20);
        check(recv(fd, text, 8, MSG_WAITALL | MSG_DONTWAIT) == 5, "recv");
        if (i == 1 && mark) check(setsockopt(fd, SOL_SOCKET, SO_MARK, &value, sizeof value) == 0, "SO_MARK");
        if (i == 1 && copy) {
            int other = dup(fd);
            check(close(fd) == 0, "close");
            fd = other;
        }
        waited(set, "still out of the set", 20);
    }
    check(shutdown(fd, SHUT_RDWR) == 0, "shutdown");
    waited(set, "after the end", 50);
    printf("ADD after the end: %d\n", control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 30));
    waited(set, "the end", 5000);
    close(fd);
    waited(set, "closed", 20);
    close(set);
}

static struct sockaddr_in6 mapped(void) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = peer.sin_port};
    memset(&six.sin6_addr.s6_addr[10], 0xff, 2);
    memcpy(&six.sin6_addr.s6_addr[12], &peer.sin_addr, 4);
    return six;
}

// What a name says, without the port that the kernel chose.
static void say_name(const char *what, int (*call)(int, struct sockaddr *, socklen_t *), int fd) {
    struct sockaddr_in6 name = {0};
    socklen_t len = sizeof name;
    char text[INET6_ADDRSTRLEN] = "";
    int result = call(fd, (struct sockaddr *)&name, &len), error = errno;
    const void *ip = name.sin6_family == AF_INET ? (void *)&((struct sockaddr_in *)&name)->sin_addr : (void *)&name.sin6_addr;
    if (result == 0) inet_ntop(name.sin6_family, ip, text, sizeof text);
    printf("%s: %d %d, len %u family %d %s port %d\n", what, result, result ? error : 0, len, name.sin6_family, text, name.sin6_port != 0);
}

static void says_connected(const char *what, int fd, const void *address, socklen_t len) {
    char text[3];
    errno = 0;
    int result = connect(fd, address, len);
    printf("%s: %d %d\n", what, result, errno);
    say_name("  self", getsockname, fd);
    say_name("  peer", getpeername, fd);
    if (result == 0 && ((const struct sockaddr *)address)->sa_family != AF_UNSPEC) {
        check(write(fd, "abc", 3) == 3, "write");
        for (size_t done = 0; done < 3;) {
            ssize_t count = read(fd, text + done, 3 - done);
            check(count > 0, "read");
            done += (size_t)count;
        }
        check(memcmp(text, "abc", 3) == 0, "the echo");
    }
}

static int six_socket(int v6only) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
    check(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) == 0, "IPV6_V6ONLY");
    return fd;
}

// Sockets of AF_INET6 to an IPv4 address.
static void six(void) {
    struct sockaddr_in6 to = mapped(), any = {.sin6_family = AF_INET6}, nowhere = to, none = {.sin6_family = AF_UNSPEC};
    struct sockaddr_in four_to = peer;
    int fd = six_socket(0), on = 1, four = AF_INET;
    says_connected("IPv4 address", fd, &four_to, sizeof four_to);
    says_connected("short address", fd, &to, 23);
    says_connected("no IPv6 there", fd, &nowhere, 3);
    to.sin6_flowinfo = htonl(0x12345), to.sin6_scope_id = 99;
    says_connected("without a scope", fd, &to, 24);
    says_connected("again", fd, &to, sizeof to);
    says_connected("dissolved", fd, &none, sizeof none);
    to = mapped();
    says_connected("once more", fd, &to, sizeof to);
    printf("IPV6_V6ONLY: %d\n", setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) ? errno : 0);
    printf("IPV6_TCLASS: %d\n", setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &on, sizeof on) ? errno : 0);
    close(fd);

    fd = six_socket(0);
    check(bind(fd, (struct sockaddr *)&any, sizeof any) == 0, "bind");
    says_connected("bound to any", fd, &to, sizeof to);
    // Then it is the kernel's, with what it has sent.
    check(setsockopt(fd, IPPROTO_IPV6, 33, &on, sizeof on) == 0, "IPV6_FLOWINFO_SEND");
    char text[4];
    check(write(fd, "last", 4) == 4 && recv(fd, text, 4, MSG_WAITALL) == 4 && !memcmp(text, "last", 4), "the kernel's echo");
    say_name("  self", getsockname, fd);
    close(fd);

    fd = six_socket(0);
    says_connected("to be IPv4", fd, &to, sizeof to);
    printf("IPV6_ADDRFORM: %d\n", setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &four, sizeof four) ? errno : 0);
    say_name("  self", getsockname, fd);
    check(write(fd, "four", 4) == 4 && recv(fd, text, 4, MSG_WAITALL) == 4 && !memcmp(text, "four", 4), "the echo of four");
    check(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on) == 0, "IP_FREEBIND");
    check(write(fd, "last", 4) == 4 && recv(fd, text, 4, MSG_WAITALL) == 4 && !memcmp(text, "last", 4), "the kernel's echo of four");
    close(fd);

    fd = six_socket(1);
    says_connected("only IPv6", fd, &to, sizeof to);
    close(fd);
    fd = six_socket(0);
    any.sin6_addr = in6addr_loopback;
    check(bind(fd, (struct sockaddr *)&any, sizeof any) == 0, "bind to loopback");
    says_connected("bound to an IPv6 address", fd, &to, sizeof to);
    close(fd);
}

static void refused(void) {
    peer.sin_port = htons(1);
    int fd = socket(AF_INET, SOCK_STREAM, 0), error = 0;
    int result = connect(fd, (struct sockaddr *)&peer, sizeof peer);
    printf("refused: %d %d\n", result, errno);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == -1, "connect");
    struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
    check(poll(&polled, 1, 5000) == 1, "poll");
    socklen_t len = sizeof error;
    check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0, "SO_ERROR");
    printf("events %x, error %d\n", polled.revents, error);
    close(fd);
}

// Options that change nothing for the packets of a connection, before it and after.
static void harmless_options(void) {
    static const struct {
        const char *text;
        int level, name, value;
    } options[] = {
        {"IP_FREEBIND", IPPROTO_IP, IP_FREEBIND, 1},
        {"IP_BIND_ADDRESS_NO_PORT", IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1},
        {"IP_LOCAL_PORT_RANGE", IPPROTO_IP, 51, 41000 << 16 | 40000},
        {"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT, 1},
        {"SO_BUF_LOCK", SOL_SOCKET, 72, 1},
        {"SO_TXREHASH", SOL_SOCKET, 74, 1},
        {"SO_ZEROCOPY", SOL_SOCKET, SO_ZEROCOPY, 1},
        {"SO_SELECT_ERR_QUEUE", SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1},
        {"IP_PKTINFO", IPPROTO_IP, IP_PKTINFO, 1},
        {"IP_RECVTTL", IPPROTO_IP, IP_RECVTTL, 1},
        {"IP_RECVTOS", IPPROTO_IP, IP_RECVTOS, 1},
        {"IP_RECVOPTS", IPPROTO_IP, IP_RECVOPTS, 1},
        {"IP_RETOPTS", IPPROTO_IP, IP_RETOPTS, 1},
        {"IP_RECVORIGDSTADDR", IPPROTO_IP, IP_RECVORIGDSTADDR, 1},
        {"IP_MULTICAST_LOOP", IPPROTO_IP, IP_MULTICAST_LOOP, 0},
        {"IP_MULTICAST_ALL", IPPROTO_IP, IP_MULTICAST_ALL, 0},
    };
    for (size_t i = 0; i < 2 * sizeof options / sizeof *options; i++) {
        int is_late = i & 1, value = options[i / 2].value, level = options[i / 2].level, name = options[i / 2].name;
        int fd = socket(AF_INET, SOCK_STREAM, 0), set = -1, got = -1;
        socklen_t len = sizeof got;
        char octet = 0;
        if (!is_late) set = setsockopt(fd, level, name, &value, sizeof value);
        struct sockaddr_in any = {.sin_family = AF_INET};
        if (i & 2) check(bind(fd, (struct sockaddr *)&any, sizeof any) == 0, "bind");
        check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
        if (is_late) set = setsockopt(fd, level, name, &value, sizeof value);
        printf("%s: %d %d", options[i / 2].text, set, set < 0 ? errno : 0);
        check(send(fd, "x", 1, 0) == 1 && recv(fd, &octet, 1, 0) == 1 && octet == 'x', "an octet");
        int told = getsockopt(fd, level, name, &got, &len);
        printf(", is %d %d\n", told, got);
        socklen_t address_len = sizeof any;
        check(getsockname(fd, (struct sockaddr *)&any, &address_len) == 0, "getsockname");
        int port = ntohs(any.sin_port);
        if (name == 51 && !is_late && !over_ipv6()) check(port >= 40000 && port <= 41000, "the port");
        close(fd);
    }
}

static int dummies(int fd) {
    struct iovec part = {"never sent", 10};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    int done = 0;
    done += send(fd, "never sent", 10, MSG_SYN) == 10;
    done += sendto(fd, "never sent", 10, MSG_SYN | MSG_DONTWAIT, NULL, 0) == 10;
    done += sendmsg(fd, &messages[0].msg_hdr, MSG_SYN) == 10;
    done += sendmmsg(fd, messages, 2, MSG_SYN) == 2 && messages[0].msg_len == 10 && messages[1].msg_len == 10;
    return done;
}

// Sends of VMA's extra API that send nothing (VMA_SND_FLAGS_DUMMY): the peers of streams and of datagrams see what is between them.
static void dummy_sends(void) {
    size_t sent = 0, received = 0;
    int fd = connected(), one = 1, sending = SOF_TIMESTAMPING_TX_SOFTWARE, datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    printf("stream: %d\n", dummies(fd));
    exchange(fd, &sent, &received, LEN / 2);
    printf("stream: %d\n", dummies(fd));
    exchange(fd, &sent, &received, LEN);
    printf("no buffer: %zd", send(fd, NULL, 10, MSG_SYN));
    printf(" %d\n", errno);
    end(fd);
    check(connect(datagrams, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    // The second one goes past the kernel.
    for (int i = 0; i < 2; i++) {
        check(send(datagrams, "sent", 4, 0) == 4, "send");
        usleep(50000);
    }
    printf("datagrams: %d\n", dummies(datagrams));
    check(send(datagrams, "last", 4, 0) == 4, "send");
    // Those of the kernel's have nothing to rehearse.
    fd = connected();
    check(setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, NULL, 0) == -1, "TCP_MD5SIG");
    check(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &sending, sizeof sending) == 0, "SO_TIMESTAMPING");
    check(setsockopt(datagrams, IPPROTO_UDP, 1, &one, sizeof one) == 0, "UDP_CORK");
    for (int i = 0; i < 2; i++) {
        printf("the kernel's: %d", dummies(i ? datagrams : fd));
        printf(" %d\n", errno);
    }
}

static void serve(int connections) {
    static char buffer[65536];
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    check(bind(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "bind");
    check(listen(fd, 16) == 0, "listen");
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < connections; i++) {
        struct sockaddr_in from, same;
        socklen_t len = sizeof from;
        int connection = accept(fd, (struct sockaddr *)&from, &len), value = 0;
        check(connection >= 0 && len == (over_ipv6() ? sizeof(struct sockaddr_in6) : sizeof from), "accept");
        len = sizeof same;
        check(getpeername(connection, (struct sockaddr *)&same, &len) == 0, "getpeername");
        check(memcmp(&from, &same, 8) == 0, "the peer");
        len = sizeof value;
        check(getsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0, "getsockopt");
        size_t total = 0;
        for (ssize_t count; (count = read(connection, buffer, sizeof buffer)) != 0;) {
            check(count > 0, "read");
            check(write(connection, buffer, (size_t)count) == count, "write");
            total += (size_t)count;
        }
        printf("%zu octets, TCP_NODELAY %d\n", total, value);
        fflush(stdout);
        close(connection);
    }
}

// Ends the connection first, so that its port is in TIME_WAIT.
static void serve_once(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, value = 0;
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    check(bind(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "bind");
    check(listen(fd, 16) == 0, "listen");
    puts("ready");
    fflush(stdout);
    int connection = accept(fd, NULL, NULL);
    check(connection >= 0, "accept");
    socklen_t len = sizeof value;
    check(getsockopt(connection, SOL_SOCKET, SO_REUSEADDR, &value, &len) == 0, "getsockopt");
    check(write(connection, "bye", 3) == 3, "write");
    printf("SO_REUSEADDR %d\n", value);
}

// A connection is there when data are, not before.
static void serve_deferred(int is_set_late) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, secs = 20;
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    check(bind(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "bind");
    if (!is_set_late) check(setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs, sizeof secs) == 0, "option");
    check(listen(fd, 16) == 0, "listen");
    if (is_set_late) check(setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs, sizeof secs) == 0, "option");
    puts("ready");
    fflush(stdout);
    struct pollfd polled = {fd, POLLIN, 0};
    char text[8];
    check(poll(&polled, 1, 10000) == 1, "poll");
    int connection = accept(fd, NULL, NULL);
    check(connection >= 0, "accept");
    printf("at once: %zd\n", recv(connection, text, sizeof text, MSG_DONTWAIT));
}

static int option_int(int fd, int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    check(getsockopt(fd, level, name, &value, &len) == 0, "getsockopt");
    return value;
}

// What has come is known at once, also to calls that receive nothing. The peer acknowledges, and then resets each connection.
static void known_at_once(void) {
    static const char data[1000];
    int fd = connected(), amount = -1, unsent = -1;
    // The C library's structure ends before `tcpi_bytes_acked`.
    union {
        struct tcp_info info;
        unsigned long long longs[32];
    } told;
    socklen_t len = sizeof told;
    check(send(fd, data, sizeof data, 0) == sizeof data, "send");
    usleep(100000);
    check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &len) == 0, "TCP_INFO");
    printf("acknowledged %llu, not %u\n", told.longs[15], told.info.tcpi_unacked);
    // An octet tells the peer to reset.
    for (int how = 0; how < 8; how++) {
        fd = how ? connected() : fd;
        if (how) check(send(fd, data, sizeof data, 0) == sizeof data, "send");
        usleep(60000);
        if (how == 1) {
            check(ioctl(fd, TIOCOUTQ, &amount) == 0 && ioctl(fd, 0x894b, &unsent) == 0, "ioctl");
            printf("in the queue %d, unsent %d\n", amount, unsent);
        }
        check(send(fd, "x", 1, 0) == 1, "send");
        usleep(60000);
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        struct msghdr message = {.msg_iov = &(struct iovec){(void *)data, 5}, .msg_iovlen = 1};
        errno = 0;
        if (how == 0) printf("SO_ERROR %d\n", option_int(fd, SOL_SOCKET, SO_ERROR));
        if (how == 2) printf("send %zd\n", send(fd, data, 5, MSG_NOSIGNAL));
        if (how == 3) printf("write %zd\n", write(fd, data, 5));
        if (how == 4) printf("sendmsg %zd\n", sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (how == 5) printf("getpeername %d\n", getpeername(fd, (struct sockaddr *)&from, &from_len));
        if (how == 6) {
            len = sizeof told;
            check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &len) == 0, "TCP_INFO");
            printf("state %d\n", told.info.tcpi_state);
        }
        if (how == 7) printf("shutdown %d\n", shutdown(fd, SHUT_WR));
        printf("errno %d\n", errno);
        printf("SO_ERROR %d\n", option_int(fd, SOL_SOCKET, SO_ERROR));
        printf("send %zd\n", send(fd, data, 5, MSG_NOSIGNAL));
        printf("errno %d\n", errno);
        check(close(fd) == 0, "close");
    }
}

// What connect(2) says once more while nobody answers, and TCP_INFO when both sides have closed.
static void states(void) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    char octet;
    int fd = connected();
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    check(recv(fd, &octet, 1, 0) == 0, "recv");
    usleep(60000);
    check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0, "TCP_INFO");
    printf("state %d\n", info.tcpi_state);
    check(close(fd) == 0, "close");
    struct sockaddr_in nobody = peer;
    nobody.sin_addr.s_addr = htonl(ntohl(peer.sin_addr.s_addr) + 70);
    struct timeval patience = {.tv_usec = 200000};
    fd = socket(AF_INET, SOCK_STREAM, 0);
    check(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0, "SO_SNDTIMEO");
    for (int count = 0; count < 3; count++) {
        int connected = connect(fd, (struct sockaddr *)&nobody, sizeof nobody);
        printf("connect %d, errno %d\n", connected, errno);
    }
    check(close(fd) == 0, "close");
}

int main(int argc, char **argv) {
    check(argc == 4, "arguments");
    peer.sin_family = AF_INET;
    peer.sin_port = htons((uint16_t)atoi(argv[3]));
    check(inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1, "address");
    const char *name = argv[1];
    if (!strcmp(name, "plain")) plain();
    else if (!strcmp(name, "option")) option();
    else if (!strcmp(name, "closed_by_number")) closed_by_number();
    else if (!strcmp(name, "standard_streams")) standard_streams();
    else if (!strcmp(name, "forked")) forked();
    else if (!strcmp(name, "inherited")) inherited();
    else if (!strcmp(name, "passed")) passed();
    else if (!strcmp(name, "edges")) edges();
    else if (!strcmp(name, "sets")) sets(0, 0);
    else if (!strcmp(name, "sets_mark")) sets(1, 0);
    else if (!strcmp(name, "sets_copy")) sets(0, 1);
    else if (!strcmp(name, "ways_out")) ways_out();
    else if (!strcmp(name, "room")) room();
    else if (!strcmp(name, "refused")) refused();
    else if (!strcmp(name, "known_at_once")) known_at_once();
    else if (!strcmp(name, "states")) states();
    else if (!strcmp(name, "six")) six();
    else if (!strcmp(name, "dummy_sends")) dummy_sends();
    else if (!strcmp(name, "harmless_options")) harmless_options();
    else if (!strcmp(name, "serve")) serve(4);
    else if (!strcmp(name, "serve_deferred")) serve_deferred(0);
    else if (!strcmp(name, "serve_deferred_late")) serve_deferred(1);
    else if (!strcmp(name, "serve_once")) serve_once();
    else check(0, "case");
    return 0;
}
