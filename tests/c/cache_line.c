/* cache_line <cpu> <cpu>: how long a cache line takes from one CPU to another and back, in nanoseconds (the least mean of ten). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRIPS 20000
#define REPETITIONS 10

static _Alignas(128) atomic_uint ball;

static void run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
}

static void *other(void *cpu)
{
    run_on((int)(intptr_t)cpu);
    for (unsigned n = 0; n < REPETITIONS * TRIPS; n++) {
        while (atomic_load(&ball) != 2 * n + 1)
            ;
        atomic_store(&ball, 2 * n + 2);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, (void *)(intptr_t)atoi(argv[2])) != 0)
        return 1;
    run_on(atoi(argv[1]));
    double least = 1e9;
    for (unsigned n = 0; n < REPETITIONS * TRIPS;) {
        struct timespec begun, ended;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (unsigned trips = 0; trips < TRIPS; trips++, n++) {
            atomic_store(&ball, 2 * n + 1);
            while (atomic_load(&ball) != 2 * n + 2)
                ;
        }
        clock_gettime(CLOCK_MONOTONIC, &ended);
        double nsec = (double)(ended.tv_sec - begun.tv_sec) * 1e9 + (double)(ended.tv_nsec - begun.tv_nsec);
        least = nsec / TRIPS < least ? nsec / TRIPS : least;
    }
    pthread_join(thread, NULL);
    printf("%.0f\n", least);
    return 0;
}
