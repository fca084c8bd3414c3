// What is left of TCP connections that are over or all but over, when another reads on: unread octets, the end behind them, errors.
//
//   remains <way> <address> <port>          a client of a peer that does what it is told in a first line
//   remains read <descriptor>               the program that the way `exec` leads to

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.h"

static struct sockaddr_in peer;
static const char *self;

static void check(int ok, const char *what) {
    if (!ok) {
        printf("%s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static int error_of(int result) { return result < 0 ? errno : 0; }

// All that a program can see of a connection that it was left.
static void report(int fd) {
    static unsigned char buffer[70000];
    struct pollfd polled = {fd, POLLIN | POLLRDHUP, 0}, now = {fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    poll(&polled, 1, 1000);
    poll(&now, 1, 0);
    int ready = -1, error = -1;
    int asked = error_of(ioctl(fd, FIONREAD, &ready));
    printf("  events %x, FIONREAD %d %d, peek %zd", now.revents, asked, ready, recv(fd, buffer, 10, MSG_PEEK | MSG_DONTWAIT));
    size_t total = 0;
    unsigned sum = 0;
    ssize_t count;
    errno = 0;
    while ((count = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
        for (ssize_t i = 0; i < count; i++) sum = sum * 31 + buffer[i];
        total += (size_t)count;
    }
    printf(", octets %zu %x, then %zd %d", total, sum, count, error_of((int)count));
    count = recv(fd, buffer, 1, MSG_DONTWAIT);
    printf(", then %zd %d", count, error_of((int)count));
    socklen_t len = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    count = send(fd, "x", 1, MSG_NOSIGNAL);
    printf(", error %d, send %zd %d", error, count, error_of((int)count));
    struct sockaddr_in6 name = {0};
    len = sizeof name;
    printf(", self %d", error_of(getsockname(fd, (struct sockaddr *)&name, &len)) || name.sin6_port == 0);
    len = sizeof name;
    printf(", peer %d", error_of(getpeername(fd, (struct sockaddr *)&name, &len)));
    // What was sent may be answered by now, so that is no part of it.
    printf(", shutdown %d\n", total == 0 || count < 0 ? error_of(shutdown(fd, SHUT_RDWR)) : 0);
    fflush(stdout);
}

static int waits_for(pid_t child) {
    int status;
    check(waitpid(child, &status, 0) == child, "waitpid");
    return status;
}

static void in_stdio(int fd) {
    check(fdopen(dup(fd), "r+") != NULL, "fdopen");
    report(fd);
}

static void by_option(int fd) {
    int mark = 0;
    check(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0, "SO_MARK");
    report(fd);
}

static void in_child(int fd) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        report(fd);
        _exit(0);
    }
    check(waits_for(child) == 0, "the child");
}

static void in_program(int fd) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        check(dup2(fd, 0) == 0, "dup2");
        execl(self, self, "read", "0", NULL);
        _exit(2);
    }
    check(waits_for(child) == 0, "the program");
}

static void in_receiver(int fd) {
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    char control[CMSG_SPACE(sizeof(int))] = "", byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        check(recvmsg(pair[1], &message, 0) == 1, "recvmsg");
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        report(fd);
        _exit(0);
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    check(sendmsg(pair[0], &message, 0) == 1, "sendmsg");
    check(waits_for(child) == 0, "the receiver");
    close(pair[0]);
    close(pair[1]);
}

static const struct {
    const char *name;
    void (*leave)(int);
} ways[] = {
    {"stdio", in_stdio}, {"option", by_option}, {"fork", in_child}, {"exec", in_program}, {"pass", in_receiver},
};

// The peer's orders: see remains.rs. `shuts`: before them, or behind the peer's end. `fetches`: the error is read before. `at_once`: it is
// left as soon as both directions have ended.
static const struct {
    const char *name, *orders;
    enum { NEVER, FIRST, LATER } shuts;
    int fetches, reads, at_once;
} states[] = {
    {"established, unread", "D", NEVER, 0, 0, 0},
    {"peer's end", "F", NEVER, 0, 0, 0},
    {"peer's end, unread", "DF", NEVER, 0, 0, 0},
    {"both directions read and half closed, unread", "ED", FIRST, 0, 0, 0},
    {"half closed", "E", FIRST, 0, 0, 0},
    {"TIME-WAIT", "EC", FIRST, 0, 0, 0},
    {"TIME-WAIT, unread", "EDC", FIRST, 0, 0, 0},
    {"TIME-WAIT, partly read", "EDC", FIRST, 0, 20001, 0},
    {"TIME-WAIT, unread, at once", "EDC", FIRST, 0, 0, 1},
    {"TIME-WAIT, at once", "EC", FIRST, 0, 0, 1},
    {"closed, unread, at once", "DFEC", LATER, 0, 0, 1},
    {"closed, unread", "DFEC", LATER, 0, 0, 0},
    {"closed", "FEC", LATER, 0, 0, 0},
    {"reset", "R", NEVER, 0, 0, 0},
    {"reset, unread", "DR", NEVER, 0, 0, 0},
    {"reset, partly read", "DR", NEVER, 0, 30001, 0},
    {"reset, unread, fetched", "DR", NEVER, 1, 0, 0},
    {"reset, fetched", "R", NEVER, 1, 0, 0},
    {"peer's end and reset", "FR", NEVER, 0, 0, 0},
    {"peer's end and reset, unread", "DFR", NEVER, 0, 0, 0},
    {"peer's end and reset, unread, fetched", "DFR", NEVER, 1, 0, 0},
    {"half closed and reset, unread", "EDR", FIRST, 0, 0, 0},
};

// Waits until all that the peer does has come.
static void comes(int fd, const char *orders, int is_shut) {
    int ready = -1, all = strchr(orders, 'D') ? 50000 : 0, reset = strchr(orders, 'R') != NULL;
    int ended = reset || strpbrk(orders, "FC") != NULL, events = 0;
    if (ended) events |= POLLRDHUP;
    if (reset || (ended && is_shut)) events |= POLLHUP;
    if (reset) events |= POLLERR;
    struct pollfd polled = {fd, POLLRDHUP, 0};
    for (int i = 0; i < 100000; i++) {
        check(ioctl(fd, FIONREAD, &ready) == 0, "FIONREAD");
        if (poll(&polled, 1, 0) >= 0 && (polled.revents & events) == events && ready == all) return;
        usleep(100);
    }
    check(0, "what the peer does");
}

static void refused(void (*leave)(int), int fetches) {
    struct sockaddr_in nobody = peer;
    nobody.sin_port = htons(9);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(connect(fd, (struct sockaddr *)&nobody, sizeof nobody) == -1 && errno == EINPROGRESS, "connect");
    struct pollfd polled = {fd, POLLOUT, 0};
    check(poll(&polled, 1, 5000) == 1, "poll");
    int error;
    socklen_t len = sizeof error;
    if (fetches) check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNREFUSED, "SO_ERROR");
    printf("refused%s\n", fetches ? ", fetched" : "");
    leave(fd);
    close(fd);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "read") == 0) {
        report(atoi(argv[2]));
        return 0;
    }
    if (argc != 4) return 2;
    self = argv[0];
    peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
    check(inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1, "an address");
    void (*leave)(int) = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[1], ways[i].name) == 0) leave = ways[i].leave;
    if (!leave) return 2;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char orders[16], buffer[40000];
        int fd = socket(AF_INET, SOCK_STREAM, 0), error = 0;
        check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
        int len = snprintf(orders, sizeof orders, "%s\n", states[i].orders);
        check(send(fd, orders, (size_t)len, 0) == len, "send");
        if (states[i].shuts == FIRST) check(shutdown(fd, SHUT_WR) == 0, "shutdown");
        if (states[i].shuts == LATER) {
            struct pollfd polled = {fd, POLLRDHUP, 0};
            check(poll(&polled, 1, 5000) == 1, "poll");
            check(shutdown(fd, SHUT_WR) == 0, "shutdown");
        }
        comes(fd, states[i].orders, states[i].shuts != NEVER);
        // Meanwhile the kernel gets connections in TIME-WAIT.
        if (!states[i].at_once) usleep(60000);
        size_t read = (size_t)states[i].reads;
        if (read) check(recv(fd, buffer, read, MSG_WAITALL) == (ssize_t)read, "recv");
        socklen_t size = sizeof error;
        if (states[i].fetches) check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0, "SO_ERROR");
        printf("%s\n", states[i].name);
        leave(fd);
        close(fd);
    }
    for (int fetches = 0; fetches < 2; fetches++) refused(leave, fetches);
    return 0;
}
