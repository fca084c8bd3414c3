/* What the compared programs share: a program has named cases, runs the one in argv[1], and says what it sees on
 * standard output. Nothing that may differ between two runs is said: no ports of the kernel's choice, no exact times. */
#ifndef CASE_H
#define CASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "family.h"

#define PEER_PORT 7000

#define UNUSED __attribute__((unused))

/* Why all sockets of the program are to stay the kernel's; nothing if they are not (testkit's Reason). Read before a case begins:
   a thread of it may change the environment. */
UNUSED static int reason_is(const char *name)
{
    static const char *reason;
    if (!reason) {
        const char *variable = getenv("CASE_REASON");
        reason = variable ? variable : "";
    }
    return strcmp(reason, name) == 0;
}

#define SELF (reason_is("loopback") ? "127.0.0.2" : "10.77.0.2")
#define PEER (reason_is("loopback") ? "127.0.0.1" : "10.77.0.1")

/* A socket with what the reason asks for. */
UNUSED static int reasoned_socket(int domain, int type, int protocol)
{
    int is_inet = domain == AF_INET || domain == AF_INET6;
    int is_udp = is_inet && (type & 0xf) == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
    int is_tcp = is_inet && (type & 0xf) == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP);
    int fd = socket(domain, type, protocol), off = -1, none = 0;
    if (fd >= 0 && is_udp && reason_is("option"))
        setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof off);
    /* Rules are for datagrams. */
    if (fd >= 0 && is_tcp && (reason_is("option") || reason_is("rule")))
        setsockopt(fd, SOL_SOCKET, SO_MARK, &none, sizeof none);
    return fd;
}
#undef socket
#define socket reasoned_socket

/* Ends the program when the test itself cannot go on. */
#define MUST(expression) must((expression) >= 0, #expression, __LINE__)

UNUSED static void must(int ok, const char *what, int line)
{
    if (!ok) {
        printf("line %d: %s: %s\n", line, what, strerrorname_np(errno));
        exit(1);
    }
}

/* Says the result of a call, with the name of its error. */
UNUSED static long say(const char *what, long result)
{
    if (result < 0)
        printf("%s: %ld %s\n", what, result, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, result);
    return result;
}

