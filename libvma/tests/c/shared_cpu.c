/* Both ends of a ping-pong: "echo ADDRESS PORT WAY" answers every datagram, "ask ADDRESS PORT WAY COUNT" sends them and
   prints two round trips in nanoseconds: the median, and what 99 of 100 do not exceed. WAY: recv or epoll. Runs on one CPU, given by the caller. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

static int epfd = -1;

static ssize_t receive(int fd, void *buffer, size_t size, struct sockaddr_in *from) {
    socklen_t len = sizeof *from;
    if (epfd >= 0) {
        struct epoll_event event;
        if (epoll_wait(epfd, &event, 1, 5000) != 1)
            die("epoll_wait");
    }
    return recvfrom(fd, buffer, size, 0, (struct sockaddr *)from, &len);
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    int is_echo = strcmp(argv[1], "echo") == 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))}, from;
    inet_pton(AF_INET, argv[2], &address.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if ((is_echo ? bind : connect)(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("address");
    if (strcmp(argv[4], "epoll") == 0) {
        epfd = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) != 0)
            die("epoll_ctl");
    }
    char buffer[64] = "ping";
    if (is_echo) {
        puts("ready");
        fflush(stdout);
        for (;;) {
            ssize_t len = receive(fd, buffer, sizeof buffer, &from);
            if (len < 0)
                die("receive");
            sendto(fd, buffer, len, 0, (struct sockaddr *)&from, sizeof from);
            if (strncmp(buffer, "stop", 4) == 0)
                return 0;
        }
    }
    int count = atoi(argv[5]);
    long *times = calloc(count, sizeof *times);
    for (int i = 0; i < count; i++) {
        long begun = now();
        if (send(fd, buffer, sizeof buffer, 0) < 0 || receive(fd, buffer, sizeof buffer, &from) < 0)
            die("round trip");
        times[i] = now() - begun;
    }
    strcpy(buffer, "stop");
    send(fd, buffer, sizeof buffer, 0);
    qsort(times, count, sizeof *times, by_size);
    printf("%ld %ld\n", times[count / 2], times[count * 99L / 100]);
    return 0;
}
