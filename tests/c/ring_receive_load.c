// Threads, each with a socket of its own and, as far as there are enough, a CPU, receive datagrams for a while. Says how many were received
// a second, all together. Arguments: the first port (each thread has the next one), threads, milliseconds.
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

// A sender sends fewer before it begins.
enum { THREADS_MAX = 64, FIRST = 100 };

static int port;
static pthread_barrier_t bound, ready;
static atomic_int counts;
static _Atomic uint64_t received[THREADS_MAX][16];

static void *use(void *argument) {
    int thread = (int)(intptr_t)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(thread % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port + thread)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof here) != 0) {
        perror("bind");
        exit(1);
    }
    pthread_barrier_wait(&bound);
    char data[128];
    for (int i = 0; i < FIRST; i++)
        recv(fd, data, sizeof data, 0);
    pthread_barrier_wait(&ready);
    for (;;)
        if (recv(fd, data, sizeof data, 0) > 0 && atomic_load_explicit(&counts, memory_order_relaxed))
            atomic_store_explicit(&received[thread][0], received[thread][0] + 1, memory_order_relaxed);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    port = atoi(argv[1]);
    int threads = atoi(argv[2]);
    double msec = atof(argv[3]);
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    pthread_t started;
    pthread_barrier_init(&bound, NULL, 2);
    pthread_barrier_init(&ready, NULL, threads + 1);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&started, NULL, use, (void *)(intptr_t)i) != 0)
            return 1;
        // One after the other: thread number n has ring number n, if there are as many.
        pthread_barrier_wait(&bound);
    }
    puts("bound");
    fflush(stdout);
    pthread_barrier_wait(&ready);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    atomic_store(&counts, 1);
    usleep((useconds_t)(msec * 1000));
    atomic_store(&counts, 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    uint64_t total = 0;
    for (int i = 0; i < threads; i++)
        total += received[i][0];
    double seconds = (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9;
    printf("rate %.0f\n", (double)total / seconds);
    return 0;
}