UNUSED static double now_sec(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

UNUSED static void sleep_msec(int msec)
{
    struct timespec left = {msec / 1000, msec % 1000 * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

/* Says whether at least `msec` have passed, and not very much more: the machine may be busy. */
UNUSED static void say_waited(const char *what, double begun, int msec)
{
    double passed = (now_sec() - begun) * 1000;
    const char *verdict = passed < msec - 3 ? "too short" : passed > msec + 8000 ? "too long" : "as asked";
    printf("%s waited %s\n", what, verdict);
    if (strcmp(verdict, "as asked") != 0)
        fprintf(stderr, "%s: %.1f ms for %d ms\n", what, passed, msec);
}

UNUSED static struct sockaddr_in address(const char *ip, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}

UNUSED static const struct sockaddr *generic(const struct sockaddr_in *address)
{
    return (const struct sockaddr *)address;
}

UNUSED static int udp(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    MUST(fd);
    return fd;
}

/* A socket bound to an address and a port; 0 lets the kernel choose. */
UNUSED static int bound_to(const char *ip, int port)
{
    int fd = udp();
    struct sockaddr_in self = address(ip, port);
    MUST(bind(fd, generic(&self), sizeof self));
    return fd;
}

UNUSED static int bound(void)
{
    return bound_to(SELF, 0);
}

UNUSED static int port_of(int fd)
{
    struct sockaddr_in self;
    socklen_t len = sizeof self;
    MUST(getsockname(fd, (struct sockaddr *)&self, &len));
    return ntohs(self.sin_port);
}

/* Asks the peer for `count` datagrams of `len` bytes after `delay_msec`, from its socket `from` (0 or 1), to `port` (0:
 * the asking socket's own). */
UNUSED static void ask_for(int fd, int count, int len, int delay_msec, int from, int port)
{
    char script[64];
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    int script_len = snprintf(script, sizeof script, "S %d %d %d %d %d", count, len, delay_msec, from, port);
    MUST(sendto(fd, script, (size_t)script_len, 0, generic(&peer), sizeof peer));
}

UNUSED static void ask(int fd, int count, int len)
{
    ask_for(fd, count, len, 0, 0, 0);
}

/* Waits until the socket has something to read. */
UNUSED static void await_data(int fd)
{
    struct pollfd polled = {fd, POLLIN, 0};
    if (poll(&polled, 1, 20000) != 1) {
        printf("nothing came\n");
        exit(1);
    }
}

/* Waits until there are so many octets, whatever the socket is ready for. */
UNUSED static void await_octets(int fd, int len)
{
    int now = 0;
    for (int i = 0; i < 5000 && now < len; i++) {
        MUST(ioctl(fd, FIONREAD, &now));
        if (now < len)
            sleep_msec(1);
    }
    must(now >= len, "octets that wait", __LINE__);
}

/* Asks for datagrams and waits until all are there. A library that polls may learn of them only when it is asked:
 * FIONREAD asks. */
UNUSED static void have(int fd, int count, int len)
{
    int waiting;
    ask(fd, count, len);
    await_data(fd);
    sleep_msec(100);
    MUST(ioctl(fd, FIONREAD, &waiting));
}

UNUSED static void set_timeout(int fd, int msec)
{
    struct timeval timeout = {msec / 1000, msec % 1000 * 1000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
}

/* Receives and says what came, with the first letters. */
UNUSED static long say_recv(const char *what, int fd, size_t room, int flags)
{
    char buffer[70000];
    memset(buffer, '.', sizeof buffer);
    long result = recv(fd, buffer, room, flags);
    say(what, result);
    if (result > 0)
        printf("  %.8s\n", buffer);
    return result;
}

UNUSED static void say_address(const char *what, const struct sockaddr_in *from, socklen_t len)
{
    char ip[INET_ADDRSTRLEN] = "?";
    inet_ntop(AF_INET, &from->sin_addr, ip, sizeof ip);
    int port = ntohs(from->sin_port);
    printf("%s: len %u family %d %s:%d\n", what, len, from->sin_family, ip, port >= 7000 && port < 8000 ? port : port ? 1 : 0);
}

struct test_case {
    const char *name;
    void (*run)(void);
};

/* How many processes the program has started: each loads the library, which costs something. */
UNUSED static int started;

/* Says on standard error what the program and its children cost so far, to a caller that asks for it. */
UNUSED static void say_usage(void)
{
    if (!getenv("CASE_REASON"))
        return;
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    long long usec = 0;
    const struct timeval times[] = {own.ru_utime, own.ru_stime, children.ru_utime, children.ru_stime};
    for (int i = 0; i < 4; i++)
        usec += times[i].tv_sec * 1000000LL + times[i].tv_usec;
    fprintf(stderr, "usage: %lld %ld %d\n", usec, own.ru_nvcsw + children.ru_nvcsw, started);
}

/* How long a case may take. */
#define CASE_SEC 120

/* Goes on in a child of a process with an accelerated socket. */
UNUSED static void go_on_in_a_child(void)
{
    int fd = bound(), status;
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(fd);
        alarm(CASE_SEC);
        return;
    }
    MUST(waitpid(child, &status, 0));
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* The end of every program. */
UNUSED static int run_case(int argc, char **argv, const struct test_case *cases, size_t count)
{
    /* A case that hangs is a case that fails. Opening an interface takes the kernel's lock of all namespaces several times, for which
     * the programs of other tests wait, too: a minute on a machine that many load. */
    alarm(CASE_SEC);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (reason_is("forked"))
        go_on_in_a_child();
    for (size_t i = 0; argc == 2 && i < count; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            printf("end of %s\n", argv[1]);
            say_usage();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s <case>\n", argv[0]);
    return 2;
}

#define CASES(...)                                                                                                     \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const struct test_case cases[] = {__VA_ARGS__};                                                         \
        return run_case(argc, argv, cases, sizeof cases / sizeof *cases);                                              \
    }

#endif
