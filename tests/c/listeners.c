// A listener whose connections are accepted by whoever comes to have it, after some have waited for that.
//
//   listeners <case> <address> <port> <connections>
//
// Says "ready", waits for a line, and does what the case says. Of each connection it says the peer's port in the order of accept(2),
// reads a length and as many octets, sends them back and closes.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.h"

static void say(const char *text, int number) {
    char line[100];
    int len = snprintf(line, sizeof line, "%s %d\n", text, number);
    if (write(1, line, len) != len)
        _exit(2);
}

static void check(int ok, const char *what) {
    if (!ok) {
        say(what, errno);
        _exit(1);
    }
}

static void read_all(int fd, void *at, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t count = read(fd, (char *)at + done, len - done);
        check(count > 0, "read");
        done += count;
    }
}

static void echo(int fd, const struct sockaddr_in *peer) {
    say("accepted", ntohs(peer->sin_port));
    struct sockaddr_in asked;
    socklen_t asked_len = sizeof asked;
    check(getpeername(fd, (struct sockaddr *)&asked, &asked_len) == 0, "getpeername");
    check(asked.sin_port == peer->sin_port && asked.sin_addr.s_addr == peer->sin_addr.s_addr, "peer");
    uint32_t len;
    read_all(fd, &len, sizeof len);
    len = ntohl(len);
    char *octets = malloc(len + 1);
    read_all(fd, octets, len);
    for (size_t done = 0; done < len;) {
        ssize_t count = write(fd, octets + done, len - done);
        check(count > 0, "write");
        done += count;
    }
    free(octets);
    check(close(fd) == 0, "close");
}

static void serve(int listener, int count) {
    while (count-- > 0) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        int fd = accept(listener, (struct sockaddr *)&peer, &len);
        check(fd >= 0, "accept");
        echo(fd, &peer);
    }
}

static void serve_by_epoll(int listener, int count) {
    fcntl(listener, F_SETFL, O_NONBLOCK);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0, "epoll_ctl");
    while (count > 0) {
        check(epoll_wait(set, &event, 1, 20000) == 1, "epoll_wait");
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &len, 0);
        if (fd < 0) {
            check(errno == EAGAIN, "accept4");
            continue;
        }
        echo(fd, &peer);
        count--;
    }
}

static int child_status(void) {
    int status;
    check(wait(&status) > 0, "wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

int main(int argc, char **argv) {
    check(argc == 5, "usage");
    const char *what = argv[1];
    int count = atoi(argv[4]);
    if (strcmp(what, "inherited") == 0) {
        serve(atoi(argv[2]), count);
        return 0;
    }
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    check(inet_pton(AF_INET, argv[2], &local.sin_addr) == 1, "address");
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    check(bind(listener, (struct sockaddr *)&local, sizeof local) == 0, "bind");
    int secs = strcmp(what, "deferred") == 0 ? 20 : 0;
    check(setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &secs, sizeof secs) == 0, "TCP_DEFER_ACCEPT");
    check(listen(listener, 500) == 0, "listen");
    say("ready", 0);
    char line[10];
    check(read(0, line, sizeof line) > 0, "stdin");

    if (strcmp(what, "child") == 0 || strcmp(what, "epoll") == 0 || strcmp(what, "deferred") == 0) {
        if (fork() == 0) {
            (*what == 'e' ? serve_by_epoll : serve)(listener, count);
            _exit(0);
        }
        return child_status();
    }
    if (strcmp(what, "both") == 0) {
        serve(listener, count / 4);
        count -= count / 4;
        if (fork() == 0) {
            serve(listener, count / 2);
            _exit(0);
        }
        serve(listener, count - count / 2);
        return child_status();
    }
    if (strcmp(what, "closes") == 0) {
        if (fork() == 0) {
            usleep(200000);
            serve(listener, count);
            _exit(0);
        }
        close(listener);
        return child_status();
    }
    if (strcmp(what, "daemon") == 0) {
        if (fork() > 0)
            exit(0);
        setsid();
        usleep(200000);
        serve(listener, count);
        say("served", 0);
        return 0;
    }
    if (strcmp(what, "option") == 0) {
        int mark = 0;
        check(setsockopt(listener, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0, "SO_MARK");
        serve(listener, count);
        return 0;
    }
    if (strcmp(what, "exec") == 0) {
        char fd[20];
        snprintf(fd, sizeof fd, "%d", listener);
        execl("/proc/self/exe", "listeners", "inherited", fd, "0", argv[4], NULL);
    }
    return 3;
}
