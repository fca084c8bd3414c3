// A server with several listeners at one address (SO_REUSEPORT), which does what it is told on standard input, a line at a time, and
// says what came of it.
//
//   shared_listeners <port>
//
// A connection that is accepted reads until its peer has said all, and answers with the number of its listener and of the octets.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.h"

#define LISTENERS_MAX 70

static int listeners[LISTENERS_MAX], count, port, secs;

static void check(int ok, const char *what) {
    if (!ok) {
        printf("%s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static void answer(int fd, int number) {
    char buffer[4096];
    uint32_t told[2] = {htonl(number), 0};
    ssize_t len;
    while ((len = read(fd, buffer, sizeof buffer)) > 0)
        told[1] += len;
    told[1] = htonl(told[1]);
    if (len == 0)
        check(write(fd, told, sizeof told) == sizeof told || errno == EPIPE || errno == ECONNRESET, "write");
    close(fd);
}

static int opened(int type, const char *ip) {
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(port)};
    check(inet_pton(AF_INET, ip, &local.sin_addr) == 1, "address");
    int fd = socket(AF_INET, type, 0), on = 1;
    check(fd >= 0, "socket");
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0, "SO_REUSEPORT");
    if (secs)
        check(setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs, sizeof secs) == 0, "TCP_DEFER_ACCEPT");
    check(bind(fd, (struct sockaddr *)&local, sizeof local) == 0, "bind");
    return fd;
}

static int listening(const char *ip) {
    int fd = opened(SOCK_STREAM | SOCK_NONBLOCK, ip);
    check(listen(fd, 1000) == 0, "listen");
    return fd;
}

static int take(int number, int left) {
    int fd = accept4(listeners[number], NULL, NULL, 0);
    if (fd < 0) {
        check(errno == EAGAIN || errno == EINVAL || errno == EBADF, "accept4");
        return left;
    }
    answer(fd, number);
    return left - 1;
}

// Accepts so many connections, by whichever listener they come.
static void serve(int connections) {
    struct pollfd polled[LISTENERS_MAX];
    while (connections > 0) {
        for (int i = 0; i < count; i++)
            polled[i] = (struct pollfd){listeners[i], POLLIN, 0};
        int ready = poll(polled, count, 10000);
        check(ready >= 0, "poll");
        if (ready == 0) {
            printf("%d connections are missing\n", connections);
            return;
        }
        for (int i = 0; i < count; i++)
            if (polled[i].revents)
                connections = take(i, connections);
    }
}

static void *serve_one(void *number) {
    int set = epoll_create1(EPOLL_CLOEXEC), place = (int)(intptr_t)number;
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(set, EPOLL_CTL_ADD, listeners[place], &event) == 0, "epoll_ctl");
    for (;;)
        if (epoll_wait(set, &event, 1, -1) == 1)
            take(place, 0);
    return NULL;
}

static void start_threads(void) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (listeners[i] >= 0)
            check(pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)i) == 0, "pthread_create");
    }
}

static void start_workers(void) {
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            alarm(60);
            serve_one((void *)(intptr_t)i);
        }
    }
}

// All connections are for the one listener with this place in the group.
static void choose(int place) {
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, place}};
    struct sock_fprog program = {1, code};
    int result = setsockopt(listeners[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
    check(result == 0, "SO_ATTACH_REUSEPORT_CBPF");
}

int main(int argc, char **argv) {
    check(argc == 2, "usage");
    port = atoi(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    setlinebuf(stdout);
    puts("ready");
    char line[100], word[100];
    for (int commands = 1; fgets(line, sizeof line, stdin); commands++) {
        int number = 0, value = 0, is_datagrams = !strncmp(line, "datagrams ", 10);
        if (sscanf(line, "open %99s", word) == 1) {
            check(count < LISTENERS_MAX, "listeners");
            listeners[count++] = listening(word);
        } else if (is_datagrams && sscanf(line, "datagrams %99s", word) == 1) {
            opened(SOCK_DGRAM, word);
        } else if (sscanf(line, "defer %d", &secs) == 1) {
        } else if (sscanf(line, "close %d", &number) == 1) {
            check(close(listeners[number]) == 0, "close");
            listeners[number] = -1;
        } else if (sscanf(line, "serve %d", &number) == 1) {
            serve(number);
        } else if (sscanf(line, "choose %d", &number) == 1) {
            choose(number);
        } else if (sscanf(line, "cpu %d %d", &number, &value) == 2) {
            check(setsockopt(listeners[number], SOL_SOCKET, SO_INCOMING_CPU, &value, sizeof value) == 0, "SO_INCOMING_CPU");
        } else if (!strcmp(line, "threads\n")) {
            start_threads();
        } else if (!strcmp(line, "workers\n")) {
            start_workers();
        } else {
            check(0, line);
        }
        printf("%d done\n", commands);
    }
    fprintf(stderr, "the server ends\n");
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    _exit(0);
}
