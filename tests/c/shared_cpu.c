/* Both ends of a ping-pong: "echo ADDRESS PORT WAY" answers every datagram, "ask ADDRESS PORT WAY COUNT" sends them and
   prints two round trips in nanoseconds: the median, and what 99 of 100 do not exceed. WAY: recv, epoll, or threads: then four threads echo, each with a socket (PORT and the next three)
   and an epoll set of its own, and PORT + 1 is asked, or with "each" as a sixth argument all of them in turn. Runs on one CPU,
   given by the caller. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

#define THREADS 4

static int epfd = -1;

/* The echoing threads have opened their sockets, which takes as long as others keep the kernel from
   opening an interface: a datagram that comes before is refused, and nobody sends it again. */
static pthread_barrier_t opened_all;

static ssize_t receive(int fd, void *buffer, size_t size, struct sockaddr_in *from) {
    socklen_t len = sizeof *from;
    if (epfd >= 0) {
        struct epoll_event event;
        if (epoll_wait(epfd, &event, 1, 5000) != 1)
            die("epoll_wait");
    }
    return recvfrom(fd, buffer, size, 0, (struct sockaddr *)from, &len);
}

static struct sockaddr_in address;

static int opened(int offset) {
    struct sockaddr_in self = address;
    self.sin_port = htons(ntohs(address.sin_port) + offset);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&self, sizeof self) != 0)
        die("bind");
    return fd;
}

/* Waits for a few microseconds to milliseconds at a time, so that it also leaves its sleep by itself. Others end only with the
   process. */
static void *echo_thread(void *number) {
    int offset = (int)(intptr_t)number, fd = opened(offset), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
    pthread_barrier_wait(&opened_all);
    for (unsigned turn = 0;; turn++) {
        int found = epoll_wait(set, &event, 1, offset == 3 ? (int)(turn % 3) : -1);
        if (found < 0)
            die("epoll_wait");
        if (found == 0)
            continue;
        char buffer[64];
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
        if (len < 0)
            die("recvfrom");
        sendto(fd, buffer, len, 0, (struct sockaddr *)&from, from_len);
        if (strncmp(buffer, "stop", 4) == 0)
            exit(0);
    }
}

static int echo_threads(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&opened_all, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, echo_thread, (void *)(intptr_t)i);
    pthread_barrier_wait(&opened_all);
    puts("ready");
    fflush(stdout);
    pthread_join(threads[0], NULL);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    int is_echo = strcmp(argv[1], "echo") == 0;
    int with_threads = strcmp(argv[4], "threads") == 0, each = argc > 6;
    struct sockaddr_in from;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &address.sin_addr);
    if (is_echo && with_threads)
        return echo_threads();
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (with_threads)
        address.sin_port = htons(atoi(argv[3]) + 1);
    else if ((is_echo ? bind : connect)(fd, (struct sockaddr *)&address, sizeof address) != 0)
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
        if (each)
            address.sin_port = htons(atoi(argv[3]) + i % THREADS);
        const struct sockaddr *to = with_threads ? (struct sockaddr *)&address : NULL;
        if (sendto(fd, buffer, sizeof buffer, 0, to, to ? sizeof address : 0) < 0 || receive(fd, buffer, sizeof buffer, &from) < 0)
            die("round trip");
        times[i] = now() - begun;
    }
    strcpy(buffer, "stop");
    sendto(fd, buffer, sizeof buffer, 0, with_threads ? (struct sockaddr *)&address : NULL, with_threads ? sizeof address : 0);
    qsort(times, count, sizeof *times, by_size);
    printf("%ld %ld\n", times[count / 2], times[count * 99L / 100]);
    return 0;
}
