// Threads with a socket each receive numbered datagrams of several senders, in ways of their own, and answer now and then. Each datagram
// has to come once and in order. Arguments: the first port, threads, senders, datagrams of each sender to each socket, datagrams from
// answer to answer; 1 if each thread is to run on one CPU at first, and on another after half of its datagrams. At its end each says on
// how many CPUs it may run.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS_MAX = 8, SENDERS_MAX = 64 };

static int port, threads, senders;
static uint32_t count, per_answer;
static int moves, cpus;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// How a thread waits: 0 in recv, 1 in epoll_wait, 2 not at all, 3 in poll.
static void wait_for(int fd, int way, int set) {
    struct pollfd polled = {fd, POLLIN, 0};
    struct epoll_event event;
    if (way == 1 && epoll_wait(set, &event, 1, -1) < 0 && errno != EINTR)
        fail("epoll_wait");
    if (way == 2)
        sched_yield();
    if (way == 3 && poll(&polled, 1, -1) < 0 && errno != EINTR)
        fail("poll");
}

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu % cpus, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("sched_setaffinity");
}

static void *use(void *argument) {
    int thread = (int)(intptr_t)argument, way = thread % 4, set = epoll_create1(0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port + thread)}, from;
    if (moves)
        run_on(thread);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 20;
    if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof here) != 0)
        fail("bind");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
    uint32_t next[SENDERS_MAX] = {0}, message[2];
    printf("ready\n");
    fflush(stdout);
    for (uint64_t left = (uint64_t)senders * count; left > 0;) {
        socklen_t len = sizeof from;
        int flags = way == 0 ? 0 : MSG_DONTWAIT;
        ssize_t got = recvfrom(fd, message, sizeof message, flags, (struct sockaddr *)&from, &len);
        if (got < 0 && errno == EAGAIN) {
            wait_for(fd, way, set);
            continue;
        }
        if (got != sizeof message)
            fail("recvfrom");
        if (message[0] >= (uint32_t)senders || next[message[0]] != message[1]) {
            fprintf(stderr, "thread %d: %u of sender %u, not %u\n", thread, message[1], message[0], next[message[0]]);
            exit(1);
        }
        next[message[0]]++;
        left--;
        if (moves && left == (uint64_t)senders * count / 2)
            run_on(thread + 1);
        if ((message[1] + 1) % per_answer == 0 && sendto(fd, message, sizeof message, 0, (struct sockaddr *)&from, len) < 0)
            fail("sendto");
    }
    cpu_set_t runs_on;
    if (sched_getaffinity(0, sizeof runs_on, &runs_on) != 0)
        fail("sched_getaffinity");
    printf("CPUs: %d\n", CPU_COUNT(&runs_on));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    cpus = sysconf(_SC_NPROCESSORS_ONLN);
    port = atoi(argv[1]);
    threads = atoi(argv[2]);
    senders = atoi(argv[3]);
    count = strtoul(argv[4], NULL, 10);
    per_answer = strtoul(argv[5], NULL, 10);
    moves = atoi(argv[6]);
    pthread_t started[THREADS_MAX];
    if (threads > THREADS_MAX || senders > SENDERS_MAX)
        return 2;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, use, (void *)(intptr_t)i) != 0)
            fail("pthread_create");
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    puts("received");
    fflush(stdout);
    char end;
    return read(STDIN_FILENO, &end, 1) == 0 ? 0 : 1;
}
