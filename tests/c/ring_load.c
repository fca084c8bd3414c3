// Threads, each with a socket of its own and, as far as there are enough, a CPU, send datagrams of 64 octets for a while. Says how many
// were sent a second. Arguments: peer's address, port, threads, milliseconds; a fifth, if each thread sends to a port of its own, the
// next after that of the thread before.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

static struct sockaddr_in peer;
static int ports_apart;
static pthread_barrier_t ready;
static atomic_int over;
static uint64_t sent[THREADS_MAX][16];

static void *use(void *argument) {
    int thread = (int)(intptr_t)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(thread % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
    struct sockaddr_in to = peer;
    if (ports_apart)
        to.sin_port = htons(ntohs(peer.sin_port) + thread);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("connect");
        exit(1);
    }
    char data[64] = {0};
    // Until the peer's hardware address is known, datagrams go through the kernel.
    for (int i = 0; i < 10; i++) {
        send(fd, data, sizeof data, 0);
        usleep(20 * 1000);
    }
    pthread_barrier_wait(&ready);
    uint64_t count = 0;
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        count += send(fd, data, sizeof data, 0) == sizeof data;
    sent[thread][0] = count;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 6)
        return 2;
    ports_apart = argc == 6;
    peer.sin_family = AF_INET;
    peer.sin_port = htons(atoi(argv[2]));
    inet_pton(AF_INET, argv[1], &peer.sin_addr);
    int threads = atoi(argv[3]);
    double msec = atof(argv[4]);
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    pthread_t started[THREADS_MAX];
    pthread_barrier_init(&ready, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, use, (void *)(intptr_t)i) != 0)
            return 1;
    pthread_barrier_wait(&ready);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    usleep((useconds_t)(msec * 1000));
    atomic_store(&over, 1);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    uint64_t total = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
        total += sent[i][0];
    }
    double seconds = (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9;
    printf("%.0f\n", (double)total / seconds);
    return 0;
}
