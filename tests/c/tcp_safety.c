// TCP connections for tests of what is left of them: of a process that is killed, of addresses that are used again, of errors.
//
//   tcp_safety hold <address> <port> <connections>         opens connections, says hello on each, and waits to be killed
//   tcp_safety listen <address> <port> <connections>       accepts so many, and waits to be killed; others wait to be accepted
//   tcp_safety errors <address> <port> 0                   what a connect says that gets no answer but by ICMP
//   tcp_safety cycles <address> <port> <connections>       opens and closes so many, one after the other, and waits to be killed
//   tcp_safety serve <address> <port> <connections>        echoes so many, one after the other, which close first; then waits
//   tcp_safety again <address> <port> 0                    uses a port again, and an end at once
//   tcp_safety options <address> <port> 0                  options of a connection
//   tcp_safety upload <address> <port> <octets>            sends so many to an echo server and checks what comes back

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "family.h"

static struct sockaddr_in peer;

static void check(int ok, const char *what) {
    if (!ok) {
        printf("%s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static void say(const char *what) {
    puts(what);
    fflush(stdout);
}

static int new_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
    return fd;
}

static void hold(int connections) {
    for (int i = 0; i < connections; i++) {
        int fd = new_socket();
        check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
        check(send(fd, "hello", 5, 0) == 5, "send");
    }
    say("ready");
    for (;;) pause();
}

static void listens(int connections) {
    int fd = new_socket();
    check(bind(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "bind");
    check(listen(fd, 128) == 0, "listen");
    say("listens");
    for (int i = 0; i < connections; i++) {
        char hello[5];
        int connection = accept(fd, NULL, NULL);
        check(connection >= 0, "accept");
        check(recv(connection, hello, sizeof hello, MSG_WAITALL) == 5, "recv");
    }
    say("ready");
    for (;;) pause();
}

// A connection is closed when it is over already, every other one past the C library as Node.js does, and the next one gets its number.
static void serve(int connections) {
    static char buffer[4096];
    int listener = new_socket();
    check(bind(listener, (struct sockaddr *)&peer, sizeof peer) == 0, "bind");
    check(listen(listener, 128) == 0, "listen");
    say("listens");
    for (int i = 0; i < connections; i++) {
        int fd = accept(listener, NULL, NULL);
        check(fd >= 0, "accept");
        ssize_t len;
        while ((len = recv(fd, buffer, sizeof buffer, 0)) > 0) check(send(fd, buffer, (size_t)len, 0) == len, "send");
        check(len == 0, "recv");
        check(shutdown(fd, SHUT_WR) == 0, "shutdown");
        struct tcp_info info;
        socklen_t size = sizeof info;
        do check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
        while (info.tcpi_state != TCP_CLOSE && poll(NULL, 0, 0) == 0);
        check((i % 2 ? close(fd) : (int)syscall(SYS_close, fd)) == 0, "close");
    }
    say("ready");
    for (;;) pause();
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void errors(void) {
    double begun = seconds();
    int fd = new_socket();
    int result = connect(fd, (struct sockaddr *)&peer, sizeof peer);
    int error = errno;
    double took = seconds() - begun;
    printf("blocking: %d %d %s\n", result, error, took < 5 ? "in time" : "late");
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    result = connect(fd, (struct sockaddr *)&peer, sizeof peer);
    printf("non-blocking: %d %d\n", result, errno);
    struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
    check(poll(&polled, 1, 10000) == 1, "poll");
    socklen_t len = sizeof error;
    check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0, "SO_ERROR");
    printf("events %x, error %d\n", polled.revents & POLLERR, error);
    close(fd);
}

static void options(void) {
    int fd = new_socket(), value = -1;
    socklen_t len = sizeof value;
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    check(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0, "TCP_NODELAY");
    printf("TCP_NODELAY %d\n", value);
    close(fd);
}

static void upload(int octets) {
    static char buffer[65536], back[65536];
    int fd = new_socket();
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    for (int done = 0; done < octets;) {
        int len = octets - done < 20000 ? octets - done : 20000;
        for (int i = 0; i < len; i++) buffer[i] = (char)((done + i) * 7 + (done >> 11));
        check(send(fd, buffer, (size_t)len, 0) == len, "send");
        ssize_t got = recv(fd, back, (size_t)len, MSG_WAITALL);
        if (got != len) printf("got %zd of %d\n", got, len);
        check(got == len, "recv");
        check(memcmp(buffer, back, (size_t)len) == 0, "what came back");
        done += len;
    }
    struct tcp_info info;
    socklen_t len = sizeof info;
    check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0, "TCP_INFO");
    printf("segments of %u octets\n", info.tcpi_snd_mss);
    close(fd);
}

static void cycles(int connections) {
    for (int i = 0; i < connections; i++) {
        int fd = new_socket();
        check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
        if (i % 2) {
            check(send(fd, "hello", 5, 0) == 5, "send");
            // As those do that read the end.
            char rest[5];
            check(shutdown(fd, SHUT_WR) == 0, "shutdown");
            check(recv(fd, rest, 5, MSG_WAITALL) == 5 && recv(fd, rest, 1, 0) == 0, "the echo");
        }
        check(close(fd) == 0, "close");
    }
    say("ready");
    for (;;) pause();
}

static int from_port(int port, int reuses) {
    struct sockaddr_in local = {AF_INET, htons((uint16_t)port), {0}, {0}};
    int fd = new_socket();
    if (reuses) check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuses, sizeof reuses) == 0, "SO_REUSEADDR");
    int result = bind(fd, (struct sockaddr *)&local, sizeof local);
    printf("bind: %d %d\n", result, result ? errno : 0);
    result = result ? -1 : connect(fd, (struct sockaddr *)&peer, sizeof peer);
    printf("connect: %d\n", result);
    if (result == 0) {
        char rest[5];
        check(send(fd, "hello", 5, 0) == 5 && shutdown(fd, SHUT_WR) == 0, "send");
        check(recv(fd, rest, 5, MSG_WAITALL) == 5 && recv(fd, rest, 1, 0) == 0, "the echo");
    }
    close(fd);
    usleep(50000);
    return result;
}

static void again(void) {
    from_port(7999, 1);
    from_port(7999, 0);
    from_port(7999, 1);
}

int main(int argc, char **argv) {
    check(argc == 5, "arguments");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    peer.sin_family = AF_INET;
    peer.sin_port = htons((uint16_t)atoi(argv[3]));
    check(inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1, "address");
    const char *name = argv[1];
    int number = atoi(argv[4]);
    if (!strcmp(name, "hold")) hold(number);
    else if (!strcmp(name, "listen")) listens(number);
    else if (!strcmp(name, "errors")) errors();
    else if (!strcmp(name, "cycles")) cycles(number);
    else if (!strcmp(name, "serve")) serve(number);
    else if (!strcmp(name, "again")) again();
    else if (!strcmp(name, "options")) options();
    else if (!strcmp(name, "upload")) upload(number);
    else check(0, "case");
    return 0;
}
