/* For programs that measure. Times are in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define UNUSED __attribute__((unused))

static void die(const char *what) {
    perror(what);
    exit(1);
}

UNUSED static void check(int ok, const char *what) {
    if (!ok)
        die(what);
}

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Of the process. */
UNUSED static long cpu_nsec(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000L + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000L;
}

static int by_size(const void *a, const void *b) {
    long left = *(const long *)a, right = *(const long *)b;
    return (left > right) - (left < right);
}
